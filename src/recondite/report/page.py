"""``build``: one self-contained HTML file from one or several runs."""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Sequence
from dataclasses import asdict
from importlib import resources
from pathlib import Path
from typing import Any

from recondite._files import write_atomically
from recondite._version import __version__
from recondite.records.display import display
from recondite.report import views
from recondite.report.answer import SLACK, Answers, setting
from recondite.report.claims import claims
from recondite.report.correlation import predictions
from recondite.report.download import compressed, csv_text
from recondite.report.gallery import gallery
from recondite.report.intruders import intruders, victims
from recondite.report.ladder import BUDGET, RUNGS
from recondite.report.markers import marker
from recondite.report.payload import available, embed, payload_points, series_of
from recondite.report.person import people
from recondite.report.plain import TERMS, means_of, plain_label, scope_plainly
from recondite.report.points import unweighed
from recondite.report.provenance import made, per_defence, scope, simulated
from recondite.report.quantities import JUDGES, axes, axis, notion_axes
from recondite.report.recommend import Requirements
from recondite.report.rounds import rounds
from recondite.report.rows import StoredRun, read_runs
from recondite.report.words import figure, percent, score, several

__all__ = ["build", "context"]

SCRIPTS = (
    *("page.js", "roving.js", "terms.js", "scales.js", "card.js", "chart.js"),
    *("ladder.js", "answer.js", "gallery.js", "view.js"),
)
OPEN = 6  # strips of the gallery that are not folded away


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
      show_private: Also show reconstructed images of data that is not known to be public. The
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


def context(runs: Sequence[StoredRun], *, show_private: bool, title: str | None) -> dict[str, Any]:
    """Everything the template shows, as plain values."""
    answers = Answers.of(runs)
    points = answers.points
    tested = claims(points)
    index, series = series_of(points, runs)
    data = payload_points(points, answers.contradicted, index)
    choice = _choice(answers)
    chosen = choice["chosen"]
    first = [one.point for ranked in answers.ranked.values() for one in ranked]
    persons = people(answers, [chosen, *first, None], show_private=show_private)
    strips, withheld = gallery(
        points, runs, [*([chosen] if chosen is not None else []), *first],
        show_private=show_private,
    )  # fmt: skip
    keys = available(data)
    planes = _planes(keys)
    judged = next((key for key in JUDGES if key in keys), keys[0] if keys else "")
    name, model = setting(runs[0])
    table, means = predictions(points), means_of(points)
    return {
        "title": title or f"Which defence for {model} on {name}?",
        "plain_title": title or "Which defence for this model?",
        "version": __version__,
        "runs": [{"index": run.index, "name": run.name, "setting": setting(run)} for run in runs],
        "several_runs": len(runs) > 1,
        "counts": _counts(runs, len(points)),
        "simulated": simulated(runs),
        "violations": views.violations(tested, points, runs),
        "answer": choice,
        "intruders": intruders(answers),
        "people": persons,
        "terms": TERMS,
        "rungs": RUNGS,
        "series": [{**s, "path": marker(s["shape"], 8, 8)} for s in series],
        "axes": [asdict(axis(key)) for key in keys],
        "x_default": judged,
        "drawn": {"accuracy", judged} <= set(keys),
        "planes": planes,
        "results": views.result_rows(points, runs),
        "heads": views.measured_heads(points),
        "points": len(points),
        "notions": notion_axes(),
        "predictions": table,
        "finding": views.finding(table) if table else "",
        "strips": strips,
        "open": OPEN,
        "labels": [point.label for point in points],
        "plain_labels": [plain_label(point) for point in points],
        "means": {plain_label(point): means[point.defence] for point in points},
        "run_of": [runs[point.run].name for point in points],
        "withheld": withheld,
        "victims": victims(points),
        "claims": views.claim_rows(tested, points, runs),
        "audits": views.audit_rows(tested, points, runs),
        "tests": sum(claim.lower is not None for claim in tested),
        "plane_rows": views.plane_rows(points, runs),
        "rounds": rounds(runs, show_private=show_private),
        "failures": views.failures(runs),
        "made": [made(run) for run in runs],
        "scope": scope(points),
        "scope_plainly": scope_plainly(
            simulated=simulated(runs), unbounded=sum(not point.bounded for point in points)
        ),
        "per_defence": per_defence(points, runs),
        "payload": embed(
            {
                "points": data,
                "series": [{**s, "path": marker(s["shape"], 0, 0)} for s in series],
                "axes": {q.key: asdict(q) for q in axes() if q.key in keys},
                "answers": answers.payload(),
                "budget": BUDGET,
                "usual": _usual(answers.default_accuracy),
                "none": _none(answers),
                "planes": planes,
                "x": judged,
            }
        ),
        "csv": compressed(csv_text(runs)),
    }


