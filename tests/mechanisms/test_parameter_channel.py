"""The controlled parameter channel as a mechanism: its noise, its compression, and training."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import recondite as rc
from recondite.channels.parameter import ControlledParameterChannel
from recondite.mechanisms import Setting, UndefinedNotionError
from recondite.mechanisms.parameter_channel import ParameterChannel, _variance
from recondite.training import PrivacyEngine

torch.set_num_threads(1)


def gradients(records, dim, seed=0):
    rng = np.random.default_rng(seed)
    return 1.0 + rng.standard_normal((records, dim)) * np.linspace(3.0, 0.2, dim)


def variance_of(mechanism, rows):
    return float(mechanism._steps(rows, refuse=True)[1]) ** 2


def test_the_toy_of_the_paper():
    # The gradient 2WD of W²D at W = 2, with D of variance 1.
    assert math.isclose(_variance(np.array([16.0]), 1.0), 16 / (math.e**2 - 1), rel_tol=1e-9)


@pytest.mark.parametrize("per_direction", [1e-3, 0.5, 2.0])
@pytest.mark.parametrize(("records", "dim"), [(12, 5), (5, 12), (2, 3), (40, 40)])
def test_the_noise_is_that_of_the_channel(per_direction, records, dim):
    rows, capacity = gradients(records, dim), per_direction * min(records - 1, dim)
    step = ControlledParameterChannel(capacity, batch_size=records).from_gradients(rows)
    assert math.isclose(
        variance_of(ParameterChannel(capacity), rows), step.noise_variance, rel_tol=1e-6
    )
    single = variance_of(ParameterChannel(capacity), torch.from_numpy(rows).float())
    assert math.isclose(single, step.noise_variance, rel_tol=1e-2)


@pytest.mark.parametrize("drop", [0, 2])
@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_the_release_is_the_compressed_average_and_that_noise(drop, library):
    mechanism, rows = ParameterChannel(5.0, drop=drop), gradients(20, 6)
    values, vectors = np.linalg.eigh(np.cov(rows.T))
    kept = vectors[:, : 6 - drop]
    centre = kept @ kept.T @ rows.mean(0)
    sigma = variance_of(mechanism, rows)
    ratios = values[: 6 - drop] / (20 * sigma)
    assert math.isclose(0.5 * np.log1p(ratios).sum(), 5.0, rel_tol=1e-9)
    many = np.broadcast_to(rows, (2000, 20, 6))
    if library == "numpy":
        drawn = mechanism.perturb(many, np.random.default_rng(1))
    else:
        generator = torch.Generator().manual_seed(1)
        drawn = mechanism.perturb(torch.from_numpy(many.copy()), generator).numpy()
    assert drawn.shape == (2000, 6)
    assert stats.kstest(((drawn - centre) / math.sqrt(sigma)).ravel(), "norm").pvalue > 1e-4


@pytest.mark.parametrize("lead", [(), (3,)])
def test_the_likelihood_is_a_normal_density_in_both_libraries(lead):
    mechanism = ParameterChannel(5.0, drop=1)
    rows = np.broadcast_to(gradients(7, 4), (*lead, 7, 4))
    release = mechanism.perturb(rows, np.random.default_rng(2))
    centre, deviation = mechanism._steps(rows, refuse=True)
    expected = stats.norm(centre, deviation[..., None]).logpdf(release).sum(-1)
    ours = mechanism.log_likelihood(release, rows)
    assert np.shape(ours) == lead
    np.testing.assert_allclose(ours, expected, rtol=1e-9)
    tensors = torch.from_numpy(release), torch.from_numpy(rows.copy()).requires_grad_()
    theirs = mechanism.log_likelihood(*tensors)
    np.testing.assert_allclose(theirs.detach().numpy(), ours, rtol=1e-9)
    theirs.sum().backward()
    assert bool(torch.isfinite(tensors[1].grad).all())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("rows", "drop"),
    [
        (np.full((1, 4), 3.0), 0),
        (np.zeros((0, 4)), 0),
        (np.zeros((5, 4)), 0),
        (np.full((5, 4), 0.1), 0),
        (gradients(3, 9), 2),
        (gradients(9, 3), 3),
        (gradients(9, 3), 7),
    ],
    ids=["one", "none", "zero", "equal", "all-dropped", "all-dims", "more-than-dims"],
)
def test_without_a_covariance_nothing_is_released(rows, drop, dtype):
    # The formula would ask for no noise: the bare average must not get out.
    mechanism = ParameterChannel(5.0, drop=drop)
    for like in (rows.astype(dtype), torch.from_numpy(rows.astype(dtype))):
        assert not np.asarray(mechanism.release(like)).any()
        with pytest.raises(ValueError, match="records that differ"):
            mechanism.perturb(like)


def test_pieces_share_the_capacity_of_their_batch():
    whole = ParameterChannel(8.0, batch_size=16)
    rows = gradients(4, 6)
    assert variance_of(whole, rows) == variance_of(ParameterChannel(2.0), rows)


def test_a_capacity_far_above_the_directions_still_has_noise_in_single_precision():
    rows = torch.from_numpy(gradients(12, 5)).float()
    assert 0 < variance_of(ParameterChannel(300.0), rows) < 1e-40


def test_notions():
    mechanism = ParameterChannel(8.0, dim=6)
    assert mechanism.mutual_information() == 8.0
    sized = mechanism.configured(Setting(((2, 3),), max_batch_size=15, batch_size=10))
    assert sized.mutual_information() == 12.0
    assert "estimate" in sized.assumptions()[0]
    assert mechanism.loss(rc.Neighbouring.REPLACE).supremum == math.inf
    for notion in ("log_bayes_capacity", "metric_privacy", "fisher_information"):
        with pytest.raises(UndefinedNotionError):
            getattr(mechanism, notion)()
    assert ParameterChannel(**json.loads(json.dumps(sized.parameters()))) == sized


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: ParameterChannel(0.0), "capacity must be above 0"),
        (lambda: ParameterChannel(1.0, drop=-1), "drop must be 0 or more"),
        (lambda: ParameterChannel(1.0, batch_size=0), "batch_size must be 1 or more"),
        (lambda: ParameterChannel(1.0).perturb(np.ones(3)), "gradient must have one row a record"),
        (lambda: ParameterChannel(1.0, dim=4).release(np.ones((2, 3))), "must have 4 coordinates"),
    ],
)
def test_what_is_refused(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def trained(mechanism, epochs=1, **options):
    torch.manual_seed(0)
    inputs = torch.randn(60, 6)
    labels = (inputs[:, 0] > 0).long()
    net = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 2))
    engine = PrivacyEngine(seed=1)
    net, optimizer, loader = engine.make_private(
        module=net,
        optimizer=torch.optim.SGD(net.parameters(), lr=0.5),
        data_loader=DataLoader(TensorDataset(inputs, labels), batch_size=10),
        mechanism=mechanism,
        **options,
    )
    for _ in range(epochs):
        for features, targets in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(features), targets).backward()
            optimizer.step()
    return engine, float((net(inputs).argmax(1) == labels).float().mean())


@pytest.mark.parametrize("options", [{}, {"physical_batch_size": 4}, {"sampling": "poisson"}])
@pytest.mark.parametrize("drop", [0, 1])
def test_it_trains(drop, options):
    engine, accuracy = trained(ParameterChannel(100.0, drop=drop), epochs=15, **options)
    assert engine.steps == 90
    assert accuracy > 0.8


@pytest.mark.parametrize("sampling", ["poisson", "shuffled", "fixed-size"])
def test_a_run_is_reported_without_an_epsilon_and_as_an_estimate(sampling):
    engine, _ = trained(ParameterChannel(20.0), sampling=sampling)
    report = engine.report(delta=1e-5)
    assert report.epsilon["pld"] == math.inf
    assert report.mutual_information["per_release"] >= 20.0
    assert any("an estimate, not a bound" in line for line in report.assumptions)
    assert {"log_bayes_capacity", "metric_privacy"} <= set(report.reasons)
