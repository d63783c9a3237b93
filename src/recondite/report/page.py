"""``build``: one self-contained HTML file from one or several runs."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import asdict
from importlib import resources
from pathlib import Path
from typing import Any

from recondite._files import write_atomically
from recondite._version import __version__
from recondite.report import views
from recondite.report.answer import answer, setting
from recondite.report.chart import marker, scatter
from recondite.report.claims import claims
from recondite.report.correlation import predictions
from recondite.report.download import compressed, csv_text
from recondite.report.gallery import gallery
from recondite.report.improvement import with_improvements
from recondite.report.payload import available, embed, payload_points, series_of
from recondite.report.points import make_points
from recondite.report.provenance import assumptions, made, scope, simulated
from recondite.report.quantities import axes, axis, notion_axes
from recondite.report.rounds import rounds
from recondite.report.rows import Run, read_runs
from recondite.report.words import figure, percent, score, several

__all__ = ["build", "context"]

SCRIPTS = ("page.js", "answer.js", "chart.js", "gallery.js")


def build(
    run_dirs: Sequence[str | Path] | str | Path,
    out: str | Path,
    *,
    show_private: bool = False,
    title: str | None = None,
) -> Path:
    """Writes the report of one or several runs.

    The file asks nothing of any network, and its content-security policy lets no script run but
    the report's own. Whole or not at all: a failed build leaves an older file as it was.

    Args:
      run_dirs: One run directory, or several to compare.
      out: The file to write.
      show_private: Also show reconstructed pictures of data that is not known to be public. The
        file then holds private data.
      title: The heading; by default the question the study answers.

    Returns:
      The path of the file.

    Raises:
      ValueError: In one line, where a run cannot be read or a package is missing.
    """
    runs = read_runs(run_dirs)
    page = _render(context(runs, show_private=show_private, title=title))
    target = Path(out)
    target.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(target, page)
    return target


def context(runs: Sequence[Run], *, show_private: bool, title: str | None) -> dict[str, Any]:
    """Everything the template shows, as plain values."""
    points = with_improvements(make_points(runs))
    tested = claims(points)
    violated = {claim.point for claim in tested if claim.violated}
    index, series = series_of(points, runs)
    data = payload_points(points, violated, index)
    choice = answer(points, data, runs)
    chosen = choice["chosen"]
    strips, withheld = gallery(
        points, runs, [*([chosen] if chosen is not None else []), *choice["said"]],
        show_private=show_private,
    )  # fmt: skip
    keys = available(data)
    planes = _planes(keys)
    judged = choice["budget"].judge
    name, model = setting(runs[0])
    table = predictions(points)
    return {
        "title": title or f"Which defence for {model} on {name}?",
        "version": __version__,
        "runs": [{"index": run.index, "name": run.name, "setting": setting(run)} for run in runs],
        "several_runs": len(runs) > 1,
        "counts": _counts(runs, len(points)),
        "simulated": simulated(runs),
        "violations": views.violations(tested, points, runs),
        "answer": choice,
        "strip": next((s for s in strips if s.point == chosen), None),
        "series": [{**s, "path": marker(s["shape"], 8, 8)} for s in series],
        "axes": [asdict(axis(key)) for key in keys],
        "x_default": judged if judged in keys else keys[0] if keys else "",
        "charts": {
            "tradeoff": _chart(data, series, judged, "accuracy", choice["front"], keys),
            **{name: _chart(data, series, x, y, (), keys) for name, (x, y) in planes.items()},
        },
        "planes": planes,
        "results": views.result_rows(points, runs),
        "points": len(points),
        "notions": notion_axes(),
        "predictions": table,
        "finding": views.finding(table) if table else "",
        "strips": strips,
        "labels": [point.label for point in points],
        "run_of": [runs[point.run].name for point in points],
        "withheld": withheld,
        "claims": views.claim_rows(tested, points, runs),
        "audits": views.audit_rows(tested, points, runs),
        "tests": sum(claim.lower is not None for claim in tested),
        "plane_rows": views.plane_rows(points, runs),
        "rounds": rounds(runs, show_private=show_private),
        "failures": views.failures(runs),
        "made": [made(run) for run in runs],
        "scope": scope(points),
        "assumptions": assumptions(runs),
        "payload": embed(
            {
                "points": data,
                "series": series,
                "axes": {q.key: asdict(q) for q in axes() if q.key in keys},
                "said": choice["said"],
                "none": choice["none"],
                "qualityLimit": choice["quality_limit"],
                "qualityRange": choice["quality_range"],
                "planes": planes,
            }
        ),
        "csv": compressed(csv_text(runs)),
    }


def _counts(runs: Sequence[Run], points: int) -> str:
    rows = [row for run in runs for row in run.rows]
    parts = [several(points, "defence setting"), several(len(rows), "result row")]
    if len(runs) > 1:
        parts.insert(0, several(len(runs), "run"))
    return ", ".join(parts)


def _planes(keys: Sequence[str]) -> dict[str, tuple[str, str]]:
    """The two planes of Tan et al. (2024), where the data has them: Figures 16 and 15."""
    wanted = {"defences": ("imp_dra", "imp_mia"), "capability": ("gdc", "accuracy")}
    return {name: pair for name, pair in wanted.items() if set(pair) <= set(keys)}


def _chart(
    data: list[dict[str, Any]], series: list[dict[str, Any]], x: str, y: str,
    front: Sequence[int], keys: Sequence[str],
) -> str:  # fmt: skip
    if not {x, y} <= set(keys):
        return ""
    count = sum(bool(p["v"].get(x) and p["v"].get(y)) for p in data)
    name = (
        f"Scatter plot of {axis(y).label} against {axis(x).label}, {several(count, 'point')}; "
        "the numbers are in the table below."
    )
    return scatter(data, series, x, y, front=set(front), name=name)


def _render(values: dict[str, Any]) -> str:
    try:
        from jinja2 import Environment, StrictUndefined
        from markupsafe import Markup
    except ImportError:
        raise ValueError(
            "the report needs jinja2: install it with pip install 'recondite[compare]'"
        ) from None
    plotly = _plotly()
    script = "(() => {\n'use strict';\n" + "\n".join(map(_asset, SCRIPTS)) + "\n})();"
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters.update(figure=figure, percent=percent, score=score)
    # Only what this package wrote itself is exempt from escaping.
    trusted = {
        "style": Markup(_asset("style.css")),
        "script": Markup(script),
        "payload": Markup(values["payload"]),
        "charts": {name: Markup(svg) for name, svg in values["charts"].items()},
        "plotly": Markup(compressed(plotly)),
        "policy": _policy(script, plotly),
    }  # fmt: skip
    return environment.from_string(_asset("template.html")).render({**values, **trusted})


def _policy(*scripts: str) -> str:
    """No network at all, and no script but these, by their hashes."""
    hashes = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
        for text in scripts
    )
    return (
        "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data: blob:; "
        f"style-src 'unsafe-inline'; script-src {hashes}"
    )


def _asset(name: str) -> str:
    text = resources.files("recondite.report").joinpath("assets", name).read_text(encoding="utf-8")
    return text.replace("\r\n", "\n")


def _plotly() -> str:
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        raise ValueError(
            "the report needs plotly: install it with pip install 'recondite[compare]'"
        ) from None
    source: str = get_plotlyjs()
    return source
