"""Rows of a comparison as the tables of the papers want them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from recondite.studies.study import Study
from recondite_papers import from_guidelines
from recondite_papers.groups import Group, Row, Rows
from recondite_papers.jobs.dirdp import EPSILONS, MULTIPLIERS
from recondite_papers.kept_lengths import ELEMENTS, KeptLengths
from recondite_papers.tables.cells import mean

__all__ = ["results_of"]

# Networks of study files that the tables know by the papers' names.
_NETWORKS = "recondite_papers.jobs.dirdp_networks"
_MODELS = {
    f"{_NETWORKS}:{prefix}{name}": model
    for prefix in ("", "usual_")
    for name, model in (("lenet", "lenet"), ("mlp", "mlp2"))
}


def results_of(
    ran: Iterable[tuple[str, Study, Any, Rows]], *, quick: bool = False
) -> dict[str, Rows]:
    """Rows by the name of the job whose tables they fill.

    Seeds of one setting become one row. Rows that failed are left out: their cells stay empty.

    Args:
      ran: File, study as the paper has it, folder, rows; as in
        :class:`recondite_papers.study_files.Ran`.
      quick: Whether rows are marked as a quick version's.
    """
    out: dict[str, Rows] = {}
    for name, study, _, rows in ran:
        model = _MODELS.get(study.model, study.model)
        head = {"data": study.data, "model": model, "run": "quick" if quick else ""}
        groups = [Group(head, members) for members in _settings(rows)]
        for stem, results in _FILES.items():
            if name.startswith(stem):
                for result, convert in results:
                    out.setdefault(result, []).extend(convert(groups))
    return out


def _settings(rows: Rows) -> Iterable[Rows]:
    """Finished rows of each defence, strength and attack: its seeds."""
    found: dict[str, Rows] = {}
    for row in rows:
        if row["status"] == "done":
            key = json.dumps([row["label"], row["attack"], row["attack_options"]], sort_keys=True)
            found.setdefault(key, []).append(row)
    return found.values()


Groups = Sequence[Group]


def _once(groups: Groups) -> list[Group]:
    """One group a training: of several attacks the first."""
    found: dict[str, Group] = {}
    for group in groups:
        found.setdefault(str(group.row["label"]), group)
    return list(found.values())


def _compare_accuracy(groups: Groups) -> Rows:
    out = []
    for group in _once(groups):
        batch, data = group.training["batch_size"], group.head["data"]
        block = f"main/{data}" if batch == 128 else f"batch-{batch}/{data}"
        out.append({**group.label(), **group.accuracy(), "block": block})
    return out


def _compare_pictures(kind: str) -> Callable[[Groups], Rows]:
    def convert(groups: Groups) -> Rows:
        out = []
        for group in groups:
            batch, data = group.asked["batch_size"], group.head["data"]
            block = f"dlg/{data}" if kind == "dlg" else f"iga-{batch}/{data}"
            found = {**group.label(), **group.pictures(), "batch": batch, "block": block}
            out.append(found)
        return out

    return convert


def _channel(group: Group) -> Row:
    label = group.label()
    if label["defence"] == "gaussian":
        label["defence"] = f"dp-{label['clipping']}"
    return label


def _rounds(groups: Sequence[tuple[Group, Any]]) -> Rows:
    """Trainings that differ in their steps only become one row: the longest, with all of them."""
    found: dict[tuple[Any, ...], list[tuple[Group, Any]]] = {}
    for group, value in groups:
        label = _channel(group)
        key = (label["defence"], label["value"], label["noise"])
        found.setdefault(key, []).append((group, value))
    out = []
    for members in found.values():
        ordered = sorted(members, key=lambda pair: pair[0].training["steps"])
        by_steps = {str(group.training["steps"]): value for group, value in ordered}
        last = ordered[-1][0]
        out.append({**_channel(last), **last.accuracy(), "by_steps": by_steps})
    return out


def _channel_accuracy(groups: Groups) -> Rows:
    return _rounds([(group, group.utility()) for group in _once(groups)])


def _channel_inversion(groups: Groups) -> Rows:
    return [
        {**_channel(g), **g.pictures(), "total_variation": g.options.get("total_variation", 1e-4)}
        for g in groups
    ]


def _channel_defence(groups: Groups) -> Rows:
    """Inversion and membership of each training; rows that have only one of them are left out."""
    inverted = {g.row["label"]: g.pictures() for g in groups if g.attack == "model-inversion"}
    asked = {g.row["label"]: g for g in groups if g.attack.startswith("membership")}
    both = [g for g in _once(groups) if g.row["label"] in inverted and g.row["label"] in asked]
    scale = {g.row["label"]: _median_scaled(inverted[g.row["label"]]) for g in both}
    out = []
    by_steps = {json.dumps([r["defence"], r["value"]]): r for r in
                _rounds([(g, scale[g.row["label"]]) for g in both])}  # fmt: skip
    for group in both:
        row = by_steps[json.dumps([_channel(group)["defence"], _channel(group)["value"]])]
        if row["steps"] != group.training["steps"]:
            continue
        label = group.row["label"]
        members = [r["membership"] for r in asked[label].rows]
        out.append(
            {
                **row,
                "mse_inversion": scale[label],
                "mse_start": inverted[label]["mse_start"],
                "auc": mean([float(found["auc"]) for found in members]),
                "members": int(group.row["data"]["records"]),
            }
        )
    return out


def _median_scaled(found: Row) -> float:
    return float(found["mse_scaled_median"])


def _directional_accuracy(groups: Groups) -> Rows:
    out = []
    for group in _once(groups):
        label = {**group.label(), **_partition(group)}
        faces = group.head["data"] == "lfw" and "test_top10_accuracy" in group.row["utility"]
        scores = group.utility("test_top10_accuracy") if faces else group.utility()
        out.append({**label, "accuracy": scores, "epsilon": group.epsilon()})
    return out


def _partition(group: Group) -> Row:
    """What the tables say of the noise on records: its blocks, and the weights of these."""
    if group.kind != "directional":
        return {}
    kept = group.row["defence"] == KeptLengths.name
    blocks = group.row["settings"].get("blocks", ELEMENTS if kept else 1)
    weights = "clipped" if kept else "public"
    return {"blocks": "flat" if blocks == 1 else blocks, "weights": weights}


def _by_epsilon(group: Group) -> Row:
    """A row of the tables of ε_G and ε_V."""
    label = {**group.label(), **_partition(group)}
    if label["defence"] == "gaussian":
        return {**label, "value": group.epsilon(), "sigma": label["value"]}
    return {**label, "defence": "vmf"} if label["defence"] == "directional" else label


def _directional_pictures(groups: Groups) -> Rows:
    """Files of Table 4 train one step: their σ is that of the epochs of Table 1, and known."""
    out = []
    for group in groups:
        row = _by_epsilon(group)
        if row["defence"] == "gaussian":
            known = MULTIPLIERS[row["model"], row["data"]]
            row["value"] = dict(zip(known, EPSILONS, strict=True))[row["sigma"]]
        out.append({**row, **group.pictures()})
    return out


def _directional_members(groups: Groups) -> Rows:
    out = []
    for group in groups:
        found = [row["membership"] for row in group.rows]
        out.append(
            {
                **_by_epsilon(group),
                **group.accuracy(),
                **{
                    key: mean([float(each[key]) for each in found])
                    for key in ("auc", "auc_low", "auc_high")
                },
                "members": found[0]["members"],
                "references": group.options.get("references", 8),
            }
        )
    return out


def _early_accuracy(groups: Groups) -> Rows:
    out = []
    for group in _once(groups):
        keys = {"1": "test_accuracy", "5": "test_top5_accuracy", "10": "test_top10_accuracy"}
        known = group.row["utility"]
        top = {k: mean(group.utility(key)) for k, key in keys.items() if key in known}
        # Stand-ins with few classes have no Top-5: there is nothing to compare.
        top = {**dict.fromkeys(keys, top["1"]), **top}
        records = group.row["data"]["records"]
        out.append({**_by_epsilon(group), "top": top, "records": records})
    return out


def _early_pictures(groups: Groups) -> Rows:
    out = []
    for group in groups:
        short = "dlg" if group.attack == "dlg" else "iga"
        block = f"{short}/{group.head['model']}/{group.head['data']}"
        label = {**group.label(), **_partition(group)}
        if label["defence"] == "directional":
            label["defence"] = "vmf"
        if label["defence"] == "gaussian":
            # The noise's standard deviation: σ times a clipping norm that clips nothing.
            norm = float(group.training["max_grad_norm"])
            label["value"] = float(f"{label['value'] * norm:.10g}")
        out.append({**label, **group.pictures(), "block": block})
    return out


def _early_shown(groups: Groups) -> Rows:
    """Figures 4 to 6 show images of the same attacks, with noise on whole gradients."""
    found = _early_pictures(groups)
    whole = [row for row in found if row.get("blocks", "flat") == "flat"]
    return [{**row, "attack": row["block"].split("/")[0]} for row in whole]


_EARLY = (("dirdp-v1-attacks", _early_pictures), ("dirdp-v1-pictures", _early_shown))
_FILES: dict[str, tuple[tuple[str, Callable[[Groups], Rows]], ...]] = {
    "compare/table-3-": (("compare-dlg", _compare_pictures("dlg")),),
    "compare/table-5-": (("compare-accuracy", _compare_accuracy),),
    "compare/table-6-": (("compare-iga", _compare_pictures("iga")),),
    "channel/table-2-": (("channel-times", from_guidelines.times),),
    "channel/figure-5-": (("channel-pictures", from_guidelines.faces),),
    "channel/figure-6-": (("channel-guidelines", from_guidelines.batches),),
    "channel/figure-8-": (("channel-guidelines", from_guidelines.compressed),),
    "channel/figure-9-": (
        ("channel-accuracy", _channel_accuracy),
        ("channel-networks", _channel_accuracy),
    ),
    "channel/figure-14-": (
        ("channel-inversion", _channel_inversion),
        ("channel-networks-inversion", _channel_inversion),
    ),
    "channel/figure-15-": (("channel-defence", _channel_defence),),
    "dirdp/table-2-": (("dirdp-accuracy", _directional_accuracy),),
    "dirdp/table-3-": (("dirdp-membership", _directional_members),),
    "dirdp/table-4-": (("dirdp-iga", _directional_pictures),),
    "dirdp-v1/table-1-": (("dirdp-v1-accuracy", _early_accuracy),),
    "dirdp-v1/table-2-": (("dirdp-v1-accuracy", _early_accuracy),),
    "dirdp-v1/table-3-": _EARLY,
    "dirdp-v1/table-6-": _EARLY,
}
