"""Channels by name, and weights of features."""

import numpy as np
import pytest

from recondite.channels import registry
from recondite.channels.registry import CHANNELS, centre_weights, fit, rectangle_weights
from recondite.defences import defences

RECORDS = np.random.default_rng(0).normal(size=(60, 3)) @ np.diag([3.0, 1.0, 0.5])


def test_the_names_are_those_of_the_list_of_defences():
    ours = {each.channel for each in defences().values() if each.channel is not None}
    assert set(CHANNELS) == ours
    assert {name: kind.name for name, kind in CHANNELS.items()} == {name: name for name in CHANNELS}


@pytest.mark.parametrize("name", CHANNELS)
def test_a_name_fits_its_channel(name):
    extra = {"beta": [1.0, 2.0, 1.0]} if CHANNELS[name].weighted else {}
    fitted = fit(name, RECORDS, 0.7, **extra)
    assert type(fitted) is CHANNELS[name]
    assert fitted.capacity_nats == pytest.approx(0.7)


def test_weights_go_where_they_belong():
    with pytest.raises(ValueError, match="^beta is needed for the personalized channel"):
        fit("personalized", RECORDS, 0.7)
    with pytest.raises(ValueError, match="^beta belongs to the personalized channel: leave it out"):
        fit("white", RECORDS, 0.7, beta=[1.0, 2.0, 1.0])
    with pytest.raises(ValueError, match="^channel must be one of natural, .*, got 'pink'"):
        fit("pink", RECORDS, 0.7)


def test_weights_of_images():
    weights = centre_weights((3, 8, 8), 4.0)
    assert weights.sum() == 3 * (64 - 16 + 4 * 16)
    assert (weights == rectangle_weights((3, 8, 8), rows=[2, 5], columns=[2, 5], weight=4.0)).all()
    with pytest.raises(ValueError, match=r"^beta rows must be \[first, last\] from 0 to 7"):
        rectangle_weights((3, 8, 8), rows=[2, 8], columns=[2, 5])
    with pytest.raises(ValueError, match="is for images, and records have the shape"):
        registry.centre_weights((64,))
