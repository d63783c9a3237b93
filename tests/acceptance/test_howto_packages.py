"""The packages of the four how-tos: built as their pages say, installed, and used by name.

Five wheels (ours and the pages') are built by hatchling and installed in a new environment, without
an editable install or a source tree on its path. torch and the other dependencies are those of the
environment that runs the tests, linked one by one: to download them would test nothing of ours.
"""

import csv
import json
import os
import re
import subprocess
import sys
import sysconfig
import venv
from importlib.metadata import distribution
from pathlib import Path

import numpy as np
import pytest

from recondite.studies.store import load

ROOT = Path(__file__).resolve().parents[2]
PAGES = ROOT / "docs" / "howto"
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
EXAMPLES = {
    "sketched": "add-a-defence.md",
    "nearest": "add-an-attack.md",
    "advantage": "add-a-notion.md",
    "heartbeats": "add-records.md",
}
OURS = re.compile(r"(_*editable|_+)?_*recondite", re.IGNORECASE)
SUITES = """
import recondite
from recondite.attacks.registry import classes
from recondite.notions import notions
from recondite.records import kinds, load_records
from recondite.mechanisms.registry import mechanisms
from recondite.testing import check_attack, check_mechanism, check_notion, check_records

assert not hasattr(recondite, "__editable__") and "site-packages" in recondite.__file__
check_mechanism(mechanisms()["sketched"](1.0, rank=6))
check_attack(classes()["nearest-public"](candidates=20))
check_notion(notions()["membership_advantage"])
assert "heartbeats" in kinds()
check_records(load_records("clinic.beats.npy", "all"))
print("kept")
"""
STUDY = """\
name: {name}
data: {data}
model: {model}
prepare: none
training: {{steps: 10, batch_size: 64, learning_rate: 0.02{more}}}
defences:
  - name: none
  - {{name: sketched, noise_multiplier: [1.0], rank: 8}}
  - name: sketched
    at: {{membership_advantage: 0.3}}
attacks:
  - {attack}
seeds: 1
"""


