"""Local training of one client in one round: SGD on its share, private or plain."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from recondite.federated.policy import Policy
from recondite.federated.training_report import trained_with
from recondite.records import Records
from recondite.training.engine import PrivacyEngine
from recondite.training.sampling import PrivateLoader
from recondite.training.trainer import descend

__all__ = ["LocalResult", "Streams", "train_locally"]


@dataclass
class Streams:
    """Where a seeded client is in its random streams; empty at the first round.

    Rounds go on where the last one stopped, in the middle of an epoch if need be, so that one
    client with all records draws the batches and the noise of central training. Only simulations
    have such state: a client without a seed draws afresh from the operating system.

    Attributes:
      epoch: State of the batch generator when the current epoch began.
      taken: Batches of that epoch that were used.
      noise: State of the noise generator.
    """

    epoch: dict[str, Any] | None = None
    taken: int = 0
    noise: bytes | None = None

    def to_config(self) -> dict[str, Any]:
        """Plain values for Flower's context."""
        return {"epoch": json.dumps(self.epoch), "taken": self.taken, "noise": self.noise or b""}

    @classmethod
    def of(cls, config: dict[str, Any]) -> Streams:
        """From the values of :meth:`to_config`."""
        if not config:
            return cls()
        return cls(json.loads(config["epoch"]), int(config["taken"]), config["noise"] or None)


@dataclass(frozen=True)
class LocalResult:
    """What a local training did.

    Attributes:
      steps: Steps taken.
      loss: Mean loss. Not private.
      streams: Where the streams are now.
      batches: The records used, step by step, for the scores of simulations.
    """

    steps: int
    loss: float
    streams: Streams
    batches: list[tuple[torch.Tensor, torch.Tensor]] = field(default_factory=list)


def train_locally(
    model: nn.Module, records: Records, policy: Policy, streams: Streams | None = None
) -> LocalResult:
    """Trains a model in place for E steps.

    With a defence at the level of records the steps are those of a :class:`PrivacyEngine`, which
    is reported to the mod. Otherwise they are plain SGD: sums over a batch divided by the
    expected batch size, as the engine does, which takes no layers that mix records, as such a
    client may.

    Args:
      model: With the weights that the server sent.
      records: The client's share.
      policy: The client's, for this round.
      streams: Where a seeded client left off.
    """
    model.train()
    streams = streams or Streams()
    optimizer = torch.optim.SGD(model.parameters(), lr=policy.learning_rate)
    # Behind a plain data set, records are read through torch's loaders, where a channel acts.
    dataset: Any = _Plain(records) if policy.described.on_records else records
    source = DataLoader(dataset, batch_size=min(policy.batch_size, len(records)))
    mechanism = policy.mechanism()
    engine: PrivacyEngine | None = None
    if mechanism is not None and policy.level == "record":
        engine = PrivacyEngine(seed=policy.seed_or_none)
        sampling = policy.sampling
        if mechanism.stage == "record" and sampling == "poisson":
            sampling = "fixed-size"
        _, _, loader = engine.make_private(
            module=model,
            optimizer=optimizer,
            data_loader=source,
            mechanism=mechanism,
            max_grad_norm=policy.max_norm,
            sampling=sampling,
        )
        if streams.noise is not None:
            engine.generator.set_state(
                torch.frombuffer(bytearray(streams.noise), dtype=torch.uint8)
            )
    else:
        loader = PrivateLoader(source, sampling=policy.sampling, seed=policy.seed_or_none)
    walk = _Walk(loader, streams, seeded=policy.seed_or_none is not None)

    def plain(count: int) -> float:
        return count * loader.draw.keep / loader.batch_size

    total, used = 0.0, []
    batches = walk.batches(policy.local_steps)
    for loss in descend(model, optimizer, batches, plain if engine is None else None):
        total += loss
        if policy.truth:
            # The records themselves: what a channel hands out is not what an attacker wants.
            places = loader.draw.records
            used.append((records.features[places], records.labels[places]))
    if engine is not None:
        trained_with(engine, model, passes=None if policy.seed < 0 else walk.begun)
        walk.streams.noise = bytes(engine.generator.get_state().numpy().tobytes())
    return LocalResult(policy.local_steps, total / policy.local_steps, walk.streams, used)


class _Plain(Dataset[Any]):
    """Records one by one."""

    def __init__(self, records: Records) -> None:
        self._records = records

    def __len__(self) -> int:
        return len(self._records)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, float]:
        return self._records[index]


class _Walk:
    """Batches across epochs, from where the streams say."""

    def __init__(self, loader: PrivateLoader, streams: Streams, *, seeded: bool) -> None:
        self.loader, self.begun = loader, 0
        self.streams = Streams(streams.epoch, streams.taken, streams.noise) if seeded else Streams()

    def batches(self, steps: int) -> Iterator[Any]:
        """So many batches."""
        done = 0
        while done < steps:
            if self.streams.epoch is not None:
                _set_state(self.loader, self.streams.epoch)
            # A pass that an earlier round began is counted there: a record is in it once.
            self.begun += self.streams.taken == 0
            self.streams.epoch = _state(self.loader)
            for position, batch in enumerate(self.loader):
                if position < self.streams.taken:
                    self.loader.handed_out = 0
                    continue
                self.streams.taken = position + 1
                done += 1
                yield batch
                if done == steps:
                    return  # without asking for another batch: a channel would count it
            self.streams.epoch, self.streams.taken = _state(self.loader), 0


def _state(loader: PrivateLoader) -> dict[str, Any]:
    state = loader.generator.bit_generator.state
    plain: dict[str, Any] = json.loads(json.dumps(state, default=lambda array: array.tolist()))
    return plain


def _set_state(loader: PrivateLoader, state: dict[str, Any]) -> None:
    inner = {key: np.array(value, dtype=np.uint64) for key, value in state["state"].items()}
    buffer = np.array(state["buffer"], dtype=np.uint64)
    loader.generator.bit_generator.state = {**state, "state": inner, "buffer": buffer}
