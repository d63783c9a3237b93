"""A defence for an existing Flower client app, in one line."""

from __future__ import annotations

import logging
import os
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np

from recondite import _validate
from recondite.channels.ledger import BudgetSpentError
from recondite.federated.cost import Budget, overspent
from recondite.federated.flower import log
from recondite.federated.flower.replies import (
    MemoryLedger,
    arrays_of,
    error_reply,
    evaluate_reply,
    reply_arrays,
    round_key,
    server_round,
    train_reply,
)
from recondite.federated.ledger import Line, ReleaseLedger
from recondite.federated.policy import StayOutError
from recondite.federated.serving import Serving, serving
from recondite.federated.shared_noise import SharedNoise, in_shares
from recondite.federated.training_report import listening, only_trained, reported
from recondite.federated.update import (
    Arrays,
    configured,
    difference,
    dumps,
    is_statistic,
    loads,
    moved,
    noised_names,
    one_release,
    release,
)
from recondite.mechanisms import Mechanism
from recondite.numerics.secure import SecureGenerator

__all__ = ["FAILED", "DefenceMod", "defend", "without_update"]

FAILED = "the client app failed in this round; the reason is in the client's own log"


def without_update(message: Any, error: Exception) -> Any:
    """The reply of a client that stays out of the round, or in whose app something went wrong."""
    if isinstance(error, StayOutError):
        log(logging.WARNING, f"recondite: this client stays out of the round: {error}")
        return error_reply(message, str(error))
    # What went wrong may tell of the data: it stays here.
    written = "".join(traceback.format_exception(error))
    logging.getLogger("flwr").error("recondite: %s", written)
    return error_reply(message, FAILED)


