"""Whether a mechanism keeps its contract: shapes, generators, JSON, and the law it claims.

A passed suite is no proof: it sees one worst-case pair at one small dimension, through so many
draws. A failed one is a mistake, up to a false alarm of at most 1e-6 a mechanism.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from recondite.accounting import delta as delta_of
from recondite.accounting.schedules import FixedSize, Poisson, Schedule
from recondite.mechanisms import Mechanism, Neighbouring, Setting, UndefinedNotionError
from recondite.mechanisms.releasing import draw

__all__ = ["check_mechanism"]

FloatArray = NDArray[np.float64]

# The record of the worst-case pair turns what the others, far below it, point to.
_OTHERS = 1e-3
_LEVELS = (0.0, 0.5, 1.0, 2.0, 4.0)
_ALARM = 1e-6


def check_mechanism(mechanism: Mechanism, *, dim: int = 6, draws: int = 40_000) -> None:
    """Raises ``AssertionError``, in one line, where a mechanism breaks its contract.

    What is asked, in units of one record's bound: releases have the shape they must have, from
    NumPy and torch with their generators, repeatable with one and fresh without; what has no
    direction is released too; parameters go through JSON; less noise never costs less; and for
    the worst-case pair, that one record moves by the full sensitivity, with one bound and with
    layers bounded apart, no event is likelier than the claimed ``loss`` allows, and
    ``log_likelihood`` is the density that ``perturb`` draws from.

    Args:
      mechanism: With any strength. A moderate one (ε of one release between .5 and 5) shows most.
      dim: Coordinates of the gradients it is tried on.
      draws: Releases of each of the two neighbouring batches.
    """
    shapes = ((dim // 2, 1), (dim - dim // 2,))
    flat = Setting(shapes, max_batch_size=4, batch_size=2)
    sized = mechanism.configured(flat)
    _check_declared(sized)
    _check_json(sized)
    _check_shapes(sized, dim)
    _check_generators(sized, dim)
    _check_total(sized, dim)
    _check_monotone(sized)
    _check_law(sized, _worst(flat), draws, "one bound")
    layered = dataclasses.replace(flat, layers=(dim // 2, dim - dim // 2))
    try:
        apart = mechanism.configured(layered)
    except ValueError:
        return  # refusing layers bounded apart is within the contract
    _check_law(apart, _worst(layered), draws, "layers bounded apart")


def _must(kept: bool, broken: str) -> None:
    """Not an ``assert``: that is nothing under ``python -O``."""
    if not kept:
        raise AssertionError(broken)


def _check_declared(mechanism: Mechanism) -> None:
    name = type(mechanism).__name__
    made: Any = type(mechanism)
    _must(dataclasses.is_dataclass(made), f"{name} must be a dataclass")
    _must(made.__dataclass_params__.frozen, f"{name} must be frozen: dataclass(frozen=True)")
    _must(bool(mechanism.name), f"{name} needs a name")
    _must(mechanism.weaker in ("larger", "smaller"), f"{name}.weaker must be larger or smaller")
    fields = {field.name for field in dataclasses.fields(mechanism)}
    _must("dim" in fields, f"{name} needs a field dim")
    _must(
        mechanism.parameter in (*fields, ""),
        f"{name}.parameter must name a field, got {mechanism.parameter!r}",
    )


def _check_json(mechanism: Mechanism) -> None:
    plain = json.loads(json.dumps(mechanism.parameters(), allow_nan=False))
    values = {key: tuple(v) if isinstance(v, list) else v for key, v in plain.items()}
    again = type(mechanism)(**values)
    _must(again == mechanism, f"{mechanism.name} is another after JSON: {again} is not {mechanism}")


def _check_shapes(mechanism: Mechanism, dim: int) -> None:
    rng = np.random.default_rng(1)
    for lead in ((), (3,)):
        rows = (2,) if mechanism.stage == "record" else ()
        gradient = rng.standard_normal((*lead, *rows, dim)) / math.sqrt(dim)
        for given in (gradient, torch.from_numpy(gradient), torch.from_numpy(gradient).float()):
            release = _drawn(mechanism, given, None)
            _must(
                type(release) is type(given),
                f"{mechanism.name} must release what it is given, got {type(release).__name__}",
            )
            _must(
                release.dtype == given.dtype,
                f"{mechanism.name} must keep {given.dtype}, got {release.dtype}",
            )


def _check_generators(mechanism: Mechanism, dim: int) -> None:
    shape = (2, dim) if mechanism.stage == "record" else (dim,)
    gradient = np.random.default_rng(2).standard_normal(shape)
    seeded: tuple[tuple[Any, Callable[[], Any]], ...] = (
        (gradient, lambda: np.random.default_rng(3)),
        (torch.from_numpy(gradient), lambda: torch.Generator().manual_seed(3)),
    )
    for given, generator in seeded:
        one, two = (_drawn(mechanism, given, generator()) for _ in range(2))
        kind = type(given).__name__
        _must(_same(one, two), f"{mechanism.name} does not repeat a seeded generator's {kind}")
        if mechanism.parameter:
            one, two = (_drawn(mechanism, given, None) for _ in range(2))
            _must(not _same(one, two), f"{mechanism.name} repeats itself without a generator")


def _check_total(mechanism: Mechanism, dim: int) -> None:
    """``draw`` itself refuses what is not finite or has another shape."""
    shapes: tuple[tuple[int, ...], ...] = ((dim,),)
    if mechanism.stage == "record":
        shapes = ((2, dim), (0, dim))
    for shape in shapes:
        try:
            _drawn(mechanism, torch.zeros(shape, dtype=torch.float64), None)
        except Exception as error:
            raise AssertionError(
                f"{mechanism.name} must release something of a gradient of zeros {shape}: {error}"
            ) from None


def _check_monotone(mechanism: Mechanism) -> None:
    if not mechanism.parameter:
        return
    for relation, _ in _relations(mechanism):
        costs = []
        for factor in (0.5, 1.0, 2.0):
            weaker = factor if mechanism.weaker == "larger" else 1.0 / factor
            law = mechanism.with_strength(mechanism.strength * weaker).loss(relation)
            costs.append(float(law.renyi([2.0])[0]))
        _must(
            costs == sorted(costs),
            f"{mechanism.name}: {mechanism.parameter} {mechanism.weaker} must not cost less, Rényi "
            f"divergences {costs}",
        )


def _check_law(mechanism: Mechanism, record: FloatArray, draws: int, how: str) -> None:
    for relation, schedule in _relations(mechanism):
        if not math.isfinite(float(mechanism.loss(relation).renyi([2.0])[0])):
            continue  # nothing is claimed
        others = -_OTHERS * record
        present = others + record
        absent = others - record if relation is Neighbouring.REPLACE else others
        if mechanism.stage == "record":
            present, absent = record[None], -record[None]
        about = f"{mechanism.name}, {relation.value}, {how}"
        _compare(mechanism, schedule, (present, absent), draws, about)


def _compare(
    mechanism: Mechanism,
    schedule: Schedule,
    pair: tuple[FloatArray, FloatArray],
    draws: int,
    about: str,
) -> None:
    """Events of the two batches' releases beside the claim, and the density beside the draws."""
    rng = np.random.default_rng(5)
    scores, exact = [], True
    for centre in pair:
        release = _drawn(mechanism, np.broadcast_to(centre, (draws, *centre.shape)), rng)
        try:
            score = mechanism.log_likelihood(release, pair[0])
            score = score - mechanism.log_likelihood(release, pair[1])
        except UndefinedNotionError:
            exact, score = False, release @ (pair[0] - pair[1]).reshape(-1)
        scores.append(np.asarray(score, dtype=np.float64))
        _must(bool(np.isfinite(scores[-1]).all()), f"{about}: log_likelihood is not finite")
    thresholds = np.quantile(np.concatenate(scores), np.linspace(0.02, 0.98, 25))
    # One margin for every comparison of this suite (Dvoretzky, Kiefer and Wolfowitz): empirical
    # probabilities of {score > t} are all within it of the true ones, for every t at once.
    margin = math.sqrt(math.log(20.0 / _ALARM) / (2.0 * draws))
    with_it, without = ((s[:, None] > thresholds).mean(0) for s in scores)
    for level in _LEVELS:
        claim = float(delta_of(mechanism, schedule, level))
        slack = margin * (1.0 + math.exp(level))
        for one, two in ((with_it, without), (1.0 - without, 1.0 - with_it)):
            shown = float((one - math.exp(level) * two).max())
            _must(
                shown <= claim + slack,
                f"{about}: an event has P - e^ε·Q = {shown:.3f} at ε = {level:g}, where the loss "
                f"claims at most {claim:.3f}: there is less noise than was accounted",
            )
    if exact:
        _check_density(scores[0], scores[1], about)
        _check_density(-scores[1], -scores[0], about)


