"""Ctrl-C in the middle of an attack: a job keeps the blocks before it, and not the torn one."""

import json
from dataclasses import replace
from functools import partial

import pytest
import torch

from recondite.attacks.gradient import descent
from recondite.attacks.gradient.base import Reconstruction
from recondite.attacks.gradient.inverting import InvertingGradients
from recondite.cli.main import run
from recondite.models import build
from recondite.records import load
from recondite_papers.jobs import (
    channel_attacks,
    channel_victims,
    compare_attacks,
    gallery,
    reasons,
    single_images,
)
from recondite_papers.jobs.data import Split
from recondite_papers.jobs.leaks import finished
from recondite_papers.jobs.sink import Context
from recondite_papers.registry import ITEMS
from recondite_papers.stacked import StackRelease

PLAIN = StackRelease("none", clipping="none")


@pytest.fixture(scope="module")
def data():
    pytest.importorskip("sklearn")
    digits = load("digits")
    x, y = digits.images[:64], digits.labels[:64]
    x = torch.nn.functional.interpolate(x, (28, 28))
    return Split(x, y, x, y, mean=0.0, std=1.0, name="mnist", classes=10)


@pytest.fixture
def stopped(monkeypatch):
    """Ctrl-C at the third iteration of every attack by descent."""
    whole, count = descent._AdamSearch.iterate, []

    def iterate(self):
        count.append(1)
        if len(count) % 3 == 0:
            raise KeyboardInterrupt
        whole(self)

    monkeypatch.setattr(descent._AdamSearch, "iterate", iterate)


def found(**changes):
    return replace(Reconstruction(torch.zeros(1), None, torch.zeros(1)), **changes)


def test_only_a_keyboard_interrupt_ends_a_job():
    whole, late = found(), found(interrupted=True)
    assert finished(whole) is whole
    assert finished(late) is late
    with pytest.raises(KeyboardInterrupt):
        finished(found(interrupted=True, by_user=True))


def _compare(context, data):
    compare_attacks.attack(context, "mnist", [PLAIN], batch=2, batches=1, steps=40)


def _singles(context, data):
    model = build("mlp", data.shape, 10, seed=0)
    cases, method = [single_images.ImageCase({}, PLAIN)], InvertingGradients(steps=40)
    single_images.attack_cases(model, data, cases, method, images=1, seconds=100)


def _victims(context, data, steps):
    net = build("mlp", data.shape, 10, seed=0)
    method, labels = InvertingGradients(steps=steps), data.labels[:1, None]
    channel_victims._rebuilt(net, data, data.images[:1], labels, method, 100.0)


JOBS = {
    "compare_attacks": _compare,
    "single_images": _singles,
    "reasons": lambda context, data: reasons._sizes(context, 2),
    "gallery": lambda context, data: gallery._pictures(context, "job", "iga/mlp/mnist"),
    "channel_attacks": lambda context, data: channel_attacks._batches(context, "mnist"),
    "channel_victims": partial(_victims, steps=40),
    "channel_victims, trial": partial(_victims, steps=channel_victims._PROBE + 1),
}


@pytest.mark.parametrize("name", JOBS)
def test_a_torn_attack_ends_its_job(name, data, stopped, monkeypatch, tmp_path):
    for module, loader in ((compare_attacks, "records"), (reasons, "records"), (gallery, "records"),
                           (channel_attacks, "records")):  # fmt: skip
        monkeypatch.setattr(module, loader, lambda *a, **k: data)
    context = Context(out=tmp_path, quick=True, say=lambda line: None)
    with pytest.raises(KeyboardInterrupt):
        JOBS[name](context, data)
    assert not list(tmp_path.iterdir())  # no picture of it either


def test_the_dlg_job_too(data, monkeypatch):
    monkeypatch.setattr(compare_attacks, "records", lambda *a: data)

    def stop(*a, **k):
        raise KeyboardInterrupt

    monkeypatch.setattr("recondite.attacks.gradient.dlg.minimise", stop)
    with pytest.raises(KeyboardInterrupt):
        compare_attacks.attack(Context(), "mnist", [PLAIN], batch=1, batches=1, steps=5, kind="dlg")


def test_the_command_ends_with_130_and_goes_on(data, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(compare_attacks, "records", lambda *a: data)
    monkeypatch.setattr("recondite_papers.command._here", lambda place: dict.fromkeys(names, True))
    item = ITEMS["compare/table-2"]
    names = item.data
    whole, ends = descent._AdamSearch.iterate, [70]  # in the second block: the first has 60

    def iterate(self):
        ends[0] -= 1
        if ends[0] == 0:
            raise KeyboardInterrupt
        whole(self)

    monkeypatch.setattr(descent._AdamSearch, "iterate", iterate)
    words = ["--quiet", "reproduce", item.name, "--quick", "--out", str(tmp_path)]
    file = tmp_path / "compare-iga-quick.json"
    assert run(words) == 130
    assert "type the same to go on" in capsys.readouterr().err
    stored = json.loads(file.read_text())
    assert len(stored["blocks"]) == 1
    assert run(words) == 0
    again = json.loads(file.read_text())
    assert len(again["blocks"]) == 2
    assert again["rows"][: len(stored["rows"])] == stored["rows"]
    assert {row["iterations"] for row in again["rows"]} == {60}
    assert not any(row["interrupted"] for row in again["rows"])
