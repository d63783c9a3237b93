"""Bounds are printed on their safe side, everywhere by the same function."""

import math
from pathlib import Path

import numpy as np
import pytest

import recondite as rc
from recondite.cli.comparison import show
from recondite.cli.main import run
from recondite.notions import format_bound, round_bound
from recondite.report.answer import Answers
from recondite.report.rows import StoredRun


@pytest.mark.parametrize(
    ("value", "up", "down"),
    [
        (25.3149, "25.32", "25.31"),
        (2.9808, "2.981", "2.98"),
        (0.1, "0.1", "0.1"),
        (0.57, "0.57", "0.57"),
        (428_818.2, "428,819", "428,818"),
        (1.23456e-5, "1.235e-05", "1.234e-05"),
        (12_345_678.0, "1.235e+07", "1.234e+07"),
        (0.0, "0", "0"),
        (math.inf, "∞", "∞"),
        ("inf", "∞", "∞"),
        (None, "–", "–"),
        (math.nan, "–", "–"),
        ("not bounded", "not bounded", "not bounded"),
    ],
)
def test_a_bound_in_words(value, up, down):
    assert format_bound(value) == up
    assert format_bound(value, direction="lower") == down


def test_rounding_never_crosses_the_value():
    generator = np.random.default_rng(0)
    values = np.concatenate([np.exp(generator.uniform(-30, 30, 2000)), [1.1, 4.35, 1.005, 0.07]])
    for value in (*values, *-values):
        for digits in (2, 4, 6, 17):
            up, down = round_bound(value, digits), round_bound(value, digits, "lower")
            assert down <= value <= up
            assert up - down <= abs(value) * 10.0 ** (2 - digits)


def test_the_table_of_a_comparison_rounds_up(capsys):
    row = {
        "label": "Gaussian", "seed": 0, "attack": "none", "status": "done", "claims": [],
        "utility": {"test_accuracy": 0.9}, "reconstruction": None, "membership": None,
        "defence": "gaussian",
        "notions": {
            "rero_prior": 0.1, "epsilon": 25.3149, "log_bayes_capacity_run": "inf",
            "rero_bound": 0.32221,
        },
    }  # fmt: skip
    answers = Answers.of([StoredRun(0, "a study", Path(), (row,))])
    show(answers, answers.view(), [row], "a study")
    shown = capsys.readouterr().out
    assert "25.32" in shown
    assert "32.3%" in shown
    assert "25.31" not in shown


def test_the_noise_that_calibrate_prints_meets_its_target(capsys):
    poisson = rc.Poisson(0.05, 30)
    for name, mechanism, flag in (
        ("gaussian", rc.Gaussian, "noise_multiplier"),
        ("directional", rc.Directional, "kappa"),
    ):
        settings = {} if name == "gaussian" else {"dim": 40}
        dim = [] if name == "gaussian" else ["--dim", "40"]
        for target in (0.5, 0.77, 1.3, 2.9):
            arguments = ["--epsilon", str(target), "--rate", ".05", "--steps", "30"]
            assert run(["calibrate", name, *dim, *arguments, "--delta", "1e-5"]) == 0
            printed = capsys.readouterr().out.split("\n")[0]
            value = float(printed.rpartition("= ")[2])
            assert rc.epsilon(mechanism(value, **settings), poisson, 1e-5) <= target, (name, flag)
