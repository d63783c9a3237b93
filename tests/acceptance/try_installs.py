"""Builds the wheel and tries it as people install it: without constraints, newest and oldest.

    python tests/acceptance/try_installs.py                   the base
    python tests/acceptance/try_installs.py dp-accounting     an extra, or several
    python tests/acceptance/try_installs.py --all             everything: the check of a release

Every trial is a new environment in a temporary folder, once with the newest versions that pip
finds and once with the oldest that pyproject.toml declares. What needs torch gets torch 2.13.0
first in both: pip would choose gigabytes of CUDA packages, and no other version is tried.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from email.parser import HeaderParser
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[2]
TORCH = "torch==2.13.0"
PIP = ("-m", "pip", "--disable-pip-version-check", "-q")
RUN = ("--rate", "128/60000", "--steps", "1407", "--delta", "1/60000")

STUDY = """
name: trial
data: mnist-5k
model: mlp
prepare: crop16
defences: [{name: none}, {name: gaussian, noise_multiplier: 1}]
training: {epochs: 1, batch_size: 128, learning_rate: 0.005, optimizer: adamw}
attacks: [{name: inverting-gradients, images: 2, steps: 20}]
seeds: 1
"""
TENSOR = """
import torch, recondite as rc
assert rc.VonMisesFisher(75, 100).perturb(torch.ones(100)).shape == (100,)
"""
ENGINE = """
import torch, recondite as rc
data = torch.utils.data.TensorDataset(torch.randn(64, 5), torch.randint(2, (64,)))
model = torch.nn.Sequential(torch.nn.Linear(5, 4), torch.nn.LayerNorm(4), torch.nn.Linear(4, 2))
engine = rc.PrivacyEngine()
model, optimizer, loader = engine.make_private(
    module=model, optimizer=torch.optim.SGD(model.parameters(), 0.1),
    data_loader=torch.utils.data.DataLoader(data, batch_size=8),
    mechanism=rc.Gaussian(1.1), max_grad_norm=1.0)
for x, y in loader:
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
assert 0 < engine.get_epsilon(delta=1e-5) < 100
rc.models.weights.save_weights(torch.nn.Linear(2, 2), "weights.safetensors")
"""
DATA = """
import recondite as rc
for name, count in (("digits", 1437), ("mnist-5k", 4000)):
    assert len(rc.records.load(name, "train")) == count
"""
EVENTS = """
import dp_accounting as dp
from recondite.accounting import events
step = dp.PoissonSampledDpEvent(0.01, events.VonMisesFisherDpEvent(kappa=75.0, dim=13_700))
assert 0 < events.PLDAccountant().compose(step, 10).get_epsilon(1e-5) < 1
assert 0 < events.RdpAccountant().compose(step, 10).get_epsilon(1e-5) < 2
"""
TEXT = """
import torch
from peft import LoraConfig, get_peft_model
from transformers import GPT2Config, GPT2LMHeadModel
made = GPT2LMHeadModel(GPT2Config(n_layer=1, n_head=2, n_embd=8, vocab_size=11, n_positions=8))
made = get_peft_model(made, LoraConfig(r=2, target_modules=["c_attn"], fan_in_fan_out=True))
assert made(torch.zeros(1, 4, dtype=torch.long)).logits.shape == (1, 4, 11)
"""
EXPLORE = """
import subprocess, sys, urllib.request
from pathlib import Path
command = [Path(sys.executable).with_name("recondite"), "explore", "--no-browser", "--out", "runs"]
server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
try:
    address = next(word for word in server.stdout.readline().split() if "token=" in word)
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    page = opener.open(address, timeout=60)
    assert page.status == 200 and b"Recondite" in page.read()
finally:
    server.terminate()
    server.wait(30)
