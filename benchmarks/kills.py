"""Kills at random moments, again and again: nothing is lost, nothing is reported too low.

    python -m benchmarks.kills study --kills 50
    python -m benchmarks.kills training --kills 50

A study that is killed and started again ends with the rows of one that never was. A training that
is killed and started again has a ledger that counts at least the steps whose releases left, which
the training notes beside it by a write that a kill cannot take back. Counts go to
``results/kills.json``.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import runpy
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.provenance import provenance

__all__ = ["STUDY", "comparable", "kill_study", "kill_training", "reference_rows"]

STUDY = """\
name: kills
data: digits
model: mlp
prepare: none
defences:
  - name: none
  - name: gaussian
    noise_multiplier: [0.5, 1.0, 2.0]
  - name: vmf
    kappa: [100, 500]
  - name: gaussian
    at: {accuracy: 0.3, runs: 3}
  - name: natural-channel
    capacity: [5, 20]
training: {epochs: 4, batch_size: 64}
attacks:
  - name: inverting-gradients
    images: 4
    steps: 150
  - name: membership-threshold
    records: 100
  - name: canary-audit
    runs: 50
seeds: 2
"""
# What a person writes, with one byte for every step that was taken.
TRAINING = """
import os, sys
import torch
from torch.utils.data import DataLoader, TensorDataset
from recondite.mechanisms import Gaussian
from recondite.training import PrivacyEngine

torch.manual_seed(0)
folder, steps = sys.argv[1], int(sys.argv[2])
taken = os.open(f"{folder}/taken", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
model = torch.nn.Linear(8, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = TensorDataset(torch.randn(400, 8), torch.randint(0, 2, (400,)))
engine = PrivacyEngine(ledger=f"{folder}/ledger.json")
_, optimizer, loader = engine.make_private(
    module=model, optimizer=optimizer, data_loader=DataLoader(data, batch_size=40),
    mechanism=Gaussian(1.0), sampling="poisson",
)
done = os.fstat(taken).st_size
while done < steps:
    for x, y in loader:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        os.write(taken, b".")
        done += 1
        if done >= steps:
            break
"""
_BLOCK = 50  # steps that a ledger reserves at once


def comparable(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows without what differs between two runs of one study: times."""
    kept = []
    for given in rows:
        row = json.loads(json.dumps(given))
        for key in ("seconds", "created", "machine"):
            row.pop(key)
        row["training"].pop("seconds", None)
        kept.append(row)
    return sorted(kept, key=lambda row: str(row["key"]))


def reference_rows(path: Path, folder: Path) -> list[dict[str, Any]]:
    """The rows of a study that is left alone."""
    from recondite.studies.runner import compare
    from recondite.studies.study import read_study

    study, _ = read_study(path)
    outcome = compare(study, folder, workers=2)
    if outcome.failed:
        raise RuntimeError(f"{outcome.failed} rows of the study failed: {folder}")
    return outcome.rows


def kill_study(
    path: Path, rows: list[dict[str, Any]], folder: Path, kills: int, seed: int = 0
) -> dict[str, int]:
    """Kills a comparison, starts it again, until it was killed so often and has finished.

    Returns:
      How often it was killed and finished, and rows that were not as they should be.
    """
    from recondite.studies.store import RECORDS, load

    chance = random.Random(seed)
    out = {"kills": 0, "finished": 0, "rows": len(rows), "wrong": 0, "odd_codes": 0}
    while out["kills"] < kills or out["finished"] == 0:
        run = folder / f"run{out['finished']}"
        command = [sys.executable, "-m", "recondite", "-q", "compare", str(path), "--out", str(run)]
        process = _start([*command, "--no-report", "--workers", "2"])
        records = run / RECORDS
        before = records.stat().st_size if records.exists() else 0
        # Half of the kills at any time, half in the thick of it: while rows are written.
        deadline = time.monotonic() + chance.uniform(0.0, 10.0)
        busy = chance.random() < 0.5
        while process.poll() is None and out["kills"] < kills:
            grown = records.exists() and records.stat().st_size > before
            if time.monotonic() > deadline and (grown or not busy):
                os.kill(process.pid, chance.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGINT]))
                out["kills"] += 1
                break
            time.sleep(chance.uniform(0.0, 0.01))
        code = process.wait()
        out["odd_codes"] += code not in (0, -9, 130, -2)  # -2: before Python was up
        if code == 0:
            out["wrong"] += comparable(load(run)) != comparable(rows)
            out["finished"] += 1
    return out


