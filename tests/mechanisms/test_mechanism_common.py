"""What holds for every mechanism: validation, parameters, sizes, both array libraries."""

from __future__ import annotations

import dataclasses
import json
import math
from fractions import Fraction

import numpy as np
import pytest
import torch

import recondite as rc
from recondite.laws import LossLaw
from recondite.mechanisms import MetricPrivacy, Setting, UndefinedNotionError

EVERY = [
    rc.Gaussian(1.5, dim=6),
    rc.Gaussian(1.5, clip_norm=2.0, batch_size=4, max_batch_size=6, layers=(4, 2)),
    rc.VonMisesFisher(3.0, dim=6),
    rc.PartitionedVonMisesFisher(3.0, dim=6, blocks=2),
    rc.PartitionedVonMisesFisher((3.0, 1.0), dim=6, blocks=(4, 2)),
    rc.Directional(3.0, dim=6),
    rc.Directional(3.0, dim=6, blocks=3),
    rc.NoNoise(dim=6),
]
NOISY = EVERY[:-1]
IDS = [f"{type(m).__name__}-{i}" for i, m in enumerate(EVERY)]


def gradient_for(mechanism, seed=0, batch=()):
    rows = (1,) if mechanism.stage == "record" else ()
    return np.random.default_rng(seed).standard_normal((*batch, *rows, 6))


@pytest.mark.parametrize("mechanism", EVERY, ids=IDS)
def test_frozen_equal_hashable_and_replaceable(mechanism):
    with pytest.raises(dataclasses.FrozenInstanceError):
        mechanism.dim = 7
    assert mechanism == dataclasses.replace(mechanism)
    assert hash(mechanism) == hash(dataclasses.replace(mechanism))
    assert type(mechanism)(**vars(mechanism)) == mechanism


@pytest.mark.parametrize("mechanism", EVERY, ids=IDS)
def test_parameters_are_plain_and_rebuild_the_mechanism(mechanism):
    parameters = json.loads(json.dumps(mechanism.parameters(), allow_nan=False))
    assert None not in parameters.values()
    given = {k: tuple(v) if isinstance(v, list) else v for k, v in parameters.items()}
    assert type(mechanism)(**given) == mechanism


def test_parameters_of_foreign_number_types():
    mechanism = rc.VonMisesFisher(kappa=np.float32(2.5), dim=np.int64(9))
    assert json.dumps(mechanism.parameters()) == '{"kappa": 2.5, "dim": 9}'
    mechanism = rc.VonMisesFisher(kappa=Fraction(1, 2), dim=9.0)
    assert json.dumps(mechanism.parameters()) == '{"kappa": 0.5, "dim": 9}'
    blocks = rc.PartitionedVonMisesFisher((np.float64(1), np.int64(2)), dim=4, blocks=np.int64(2))
    assert json.loads(json.dumps(blocks.parameters()))["kappa"] == [1.0, 2]
    assert mechanism.parameters() == rc.VonMisesFisher(0.5, 9).parameters()
    assert json.dumps(rc.NoNoise(clip=True).parameters()) == '{"clip": true}'


@pytest.mark.parametrize("mechanism", EVERY, ids=IDS)
def test_with_dim(mechanism):
    if isinstance(getattr(mechanism, "blocks", None), tuple) or getattr(mechanism, "layers", None):
        with pytest.raises(ValueError, match="must add up to dim 12"):
            mechanism.with_dim(12)
        return
    wider = mechanism.with_dim(12)
    assert wider.dim == 12
    assert wider.with_dim(6) == mechanism
    assert mechanism.dim == 6
    if mechanism.name != "none":
        assert wider.strength == mechanism.strength


@pytest.mark.parametrize("mechanism", EVERY, ids=IDS)
def test_with_strength(mechanism):
    if mechanism.name == "none":
        for attempt in (lambda: mechanism.with_strength(1.0), lambda: mechanism.strength):
            with pytest.raises(ValueError, match=r"^none has no noise to set"):
                attempt()
        return
    other = mechanism.with_strength(7.5)
    assert other.strength == 7.5
    assert dataclasses.asdict(other) == dataclasses.asdict(mechanism) | {mechanism.parameter: 7.5}
    with pytest.raises(ValueError, match=f"^{mechanism.parameter} must be above 0"):
        mechanism.with_strength(-1.0)
    # Weaker noise is a larger loss at every Rényi order.
    law, changed = (m.loss(rc.Neighbouring.REPLACE) for m in (mechanism, other))
    less_noise = (mechanism.weaker == "larger") == (float(np.max(law_strength(mechanism))) < 7.5)
    difference = changed.renyi([1.1, 2.0, 30.0]) - law.renyi([1.1, 2.0, 30.0])
    assert np.all(difference > 0 if less_noise else difference < 0)