def blocks(page, language):
    text = (PAGES / page).read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def call(*command, folder, code=0, **variables):
    surroundings = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    done = subprocess.run(
        [str(word) for word in command],
        capture_output=True,
        text=True,
        timeout=560,
        check=False,
        cwd=folder,
        env={**surroundings, "OMP_NUM_THREADS": "1", **variables},
    )
    assert done.returncode == code, (done.stdout + done.stderr)[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    """Our wheel and those of the pages."""
    work = tmp_path_factory.mktemp("wheels")
    for name, page in EXAMPLES.items():
        folder = work / name
        folder.mkdir()
        (folder / f"{name}.py").write_text(blocks(page, "python")[0], encoding="utf-8")
        (folder / "pyproject.toml").write_text(blocks(page, "toml")[0], encoding="utf-8")
    # One backend for all five, where pip would set up an environment for each.
    call(*PIP, "install", "--target", work / "backend", "hatchling>=1.25", folder=work)
    sources = [ROOT, *(work / name for name in EXAMPLES)]
    words = ("wheel", "--no-deps", "--no-build-isolation", "--no-index", "-w", work / "dist")
    call(*PIP, *words, *sources, folder=work, PYTHONPATH=str(work / "backend"))
    found = sorted((work / "dist").glob("*.whl"))
    assert len(found) == 5
    return found


@pytest.fixture(scope="module")
def installed(wheels, tmp_path_factory):
    """A folder to work in, and the commands of a new environment with the five wheels."""
    work = tmp_path_factory.mktemp("clean")
    venv.create(work / "env", with_pip=False)
    binary = work / "env" / "bin"
    linked = work / "dependencies"
    linked.mkdir()
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        if not OURS.match(path.name) and path.suffix != ".pth":
            (linked / path.name).symlink_to(path)
    site = call(binary / "python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))",
                folder=work).strip()  # fmt: skip
    (Path(site) / "dependencies.pth").write_text(f"{linked}\n", encoding="utf-8")
    # Their requirements are looked up, and found among what is linked.
    call(*PIP, "--python", binary / "python", "install", "--no-index", *wheels, folder=work)
    rng = np.random.default_rng(0)
    labels = np.arange(200) % 2
    places = 16 - 5 * labels + rng.normal(0, 1, 200)
    waves = np.exp(-((np.arange(32) - places[:, None]) ** 2) / 8)
    beats = waves + 0.02 * rng.normal(size=waves.shape)
    np.save(work / "clinic.beats.npy", np.concatenate([labels[:, None], beats], axis=1))
    return work, binary


def run(installed, *words, code=0):
    work, binary = installed
    return call(binary / "recondite", *words, folder=work, code=code)


def typed(page, number=0):
    """A command of a page, without the name of the program."""
    return (
        blocks(page, "sh")[number].replace("\\\n", " ").removeprefix("pip install .\n").split()[1:]
    )


def test_their_conformance_suites_pass_where_they_are_installed(installed):
    work, binary = installed
    assert call(binary / "python", "-c", SUITES, folder=work).strip() == "kept"


def test_they_are_listed(installed):
    assert "kind heartbeats: of the package heartbeats 0.1" in run(installed, "data", "list")
    assert "nearest-public" in run(installed, "attack", "list")


def test_account_and_calibrate_know_the_defence_and_the_notion(installed):
    shown = run(installed, *typed("add-a-defence.md"))
    assert "sketched" in shown
    assert "membership advantage" in shown
    words = ("--target", "membership-advantage=0.05", "--rate", "128/60000", "--steps", "1407")
    shown = run(installed, "calibrate", "sketched", "--set", "rank=100", *words)
    assert "sketched with noise_multiplier = 0.89" in shown


def test_the_defence_is_trained_with_on_the_records(installed):
    words = "--model mlp2 --defence sketched --noise-multiplier 1 --set rank=8 --standardise"
    run(installed, "train", "--data", "clinic.beats.npy", *words.split(), "--out", "trained")
    record = json.loads((installed[0] / "trained" / "record.json").read_text(encoding="utf-8"))
    assert record["data"]["kind"] == "heartbeats"
    assert record["defence"]["name"] == "sketched"
    assert 0 < record["privacy"]["membership_advantage"] < 1


def test_the_attack_attacks_the_defence(installed):
    words = typed("add-an-attack.md")
    words[words.index("gaussian")] = "sketched"
    words += ["--set", "rank=8", "--set", "candidates=50", "--json"]
    row = json.loads(run(installed, *words))
    assert row["defence"] == "sketched"
    assert row["settings"] == {"rank": 8}
    assert row["attack_options"]["options"] == {"candidates": 50}


def test_members_are_looked_for_among_the_records_behind_the_defence(installed):
    words = "--data clinic.beats.npy --model mlp2 --records 20 --epochs 2 --json"
    defence = "--defence sketched --noise-multiplier 1 --set rank=8"
    row = json.loads(
        run(installed, "attack", "membership-threshold", *words.split(), *defence.split())
    )
    assert 0 < row["notions"]["membership_advantage"] < 1


def test_a_federation_of_real_processes_has_records_defence_and_notion(installed):
    pytest.importorskip("flwr")
    work, binary = installed
    # What pip would have written beside the interpreter, had it installed what is linked here.
    for entry in distribution("flwr").entry_points.select(group="console_scripts"):
        script = binary / entry.name
        script.write_text(
            f"#!{binary / 'python'}\nimport sys\n"
            f"from {entry.module} import {entry.attr}\nsys.exit({entry.attr}())\n"
        )
        script.chmod(0o755)
    words = "--data clinic.beats.npy --model mlp2 --batch-size 16 --rounds 1 --audit-seconds 0"
    defence = "--defence sketched --strength 4 --level record"
    shown = run(
        installed, "federate", "up", *words.split(), *defence.split(), "--out", "federation"
    )
    assert "report.html" not in shown, "nothing was rebuilt"
    with (work / "federation" / "results" / "rounds.csv").open(newline="") as file:
        assert "membership_advantage" in next(csv.reader(file))
    for client in ("client-0", "client-1"):
        folder = work / "federation" / "ledgers" / client
        spent = json.loads(run(installed, "federate", "ledger", str(folder), "--json"))
        assert json.loads((folder / "releases.jsonl").read_text().splitlines()[1])["mechanism"] == (
            "sketched"
        )
        assert 0 < spent["notions"]["membership_advantage"] < 1


@pytest.mark.parametrize(
    ("name", "data", "model", "attack", "more"),
    [
        ("images", "digits", "mlp", "{name: nearest-public, images: 4, candidates: 50}", ""),
        (
            "beats",
            "clinic.beats.npy",
            "mlp2",
            "{name: membership-threshold, records: 20}",
            ", standardise: true",
        ),
    ],
)
def test_a_comparison_and_its_report_show_all_of_them(installed, name, data, model, attack, more):
    work, _ = installed
    study = STUDY.format(name=name, data=data, model=model, attack=attack, more=more)
    (work / f"{name}.yaml").write_text(study, encoding="utf-8")
    run(installed, "-q", "compare", f"{name}.yaml", "--out", name, "--workers", "1")
    rows = load(work / name)
    page = (work / name / "report.html").read_text(encoding="utf-8")
    for word in ("sketched", "membership advantage"):
        assert word in page
    assert [row["status"] for row in rows] == ["done"] * 3
    assert {row["defence"] for row in rows} == {"none", "sketched"}
