"""Notions by key: ours, others', broken ones; one account made by going through them."""

import dataclasses
import json

import numpy as np
import pytest

import recondite as rc
from recondite.accounting import pld
from recondite.channels import NaturalChannel, Spectrum
from recondite.mechanisms import UndefinedNotionError
from recondite.notions import Figure, Notion, account_for, notions, pairs, registry
from recondite.notions.noisy_records import NoisyRecords
from recondite.studies import rows
from recondite.testing.notions import check_notion

RUN = rc.Poisson(0.01, 100)


class Advantage(Notion):
    key = "advantage"
    label = "advantage"
    promise = "No test is better than this."
    target = "advantage"
    share = True
    figures = (Figure("advantage", "advantage", "advantage", "As it says.", vacuous=0.99),)

    def compute(self, release):
        return release.pair.delta(0.0)


class Failing(Notion):
    key = "failing"
    label = "failing"
    promise = "Nothing."

    def compute(self, release):
        raise ZeroDivisionError("division by\nzero")


def clashing(name, value):
    return type("Clashing", (Advantage,), {"figures": (), "target": None, name: value})


class Entry:
    def __init__(self, name, value):
        self.name, self.value = name, value

    def load(self):
        if isinstance(self.value, Exception):
            raise self.value
        return self.value


@pytest.fixture
def install(monkeypatch):
    def with_entries(*values):
        def entry_points(*, group):
            assert group == "recondite.notions"
            return [Entry(f"entry-{index}", value) for index, value in enumerate(values)]

        monkeypatch.setattr(registry, "entry_points", entry_points)
        notions.cache_clear()
        return notions()

    yield with_entries
    notions.cache_clear()


@pytest.fixture
def copies():
    spectrum = Spectrum.from_covariance(np.diag([0.2, 0.1, 0.05]))
    return NoisyRecords(NaturalChannel.from_spectrum(spectrum, 1.0), 1.0, 2, 1.5, 1e-5)


@pytest.mark.parametrize("notion", registry.built_in().values(), ids=lambda notion: notion.key)
def test_our_own_keep_to_the_contract(notion):
    check_notion(notion)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("promise", "One. And two.", "one sentence"),
        ("direction", "up", "direction"),
        ("key", "A b", "key"),
        ("compute", lambda self, release: 1.0, "supplies nothing"),
        ("compute", lambda self, release: release.pair.delta(0.0) / 2, "where nothing protects"),
        ("compute", lambda self, release: 2 - release.pair.delta(0.0), "promises more with less"),
    ],
)
def test_the_contract_finds_what_breaks_it(name, value, words):
    wrong = type("Wrong", (Advantage,), {name: value, "target": None})
    with pytest.raises(AssertionError, match=words):
        check_notion(wrong())


def test_a_third_party_stands_in_accounts_rows_and_calibration(install, copies):
    install(Advantage)
    for release_account in (rc.account(rc.Gaussian(2.0), RUN, 1e-5), account_for(copies)):
        plain = release_account.to_dict()
        assert 0 < plain["advantage"] == release_account.advantage < 1
        assert (
            rows.notions("gaussian", {**plain, "subject": "x"})["advantage"] == plain["advantage"]
        )
    assert rows.notions("none", None)["advantage"] == "inf"
    found = rc.calibrate(rc.Gaussian(1.0), 0.01, "advantage", RUN)
    assert found.achieved <= 0.01
    assert rc.measure(found.mechanism, "advantage", RUN) == found.achieved
    with pytest.raises(ValueError, match="schedule is needed for advantage"):
        rc.measure(rc.Gaussian(1.0), "advantage")


def test_a_broken_package_takes_nothing_away(install):
    ours = set(registry.built_in())
    with pytest.warns(UserWarning, match="could not be loaded") as warned:
        found = install(
            ImportError("no module"),
            RuntimeError("whatever"),
            int,
            clashing("key", "epsilon"),
            clashing("key", "epsilon.pld"),
            clashing("key", "rero.mine"),
            clashing("key", "assumptions"),
            clashing("target", "epsilon"),
            clashing("figures", (Figure("rero_bound", "a", "b", "c"),)),
            Advantage,
        )
    assert set(found) == {*ours, "advantage"}
    assert len(warned) == 9


def test_a_notion_that_fails_is_not_defined_and_says_so(install):
    install(Failing, Advantage)
    account = rc.account(rc.Gaussian(2.0), RUN, 1e-5)
    assert account.failing is None
    assert account.reasons["failing"] == "ZeroDivisionError: division by zero"
    assert account.advantage > 0
    json.dumps(account.to_dict(), allow_nan=False)


def test_the_renyi_curve_is_searched_once_for_an_account(monkeypatch):
    calls = []
    for module in (pld, pairs):
        original = module.rdp_epsilon
        monkeypatch.setattr(
            module, "rdp_epsilon", lambda *given, f=original: calls.append(given) or f(*given)
        )
    composed = []
    original = pairs.loss_distributions
    monkeypatch.setattr(
        pairs, "loss_distributions", lambda *given: composed.append(given) or original(*given)
    )
    rc.account(rc.VonMisesFisher(10, 100), RUN, 1e-5)
    assert len(calls) == 1
    assert len(composed) == 1


def test_a_channel_has_the_account_of_a_mechanism(copies):
    ours = rc.account(rc.Gaussian(2.0), RUN, 1e-5).to_dict()
    theirs = account_for(copies).to_dict()
    assert set(theirs) == {*ours, "subject"}
    assert set(theirs["epsilon"]) == set(ours["epsilon"])
    assert theirs["epsilon"]["pld"] == pytest.approx(copies.pair.epsilon(1e-5))
    assert theirs["epsilon"]["rdp"] is theirs["rdp_order"] is theirs["metric_privacy"] is None
    assert theirs["mutual_information"] == {
        "per_release": copies.mechanism.capacity_nats,
        "run": 1.5,
    }
    assert set(theirs["reasons"]) == {"epsilon.rdp", "metric_privacy"}


def test_noise_of_another_channel_has_no_finite_bound(copies):
    plain = account_for(dataclasses.replace(copies, foreign=True)).to_dict()
    assert plain["epsilon"]["pld"] == plain["log_bayes_capacity"]["run"] == "inf"
    assert plain["rero"]["bound"] == 1.0
    assert plain["mutual_information"]["run"] == 1.5
    assert pairs.GaussianPair(np.inf).delta(3.0) == 1.0
    assert any("another channel" in line for line in plain["assumptions"])


@pytest.mark.parametrize("mu", [0.01, 0.5, 3.0, 12.0])
def test_the_gaussian_pair_in_closed_form_agrees_with_the_composed_one(mu):
    closed = pairs.GaussianPair(mu)
    composed = pairs.ComposedPair(rc.Poisson(1.0, 1).composition(rc.Gaussian(1 / mu)))
    for epsilon in (0.0, 0.1, 1.0, 5.0):
        exact = closed.delta(epsilon)
        assert exact * (1 - 1e-9) <= composed.delta(epsilon) + 1e-15
        assert composed.delta(epsilon) <= exact * 1.01 + 1e-9
    for level in (0.001, 0.1, 0.5):
        assert composed.success(level) == pytest.approx(closed.success(level), rel=1e-3)
    with pytest.raises(UndefinedNotionError, match="gradients"):
        closed.renyi_epsilon(1e-5)
