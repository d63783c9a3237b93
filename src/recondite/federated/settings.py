"""A federation as its server, or whoever runs both sides of a simulation, describes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from recondite import _validate
from recondite.federated.policy import ASKED, Policy, typed_values
from recondite.federated.shared_noise import SharedNoise, in_shares

__all__ = ["SERVER", "Settings"]

# Where a run's configuration holds what is the server's: clients see it there and do not read it.
SERVER = "server."


@dataclass(frozen=True)
class Settings(Policy):
    """The server's side, and what it takes its clients to do.

    On a real federation the fields of :class:`Policy` are only what the server expects, for its
    labels, its evaluation and its auditor: clients go by what is pinned on them. In a simulation
    :meth:`policy` is pinned in the clients' app.

    Attributes:
      rounds: Rounds of training.
      fraction: Share of the clients asked in a round.
      out: Folder of the server's results.
      audit_every: Rounds between audits; 0 for no auditor.
      audit_clients: Clients attacked in an audited round.
      audit_seconds: Time limit of one attack.
      attack: The auditor's attack; "" for the one that fits.
      attack_steps: Its iterations, where it has them.
      wait: Seconds a round waits for its clients to connect, and then for their replies.
      max_weight: The most that a reply counts in the average, whatever number of examples the
        client says it has; 1 weighs all alike.
      resume: 1 goes on from the checkpoint in ``out`` that a killed server left there.
      server_ledger: Folder where the server counts what it released, where it adds the noise.
      max_update: The largest norm of an update that is averaged; 0 for one that follows from the
        defence.
    """

    defence: str = "none"
    rounds: int = 3
    fraction: float = 1.0
    out: str = ""
    audit_every: int = 0
    audit_clients: int = 1
    audit_seconds: float = 20.0
    attack: str = ""
    attack_steps: int = 500
    wait: float = 600.0
    max_weight: float = 1.0
    max_update: float = 0.0
    resume: int = 0
    server_ledger: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("rounds", "audit_clients"):
            _validate.at_least(name, getattr(self, name), 1)
        for name in ("wait", "audit_seconds", "max_weight"):
            _validate.positive(name, getattr(self, name))
        _validate.non_negative("max_update", self.max_update)
        _validate.probability("fraction", self.fraction, closed_at_one=True)
        if self.secure and self.fraction < 1.0:
            raise ValueError("fraction must be 1 with secure: every sum is of all that are there")
        if self.secure and self.clients < self.honest:
            raise ValueError(f"clients must be at least honest = {self.honest}, got {self.clients}")

    @classmethod
    def of(cls, *configurations: Mapping[str, Any]) -> Settings:
        """Settings from configurations; a later one wins. Names may have dashes."""
        return cls(**typed_values(cls, *configurations))

    @classmethod
    def of_server(cls, run: Mapping[str, Any]) -> Settings:
        """The server's settings in a run's configuration: the keys that begin with ``server.``."""
        return cls.of({k.removeprefix(SERVER): v for k, v in run.items() if k.startswith(SERVER)})

    def policy(self) -> Policy:
        """The clients' part, for who owns both sides."""
        return Policy(**{field.name: getattr(self, field.name) for field in fields(Policy)})

    @property
    def share(self) -> SharedNoise | None:
        """The grid on which updates come to a secure sum; None where weights do."""
        mechanism = self.mechanism()
        if not self.secure or mechanism is None or not (self.shares_noise or self.trusts_server):
            return None
        if self.trusts_server:
            return SharedNoise(0.0, self.max_norm, self.honest)
        return in_shares(mechanism, self.max_norm, self.honest)[0]

    def asked(self) -> dict[str, float | int]:
        """All that this server configures its clients with."""
        return {name.replace("_", "-"): getattr(self, name) for name in ASKED}
