"""The page's own notion, installed as its page says, in every place that notions are shown."""

import json
import re
import sys
from pathlib import Path

import pytest

import recondite as rc
from recondite.cli.main import run
from recondite.notions import notions
from recondite.testing.notions import check_notion

PAGES = Path(__file__).resolve().parents[2] / "docs" / "howto"
TEXT = (PAGES / "add-a-notion.md").read_text(encoding="utf-8")
STUDY = """\
name: small
data: digits
model: mlp
prepare: none
defences:
  - name: none
  - name: gaussian
    noise_multiplier: [2.0, 4.0]
  - name: natural-channel
    capacity: 5
  - name: gaussian
    at: {membership_advantage: 0.2}
training: {steps: 2, batch_size: 256}
"""


def block(language, number=0):
    return re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)[number]


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """The example, where Python finds packages, with the entry point of its pyproject.toml."""
    site = tmp_path / "site"
    about = site / "advantage-0.1.dist-info"
    about.mkdir(parents=True)
    (site / "advantage.py").write_text(block("python"), encoding="utf-8")
    group, entry = re.search(r'entry-points\."(.*?)"\]\n(.*?)\n', block("toml")).groups()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: advantage\nVersion: 0.1\n")
    (about / "entry_points.txt").write_text(f"[{group}]\n{entry.replace(chr(34), '')}\n")
    monkeypatch.syspath_prepend(site)
    monkeypatch.delitem(sys.modules, "advantage", raising=False)
    notions.cache_clear()
    yield notions()["membership_advantage"]
    notions.cache_clear()
    sys.modules.pop("advantage", None)


def shown(number):
    """What the page shows below a command, without the blanks that tables end with."""
    return block("text", number).strip().split("\n")


def typed(number):
    """A command of the page."""
    command = block("sh", number).replace("\\\n", " ").removeprefix("pip install .\n")
    return command.split()[1:]


def test_it_keeps_to_the_contract(installed):
    check_notion(installed)


@pytest.mark.parametrize("number", [0, 1])
def test_the_commands_of_the_page(installed, number, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")  # as the page was made
    assert run(typed(number)) == 0
    lines = [line.rstrip() for line in capsys.readouterr().out.split("\n")]
    own = [line for line in lines if "advantage" in line or line.startswith("gaussian with")]
    assert own
    assert set(own) <= set(shown(number))


def test_it_is_the_total_variation(installed):
    from scipy.stats import norm

    account = rc.account(rc.Gaussian(1.0), rc.Poisson(1.0, 1), 1e-5)
    exact = 2 * norm.cdf(0.5) - 1
    assert exact <= account.membership_advantage <= exact * (1 + 1e-6)
    assert account.to_dict()["membership_advantage"] == account.membership_advantage
    assert "membership advantage" in str(account)


@pytest.mark.usefixtures("inline")
def test_it_is_in_a_comparison_and_its_report(installed, tmp_path, capsys):
    from recondite.studies.store import load

    (tmp_path / "study.yaml").write_text(STUDY)
    out = tmp_path / "run"
    assert run(["-q", "compare", str(tmp_path / "study.yaml"), "--out", str(out)]) == 0
    assert "advantage" in capsys.readouterr().out
    rows = load(out)
    found = [row["notions"]["membership_advantage"] for row in rows]
    assert found[0] == 1.0, "nothing protects"
    assert found[2] < found[1] < 1.0
    assert 0.0 < found[3] <= 1.0, "a channel has it too"
    assert found[4] <= 0.2, "the target is met"
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "membership advantage, at most" in page
    payload = json.loads(re.search(r'id="data"[^>]*>(.*?)</script>', page, re.DOTALL)[1])
    assert "membership_advantage" in payload["axes"]


def test_training_and_attacks_have_it(installed, tmp_path, capsys):
    words = "--data digits --model mlp --prepare none --defence gaussian --noise-multiplier 2"
    steps = "--epochs 1 --batch-size 512"
    assert run(["train", *words.split(), *steps.split(), "--json"]) == 0
    trained = json.loads(capsys.readouterr().out)
    assert 0 < trained["privacy"]["membership_advantage"] < 1
    attack = "--records 50 --epochs 1 --batch-size 50 --json"
    assert run(["attack", "membership-threshold", *words.split(), *attack.split()]) == 0
    assert 0 < json.loads(capsys.readouterr().out)["notions"]["membership_advantage"] < 1


@pytest.mark.parametrize("level", ["client", "record"])
def test_a_federated_client_is_told(installed, tmp_path, level, capsys):
    pytest.importorskip("flwr")
    from recondite.federated.flower.app import ready_client
    from recondite.federated.flower.server import federate
    from recondite.federated.flower.simulation import HereGrid
    from recondite.federated.settings import Settings

    settings = Settings(
        data="digits", prepare="none", clients=2, rounds=2, batch_size=16, defence="gaussian",
        strength=3.0, level=level, sampling="poisson", ledger=str(tmp_path),
        out=str(tmp_path / "out"),
    )  # fmt: skip
    _, rows = federate(HereGrid(ready_client(settings.policy()), 2), settings)
    assert rows[0]["membership_advantage"] is None, "nothing was released"
    assert 0 < rows[1]["membership_advantage"] < rows[2]["membership_advantage"] < 1
    assert "membership_advantage" in (tmp_path / "out" / "rounds.csv").read_text()
    assert run(["federate", "ledger", str(tmp_path / "client-1")]) == 0
    assert "membership advantage, at most" in capsys.readouterr().out


def test_in_a_federation_it_is_defined_for_one_run(installed):
    from recondite.federated import spent

    plan = {"sampling": "shuffled", "batch_size": 1, "records": 1, "steps": 1, "passes": 1}
    line = {"level": "client", "mechanism": "gaussian", "schedule": plan}
    lines = [{**line, "parameters": {"noise_multiplier": size}} for size in (2.0, 3.0)]
    cost = spent(lines)
    assert cost.epsilon > 0
    assert cost.notions == {"membership_advantage": None}
    assert cost.reasons["membership_advantage"] == "the releases are 2 runs: it is defined for one"
