"""Any Flower strategy behind checks: one client cannot own the average, whatever it sends."""

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

flower()  # quiet, before Flower reads its switches
from flwr.serverapp.strategy import Strategy  # noqa: E402  (after the line above)

__all__ = ["Limits", "ScreeningStrategy", "arrays_in", "fault", "screened"]

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


class ScreeningStrategy(Strategy):
    """Wraps a strategy: it aggregates the replies that pass, with weights within the limits.

    Replies that cannot be aggregated (not finite, of the wrong shape, empty, zero) or are above
    the limits are left out of the round, each with one log line: one broken or hostile client does
    not stop the others.

    Args:
      strategy: The strategy; every call goes through to it.
      limits: Of weights and updates; by default :class:`Limits`, where all replies weigh alike.
      done: Rounds that an earlier server finished: numbers go on from there.
    """

    def __init__(self, strategy: Strategy, *, limits: Limits | None = None, done: int = 0) -> None:
        self.strategy = strategy
        self.done = done
        self.limits = limits or Limits()
        self.excluded: dict[int, int] = {}
        self._sent: dict[int, Any] = {}

    def __getattr__(self, name: str) -> Any:
        if name == "strategy":  # not there yet: a copy or an unpickled one
            raise AttributeError(name)
        return getattr(self.strategy, name)

    def configure_train(
        self, server_round: int, arrays: Any, config: Any, grid: Any
    ) -> Iterable[Any]:
        """The wrapped strategy's messages, remembered until their replies come."""
        number = server_round + self.done
        messages = list(self.strategy.configure_train(number, arrays, config, grid))
        self._sent = {}
        for message in messages:
            records = message.content.array_records
            if len(records) == 1:
                self._sent[message.metadata.dst_node_id] = next(iter(records.values()))
        return messages

    def aggregate_train(self, server_round: int, replies: Iterable[Any]) -> Any:
        """Screens the replies and lets the strategy aggregate the others."""
        server_round += self.done
        sent = self._sent_arrays()
        key = getattr(self.strategy, "weighted_by_key", "num-examples")
        good, bad = screened(
            replies, sent, round_number=server_round, weight_key=key, limits=self.limits
        )
        self.excluded[server_round] = len(bad)
        self._passed(server_round, good, sent)
        result = self.strategy.aggregate_train(server_round, good)
        if result[0] is None:
            log(
                logging.WARNING,
                f"recondite: round {server_round}: no usable update, so the model stays as it was",
            )
        return result

    def configure_evaluate(
        self, server_round: int, arrays: Any, config: Any, grid: Any
    ) -> Iterable[Any]:
        """The wrapped strategy's."""
        return self.strategy.configure_evaluate(server_round + self.done, arrays, config, grid)

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Any]) -> Any:
        """The wrapped strategy's; nothing but errors leaves a defended client."""
        return self.strategy.aggregate_evaluate(server_round + self.done, replies)

    def summary(self) -> None:
        """The wrapped strategy's, and the limits."""
        self.strategy.summary()
        most = self.limits.max_update
        size = "100 (1 + norm of the weights)" if most is None else f"{most:.3g}"
        log(
            logging.INFO,
            f"recondite: a reply counts at most {self.limits.max_weight:g} example(s), with an "
            f"update of norm at most {size}",
        )

    def _passed(self, server_round: int, replies: list[Any], sent: dict[int, Any]) -> None:
        """Called with what is about to be aggregated."""

    def _sent_arrays(self) -> dict[int, Any]:
        """What each node was sent, decoded once for each record."""
        decoded = {id(record): record for record in self._sent.values()}
        arrays = {key: arrays_in(record) for key, record in decoded.items()}
        return {node: arrays[id(record)] for node, record in self._sent.items()}
