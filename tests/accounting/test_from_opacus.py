"""Histories of Opacus' accountants: the same runs, and never more than Opacus says they cost."""

import pytest

import recondite as rc
from recondite.accounting import Composition, compose, from_opacus
from recondite.accounting.composition import rdp_epsilon
from recondite.accounting.pld import pld_epsilon
from recondite.laws import GaussianLoss, SphereLoss

HISTORY = [(1.1, 0.01, 300), (1.1, 0.01, 200), (0.8, 0.02, 50)]
DELTA = 1e-5


def test_it_is_the_composition_of_the_same_runs():
    runs = [(rc.Gaussian(s), rc.Poisson(q, n)) for s, q, n in HISTORY]
    ours = from_opacus(HISTORY)
    exact = pld_epsilon(compose(runs)[0], DELTA)
    assert pld_epsilon(ours, DELTA) == pytest.approx(exact, rel=1e-3)
    assert [count for _, count in ours.parts] == [500, 50]
    assert from_opacus([]).releases == 0
    assert from_opacus([(1.0, 0.1, 0)]).releases == 0


@pytest.mark.parametrize("kind", ["RDPAccountant", "PRVAccountant"])
def test_against_opacus(kind):
    accountants = pytest.importorskip("opacus.accountants")
    accountant = getattr(accountants, kind)()
    for sigma, rate, steps in HISTORY:
        for _ in range(steps):
            accountant.step(noise_multiplier=sigma, sample_rate=rate)
    theirs = accountant.get_epsilon(delta=DELTA)
    for given in (accountant, accountant.state_dict(), accountant.history):
        ours = from_opacus(given)
        assert ours.releases == 550
        tight = pld_epsilon(ours, DELTA)
        if kind == "PRVAccountant":
            # Its error is 0.01 either way, added on top.
            assert theirs - 0.03 < tight <= theirs
        else:
            assert tight < theirs
            # Ours tries every order, theirs a list of them.
            assert rdp_epsilon(ours, DELTA)[0] <= theirs * (1 + 1e-6)


def test_other_runs_are_added():
    past = from_opacus(HISTORY)
    run = rc.Poisson(0.01, 100).composition(rc.VonMisesFisher(75, dim=1000))
    laws = [(GaussianLoss(1 / s).mixture((1 - q, q)), n) for s, q, n in HISTORY]
    laws.append((SphereLoss(1000, 75.0).mixture((0.99, 0.01)), 100))
    exact = pld_epsilon(Composition.of(laws), DELTA)
    assert pld_epsilon(past + run, DELTA) == pytest.approx(exact, rel=1e-3)
    assert exact > 1.05 * pld_epsilon(past, DELTA), "the run added must matter"


@pytest.mark.parametrize(
    ("history", "words"),
    [
        ([(1.0, 0.1)], "for each part"),
        (7, "for each part"),
        ({"mechanism": "rdp"}, "no history"),
        ([(0.0, 0.1, 5)], "without noise"),
        ([(1.0, 1.5, 5)], "sample_rate"),
        ([(1.0, 0.5, -5)], "steps"),
    ],
)
def test_what_is_no_history_is_refused_in_one_line(history, words):
    with pytest.raises(ValueError, match=words) as error:
        from_opacus(history)
    assert "\n" not in str(error.value)
