"""The stored games: what the page prints is what was played, and nothing beats its bound."""

import json
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = json.loads((ROOT / "results" / "identification.json").read_text())["settings"]
PAGE = (ROOT / "docs" / "theory" / "leakage.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", SETTINGS)
def test_no_intruder_exceeds_the_bound(name):
    setting = SETTINGS[name]
    for kind, found in setting["success"].items():
        for candidates, result in found.items():
            assert result["games"] >= 2000
            assert result["low"] <= setting["bound"][kind][candidates]
            assert result["rate"] <= setting["bound"][kind][candidates] + 1e-9


@pytest.mark.parametrize("name", SETTINGS)
def test_the_page_prints_what_was_played(name):
    setting = SETTINGS[name]
    ten = setting["success"]["secret"]["10"]
    cells = [
        f"{100 * setting['accuracy']:.1f}%",
        f"{ten['rate']:.3f} ({ten['low']:.3f}–{ten['high']:.3f})",
        f"{setting['success']['known']['10']['rate']:.3f}",
        f"{setting['success']['secret']['1000']['rate']:.3f}",
    ]
    assert any(all(cell in line for cell in cells) for line in PAGE.splitlines())


def test_the_bound_is_nearly_attained():
    for name in ("gaussian-1.23", "gaussian-1.23-allocation"):
        setting = SETTINGS[name]
        share = setting["success"]["secret"]["10"]["rate"] / setting["bound"]["secret"]["10"]
        assert 0.8 < share < 1.0
        assert f"{100 * share:.1f}%" in PAGE