def _check_density(ratio_p: FloatArray, ratio_q: FloatArray, about: str) -> None:
    """P(ℓ ≤ 0) is E_Q[e^ℓ; ℓ ≤ 0] for ℓ = log p/q: both are means of numbers in [0, 1]."""
    seen = float((ratio_p <= 0.0).mean())
    told = float(np.where(ratio_q <= 0.0, np.exp(np.minimum(ratio_q, 0.0)), 0.0).mean())
    margin = 2.0 * math.sqrt(math.log(20.0 / _ALARM) / (2.0 * len(ratio_p)))
    _must(
        abs(seen - told) <= margin,
        f"{about}: log_likelihood gives an event probability {told:.3f}, releases {seen:.3f}: it "
        "is not the density of perturb",
    )


def _relations(mechanism: Mechanism) -> Iterator[tuple[Neighbouring, Schedule]]:
    """One unsampled release under every relation that the mechanism is accounted for."""
    whole: tuple[tuple[Neighbouring, Schedule], ...] = (
        (Neighbouring.ADD_OR_REMOVE, Poisson(1.0, 1)),
        (Neighbouring.REPLACE, FixedSize(1, 1, 1)),
    )
    for relation, schedule in whole:
        try:
            mechanism.loss(relation)
        except ValueError:
            continue  # a relation that cannot be accounted for is refused
        if mechanism.stage != "record" or relation is Neighbouring.REPLACE:
            yield relation, schedule


def _worst(setting: Setting) -> FloatArray:
    """A record at its bound in every layer, without a zero, so that every block has a direction."""
    sizes = setting.layers or (setting.dim,)
    parts = [np.linspace(1.0, 2.0, size) for size in sizes]
    return np.concatenate([part / np.linalg.norm(part) for part in parts])


def _drawn(mechanism: Mechanism, gradient: Any, generator: Any) -> Any:
    state = mechanism.initial_state() if mechanism.stateful else None
    return draw(mechanism, gradient, generator, state)


def _same(one: Any, two: Any) -> bool:
    return bool((one == two).all())
