"""The identification game: scores against a direct computation, chances against enumeration."""

import copy
import itertools
import math

import numpy as np
import pytest
import torch
from scipy.stats import beta
from torch import nn

from recondite.accounting import FixedSize, Poisson, RandomAllocation, Shuffled
from recondite.attacks.identification import IdentificationGame, Turn, identified
from recondite.gradients.clipping import bound_rule
from recondite.gradients.collector import Collector
from recondite.gradients.handover import setting_of, units_of
from recondite.mechanisms import (
    Directional,
    Gaussian,
    NoNoise,
    PartitionedVonMisesFisher,
    Setting,
    VonMisesFisher,
)
from recondite.mechanisms.releasing import draw
from recondite.metrics.identification import chances, chances_one_a_label, summarised


def network(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3)).double()


def bounded(model, bound, units, x, y):
    """Every record's bounded gradient in units, one backward pass each."""
    rows = []
    for one, label in zip(x, y, strict=True):
        loss = nn.functional.cross_entropy(model(one[None]), label[None])
        flat = torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(model.parameters()))])
        factor = bound.factors((flat @ flat).reshape(1, 1)).item()
        rows.append(units.of(flat * factor))
    return torch.stack(rows)


MECHANISMS = [
    Gaussian(0.8),
    VonMisesFisher(40.0),
    PartitionedVonMisesFisher(15.0, blocks="layers"),
]


