"""Our own attacks keep to the contract, and the suite sees those that do not."""

from dataclasses import dataclass, replace
from typing import ClassVar

import pytest
import torch

from recondite.attacks import Attack, Knowledge, Outcome, registry
from recondite.attacks.outcome import Claim
from recondite.attacks.victim import Defended
from recondite.channels import NaturalChannel
from recondite.testing import check_attack
from recondite.testing.attacks import small_table_victim, small_victim
from recondite.training.canary import audit_training

# Few steps: the contract is the same.
SETTINGS = {
    "dlg": {"steps": 2},
    "idlg": {"steps": 2},
    "inverting-gradients": {"steps": 5},
    "see-through-gradients": {"steps": 5},
    "mean-image": {"steps": 5},
    "strongest": {"budget": 5},
    "gauss-newton": {"steps": 1, "rank": 10},
    "adaptive": {"steps": 1, "rank": 10, "prior": "public"},
    "model-inversion": {"iterations": 5},
    "membership-reference": {"references": 2},
    "membership-lira": {"references": 4},
    "membership-rmia": {"references": 2},
    "membership-white-box": {"epochs": 2},
    "canary-audit": {"runs": 20},
    "tabular-inversion": {"steps": 5, "restarts": 2},
}
ON_TABLES = ("tabular-inversion", "spear")
# Of a federation; and of texts, whose victims tests/attacks/test_span_check.py has.
ELSEWHERE = ("multi-step", "span-check")


@pytest.mark.filterwarnings("ignore:adaptive is now")
@pytest.mark.parametrize("name", [n for n in registry.built_in() if n not in ELSEWHERE])
def test_ours_keep_to_it(name):
    made = small_table_victim if name in ON_TABLES else small_victim
    victim = replace(made(), audit=audit_training)
    if name == "channel-posterior":
        rows = victim.records.training.images.flatten(1).double().numpy()
        channel = NaturalChannel.fit(rows, capacity=5.0)
        victim = replace(victim, defence=Defended(noisy_records=True, fitted=lambda: channel))
    check_attack(registry.build(name, **SETTINGS.get(name, {})), victim)


def test_a_federations_attack_says_what_is_missing():
    with pytest.raises(ValueError, match="multi-step needs weights before and after"):
        registry.build("multi-step").evaluate(small_victim())


@dataclass(frozen=True)
class Fine(Attack):
    """Claims nothing much."""

    name: ClassVar[str] = "fine"
    needs: ClassVar[frozenset] = frozenset({Knowledge.MODEL})
    threats: ClassVar[frozenset] = frozenset({"model"})

    size: int = 1

    def _evaluate(self, victim):
        generator = torch.Generator().manual_seed(victim.seed)
        victim.progress("fine", 0.5)
        shown = float(torch.rand((), generator=generator))
        return Outcome(claims=(Claim("epsilon", 2.0, shown, "a guess", "the run", 0.9),))


class Drawing(Fine):
    def _evaluate(self, victim):
        shown = float(torch.rand(()))
        return Outcome(claims=(Claim("epsilon", 2.0, shown, "a guess", "the run", 0.9),))


class Writing(Fine):
    def _evaluate(self, victim):
        found = super()._evaluate(victim)
        with torch.no_grad():
            next(victim.model.parameters()).add_(1.0)
        return found


class Taking(Fine):
    def evaluate(self, victim):
        return self._evaluate(victim)


class Stubborn(Fine):
    def _evaluate(self, victim):
        try:
            return super()._evaluate(victim)
        except KeyboardInterrupt:
            return Outcome(claims=(Claim("epsilon", 2.0, 0.1, "a guess", "the run", 0.9),))


class Unsure(Fine):
    def _evaluate(self, victim):
        return Outcome(claims=(Claim("epsilon", 2.0, float("nan"), "a guess", "the run", 0.9),))


class Empty(Fine):
    def _evaluate(self, victim):
        return Outcome()


class Renamed(Fine):
    name = "dlg"


class Vague(Fine):
    threats = frozenset({"everything"})


@dataclass(frozen=True)
class Greedy(Fine):
    reads: ClassVar[tuple] = ("images",)

    images: int = 3


def test_a_fine_one_passes():
    check_attack(Fine())


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (Drawing, "two outcomes for one seed"),
        (Writing, "changes the victim's 1.weight"),
        (Taking, "says that it needs model weights, and does without"),
        (Stubborn, "does not end at a keyboard interrupt"),
        (Unsure, "claims nan of epsilon"),
        (Empty, "finds nothing at all"),
        (Renamed, "takes the name of one of ours"),
        (Vague, "needs threats of update, training, model"),
        (Greedy, "has the setting 'images'"),
    ],
)
def test_broken_ones_are_seen(kind, said):
    with pytest.raises(AssertionError, match=said) as caught:
        check_attack(kind())
    assert "\n" not in str(caught.value)


class Entry:
    def __init__(self, name, load):
        self.name, self.load = name, load


def test_a_broken_package_takes_nothing_away(monkeypatch):
    def broken():
        raise RuntimeError("no such file")

    entries = [
        Entry("broken", broken),
        Entry("number", lambda: 3),
        Entry("mine", lambda: Renamed),
        Entry("vague", lambda: Vague),
        Entry("greedy", lambda: Greedy),
        Entry("fine", lambda: Fine),
    ]
    monkeypatch.setattr(registry, "entry_points", lambda group: entries)
    registry.classes.cache_clear()
    try:
        with pytest.warns(UserWarning, match="attack") as seen:
            found = registry.classes()
        assert found["fine"] is Fine
        assert found["dlg"].__module__.startswith("recondite.")
        said = [str(warning.message) for warning in seen]
        wanted = ["no such file", "no subclass", "dlg is taken", "everything", "key that it reads"]
        assert all(part in line for part, line in zip(wanted, said, strict=True)), said
        assert registry.build("fine", size=2).size == 2
        with pytest.raises(ValueError, match="did you mean fine"):
            registry.build("fin")
    finally:
        registry.classes.cache_clear()


def test_a_setting_called_like_a_studys_key_can_be_given():
    """The white-box attack has a batch size of its own, which no study could set."""
    from recondite.studies.grid import attack_config
    from recondite.studies.study import AttackSpec as Asking

    given = attack_config(Asking(name="membership-white-box", records=20, batch_size=5))
    assert given["options"] == {"batch_size": 5}
    assert attack_config(Asking(name="dlg", batch_size=5))["options"] == {}
