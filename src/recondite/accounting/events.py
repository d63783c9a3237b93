"""Von Mises-Fisher events for Google's dp-accounting, composing with its own events.

>>> import dp_accounting as dp
>>> from recondite.accounting import events
>>> step = dp.PoissonSampledDpEvent(128 / 60_000, events.VonMisesFisherDpEvent(75.0, 13_700))
>>> accountant = events.PLDAccountant().compose(step, 1_407)
>>> round(accountant.get_epsilon(1 / 60_000), 2)
0.79
>>> mixed = accountant.compose(dp.GaussianDpEvent(noise_multiplier=10.0))  # one Gaussian query more
>>> round(mixed.get_epsilon(1 / 60_000), 2)
0.85
"""

from __future__ import annotations

from typing import Any

from recondite.accounting.composition import Composition
from recondite.laws import (
    DiscretePair,
    GaussianLoss,
    LossLaw,
    ProductLoss,
    without_replacement,
)
from recondite.mechanisms.blocks import block_sizes, product_law

try:
    import attr
    from dp_accounting import dp_event
    from dp_accounting.pld import pld_pmf, pld_privacy_accountant, privacy_loss_distribution
    from dp_accounting.privacy_accountant import NeighboringRelation, PrivacyAccountant
    from dp_accounting.rdp import rdp_privacy_accountant
except ImportError as error:  # pragma: no cover - depends on the installation
    raise ImportError(
        "recondite.accounting.events needs dp-accounting: pip install 'recondite[dp-accounting]'"
    ) from error

__all__ = ["PLDAccountant", "RdpAccountant", "VonMisesFisherDpEvent"]

# dp-accounting has no types, so that its classes are Any: hence the ignored bases below.
_Error = PrivacyAccountant.CompositionErrorDetails
# dp-accounting keeps tails to about this mass when it composes.
_TAIL = 1e-25


@attr.s(frozen=True, slots=True, auto_attribs=True)
class VonMisesFisherDpEvent(dp_event.DpEvent):  # type: ignore[misc]
    """One release of directions drawn from VMF(averaged gradient, κ).

    Attributes:
      kappa: Concentration κ > 0.
      dim: Number of coordinates.
      blocks: Number of nearly equal blocks noised on their own.
    """

    kappa: float
    dim: int
    blocks: int = 1

    def law(self) -> LossLaw:
        """The dominating pair, under either neighbouring relation."""
        sizes = block_sizes(self.dim, self.blocks)
        return product_law(sizes, (float(self.kappa),) * len(sizes))


def _ours(event: Any) -> bool:
    """Whether one of our events is part of this one."""
    if isinstance(event, VonMisesFisherDpEvent):
        return True
    if isinstance(event, dp_event.ComposedDpEvent):
        return any(_ours(part) for part in event.events)
    return hasattr(event, "event") and _ours(event.event)


def _leaves(event: Any, count: int, relation: Any) -> list[tuple[LossLaw, int]] | None:
    """The laws of an unsampled event that is built from VMF and Gaussian ones, else None."""
    if isinstance(event, VonMisesFisherDpEvent):
        return [(event.law(), count)]
    if isinstance(event, dp_event.SelfComposedDpEvent):
        return _leaves(event.event, count * event.count, relation)
    if isinstance(event, dp_event.ComposedDpEvent):
        parts = [_leaves(part, count, relation) for part in event.events]
        return None if None in parts else [law for part in parts for law in part or []]
    # dp-accounting's accountants disagree about a Gaussian under replace-one; stay out of it.
    if (
        isinstance(event, dp_event.GaussianDpEvent)
        and event.noise_multiplier > 0
        and relation is NeighboringRelation.ADD_OR_REMOVE_ONE
    ):
        return [(GaussianLoss(1.0 / event.noise_multiplier), count)]
    return None


def _law(event: Any, relation: Any) -> LossLaw | str | None:
    """The law of an event of ours, an error message, or None to leave it to dp-accounting."""
    if isinstance(event, VonMisesFisherDpEvent):
        return event.law()
    poisson = isinstance(event, dp_event.PoissonSampledDpEvent)
    fixed = isinstance(event, dp_event.SampledWithoutReplacementDpEvent)
    if not (poisson or fixed) or not _ours(event):
        return None
    wanted = "ADD_OR_REMOVE_ONE" if poisson else "REPLACE_ONE"
    if relation.name != wanted:
        return f"neighboring_relation must be `{wanted}` for this sampling of a VMF event."
    parts = _leaves(event.event, 1, relation)
    if parts is None:
        return "A sampled event may be built from VMF and (add/remove) Gaussian events only."
    joined = Composition.of(parts).parts
    law = joined[0][0] if joined[0][1] == 1 and len(joined) == 1 else ProductLoss(joined)
    if poisson:
        rate = event.sampling_probability
        return law.mixture((1.0 - rate, rate))
    return without_replacement(law, event.sample_size / event.source_dataset_size)


class _ServesOurEvents:
    """Takes our events, and leaves every other one to the accountant it is mixed into."""

    def _maybe_compose(self: Any, event: Any, count: int, do_compose: bool) -> Any:
        law = _law(event, self._neighboring_relation)
        if law is None:
            accountant: Any = super()
            return accountant._maybe_compose(event, count, do_compose)
        if isinstance(law, str):
            return _Error(invalid_event=event, error_message=law)
        if do_compose:
            self._add(law, count)
        return None


class RdpAccountant(_ServesOurEvents, rdp_privacy_accountant.RdpAccountant):  # type: ignore[misc]
    """dp-accounting's Rényi accountant, with VMF events at its orders (exact divergences)."""

    def _add(self, law: LossLaw, count: int) -> None:
        self._rdp += count * law.renyi(self._orders)


class PLDAccountant(_ServesOurEvents, pld_privacy_accountant.PLDAccountant):  # type: ignore[misc]
    """dp-accounting's PLD accountant, with VMF events on its grid (connect-the-dots)."""

    def _add(self, law: LossLaw, count: int) -> None:
        pair = law.discretise(self._value_discretization_interval, tail=_TAIL)
        both = privacy_loss_distribution.PrivacyLossDistribution(_pmf(pair), _pmf(pair.reverse()))
        self._pld: Any = self._pld.compose(both.self_compose(count))


def _pmf(pair: DiscretePair) -> Any:
    return pld_pmf.DensePLDPmf(
        pair.interval, pair.start, pair.p.copy(), pair.p_infinite, pessimistic_estimate=True
    )
