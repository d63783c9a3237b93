"""A sample of kills −9 of a federation; all fifty: ``python -m benchmarks.kills_federated``."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("flwr")

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="servers and clients are forked")
def test_three_kills_lose_nothing_and_hide_nothing():
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.kills_federated", "--kills", "3"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert '"lost": 0, "not_counted": 0' in done.stdout
