"""What reference models are trained on: as many records as the victim, behind its defence."""

from dataclasses import replace

import pytest
import torch

from recondite.attacks.membership import Lira, Reference, Rmia, base, rmia
from recondite.studies.one_attack import attack_victim
from recondite.testing.attacks import small_victim

SMALL = {"model": "mlp", "prepare": "none", "training": {"steps": 2, "records": 300}}


@pytest.fixture
def trained(monkeypatch):
    """What the references of each attack were trained on."""
    seen = []
    real = base.train_references

    def watched(*arguments, **options):
        found = real(*arguments, **options)
        seen.append(found)
        return found

    monkeypatch.setattr(base, "train_references", watched)
    return seen


@pytest.mark.parametrize("attack", [Lira(2), Lira(2, online=False), Reference(2), Rmia(2)])
def test_references_see_as_many_records_as_the_victim(trained, attack):
    victim = small_victim()
    notes = attack.evaluate(victim).notes
    assert any(f"{len(victim.records.rest)} training records" in note for note in notes)
    size, (found,) = len(victim.records.training), trained
    flipped = len(victim.records.members) + len(victim.records.others)
    others = len(victim.records.test) + len(victim.records.rest)
    online = attack == Lira(2)
    assert len(found.images) == others + (flipped if online else 0)
    most = round(0.9 * others) + (flipped // 2 if online else 0)
    assert (found.inside.sum(1) == min(size, most)).all()
    if online:
        assert (found.inside[0, :flipped] ^ found.inside[1, :flipped]).all()
        assert torch.equal(
            found.images[: len(victim.records.members)], victim.records.members.images
        )


def test_rmia_compares_with_records_that_the_victim_never_saw(monkeypatch):
    """The records it is known to have seen train references and are no population."""
    asked, real = [], rmia.logits_of
    monkeypatch.setattr(rmia, "logits_of", lambda m, x: (asked.append(x), real(m, x))[1])
    victim = small_victim()
    Rmia(2).evaluate(victim)
    (population,) = asked
    assert torch.equal(population, victim.records.test.images)


def test_references_are_defended_like_the_victim():
    """They go through the training that the victim went through, and differ from it."""
    victim = small_victim()
    seeds = []

    def trainer(model, features, labels, seed):
        assert len(features) == len(labels) == 122
        seeds.append(seed)

    Reference(3).evaluate(replace(victim, trainer=trainer))
    assert seeds == [0, 1, 2]


@pytest.mark.parametrize(
    ("defence", "plain"),
    [
        ({"name": "none"}, True),
        ({"name": "clip"}, False),
        ({"name": "gaussian", "noise_multiplier": 1.0}, False),
        ({"name": "natural-channel", "capacity": 20.0}, False),
        ({"name": "compression", "remove": [0]}, False),
    ],
)
def test_a_studys_references_are_trained_behind_its_defence(monkeypatch, trained, defence, plain):
    from recondite.studies import victims

    runs, real = [], victims.train

    def watched(config, **options):
        runs.append(config)
        return real(config, **options)

    monkeypatch.setattr(victims, "train", watched)
    attack_victim(
        {
            **SMALL,
            "data": "digits",
            "defences": [defence],
            "attacks": [{"name": "membership-reference", "records": 20, "references": 2}],
        }
    )
    assert trained[0].batched is plain
    assert len(runs) == (0 if plain else 2)
    for config in runs:
        assert config.defence.name == (
            "none" if defence["name"] in ("clip", "compression") else defence["name"]
        )
    assert len({config.seed for config in runs} | {0}) == 1 + len(runs)
