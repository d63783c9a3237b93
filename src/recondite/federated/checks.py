"""Replies as a server should read them: what cannot be aggregated is left out, in one line."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recondite.federated.flower import flower, log

__all__ = ["arrays_in", "fault", "screened"]

Arrays = dict[str, NDArray[Any]]


def arrays_in(record: Any) -> Arrays:
    """The arrays of a record; nothing is unpickled."""
    return {name: array.numpy() for name, array in record.items()}


def fault(reply: Any, sent: Arrays, weight_key: str) -> str | None:
    """Why a reply cannot be aggregated; None where it can.

    Args:
      reply: A reply without an error.
      sent: The arrays that the client was sent.
      weight_key: The metric that weighs the reply.
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
    problem = _shapes(arrays, sent) or _values(arrays, sent)
    return problem or (None if usable else f"no usable {weight_key}")


def _values(arrays: Arrays, sent: Arrays) -> str | None:
    if not all(bool(np.isfinite(a).all()) for a in arrays.values() if a.dtype.kind == "f"):
        return "an update that is not finite"
    if all(np.array_equal(array, sent[name]) for name, array in arrays.items()):
        return "a zero update"
    return None


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
) -> tuple[list[Any], list[Any]]:
    """The replies to aggregate, and those that were left out; each of the latter in one log line.

    Replies with an error pass: a strategy counts them itself. Metrics that not every reply has
    are dropped, since Flower refuses to average them.

    Args:
      replies: Of one round.
      sent: The arrays that every node was sent, by node.
      round_number: For the log.
      weight_key: The metric that weighs a reply.
    """
    good, bad = [], []
    for reply in replies:
        node = reply.metadata.src_node_id
        if reply.has_error():
            good.append(reply)
            continue
        problem = "a reply to nothing" if node not in sent else None
        problem = problem or fault(reply, sent[node], weight_key)
        if problem is None:
            good.append(reply)
        else:
            bad.append(reply)
            log(
                logging.WARNING,
                f"recondite: round {round_number}: node {node} is left out: it sent {problem}",
            )
    _same_metrics([reply for reply in good if not reply.has_error()], round_number)
    return good, bad


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