@dataclass(frozen=True)
class DefenceMod:
    """A Flower client mod: ``mods=[defend(...)]``. Built by :func:`defend`."""

    level: str
    mechanism: Mechanism | None
    max_norm: float
    channel: Any
    noise: str
    ledger: str | os.PathLike[str] | None
    budget: Budget | None
    weight: float
    weight_key: str
    buffers: str
    secure: bool
    seed: int | None
    share: SharedNoise | None = None
    _servings: dict[Any, Serving] = field(default_factory=dict, compare=False, repr=False)

    def __call__(self, message: Any, context: Any, call_next: Any) -> Any:
        """Answers a message of the server."""
        if self.share is not None:
            return error_reply(message, "noise in shares protects sums only: wrap it in secured")
        return self.answer(message, context, call_next)

    def answer(self, message: Any, context: Any, call_next: Any) -> Any:
        """The same, for whoever hides what leaves in a sum."""
        kind = message.metadata.message_type.split(".")[0]
        if kind == "evaluate":
            return evaluate_reply(message, weight=self.weight, weight_key=self.weight_key)
        if kind != "train":
            return error_reply(message, "a defended client answers training messages only")
        try:
            return self._train(message, context, call_next)
        except Exception as error:
            return without_update(message, error)

    def _train(self, message: Any, context: Any, call_next: Any) -> Any:
        if "stage" in message.content.config_records.get("secaggplus_configs", {}):
            raise StayOutError("defend must come after secaggplus_mod in the list of mods")
        book = self.open_ledger(context)
        _, before = arrays_of(message)
        key, node = round_key(message, before), str(context.node_id)
        with book.locked():
            sent = self._again(book, key, node)
        if sent is None:
            line = self._heading(message, key, node)
            line.update(self._planned(book, before))
            seen = self._refuse_overspending(book, line)
            after, line, counted = self._trained(message, context, call_next, book, before, line)
            content = dumps(after)
            with book.locked():
                sent = self._again(book, key, node)
                if sent is None:
                    self._refuse_overspending(book, line, seen)
                    book.store(key, content)
                    book.write(line)
                    counted()
                    sent = after
        return train_reply(message, sent, weight=self.weight, weight_key=self.weight_key)

    def open_ledger(self, context: Any) -> ReleaseLedger | MemoryLedger:
        """The ledger of the client that this context is of."""
        given = self.ledger or context.node_config.get("ledger")
        if given is None:
            return MemoryLedger(context)
        part = context.node_config.get("partition-id")
        folder = Path(os.fspath(given))
        return ReleaseLedger(folder if part is None else folder / f"client-{part}")

    def _again(self, book: ReleaseLedger | MemoryLedger, key: str, node: str) -> Arrays | None:
        """What a round that was released before gets: the same bytes, or nothing."""
        counted = [line for line in book.lines() if line["key"] == key]
        stored = book.stored(key)
        if not counted:
            # Stored but not counted: the client died in between, and nothing left.
            return None
        if counted[0].get("node", node) != node:
            raise StayOutError(
                "another client released this round from the same ledger: give each its own folder"
            )
        if self.share is not None:
            # A second sum of other clients would differ from the first by single releases.
            raise StayOutError("this round was summed before: noise in shares is not sent twice")
        if stored is None:
            raise StayOutError("this round was released before, and its bytes are gone")
        log(logging.INFO, "recondite: the round was released before: the same bytes again")
        return loads(stored)

    def _heading(self, message: Any, key: str, node: str) -> Line:
        return {
            "key": key,
            "run": str(message.metadata.run_id),
            "round": server_round(message),
            "level": self.level,
            "simulation": self.seed is not None,
            "at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
            "node": node,
        }

    def _planned(self, book: ReleaseLedger | MemoryLedger, before: Arrays) -> Line:
        """The cost of a round as far as it is known before training."""
        if self.mechanism is not None:
            names = self._names(before)
            mechanism = configured(self.mechanism, before, names)
            line = one_release(mechanism)
            if self.share is None or not self.share.noise_multiplier:
                return line
            dim = sum(before[name].size for name in names)
            return {**line, "noise_at": "sum", "share": self.share.to_dict(dim)}
        earlier = [line for line in book.lines() if line["level"] == self.level]
        kept = ("mechanism", "parameters", "schedule", "channel")
        last: Any = earlier[-1] if earlier else {}
        planned: Any = {key: last[key] for key in kept if key in last}
        known: Line = planned
        return known

    def _refuse_overspending(self, book: Any, line: Line, seen: Any = None) -> Any:
        """Raises where a release would exceed the budget; returns what was looked at.

        Args:
          book: The ledger.
          line: The release.
          seen: What an earlier call looked at: the same need not be computed again.
        """
        lines = [*book.lines(), line]
        known = "mechanism" in line or "channel" in line
        if known and lines != seen:
            reason = overspent(self.budget, lines)
            if reason is not None:
                raise StayOutError(reason)
        return lines

    def _names(self, before: Arrays) -> tuple[str, ...]:
        names = noised_names(before)
        left = [name for name, array in before.items() if is_statistic(name, array)]
        if left and self.buffers == "refuse":
            raise StayOutError(
                f"{left[0]} is a batch-norm statistic, which no noise here covers: use group norm"
            )
        if left:
            log(logging.INFO, f"recondite: {len(left)} batch-norm buffers are sent back unchanged")
        return names

    def _trained(
        self, message: Any, context: Any, call_next: Any, book: Any, before: Arrays, line: Line
    ) -> tuple[Arrays, Line, Callable[[], None]]:
        """What leaves, its line in the ledger, and whom to tell once it is counted."""
        if self.channel is not None:
            try:
                with serving(self._serving(book)) as served:
                    after = reply_arrays(call_next(message, context), before)
            except BudgetSpentError as reason:
                raise StayOutError(f"budget of information is spent: {reason}") from None
            account = served.account()
            line.update({"channel": account, "schedule": {"steps": account["uses"]}})
            return after, line, _nobody
        if self.mechanism is not None:
            after = reply_arrays(call_next(message, context), before)
            names = self._names(before)
            update = difference(before, after, names)
            if self.share is not None:
                placed = self.share.release(update, self._generator(context, line))
                nothing = {name: np.zeros(array.shape) for name, array in before.items()}
                return moved(nothing, names, placed), line, _nobody
            mechanism = configured(self.mechanism, before, names)
            noised = release(mechanism, update, self.max_norm, self._generator(context, line))
            return moved(before, names, noised), line, _nobody
        with listening() as reports:
            after = reply_arrays(call_next(message, context), before)
        if len(reports) != 1:
            raise StayOutError(
                "the app must tell how it trained: call recondite.federated.trained_with(engine, "
                "model) once in its training function"
            )
        told = reported(reports[0])
        told["simulation"] = reports[0].simulation or self.seed is not None
        return only_trained(before, after, reports[0]), {**line, **told}, reports[0].counted

    def _serving(self, book: ReleaseLedger | MemoryLedger) -> Serving:
        if book.folder is None:
            # A secret that ends with the round would draw other noise in the next one, uncounted.
            raise StayOutError(
                'a channel needs a ledger folder: ledger=… or --node-config ledger="…"'
            )
        total = None if self.budget is None else self.budget.information
        made = Serving(self.channel, self.noise, book.folder, total, self.seed)
        return self._servings.setdefault(book.folder, made)

    def _generator(self, context: Any, line: Line) -> Any:
        if self.secure:
            return SecureGenerator()
        if self.seed is None:
            return None
        part = int(context.node_config.get("partition-id", 0))
        return np.random.default_rng([self.seed, part, int(line["round"] or 0)])


