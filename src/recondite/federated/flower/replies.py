"""Replies built anew from what may leave, so that nothing else can."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recondite.federated.flower import flower
from recondite.federated.ledger import Line
from recondite.federated.update import Arrays

__all__ = [
    "MemoryLedger",
    "arrays_of",
    "error_reply",
    "evaluate_reply",
    "reply_arrays",
    "round_key",
    "server_round",
    "train_reply",
]

_LEGACY = "fitres.parameters"
_LEGACY_IN = "fitins.parameters"
_CONFIG = "recondite.ledger"


def arrays_of(message: Any) -> tuple[str, dict[str, NDArray[Any]]]:
    """The one array record of a message, by its name."""
    records = message.content.array_records
    if len(records) != 1:
        raise ValueError(f"a message must carry exactly one ArrayRecord, got {len(records)}")
    name, record = next(iter(records.items()))
    return name, {key: array.numpy() for key, array in record.items()}


def server_round(message: Any) -> int | None:
    """The round that the server says it is, if it does."""
    for record in message.content.config_records.values():
        for key in ("server-round", "current-round"):
            if isinstance(record.get(key), int):
                return int(record[key])
    group = message.metadata.group_id
    return int(group) if group and group.isdigit() else None


def _federation(message: Any) -> str | None:
    for record in message.content.config_records.values():
        if isinstance(record.get("federation"), str):
            return f"federation {record['federation']}"
    return None


def round_key(message: Any, arrays: Arrays) -> str:
    """Names a round: the same run, round and global model are the same round, however often sent.

    Without a round in the configuration, the message itself is the round. A server that goes on
    after a crash has a new run: it may name its federation instead. That gains it nothing, for a
    round by a known name gets the bytes that left before, and any other is counted.
    """
    number = server_round(message)
    digest = hashlib.blake2b(digest_size=16)
    run = _federation(message) or str(message.metadata.run_id)
    digest.update(f"{run} {message.metadata.message_type} ".encode())
    digest.update(
        f"round {number}".encode()
        if number is not None
        else f"message {message.metadata.message_id}".encode()
    )
    for name, array in arrays.items():
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def train_reply(message: Any, arrays: Arrays, *, weight: float, weight_key: str) -> Any:
    """A reply with these arrays and a public constant for the number of examples."""
    app = flower()
    received = next(iter(message.content.array_records))
    record = app.ArrayRecord({key: app.Array(np.asarray(value)) for key, value in arrays.items()})
    if received == _LEGACY_IN:
        content = app.RecordDict(
            {
                _LEGACY: record,
                "fitres.num_examples": app.MetricRecord({"num_examples": int(weight)}),
                "fitres.metrics": app.ConfigRecord({}),
                "fitres.status": app.ConfigRecord({"code": 0, "message": ""}),
            }
        )
    else:
        metrics = app.MetricRecord({weight_key: weight})
        content = app.RecordDict({received: record, "metrics": metrics})
    return app.Message(content, reply_to=message)


def evaluate_reply(message: Any, *, weight: float, weight_key: str) -> Any:
    """A reply without a single figure of the client's data."""
    app = flower()
    metrics = app.MetricRecord({weight_key: weight})
    return app.Message(app.RecordDict({"metrics": metrics}), reply_to=message)


def error_reply(message: Any, reason: str) -> Any:
    """A reply that says why there is none; the reason must not depend on the data."""
    app = flower()
    code = flower("flwr.common.constant").ErrorCode.MOD_FAILED_PRECONDITION
    return app.Message(app.Error(code=code, reason=f"recondite: {reason}"), reply_to=message)


def reply_arrays(reply: Any, before: Arrays) -> Arrays:
    """The arrays of an app's reply, which must be those it was sent, trained."""
    if reply.has_error():
        raise ValueError(f"the app replied with an error: {reply.error.reason}")
    _, after = arrays_of(reply)
    if list(after) != list(before):
        raise ValueError("the reply must have the arrays that were received, by the same names")
    for name, array in before.items():
        if after[name].shape != array.shape:
            raise ValueError(f"{name} has shape {after[name].shape}, received was {array.shape}")
    return {name: after[name].astype(array.dtype) for name, array in before.items()}


class MemoryLedger:
    """A ledger in Flower's own context: kept over rounds, lost when the SuperNode stops.

    Args:
      context: The ``Context`` of the client app.
    """

    folder = None

    def __init__(self, context: Any) -> None:
        self._state = context.state

    def lines(self) -> list[Line]:
        """Every release, oldest first."""
        return [json.loads(text) for text in self._record().get("lines", [])]

    def write(self, line: Line) -> None:
        """Appends a release."""
        record = self._record()
        texts = [*record.get("lines", []), json.dumps(line, allow_nan=False)]
        self._put({**record, "lines": texts})

    def stored(self, key: str) -> bytes | None:
        """The bytes of the last release, if it has this key."""
        record = self._record()
        content: bytes | None = record["bytes"] if record.get("key") == key else None
        return content

    def store(self, key: str, content: bytes) -> None:
        """Keeps the bytes of a release; forgets older ones."""
        self._put({**self._record(), "key": key, "bytes": content})

    @contextmanager
    def locked(self) -> Iterator[None]:
        """A context belongs to one call at a time."""
        yield

    def _record(self) -> dict[str, Any]:
        records = self._state.config_records
        return dict(records[_CONFIG]) if _CONFIG in records else {}

    def _put(self, values: dict[str, Any]) -> None:
        self._state.config_records[_CONFIG] = flower().ConfigRecord(values)
