"""A process of a training over two that is killed stops the other; no release goes uncounted."""

import importlib.util
import signal
import time
from pathlib import Path

import pytest

from recondite.training.ledger import Ledger

SCRIPT = Path(__file__).parents[1] / "training" / "two_processes.py"


def script():
    spec = importlib.util.spec_from_file_location("two_processes", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def steps(folder, rank):
    path = folder / f"steps-{rank}"
    return [int(line) for line in path.read_text().split()] if path.exists() else []


@pytest.mark.parametrize("killed", [1, 0])
def test_a_lost_process_stops_all_and_the_ledger_counts_every_release(tmp_path, killed):
    start = script().start
    processes = [start(tmp_path, rank, "until_killed") for rank in (0, 1)]
    try:
        while len(steps(tmp_path, killed)) < 60:
            assert all(process.poll() is None for process in processes)
            time.sleep(0.05)
        processes[killed].kill()
        _, said = processes[1 - killed].communicate(timeout=60)
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    # Once in a few times torch's own threads abort the interpreter as it ends, after the line.
    assert processes[1 - killed].returncode in (1, -signal.SIGABRT)
    lines = [line for line in said.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1
    assert "start all again" in lines[0]
    assert "Traceback" not in said
    taken = max(steps(tmp_path, 0)[-1], steps(tmp_path, 1)[-1])
    counted = Ledger(tmp_path / "ledger.json").taken
    # The step in hand was counted and perhaps not made; a first process that is killed leaves
    # what it had reserved ahead, too.
    assert taken <= counted <= taken + (1 if killed else 51)
