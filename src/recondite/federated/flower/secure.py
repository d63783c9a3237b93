"""Flower's SecAgg+ on both sides: a client that checks what it is asked, a server that sees sums.

Flower 1.41 has the protocol for its older messages only: the client's mod and the server's
workflow are used, with rounds of our own around them, and with masks of our own. Flower makes a
mask from 32 bits of its seed with a Mersenne twister, and the first number under it is known: a
server can try all seeds. Here a mask is SHAKE-256 of the whole seed, which both sides have to know:
:func:`secured` clients and :class:`SecureRounds` work with each other only.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recondite import _validate
from recondite.federated.auditor import Auditor
from recondite.federated.central import CentralNoise
from recondite.federated.flower import flower, log
from recondite.federated.flower.mod import DefenceMod, without_update
from recondite.federated.flower.replies import arrays_of, reply_arrays, train_reply
from recondite.federated.flower.strategy import present
from recondite.federated.policy import StayOutError
from recondite.federated.shared_noise import LEVELS, SharedNoise
from recondite.federated.update import moved, noised_names
from recondite.studies.shapes import Row

flower()  # quiet, before Flower reads its switches
_CLIENT = "flwr.client.mod.secure_aggregation.secaggplus_mod"
_SERVER = "flwr.server.workflow.secure_aggregation.secaggplus_workflow"
from flwr.server.workflow import SecAggPlusWorkflow  # noqa: E402  (after the lines above)

__all__ = ["ALL", "MODULUS", "SecureRounds", "masks", "secured"]

MODULUS = 1 << 32
ALL = "all"  # whose update the auditor is shown

_CONFIGS = "secaggplus_configs"
_TELLING = "a sum of fewer clients tells more of each"


class _Refused(Exception):  # noqa: N818  (it carries a reply through Flower's mod)
    def __init__(self, reply: Any) -> None:
        super().__init__()
        self.reply = reply


def secured(defence: DefenceMod | None, least: int = 2) -> Callable[[Any, Any, Any], Any]:
    """A client mod that lets an update leave only inside a sum: Flower's SecAgg+ around a defence.

    Guarantee: a training message outside the protocol is refused. So is one whose sum could be
    unmasked with fewer than ``least`` clients in it, and one that is not on the grid that noise in
    shares needs. Against a server that follows the protocol, which then sees sums only, of this
    client and ``least`` - 1 others at least. A server that makes up clients, or tells clients
    different lists of who is there, gets at single updates: Flower's protocol has no signatures.
    What noise of the client's own (a defence without ``honest``) promises holds against it too:
    masking, clipping and stochastic rounding come after that noise, and what is computed from a
    release without looking at the records again tells no more than the release.

    Args:
      defence: Of :func:`~recondite.federated.defend`; None for none.
      least: The fewest clients in a sum; with noise in shares, at least as many as ``honest``.
    """
    _validate.at_least("least", least, 2)
    share = None if defence is None else defence.share
    if share is not None:
        least = max(least, share.honest)

    def mod(message: Any, context: Any, call_next: Any) -> Any:
        def answered(asked: Any, given: Any) -> Any:
            if defence is not None:
                return defence.answer(asked, given, call_next)
            reply = call_next(asked, given)
            # An app's own reply has no place for what Flower's older messages hold.
            return reply if reply.has_error() else _legacy(asked, reply)

        def inside(asked: Any, given: Any) -> Any:
            reply = answered(asked, given)
            if reply.has_error():  # Flower's mod would look for its content
                raise _Refused(reply)
            return reply

        kind = message.metadata.message_type
        if defence is not None and kind.split(".")[0] != "train":
            return defence.answer(message, context, call_next)  # without a figure, or refused
        try:
            # Flower's mod lets training messages with a name of their own pass without masks.
            _check(
                message.content.config_records.get(_CONFIGS) if kind == "train" else None,
                least,
                share,
            )
            with _masked(_CLIENT) as protocol:
                return protocol.secaggplus_mod(message, context, inside)
        except _Refused as refusal:
            return refusal.reply
        except Exception as error:
            return without_update(message, error)

    return mod


_TURN = threading.RLock()


@contextlib.contextmanager
def _masked(module: str) -> Iterator[Any]:
    """One of Flower's modules, with :func:`masks` for its own while inside."""
    found = flower(module)
    with _TURN:
        before, found.pseudo_rand_gen = found.pseudo_rand_gen, masks
        try:
            yield found
        finally:
            found.pseudo_rand_gen = before


