"""The papers' accountants as notions of another package, and their formulas as printed."""

import json
import math

import pytest

import recondite as rc
from recondite.cli.main import run
from recondite.leakage import information
from recondite.testing.notions import check_notion
from recondite_papers import as_printed
from recondite_papers.biswas2025 import ConvertedFirst, SampledRenyi

PAPER = rc.Poisson(rate=128 / 60_000, steps=1_407)
RATE = 64 / 1437
OPTIONS = ["--rate", "128/60000", "--steps", "1407", "--delta", "1/60000"]


@pytest.mark.parametrize("notion", [ConvertedFirst(), SampledRenyi()], ids=lambda n: n.key)
def test_they_keep_to_the_contract_of_notions(notion):
    check_notion(notion)


def test_they_stand_in_every_account_and_are_looser():
    account = rc.account(rc.VonMisesFisher(75, 13_700), PAPER, 1 / 60_000)
    assert account.epsilon["paper_1"] == pytest.approx(673.8, abs=0.1)
    assert account.epsilon["paper_2"] == pytest.approx(1.644, abs=1e-3)
    assert account.epsilon["pld"] < account.epsilon["paper_2"]


@pytest.mark.parametrize(
    ("mechanism", "schedule", "size"),
    [
        (rc.VonMisesFisher(20, 1_000), PAPER, 3),
        (rc.Directional(1.0, 62_006), rc.FixedSize(512, 50_000, 100), 1),
    ],
)
def test_where_the_theorems_do_not_apply_they_are_not_defined(mechanism, schedule, size):
    account = rc.account(mechanism, schedule, 1e-5, group_size=size)
    assert account.epsilon["paper_1"] is account.epsilon["paper_2"] is None
    assert "the paper" in account.reasons["epsilon.paper_1"]


@pytest.mark.parametrize("steps", [1, 23])
@pytest.mark.parametrize("strength", [1e4, 1e6])
def test_weak_noise_stays_above_the_tight_account(steps, strength):
    account = rc.account(rc.VonMisesFisher(strength, 2570), rc.Poisson(RATE, steps), 1 / 1437)
    assert account.epsilon["paper_1"] >= account.epsilon["pld"] * (1 - 1e-6)


def test_approach_1_grows_with_the_concentration():
    values = [
        rc.account(rc.VonMisesFisher(kappa, 2570), rc.Poisson(RATE, 23), 1 / 1437).epsilon[
            "paper_1"
        ]
        for kappa in (1e3, 3e3, 5e3)
    ]
    assert values == sorted(values)
    assert values[-1] > 1.5 * values[0]


def test_printed_capacity_and_information():
    mechanism = rc.Gaussian(1.23, dim=1_000, batch_size=128, max_batch_size=160)
    printed = as_printed.gaussian_log_bayes_capacity(mechanism)
    assert round(printed, 8) == 25.53856922
    assert printed < mechanism.log_bayes_capacity()
    assert as_printed.dp_information(64, 2.0, 0.64) == 2 * information.dp_information(64, 2.0, 0.64)
    assert as_printed.dp_information_from_epsilon(64, 1.5, 1e-5) == pytest.approx(
        64 * 2.25 / (2 * math.log(1.25e5))
    )


def test_the_command(capsys):
    assert run(["as-printed", "gaussian", "--noise-multiplier", "1.23", "--dim", "13700",
                *OPTIONS, "--json"]) == 0  # fmt: skip
    values = json.loads(capsys.readouterr().out)["as_printed"]
    assert values["log_bayes_capacity"] == pytest.approx(94.993368, abs=1e-6)
    assert run(["as-printed", "vmf", "--kappa", "75", "--dim", "13700", *OPTIONS]) == 0
    out = capsys.readouterr().out
    assert "169.7   no bound" in out
    assert "capacity" not in out


def test_the_command_refuses_what_the_paper_does_not_speak_of(capsys):
    fixed = ["--sampling", "fixed-size", "--steps", "1", "--batch-size", "10", "--records", "99"]
    assert run(["as-printed", "vmf", "--kappa", "7", "--dim", "9", *fixed, "--delta", ".1"]) == 2
    assert "Poisson batches" in capsys.readouterr().err
