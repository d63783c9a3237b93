"""Kills of the explorer's server while a study runs: no row of the study is lost.

    python -m benchmarks.kills_explorer --kills 50

The server is started, a study is begun from it as the page does, and the server is killed at a
random moment, again and again. A study runs in a process of its own, so a kill must neither stop it
nor take a row away; after every fifth kill the study's process is killed too, and the next server
goes on with it. In the end its rows are those of a study that was left alone. Counts go to
``results/kills-explorer.json``.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.kills import comparable, reference_rows
from benchmarks.provenance import provenance

__all__ = ["STUDY", "Explorer", "kill_explorer"]

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
training: {epochs: 1, batch_size: 64}
attacks:
  - name: inverting-gradients
    images: 1
    steps: 20
"""


class Explorer:
    """A server in a process of its own, and requests as its page makes them."""

    def __init__(self, *arguments: str, out: Path) -> None:
        command = [sys.executable, "-m", "recondite", "explore", "--no-browser", "--out", str(out)]
        self.process = subprocess.Popen(
            [*command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self.process.stdout is not None
        said = self.process.stdout.readline()
        if not said:
            raise RuntimeError("the explorer did not start")
        self.address = said.split()[1]
        self._host = self.address.split("/")[2]
        token = self.address.partition("token=")[2]
        self._cookie = f"recondite-{self._host.partition(':')[2]}={token}"

    def ask(self, address: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """One request; raises what the server refuses."""
        connection = http.client.HTTPConnection(self._host, timeout=120)
        headers = {"Cookie": self._cookie, "Origin": f"http://{self._host}"}
        try:
            content = None if body is None else json.dumps(body)
            connection.request("GET" if body is None else "POST", address, content, headers)
            answer = connection.getresponse()
            found: dict[str, Any] = json.loads(answer.read())
            if answer.status != 200:
                raise RuntimeError(f"{address}: {found}")
            return found
        finally:
            connection.close()

    def kill(self) -> None:
        """At once, as a machine does that is out of memory."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        """As Ctrl-C does."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(timeout=30)


def kill_explorer(
    rows: list[dict[str, Any]], folder: Path, kills: int, seed: int = 0
) -> dict[str, int]:
    """Kills the server so often while studies run.

    Returns:
      How often it was killed and a study finished; rows that were lost or wrong; servers that a
      study did not outlive.
    """
    from recondite.explore.worker import progress_of, running
    from recondite.studies.store import RECORDS, load, read_lines

    chance = random.Random(seed)
    out = {"kills": 0, "studies_killed": 0, "finished": 0, "rows": len(rows), "lost": 0, "wrong": 0,
           "stopped_with_the_server": 0}  # fmt: skip
    seen: set[str] = set()
    while out["kills"] < kills or out["finished"] == 0:
        place = folder / f"studies{out['finished']}"
        run = place / "kills"
        explorer = Explorer(out=place)
        try:
            if progress_of(run).get("state") == "finished":
                out["wrong"] += comparable(load(run)) != comparable(rows)
                out["finished"] += 1
                seen = set()
                continue
            _begin(explorer, run)
            deadline = time.monotonic() + chance.uniform(0.0, 6.0)
            last = out["kills"] >= kills
            while progress_of(run).get("state") != "finished":
                if time.monotonic() > deadline and not last:
                    break
                time.sleep(0.02)
            else:
                continue
        finally:
            explorer.kill()
            out["kills"] += out["kills"] < kills
        there = {row["key"] for row in read_lines(run / RECORDS)}
        out["lost"] += len(seen - there)
        seen |= there
        out["stopped_with_the_server"] += not _outlived(run)
        if out["kills"] % 5 == 0 and running(run):
            _kill_study(run)
            out["studies_killed"] += 1
    return out


def _outlived(run: Path) -> bool:
    """Whether the study is at work or finished; one that was just begun takes a while to start."""
    from recondite.explore.worker import progress_of, running

    deadline = time.monotonic() + 30.0
    while time.monotonic() < deadline:
        if running(run) or progress_of(run).get("state") == "finished":
            return True
        time.sleep(0.1)
    return False


def _begin(explorer: Explorer, run: Path) -> None:
    """Starts the study, or goes on with it where an earlier server started it."""
    if not (run / "study.yaml").exists():
        explorer.ask("/study", {"yaml": STUDY})
        return
    listed = explorer.ask("/state")["runs"]
    name = next(each["id"] for each in listed if each["path"] == str(run))
    explorer.ask(f"/study/{name}/go-on", {})


def _kill_study(run: Path) -> None:
    """The study's own process, found by its folder on the command line."""
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            line = (entry / "cmdline").read_bytes().split(b"\0")
            if b"recondite.explore.worker" in line and str(run.resolve()).encode() in line:
                os.kill(int(entry.name), signal.SIGKILL)


def main() -> None:
    """Kills, and writes what came of it; the exit code is 1 where anything was lost."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--out", default="results/kills-explorer.json")
    given = parser.parse_args()
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "study.yaml").write_text(STUDY, encoding="utf-8")
        rows = reference_rows(folder / "study.yaml", folder / "reference")
        found = kill_explorer(rows, folder / "explored", given.kills)
    command = f"python -m benchmarks.kills_explorer --kills {given.kills}"
    seconds = round(time.perf_counter() - started, 1)
    body = {**found, "seconds": seconds, **provenance(), "command": command}
    Path(given.out).write_text(json.dumps(body, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(found))
    faults = ("lost", "wrong", "stopped_with_the_server")
    raise SystemExit(1 if any(found[fault] for fault in faults) else 0)


if __name__ == "__main__":
    main()