def table(mechanism, schedule, *, steps=4, games=3, pool=5, mechanism_of_game=None):
    """Plays some steps; returns the game, and ℓ_t by the mechanism's own log_likelihood."""
    model = network()
    collector = Collector(model)
    bound, rng = bound_rule("flat", 0.7, len(collector.rules)), np.random.default_rng(1)
    units = units_of(collector, bound, 4)
    sized = mechanism.configured(setting_of(collector, bound, 4, 10))
    bare = mechanism_of_game is not None
    played = mechanism_of_game.with_dim(sized.dim) if bare else sized
    x, y = torch.randn(20, 6).double(), torch.randint(0, 3, (20,))
    others = (torch.randn(pool, 6).double(), torch.randint(0, 3, (pool,)))
    game = IdentificationGame(
        model, played, units, bound, targets=[0, 2, 7][:games],
        target_records=(x[[0, 2, 7][:games]], y[[0, 2, 7][:games]]), pool=others,
        schedule=schedule,
    )  # fmt: skip
    collector.detach()
    generator = torch.Generator().manual_seed(3)
    ratios, parts = [], []
    for _ in range(steps):
        batch = np.flatnonzero(rng.random(20) < 0.5)
        rows = bounded(model, bound, units, x[batch], y[batch])
        total = rows.sum(0) if len(batch) else torch.zeros(sized.dim).double()
        release = total if bare else draw(sized, total, generator, None)
        game.watch(Turn(total, release, batch))
        ratio = np.zeros((games, 1 + pool))
        for g, place in enumerate(game.targets):
            own = bounded(model, bound, units, x[[place]], y[[place]])[0]
            rest = total - (own if place in batch else 0.0)
            candidates = torch.cat([own[None], bounded(model, bound, units, *others)])
            without = sized.log_likelihood(release, rest)
            for c, gradient in enumerate(candidates):
                ratio[g, c] = float(sized.log_likelihood(release, rest + gradient) - without)
        ratios.append(ratio)
        parts.append(np.isin(game.targets, batch))
        with torch.no_grad():
            for p in model.parameters():
                p.add_(0.1 * torch.randn_like(p))
    return game, np.array(ratios), np.array(parts)


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda m: m.name)
def test_secret_participation(mechanism):
    game, ratios, parts = table(mechanism, Poisson(0.3, 4))
    expected = np.log(0.7 + 0.3 * np.exp(ratios)).sum(0)
    np.testing.assert_allclose(game.secret, expected, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(
        game.known, (parts[:, :, None] * ratios).sum(0), rtol=1e-6, atol=1e-6
    )
    np.testing.assert_array_equal(game.taken_part, parts.sum(0))


def test_allocation_adds_up_epochs():
    """At most one step of an epoch: of one that was broken off, what was seen of it."""
    game, ratios, _ = table(Gaussian(0.8), RandomAllocation(2, 3), steps=5)
    whole = ratios[:4].reshape(2, 2, *ratios.shape[1:])
    expected = np.log(np.exp(whole).mean(1)).sum(0) + np.log(0.5 + 0.5 * np.exp(ratios[4]))
    np.testing.assert_allclose(game.secret, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("schedule", [FixedSize(2, 20, 4), Shuffled(2, 10, 20)])
def test_batches_of_one_size_hide_nothing(schedule):
    game, _, _ = table(Gaussian(0.8), schedule)
    assert game.secret is game.known


def test_without_noise_the_nearest_wins():
    game, _, parts = table(Gaussian(0.8), Poisson(0.3, 4), mechanism_of_game=NoNoise())
    assert (game.known[:, 0] >= game.known[:, 1:].max(1)).all()
    assert (game.secret[:, 0] > game.secret[:, 1:].max(1))[parts.any(0)].all()


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda m: m.name)
def test_products_give_the_likelihood(mechanism):
    shapes = ((4, 3), (5,))
    sized = mechanism.configured(Setting(shapes, max_batch_size=3))
    rng = np.random.default_rng(0)
    release = sized.perturb(rng.standard_normal(17), rng)
    a, b = rng.standard_normal((2, 17))
    sizes = sized.likelihood_blocks()
    parts = np.split(np.arange(17), np.cumsum(sizes)[:-1])

    def of(gradient):
        inner = np.array([release[p] @ gradient[p] for p in parts])
        squared = np.array([gradient[p] @ gradient[p] for p in parts])
        own = np.array([release[p] @ release[p] for p in parts])
        return sized.log_likelihood_of_products(inner, squared, own)

    expected = sized.log_likelihood(release, a) - sized.log_likelihood(release, b)
    assert of(a) - of(b) == pytest.approx(expected, rel=1e-9)


def test_chances_are_those_of_every_draw():
    rng = np.random.default_rng(5)
    scores = rng.integers(0, 4, (6, 6)).astype(float)  # many ties
    for n in (2, 3, 6):
        for row, found in zip(scores, chances(scores, n), strict=True):
            wins = []
            for drawn in itertools.combinations(row[1:], n - 1):
                best = max(drawn)
                ties = sum(value == row[0] for value in drawn)
                wins.append(0.0 if best > row[0] else 1.0 / (1 + ties))
            assert found == pytest.approx(sum(wins) / len(wins))


def test_chances_with_one_candidate_of_every_label():
    scores = np.random.default_rng(6).integers(0, 5, (4, 7)).astype(float)
    targets, pool = np.array([0, 1, 2, 0]), np.array([0, 1, 2, 1, 2, 0])
    for row, own, found in zip(
        scores, targets, chances_one_a_label(scores, targets, pool), strict=True
    ):
        groups = [row[1:][pool == label] for label in range(3) if label != own]
        wins = [
            0.0 if max(drawn) > row[0] else 1.0 / (1 + sum(x == row[0] for x in drawn))
            for drawn in itertools.product(*groups)
        ]
        assert found == pytest.approx(sum(wins) / len(wins))


def test_a_record_that_never_took_part_is_a_blind_guess_among_labels_too():
    """All scores are level then: one of n, not a coin against each of them."""
    labels = np.arange(10)
    level = chances_one_a_label(np.zeros((10, 31)), labels, np.repeat(labels, 3))
    assert level == pytest.approx(np.full(10, 0.1))


@pytest.mark.parametrize(
    ("scores", "pool", "match"),
    [
        (np.full((2, 5), np.nan), [0, 0, 1, 1], "scores must be numbers"),
        (np.zeros((2, 5)), [0, 0, 0, 0], "none of label 1"),
    ],
)
def test_games_among_labels_refuse_what_they_cannot_play(scores, pool, match):
    with pytest.raises(ValueError, match=match):
        chances_one_a_label(scores, np.array([0, 1]), np.array(pool))


def test_no_information_is_a_blind_guess():
    scores = np.random.default_rng(0).standard_normal((4000, 100))
    found = identified([scores], 10)
    assert found.low < 0.1 < found.high
    assert not found.beats_guessing
    assert identified([np.zeros((50, 20))], 10).rate == pytest.approx(0.1)


def test_runs_are_resampled_whole():
    """Games of one run that end alike are worth one observation, not many."""
    lucky, unlucky = np.zeros((100, 11)), np.ones((100, 11))
    lucky[:, 0], unlucky[:, 0] = 1.0, 0.0
    for runs in ([lucky, unlucky], [lucky, unlucky] * 3):
        clustered = identified(runs, 10)
        assert clustered.rate == pytest.approx(0.5)
        assert clustered.high - clustered.low > 0.6


def test_few_runs_have_a_wide_interval():
    """Two runs that differ a little: a bootstrap would give their two means and no more."""
    rng = np.random.default_rng(0)
    runs = [rng.standard_normal((100, 50)) for _ in range(2)]
    found = identified(runs, 10)
    means = [float(chances(scores, 10).mean()) for scores in runs]
    assert found.high - found.low > 5 * abs(means[0] - means[1])


def test_certain_games_have_an_interval():
    scores = np.zeros((20, 11))
    scores[:, 0] = 1.0
    found = identified([scores], 10)
    assert found.rate == 1.0
    assert 0.7 < found.low < 1.0


@pytest.mark.parametrize("rate", [0.0, 2e-5, 0.1, 0.5, 1.0])
def test_no_interval_is_narrower_than_the_binomial_one(rate):
    """Sixty games of a thousand candidates, won by 2e-5 each, cannot say "at most 5e-5"."""
    games = 60
    found = summarised([np.full(games, rate)], 1000)
    won = rate * games
    low = 0.0 if won == 0 else beta.ppf(0.025, won, games - won + 1)
    high = 1.0 if won == games else beta.ppf(0.975, won + 1, games - won)
    assert found.low <= low + 1e-12
    assert found.high >= high - 1e-12
    assert found.high >= min(1.0, rate + 3 / games * 0.9)
    apart = summarised([np.full(30, 0.0), np.full(30, 1.0)], 10)
    assert (apart.low, apart.high) == (0.0, 1.0)  # two runs that differ so say nothing


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"pool": (torch.ones(3, 6), torch.zeros(3).long())}, "a target's own record"),
        ({"pool": (torch.ones(3, 7), torch.zeros(3).long())}, "same shape"),
        ({"pool": (torch.ones(3, 6), torch.zeros(2).long())}, "one label a record"),
        ({"targets": [0]}, "one record for each"),
        ({"mechanism": Directional(1.0, dim=53, blocks=2)}, "no density"),
    ],
)
def test_bad_input(change, match):
    model = network()
    collector = Collector(copy.deepcopy(model))
    bound = bound_rule("flat", 1.0, 2)
    given = {
        "mechanism": Gaussian(1.0, dim=53),
        "targets": [0, 1],
        "target_records": (torch.ones(2, 6), torch.zeros(2).long()),
        "pool": (torch.zeros(3, 6), torch.zeros(3).long()),
        "schedule": Poisson(0.1, 4),
        **change,
    }
    mechanism = given.pop("mechanism")
    with pytest.raises(ValueError, match=match):
        IdentificationGame(model, mechanism, units_of(collector, bound, 1), bound, **given)


def test_more_candidates_than_the_pool_has_are_refused():
    with pytest.raises(ValueError, match="at most 6"):
        identified([np.zeros((3, 6))], 7)
    with pytest.raises(ValueError, match="must be numbers"):
        identified([np.full((3, 6), math.nan)], 2)