def law_strength(mechanism):
    return getattr(mechanism, mechanism.parameter)


def test_strength_of_unequal_blocks():
    with pytest.raises(ValueError, match=r"^kappa differs between blocks"):
        _ = rc.PartitionedVonMisesFisher((3.0, 1.0), dim=6, blocks=2).strength


BAD = [
    (lambda: rc.VonMisesFisher(kappa=0), "kappa must be above 0"),
    (lambda: rc.VonMisesFisher(kappa=-1), "kappa must be above 0"),
    (lambda: rc.VonMisesFisher(kappa=math.nan), "kappa must be a number"),
    (lambda: rc.VonMisesFisher(kappa=math.inf), "kappa must be finite"),
    (lambda: rc.VonMisesFisher(kappa="75"), "kappa must be a number"),
    (lambda: rc.VonMisesFisher(kappa=True), "kappa must be a number"),
    (lambda: rc.VonMisesFisher(kappa=1, dim=1), "dim must be 2 or more"),
    (lambda: rc.VonMisesFisher(kappa=1, dim=2.5), "dim must be a whole number"),
    (lambda: rc.VonMisesFisher(kappa=1, dim=math.nan), "dim must be a number"),
    (lambda: rc.Directional(kappa=0), "kappa must be above 0"),
    (lambda: rc.Directional(kappa=1, dim=1), "dim must be 2 or more"),
    (lambda: rc.Directional(kappa=1, dim=10, blocks=6), "blocks must be 5 or fewer"),
    (lambda: rc.Directional(kappa=1, dim=10, blocks=(3, 3)), "blocks must add up to dim 10"),
    (lambda: rc.PartitionedVonMisesFisher(kappa=-1), "kappa must be above 0"),
    (lambda: rc.PartitionedVonMisesFisher(kappa=(1, 0)), "kappa must be above 0"),
    (lambda: rc.PartitionedVonMisesFisher(kappa=1, dim=1), "dim must be 2 or more"),
    (lambda: rc.PartitionedVonMisesFisher(1, dim=10, blocks=6), "blocks must be 5 or fewer"),
    (lambda: rc.PartitionedVonMisesFisher(1, dim=10, blocks=(3, 3)), "blocks must add up to"),
    (lambda: rc.PartitionedVonMisesFisher((1, 1, 1), dim=10), "kappa must have one value for each"),
    (lambda: rc.PartitionedVonMisesFisher((), dim=10), "kappa must have one value for each"),
    (lambda: rc.Gaussian(0), "noise_multiplier must be above 0"),
    (lambda: rc.Gaussian(math.inf), "noise_multiplier must be finite"),
    (lambda: rc.Gaussian(math.nan), "noise_multiplier must be a number"),
    (lambda: rc.Gaussian(1, clip_norm=0), "clip_norm must be above 0"),
    (lambda: rc.Gaussian(1, dim=0), "dim must be 1 or more"),
    (lambda: rc.Gaussian(1, batch_size=0), "batch_size must be 1 or more"),
    (lambda: rc.Gaussian(1, max_batch_size=1.5), "max_batch_size must be a whole number"),
    (lambda: rc.Gaussian(1, layers=()), "layers must have one size or more"),
    (lambda: rc.Gaussian(1, layers=(3, 0)), "layers must be 1 or more"),
    (lambda: rc.Gaussian(1, dim=9, layers=(3, 4)), "layers must add up to dim 9, got 7"),
    (lambda: rc.Gaussian(1, layer_norms=(1.0,)), "layer_norms needs layers"),
    (lambda: rc.Gaussian(1, layers=(3, 4), layer_norms=(1.0,)), "layer_norms must have 2 values"),
    (lambda: rc.Gaussian(1, layers=(3, 4), layer_norms=(1.0, -1.0)), "layer_norms must be above 0"),
    (lambda: rc.NoNoise(dim=0), "dim must be 1 or more"),
]


@pytest.mark.parametrize(("build", "message"), BAD, ids=[message for _, message in BAD])
def test_bad_parameters_are_refused_in_one_line(build, message):
    with pytest.raises(ValueError, match=f"^{message}") as error:
        build()
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "mechanism",
    [rc.VonMisesFisher(1.0), rc.PartitionedVonMisesFisher(1.0), rc.Directional(1.0)],
)
def test_a_missing_dim_is_asked_for(mechanism):
    for need in (
        mechanism.log_bayes_capacity,
        mechanism.mutual_information,
        lambda: mechanism.loss(rc.Neighbouring.REPLACE),
    ):
        with pytest.raises(ValueError, match=r"^dim is not set: give .*\(\.\.\., dim=\.\.\.\)$"):
            need()
    # But the release itself reads the dimension off the gradient.
    assert mechanism.perturb(np.ones((1, 8))).shape[-1] == 8


