"""Guesses that see no release, on the images that the four papers' attacks are run on."""

import json
from pathlib import Path

import pytest
import torch

from recondite_papers.jobs.blind import guesses
from recondite_papers.jobs.data import Split
from recondite_papers.tables import compare_verdicts, prediction

ROOT = Path(__file__).resolve().parents[2]


def stored(name):
    return json.loads((ROOT / "results" / name).read_text())["rows"]


def test_the_guess_is_the_mean_of_test_records_and_of_a_class():
    images = torch.arange(8.0).reshape(4, 1, 1, 2) / 8
    labels = torch.tensor([0, 1, 0, 1])
    data = Split(torch.zeros(2, 1, 1, 2), labels[:2], images, labels, 0.0, 1.0, "made", 3)
    found = guesses(data, torch.tensor([1, 2]))
    assert torch.equal(found["mean image"][0], images.mean(0))
    assert torch.equal(found["class mean"][0], images[[1, 3]].mean(0))
    assert torch.equal(found["class mean"][1], images.mean(0))  # a class without test records


def test_floors_are_stored_for_every_paper():
    found = {(r["study"], r["data"]) for r in stored("blind.cpu.json")}
    assert len(found) == 10
    assert {study for study, _ in found} == {"compare", "channel", "dirdp", "dirdp-v1"}


def test_no_noisy_setting_of_biswas_beats_the_mean_image_by_error():
    """The sentence on the page and its numbers, from the rows."""
    blind, attacks = stored("blind.cpu.json"), stored("compare-iga.full.json")
    page = (ROOT / "docs" / "studies" / "compare.md").read_text()
    assert prediction.floor([], "mnist") == (0.0, 1.0)
    counted = 0
    for data in ("mnist", "fashion-mnist"):
        least, _ = prediction.floor(blind, data)
        noisy = [
            r["mse_scaled_placed"]
            for r in attacks
            if r["block"] == f"iga-128/{data}" and r["defence"] in ("gaussian", "vmf")
        ]
        assert min(noisy) > least
        counted += len(noisy)
    assert f"in {counted} of {counted} noisy settings" in page


@pytest.mark.parametrize(
    ("mse", "ssim", "right"), [(2.0, 0.0, False), (0.5, 0.0, True), (2.0, 0.4, True)]
)
def test_either_measure_is_enough_to_beat_a_guess(mse, ssim, right):
    assert prediction.beats(mse, ssim, (1.0, 0.3)) is right


def test_errors_of_an_attack_that_fails_are_said_to_be():
    points = {"mnist": [{"defence": "vmf", "mse": 4.0}], "fashion-mnist": []}
    blind = [{"study": "compare", "data": "mnist", "guess": "mean image",
              "mse_scaled_placed": 1.5, "ssim_placed": 0.1}]  # fmt: skip
    assert "1 of 1 noisy settings on MNIST (1.50)" in compare_verdicts.failing(points, blind)
    assert compare_verdicts.failing(points, []) == ""
