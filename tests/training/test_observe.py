"""What an audit sees of a private training: the sum, the release, and who was in the batch."""

import copy

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import recondite as rc
from recondite.attacks.identification import IdentificationGame, identified
from recondite.training import PrivacyEngine

torch.set_num_threads(1)
LOSS = nn.functional.cross_entropy
ROWS, BATCH, LR = 20, 5, 0.2
TARGETS = [0, 2, 7]


def records(rows, seed):
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(rows, 6, generator=generator, dtype=torch.float64)
    return inputs, torch.randint(0, 3, (rows,), generator=generator)


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3)).double()


def private(mechanism, *, seed=0, norm=0.7, data=None, **options):
    net, engine = network(), PrivacyEngine(seed=seed)
    _, optimizer, loader = engine.make_private(
        module=net,
        optimizer=torch.optim.SGD(net.parameters(), lr=LR),
        data_loader=DataLoader(TensorDataset(*(data or records(ROWS, 1))), batch_size=BATCH),
        mechanism=mechanism,
        max_grad_norm=norm,
        **options,
    )
    return engine, net, optimizer, loader


def step(net, optimizer, batch):
    optimizer.zero_grad()
    LOSS(net(batch[0]), batch[1]).backward()
    optimizer.step()


def unit_rows(net, places, norm=0.7, data=None):
    """Bounded gradients in units, by autograd alone."""
    inputs, labels = data or records(ROWS, 1)
    rows = []
    for place in places:
        grads = torch.autograd.grad(
            LOSS(net(inputs[[place]]), labels[[place]]), list(net.parameters())
        )
        flat = torch.cat([g.reshape(-1) for g in grads])
        rows.append(flat * min(1.0, norm / float(flat.norm())) / norm)
    return torch.stack(rows) if rows else torch.zeros(0, 53, dtype=torch.float64)


def flat(net):
    return torch.cat([p.detach().reshape(-1).clone() for p in net.parameters()])


@pytest.mark.parametrize("sampling", ["poisson", "allocation", "shuffled", "fixed-size"])
@pytest.mark.parametrize("physical", [None, 2])
def test_what_is_seen_is_what_was_released(sampling, physical):
    engine, net, optimizer, loader = private(
        rc.Gaussian(0.8), sampling=sampling, physical_batch_size=physical
    )
    seen = []

    def look(turn):
        before = copy.deepcopy(net)
        rows = unit_rows(before, turn.records)
        assert torch.allclose(turn.total, rows.sum(0), rtol=0, atol=1e-12)
        seen.append((turn, flat(net)))

    engine.observe(look)
    for batch in loader:
        step(net, optimizer, batch)
    assert len(seen) == engine.steps == 4
    for (turn, before), after in zip(seen, [w for _, w in seen[1:]] + [flat(net)], strict=True):
        moved = -LR * engine.units.released(turn.release, engine.mechanism)
        assert torch.allclose(after - before, moved, rtol=0, atol=1e-12)
    if sampling in ("shuffled", "allocation"):
        assert sorted(r for turn, _ in seen for r in turn.records) == list(range(ROWS))


def test_an_observer_cannot_change_the_release():
    moved = []
    for observers in ([], [lambda turn: (turn.total.zero_(), turn.release.zero_())]):
        engine, net, optimizer, loader = private(rc.Gaussian(0.8))
        for observer in observers:
            engine.observe(observer)
        for batch in loader:
            step(net, optimizer, batch)
        moved.append(flat(net))
    assert torch.equal(*moved)


def test_only_simulations_are_observed():
    engine = private(rc.Gaussian(1.0), seed=None)[0]
    with pytest.raises(ValueError, match="in simulations only: give the engine a seed") as caught:
        engine.observe(print)
    assert "\n" not in str(caught.value)
    with pytest.raises(ValueError, match="call make_private first"):
        PrivacyEngine(seed=0).observe(print)