def masks(seed: bytes, modulus: int, shapes: Sequence[tuple[int, ...]]) -> list[NDArray[np.int64]]:
    """Arrays of these shapes that follow from a seed and, without it, look uniform below 2³².

    Args:
      seed: All of it counts.
      modulus: 2³².
      shapes: Of the arrays.
    """
    if modulus != MODULUS:
        raise ValueError(f"modulus must be {MODULUS}, got {modulus}")
    sizes = [int(np.prod(shape)) for shape in shapes]
    stream = hashlib.shake_256(b"recondite secure sum" + seed).digest(4 * sum(sizes))
    words = np.frombuffer(stream, dtype="<u4").astype(np.int64)
    ends = np.cumsum(sizes)
    return [
        words[end - size : end].reshape(shape)
        for end, size, shape in zip(ends, sizes, shapes, strict=True)
    ]


def _legacy(message: Any, reply: Any) -> Any:
    after = reply_arrays(reply, arrays_of(message)[1])
    return train_reply(message, after, weight=1, weight_key="num-examples")


def _check(asked: Any, least: int, share: SharedNoise | None) -> None:
    """Refuses messages outside the protocol, and sums that this client was not promised."""
    if asked is None or "stage" not in asked:
        raise StayOutError("this client takes part in secure sums only")
    if asked["stage"] != "setup":
        return  # goes on with what was checked: Flower's mod knows its stages
    for name in ("sample_num", "share_num", "threshold"):
        if not isinstance(asked.get(name), int) or asked[name] < least:
            raise StayOutError(f"{name} must be at least {least}: {_TELLING}")
    if asked.get("mod_range") != MODULUS:
        raise StayOutError(f"mod_range must be {MODULUS}: masks are uniform on it")
    if share is None:
        return
    wanted: dict[str, float] = {
        "clipping_range": share.clipping_range,
        "target_range": LEVELS,
        "max_weight": 1.0,
    }
    for name, value in wanted.items():
        if asked.get(name) != value:
            raise StayOutError(f"{name} must be {value:g}: noise in shares needs that grid")


class _Workflow(SecAggPlusWorkflow):
    """Flower's, where a client that is gone before it shared its keys does not end the round."""

    def setup_stage(self, grid: Any, context: Any, state: Any) -> bool:
        """The public keys of those that are there."""
        return super().setup_stage(grid, context, state) and self._without_lost(state)

    def share_keys_stage(self, grid: Any, context: Any, state: Any) -> bool:
        """The shares of their keys: without those nobody has masked anything with them."""
        return super().share_keys_stage(grid, context, state) and self._without_lost(state)

    def _without_lost(self, state: Any) -> bool:
        state.sampled_node_ids = set(state.active_node_ids)
        return bool(self._check_threshold(state))


@dataclass
class _Round:
    """What Flower's workflow asks of its older strategies, for one round."""

    instructions: list[Any]
    average: Any = None
    clients: int = 0

    def configure_fit(self, server_round: int, parameters: Any, client_manager: Any) -> list[Any]:
        del server_round, parameters, client_manager
        return self.instructions

    def aggregate_fit(self, server_round: int, results: list[Any], failures: Any) -> Any:
        del server_round, failures
        self.average, self.clients = results[0][1].parameters, len(results)
        return None, {}


