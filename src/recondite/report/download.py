"""All rows as CSV, compressed for the page, safe to open in a spreadsheet."""

from __future__ import annotations

import base64
import csv
import gzip
import io
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from recondite.report.rows import Row, StoredRun

__all__ = ["compressed", "csv_text"]

# Lists of per-image scores and curves stay in records.jsonl; the CSV has their summaries.
_SKIPPED = {"roc", "privacy", "machine", "reasons", "claims", "ledger", "schema_version"}
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def csv_text(runs: Sequence[StoredRun]) -> str:
    """One line a row; nested fields as ``part.field``; text cells can never start a formula."""
    flat = [{"run": run.name, **_flatten(row)} for run in runs for row in run.rows]
    columns = list(dict.fromkeys(key for row in flat for key in row))
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow([_cell(column) for column in columns])
    writer.writerows([[_cell(row.get(column)) for column in columns] for row in flat])
    return out.getvalue()


@lru_cache(maxsize=2)
def compressed(text: str) -> str:
    """Gzip in base64, the same bytes every time."""
    return base64.b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode()


def _flatten(row: Row, prefix: str = "") -> Row:
    out: Row = {}
    for key, value in row.items():
        if key in _SKIPPED:
            continue
        if isinstance(value, dict):
            out.update(_flatten(value, f"{prefix}{key}."))
        elif isinstance(value, list):
            if all(isinstance(item, str) for item in value) and value:
                out[f"{prefix}{key}"] = "; ".join(value)
        else:
            out[f"{prefix}{key}"] = value
    return out


def _cell(value: Any) -> Any:
    if isinstance(value, str) and value.startswith(_FORMULA):
        # "-inf" and the like are numbers to those who read them; a spreadsheet must not run them.
        return "'" + value
    return _plain(value)


def _plain(value: Any) -> Any:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value
