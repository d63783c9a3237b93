"""What every kind of records must keep to: ``check_records`` in your own tests."""

from __future__ import annotations

import json
import math
import pickle
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from recondite.configuration import TrainingConfig
from recondite.mechanisms import Gaussian
from recondite.metrics.floors import gains
from recondite.records.base import Records
from recondite.training.trainer import train

__all__ = ["check_records"]

_FEWEST = 12
_CLOSE = 1e-4  # of a feature's size: float32, on a scale and back


def check_records(records: Records) -> None:
    """Raises AssertionError, in one line, where records do not keep to their contract.

    Checked: shapes and types; that subsets, splits and other processes keep records as they are;
    that the natural scale comes back from another; that a private step can be taken on them; that
    digests tell sets apart; that an exact copy has the perfect score in any order, and no
    reconstruction a better one; that a blind guess
    refuses public records that hold a victim, is made of finite numbers and gains nothing over
    itself; that nothing of an original is shown unless it may be. Not checked, because no test
    can: that the scores measure what matters to the people in the records.

    Args:
      records: At least twelve, of at least two classes, on their natural scale, and not all alike.
    """
    _require(records, len(records) >= _FEWEST, f"needs at least {_FEWEST} records to be checked")
    _words(records)
    _tensors(records)
    _parts(records)
    _scales(records)
    _trained(records)
    _digests(records)
    _scores(records)
    _blind(records)
    _shown(records)


def _require(records: Records, holds: bool, what: str) -> None:
    if not holds:
        raise AssertionError(f"records {records.name!r} ({type(records).__name__}) {what}")


def _same(first: Records, second: Records) -> bool:
    pairs = zip(first.tensors, second.tensors, strict=True)
    alike = all(a.shape == b.shape and bool(torch.equal(a, b)) for a, b in pairs)
    return alike and first.classes == second.classes and first.scale == second.scale


def _words(records: Records) -> None:
    keys = [metric.key for metric in records.metrics]
    _require(records, bool(records.kind and records.media and records.scale), "needs its words")
    _require(records, len(keys) == len(set(keys)) > 0, "needs metrics, each with a key of its own")
    _require(records, records.exposure in keys, "must rank victims by one of its metrics")
    some = any(metric.gain != "none" for metric in records.metrics)
    _require(records, some, "needs a metric with a gain over a blind guess")
    _require(records, isinstance(records.public, bool), "must say whether it is public")


def _tensors(records: Records) -> None:
    features, labels = records.tensors
    floats = features.dtype == torch.float32 and bool(torch.isfinite(features).all())
    _require(records, floats, "needs features that are finite float32")
    _require(records, features.shape == (len(records), *records.shape), "has features of no shape")
    whole = labels.dtype == torch.int64 and labels.shape == (len(records),)
    _require(records, whole, "needs one int64 label a record")
    inside = int(labels.min()) >= 0 and int(labels.max()) < len(records.classes)
    _require(records, inside and len(records.classes) > 1, "has labels that are no classes")
    first, label = records[0]
    equal = bool(torch.equal(first, features[0])) and label == int(labels[0])
    _require(records, equal and isinstance(label, int), "is no dataset of (features, label)")


def _parts(records: Records) -> None:
    turned = list(range(len(records)))[::-1]
    back = records.subset(turned).subset(turned)
    _require(records, _same(back, records), "changes records when it orders them")
    _require(records, type(back) is type(records), "has subsets of another kind")
    few = records.spread(5)
    _require(records, len(few) == 5, "cannot be thinned out")
    first, second = records.split(0.5, seed=1)
    again, _ = records.split(0.5, seed=1)
    _require(records, _same(first, again), "is split in another way the second time")
    joined = torch.cat([first.features, second.features])
    rows = [sorted(map(tuple, part.flatten(1).tolist())) for part in (joined, records.features)]
    _require(records, rows[0] == rows[1], "loses or repeats records when it is split")
    _require(records, _same(pickle.loads(pickle.dumps(records)), records), "cannot be pickled")
    _require(records, _same(records.to("cpu"), records), "changes on its way to a device")
    _refuses(records, lambda: records.subset([len(records)]), "takes a position that is not there")
    _refuses(records, lambda: records.subset([]), "takes an empty choice")


def _scales(records: Records) -> None:
    natural = records.natural()
    scaled = records.standardised()
    size = natural.abs().flatten(1).amax(0).reshape(natural.shape[1:]).clamp(min=1e-6)
    for what, found in (("its own", scaled.natural()), ("given", scaled.natural(scaled.features))):
        near = bool(((found - natural).abs() <= _CLOSE * size).all())
        _require(records, near, f"does not come back to its natural scale ({what} features)")
    _require(records, scaled.scale != records.scale, "does not say that its scale changed")
    _refuses(records, scaled.standardised, "is scaled twice without a word")
    _refuses(records, lambda: records.check_alike(scaled), "can be mixed with another scale")
    near = torch.allclose(
        scaled.typical(), records.normalised(*records.statistics()).typical(), atol=1e-5
    )
    _require(records, near and scaled.typical().shape == records.shape, "has no typical record")