def test_noise_on_each_record_is_observed_as_sums_of_directions():
    engine, net, optimizer, loader = private(rc.Directional(2e4), sampling="fixed-size")
    seen = []
    engine.observe(seen.append)
    step(net, optimizer, next(iter(loader)))
    (turn,) = seen
    before, after = turn.total.double(), turn.release.double()
    assert 0 < float(before.norm()) <= len(turn.records) + 1e-4
    assert float((before - after).norm() / before.norm()) < 0.2  # little noise: nearly the same


def game_of(engine, net, loader, data, targets, pool):
    return IdentificationGame(
        net,
        engine.mechanism,
        engine.units,
        engine.bound,
        targets=targets,
        target_records=(data[0][targets], data[1][targets]),
        pool=pool,
        schedule=loader.schedule(1),
    )


@pytest.mark.parametrize("sampling", ["poisson", "allocation"])
@pytest.mark.parametrize("mechanism", [rc.Gaussian(0.8), rc.VonMisesFisher(40.0)])
def test_a_game_through_the_engine_has_the_scores_of_its_steps(mechanism, sampling):
    data, pool = records(ROWS, 1), records(5, 2)
    engine, net, optimizer, loader = private(mechanism, sampling=sampling)
    game = game_of(engine, net, loader, data, TARGETS, pool)
    ratios, parts, made = [], [], engine.mechanism

    def direct(turn):
        """ℓ_t of every game and candidate by the mechanism's own likelihood."""
        others = unit_rows(net_then, range(5), data=pool)
        ratio = np.zeros((len(TARGETS), 6))
        for g, place in enumerate(TARGETS):
            own = unit_rows(net_then, [place])
            rest = turn.total - (own[0] if place in turn.records else 0.0)
            without = made.log_likelihood(turn.release, rest)
            for c, gradient in enumerate(torch.cat([own, others])):
                ratio[g, c] = float(made.log_likelihood(turn.release, rest + gradient) - without)
        ratios.append(ratio)
        parts.append(np.isin(TARGETS, turn.records))

    engine.observe(game.watch)
    engine.observe(direct)
    for _ in range(2):
        for batch in loader:
            net_then = copy.deepcopy(net)
            step(net, optimizer, batch)
    logs = np.array(ratios)
    assert len(logs) == 8
    if sampling == "poisson":
        expected = np.log(0.75 + 0.25 * np.exp(logs)).sum(0)
    else:
        expected = np.log(np.exp(logs.reshape(2, 4, *logs.shape[1:])).mean(1)).sum(0)
    np.testing.assert_allclose(game.secret, expected, rtol=1e-6, atol=1e-6)
    told = (np.array(parts)[:, :, None] * logs).sum(0)
    np.testing.assert_allclose(game.known, told, rtol=1e-6, atol=1e-6)
    if sampling == "allocation":
        assert game.taken_part.tolist() == [2, 2, 2]


@pytest.mark.parametrize("sampling", ["poisson", "allocation"])
def test_success_keeps_within_the_reconstruction_bound(sampling):
    """40 trainings of 16 games each; the interval at 1 - 1e-6 must reach down to the bound."""
    n, runs = 8, []
    for run in range(40):
        data, pool = records(16, 100 + run), records(30, 500 + run)
        engine, net, optimizer, loader = private(
            rc.Gaussian(1.0), seed=run, norm=0.1, data=data, sampling=sampling
        )
        game = game_of(engine, net, loader, data, list(range(16)), pool)
        engine.observe(game.watch)
        for _ in range(2):
            for batch in loader:
                step(net, optimizer, batch)
        runs.append(game.secret.copy())
    found = identified(runs, n, confidence=1 - 1e-6)
    bound = engine.report(1e-3, prior_success=1 / n).rero["bound"]
    assert found.low <= bound
    assert found.low > 0.9 / n
    assert identified(runs, n).beats_guessing  # the attack is one
