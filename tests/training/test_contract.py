"""A mechanism gets units of one record's bound, whatever the clipping norm and the divisor are."""

import copy
import json
import math
import warnings
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import recondite as rc
from recondite.gradients.leaked import configured_for, leaked_gradients
from recondite.laws import GaussianLoss
from recondite.mechanisms import Mechanism, Observed, Setting, Units
from recondite.mechanisms.base import UndefinedNotionError
from recondite.training import PrivacyEngine

torch.set_num_threads(1)

NORMS, BATCHES = (0.1, 1.0, 10.0), (1, 8, 128)
REVIEWED = ((10.0, 4), (100.0, 4))  # with (10, 1), which is above, those in which W11 was proved
LOSS = nn.functional.cross_entropy
OLD = Path(__file__).resolve().parents[1] / "data" / "v0_1_0"


class Spy(rc.NoNoise):
    """Releases what it gets, and keeps a copy."""

    seen: ClassVar[list[torch.Tensor]] = []

    def perturb(self, gradient, generator=None):
        self.seen.append(gradient.clone())
        return gradient


class RecordSpy(Spy):
    stage = "record"

    def perturb(self, gradient, generator=None):
        return super().perturb(gradient, generator).mean(-2)


@dataclass(frozen=True)
class Third(Mechanism):
    """A stranger's additive noise, with the documented methods and nothing else."""

    sigma: float
    dim: int | None = None

    name: ClassVar[str] = "third"
    parameter: ClassVar[str] = "sigma"
    weaker: ClassVar[str] = "smaller"

    def loss(self, relation):
        factor = 2.0 if relation is rc.Neighbouring.REPLACE else 1.0
        return GaussianLoss(factor / self.sigma)

    def perturb(self, gradient, generator=None):
        noise = torch.empty_like(gradient).normal_(generator=generator)
        return gradient + self.sigma * noise

    def log_likelihood(self, release, gradient):
        return -0.5 * ((release - gradient) ** 2).sum(-1) / self.sigma**2

    def log_bayes_capacity(self):
        raise UndefinedNotionError("not computed")

    mutual_information = metric_privacy = fisher_information = log_bayes_capacity


@dataclass(frozen=True)
class ThirdOnRecords(Third):
    """The same noise on every record."""

    name: ClassVar[str] = "third-on-records"
    stage: ClassVar[str] = "record"

    def perturb(self, gradient, generator=None):
        return super().perturb(gradient, generator).mean(-2)


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3)).double()


def one_step(mechanism, norm, batch, clipping="flat", model=None, **options):
    """The model before, the batch, the gradient that was released, and the engine."""
    generator = torch.Generator().manual_seed(1)
    model = model or network()
    width = next(model.parameters()).shape[1]
    # Some gradients are far below the bound, some far above.
    inputs = torch.randn(batch, width, generator=generator, dtype=torch.float64)
    inputs *= torch.logspace(-3, 2, batch, dtype=torch.float64)[:, None]
    before = copy.deepcopy(model)
    engine = PrivacyEngine(seed=2)
    _, optimizer, loader = engine.make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.0),
        data_loader=DataLoader(TensorDataset(inputs, torch.arange(batch) % 3), batch_size=batch),
        mechanism=mechanism,
        max_grad_norm=norm,
        clipping=clipping,
        sampling="fixed-size",
        **options,
    )
    seen = []
    for given, labels in loader:
        optimizer.zero_grad()
        LOSS(model(given), labels).backward()
        optimizer.step()
        seen.append((given, labels))
    flat = torch.cat([p.grad.reshape(-1) for p in model.parameters()])
    return before, seen, flat, engine


def bounded_rows(model, inputs, labels, norms):
    """Each record's bounded gradient by autograd alone; one norm a layer, or one."""
    rows = []
    for x, y in zip(inputs, labels, strict=True):
        grads = torch.autograd.grad(LOSS(model(x[None]), y[None]), list(model.parameters()))
        parts = [torch.cat([g.reshape(-1) for g in grads])]
        if len(norms) > 1:
            parts = [torch.cat([g.reshape(-1) for g in grads[i : i + 2]]) for i in (0, 2)]
        pairs = zip(parts, norms, strict=True)
        rows.append(torch.cat([p * min(1.0, c / max(float(p.norm()), 1e-30)) for p, c in pairs]))
    return torch.stack(rows)


def scale(norms):
    """One record's bound, coordinate by coordinate."""
    sizes = (39,) if len(norms) == 1 else (24, 15)
    parts = zip(sizes, norms, strict=True)
    return torch.cat([torch.full((n,), c, dtype=torch.float64) for n, c in parts])


