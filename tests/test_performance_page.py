"""The performance page says what the committed results say."""

import importlib.util
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
pytest.importorskip("matplotlib")


def maker():
    spec = importlib.util.spec_from_file_location("made", ROOT / "docs" / "make_performance.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_table_is_the_one_that_is_made_of_the_results():
    """``python docs/make_performance.py --tables`` puts them there."""
    made = maker().tables()
    assert len(made) >= 4
    for table in made:
        assert table in PAGE


@pytest.mark.parametrize(
    ("value", "written"),
    [(0.13089, "0.131"), (2049.288, "2,049"), (27.4, "27.4"), (1.3, "1.3"), (None, ""), (0.0, "0")],
)
def test_numbers_are_shortened_and_not_made_better(value, written):
    assert maker().short(value) == written


def test_growth_is_shown_against_batch_width_depth_and_dimension():
    grown = json.loads((ROOT / "results" / "gpu-growth.json").read_text(encoding="utf-8"))["rows"]
    for kind in ("batch", "width", "depth"):
        sides = {row["side"] for row in grown if row["against"] == kind}
        assert sides == {"plain", "gaussian", "vmf"}
        assert len({row["x"] for row in grown if row["against"] == kind}) >= 4
    for name in ("growth", "noise", "epsilon"):
        assert f"images/performance-{name}.svg" in PAGE
        assert (ROOT / "docs" / "images" / f"performance-{name}.svg").exists()


def test_what_is_not_reached_is_there_with_its_profile():
    assert "results/gpu-profile.json" in PAGE
    assert "results/cpu-step-parts.json" in PAGE
