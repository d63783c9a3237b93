"""The page's own attack, installed as its page says, in every place that attacks are shown."""

import json
import re
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

import torch

from recondite.attacks import registry
from recondite.cli.main import run
from recondite.testing import check_attack

PAGES = Path(__file__).resolve().parents[2] / "docs" / "howto"
TEXT = (PAGES / "add-an-attack.md").read_text(encoding="utf-8")


def block(language, number=0):
    return re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)[number]


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """The example, where Python finds packages, with the entry point of its pyproject.toml."""
    site = tmp_path / "site"
    about = site / "nearest-0.1.dist-info"
    about.mkdir(parents=True)
    (site / "nearest.py").write_text(block("python"), encoding="utf-8")
    group, entry = re.search(r'entry-points\."(.*?)"\]\n(.*?)\n', block("toml")).groups()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: nearest\nVersion: 0.1\n")
    (about / "entry_points.txt").write_text(f"[{group}]\n{entry.replace(chr(34), '')}\n")
    monkeypatch.syspath_prepend(site)
    monkeypatch.delitem(sys.modules, "nearest", raising=False)
    registry.classes.cache_clear()
    yield registry.classes()["nearest-public"]
    registry.classes.cache_clear()
    sys.modules.pop("nearest", None)


def test_it_keeps_to_the_contract(installed):
    check_attack(installed())


def test_the_command_of_the_page(installed, capsys):
    words = block("sh").replace("\\\n", " ").removeprefix("pip install .\n").split()[1:]
    assert run(words) == 0
    assert "nearest-public on mlp, Gaussian σ = 0.1" in capsys.readouterr().out
    assert run(["attack", "list"]) == 0
    shown = capsys.readouterr().out
    assert "nearest-public" in shown
    assert "update" in shown


def test_its_settings_and_the_defences_are_set(installed, capsys):
    words = "--data digits --model mlp --prepare none --images 4 --json --set candidates=30"
    own = "--defence personalized-channel --capacity 9 --set method=paper --set noise=per_step"
    assert run(["attack", "nearest-public", *words.split(), *own.split()]) == 0
    row = json.loads(capsys.readouterr().out)
    assert row["attack_options"]["options"] == {"candidates": 30}
    assert row["settings"] == {"method": "paper", "noise": "per_step"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nearest-publik", "--data", "digits"], "did you mean nearest-public"),
        (["nearest-public", "--threat", "model-user"], "needs gradients"),
        (["nearest-public", "--data", "digits", "--option", "candidate=3"], "candidates"),
        (["nearest-public", "--data", "digits", "--set", "candidate=3"], "candidates"),
        (["nearest-public", "--data", "digits", "--set", "candidates"], "NAME=VALUE"),
        (["nearest-public", "--data", "digits", "--images", "5000"], "must be below"),
        (["canary-audit", "--data", "digits"], "nothing to attack behind defence none"),
    ],
)
def test_mistakes_are_one_line(installed, words, said, capsys):
    assert run(["attack", *words]) == 2
    found = capsys.readouterr().err
    assert said in found
    assert len(found.strip().splitlines()) == 1


@pytest.mark.usefixtures("inline")
def test_it_is_in_a_comparison_and_its_report(installed, tmp_path, capsys):
    from recondite.studies.store import load

    (tmp_path / "study.yaml").write_text(block("yaml"))
    out = tmp_path / "run"
    assert run(["-q", "compare", str(tmp_path / "study.yaml"), "--out", str(out)]) == 0
    rows = load(out)
    assert [row["attack"] for row in rows] == ["nearest-public"] * 2
    assert all(row["status"] == "done" for row in rows)
    for row in rows:
        assert row["reconstruction"]["images"] == 4
        assert row["attack_options"]["options"] == {"candidates": 100}
        assert set(row["attack_options"]) == {"images", "victim", "threat", "options"}
        assert "answers are among 100 public records" in row["notes"]
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "nearest public" in page


def test_an_auditor_of_a_federation_uses_it_by_name(installed, tmp_path):
    from recondite.federated.auditor import Auditor
    from recondite.models import build
    from recondite.records import load

    records = load("digits", "test")
    model = build("mlp", records.shape, seed=0)
    secret, public = records.subset(slice(1)), records.subset(slice(0, 60))
    before = {name: value.numpy().copy() for name, value in model.state_dict().items()}
    torch.nn.functional.cross_entropy(model(secret.images), secret.labels).backward()
    after = {
        name: before[name] - 0.1 * value.grad.numpy() for name, value in model.named_parameters()
    }
    auditor = Auditor(
        model, shape=records.shape, out=tmp_path, learning_rate=0.1, attack="nearest-public",
        public=public, originals=lambda number, client: (secret.images, secret.labels),
    )  # fmt: skip
    auditor.observe(1, "0", before, after)
    (row,) = auditor.finish(wait=60, report=False)
    assert row["attack"] == "nearest-public"
    assert row["reconstruction"]["mse_mean"] < 1e-9  # the victim is among the public records


def test_an_auditor_refuses_attacks_that_take_no_gradients(tmp_path):
    from recondite.federated.auditor import Auditor
    from recondite.models import build

    with pytest.raises(ValueError, match="membership-threshold takes no gradients"):
        Auditor(
            build("mlp", (1, 8, 8), seed=0), shape=(1, 8, 8), out=tmp_path, learning_rate=0.1,
            attack="membership-threshold",
        )  # fmt: skip
