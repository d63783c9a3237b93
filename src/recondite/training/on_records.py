"""Noise on records before they are trained on (Tan et al., 2024): a run through a channel."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from typing import Any

import torch
from torch.utils.data import DataLoader

from recondite.channels.base import Channel
from recondite.channels.ledger import RecordLedger
from recondite.configuration import TrainingConfig
from recondite.defences import RecordNoise
from recondite.notions import Account, account_for
from recondite.notions.noisy_records import NoisyRecords
from recondite.records import Records
from recondite.training.checkpoint import Stateful
from recondite.training.engine import SIMULATION
from recondite.training.protection import Request, Run
from recondite.training.record import DefencePart
from recondite.training.setup import load_prepared

__all__ = ["OnRecords", "fit_channel"]

_RAW = (
    "results are computed from the raw records, outside the channel's account: they are not private"
)
_OWN_FIT = "the channel was fitted on the training records: its capacity does not cover the fit"


def fit_channel(
    config: TrainingConfig, records: Records, data_dir: str | os.PathLike[str] | None = None
) -> Channel:
    """The configuration's channel, for records of this scale.

    Args:
      config: With noise on records.
      records: The training records, scaled.
      data_dir: Where data sets are, for ``fit_on``.
    """
    noise = _noise(config)
    if not records.amounts:
        raise ValueError(
            f"{config.defence.name} adds noise to records, and {records.kind} are no amounts: "
            "choose a defence on gradients"
        )
    source = records
    if noise.fit_on is not None:
        source = load_prepared(config, noise.fit_on, "train", data_dir)
        if source.shape != records.shape:
            raise ValueError(
                f"channel_data has records of shape {source.shape}, the data {records.shape}: "
                "prepare them alike"
            )
        if records.mean is not None and records.std is not None:
            source = source.normalised(records.mean, records.std)
    return noise.fit(source.features.flatten(1).cpu().numpy(), records.shape)


def _noise(config: TrainingConfig) -> RecordNoise:
    if not isinstance(config.defence, RecordNoise):
        raise ValueError(f"defence {config.defence.name} must be a RecordNoise to act on records")
    return config.defence


class OnRecords:
    """Ordinary training on records that a fitted channel made noisy.

    Guarantee: ``privacy()["mutual_information"]["run"]`` bounds, in nats, what the trained model
    tells of the features of a record, as :class:`Channel` states it. Every use is counted, those of
    an interrupted run too; nothing that is written holds the noise's secret.
    """

    loader: Any

    def __init__(self, run: Run) -> None:
        self._run, self._noise = run, _noise(run.config)
        self._steps, self._nats = 0, 0.0
        self.channel = fit_channel(run.config, run.records, run.asked.data_dir)
        journal = None if run.folder is None else run.folder / "channel.jsonl"
        if run.folder is not None:
            self.channel = _begun_with(self.channel, len(run.records), journal, run.folder.name)
        self.loader = self._protected(journal)
        if run.config.seed is not None:
            self.loader.ledger.simulate()
        self.state: Mapping[str, Stateful] = {"channel": self.loader}

    @staticmethod
    def check(config: TrainingConfig, asked: Request) -> None:
        """Refuses what belongs to noise on gradients."""
        del config
        if asked.audit or asked.target_epsilon is not None or asked.max_epsilon is not None:
            raise ValueError(
                "target_epsilon, max_epsilon and audit are for noise on gradients: bound a channel "
                "by its capacity and max_information"
            )

    def __enter__(self) -> OnRecords:
        return self

    def __exit__(self, *error: object) -> None:
        """Nothing to do: every use is in the ledger before it happens."""

    def _protected(self, journal: Any) -> Any:
        config, asked, records = self._run.config, self._run.asked, self._run.records
        order = torch.Generator()
        if config.seed is None:
            order.seed()
        else:
            order.manual_seed(config.seed)
        size = min(config.batch_size, len(records))
        plain: DataLoader[Any] = DataLoader(records, batch_size=size, shuffle=True, generator=order)
        options: dict[str, Any] = {"total_information": asked.max_information, "ledger": journal}
        if self._noise.noise == "per_step":
            if asked.secret is not None:
                raise ValueError("secret is for noise drawn once: per_step noise is always fresh")
            options["seed"] = config.seed
        elif asked.secret is None and config.seed is not None:
            options["secret"] = hashlib.blake2b(f"{config.seed}".encode(), digest_size=32).digest()
        else:
            options["secret"] = asked.secret
        return self.channel.protect(plain, noise=self._noise.noise, **options)

    def resumed(self, epochs: int) -> None:
        """Steps of whole epochs are behind the run."""
        self._steps = epochs * len(self.loader)

    def stepped(self) -> bool:
        """Counts a step: batches come whole."""
        self._steps += 1
        return True

    @property
    def steps(self) -> int:
        """Steps so far."""
        return self._steps

    def spent(self) -> dict[str, float | None]:
        """Nats told of a record so far, asked at the first step of an epoch."""
        if self._steps % len(self.loader) in (0, 1) or not self._nats:
            self._nats = self.loader.ledger.nats
        return {"epsilon": None, "information": self._nats}

    def finish(self) -> None:
        """Nothing to do."""

    def defence(self) -> DefencePart:
        """The channel as it was fitted."""
        low, high = self.channel.noise_std_range
        return {
            "name": self._noise.name,
            "parameters": self._noise.described(),
            "clipping": "none",
            "max_grad_norm": None,
            "sampling": "shuffled",
            "max_batch_size": None,
            "secure": True,
            "fitted_on": self._noise.fit_on or "the training records",
            "noise_std": {"min": low, "max": high},
        }

    def privacy(self) -> Account | None:
        """The account of the noisy records."""
        return self._account()

    def _account(self) -> Account:
        """Every number is an upper bound, as :class:`NoisyRecords` says for features in a box.

        ε is usually huge: it is about the worst two records, and infinite where their numbers have
        no known range. Where the ledger counts uses of another channel, whose noise it does not
        know, only information is finite.
        """
        run, ledger = self._run, self.loader.ledger
        information = {k: v for k, v in self.loader.information().items() if k != "limits"}
        if ledger.simulation:
            information.update(guarantee=False, note=SIMULATION)
        epochs = run.config.passes(len(run.records))
        release = NoisyRecords(
            mechanism=self.channel,
            sides=run.records.sides().flatten().numpy(),
            uses=max(ledger.uses, 1),
            nats=ledger.nats,
            delta=run.delta,
            schedule={"sampling": "shuffled", "epochs": epochs, "uses": ledger.uses},
            name=self._noise.name,
            given={
                "capacity": self._noise.capacity,
                "noise": self._noise.noise,
                "dim": self.channel.dim,
            },
            further={"information": information},
            also=(SIMULATION,) if ledger.simulation else (),
            foreign=ledger.foreign,
        )
        return account_for(release)

    @property
    def simulation(self) -> bool:
        """Whether any use that the ledger counts had a seed."""
        return bool(self.loader.ledger.simulation)

    def notes(self, shared: list[str]) -> list[str]:
        """What the account does not cover, and why a run ended."""
        fitted = [] if self._noise.fit_on is not None else [_OWN_FIT]
        notes = [_RAW, *fitted, *shared]
        if self.loader.ledger.simulation:
            notes.insert(0, SIMULATION)
        if self.loader.budget_spent:
            notes.append(self.loader.ledger.message)
        return notes

    def audit(self) -> None:
        """None: canaries are for noise on gradients."""
        return None


def _begun_with(channel: Channel, records: int, journal: Any, name: str) -> Channel:
    """The channel that a run goes on with: as its ledger knows it.

    An older version may have begun with noise along all directions. What another channel told of a
    record has no ε that is known here.
    """
    if not RecordLedger(channel, records, path=journal).foreign:
        return channel
    full = channel.following(None)
    if RecordLedger(full, records, path=journal).foreign:
        raise ValueError(
            f"out {name} holds uses of another channel, or of one fitted to other records: "
            "choose another folder, or train with the channel it was begun with"
        )
    return full
