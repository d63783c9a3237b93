"""Rows as a flat table."""

import math

from recondite.studies.frame import flat


def test_sections_become_columns_and_lists_json():
    row = {
        "key": "abc",
        "notions": {"epsilon": "inf", "rero": 0.25, "assumptions": ["public"]},
        "reconstruction": None,
        "attack_options": {"images": 4},
        "notes": ["ä"],
        "seconds": {"training": 2.5},
    }
    assert flat(row) == {
        "key": "abc",
        "notions.epsilon": math.inf,
        "notions.rero": 0.25,
        "notions.assumptions": '["public"]',
        "attack_options": '{"images": 4}',
        "notes": '["ä"]',
        "seconds.training": 2.5,
    }