@dataclass
class SecureRounds:
    """Rounds in which the server sees the sum of its clients' updates, and nothing of one client.

    It takes the place of a strategy: :meth:`start` is called as theirs is.

    Guarantee: what :func:`secured` says, for clients that are wrapped in it. The server cannot
    screen updates that it does not see: one client can spoil a sum.

    Attributes:
      clients: How many there should be.
      least: The fewest clients in a sum.
      wait: Seconds that a stage waits for its clients.
      share: The grid that updates come on (noise in shares, or of the server); None where clients
        send weights with noise of their own.
      central: The server's own noise, if it adds any.
      auditor: Attacks the sums, if given.
      every: Rounds between audited ones.
      done: Rounds that an earlier server finished.
    """

    clients: int
    least: int = 2
    wait: float = 600.0
    share: SharedNoise | None = None
    central: CentralNoise | None = None
    auditor: Auditor | None = None
    every: int = 1
    done: int = 0
    _begun: bool = False

    def start(
        self,
        grid: Any,
        initial_arrays: Any,
        num_rounds: int,
        timeout: float,
        train_config: Any,
        evaluate_fn: Callable[[int, Any], Any],
    ) -> None:
        """All rounds; the arrays after each are handed to ``evaluate_fn``."""
        del timeout
        app = flower()
        arrays = {name: array.numpy() for name, array in initial_arrays.items()}
        evaluate_fn(0, initial_arrays)
        for number in range(1, num_rounds + 1):
            arrays = self._after(grid, number + self.done, arrays, dict(train_config))
            record = app.ArrayRecord({name: app.Array(value) for name, value in arrays.items()})
            evaluate_fn(number, record)

    def finish(self, wait: float | None = None) -> list[Row]:
        """Ends the auditor, if there is one."""
        return [] if self.auditor is None else self.auditor.finish(wait)

    def _after(self, grid: Any, number: int, before: Any, config: dict[str, Any]) -> Any:
        there = present(grid, 1 if self._begun else self.clients, self.wait)
        self._begun = True
        average, clients = self._averaged(grid, there, number, before, config)
        if average is None:
            log(logging.WARNING, f"recondite: round {number}: no sum, so the model stays as it was")
            return before
        values = dict(zip(before, average, strict=True))
        after = {k: np.asarray(values[k]).astype(v.dtype) for k, v in before.items()}
        if self.share is not None:
            names = noised_names(before)
            update = np.concatenate([np.asarray(values[name]).ravel() for name in names])
            if self.central is not None:
                update = self.central.release(update * clients, clients, before, names, number)
            after = moved(before, names, update)
        log(logging.INFO, f"recondite: round {number}: the sum of {clients} updates")
        if self.auditor is not None and (number - 1) % self.every == 0:
            seen = f"sum of {clients} updates"
            self.auditor.observe(number, ALL, before, after, seen)
        return after

    def _averaged(
        self, grid: Any, nodes: list[int], number: int, before: Any, config: dict[str, Any]
    ) -> tuple[list[Any] | None, int]:
        """The average of what the clients sent, by SecAgg+, and of how many."""
        app, older = flower(), flower("flwr.server")
        common = flower("flwr.common")
        compat = flower("flwr.compat.common.recorddict_compat")
        constant = flower("flwr.server.workflow.constant")
        parameters = common.ndarrays_to_parameters([np.asarray(v) for v in before.values()])
        asked = common.FitIns(parameters, {**config, "server-round": number})
        instructions = [(SimpleNamespace(node_id=node), asked) for node in nodes]
        strategy: Any = _Round(instructions)
        context = older.LegacyContext(
            context=app.Context(0, 0, {}, app.RecordDict(), {}),
            config=older.ServerConfig(num_rounds=1),
            strategy=strategy,
            client_manager=SimpleNamespace(num_available=lambda: len(nodes)),
        )
        state = context.state
        state.config_records[constant.MAIN_CONFIGS_RECORD] = app.ConfigRecord(
            {constant.Key.CURRENT_ROUND: number}
        )
        state.array_records[constant.MAIN_PARAMS_RECORD] = compat.parameters_to_arrayrecord(
            parameters, keep_input=True
        )
        workflow = _Workflow(
            1.0,  # every client holds a share of every other's keys
            self.least,
            max_weight=1.0,
            clipping_range=self._range(before),
            quantization_range=LEVELS,
            modulus_range=MODULUS,
            timeout=self.wait,
        )
        with _masked(_SERVER):
            workflow(grid, context)
        if strategy.average is None:
            return None, 0
        return common.parameters_to_ndarrays(strategy.average), strategy.clients

    def _range(self, before: Any) -> float:
        """A range that what clients send stays in: the grid's, or room for weights to grow."""
        if self.share is not None:
            return self.share.clipping_range
        largest = max((float(np.abs(v).max(initial=0.0)) for v in before.values()), default=0.0)
        return float(2.0 ** np.ceil(np.log2(8.0 + 4.0 * largest)))
