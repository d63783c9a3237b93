"""What training with a channel costs: the account of its noisy records."""

from __future__ import annotations

from typing import Any

import torch

from recondite.channels.base import Channel
from recondite.configuration import TrainingConfig
from recondite.notions import Account, account_for
from recondite.notions.noisy_records import NoisyRecords
from recondite.records import ImageSet
from recondite.training.engine import SIMULATION

__all__ = ["channel_account"]


def channel_account(
    config: TrainingConfig, channel: Channel, loader: Any, records: ImageSet, delta: float
) -> Account:
    """The account of a run with a channel.

    Guarantee: every number is an upper bound, as :class:`NoisyRecords` says for pixels in [0, 1].
    ε is usually huge: it is about the worst two images. Where the ledger counts uses of another
    channel, whose noise it does not know, only information is finite.

    Args:
      config: The configuration of the run.
      channel: The channel as fitted.
      loader: The protected loader after training.
      records: The training records, for the scale of their pixels.
      delta: δ.
    """
    told = loader.information()
    scale = torch.tensor(records.std or (1.0,) * records.shape[0])
    sides = (1.0 / scale)[:, None, None].expand(records.shape).flatten().double().numpy()
    information = {key: value for key, value in told.items() if key != "limits"}
    if loader.ledger.simulation:
        information.update(guarantee=False, note=SIMULATION)
    release = NoisyRecords(
        mechanism=channel,
        sides=sides,
        uses=max(told["uses"], 1),
        nats=told["per_record"],
        delta=delta,
        schedule={
            "sampling": "shuffled",
            "epochs": config.passes(len(records)),
            "uses": told["uses"],
        },
        name=config.defence.name,
        given={
            "capacity": config.defence.capacity,
            "noise": config.defence.noise,
            "dim": channel.dim,
        },
        further={"information": information},
        also=(SIMULATION,) if loader.ledger.simulation else (),
        foreign=loader.ledger.foreign,
    )
    return account_for(release)
