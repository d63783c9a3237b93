"""The first commands of the README from the shell, start-up included."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from benchmarks.rows import at_most
from benchmarks.runner import Benchmark, Settings, Task, timing

__all__ = ["BENCHMARKS"]

_RUN = "--rate 128/60000 --steps 1407 --delta 1/60000"
_COMMANDS = {
    "account vmf": f"account vmf --kappa 75 --dim 13700 {_RUN}",
    "account gaussian": "account gaussian --noise-multiplier 1.23 --dim 13700 --batch-size 128 "
    f"--max-batch-size 160 {_RUN}",
    "account directional": "account directional --kappa 10 --dim 62006 --blocks 5 --epochs 30 "
    "--batch-size 512 --records 50000 --delta 1e-5",
}
_PEER = """
import dp_accounting
from dp_accounting import pld
event = dp_accounting.PoissonSampledDpEvent(128 / 60000, dp_accounting.GaussianDpEvent(1.23))
print(pld.PLDAccountant().compose(event, 1407).get_epsilon(1 / 60000))
"""


def _script() -> list[str]:
    """The installed command next to this Python, or else its entry point."""
    beside = Path(sys.executable).parent / "recondite"
    if shutil.which(beside):
        return [str(beside)]
    return [sys.executable, "-c", "from recondite.cli import main; main()"]


def _shell(command: list[str]) -> Callable[[Settings], Task]:
    def call() -> None:
        environment = {**os.environ, "NO_COLOR": "1"}
        subprocess.run(command, env=environment, capture_output=True, check=True)

    return lambda _: Task(call)


def _command(name: str, line: str) -> Benchmark:
    ours, target = _shell([*_script(), *line.split()]), at_most(1.5, "about 1.5 s")
    if name != "account gaussian":
        return timing(f"recondite {name}", ours, target=target)
    return timing(
        f"recondite {name}",
        ours,
        target=target,
        peer=_shell([sys.executable, "-c", _PEER]),
        peer_name="a script with dp-accounting's PLD",
        requires=("dp_accounting",),
        note="the peer's script prints ε alone, the command every notion",
    )


BENCHMARKS = [_command(name, line) for name, line in _COMMANDS.items()]