@pytest.mark.parametrize(
    "mechanism",
    [rc.VonMisesFisher(1.0, 8), rc.PartitionedVonMisesFisher(1.0, 8), rc.Directional(1.0, 8)],
)
def test_a_gradient_of_another_size_is_refused(mechanism):
    # In fewer dimensions than were accounted for the same κ would be less noise.
    gradient = np.ones((1, 6))
    message = r"^gradient must have 8 coordinates as dim says, got 6$"
    with pytest.raises(ValueError, match=message):
        mechanism.perturb(gradient)
    with pytest.raises(ValueError, match=message):
        mechanism.release(gradient)
    with pytest.raises(ValueError, match=message):
        mechanism.log_likelihood(np.ones(6), gradient)


@pytest.mark.parametrize("mechanism", NOISY, ids=IDS[:-1])
def test_numpy_and_torch_agree(mechanism):
    gradient = gradient_for(mechanism, batch=(5,))
    release = mechanism.perturb(gradient, np.random.default_rng(1))
    tensor = torch.from_numpy(gradient)
    out = mechanism.perturb(tensor, torch.Generator().manual_seed(1))
    assert isinstance(release, np.ndarray)
    assert isinstance(out, torch.Tensor)
    assert release.shape == (5, 6) == tuple(out.shape)
    ours = mechanism.log_likelihood(release, gradient)
    theirs = mechanism.log_likelihood(torch.from_numpy(release), tensor)
    assert ours.shape == (5,)
    np.testing.assert_allclose(theirs.numpy(), ours, rtol=1e-12)
    # Single precision stays single precision.
    assert mechanism.perturb(gradient.astype(np.float32)).dtype == np.float32
    assert mechanism.perturb(tensor.float()).dtype == torch.float32


@pytest.mark.parametrize("mechanism", NOISY, ids=IDS[:-1])
def test_release_is_fresh_by_default_and_repeatable_on_request(mechanism):
    gradient = gradient_for(mechanism)
    before = gradient.copy()
    assert not np.array_equal(mechanism.perturb(gradient), mechanism.perturb(gradient))
    one, two = (mechanism.perturb(gradient, np.random.default_rng(3)) for _ in range(2))
    np.testing.assert_array_equal(one, two)
    tensor = torch.from_numpy(gradient)
    torch.manual_seed(0)
    first = mechanism.perturb(tensor)
    torch.manual_seed(0)
    assert not torch.equal(first, mechanism.perturb(tensor))
    np.testing.assert_array_equal(gradient, before)


