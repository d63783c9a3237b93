"""Error floors of a victim, in pixels: what no attacker of one update can go below."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Literal

import numpy as np
from torch import Tensor

from recondite.accounting.composition import Composition
from recondite.attacks.outcome import Floor
from recondite.laws import LossLaw
from recondite.leakage.floors import Packing, packing_floor, packings, van_trees
from recondite.leakage.rero import rero
from recondite.mechanisms import Mechanism, Neighbouring
from recondite.notions import format_bound

if TYPE_CHECKING:
    from recondite.attacks.identification.replay import Played
    from recondite.attacks.posterior.prior import PublicPrior
    from recondite.attacks.victim import Victim
    from recondite.records import ImageSet

__all__ = ["best_packing", "channel_floor", "packing_floors", "run_floors", "van_trees_floor"]


def packing_floors(
    victim: Victim, mechanism: Mechanism, public: ImageSet, releases: int
) -> tuple[Floor, ...]:
    """The floor from reconstruction robustness of so many releases of a record alone.

    Nothing without noise on gradients. Where the attacker is told the label the packing is of one
    class: labels must not tell its records apart.
    """
    if not victim.defence.mechanism.private or victim.defence.noisy_records:
        return ()
    if not victim.defence.mechanism.parameter:
        return ()
    relation, law = _law(mechanism)
    whole = Composition.of([(law, releases)])
    floor = best_packing(
        _alike(public, told=victim.asked.labels), lambda _, prior: _rero(whole, prior)
    )
    if floor is None:
        return ()
    many = f"{releases} releases" if releases > 1 else "one release"
    return (_packing(*floor, f"{many} of their record, {relation.value}"),)


def run_floors(victim: Victim, played: Played, public: ImageSet) -> tuple[Floor, ...]:
    """The floor from the bound on picking a record of a run out of n, for the threat asked for.

    Nothing without noise on gradients. With participation known the bound, and so the floor, is an
    average over how often the attacked records took part.
    """
    if not victim.defence.mechanism.private or not victim.defence.mechanism.parameter:
        return ()
    side: Literal["secret", "known"] = "known" if played.tells else victim.asked.participation
    ceiling = played.ceiling(side)
    floor = best_packing(
        _alike(public, told=victim.asked.labels), lambda one, _: ceiling.at(len(one.records))
    )
    if floor is None:
        return ()
    seen = f"the whole training, participation {side}, {ceiling.relation}"
    return (_packing(*floor, seen),)


def _law(mechanism: Mechanism) -> tuple[Neighbouring, LossLaw]:
    try:
        return Neighbouring.ADD_OR_REMOVE, mechanism.loss(Neighbouring.ADD_OR_REMOVE)
    except ValueError:  # noise on each record: compared with the run of a fixed other record
        return Neighbouring.REPLACE, mechanism.loss(Neighbouring.REPLACE)


@lru_cache(maxsize=256)
def _rero(composition: Composition, prior: float) -> float:
    return rero(composition, prior)


def best_packing(
    records: ImageSet, success: Callable[[Packing, float], float]
) -> tuple[float, int] | None:
    """The largest floor over packings of these records, in pixels, and how many they are.

    Each packing's floor holds for its own prior, so the largest is a floor for that one.

    Args:
      records: Public ones.
      success: Upper bound on naming a record of a packing where a guess unaided has this success.
    """
    points = records.pixels().flatten(1).double().cpu().numpy()
    if len(points) < 2:
        return None
    found = [
        (packing_floor(one, partial(success, one), points.shape[1]), len(one.records))
        for one in packings(points)
    ]
    return max(found, default=None)


def _packing(mse: float, count: int, seen: str) -> Floor:
    return Floor(
        key="rero_packing",
        mse=mse,
        proven=True,
        worst_case=False,
        prior=f"uniform on {count} public records that lie apart",
        sentence=(
            f"If the record is one of {count} public ones that lie apart, no attacker who sees "
            f"{seen} has a mean squared error below {format_bound(mse, 3, 'lower')}."
        ),
    )


def _alike(public: ImageSet, *, told: bool) -> ImageSet:
    """All public records; those of the largest class where the label is told."""
    if not told:
        return public
    (label, _), *_ = Counter(public.labels.tolist()).most_common(1)
    return public.subset(public.labels == label)


def van_trees_floor(
    prior: PublicPrior, information: Tensor, classes: Sequence[int] | None, unit: float
) -> Floor:
    """The Bayesian Cramér–Rao floor under the Gaussian prior of the victims' classes.

    A rough estimate, which attacks may undercut. The information is that at the points reached for
    the attacked records, not averaged over the prior; whether gradients are regular is not checked;
    real records are not normal, and of all laws with one covariance the normal one has the highest
    floor; and a few attacked records may be easier than the average one. What the prior's basis
    leaves out counts as fully revealed, since a release tells of it too.

    Args:
      prior: Fitted on public records.
      information: Of the releases, in the prior's coordinates.
      classes: The victims' classes where they are told; None where not.
      unit: What a squared unit of the features is in pixels.
    """
    power = prior.basis.square().sum(1).cpu().numpy()
    kinds = Counter(classes) if classes is not None else Counter([None])
    total = sum(
        count
        * van_trees(
            information.cpu().numpy(),
            np.linalg.inv(prior.covariance(label).cpu().numpy()),
            power,
        )
        for label, count in kinds.items()
    )
    whole = total / sum(kinds.values()) / prior.mean.numel() * unit
    return Floor(
        key="van_trees",
        mse=float(whole),
        proven=False,
        worst_case=False,
        prior="Gaussian, fitted on public records" + (" of each class" if classes else ""),
        sentence=(
            f"If records were normal, as spread out as public ones, about {whole:.2g} would be the "
            "least mean squared error: a rough estimate and no bound, since real records are not "
            "normal, the attacked ones are few, and gradients were not checked to be smooth."
        ),
    )


def channel_floor(victim: Victim, public: ImageSet, looks: int) -> tuple[Floor, ...]:
    """The floor of a channel with Gaussian noise on records, from how far a packing's lie apart.

    Exact for the packing: naming one of M records from a normal copy has at most the success
    Φ(Φ⁻¹(1/M) + μ), μ the largest distance of one of them to their middle in units of the noise.
    """
    from recondite.notions.pairs import local_rero

    channel = victim.defence.channel
    if channel is None:
        return ()
    inverse = np.linalg.inv(np.linalg.cholesky(channel.noise.covariance()))
    some = _alike(public, told=True)  # labels go through a channel as they are
    rows = some.images.flatten(1).double().cpu().numpy() @ inverse.T

    def success(packing: Packing, prior: float) -> float:
        mine = rows[list(packing.records)]
        mu = float(np.sqrt(looks * np.square(mine - mine.mean(0)).sum(1).max()))
        return local_rero(mu, prior)

    floor = best_packing(some, success)
    many = f"{looks} noisy copies" if looks > 1 else "one noisy copy"
    return () if floor is None else (_packing(*floor, f"{many} of it"),)