class _Forked:
    """A script in a process forked from this one, which has imported what takes seconds."""

    def __init__(self, script: Path, *arguments: str) -> None:
        import recondite.training  # noqa: F401  before the fork, not after it

        self.returncode: int | None = None
        self.pid = os.fork()
        if self.pid == 0:
            try:
                sys.argv = [str(script), *arguments]
                runpy.run_path(str(script), run_name="__main__")
            finally:
                os._exit(1)

    def poll(self) -> int | None:
        if self.returncode is None:
            ended, status = os.waitpid(self.pid, os.WNOHANG)
            if ended:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self) -> int:
        if self.returncode is None:
            self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.returncode


def kill_training(
    folder: Path, kills: int, seed: int = 0, *, forked: bool = False
) -> dict[str, int]:
    """Kills a training with a ledger, starts it again, and compares counts after every kill.

    With ``forked`` every process starts where its imports are done, which takes as long as ten
    kills: the same script, killed by the same signal, on the same files.
    """
    from recondite.training.ledger import Ledger

    chance = random.Random(seed)
    script, taken = folder / "training.py", folder / "taken"
    script.write_text(TRAINING, encoding="utf-8")
    out = {"kills": 0, "steps": 0, "counted": 0, "under_reported": 0, "over_reported": 0}
    while out["kills"] < kills:
        arguments = (str(folder), str(10**9))
        process: Any = (
            _Forked(script, *arguments)
            if forked
            else _start([sys.executable, str(script), *arguments])
        )
        before = taken.stat().st_size if taken.exists() else 0
        # After a number of steps, or (one in five) at any time, also before the first.
        wanted = before + (0 if chance.random() < 0.2 else chance.randint(1, 120))
        deadline = time.monotonic() + (chance.uniform(0, 3) if wanted == before else 120)
        while process.poll() is None and time.monotonic() < deadline:
            if wanted > before and taken.exists() and taken.stat().st_size >= wanted:
                break
            time.sleep(0.0005)
        if process.poll() is not None:
            raise RuntimeError(f"the training ended by itself with code {process.returncode}")
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        out["kills"] += 1
        out["steps"] = taken.stat().st_size if taken.exists() else 0
        ledger = folder / "ledger.json"
        out["counted"] = Ledger(ledger).taken if ledger.exists() else 0
        out["under_reported"] += out["counted"] < out["steps"]
        # A step may be counted and killed before it is noted, and a block is reserved each time.
        out["over_reported"] += out["counted"] > out["steps"] + out["kills"] * (_BLOCK + 1)
    return out


def _start(command: list[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _study(folder: Path, kills: int) -> dict[str, int]:
    path = folder / "study.yaml"
    path.write_text(STUDY, encoding="utf-8")
    return kill_study(path, reference_rows(path, folder / "reference"), folder, kills)


def main() -> None:
    """Kills, and adds what came of it to the results; the exit code is 1 where anything is off."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("subject", choices=("study", "training"))
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--forked", action="store_true", help="trainings without their imports")
    parser.add_argument("--out", default="results/kills.json")
    given = parser.parse_args()
    whence = provenance()
    started, out = time.perf_counter(), Path(given.out)
    with tempfile.TemporaryDirectory() as folder:
        if given.subject == "study":
            found = _study(Path(folder), given.kills)
        else:
            found = kill_training(Path(folder), given.kills, given.seed, forked=given.forked)
    command = f"python -m benchmarks.kills {given.subject} --kills {given.kills}"
    command += " --forked" if given.forked else ""
    seconds = round(time.perf_counter() - started, 1)
    body = json.loads(out.read_text(encoding="utf-8")) if out.exists() else {}
    body[given.subject] = {**found, "seconds": seconds, **whence, "command": command}
    out.write_text(json.dumps(body, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(found))
    faults = ("wrong", "odd_codes", "under_reported", "over_reported")
    raise SystemExit(1 if any(found.get(name) for name in faults) else 0)


if __name__ == "__main__":
    main()
