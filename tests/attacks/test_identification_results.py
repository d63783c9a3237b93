"""The stored games: what the page prints is what was played, and nothing beats its bound."""

import json
from pathlib import Path

import numpy as np
import pytest

from recondite.metrics.identification import chances_one_a_label, label_weights, summarised

ROOT = Path(__file__).resolve().parents[2]
STORED = json.loads((ROOT / "results" / "identification.json").read_text())
SETTINGS = STORED["settings"]
VARIED = [name for name in SETTINGS if name.endswith(("-mislabelled", "-slow"))]
NATURAL = [name for name in SETTINGS if name not in VARIED]
ANTIPODAL = STORED["antipodal"]["found"]
PAGE = (ROOT / "docs" / "theory" / "leakage.md").read_text(encoding="utf-8")


def interval(found):
    return f"{found['rate']:.3f} ({found['low']:.3f}–{found['high']:.3f})"


def in_one_line(*cells):
    return any(all(cell in line for cell in cells) for line in PAGE.splitlines())


@pytest.mark.parametrize("name", SETTINGS)
def test_no_intruder_exceeds_the_bound(name):
    setting = SETTINGS[name]
    for kind, found in setting["success"].items():
        for candidates, result in found.items():
            assert result["games"] >= 2000
            assert result["low"] <= setting["bound"][kind][candidates]
        if "one_a_label" in setting:
            assert setting["one_a_label"][kind]["low"] <= setting["bound"][kind]["10"]


@pytest.mark.parametrize("name", NATURAL)
def test_the_page_prints_what_was_played(name):
    setting = SETTINGS[name]
    assert in_one_line(
        f"{100 * setting['accuracy']:.1f}%",
        interval(setting["success"]["secret"]["10"]),
        f"{setting['success']['known']['10']['rate']:.3f}",
        f"{setting['success']['secret']['1000']['rate']:.3f}",
    )


@pytest.mark.parametrize("name", VARIED)
def test_the_page_prints_what_long_gradients_give(name):
    setting = SETTINGS[name]
    ten, bound = setting["one_a_label"]["secret"], setting["bound"]["secret"]["10"]
    assert ten["games"] >= 2000
    assert in_one_line(
        f"{100 * setting['accuracy']:.1f}%",
        interval(setting["success"]["secret"]["10"]),
        interval(ten),
        f"{100 * ten['rate'] / bound:.1f}%",
    )


@pytest.mark.parametrize("name", ["gaussian-1.23-slow", "gaussian-1.23-allocation-slow"])
def test_the_bound_is_nearly_attained(name):
    """At least 85% of it, with one candidate of every label."""
    setting = SETTINGS[name]
    ten, bound = setting["one_a_label"]["secret"], setting["bound"]["secret"]["10"]
    assert ten["rate"] >= 0.85 * bound
    assert ten["low"] <= bound


def test_digits_with_their_own_labels_reach_85_percent_of_it():
    for name in ("gaussian-1.23", "gaussian-1.23-allocation"):
        setting = SETTINGS[name]
        share = setting["success"]["secret"]["10"]["rate"] / setting["bound"]["secret"]["10"]
        assert 0.85 <= share < 1.0
        assert f"{100 * share:.1f}%" in PAGE
        apart = setting["one_a_label"]["secret"]["rate"] / setting["bound"]["secret"]["10"]
        assert share < apart < 1.0
        assert f"{100 * apart:.1f}%" in PAGE


@pytest.mark.parametrize("name", STORED["again"])
def test_other_seeds_are_told_whatever_they_gave(name):
    """The page prints a repetition beside the table, and the share of the bound is within both."""
    found = STORED["again"][name]
    assert found["made"]["options"]["first"] >= 1000
    bound = found["bound"]["secret"]["10"]
    for ten in (found["success"]["secret"]["10"], found["one_a_label"]["secret"]):
        assert ten["games"] >= 2000
        assert ten["low"] <= bound
        assert ten["high"] >= 0.85 * bound
        assert interval(ten) in PAGE
        assert f"{100 * ten['rate'] / bound:.1f}%" in PAGE
    for kind, rates in found["success"].items():
        for candidates, result in rates.items():
            assert result["low"] <= found["bound"][kind][candidates]


@pytest.mark.parametrize("name", ANTIPODAL)
def test_von_mises_fisher_is_tight_at_its_worst_pair(name):
    found = ANTIPODAL[name]
    for claim in (*found["claim"].values(), found["two"]):
        assert claim["low"] <= claim["bound"]
        assert claim["rate"] > 0.9 * claim["bound"]
    assert found["ten"]["high"] < found["ten"]["bound"]  # the gap elsewhere
    assert in_one_line(
        f"κ = {name.removeprefix('vmf-')}",
        f"{found['claim']['10']['rate']:.3f}",
        f"{found['two']['rate']:.3f}",
        f"{found['ten']['rate']:.3f}",
    )


def test_every_label_counts_alike_with_one_candidate_of_each():
    """Against a plain mean over labels, and against the bound of a game with uniform candidates."""
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1, 2], [60, 30, 10])
    pool = np.arange(90) % 3
    scores = rng.normal(size=(100, 91))
    scores[:, 0] += 1.0 + labels
    each = chances_one_a_label(scores, labels, pool)
    found = summarised([each], 3, weights=[label_weights(labels)])
    stratified = np.mean([each[labels == one].mean() for one in range(3)])
    assert found.rate == pytest.approx(stratified)
    assert found.rate != pytest.approx(each.mean(), abs=0.01)
    # Scores that are the label's alone win by the label's frequency: a guess of one label has 1/3.
    certain = np.zeros((100, 91))
    certain[:, 0] = labels == 0
    certain[:, 1:] = pool == 0
    guess = chances_one_a_label(certain, labels, pool)
    assert np.average(guess, weights=label_weights(labels)) == pytest.approx(1 / 3)


def test_an_interval_of_games_that_count_differently_is_one_of_chances():
    """Within 0 and 1, and as wide as the games that carry the weight deserve."""
    labels = np.repeat([0, 1], [38, 2])
    weights = label_weights(labels)
    sure = summarised([np.ones(40)], 2, weights=[weights])
    assert sure.rate == pytest.approx(1.0)
    assert sure.high <= 1.0
    assert summarised([np.ones(40)], 2).low - sure.low > 0.2  # two games hold half of the weight
    mixed = summarised([np.where(labels == 1, 1.0, 0.1)], 2, weights=[weights])
    assert 0.0 <= mixed.low < mixed.rate < mixed.high <= 1.0
