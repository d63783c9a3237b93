"""Steps that differ: what one step cannot tell, several do."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import planted_steps as planted
import planted_torch
import pytest
import torch

from recondite.accounting import Poisson, RandomAllocation
from recondite.accounting.composition import Composition
from recondite.accounting.pld import pld_epsilon
from recondite.checking import PrivacyClaim, Trainer, check, torch_trainer
from recondite.checking.scheduled import Stage, answer, numbers
from recondite.mechanisms import Gaussian, VonMisesFisher

ROOT = Path(__file__).parents[2]
OPTIONS = {"seed": 3, "runs": 200, "skip": ("sampling",)}
HALF = planted.STEPS // 2


def trainer(noise, *, told=True):
    """A training whose noise multiplier at a step is given by a function of its number."""
    plain = planted.make_trainer(noise=noise(0))

    def step_at(number):
        return planted.make_trainer(noise=noise(number)).step

    return Trainer(plain.records, plain.step, plain.batches, step_at=step_at if told else None)


def found(result):
    (finding,) = [f for f in result.findings if f.check == "schedule"]
    return finding


def composed(first, second):
    """ε of a run whose noise changes after half of its steps."""
    parts = [Poisson(0.25, HALF).composition(Gaussian(noise)) for noise in (first, second)]
    return pld_epsilon(parts[0] + parts[1], 1e-5)


def test_noise_that_shrinks_on_the_way_is_found_by_several_steps_only():
    halved = lambda number: planted.SIGMA * (1.0 if number < HALF else 0.5)  # noqa: E731
    once = check(partial(trainer, halved, told=False), planted.claim(), **OPTIONS)
    assert once.verdict == "consistent"
    result = check(partial(trainer, halved), planted.claim(), **OPTIONS)
    assert found(result).verdict == "violates"
    assert "steps 1, 13, 25, 38, 50" in found(result).evidence
    assert {f.check for f in result.findings}.isdisjoint({"noise", "game"})


def test_noise_that_stops_is_found():
    stopped = lambda number: planted.SIGMA * (number < planted.STEPS - 1)  # noqa: E731
    result = check(partial(trainer, stopped), planted.claim(), **OPTIONS)
    assert found(result).evidence == f"step {planted.STEPS} has no noise"
    assert result.verdict == "violates"


def test_too_little_noise_at_every_step_is_found():
    result = check(partial(trainer, lambda number: 0.6), planted.claim(), **OPTIONS)
    assert "too little at each" in found(result).evidence


@pytest.mark.parametrize("noises", [(1.0, 1.0), (0.8, 1.6)], ids=["constant", "rising"])
def test_a_schedule_that_was_accounted_is_consistent(noises):
    rising = lambda number: noises[number >= HALF]  # noqa: E731
    claim = planted.claim(epsilon=1.001 * composed(*noises))
    result = check(partial(trainer, rising), claim, **OPTIONS)
    assert result.verdict == "consistent", result


def test_what_cannot_be_composed_is_said():
    stages = [Stage(0, 0.8, 0.7), Stage(9, 1.4, 1.3)]
    claim = PrivacyClaim(4.0, 1e-5, RandomAllocation(10, 1))
    verdict, line = answer(claim, Gaussian(1.0), stages, 1.01, False)
    assert verdict == "cannot tell"
    assert "Poisson" in line
    claim = PrivacyClaim(4.0, 1e-5, Poisson(0.1, 10), VonMisesFisher(3.0, 10))
    assert answer(claim, VonMisesFisher(3.0, 10), stages, 1.01, False)[0] == "cannot tell"
    hardly = [Stage(0, 0.1, -0.1), Stage(9, 0.2, 0.1)]
    assert answer(claim, Gaussian(1.0), hardly, 1.01, True)[0] == "cannot tell"
    assert not Composition(()).parts


def test_where_a_run_is_looked_at():
    assert numbers(1) == (0,)
    assert numbers(3) == (0, 1, 2)
    assert numbers(1000)[0] == 0
    assert numbers(1000)[-1] == 999


def test_schedulers_of_torch_and_opacus_are_followed():
    pytest.importorskip("opacus")
    from opacus import PrivacyEngine
    from opacus.schedulers import ExponentialNoise

    def make(gamma):
        made = PrivacyEngine().make_private(
            **planted_torch.parts(), noise_multiplier=1.0, max_grad_norm=0.5
        )
        optimizer = made[1]
        schedulers = [
            torch.optim.lr_scheduler.ExponentialLR(optimizer.original_optimizer, 0.95),
            ExponentialNoise(optimizer, gamma=gamma),
        ]
        return torch_trainer(*made, planted_torch.LOSS, schedulers=schedulers)

    one = make(0.97)
    assert one.step_at is not None
    later = one.step_at(10)(())
    assert one.step_at(0)(()).keys() == later.keys()
    claim = planted.claim()
    options = {"seed": 3, "runs": 60, "skip": ("sampling", "batch-size")}
    assert check(partial(make, 1.0), claim, **options).verdict == "consistent"
    assert found(check(partial(make, 0.97), claim, **options)).verdict == "violates"


def test_the_client_of_flower_in_the_guide_is_checked():
    pytest.importorskip("flwr")
    text = (ROOT / "docs" / "howto" / "check.md").read_text(encoding="utf-8")
    code = text.split("## A client of Flower")[1].split("```python\n")[1].split("```")[0]
    module: dict[str, object] = {}
    exec(code, module)
    claim = PrivacyClaim(12.7, 1e-5, Poisson(16 / 64, 50))
    options = {"seed": 3, "runs": 200}
    assert check(module["make_trainer"], claim, **options).verdict == "consistent"
    result = check(module["telling"], claim, **options)
    (line,) = [f.evidence for f in result.findings if f.verdict == "violates"]
    assert "examples leaves without noise" in line
