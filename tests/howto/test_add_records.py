"""The page's own kind of records, installed as its page says: loaded, guessed at, scored, shown."""

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from recondite.cli.main import run
from recondite.records import kinds, load, load_records
from recondite.testing import check_records

PAGES = Path(__file__).resolve().parents[2] / "docs" / "howto"
TEXT = (PAGES / "add-records.md").read_text(encoding="utf-8")


def block(language, number=0):
    return re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)[number]


@pytest.fixture(autouse=True)
def installed(tmp_path, monkeypatch):
    """The example, where Python finds packages, with the entry point of its pyproject.toml."""
    site = tmp_path / "site"
    about = site / "heartbeats-0.1.dist-info"
    about.mkdir(parents=True)
    (site / "heartbeats.py").write_text(block("python"), encoding="utf-8")
    group, entry = re.search(r'entry-points\."(.*?)"\]\n(.*?)\n', block("toml")).groups()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: heartbeats\nVersion: 0.1\n")
    (about / "entry_points.txt").write_text(f"[{group}]\n{entry.replace(chr(34), '')}\n")
    monkeypatch.syspath_prepend(site)
    monkeypatch.delitem(sys.modules, "heartbeats", raising=False)
    monkeypatch.chdir(tmp_path)
    kinds.cache_clear()
    yield
    kinds.cache_clear()
    sys.modules.pop("heartbeats", None)


@pytest.fixture(autouse=True)
def clinic(installed):
    """Made-up beats: a wave that comes early in one class, of varying height and with noise."""
    rng = np.random.default_rng(0)
    time, labels = np.arange(32), np.arange(100) % 2
    places = 16 - 5 * labels + rng.normal(0, 1, 100)
    heights = rng.uniform(0.6, 1.4, 100)
    waves = heights[:, None] * np.exp(-((time - places[:, None]) ** 2) / 8)
    beats = waves + 0.02 * rng.normal(size=waves.shape)
    np.save("clinic.beats.npy", np.concatenate([labels[:, None], beats], axis=1))


def test_it_keeps_to_the_contract():
    check_records(load_records("clinic.beats.npy", "all"))
    exec(block("python", 2), {})


def test_the_use_of_the_page(capsys):
    exec(block("python", 1), {})
    assert capsys.readouterr().out == block("text")


def test_it_is_listed(capsys):
    assert run(["data", "list"]) == 0
    assert "kind heartbeats: of the package heartbeats 0.1" in capsys.readouterr().out


def test_what_is_not_there_or_not_for_images():
    with pytest.raises(ValueError, match="there is no file other.beats.npy"):
        load_records("other.beats.npy")
    with pytest.raises(ValueError, match="holds heartbeats, and images are needed here"):
        load("clinic.beats.npy")
    with pytest.raises(ValueError, match=r"FILE\.beats\.npy"):
        load_records("other.txt")


def test_private_beats_are_shown_only_on_request():
    beats = load_records("clinic.beats.npy")
    assert beats.show(beats.features, most=1)[0].rebuilt is None
    assert beats.show(beats.features, most=1, reveal=True)[0].original.startswith(b"<svg")


def test_it_is_trained_on_as_the_page_says(capsys):
    words = block("sh").replace("\\\n", " ").split()[1:]
    assert run(words) == 0
    assert "mlp2 on heartbeats: gaussian" in capsys.readouterr().out
    record = json.loads(Path("run/record.json").read_text(encoding="utf-8"))
    assert record["data"]["kind"] == "heartbeats"
    assert record["results"]["test_accuracy"] > 0.7
    assert any("not covered by the account" in note for note in record["notes"])


def test_it_is_behind_a_channel_too():
    # Millivolts have no known range: information is bounded, epsilon is not.
    words = "--model mlp --defence natural --capacity 3 --standardise --epochs 1 --out noisy"
    assert run(["train", "--data", "clinic.beats.npy", *words.split()]) == 0
    privacy = json.loads(Path("noisy/record.json").read_text(encoding="utf-8"))["privacy"]
    assert privacy["mutual_information"]["run"] <= 3.0
    assert privacy["epsilon"]["pld"] == "inf"


def test_its_members_are_looked_for(capsys):
    words = "--data clinic.beats.npy --model mlp2 --epochs 1 --records 20 --json"
    assert run(["attack", "membership-threshold", *words.split()]) == 0
    assert json.loads(capsys.readouterr().out)["data"]["name"] == "clinic.beats.npy"
    # An attack that rebuilds images says so.
    assert run(["attack", "dlg", "--data", "clinic.beats.npy", "--model", "mlp2"]) == 2
    assert "holds heartbeats" in capsys.readouterr().err


@pytest.mark.parametrize("defence", ["none", "gaussian", "natural-channel"])
def test_federated_clients_share_it(tmp_path, defence):
    pytest.importorskip("flwr")
    from recondite.federated.flower.app import ready_client
    from recondite.federated.flower.server import federate
    from recondite.federated.flower.simulation import HereGrid
    from recondite.federated.settings import Settings

    settings = Settings(
        data="clinic.beats.npy",
        model="mlp2",
        clients=2,
        rounds=2,
        local_steps=4,
        batch_size=16,
        learning_rate=0.5,
        defence=defence,
        strength=2.0 if defence == "gaussian" else 0.0,
        ledger=str(tmp_path / "ledgers"),
    )
    _, rows = federate(HereGrid(ready_client(settings.policy()), 2), settings)
    assert [row["round"] for row in rows] == [0, 1, 2]
    if defence == "none":
        assert rows[-1]["accuracy"] > 0.7
    else:
        assert rows[-1]["information"] > 0
    with pytest.raises(ValueError, match="audit_every=0 in Python.*holds heartbeats"):
        federate(None, settings.with_values(audit_every=1))
