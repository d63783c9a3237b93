"""Replies as a server should read them: what cannot be aggregated is left out, in one line."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recondite import _validate
from recondite.federated.flower import flower, log

__all__ = ["Limits", "arrays_in", "fault", "screened"]

Arrays = dict[str, NDArray[Any]]
# Without a limit of the server's own: so many times the norm of the weights, and one.
_TIMES = 100.0


@dataclass(frozen=True)
class Limits:
    """How much one client may change the average, by the server's own decision.

    Guarantee: of n replies that are averaged, one that is weighed w at most ``max_weight`` moves
    the average by at most w/(w + the others' weights) times the largest update allowed.

    Attributes:
      max_weight: The most that a reply counts, whatever number of examples it claims, which no
        server can check; 1 weighs all alike, as defended clients ask.
      max_update: The largest norm of an update; None for 100 times the norm of the weights sent,
        and one.
    """

    max_weight: float = 1.0
    max_update: float | None = None

    def __post_init__(self) -> None:
        _validate.positive("max_weight", self.max_weight)
        if self.max_update is not None:
            _validate.positive("max_update", self.max_update)


def arrays_in(record: Any) -> Arrays:
    """The arrays of a record; nothing is unpickled."""
    return {name: array.numpy() for name, array in record.items()}


def fault(reply: Any, sent: Arrays, weight_key: str, limits: Limits) -> str | None:
    """Why a reply cannot be aggregated; None where it can.

    Args:
      reply: A reply without an error.
      sent: The arrays that the client was sent.
      weight_key: The metric that weighs the reply.
      limits: The server's.
    """
    records, metrics = reply.content.array_records, reply.content.metric_records
    if len(records) != 1 or len(metrics) != 1:
        return f"{len(records)} array records and {len(metrics)} metric records instead of one each"
    try:
        arrays = arrays_in(next(iter(records.values())))
    except Exception as error:  # bytes from a stranger break NumPy in any way they can
        return f"arrays that cannot be read ({type(error).__name__})"
    weight = next(iter(metrics.values())).get(weight_key)
    usable = isinstance(weight, int | float) and math.isfinite(weight) and weight > 0
    problem = _shapes(arrays, sent) or _values(arrays, sent) or _size(arrays, sent, limits)
    return problem or (None if usable else f"no usable {weight_key}")


def _values(arrays: Arrays, sent: Arrays) -> str | None:
    if not all(bool(np.isfinite(a).all()) for a in arrays.values() if a.dtype.kind == "f"):
        return "an update that is not finite"
    if all(np.array_equal(array, sent[name]) for name, array in arrays.items()):
        return "a zero update"
    return None


def _size(arrays: Arrays, sent: Arrays, limits: Limits) -> str | None:
    with np.errstate(over="ignore"):  # a norm that overflows is above any limit
        squares = [
            np.square(arrays[name].astype(np.float64) - array.astype(np.float64)).sum()
            for name, array in sent.items()
        ]
        norm = math.sqrt(sum(float(value) for value in squares))
    most = limits.max_update
    if most is None:
        own = sum(float(np.square(array.astype(np.float64)).sum()) for array in sent.values())
        most = _TIMES * (1.0 + math.sqrt(own))
    return f"an update of norm {norm:.3g}, above max_update = {most:.3g}" if norm > most else None


def _shapes(arrays: Arrays, sent: Arrays) -> str | None:
    if not arrays:
        return "an empty update"
    if set(arrays) != set(sent):
        return "arrays by other names than those it was sent"
    for name, array in sent.items():
        if arrays[name].shape != array.shape:
            found, wanted = arrays[name].shape, array.shape
            return f"{name} of shape {tuple(found)} instead of {tuple(wanted)}"
        if arrays[name].dtype.kind != array.dtype.kind:
            return f"{name} of type {arrays[name].dtype} instead of {array.dtype}"
    return None


def screened(
    replies: Iterable[Any],
    sent: Mapping[int, Arrays],
    *,
    round_number: int,
    weight_key: str = "num-examples",
    limits: Limits | None = None,
) -> tuple[list[Any], list[Any]]:
    """The replies to aggregate, and those that were left out; each of the latter in one log line.

    Replies with an error pass: a strategy counts them itself. Metrics that not every reply has
    are dropped, since Flower refuses to average them. Weights above the limit become the limit.

    Args:
      replies: Of one round.
      sent: The arrays that every node was sent, by node.
      round_number: For the log.
      weight_key: The metric that weighs a reply.
      limits: On weights and updates; by default all weigh alike.
    """
    good, bad = [], []
    limits = limits or Limits()
    for reply in replies:
        node = reply.metadata.src_node_id
        if reply.has_error():
            good.append(reply)
            continue
        problem = "a reply to nothing" if node not in sent else None
        problem = problem or fault(reply, sent[node], weight_key, limits)
        if problem is None:
            good.append(reply)
        else:
            bad.append(reply)
            log(
                logging.WARNING,
                f"recondite: round {round_number}: node {node} is left out: it sent {problem}",
            )
    usable = [reply for reply in good if not reply.has_error()]
    _same_metrics(usable, round_number)
    _weigh(usable, weight_key, limits.max_weight)
    return good, bad


def _weigh(replies: list[Any], weight_key: str, most: float) -> None:
    for reply in replies:
        metrics = next(iter(reply.content.metric_records.values()))
        metrics[weight_key] = min(metrics[weight_key], most)


def _same_metrics(replies: list[Any], round_number: int) -> None:
    records = [next(iter(reply.content.metric_records.items())) for reply in replies]
    if not records:
        return
    common = set.intersection(*(set(record) for _, record in records))
    names = {name for name, _ in records}
    places = {next(iter(reply.content.array_records)) for reply in replies}
    if len(names) == len(places) == 1 and all(set(record) == common for _, record in records):
        return
    log(
        logging.WARNING,
        f"recondite: round {round_number}: metrics that not every client sent are dropped",
    )
    app = flower()
    for reply, (name, record) in zip(replies, records, strict=True):
        kept = app.MetricRecord({key: record[key] for key in record if key in common})
        place, arrays = next(iter(reply.content.array_records.items()))
        del reply.content[name]
        del reply.content[place]
        reply.content["arrays"], reply.content["metrics"] = arrays, kept
