"""A server that crafts weights reads a batch out of its gradient; noise stops it, clipping not."""

from dataclasses import replace
from statistics import mean, median

import pytest
import torch
from torch import nn

from recondite.attacks import THREATS, CraftedWeights, Knowledge, registry
from recondite.attacks.base import AttackRequest
from recondite.attacks.gradient.crafted import Trap
from recondite.attacks.gradient.held_out import aimed
from recondite.attacks.victim import Defended, RecordSets, Victim
from recondite.cli.main import run
from recondite.mechanisms import Gaussian
from recondite.records import load

BATCH = 8


def network(activation=nn.ReLU, hidden=512):
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(64, hidden), activation(), nn.Linear(hidden, 10))


@pytest.fixture(scope="module")
def digits():
    return load("digits")


def victim(digits, defence=None, activation=nn.ReLU, images=8, seed=0):
    model = network(activation).eval()
    return Victim(
        model=model,
        initial=lambda: network(activation).eval(),
        fresh=lambda: network(activation),
        records=RecordSets(
            training=digits.subset(range(600)), test=digits.subset(range(600, 1400))
        ),
        defence=defence or Defended(),
        asked=AttackRequest(images=images, batch_size=BATCH),
        seed=seed,
    )


@pytest.mark.parametrize("defence", [None, Defended(clipping="flat", max_grad_norm=0.01)])
def test_undefended_or_only_clipped_batches_of_8_are_read_exactly(digits, defence):
    found = CraftedWeights().evaluate(victim(digits, defence))
    errors = found.rebuilt.scores.values["mse"]
    assert len(errors) == 64
    assert sum(error < 1e-8 for error in errors) >= 54  # two in one bin are averaged
    assert found.threat == "update"
    assert found.rebuilt.victim == "crafted"
    assert found.rebuilt.blind.gains["mse"].interval[0] > 0
    assert "exact where a bin holds one record" in found.notes[0]


def test_an_activation_that_saturates_is_no_defence(digits):
    found = CraftedWeights().evaluate(victim(digits, activation=nn.Sigmoid))
    assert median(found.rebuilt.scores.values["mse"]) < 0.01
    assert found.rebuilt.blind.gains["mse"].interval[0] > 0


def test_gaussian_noise_leaves_no_more_than_a_guess_at_sigma_1_and_records_at_a_thousandth(digits):
    noisy = victim(digits, Defended(Gaussian(1.0), clipping="flat"))
    found = CraftedWeights().evaluate(noisy)
    blind = mean(found.rebuilt.blind.scores["mse"])
    assert mean(found.rebuilt.scores.values["mse"]) > 0.8 * blind
    assert found.rebuilt.blind.gains["mse"].interval[0] <= 0
    assert "estimates: the bins hold noise" in found.notes[0]
    weak = victim(digits, Defended(Gaussian(1e-4), clipping="flat"))
    errors = CraftedWeights().evaluate(weak).rebuilt.scores.values["mse"]
    assert median(errors) < 0.2 * blind


def test_it_needs_the_choice_of_the_weights_which_an_honest_server_does_not_have(digits):
    attack = registry.build("crafted-weights")
    THREATS["active-server"].check(attack)
    with pytest.raises(ValueError, match="choice of the weights.*threat active-server or insider"):
        THREATS["server"].check(attack)
    watched = replace(victim(digits), offers=Victim.offers - {Knowledge.CHOICE})
    with pytest.raises(ValueError, match="needs the choice of the weights that a client trains"):
        attack.evaluate(watched)


def test_the_agreed_network_is_kept_and_others_are_refused_in_one_line(digits):
    whom = victim(digits)
    public = aimed(whom).public.features
    generator = torch.Generator().manual_seed(0)
    trap = Trap.set_in(whom.model, public, generator)
    mine, theirs = trap.model.state_dict(), whom.model.state_dict()
    assert {k: v.shape for k, v in mine.items()} == {k: v.shape for k, v in theirs.items()}
    assert not torch.equal(mine["1.weight"], theirs["1.weight"])
    for layers, said in (
        ((nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 10)), "begins"),
        ((nn.Flatten(), nn.Linear(64, 9, bias=False), nn.ReLU(), nn.Linear(9, 2)), "bias"),
        ((nn.Flatten(), nn.Linear(64, 9), nn.Dropout(0.0), nn.Linear(9, 2)), "activation"),
    ):
        with pytest.raises(ValueError, match=said):
            Trap.set_in(nn.Sequential(*layers).eval(), public, generator)


def test_the_command_knows_it(capsys):
    line = ["attack", "crafted-weights", "--data", "digits", "--model", "mlp2", "--images", "2"]
    assert run([*line, "--batch-size", "8", "--json"]) == 0
    assert '"crafted"' in capsys.readouterr().out
    assert run([*line, "--threat", "server"]) == 2
    assert "choose threat active-server or insider" in capsys.readouterr().err
