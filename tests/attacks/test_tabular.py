"""Rows of a table from a gradient: relaxation, pooling, the attack and what it says of itself."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from recondite.attacks import registry
from recondite.attacks.base import AttackRequest, Available
from recondite.attacks.tabular import TabularInversion
from recondite.attacks.tabular.pooling import pool
from recondite.attacks.tabular.relaxation import Relaxation
from recondite.attacks.victim import Defended
from recondite.mechanisms import Gaussian, VonMisesFisher
from recondite.testing import check_attack
from recondite.testing.attacks import small_table_victim

BARE = Defended()


def victim(images=2, batch_size=1, defence=BARE, seed=0, **asked):
    made = small_table_victim(
        AttackRequest(images=images, batch_size=batch_size, **asked), seed=seed
    )
    return replace(made, defence=defence)


def test_every_point_is_a_possible_row():
    public = victim().records.test
    relaxation = Relaxation.of(public)
    free = 5 * torch.randn(7, public.shape[0], generator=torch.Generator().manual_seed(0))
    entries = relaxation.entries(free)
    for start, stop in public.one_hot:
        assert torch.allclose(entries[:, start:stop].sum(1), torch.ones(7))
        assert float(entries[:, start:stop].min()) >= 0
    numbers = [i for i in range(public.shape[0]) if not any(a <= i < b for a, b in public.one_hot)]
    mean, std = public.features.mean(0), public.features.std(0, correction=0)
    rows = relaxation.features(free)
    assert torch.allclose(rows[:, numbers], (mean + std * free)[:, numbers], atol=1e-6)


def test_the_scale_of_one_hot_columns_is_followed():
    public = victim().records.test.normalised([0.5], [0.5])
    rows = Relaxation.of(public).features(torch.zeros(1, public.shape[0]))
    start, stop = public.one_hot[1]  # two categories, each at one half: 0 between -1 and 1
    assert torch.allclose(rows[:, start:stop], torch.zeros(1, 2))


def test_attempts_in_another_order_are_pooled_and_agree():
    records = victim().records.test
    relaxation = Relaxation.of(records)
    free = torch.where(records.features[:4] > 0.5, 20.0, -20.0)
    entries = relaxation.entries(free)
    attempts = torch.stack([entries, entries[[2, 3, 0, 1]], entries[[1, 0, 3, 2]]])
    labels = torch.zeros(4, dtype=torch.int64)
    found = pool(relaxation, attempts, labels, torch.tensor([0.0, 1.0, 2.0]))
    torch.testing.assert_close(found.entries, entries.double())
    assert float(found.entropy.max()) < 1e-3
    apart = pool(relaxation, attempts, torch.arange(4), torch.tensor([0.0, 1.0, 2.0]))
    assert float(apart.entropy.max()) > 0.1  # records of other classes are not exchanged


@pytest.mark.parametrize("size", [1, 4])
def test_undefended_rows_come_back_far_better_than_a_guess(size):
    found = TabularInversion(steps=300, restarts=4).evaluate(victim(6, size)).to_dict()
    made = found["reconstruction"]
    assert made["cells_mean"] > (0.99 if size == 1 else 0.7)
    assert made["blind"]["cells_mean"] < 0.6
    assert made["beats_guessing"]
    assert made["scale"] == "rows of a table"
    assert len(made["row"]) == 6 * size


def test_entropy_tells_right_cells_from_wrong_ones():
    asked = victim(4, 8)
    made = TabularInversion(steps=150, restarts=6).evaluate(asked).to_dict()["reconstruction"]
    assert made["entropy_right"] < made["entropy_wrong"]
    assert made["cells_right_of_surest_quarter"] >= made["cells_mean"]


def test_labels_are_found_where_they_are_not_told():
    asked = victim(6, 1, labels=False)
    made = TabularInversion(steps=20, restarts=1).evaluate(asked).to_dict()["reconstruction"]
    assert made["labels_right"] == 1.0


@pytest.mark.parametrize(
    "defence",
    [
        Defended(Gaussian(20.0), clipping="flat"),
        Defended(VonMisesFisher(1.0), clipping="flat"),
        Defended(clipping="flat", max_grad_norm=0.1),
        Defended(Gaussian(0.5), clipping="per-layer"),
    ],
)
def test_it_runs_behind_defences(defence):
    asked = victim(6, 1, defence)
    found = TabularInversion(steps=60, restarts=2).evaluate(asked)
    made = found.to_dict()["reconstruction"]
    assert 0 <= made["cells_mean"] <= 1
    if defence.mechanism.parameter:
        assert any("likelihood" in note for note in found.notes)


def test_under_much_noise_it_ends_near_the_blind_guess():
    asked = victim(12, 1, Defended(Gaussian(50.0), clipping="flat"))
    made = TabularInversion(steps=200, restarts=2).evaluate(asked).to_dict()["reconstruction"]
    assert made["cells_mean"] < made["blind"]["cells_mean"] + 0.2


def test_the_contract_on_rows():
    check_attack(TabularInversion(steps=5, restarts=2))


def test_others_refuse_rows_before_anything_is_trained():
    there = Available("people", 80, 20, (5,), "rows of a table", 2)
    refused = {
        name: registry.build(name).refusal(there)
        for name in registry.built_in()
        if registry.build(name).refusal(there)
    }
    assert refused["dlg"] == "takes images: people holds rows of a table"
    assert {"inverting-gradients", "strongest", "released-record", "model-inversion"} <= set(
        refused
    )
    assert not {"tabular-inversion", "spear", "identification", "membership-lira"} & set(refused)
    images = replace(there, kind="images", shape=(1, 8, 8))
    assert "takes rows of a table" in TabularInversion().refusal(images)
    with pytest.raises(ValueError, match="attack dlg takes images: table holds rows"):
        registry.build("dlg").evaluate(victim())


def test_amounts_are_refused_by_those_that_need_classes():
    there = Available("people", 80, 20, (5,), "rows of a table", 0)
    said = registry.build("membership-threshold").refusal(there)
    assert said == "needs classes: the target of people holds amounts"
    assert TabularInversion().refusal(there) is None


def test_a_model_that_an_attack_cannot_read_is_refused_up_front():
    def sigmoid():
        return nn.Sequential(nn.Linear(5, 9), nn.Sigmoid(), nn.Linear(9, 2))

    there = Available("people", 80, 20, (5,), "rows of a table", 2, sigmoid)
    assert "followed by ReLU" in registry.build("spear").refusal(there)


def test_the_identification_game_is_played_with_rows():
    game = {"candidates": (5,), "games": 6}
    bare = registry.build("identification", **game).evaluate(victim(None, None))
    (seen, *_) = bare.to_dict()["identification"]
    assert seen["candidates"] == 5
    assert seen["rate"] == 1.0  # nothing hides the record
    noisy = victim(None, None, Defended(Gaussian(1e3), clipping="flat"))
    (seen, *_) = (
        registry.build("identification", **game).evaluate(noisy).to_dict()["identification"]
    )
    assert seen["rate"] < 0.9