def _choice(answers: Answers) -> dict[str, Any]:
    """The answer as the page opens: the curious server, and budgets that nobody named."""
    view = answers.view()
    limits = Requirements(accuracy=answers.default_accuracy or None).limits()
    chosen, meets = answers.choice(view, limits)
    accuracies = [
        value for point in answers.points if (value := point.mean("accuracy")) is not None
    ]
    low, high = (min(accuracies), max(accuracies)) if accuracies else (0.0, 1.0)
    lost = 0.0 if chosen is None else limits.get("accuracy", 0.0) - (chosen.values["accuracy"] or 0)
    return {
        "eyebrow": _eyebrow(answers.default_accuracy, meets=None if chosen is None else meets),
        "chosen": None if chosen is None else chosen.point,
        "said": None if chosen is None else answers.said(view, chosen),
        "meets": meets,
        "lost": f"{100 * lost:.1f}",
        "accuracy": answers.default_accuracy,
        "range": (math.floor(200 * low) / 200, math.ceil(200 * high) / 200),
        "rero": BUDGET,
        "nothing": answers.nothing(view),
        "none": _none(answers),
        "view": " ".join(view),
        "scopes": answers.scopes,
        "price": answers.price(view, limits),
    }


def _usual(accuracy: float) -> tuple[str, str]:
    """Where the accuracy that nobody asked for comes from, in both voices."""
    if not accuracy:
        return "", ""
    lost = f"{100 * SLACK:g}"
    return f" (about {lost} in 100 less than without a defence)", f" (undefended − {lost} points)"


def _none(answers: Answers) -> tuple[str, str, str]:
    """What stands where nothing is recommended: in both voices, and for what is proven."""
    if unweighed(answers.points) is None:
        return (
            "Nothing tried here is proven within these limits.",
            "Nothing tried here is proven within these budgets, at any accuracy.",
            "Nothing, within these limits.",
        )
    said = "None is recommended here: that goes by accuracy, and these models have none."
    return said, said, "See the ladder."


def _eyebrow(accuracy: float, *, meets: bool | None) -> tuple[str, str]:
    """What the answer is for, in both voices; None where there is none."""
    asked, (usual, usually) = percent(accuracy), _usual(accuracy)
    if meets is None:
        return "No recommendation", "No recommendation"
    if meets:
        plain = f"Recommended, if the model must be right at least {asked} of the time{usual}"
        return plain, f"For at least {asked} test accuracy{usually}"
    plain = f"No proven defence keeps the model right {asked} of the time{usual}; this is nearest"
    return plain, f"Nothing tried protects at {asked} test accuracy{usually}"


def _counts(runs: Sequence[StoredRun], points: int) -> str:
    rows = [row for run in runs for row in run.rows]
    parts = [several(points, "defence setting"), several(len(rows), "result row")]
    if len(runs) > 1:
        parts.insert(0, several(len(runs), "run"))
    return ", ".join(parts)


def _planes(keys: Sequence[str]) -> dict[str, tuple[str, str]]:
    """The two planes of Tan et al. (2024), where the data has them: Figures 16 and 15."""
    wanted = {"defences": ("imp_dra", "imp_mia"), "capability": ("gdc", "accuracy")}
    return {name: pair for name, pair in wanted.items() if set(pair) <= set(keys)}


def _render(values: dict[str, Any]) -> str:
    try:
        from jinja2 import Environment, StrictUndefined
        from markupsafe import Markup
    except ImportError:
        raise ValueError(
            "the report needs jinja2: install it with pip install 'recondite[compare]'"
        ) from None
    style = _asset("style.css")
    script = "(() => {\n'use strict';\n" + "\n".join(map(_asset, SCRIPTS)) + "\n})();"
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters.update(figure=figure, percent=percent, score=score)
    # Only what this package wrote itself is exempt from escaping.
    trusted = {
        "style": Markup(style),
        "script": Markup(script),
        "payload": Markup(values["payload"]),
        "show": lambda media, content, name: Markup(display(media, content, name)),
        "policy": _policy(script, style),
    }  # fmt: skip
    return environment.from_string(_asset("template.html")).render({**values, **trusted})


def _policy(script: str, style: str) -> str:
    """No network at all, no script and no style but these, by their hashes, no text as HTML."""
    return (
        "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; "
        f"style-src {_hash(style)}; script-src {_hash(script)}; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    )


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _asset(name: str) -> str:
    text = resources.files("recondite.report").joinpath("assets", name).read_text(encoding="utf-8")
    return text.replace("\r\n", "\n")