"""
ALONE = "import {0}, recondite; assert recondite.Gaussian(1.0).strength == 1.0"
NVFLARE = "import nvflare, recondite.federated.nvflare"


@dataclass(frozen=True)
class Trial:
    """What must run once these extras are installed; commands of ours unless they are code."""

    commands: tuple[tuple[str, ...], ...]
    code: str = ""
    oldest: bool = True


_MEMBERSHIP = ("attack", "membership-reference", "--data", "mnist-5k", "--model", "mlp")
_TRAIN = ("train", "--data", "mnist-5k", "--model", "mlp", "--defence", "gaussian")
_FEDERATE = ("federate", "demo", "--clients", "2", "--rounds", "1", "--partition", "iid")
_COMPARE = ("compare", "study.yaml", "--out", "run")
TRIALS = {
    "base": Trial(()),
    "dp-accounting": Trial((), EVENTS),
    "torch": Trial((), TENSOR),
    "train": Trial((), ENGINE),
    "data": Trial((("data", "list"),), DATA),
    "train,data": Trial(((*_TRAIN, "--noise-multiplier", "1.23", "--epochs", "1"),)),
    "attack": Trial(
        (
            (*_MEMBERSHIP, "--records", "400", "--epochs", "60", "--references", "8"),
            ("attack", "analytic", "--data", "mnist-5k", "--model", "mlp", "--out", "found.png"),
        )
    ),
    "compare": Trial((_COMPARE, ("report", "run"))),
    "parquet": Trial((), ALONE.format("pandas, pyarrow")),
    "mlflow": Trial((), ALONE.format("mlflow")),
    "ray": Trial((), ALONE.format("ray")),
    "compare,parquet": Trial(((*_COMPARE, "--parquet"),)),
    "compare,mlflow": Trial(((*_COMPARE, "--mlflow"),)),
    "compare,ray": Trial(((*_COMPARE, "--engine", "ray", "--workers", "1"),)),
    "federated": Trial(((*_FEDERATE, "--local-steps", "1"),)),
    "nvflare": Trial((), NVFLARE),
    "text": Trial(((*_TRAIN, "--noise-multiplier", "1.23", "--epochs", "1"),), TEXT),
    "explore": Trial((_COMPARE, ("report", "run")), EXPLORE),
    # Flower pins one release of Ray, so all of the oldest cannot be installed together.
    "all": Trial(((*_COMPARE, "--parquet"), (*_FEDERATE, "--local-steps", "1")), EVENTS, False),
}


def call(*arguments: object, folder: Path | None = None, code: int = 0) -> str:
    """Runs a command, insists on its exit code, and returns what it printed."""
    command = [str(argument) for argument in arguments]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=folder)
    if done.returncode != code:
        said = (done.stdout + done.stderr)[-3000:]
        raise SystemExit(f"exit code {done.returncode}, not {code}: {' '.join(command)}\n{said}")
    return done.stdout


def requirements(wheel: Path, extras: set[str], python: str) -> list[Requirement]:
    """What the wheel declares for a base install and these extras, with the extras they include."""
    with zipfile.ZipFile(wheel) as content:
        name = next(name for name in content.namelist() if name.endswith(".dist-info/METADATA"))
        lines = HeaderParser().parsestr(content.read(name).decode()).get_all("Requires-Dist", [])
    everything, chosen, waiting = [Requirement(line) for line in lines], set(), extras | {""}
    found: list[Requirement] = []
    while waiting:
        chosen.add(extra := waiting.pop())
        for requirement in everything:
            surroundings = {"extra": extra, "python_version": python}
            if requirement.marker is None or requirement.marker.evaluate(surroundings):
                if requirement.name == "recondite":
                    waiting |= requirement.extras - chosen
                else:
                    found.append(requirement)
    return found


def oldest(needed: list[Requirement]) -> list[str]:
    """The floors as constraints; where an extra and the base have one, the higher."""
    floors: dict[str, Version] = {}
    for requirement in needed:
        for part in requirement.specifier:
            if part.operator == ">=" and requirement.name != "torch":
                floor = Version(part.version)
                floors[requirement.name] = max(floor, floors.get(requirement.name, floor))
    return [f"{name}=={floor}" for name, floor in floors.items()]


def accounts(binary: Path) -> None:
    """The first command of the README, exit codes, and what must not come along."""
    recondite = binary / "recondite"
    for help_of in ([], ["account"], ["compare"], ["federate"]):
        call(recondite, *help_of, "--help")
    call(recondite, "account", "--bogus", code=2)
    call(recondite, "account", "gaussian", "--noise-multiplier", "x", *RUN, code=2)
    call(recondite, "match", "gaussian", "--noise-multiplier", 1, code=2)
    call(recondite, "account", "gaussian", "--noise-multiplier", 1.23, *RUN)
    call(recondite, "calibrate", "vmf", "--dim", 13700, "--epsilon", 8, *RUN)
    out = call(recondite, "account", "vmf", "--kappa", 75, "--dim", 13700, *RUN, "--json")
    epsilon = json.loads(out)["epsilon"]["pld"]
    assert abs(epsilon - 0.7906) < 2e-3, epsilon


def alone(binary: Path) -> None:
    """Without extras: typed, no torch, and one line for what is not here."""
    code = "import recondite, importlib.resources as r; print(r.files('recondite')/'py.typed')"
    assert Path(call(binary / "python", "-c", code).strip()).exists(), "py.typed is missing"
    call(binary / "python", "-c", "import torch", code=1)  # it must stay an extra
    call(binary / "recondite", "train", "--data", "mnist-5k", "--model", "mlp", code=2)
    events = "import recondite.accounting.events"
    need = subprocess.run(
        [binary / "python", "-c", events], check=False, capture_output=True, text=True
    )
    assert "pip install 'recondite[dp-accounting]'" in need.stderr, need.stderr


def attempt(name: str, wheel: Path, python: str, old: bool) -> str:
    """One environment, one set of extras; returns the versions it got."""
    trial, extras = TRIALS[name], set() if name == "base" else set(name.split(","))
    version = call(python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])").strip()
    needed = requirements(wheel, extras, version)
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        call(python, "-m", "venv", folder / "env")
        binary = folder / "env" / "bin"
        if any(requirement.name == "torch" for requirement in needed):
            call(binary / "python", *PIP, "install", TORCH)
        bounds = folder / "oldest.txt"
        bounds.write_text("\n".join(oldest(needed)) if old else "")
        target = f"{wheel}[{','.join(sorted(extras))}]" if extras else str(wheel)
        call(binary / "python", *PIP, "install", "-c", bounds, target)
        accounts(binary)
        if not extras:
            alone(binary)
        (folder / "study.yaml").write_text(STUDY)
        if trial.code:
            call(binary / "python", "-c", trial.code, folder=folder)
        for command in trial.commands:
            call(binary / "recondite", *command, folder=folder)
        names = sorted({requirement.name for requirement in needed})
        show = f"from importlib.metadata import version as v; print(*[n+' '+v(n) for n in {names}])"
        return f"Python {version}: {call(binary / 'python', '-c', show).strip()}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("extras", nargs="*", help=f"of: {' '.join(TRIALS)}")
    parser.add_argument("--all", action="store_true", help="every trial: the check of a release")
    parser.add_argument("--python", default=sys.executable, help="another interpreter")
    parser.add_argument("--only", choices=("newest", "oldest"), help="one of the two")
    given = parser.parse_args()
    names = list(TRIALS) if given.all else given.extras or ["base"]
    unknown = [name for name in names if name not in TRIALS]
    if unknown:
        parser.error(f"extras must be of {' '.join(TRIALS)}, got {unknown[0]!r}")
    with tempfile.TemporaryDirectory() as work:
        call(sys.executable, *PIP, "wheel", "--no-deps", "-w", work, ROOT)
        wheel = next(Path(work).glob("recondite-*.whl"))
        for name in names:
            for which in ("newest", "oldest"):
                if given.only in (None, which) and (which == "newest" or TRIALS[name].oldest):
                    got = attempt(name, wheel, given.python, which == "oldest")
                    print(f"{name}, {which} versions: works. {got}", flush=True)


if __name__ == "__main__":
    main()
