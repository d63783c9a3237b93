"""What every attack must keep to: ``check_attack`` in your own tests."""

from __future__ import annotations

import copy
import json
import math
import re
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from recondite.attacks.base import (
    THREATENED,
    Attack,
    AttackRequest,
    Available,
    DefenceFacts,
    asked_fields,
)
from recondite.attacks.knowledge import Knowledge
from recondite.attacks.membership.recipe import Recipe
from recondite.attacks.outcome import Outcome
from recondite.attacks.registry import built_in
from recondite.attacks.victim import Defended, RecordSets, Victim
from recondite.mechanisms import Gaussian
from recondite.models import resolve
from recondite.records import Column, ImageSet, TableSet
from recondite.training.trainer import descend

__all__ = ["check_attack", "small_table_victim", "small_victim"]

_SHAPE, _CLASSES = (1, 8, 8), 3
_FACTS = DefenceFacts("gaussian", private=True, on_records=False, on_gradients=True)


def check_attack(attack: Attack, victim: Victim | None = None) -> None:
    """Raises AssertionError, in one line, where an attack does not keep to its contract.

    Checked on a small victim: its words; that one seed gives one outcome, whatever was drawn
    before; that it refuses, in one line, a victim that does not offer what it says it needs; that
    scores and claims are numbers in their ranges and strict JSON with the keys of a row; that the
    victim's weights, mode and records are left as they are; and that a keyboard interrupt from a
    progress report ends it. Not checked, because no test can: that it is any good, or that its
    claims are bounds.

    Args:
      attack: With settings that take seconds at most.
      victim: The victim; by default :func:`small_victim`, or :func:`small_table_victim` for an
        attack that takes no images.
    """
    _words(attack)
    whom = victim
    if whom is None:
        seen = not attack.takes or ImageSet.kind in attack.takes
        whom = small_victim() if seen else small_table_victim()
    weights = copy.deepcopy(whom.model.state_dict())
    images = whom.records.test.features.clone()
    torch.manual_seed(1)
    first = attack.evaluate(whom)
    torch.manual_seed(2)
    second = attack.evaluate(whom)
    _sane(attack, first)
    _require(attack, _plain(first) == _plain(second), "gives two outcomes for one seed: draw from "
             "a generator of victim.seed")  # fmt: skip
    _refuses(attack, whom)
    _interrupted(attack, whom)
    for name, value in whom.model.state_dict().items():
        _require(attack, torch.equal(value, weights[name]), f"changes the victim's {name}")
    _require(attack, not whom.model.training, "leaves the victim in training mode")
    _require(
        attack, torch.equal(images, whom.records.test.features), "changes the victim's records"
    )


