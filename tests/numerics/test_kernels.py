"""The noise kernels by Triton's interpreter on the CPU: exact numbers, and their law."""

import importlib.util
import json
import os
import subprocess
import sys
from functools import lru_cache
from pathlib import Path

import pytest
import torch

from recondite.numerics import device_noise, kernels
from recondite.numerics.random import new_generator
from recondite.numerics.secure import SecureGenerator

SCRIPT = Path(__file__).with_name("kernel_laws.py")
ROOT = Path(__file__).parents[2]


@lru_cache
def found():
    """What the script says: a process of its own, for the interpreter is chosen at the import."""
    if importlib.util.find_spec("triton") is None:
        pytest.skip("triton is not installed")
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--rows", "12"],
        env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def judge(result):
    # Two numbers of single precision's last digits; draws are at most 2 long.
    assert max(result["errors"].values()) < 1e-6
    # Twenty tests: a false alarm has a probability of 2e-7.
    assert min(result["p_values"].values()) > 1e-8


def test_interpreted_kernels_make_the_same_numbers_and_laws_as_float64():
    judge(found())


def test_the_run_on_a_gpu_that_is_committed_made_them_too():
    committed = json.loads((ROOT / "results" / "gpu-laws.json").read_text(encoding="utf-8"))
    assert "H200" in committed["device"]
    assert committed["rows"] >= 100_000
    judge(committed)


def test_a_step_on_a_gpu_waits_for_nothing():
    committed = json.loads((ROOT / "results" / "gpu-sync.json").read_text(encoding="utf-8"))
    assert len(committed["rows"]) >= 12
    assert not any(row["waits"] for row in committed["rows"])


def test_every_call_has_words_of_its_own_unless_a_seed_is_given():
    fresh = new_generator(torch.zeros(1))
    for generator in (None, fresh):
        several = [tuple(device_noise.words(generator, 2)) for _ in range(3)]
        assert len(set(several)) == 3
    seeded = [torch.Generator().manual_seed(5) for _ in range(2)]
    first, second = ([tuple(device_noise.words(g, 2)) for _ in range(2)] for g in seeded)
    assert first == second
    assert first[0] != first[1]


def test_chunks_cover_every_coordinate_once_and_no_counter_twice():
    for sizes in ((3,), (1024,), (5_000_000,), (2, 300, 1024, 2500), (7,) * 50):
        table = device_noise._chunks(sizes, 1, False, torch.device("cpu")).tolist()
        place, counter = 0, 0
        for start, end, first, block, _, _ in table:
            assert (start, first) == (place, counter)
            assert start >= sum(sizes[:block])
            assert end <= sum(sizes[: block + 1])
            place, counter = end, first - (-(end - start) // kernels.TILE) * kernels.QUARTER
        assert place == sum(sizes)
        assert len(table) <= device_noise._PROGRAMS + len(sizes)


def test_cpus_double_precision_and_secure_mode_keep_their_own_path():
    assert not device_noise.fused(torch.zeros(3), None)
    assert not device_noise.fused(torch.zeros(3), SecureGenerator())