def _nobody() -> None:
    """Nobody waits to hear that a release was counted."""


def defend(
    mechanism: Mechanism | None = None,
    *,
    max_norm: float | None = None,
    channel: Any = None,
    noise: str = "once",
    ledger: str | os.PathLike[str] | None = None,
    budget: Budget | None = None,
    weight: float = 1,
    weight_key: str = "num-examples",
    buffers: str = "drop",
    secure: bool = False,
    seed: int | None = None,
    honest: int | None = None,
) -> DefenceMod:
    """Returns a client mod that lets nothing leave but what the ledger counts.

    | given | what is released | protects |
    | --- | --- | --- |
    | ``mechanism`` and ``max_norm`` | the update, bounded and noised as a whole | the client |
    | ``channel`` | the app's own update, from noisy records | a record's features |
    | neither | the app's own update, trained with a ``PrivacyEngine`` | a record |

    Guarantee: what the table says, against a server that sees every message of this client, in
    the sense and under the assumptions of the mechanism or channel; :func:`spent` composes it
    over rounds, runs and restarts. Client sampling amplifies nothing: the server does it. A reply
    is built anew: metrics are left out, the number of examples is ``weight``, batch-norm buffers
    go back as they came, evaluation is answered without a figure, and an error without its
    reason. The ledger is on disk before a reply is returned; the same round sent again gets the
    same bytes, and is counted once. Not covered: how long the app took, and an app that does
    something else with its data. The app's code comes through the server: trust who signs it.

    With Flower's SecAgg+ mod, put this one after it: ``mods=[secaggplus_mod, defend(...)]``; the
    first in the list is the last to touch what leaves.

    Args:
      mechanism: Noise for the whole update: Gaussian, VMF, directional, or a package's own.
      max_norm: The norm an update is clipped to; for directions, the length that every release
        has: a public constant.
      channel: A fitted channel. While the app trains, every torch ``DataLoader`` it iterates
        serves noisy copies. Records read otherwise are not protected.
      noise: Of the channel: "once" or "per_step".
      ledger: Folder for the ledger; by default the SuperNode's ``--node-config ledger="…"``, and
        without one it is kept in Flower's context, which a restart loses. Clients with a
        ``partition-id`` each have a subfolder.
      budget: What may be spent; a round that would exceed it is not released.
      weight: The number of examples the server is told, a public constant.
      weight_key: Its name in the reply.
      buffers: "drop" sends batch-norm statistics back unchanged, "refuse" stays out.
      secure: Noise on updates from a cryptographic generator, bit by bit.
      seed: Repeatable noise, for simulations: it protects nobody, and the ledger says so.
      honest: Adds a share of the mechanism's noise only: the sum of so many clients has all of it
        (:mod:`recondite.federated.shared_noise`). The reply is the update, to be summed by
        :func:`recondite.federated.flower.secure.secured`; without it nothing is answered.

    Example:
      >>> import recondite as rc
      >>> mod = defend(rc.VonMisesFisher(kappa=500), max_norm=1.0)
      >>> mod.level
      'client'
    """
    if mechanism is not None and channel is not None:
        raise ValueError("mechanism and channel are two defences: give one, or two mods")
    if (mechanism is None) != (max_norm is None):
        raise ValueError("max_norm bounds the update that a mechanism noises: give both or neither")
    if secure and seed is not None:
        raise ValueError("seed makes noise repeatable: leave it out in secure mode")
    if seed is not None and channel is not None and noise == "once":
        raise ValueError("seed is not for once noise: it repeats with its secret")
    _validate.choice("noise", noise, ("once", "per_step"))
    _validate.choice("buffers", buffers, ("drop", "refuse"))
    share = None
    if honest is not None:
        if mechanism is None or max_norm is None:
            raise ValueError(
                "honest shares the noise on whole updates: give mechanism and max_norm"
            )
        share, mechanism = in_shares(mechanism, max_norm, honest)
    level = "client" if mechanism is not None else "channel" if channel is not None else "record"
    return DefenceMod(
        level=level,
        mechanism=mechanism,
        max_norm=1.0 if max_norm is None else _validate.positive("max_norm", max_norm),
        channel=channel,
        noise=noise,
        ledger=ledger,
        budget=budget,
        weight=_validate.positive("weight", weight),
        weight_key=weight_key,
        buffers=buffers,
        secure=secure,
        seed=seed,
        share=share,
    )