@pytest.mark.parametrize("clipping", ["flat", "per-layer"])
@pytest.mark.parametrize("stage", ["sum", "record"])
@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("norm", NORMS)
def test_a_spy_gets_units_of_one_records_bound(norm, batch, stage, clipping):
    """W11: fails on 0.1.0, which handed over sums over L, and rows that nothing bounded."""
    norms = (norm,) if clipping == "flat" else (norm, 3 * norm)
    spy = {"sum": Spy, "record": RecordSpy}[stage]()
    Spy.seen.clear()
    given = norm if clipping == "flat" else norms
    model, ((inputs, labels),), flat, engine = one_step(spy, given, batch, clipping)
    rows = bounded_rows(model, inputs, labels, norms)
    units = rows / scale(norms)
    expected = units.sum(0) if stage == "sum" else units
    (got,) = Spy.seen
    assert got.dtype == torch.float64
    assert float((got - expected).abs().max()) <= 1e-12 * max(1.0, float(expected.abs().max()))
    if stage == "record":
        furthest = float(got.norm(dim=1).max())
        assert furthest <= math.sqrt(len(norms)) * (1 + 1e-12)
    # Scaled back by C/L, layer by layer.
    update = rows.sum(0) / batch
    assert float((flat - update).abs().max()) <= 1e-12 * norm
    assert engine.units.batch_size == batch


@pytest.mark.parametrize(("norm", "batch"), [*product(NORMS, BATCHES), *REVIEWED])
@pytest.mark.parametrize("kind", [Third, ThirdOnRecords, rc.Gaussian])
def test_a_strangers_noise_has_the_accounted_size(kind, norm, batch):
    """W11: on 0.1.0 a stranger's σ was in effect σ·L/C. Seeded; KS alarms at 1e-7 at random."""
    sigma, width = 1.5, 1500
    model = nn.Linear(width, 3, bias=False).double()
    before, ((inputs, labels),), flat, engine = one_step(kind(sigma), norm, batch, model=model)
    centre = bounded_rows(before, inputs, labels, (norm,)).sum(0) / batch
    each = math.sqrt(batch) if kind is ThirdOnRecords else 1.0
    accounted = sigma * each * norm / batch
    noise = ((flat - centre) / accounted).numpy()
    assert stats.kstest(noise, "norm").pvalue > 1e-7
    assert not stats.kstest(noise * 1.3, "norm").pvalue > 1e-7  # the test would have seen it
    law = engine.mechanism.loss(rc.Neighbouring.ADD_OR_REMOVE)
    assert law == GaussianLoss(1 / sigma)


def test_noise_of_layers_bounded_apart_follows_their_bounds():
    sigma, norms = 1.5, (0.1, 10.0)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(700, 2, bias=False), nn.Linear(2, 700, bias=False)).double()
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(4, 700, generator=generator, dtype=torch.float64)
    for mechanism in (rc.Gaussian(sigma), rc.NoNoise(clip=True)):
        engine, net = PrivacyEngine(seed=0), copy.deepcopy(model)
        _, optimizer, loader = engine.make_private(
            module=net,
            optimizer=torch.optim.SGD(net.parameters(), lr=0.0),
            data_loader=DataLoader(TensorDataset(inputs), batch_size=4),
            mechanism=mechanism,
            max_grad_norm=norms,
            clipping="per-layer",
            sampling="fixed-size",
        )
        for (given,) in loader:
            net(given).square().mean().backward()
            optimizer.step()
        grads = [p.grad.reshape(-1) for p in net.parameters()]
        if mechanism.parameter:
            noisy = grads
            assert engine.mechanism.loss(rc.Neighbouring.ADD_OR_REMOVE) == GaussianLoss(1 / sigma)
    for found, centre, norm in zip(noisy, grads, norms, strict=True):
        noise = (found - centre) / (sigma * math.sqrt(2) * norm / 4)
        assert stats.kstest(noise.numpy(), "norm").pvalue > 1e-7


def test_a_stranger_that_cannot_be_told_is_refused_with_layers_bounded_apart():
    with pytest.raises(ValueError, match=r"^third takes one bound .* field named sensitivity$"):
        one_step(Third(1.0), 1.0, 8, "per-layer")

    @dataclass(frozen=True)
    class Told(Third):
        sensitivity: float = 1.0

    engine = one_step(Told(1.0), 1.0, 8, "per-layer")[-1]
    assert engine.mechanism.sensitivity == math.sqrt(2)


