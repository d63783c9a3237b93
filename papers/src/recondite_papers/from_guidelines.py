"""Rows of a comparison as the tables of Tan et al. (2024) want them: times, faces, guidelines."""

from __future__ import annotations

from collections.abc import Sequence

from recondite_papers.groups import Group, Rows
from recondite_papers.tables.cells import mean

__all__ = ["batches", "compressed", "faces", "times"]

Groups = Sequence[Group]
# What the tables call the three trainings of Table 2, and the three leaks of Figure 6.
_TIMED = {"none": "sgd", "gaussian": "dp", "natural": "data"}
_LEAKS = {"none": "none", "gaussian": "dp", "constant-noise": "constant"}


def times(groups: Groups) -> Rows:
    """Table 2: one row for a network, with the least time over seeds; none where one is missing."""
    found = {_TIMED[group.kind]: group for group in groups if group.kind in _TIMED}
    if set(found) != set(_TIMED.values()):
        return []
    plain = found["sgd"]
    seconds = {
        f"seconds_{key}": min(float(row["seconds"]["train"]) for row in group.rows)
        for key, group in found.items()
    }
    return [
        {
            **plain.label(),
            "repeats": min(len(group.rows) for group in found.values()),
            "parameters": plain.row["model"]["parameters"],
            **seconds,
        }
    ]


def faces(groups: Groups) -> Rows:
    """Figure 5: the error of noisy faces before their pixels are cut, and their similarity."""
    out = []
    for group in groups:
        scores = [row["reconstruction"] for row in group.rows]
        scale = mean([value**2 for value in group.row["data"]["std"] or (1.0,)])
        errors = {
            key: mean([float(each[f"mse_uncut_{part}"]) for each in scores]) / scale
            for key, part in (
                ("mse_scaled", "mean"),
                ("mse_eyes", "inside"),
                ("mse_rest", "outside"),
            )
        }
        ssim = mean([float(each["ssim_mean"]) for each in scores])
        out.append({**group.label(), **errors, "ssim": ssim})
    return out


def batches(groups: Groups) -> Rows:
    """Figure 6: mean images by the batch size of the attacked gradient."""
    return [
        {
            **group.label(),
            **group.pictures(),
            "defence": _LEAKS[group.kind],
            "batch": group.asked["batch_size"],
            "block": f"batch/{group.head['data']}",
        }
        for group in groups
    ]


def compressed(groups: Groups) -> Rows:
    """Figure 8: by the eigenvalue that was removed; 0 where none was."""
    out = []
    for group in groups:
        removed = group.row["data"].get("removed") or {"places": [None], "eigenvalues": [0.0]}
        own = {"value": removed["eigenvalues"][0], "place": removed["places"][0]}
        block = f"compression/{group.head['data']}"
        out.append({**group.label(), **group.pictures(), **own, "block": block})
    return out
