"""Verdicts follow from the stored rows: what a page says is recomputed here."""

import json
import sys
from pathlib import Path

import pytest

from recondite_papers.tables import channel_claims, compare_verdicts, prediction
from recondite_papers.tables.compare import table_3

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("compare", "channel", "dirdp", "dirdp-v1")


def rows(job):
    sys.path.insert(0, str(ROOT / "papers" / "pages"))
    try:
        import parts
    finally:
        sys.path.pop(0)
    return parts.rows(job)


@pytest.mark.parametrize("page", PAGES)
def test_every_claim_says_what_to_believe_in_twelve_words(page):
    text = (ROOT / "docs" / "studies" / f"{page}.md").read_text()
    lines = text[text.index("| claim |") : text.index("### Why")].strip().splitlines()[2:]
    assert lines
    for line in lines:
        _, claim, _, believe, _ = (part.strip() for part in line.split("|"))
        assert 2 <= len(believe.split()) <= 12, claim


def test_capacity_predicts_better_than_epsilon_and_the_radius_is_why():
    attacks, signal = rows("compare-iga"), rows("compare-signal")
    page = (ROOT / "docs" / "studies" / "compare.md").read_text()
    for data in ("mnist", "fashion-mnist"):
        found = prediction.settings(attacks, signal, data)
        assert len(found) == 58
        rho = prediction.ranks(found)
        assert abs(rho["epsilon"]) < 0.45 < abs(rho["capacity_1"])
        assert abs(rho["capacity_L"]) > 0.85
        assert abs(rho["capacity_length"]) > 0.9
        for key in ("1", "L", "length"):
            assert abs(rho[f"capacity_{key}"] - rho[f"information_{key}"]) < 0.02
        for kind in ("vmf", "gaussian"):
            alone = prediction.ranks([one for one in found if one.defence == kind])
            assert max(alone.values()) - min(alone.values()) < 0.01
        assert f"{rho['capacity_length']:+.2f}" in page
    (one,) = prediction.verdict(attacks, signal)
    assert one.stands == "stands"
    assert one.evidence in page


def test_at_equal_accuracy_only_settings_count_where_the_attack_sees_something():
    found = compare_verdicts.verdicts(
        rows("compare-accuracy"), rows("compare-iga"), rows("compare-signal")
    )
    matched = next(v for v in found if "equal utility" in v.claim)
    assert "+0.43 from Gaussian's, most for MNIST at 92%" in matched.evidence


def test_noise_drawn_once_is_priced_against_no_defence_too():
    text = channel_claims.once_costs(rows("channel-accuracy"))
    page = (ROOT / "docs" / "studies" / "channel.md").read_text()
    assert text in page
    plain = [r for r in rows("channel-accuracy") if r["defence"] == "none"]
    once = [
        r
        for r in rows("channel-accuracy")
        if (r["defence"], r["value"], r["noise"]) == ("natural", 50.0, "once")
    ]
    for data in ("cifar10", "fashion-mnist"):
        first, second = (
            100 * sum(r["accuracy"]) / len(r["accuracy"])
            for part in (plain, once)
            for r in part
            if r["data"] == data
        )
        assert f"{first - second:.1f} (κ = 50)" in text


def test_the_strongest_attack_is_the_smallest_error_over_its_settings():
    stored = json.loads((ROOT / "results" / "channel-inversion.cifar.json").read_text())["rows"]
    at = channel_claims.strongest(stored)
    assert at["natural", 300.0] == min(
        r["mse_scaled"] for r in stored if (r["defence"], r["value"]) == ("natural", 300.0)
    )


def test_mean_and_spread_are_on_one_scale():
    row = {
        "block": "dlg/mnist", "defence": "none", "value": 0.0, "mse": 0.01, "mse_scaled": 0.1,
        "mse_scaled_sd": 0.2, "ssim_placed": 0.5,
    }  # fmt: skip
    cell = next(c for c in table_3([row]) if c.name == "MNIST, none: MSE")
    assert cell.spread == pytest.approx(0.02)