@pytest.mark.parametrize("mechanism", NOISY, ids=IDS[:-1])
def test_the_log_likelihood_can_be_differentiated(mechanism):
    # The adaptive attacker climbs it: autograd agrees with finite differences.
    gradient = torch.from_numpy(gradient_for(mechanism)).requires_grad_()
    release = mechanism.perturb(gradient.detach(), torch.Generator().manual_seed(2))
    mechanism.log_likelihood(release, gradient).sum().backward()
    slope = gradient.grad.numpy()
    point, fixed = gradient.detach().numpy(), release.numpy()
    for index in np.ndindex(point.shape):
        step = np.zeros_like(point)
        step[index] = 1e-6
        up, down = (mechanism.log_likelihood(fixed, point + s * step) for s in (1, -1))
        assert slope[index] == pytest.approx((up - down) / 2e-6, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("mechanism", NOISY, ids=IDS[:-1])
def test_the_mean_log_likelihood_ratio_is_a_divergence(mechanism):
    # E_P[log p/q] is the KL divergence: the α → 1 end of the law's Rényi curve for the worst pair.
    relation = rc.Neighbouring.REPLACE
    if mechanism.name == "gaussian":
        unit = np.zeros(6)
        unit[0] = mechanism.sensitivity * mechanism.clip_norm / (mechanism.batch_size or 1)
    else:
        unit = np.ones(6)
    plus = unit[None, :] if mechanism.stage == "record" else unit
    draws = 200_000
    generator = np.random.default_rng(4)
    ratios = []
    for centre in (plus, -plus):
        release = mechanism.perturb(np.broadcast_to(centre, (draws, *plus.shape)), generator)
        ratios.append(
            mechanism.log_likelihood(release, plus) - mechanism.log_likelihood(release, -plus)
        )
    kl = float(mechanism.loss(relation).renyi([1 + 1e-7])[0])
    assert ratios[0].mean() == pytest.approx(kl, abs=5 * ratios[0].std() / math.sqrt(draws))
    # The scores are the densities' own: the overlap ∫ min(p, e^a q) is the same from either side.
    for shift in (-1.0, 0.0, 1.0):
        p = np.minimum(1.0, np.exp(shift - ratios[0]))
        q = np.minimum(np.exp(shift), np.exp(ratios[1]))
        error = math.hypot(p.std(), q.std()) / math.sqrt(draws)
        assert p.mean() == pytest.approx(q.mean(), abs=5 * error)


@pytest.mark.parametrize("mechanism", EVERY, ids=IDS)
def test_every_notion_has_a_value_or_a_reason(mechanism):
    assert isinstance(mechanism.loss(rc.Neighbouring.REPLACE), LossLaw)
    reasons = []
    for notion in (
        mechanism.log_bayes_capacity,
        mechanism.mutual_information,
        mechanism.fisher_information,
        mechanism.metric_privacy,
    ):
        try:
            value = notion()
        except UndefinedNotionError as error:
            reasons.append(str(error))
            continue
        number = value.constant if isinstance(value, MetricPrivacy) else value
        assert isinstance(number, float)
        assert number > 0
    assert all(len(reason) > 20 and "\n" not in reason for reason in reasons)


@pytest.mark.parametrize("mechanism", NOISY, ids=IDS[:-1])
def test_information_is_below_capacity(mechanism):
    # min-entropy leakage of the worst prior is at least Shannon's capacity of a symmetric channel;
    # for the Gaussian both are upper bounds of the same release.
    if mechanism.name == "gaussian":
        mechanism = mechanism.for_batches(8)
    assert mechanism.mutual_information() <= mechanism.log_bayes_capacity() * (1 + 1e-12)


@pytest.mark.parametrize("mechanism", EVERY, ids=IDS)
def test_a_training_step_always_releases(mechanism):
    # A zero gradient (an empty batch) is released like any other: same shape, same norms.
    zero = np.zeros_like(gradient_for(mechanism, batch=(400,)))
    for given in (zero, torch.from_numpy(zero)):
        out = np.asarray(mechanism.release(given))
        assert out.shape == (400, 6)
        if mechanism.name in ("vmf", "partitioned", "directional"):
            np.testing.assert_allclose(np.linalg.norm(out, axis=-1), 1.0)
            assert np.abs(out.mean(0)).max() < 0.15
    some = gradient_for(mechanism, batch=(3,))
    if mechanism.name != "none":
        one, two = (
            draw(some, np.random.default_rng(1)) for draw in (mechanism.release, mechanism.perturb)
        )
        np.testing.assert_array_equal(one, two)


def test_configured_for_a_run():
    setting = Setting(((4, 3), (4,), (2, 4)), max_batch_size=48, batch_size=32)
    assert setting.dim == 24
    assert rc.VonMisesFisher(2.0).configured(setting) == rc.VonMisesFisher(2.0, dim=24)
    gaussian = rc.Gaussian(1.1).configured(setting)
    assert (gaussian.dim, gaussian.clip_norm, gaussian.batch_size) == (24, 1.0, None)
    assert gaussian.max_batch_size == 48
    layered = dataclasses.replace(setting, layers=(16, 8))
    assert layered.sensitivity == math.sqrt(2)
    assert rc.Gaussian(1.1).configured(layered).sensitivity == 1.0
    assert rc.Gaussian(1.1).configured(layered).noise_std == pytest.approx(1.1 * math.sqrt(2))
    for kind in (rc.PartitionedVonMisesFisher, rc.Directional):
        assert kind(2.0, blocks="layers").configured(setting).sizes == (12, 4, 8)
        assert kind(2.0, blocks="rows").configured(setting).sizes == (3, 3, 3, 3, 4, 4, 4)
        assert kind(2.0, blocks=4).configured(setting).sizes == (6, 6, 6, 6)
        assert kind(2.0, blocks=(20, 4)).configured(setting).sizes == (20, 4)
        with pytest.raises(ValueError, match=r"^blocks must be one of layers, rows"):
            kind(2.0, blocks="columns").configured(setting)
        with pytest.raises(ValueError, match=r"^blocks 'layers' needs a model"):
            kind(2.0, dim=24, blocks="layers")
    assert rc.NoNoise().configured(setting).dim == 24


def test_no_noise():
    mechanism = rc.NoNoise(dim=3, clip=True)
    gradient = np.arange(3.0)
    np.testing.assert_array_equal(mechanism.perturb(gradient), gradient)
    assert mechanism.log_bayes_capacity() == math.inf
    assert mechanism.mutual_information() == math.inf
    assert mechanism.fisher_information() == math.inf
    privacy = mechanism.metric_privacy()
    assert privacy.constant == privacy.per_record == math.inf
    with pytest.raises(UndefinedNotionError, match="no density"):
        mechanism.log_likelihood(gradient, gradient)
    for relation in rc.Neighbouring:
        law = mechanism.loss(relation)
        assert law.supremum == math.inf
        assert np.all(np.isinf(law.renyi([1.5, 2.0])))
    assert rc.epsilon(mechanism, rc.Poisson(rate=0.01, steps=10), 1e-5) == math.inf
