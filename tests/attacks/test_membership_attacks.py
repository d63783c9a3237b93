"""The attacks end to end on real images: strong on an over-fitted model, else blind."""

import dataclasses
import json

import numpy as np
import pytest
import torch
from torch import nn

from recondite.attacks.knowledge import THREATS
from recondite.attacks.membership import (
    ATTACKS,
    Lira,
    Recipe,
    Reference,
    Rmia,
    Threshold,
    WhiteBox,
    train_references,
)
from recondite.models import build
from recondite.records import load

RECIPE = Recipe(30, 32, "adam", 5e-3)


@dataclasses.dataclass(frozen=True)
class World:
    members: object
    nonmembers: object
    population: object
    make: object
    victim: nn.Module
    stranger: nn.Module
    references: object

    def infer(self, attack, model=None, **options):
        options = {"seed": 3, "make_model": self.make, "recipe": RECIPE, **options}
        return attack.infer(model or self.victim, self.members, self.nonmembers, **options)


def _world(data, n, hidden):
    order = torch.randperm(len(data), generator=torch.Generator().manual_seed(0))
    members, nonmembers, population, elsewhere = (
        data.subset(order[start:end])
        for start, end in ((0, n), (n, 2 * n), (2 * n, 4 * n), (4 * n, 4 * n + n // 2))
    )

    def make():
        return build("mlp2", data.shape, len(data.classes), hidden=hidden)

    def trained(records, seed):
        whole = train_references(make, *records.tensors, 1, RECIPE, size=len(records), seed=seed)
        return whole.models[0]

    references = train_references(make, *population.tensors, 8, RECIPE, seed=1)
    victim, stranger = trained(members, 100), trained(elsewhere, 101)
    return World(members, nonmembers, population, make, victim, stranger, references)


@pytest.fixture(scope="module")
def digits():
    data = load("digits")
    generator = torch.Generator().manual_seed(1)
    wrong = torch.rand(len(data), generator=generator) < 0.4
    labels = torch.where(wrong, torch.randint(0, 10, wrong.shape, generator=generator), data.labels)
    return _world(dataclasses.replace(data, labels=labels).normalised((0.3,), (0.3,)), 300, 64)


@pytest.fixture(scope="module")
def cifar():
    try:
        data = load("cifar10", "test", prepare="resize16", verify=False)
    except ValueError:
        pytest.skip("CIFAR-10 is not in the data directory")
    return _world(data.normalised((0.47, 0.47, 0.45), (0.24, 0.23, 0.25)), 500, 64)


def _all(world, **options):
    offline = {"references": world.references}
    return {
        "threshold": world.infer(Threshold(), **options),
        "reference": world.infer(Reference(8), **offline, **options),
        "lira-offline": world.infer(Lira(8, online=False), **offline, **options),
        "lira": world.infer(Lira(8), **options),
        "rmia": world.infer(Rmia(8), **offline, **options),
        "white-box": world.infer(WhiteBox(), **options),
    }


def _weak(results):
    """The attacks that an over-fitted model should not withstand as well as it did."""
    weak = [(name, result.auc) for name, result in results.items() if result.auc <= 0.7]
    plain = results["threshold"].tpr_at(0.01)
    calibrated = {name: results[name] for name in ("lira", "lira-offline", "rmia")}
    weak += [
        (name, "TPR at 1 % FPR")
        for name, result in calibrated.items()
        if result.tpr_interval_at(0.01)[1] < plain
    ]
    if max(result.tpr_at(0.01) for result in calibrated.values()) < plain:
        weak.append(("the best", "TPR at 1 % FPR"))
    return weak


def test_over_fitted_model_on_digits(digits):
    results = _all(digits)
    assert _weak(results) == []
    for result in results.values():
        record = json.loads(json.dumps(result.to_dict()))
        low, high = record["auc_low"], record["auc_high"]
        assert low <= record["auc"] <= high
        assert len(record["roc"]) <= 200
        assert record["epsilon_lower_holds"] is False


def test_over_fitted_model_on_cifar10(cifar):
    assert _weak(_all(cifar)) == []


def test_model_that_saw_neither_set_tells_nothing(digits):
    for name, result in _all(dataclasses.replace(digits, victim=digits.stranger)).items():
        ours, others = len(result.scores_members), len(result.scores_nonmembers)
        error = ((ours + others + 1) / (12 * ours * others)) ** 0.5  # of the AUC, by chance
        assert abs(result.auc - 0.5) <= 3 * error, (name, result.auc)
        assert result.epsilon_lower(1e-5, 0.999).epsilon < 0.2, name


def test_the_same_seed_gives_the_same_scores(digits):
    for attack in (WhiteBox(epochs=3), Lira(2), Rmia(2), Reference(2)):
        first, again = (
            digits.infer(attack, population=digits.population, recipe=Recipe(1), seed=8)
            for _ in range(2)
        )
        np.testing.assert_array_equal(first.scores_members, again.scores_members)
        np.testing.assert_array_equal(first.scores_nonmembers, again.scores_nonmembers)
        assert first.seed == 8


def test_white_box_judges_only_what_it_does_not_know(digits):
    result = digits.infer(WhiteBox(known=0.3, epochs=2))
    assert len(result.judged_members) + len(result.judged_nonmembers) == 420
    assert len(result.judged_members) == len(result.scores_members)
    assert "180 of 600" in result.notes[0]
    with pytest.raises(ValueError, match="give more records"):
        digits.infer(WhiteBox(known=0.01))


def test_records_that_references_saw_are_noted(digits):
    result = digits.infer(Reference(2), population=digits.members, recipe=Recipe(1))
    assert "300 of 600 records are also in the population" in result.notes[0]


def test_model_keeps_its_mode(digits):
    digits.victim.train()
    digits.infer(WhiteBox(epochs=1))
    assert all(module.training for module in digits.victim.modules())
    digits.victim.eval()


def test_any_loss_function_will_do(digits):
    plain = digits.infer(Threshold())
    same = digits.infer(Threshold(), loss_fn=nn.CrossEntropyLoss())
    np.testing.assert_allclose(same.scores_members, plain.scores_members)
    smooth = digits.infer(WhiteBox(epochs=5), loss_fn=nn.CrossEntropyLoss(label_smoothing=0.1))
    assert smooth.auc > 0.6


def test_what_each_attack_must_know():
    assert sorted(ATTACKS) == [
        "membership-lira",
        "membership-reference",
        "membership-rmia",
        "membership-threshold",
        "membership-white-box",
    ]
    for name, attack in ATTACKS.items():
        assert attack().name == name
        if name != "membership-white-box":
            THREATS["model-user"].check(attack())
    with pytest.raises(ValueError, match="membership-white-box needs part of the training set"):
        THREATS["server"].check(WhiteBox())


def _records(n=12, side=8, classes=10):
    return torch.rand(n, 1, side, side), torch.arange(n) % classes


@pytest.mark.parametrize(
    ("attack", "members", "options", "line"),
    [
        (Threshold(), _records(1), {}, "members must hold 2 or more records, got 1"),
        (Threshold(), _records(side=9), {}, "members and nonmembers must have images of one shape"),
        (Threshold(), _records(classes=11), {}, "labels from 0 to 9, as the model has 10"),
        (Threshold(), "records", {}, "members must be an ImageSet or"),
        (Threshold(), _records(), {"inclusion": "maybe"}, "inclusion must be one of given, coin"),
        (Reference(), _records(), {}, "membership-reference needs population"),
        (Rmia(), _records(), {"population": _records()}, "membership-rmia needs make_model"),
        (Lira(), _records(), {}, "membership-lira needs make_model"),
        (WhiteBox(), _records(), {}, "give more records"),
    ],
)
def test_what_cannot_be_used_gets_one_line(attack, members, options, line):
    model = build("mlp", (1, 8, 8), seed=0)
    with pytest.raises(ValueError, match=line) as caught:
        attack.infer(model, members, _records(), seed=0, **options)
    assert "\n" not in str(caught.value)


def test_wrong_shapes_and_broken_weights_get_one_line():
    model = build("mlp", (1, 8, 8), seed=0)
    with pytest.raises(ValueError, match="model cannot take images of 1×9×9") as caught:
        Threshold().infer(model, _records(side=9), _records(side=9))
    assert "\n" not in str(caught.value)
    with torch.no_grad():
        model.fc3.weight[0, 0] = torch.nan
    for attack in (Threshold(), Lira(2), WhiteBox()):
        with pytest.raises(ValueError, match="not finite"):
            attack.infer(
                model,
                _records(60),
                _records(60),
                make_model=lambda: build("mlp", (1, 8, 8)),
                recipe=Recipe(1),
            )


def test_online_references_must_be_of_these_records(digits):
    with pytest.raises(ValueError, match="references must be of an online attack on the same"):
        digits.infer(Lira(8), references=digits.references)


@pytest.mark.parametrize(
    ("make", "line"),
    [
        (lambda: Lira(3), "references must be even online"),
        (lambda: Lira(4, size=3), "size is of the offline attack"),
        (lambda: Rmia(gamma=0.5), "gamma must be 1 or more"),
        (lambda: Reference(0), "references must be 1 or more"),
        (lambda: WhiteBox(known=1), "known must lie in"),
    ],
)
def test_options_are_checked(make, line):
    with pytest.raises(ValueError, match=line):
        make()


def test_interrupt_gets_through(digits):
    def stop(progress):
        raise KeyboardInterrupt

    for attack in (Lira(2), WhiteBox()):
        with pytest.raises(KeyboardInterrupt):
            digits.infer(attack, progress=stop)