def test_pure_noise_needs_a_bound_too():
    """A finite supremum is no reason to leave gradients unbounded; a direction is."""

    class Pure(GaussianLoss):
        supremum = 1.0

    class Additive(Third):
        def loss(self, relation):
            return Pure(1.0)

    with pytest.raises(ValueError, match="without a sensitivity: bound the gradients"):
        one_step(Additive(1.0), 1.0, 8, "none")
    one_step(rc.VonMisesFisher(1.0), 1.0, 8, "none")


def test_a_mechanism_for_updates_is_none_for_steps():
    class OnUpdates(Third):
        stage = "update"

    with pytest.raises(ValueError, match="noises a client's whole update: hand it to"):
        one_step(OnUpdates(1.0), 1.0, 8)


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (lambda g: g[..., :3], r"third must release shape \(39,\), got shape \(3,\)"),
        (lambda g: g[None], r"got shape \(1, 39\)"),
        (lambda g: 1.0, "got no array"),
        (lambda g: g * math.nan, "not finite: nothing is used"),
        (lambda g: g + torch.tensor([math.inf] + [0.0] * 38), "not finite: nothing is used"),
    ],
)
def test_what_is_no_release_is_refused(made, words):
    class Other(Third):
        def perturb(self, gradient, generator=None):
            return made(gradient)

    with pytest.raises(ValueError, match=words) as caught:
        one_step(Other(1.0), 1.0, 8)
    assert "\n" not in str(caught.value)


def test_the_last_versions_word_for_stage_is_heard_with_a_warning():
    with pytest.warns(DeprecationWarning, match="noise_on is now stage"):

        class Older(Third):
            noise_on = "record"

    assert Older.stage == "record"
    with pytest.warns(DeprecationWarning, match="noise_on is now stage"):
        assert rc.Gaussian(1.0).noise_on == "average"
    with pytest.raises(ValueError, match="stage must be one of record, sum, update"):

        class Unknown(Third):
            stage = "batch"


# State over steps.


class LowPass(rc.NoNoise):
    """Half of what it gets and half of what it released before: post-processing with a memory."""

    stateful = True

    def initial_state(self):
        return {"last": torch.zeros(self.required_dim(), dtype=torch.float64), "steps": 0}

    def perturb(self, gradient, generator, state):
        state["last"] = 0.5 * state["last"] + 0.5 * gradient
        state["steps"] += 1
        return state["last"]


def filtered(steps, model, state=None, mechanism=None):
    torch.manual_seed(3)
    engine = PrivacyEngine(seed=0)
    data = TensorDataset(torch.randn(8, 5, dtype=torch.float64), torch.arange(8) % 3)
    _, optimizer, loader = engine.make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.5),
        data_loader=DataLoader(data, batch_size=8),
        mechanism=mechanism or LowPass(),
        max_grad_norm=0.3,
        sampling="fixed-size",
    )
    if state is not None:
        engine.load_state_dict(state)
    for _ in range(steps):
        for inputs, labels in loader:
            optimizer.zero_grad()
            LOSS(model(inputs), labels).backward()
            optimizer.step()
    engine.detach()
    return engine


def test_a_filter_resumes_exactly(tmp_path):
    whole = network()
    filtered(6, whole)
    parted = network()
    first = filtered(3, parted)
    torch.save(first.state_dict(), tmp_path / "state.pt")
    forgetful = copy.deepcopy(parted)
    state = torch.load(tmp_path / "state.pt", weights_only=True)
    resumed = filtered(3, parted, state)
    assert resumed.steps == 6
    assert resumed.state_dict()["mechanism_state"]["steps"] == 6
    for one, two in zip(whole.parameters(), parted.parameters(), strict=True):
        assert torch.allclose(one, two, rtol=1e-13, atol=0)
    filtered(3, forgetful)
    assert not torch.allclose(next(whole.parameters()), next(forgetful.parameters()), rtol=1e-4)
    # A checkpoint is not the engine's own memory.
    assert state["mechanism_state"]["steps"] == 3


def test_a_state_whose_noise_was_used_already_is_refused(tmp_path):
    # Two continuations of one state carry the same remembered noise: their difference has none.
    def engine_of(model, **options):
        engine = PrivacyEngine(seed=0, ledger=tmp_path / "ledger.json")
        data = TensorDataset(torch.ones(8, 5, dtype=torch.float64), torch.arange(8) % 3)
        _, optimizer, loader = engine.make_private(
            module=model,
            optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
            data_loader=DataLoader(data, batch_size=8),
            max_grad_norm=8.0,
            sampling="fixed-size",
            **options,
        )
        return engine, optimizer, loader

    def step(model, optimizer, loader):
        for inputs, labels in loader:
            LOSS(model(inputs), labels).backward()
            optimizer.step()

    model = network()
    first, *parts = engine_of(model, mechanism=LowPass())
    step(model, *parts)
    early = first.state_dict()
    first.load_state_dict(early)  # nothing was released since
    step(model, *parts)
    late = first.state_dict()
    with pytest.raises(ValueError, match="older than 1 steps"):
        first.load_state_dict(early)
    first.ledger.close()
    first.detach()
    again, *_ = engine_of(network(), mechanism=LowPass())
    with pytest.raises(ValueError, match="checkpoint is older than 1 steps that the ledger"):
        again.load_state_dict(early)
    again.load_state_dict(late)
    assert again.steps == 2


