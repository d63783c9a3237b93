"""Threat models grant and refuse; attacks are found by name."""

import dataclasses

import pytest

from recondite.attacks import THREATS, Knowledge, ThreatModel, registry
from recondite.attacks.base import AttackRequest
from recondite.attacks.gradient.base import GradientAttack
from recondite.attacks.knowledge import threat

GRADIENT = tuple(n for n, kind in registry.classes().items() if issubclass(kind, GradientAttack))


@pytest.mark.parametrize("name", registry.names())
def test_every_attack_says_what_it_is_and_needs(name):
    attack = registry.classes()[name]
    assert attack.name == name
    assert attack.needs
    assert all(isinstance(item, Knowledge) for item in attack.needs)
    THREATS["insider"].check(attack)


@pytest.mark.parametrize("name", GRADIENT)
def test_a_server_may_run_every_gradient_attack_and_a_model_user_none(name):
    attack = registry.build(name)
    assert dataclasses.is_dataclass(attack)
    assert attack.paper
    threat("server").check(attack)
    with pytest.raises(ValueError, match=f"attack {name} needs .*model user.*server") as caught:
        threat("model-user").check(attack)
    assert "\n" not in str(caught.value)


def test_an_eavesdropper_does_not_know_the_batch_norms():
    with pytest.raises(ValueError, match="batch-norm statistics, training or evaluation mode"):
        threat("eavesdropper").check(registry.build("see-through-gradients"))
    threat("eavesdropper").check(registry.build("multi-step"))


def test_an_attack_nobody_can_run_is_told_so():
    class Impossible:
        name = "impossible"
        needs = frozenset(Knowledge)

    nobody = ThreatModel("nobody", "bystander", frozenset())
    with pytest.raises(ValueError, match="choose threat insider"):
        nobody.check(Impossible)
    with pytest.raises(ValueError, match="threat must be one of server"):
        threat("spy")


def test_names_and_settings_are_checked():
    assert registry.build("dlg", steps=7).steps == 7
    with pytest.raises(ValueError, match="did you mean inverting-gradients"):
        registry.build("invertinggradients")
    with pytest.raises(ValueError, match="step is not a setting of attack dlg: did you mean steps"):
        registry.build("dlg", step=3)
    with pytest.raises(ValueError, match="steps must be 1 or more"):
        registry.build("dlg", steps=0)
    with pytest.raises(ValueError, match="start must be one of normal"):
        registry.build("inverting-gradients", start="zeros")
    with pytest.raises(ValueError, match="local_batch_size must be 1 or more"):
        registry.build("multi-step", local_batch_size=0)


def test_a_threat_is_what_is_released_and_an_attack_says_which_it_answers():
    attack = registry.build("inverting-gradients")
    assert (
        attack.exposed(AttackRequest())
        == attack.exposed(AttackRequest(threat="update"))
        == "update"
    )
    attack.check_threat(AttackRequest(threat="server"))
    for word, message in (
        ("model", "says nothing of threat model: choose threat update"),
        ("banana", "threat must be update, training or model, got 'banana'"),
    ):
        with pytest.raises(ValueError, match=message):
            attack.check_threat(AttackRequest(threat=word))
