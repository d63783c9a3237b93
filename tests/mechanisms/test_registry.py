"""Mechanisms by name, those of other packages included."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import recondite as rc
from recondite.laws import GaussianLoss
from recondite.mechanisms import Mechanism, MetricPrivacy, mechanisms, registry

OWN = {
    "gaussian": rc.Gaussian,
    "vmf": rc.VonMisesFisher,
    "partitioned": rc.PartitionedVonMisesFisher,
    "directional": rc.Directional,
    "none": rc.NoNoise,
}


@dataclass(frozen=True)
class Logistic(Mechanism):
    """What another package might ship: dominated by a Gaussian pair of this width (made up)."""

    scale: float
    dim: int | None = None
    name: ClassVar[str] = "logistic"
    parameter: ClassVar[str] = "scale"
    weaker: ClassVar[str] = "smaller"

    def loss(self, relation):
        del relation
        return GaussianLoss(1.0 / self.scale)

    def perturb(self, gradient, generator=None):
        generator = generator or np.random.default_rng()
        return gradient + generator.logistic(scale=self.scale, size=gradient.shape)

    def log_likelihood(self, release, gradient):
        z = (release - gradient) / self.scale
        return (-np.logaddexp(0, z) - np.logaddexp(0, -z) - math.log(self.scale)).sum(-1)

    def log_bayes_capacity(self):
        return math.log1p(1 / self.scale)

    def mutual_information(self):
        return 1 / self.scale

    def metric_privacy(self):
        return MetricPrivacy(1 / self.scale, "L1 distance", "gradients", math.inf)

    def fisher_information(self):
        return 1 / (3 * self.scale**2)


class Entry:
    def __init__(self, name, value):
        self.name, self.value = name, value

    def load(self):
        return self.value


@pytest.fixture
def third_party(monkeypatch):
    def entry_points(*, group):
        if group != "recondite.defences":
            return []
        return [Entry("logistic", Logistic), Entry("vmf", Logistic)]

    monkeypatch.setattr(registry, "entry_points", entry_points)


def test_our_own():
    found = mechanisms()
    assert {name: found[name] for name in OWN} == OWN
    for name, mechanism in OWN.items():
        assert mechanism.name == name
        assert mechanism.stage in ("sum", "record")
        assert mechanism.weaker in ("larger", "smaller")


@pytest.mark.usefixtures("third_party")
def test_a_third_party_is_found_and_replaces_nothing():
    found = mechanisms()
    assert found["logistic"] is Logistic
    assert found["vmf"] is rc.VonMisesFisher


class Unproven(Logistic):
    """Promises nothing, and says so."""

    name: ClassVar[str] = "unproven"
    private: ClassVar[bool] = False
    bounds_gradients: ClassVar[bool] = False
    title: ClassVar[str] = "noise without a promise"


class Careless(Logistic):
    """Wants unclipped gradients and promises privacy all the same."""

    bounds_gradients: ClassVar[bool] = False


def test_what_promises_nothing_is_known_to_comparisons_only(monkeypatch):
    from recondite.studies.defences import kinds, label

    entries = [Entry("unproven", Unproven), Entry("logistic", Logistic)]
    monkeypatch.setattr(registry, "entry_points", lambda *, group: entries)
    assert "unproven" not in mechanisms()
    assert mechanisms(unproven=True)["unproven"] is Unproven
    found = kinds()
    assert [(found[n].private, found[n].bounds) for n in ("unproven", "logistic", "vmf")] == [
        (False, False), (True, True), (True, True),
    ]  # fmt: skip
    assert label("unproven", 2.0, {}) == "noise without a promise scale = 2"
    assert label("logistic", 2.0, {}) == "logistic scale = 2"


def test_a_promise_without_a_bound_on_gradients_is_left_out(monkeypatch):
    monkeypatch.setattr(registry, "entry_points", lambda *, group: [Entry("careless", Careless)])
    with pytest.warns(UserWarning, match="careless is left out: bounds_gradients is False"):
        assert "careless" not in mechanisms()
    with pytest.warns(UserWarning, match="needs private = False"):
        assert "careless" not in mechanisms(unproven=True)


def test_the_hook_is_importlibs(monkeypatch):
    # The registry reads the standard entry points, not a list of its own.
    import importlib
    from importlib import metadata

    monkeypatch.setattr(metadata, "entry_points", lambda *, group: [Entry("logistic", Logistic)])
    importlib.reload(registry)
    try:
        assert registry.mechanisms()["logistic"] is Logistic
    finally:
        monkeypatch.undo()
        importlib.reload(registry)
    assert "logistic" not in registry.mechanisms()


def test_a_third_party_gets_accounting_for_free():
    run = rc.Poisson(rate=0.01, steps=100)
    ours, theirs = rc.Gaussian(2.0, dim=5), Logistic(2.0, dim=5)
    assert rc.epsilon(theirs, run, 1e-5) == pytest.approx(rc.epsilon(ours, run, 1e-5))
    account = rc.account(theirs, run, 1e-5)
    assert account.to_dict()["mechanism"] == "logistic"
    assert account.to_dict()["parameters"] == {"scale": 2.0, "dim": 5}
    json.dumps(account.to_dict(), allow_nan=False)
    found = rc.calibrate(theirs, 1.0, "epsilon", run, delta=1e-5)
    assert found.parameter == "scale"
    assert found.achieved <= 1.0
