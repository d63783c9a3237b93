"""Runs every ``$ recondite …`` command of the documentation and writes its real output below it.

``python docs/make_outputs.py`` rewrites README.md and docs/**/*.md in place;
``python docs/make_outputs.py --check`` changes nothing and exits with 1 where an output differs.
A block whose output ends with the line ``…`` keeps its number of lines. Needs recondite-papers; but
a reader has the library alone, so commands that are not the papers' run without other packages'
notions, mechanisms and commands.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import recondite as rc
from recondite.attacks.files import save_gradients
from recondite.configuration import TrainingConfig
from recondite.gradients.leaked import leaked_gradients
from recondite.models import build, save_weights
from recondite.records import load
from recondite.training.trainer import train

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"(```console\n)(.*?)(```)", re.DOTALL)

# The files that the tutorial tells its reader to write.
FILES = {
    "channel.csv": "0.7,0.2,0.1\n0.2,0.6,0.2\n0.1,0.3,0.6\n",
    "flat.csv": "0.5,0.3,0.2\n0.3,0.4,0.3\n0.2,0.35,0.45\n",
    "prior.csv": "0.5,0.3,0.2\n",
    "gain.csv": "1,0,0\n0,1,0\n0,0,1\n0.5,0.5,0\n",
}

# Commands that recondite-papers brings.
_PAPERS = ("as-printed", "reproduce")
_ALONE = """
import importlib.metadata as metadata
found = metadata.entry_points
metadata.entry_points = lambda **given: (
    () if given.get("group", "").startswith("recondite.") else found(**given)
)
from recondite.cli.main import main
main()
"""


def prepare(folder: Path) -> None:
    """Writes the example files."""
    page = (ROOT / "docs/howto/check.md").read_text(encoding="utf-8")
    module = re.search(r"```python\n(# my_training\.py\n.*?)```", page, re.DOTALL)
    assert module is not None
    (folder / "my_training.py").write_text(module[1])
    for name, text in FILES.items():
        (folder / name).write_text(text)
    rng = np.random.default_rng(0)
    np.save(folder / "data.npy", rng.standard_normal((2000, 20)) * np.linspace(0.2, 3, 20))
    _leaked(folder)


def _leaked(folder: Path) -> None:
    """What docs/howto/attack.md attacks: three releases of eight digits, and a trained model."""
    digits = load("digits", "test")
    model = build("mlp", digits.shape, 10, seed=3)
    save_weights(model, folder / "w.safetensors")
    images, labels = digits.images[:8], digits.labels[:8]
    for number in range(1, 4):
        noise = rc.VonMisesFisher(kappa=2000)
        leak = leaked_gradients(model, images[:, None], labels[:, None], noise, seed=number)
        save_gradients(leak, folder / f"g{number}.safetensors")
    np.savez(folder / "digits.npz", images=images.numpy(), labels=labels.numpy())
    plan = TrainingConfig("digits", "mlp", epochs=60, clipping="none", prepare="none", seed=1)
    save_weights(train(plan)[1], folder / "own.safetensors")


def output(command: str, folder: Path) -> list[str]:
    """Lines that a command prints, without trailing blanks."""
    environment = {**os.environ, "NO_COLOR": "1", "COLUMNS": "160"}  # no table of a page wraps
    words = shlex.split(command.replace("\\\n", " "))
    started = ["-m", "recondite"] if words[1] in _PAPERS else ["-c", _ALONE]
    done = subprocess.run(
        [sys.executable, *started, *words[1:]],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return [line.rstrip() for line in done.stdout.rstrip("\n").split("\n")]


def refreshed(body: str, folder: Path) -> str:
    """A console block with every output replaced by a real one."""
    parts = re.split(r"(?m)^(?=\$ )", body)
    out = [parts[0]]
    for part in parts[1:]:
        lines = part.rstrip("\n").split("\n")
        count = 1
        while lines[count - 1].endswith("\\"):
            count += 1
        command = "\n".join(lines[:count])[2:]
        if not command.startswith("recondite "):
            out.append(part)
            continue
        shown = output(command, folder)
        if lines[-1] == "…":
            shown = [*shown[: len(lines) - count - 1], "…"]
        ending = "\n\n" if part.endswith("\n\n") else "\n"
        out.append("\n".join([*lines[:count], *shown]) + ending)
    return "".join(out)


def main() -> int:
    """Refreshes or checks every page."""
    check = "--check" in sys.argv[1:]
    stale = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(folder)
        for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
            old = page.read_text(encoding="utf-8")
            new = BLOCK.sub(lambda m: m[1] + refreshed(m[2], folder) + m[3], old)
            if new == old:
                continue
            stale += 1
            print(f"{'differs' if check else 'rewrote'}: {page.relative_to(ROOT)}")
            if not check:
                page.write_text(new, encoding="utf-8")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
