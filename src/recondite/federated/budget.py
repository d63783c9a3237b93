"""What a client is willing to spend over all rounds, in any of the notions."""

from __future__ import annotations

from dataclasses import dataclass

from recondite import _validate

__all__ = ["Budget"]


@dataclass(frozen=True)
class Budget:
    """Limits on all that one client releases, over rounds, runs and restarts.

    A round that would exceed any of them is not released: the client stays out of it.

    Attributes:
      epsilon: The largest ε, at ``delta``.
      delta: δ for ``epsilon``; chosen by the client, below one over what it protects.
      information: The largest mutual information, in nats.
      capacity: The largest log Bayes' capacity, in nats.
      rounds: The most releases.
    """

    epsilon: float | None = None
    delta: float = 1e-5
    information: float | None = None
    capacity: float | None = None
    rounds: int | None = None

    def __post_init__(self) -> None:
        _validate.probability("delta", self.delta)
        for name in ("epsilon", "information", "capacity"):
            if getattr(self, name) is not None:
                _validate.positive(name, getattr(self, name))
        if self.rounds is not None:
            _validate.at_least("rounds", self.rounds, 1)