def test_what_training_does_to_gradients_does_not_reach_the_state():
    """C/L is 1 here, so that nothing needs to be scaled, and gradients are zeroed in place."""
    model = network()
    engine = PrivacyEngine(seed=0)
    data = TensorDataset(torch.ones(8, 5, dtype=torch.float64), torch.zeros(8, dtype=torch.long))
    _, optimizer, loader = engine.make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        data_loader=DataLoader(data, batch_size=8),
        mechanism=LowPass(),
        max_grad_norm=8.0,
        sampling="fixed-size",
    )
    for inputs, labels in loader:
        LOSS(model(inputs), labels).backward()
        optimizer.step()
    kept = engine.state_dict()["mechanism_state"]["last"].clone()
    optimizer.zero_grad(set_to_none=False)
    assert kept.abs().max() > 0
    assert torch.equal(engine.state_dict()["mechanism_state"]["last"], kept)


def test_a_mechanism_without_a_parameter_is_asked_without_clipping_too():
    Spy.seen.clear()
    one_step(Spy(), 1.0, 8, "none")
    assert len(Spy.seen) == 1


def test_a_state_that_is_missing_is_refused():
    state = filtered(1, network(), mechanism=rc.NoNoise()).state_dict()
    assert "mechanism_state" not in state
    json.dumps(state)
    with pytest.raises(ValueError, match="checkpoint has no state of none"):
        filtered(0, network(), state)


def test_where_nothing_keeps_a_state_a_mechanism_with_one_is_refused():
    from recondite.federated.update import release

    with pytest.raises(ValueError, match="nothing here keeps it"):
        release(LowPass(dim=3), np.ones(3), 1.0, None)


# What others use.


def test_units_there_and_back():
    rng = np.random.default_rng(0)
    gradient = rng.standard_normal((2, 5))
    units = Units((0.5, 4.0), 8, (2, 3))
    made = units.of(gradient)
    np.testing.assert_allclose(made, gradient / [0.5, 0.5, 4, 4, 4], rtol=1e-15)
    for mechanism in (rc.Gaussian(1.0), rc.VonMisesFisher(1.0), rc.Directional(1.0)):
        back = units.released(made, mechanism)
        share = 8 if mechanism.stage == "record" else 1
        np.testing.assert_allclose(units.observed(back, mechanism) * share, made, rtol=1e-14)
        np.testing.assert_array_equal(units.released(torch.from_numpy(made), mechanism), back)
    np.testing.assert_array_equal(units.released(made, rc.VonMisesFisher(1.0)), made)
    np.testing.assert_allclose(units.released(made, rc.Gaussian(1.0)), gradient / 8, rtol=1e-14)
    with pytest.raises(ValueError, match="norms must have 2 values"):
        Units((1.0,), 1, (2, 3))
    with pytest.raises(ValueError, match="gradient must have 5 coordinates"):
        units.of(gradient[:, :4])


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("defence", [rc.Gaussian(1.3), rc.VonMisesFisher(30.0), rc.Directional(9)])
def test_an_attacker_weighs_candidates_by_what_was_released(defence, norm):
    """Likelihoods of observed gradients: those of the release, whatever C and L are."""
    torch.manual_seed(4)
    model = nn.Sequential(nn.Flatten(), nn.Linear(4, 3))
    images, labels = torch.randn(1, 2, 1, 2, 2), torch.tensor([[0, 2]])
    (released,) = (
        torch.cat([g.flatten(1) for g in leak.values()], 1)
        for leak in [leaked_gradients(model, images, labels, defence, max_grad_norm=norm, seed=0)]
    )
    known = configured_for(defence, model, 2, max_grad_norm=norm)
    assert isinstance(known, Observed)
    rows = torch.randn(3, 2, 15) * norm
    given = rows if known.per_record else rows.sum(1) / 2
    scores = known.log_likelihood(released.expand(3, -1), given)
    # By hand, in units.
    units = rows / norm if known.per_record else rows.sum(1) / norm
    free = defence.scale_free
    seen = released if free else released * 2 / norm
    expected = known.mechanism.log_likelihood(seen.expand(3, -1), units)
    assert torch.allclose(scores, expected, rtol=1e-4)