def small_victim(asked: AttackRequest | None = None, *, seed: int = 0) -> Victim:
    """A perceptron, trained for a moment on small images behind clipped Gaussian noise.

    Records are seeded noise around one pattern a class. Nothing real is in it.

    Args:
      asked: What its attacks are asked; two images of batch size one by default.
      seed: Of everything.
    """
    whole, test = _images(160, seed), _images(40, seed + 1)
    coins = torch.rand(64, generator=torch.Generator().manual_seed(seed)) < 0.5
    kept = torch.cat([coins, torch.ones(len(whole) - 64, dtype=torch.bool)])
    flipped = whole.subset(range(64))
    records = RecordSets(
        training=whole.subset(kept),
        test=test,
        whole=whole,
        members=flipped.subset(coins),
        others=flipped.subset(~coins),
        rest=whole.subset(range(64, len(whole))),
    )
    model = _network(seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    batch = (records.training.features, records.training.labels)
    for _ in descend(model, optimizer, [batch] * 20):
        pass
    return Victim(
        model=model.eval().requires_grad_(True),
        initial=lambda: _network(seed).eval(),
        fresh=_drawn,
        records=records,
        defence=Defended(Gaussian(0.1), clipping="flat", max_grad_norm=1.0),
        recipe=Recipe(epochs=1, batch_size=16),
        asked=asked or AttackRequest(images=2, records=16),
        seed=seed,
    )


def small_table_victim(asked: AttackRequest | None = None, *, seed: int = 0) -> Victim:
    """As :func:`small_victim`, with rows of a table: two columns of categories, two of numbers."""
    whole, test = _rows(120, seed), _rows(40, seed + 1)

    def network() -> nn.Module:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return resolve("table-mlp", whole.shape, 2, hidden=64).eval()

    return Victim(
        model=network(),
        initial=network,
        fresh=network,
        records=RecordSets(training=whole, test=test),
        defence=Defended(Gaussian(0.1), clipping="flat", max_grad_norm=1.0),
        recipe=Recipe(epochs=1, batch_size=16),
        asked=asked or AttackRequest(images=2, records=16),
        seed=seed,
    )


def _rows(count: int, seed: int) -> TableSet:
    generator = torch.Generator().manual_seed(seed)
    columns = (
        Column("colour", ("blue", "green", "red")),
        Column("height", None, 2, 0.1),
        Column("weight", None, 2, 0.1),
        Column("town", ("north", "south")),
    )
    colour, town = (torch.randint(n, (count,), generator=generator) for n in (3, 2))
    numbers = torch.randn(count, 2, generator=generator)
    labels = (numbers[:, 0] + town > 0.5).long()
    hot = nn.functional.one_hot
    rows = torch.cat([hot(colour, 3), numbers, hot(town, 2)], 1).float()
    return TableSet(rows, labels, ("no", "yes"), columns)


def _images(count: int, seed: int) -> ImageSet:
    generator = torch.Generator().manual_seed(seed)
    patterns = torch.rand(_CLASSES, *_SHAPE, generator=torch.Generator().manual_seed(7))
    labels = torch.arange(count) % _CLASSES
    noise = torch.rand(count, *_SHAPE, generator=generator)
    return ImageSet(0.6 * patterns[labels] + 0.4 * noise, labels, tuple("abc"))


def _drawn() -> nn.Module:
    """From torch's own generator."""
    return nn.Sequential(
        nn.Flatten(), nn.Linear(math.prod(_SHAPE), 16), nn.Sigmoid(), nn.Linear(16, _CLASSES)
    )


def _network(seed: int) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return _drawn()


def _require(attack: Attack, holds: bool, what: str) -> None:
    """Not an ``assert``: that is nothing under ``python -O``."""
    if not holds:
        raise AssertionError(f"attack {attack.name!r} {what}")


def _words(attack: Attack) -> None:
    kind: Any = type(attack)
    if not getattr(attack, "name", ""):
        raise AssertionError(f"{kind.__name__} needs a name")
    _require(
        attack,
        re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", attack.name) is not None,
        "needs a name of lower-case words with hyphens between them",
    )
    params = getattr(kind, "__dataclass_params__", None)
    _require(attack, params is not None and params.frozen, "must be a dataclass(frozen=True)")
    known = all(isinstance(item, Knowledge) for item in attack.needs)
    _require(attack, bool(attack.needs) and known, "needs a set of Knowledge in needs")
    within = bool(attack.threats) and set(attack.threats) <= set(THREATENED)
    _require(attack, within, f"needs threats of {', '.join(THREATENED)}")
    _require(attack, set(attack.reads) <= set(asked_fields()), "reads a key that no study has")
    own = {"name", *attack.reads}.intersection(attack.setting_names())
    _require(attack, not own, f"has the setting {''.join(sorted(own)[:1])!r}, which it also reads")
    other = built_in().get(attack.name)
    _require(attack, other in (None, kind), "takes the name of one of ours")
    applies: Any = attack.applies(_FACTS)
    _require(attack, isinstance(applies, bool), "must say True or False in applies")
    for key, message in attack.misfits(AttackRequest(), Available("x", 1, 1, _SHAPE)):
        _require(attack, bool(key) and "\n" not in message, f"says {message!r}, not one line")


def _plain(found: Outcome) -> str:
    return json.dumps(found.to_dict(), allow_nan=False, sort_keys=True)


def _sane(attack: Attack, found: Any) -> None:
    _require(attack, isinstance(found, Outcome), "must return an Outcome")
    try:
        _plain(found)
    except (TypeError, ValueError) as error:
        raise AssertionError(f"attack {attack.name!r} gives no strict JSON: {error}") from None
    something = (found.rebuilt, found.membership, *found.identification, *found.claims)
    _require(attack, any(part is not None for part in something), "finds nothing at all")
    if found.rebuilt is not None:
        scores = found.rebuilt.scores
        _require(attack, len(scores) > 0, "scores no image")
        mse, ssim = (scores.values.get(key, ()) for key in ("mse", "ssim"))
        _require(attack, all(0.0 <= v <= 1.0 for v in mse), "has an MSE outside [0, 1]")
        _require(attack, all(-1.0 <= v <= 1.0 for v in ssim), "has an SSIM outside [-1, 1]")
        share = found.rebuilt.labels_right
        _require(attack, share is None or 0.0 <= share <= 1.0, "has labels_right outside [0, 1]")
    if found.membership is not None:
        _require(attack, 0.0 <= found.membership.result.auc <= 1.0, "has an AUC outside [0, 1]")
    for claim in found.claims:
        good = claim.lower >= 0.0 and math.isfinite(claim.lower) and 0.0 < claim.confidence < 1.0
        _require(attack, good, f"claims {claim.lower} of {claim.notion} without a confidence")
    for note in found.notes:
        _require(attack, "\n" not in note, "has a note of more than one line")


def _refuses(attack: Attack, victim: Victim) -> None:
    for item in attack.needs:
        poorer = replace(victim, offers=victim.offers - {item})
        try:
            attack.evaluate(poorer)
        except ValueError as error:
            _require(attack, "\n" not in str(error), "refuses in more than one line")
        else:
            _require(attack, False, f"says that it needs {item.value}, and does without")


def _interrupted(attack: Attack, victim: Victim) -> None:
    asked_to_stop: list[str] = []

    def stop(stage: str, done: float) -> None:
        del done
        asked_to_stop.append(stage)
        raise KeyboardInterrupt

    try:
        found = attack.evaluate(replace(victim, progress=stop))
    except KeyboardInterrupt:
        return
    kept = not asked_to_stop or found.interrupted
    _require(attack, kept, "does not end at a keyboard interrupt, or does not say so")
