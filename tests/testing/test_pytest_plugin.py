"""The fixture of the plugin, in a pytest of its own, and what it must not import."""

import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NAME = "recondite.testing.pytest_plugin"
SUITE = """
import sys
STARTED = sorted(name for name in ("torch", "scipy", "opacus", "sklearn") if name in sys.modules)

import numpy as np
import pytest
from recondite import Poisson
from recondite.checking import Trainer

def made(noise):
    def step(batch):
        return float(len(batch)) + noise * np.random.standard_normal(3)
    return lambda: Trainer([(np.ones(1),)] * 4, step)

CLAIM = {"epsilon": 4.0, "delta": 1e-5, "schedule": Poisson(1.0, 1), "seed": 1, "runs": 100}

def test_nothing_heavy_was_imported():
    assert STARTED == []

def test_a_training_that_does_what_it_claims(assert_private):
    assert assert_private(made(2.0), **CLAIM).verdict == "consistent"

def test_a_training_that_does_not(assert_private):
    assert_private(made(0.1), **CLAIM)
"""


def test_the_plugin_is_declared():
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    assert declared["pytest11"] == {"recondite": NAME}
    assert hasattr(import_module(NAME), "assert_private")


def test_a_suite_of_somebody_else(tmp_path):
    pytest.importorskip("torch")
    (tmp_path / "test_theirs.py").write_text(SUITE)
    # Named here: an older editable install has no such entry point, and one is enough.
    plugin = ["-p", "no:recondite", "-p", NAME]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *plugin, "-p", "no:cacheprovider", "test_theirs.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert "1 failed, 2 passed" in done.stdout, done.stdout + done.stderr
    assert "violates the claim" in done.stdout