def test_a_clients_update_is_handed_over_in_units():
    from recondite.federated.update import configured, release

    before = {"w": np.zeros((2, 2))}
    got: list[Any] = []

    class Seen(rc.NoNoise):
        def perturb(self, gradient, generator=None):
            got.append(np.array(gradient))
            return gradient

    sized = configured(Seen(), before, ["w"])
    out = release(sized, np.array([3.0, 0.0, 4.0, 0.0]), 2.5, None)
    np.testing.assert_allclose(got[0], [0.6, 0, 0.8, 0], rtol=1e-15)
    np.testing.assert_allclose(out, [1.5, 0, 2.0, 0], rtol=1e-15)
    out = release(sized, np.array([0.3, 0.0, 0.4, 0.0]), 2.5, None)
    np.testing.assert_allclose(out, [0.3, 0, 0.4, 0], rtol=1e-15)
    direction = release(rc.VonMisesFisher(1e9, dim=4), np.array([3.0, 0.0, 4.0, 0.0]), 2.5, None)
    assert np.linalg.norm(direction) == pytest.approx(2.5)


# Files of 0.1.0.


def older():
    """The runs that 0.1.0 wrote, as its script makes them."""
    names = {"__name__": "older"}
    exec(compile((OLD / "make.py").read_text(), "make.py", "exec"), names)
    return names


def same_numbers(found, written):
    """The same account, but for the last digits: sums were added in another order then."""
    if isinstance(written, dict):
        assert found.keys() == written.keys()
        for key in written:
            same_numbers(found[key], written[key])
    elif isinstance(written, float):
        assert found == pytest.approx(written, rel=1e-11, abs=0)
    else:
        assert found == written


RUNS = ["gaussian", "gaussian-layers", "vmf", "directional", "none"]


def same_epsilon(found, written):
    assert {"pld", "rdp", "pure"} <= set(found) <= set(written)
    for key, value in found.items():
        assert value == written[key] or value == pytest.approx(written[key], rel=1e-10), key


@pytest.mark.parametrize("name", RUNS)
def test_counts_of_the_last_version_are_taken_over(name, tmp_path):
    private = older()["private"]
    path = tmp_path / "ledger.json"
    path.write_bytes((OLD / f"{name}.ledger.json").read_bytes())
    state = json.loads((OLD / f"{name}.state.json").read_text())
    account = json.loads((OLD / f"{name}.account.json").read_text())
    resumed = private(name, ledger=path)[0]
    assert resumed.steps == state["steps"] == 4
    loaded = private(name)[0]
    loaded.load_state_dict(state)
    assert loaded.steps == 4
    for engine in (resumed, loaded):
        found = engine.report(1e-3).to_dict()
        same_epsilon(found["epsilon"], account["epsilon"])
        for key in ("log_bayes_capacity", "mutual_information", "rero"):
            same_numbers(found[key], account[key])


def test_uneven_layers_of_the_last_version_are_refused():
    private = older()["private"]
    state = json.loads((OLD / "gaussian-uneven.state.json").read_text())
    with pytest.raises(ValueError, match=r"0\.1\.0 with layer_norms=\[0\.5, 2\.0\].*start a new"):
        private("gaussian-uneven")[0].load_state_dict(state)


@pytest.mark.parametrize("name", [*RUNS, "gaussian-uneven"])
def test_accounts_of_the_last_version_are_read(name):
    """Parameters of 0.1.0 make the mechanism that they described, at the same cost."""
    from recondite.federated.cost import _mechanism

    account = json.loads((OLD / f"{name}.account.json").read_text())
    made = _mechanism(account["mechanism"], account["parameters"])
    plan = account["schedule"]
    if plan["sampling"] == "poisson":
        schedule = rc.Poisson(plan["rate"], plan["steps"])
    else:
        schedule = rc.FixedSize(plan["batch_size"], plan["records"], plan["steps"])
    found = rc.account(made, schedule, 1e-3).to_dict()
    # 0.1.0 had one paper's accountants too, which come with recondite-papers now.
    same_epsilon(found.pop("epsilon"), account.pop("epsilon"))
    for written in (found, account):
        kept = {k: why for k, why in written["reasons"].items() if ".paper_" not in k}
        written.update(schema_version=1, reasons=kept)
    same_numbers(found, account)


def test_nothing_of_ours_warns():
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)
        one_step(rc.Directional(2.0), 1.0, 8)
    assert Setting(((2, 3),), max_batch_size=1).sensitivity == 1.0
