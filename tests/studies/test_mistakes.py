"""Mistakes in what channels and defences are given, and how batches are scored."""

import pytest
import torch

from recondite.attacks.scoring import scored
from recondite.studies.checks import mistakes_of
from recondite.studies.study import Study

BASE = {
    "data": "digits", "model": "mlp", "prepare": "none",
    "defences": [{"name": "personalized-channel", "capacity": [5]}],
}  # fmt: skip


@pytest.mark.parametrize(
    ("defence", "place", "said"),
    [
        ({"beta": {"rows": [1, 9], "columns": [0, 1]}}, "beta", "rows must be [first, last]"),
        ({"beta": {"row": [1, 2]}}, "beta", "must be a .npy file or {rows:"),
        ({"method": "guess"}, "method", "must be exact or paper, got 'guess'"),
        ({"training": {"records": 5}}, "training", "is for all defences: give it in training"),
    ],
)
def test_mistakes_in_what_channels_and_defences_are_given(defence, place, said):
    body = {**BASE, "defences": [{**BASE["defences"][0], **defence}]}
    found = mistakes_of(Study.model_validate(body))
    assert [(m.place[2], said in m.message) for m in found] == [(place, True)]


def test_a_study_on_part_of_the_records_checks_against_them():
    body = {**BASE, "training": {"records": 100, "batch_size": 200}}
    (mistake,) = mistakes_of(Study.model_validate(body))
    assert "at most 100, the training records" in mistake.message


def test_batches_are_scored_matched_and_by_position():
    true = torch.rand(1, 3, 1, 16, 16, generator=torch.Generator().manual_seed(0))
    scores, _ = scored(true[:, [1, 2, 0]], true)
    found = scores.to_dict()
    assert found["mse_mean"] == 0.0
    assert found["ssim_mean"] == pytest.approx(1.0)
    assert found["mse_placed_mean"] > 0.05
    assert found["ssim_placed_mean"] < 0.5
    single, _ = scored(true.transpose(0, 1), true.transpose(0, 1)[[1, 2, 0]])
    found = single.to_dict()
    assert found["mse_placed_mean"] == pytest.approx(found["mse_mean"], rel=1e-5)
    assert found["mse_mean"] > 0.05
