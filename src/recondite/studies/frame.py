"""Rows as a flat table: Parquet for pandas, and a log for MLflow."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from recondite._files import replaced
from recondite.studies.shapes import Row
from recondite.studies.store import load

__all__ = ["flat", "log_to_mlflow", "to_parquet"]

# Sections that become columns of their own; the rest stays as JSON text.
_SPREAD = ("data", "model", "training", "utility", "notions", "reconstruction", "membership")
_SPREAD_ALSO = ("seconds",)


def flat(row: Row) -> Row:
    """One level of columns: ``utility.test_accuracy``; infinite is a number, lists are JSON."""
    out: Row = {}
    for key, value in row.items():
        if key in (*_SPREAD, *_SPREAD_ALSO):
            for name, item in (value or {}).items():
                out[f"{key}.{name}"] = _cell(item)
        else:
            out[key] = _cell(value)
    return out


def _cell(value: Any) -> Any:
    if value in ("inf", "-inf"):
        return float(value)
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else value


def to_parquet(run: str | os.PathLike[str], path: str | os.PathLike[str] | None = None) -> Path:
    """Writes the rows of a run as Parquet, one column for each figure.

    Args:
      run: The run's folder.
      path: The file; ``records.parquet`` of the run by default.
    """
    try:
        import pandas as pd
        import pyarrow  # noqa: F401  (pandas writes with it)
    except ImportError:
        raise ValueError(
            "Parquet needs pandas and pyarrow: pip install 'recondite[parquet]'"
        ) from None
    target = Path(run) / "records.parquet" if path is None else Path(path)
    with replaced(target) as file:
        pd.DataFrame([flat(row) for row in load(run)]).to_parquet(file)
    return target


def log_to_mlflow(rows: Iterable[Row], experiment: str, tracking_uri: str | None = None) -> int:
    """Logs every finished row as an MLflow run; returns how many.

    Args:
      rows: The rows.
      experiment: The experiment's name.
      tracking_uri: Where to log; by default MLFLOW_TRACKING_URI or what MLflow itself takes.
    """
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.environ.setdefault("DO_NOT_TRACK", "true")
    try:
        from mlflow import MlflowClient
    except ImportError:
        raise ValueError("--mlflow needs MLflow: pip install 'recondite[mlflow]'") from None
    client = MlflowClient(tracking_uri=tracking_uri)
    found = client.get_experiment_by_name(experiment)
    number = client.create_experiment(experiment) if found is None else found.experiment_id
    there = {
        run.data.tags.get("recondite.key")
        for run in client.search_runs([number], max_results=50_000)
    }
    count = 0
    for row in rows:
        if row["status"] != "done" or row["key"] in there:
            continue
        name = f"{row['label']}, {row['attack']}, seed {row['seed']}"
        run = client.create_run(number, run_name=name, tags={"recondite.key": row["key"]})
        columns = flat(row)
        for key, value in columns.items():
            if isinstance(value, bool) or value is None or key in ("key", "schema_version"):
                continue
            if isinstance(value, int | float) and "." in key:
                client.log_metric(run.info.run_id, key, float(value))
            elif not isinstance(value, str) or len(value) <= 500:
                client.log_param(run.info.run_id, key, value)
        client.set_terminated(run.info.run_id)
        count += 1
    return count