def _trained(records: Records) -> None:
    """One private step on each scale, as ``recondite train`` takes it."""
    natural = records.mean is None and records.std is None
    _require(records, natural, "must have mean and std None on its natural scale")
    scaled = records.standardised()
    said = isinstance(scaled.mean, tuple) and isinstance(scaled.std, tuple)
    _require(records, said, "must keep the mean and std that it was normalised with, as tuples")
    _plain(records, json.loads(json.dumps(scaled.summary())))
    sides = scaled.sides()
    _require(records, sides.shape == records.shape and bool((sides > 0).all()), "has no sides")
    if records.unit_range:
        inside = bool(((records.features >= 0) & (records.features <= 1)).all())
        _require(records, inside, "has values outside [0, 1]: unit_range must be false")
    config = TrainingConfig(
        model="mlp", defence=Gaussian(1.0), steps=1, batch_size=len(records), seed=0
    )
    record, _ = train(config, sets=(scaled, scaled), delta=1e-5)
    done = record.training["steps"] == 1 and math.isfinite(record.results["test_loss"])
    _require(records, done, "cannot be trained on")


def _plain(records: Records, summary: Mapping[str, object]) -> None:
    same = (summary["name"], summary["records"]) == (records.name, len(records))
    _require(records, same, "has a summary of something else")


def _digests(records: Records) -> None:
    digest = records.digest()
    turned = records.subset(list(range(len(records)))[::-1])
    others = records.replaced(records.features, (records.labels + 1) % len(records.classes))
    _require(records, digest == records.subset(slice(None)).digest(), "has a digest that changes")
    differ = len({digest, turned.digest(), others.digest(), records.standardised().digest()}) == 4
    _require(records, differ, "has one digest for different records")


def _perfect(records: Records, values: Any, key: str, perfect: float) -> None:
    exact = np.allclose(values, perfect, atol=1e-5) if math.isfinite(perfect) else values == perfect
    _require(records, bool(np.all(exact)), f"gives an exact copy a {key} that is not {perfect:g}")


def _scores(records: Records) -> None:
    for version in (records, records.standardised()):
        some = _distinct(version)
        copy = some.score(some.features, matched=False)
        turned = some.score(some.features.flip(0))
        ruined = some.score(_noise(some), matched=False)
        _require(records, len(copy) == len(some), "has not one score a victim")
        for metric in some.metrics:
            worse, best = ruined.values[metric.key], copy.values[metric.key]
            if version is records:
                _perfect(records, best, metric.key, metric.perfect)
                _perfect(records, turned.values[metric.key], metric.key, metric.perfect)
            sign = 1 if metric.direction == "higher" else -1
            holds = bool((sign * worse <= sign * best + 1e-5).all())
            _require(records, holds, f"has a {metric.key} better than an exact copy's")
    wrong = records.features[:2, ..., :0]
    _refuses(records, lambda: records.score(wrong, wrong), "scores what has no such shape")


def _distinct(records: Records) -> Records:
    """At most eight records that differ from one another."""
    seen = {tuple(row): place for place, row in enumerate(records.features.flatten(1).tolist())}
    chosen = sorted(seen.values())[:8]
    _require(records, len(chosen) >= 4, "needs at least four different records to be checked")
    return records.subset(chosen)


def _noise(records: Records) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    size = records.features.std(0, keepdim=True) + 1e-3
    return records.features + 3 * size * torch.randn(records.features.shape, generator=generator)


def _blind(records: Records) -> None:
    victims, rest = records.split(0.5, seed=0)
    public = rest.without(victims)
    _refuses(records, lambda: victims.blind(records), "takes victims for public records")
    for labels in (None, victims.labels):
        guess = victims.blind(public, labels)
        _require(records, guess.label_known == (labels is not None), "forgets the labels")
        for metric in records.metrics:
            made = guess.guesses[metric.key]
            fine = made.shape == victims.features.shape and bool(torch.isfinite(made).all())
            _require(records, fine, f"has a blind guess for {metric.key} that is no record")
            _require(records, bool(guess.how[metric.key]), "does not say what was guessed")
        none = gains(guess.scores, guess.scores)
        nothing = all(one.value == 0 and one.beats_guessing is not True for one in none.values())
        _require(records, nothing, "gains something by guessing")
        if labels is None:
            constant = all(bool((g == g[:1]).all()) for g in guess.guesses.values())
            _require(records, constant, "has a blind guess that depends on the victim")
        copied = gains(victims.score(victims.features, matched=False), guess.scores)
        most = all(one.value >= 0 for one in copied.values())
        _require(records, most, "gains less by copying than by guessing")


def _shown(records: Records) -> None:
    some = _distinct(records)
    hidden = some.show(some.features, reveal=False, most=3)
    _require(records, len(hidden) == 3, "does not show as many victims as asked for")
    for one in hidden:
        _require(records, one.original is None, "shows an original that may not be seen")
    # What is shown of a hidden victim must be the same for any other with the same scores.
    contents = {one.rebuilt for one in hidden}
    _require(records, len(contents) == 1, "gives an original away by what it shows of a copy")
    default = some.show(some.features, most=1)[0]
    _require(records, (default.original is not None) == records.public, "shows what is private")
    for one in some.show(some.features, reveal=True, most=2):
        both = isinstance(one.original, bytes) and isinstance(one.rebuilt, bytes)
        _require(records, both and one.media == records.media, "cannot be shown")
        told = {key: None if not math.isfinite(v) else v for key, v in one.scores.items()}
        _require(records, set(json.loads(json.dumps(told))) == set(told), "has scores of no name")


def _refuses(records: Records, call: Callable[[], Any], what: str) -> None:
    try:
        call()
    except ValueError as error:
        _require(records, "\n" not in str(error), "refuses in more than one line")
        return
    _require(records, False, what)
