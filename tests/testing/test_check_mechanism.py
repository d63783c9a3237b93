"""The conformance suite passes our own mechanisms, and finds what is wrong with others."""

import dataclasses
import math

import numpy as np
import pytest
import torch

import recondite as rc
from recondite.mechanisms import ParameterChannel
from recondite.testing import check_mechanism

torch.set_num_threads(1)

OWN = [
    rc.Gaussian(1.5),
    rc.VonMisesFisher(1.0),
    rc.PartitionedVonMisesFisher(0.7, blocks=2),
    rc.PartitionedVonMisesFisher(0.7, blocks="layers"),
    rc.Directional(0.8),
    rc.Directional(0.5, blocks="layers"),
    ParameterChannel(3.0),
    rc.NoNoise(),
]


@pytest.mark.parametrize("mechanism", OWN, ids=lambda m: f"{m.name}-{getattr(m, 'blocks', '')}")
def test_our_own_keep_the_contract(mechanism):
    check_mechanism(mechanism)


class Quiet(rc.Gaussian):
    """Seven tenths of the noise, and a likelihood that says otherwise."""

    def perturb(self, gradient, generator=None):
        return gradient + 0.7 * (super().perturb(gradient, generator) - gradient)


class Unaware(rc.Gaussian):
    """Takes no heed that layers bounded apart move a sum further."""

    def configured(self, setting):
        made = super().configured(setting)
        return dataclasses.replace(made, clip_norm=1.0, layers=None, layer_norms=None)


class Boastful(rc.Gaussian):
    """Claims half of what a record moves."""

    def loss(self, relation):
        return dataclasses.replace(self, noise_multiplier=2 * self.noise_multiplier)._own(relation)

    def _own(self, relation):
        return rc.Gaussian.loss(self, relation)


class Upside(rc.Gaussian):
    """Says that less noise has the larger multiplier."""

    weaker = "larger"


class Short(rc.Gaussian):
    """Leaves a coordinate out."""

    def perturb(self, gradient, generator=None):
        return super().perturb(gradient, generator)[..., 1:]


class Wrong(rc.Gaussian):
    """Draws rightly; its likelihood is of another deviation."""

    def log_likelihood(self, release, gradient):
        return 0.3 * super().log_likelihood(release, gradient)


class Fixed(rc.Gaussian):
    """Draws the same noise again and again."""

    def perturb(self, gradient, generator=None):
        return super().perturb(gradient, generator or _seeded(gradient))


class Fragile(rc.VonMisesFisher):
    """Refuses a batch that cancels out."""

    def release(self, gradient, generator=None):
        return self.perturb(gradient, generator)


def _seeded(gradient):
    if isinstance(gradient, torch.Tensor):
        return torch.Generator().manual_seed(0)
    return np.random.default_rng(0)


@pytest.mark.parametrize(
    ("mechanism", "words"),
    [
        (Quiet(1.0), "less noise than was accounted|not the density"),
        (Unaware(1.0), "layers bounded apart: .*less noise than was accounted"),
        (Boastful(0.7), "less noise than was accounted"),
        (Upside(1.0), "must not cost less"),
        (Short(1.0), r"gaussian must release shape \(6,\), got shape \(5,\)"),
        (Wrong(1.0), "not the density of perturb"),
        (Fixed(1.0), "repeats itself without a generator"),
        (Fragile(1.0), "must release something of a gradient of zeros"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_wrong_is_found(mechanism, words):
    with pytest.raises((AssertionError, ValueError), match=words) as caught:
        check_mechanism(mechanism)
    assert "\n" not in str(caught.value).split("\nassert")[0]
    assert math.isfinite(mechanism.strength)
