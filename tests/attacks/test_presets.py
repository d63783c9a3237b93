"""The papers' settings by name."""

import pytest

from recondite.attacks.presets import PRESETS, preset
from recondite.attacks.registry import build


@pytest.mark.parametrize("name", PRESETS)
def test_presets_are_settings_of_their_attacks(name):
    found = preset(name)
    attack = build(found.attack, **found.options)
    assert attack.name == found.attack
    assert {each: getattr(attack, each) for each in found.options} == found.options


def test_others_are_refused_with_all_names():
    with pytest.raises(ValueError, match="^preset must be one of geiping-2020, .*, got 'none'"):
        preset("none")
