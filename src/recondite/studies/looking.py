"""Looking at what a defence on records lets through, as an attack on a cell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from recondite.studies import attackers
from recondite.studies.identify import identification_claims
from recondite.studies.reconstruction import scored, seen_by_training, victims

if TYPE_CHECKING:
    from recondite.studies.cell import Trained

__all__ = ["look"]


def look(trained: Trained, attack: dict[str, Any]) -> dict[str, Any]:
    """Scores held-out records as the defence would hand them to a training, once each.

    ``mse_uncut_mean`` is the error of the released numbers, the noise's own power; all other
    scores are of the picture, its pixels cut to [0, 1].
    """
    from recondite.training.setup import load_records

    records, test = load_records(trained.plan, trained.task.get("data_dir"))
    chosen = test.subset(victims(test, attack["images"], trained.task["seed"]))
    images = chosen.images.unsqueeze(1)
    released, originals = test.pixels(seen_by_training(trained, records, images)), chosen.pixels()
    pixels = released.clamp(0, 1)
    out, gallery = scored(pixels, originals.unsqueeze(1))
    error = (released.squeeze(1) - originals).square()
    inside = attackers.build(attack["name"], attack["options"]).inside(records.shape)
    out |= {
        "mse_uncut_mean": float(error.mean()),
        "mse_uncut_inside": None if inside is None else float(error[:, inside].mean()),
        "mse_uncut_outside": None if inside is None else float(error[:, ~inside].mean()),
        "matching_loss": [],
        "labels_right": None,
        "iterations": 0,
        "restarts": 1,
        "batch_size": 1,
        "victim": None,  # no model takes part
        "images_from": "held-out records",
        "interrupted": False,
    }
    claims = identification_claims(trained, trained.model, pixels, test, chosen, 1, told=False)
    return {"reconstruction": out, "gallery": gallery, "claims": claims}
