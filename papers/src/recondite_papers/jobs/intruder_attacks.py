"""The intruder's attackers on one release and on several pooled: weights, Gauss-Newton, games.

The attacker knows the defence, the network's weights, the victim's class and every other record of
the batch (whose sum it subtracts), and holds public records. It sees k releases of the same record
at the same weights, each with fresh noise: k = 1, and as many as a training makes, or fewer where
the row says so.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor, nn

from recondite.accounting.composition import Composition
from recondite.attacks.posterior.channel import BehindNoise
from recondite.attacks.posterior.gauss_newton import GaussNewton
from recondite.attacks.posterior.gradients import BoundedGradient
from recondite.attacks.posterior.prior import PublicPrior
from recondite.attacks.posterior.releases import ReleaseSite
from recondite.channels.noise import Noise
from recondite.gradients.leaked import Releases
from recondite.leakage.rero import rero
from recondite.mechanisms import Mechanism, Neighbouring, Observed, UndefinedNotionError
from recondite.notions.pairs import local_rero
from recondite_papers.jobs.intruder_scene import Scene, strongest
from recondite_papers.jobs.sink import Row

__all__ = ["Guarded", "bound", "on_copies", "on_gradients"]


@dataclass(frozen=True)
class Guarded:
    """A defence on gradients, as a row of a paper's table names it.

    Attributes:
      label: Of the row: ``defence``, ``value`` and what else tells it apart.
      mechanism: The noise.
      clipping: "flat", or "none" where the paper does not clip.
      batch: Records behind a release, all but the victim's known to the attacker.
      releases: How many releases are pooled, each number a row of its own.
    """

    label: Row
    mechanism: Mechanism
    clipping: str = "flat"
    batch: int = 1
    releases: tuple[int, ...] = (1,)
    note: str = field(default="", compare=False)


def on_gradients(
    model: nn.Module, scene: Scene, guarded: Sequence[Guarded], *, steps: int, rank: int, seed: int
) -> list[Row]:
    """Attacks every defence; public records' gradients are computed once for all of them.

    Args:
      model: The network, at the weights the attacker knows.
      scene: Who is attacked.
      guarded: The defences; all of them must bound gradients in the same way.
      steps: Linearisations of Gauss-Newton; 0 leaves it out.
      rank: Of its prior.
      seed: Of the noise.
    """
    (clipping,) = {one.clipping for one in guarded}
    gradient = BoundedGradient(model, clipping, 1.0)
    cases = [(one, count) for one in guarded for count in one.releases]
    sites = [
        _site(model, gradient, scene, one, count, seed + place)
        for place, (one, count) in enumerate(cases)
    ]
    count = len(scene.public)
    images = torch.cat([scene.public.images, scene.victims.images])
    labels = torch.cat([scene.public.labels, scene.victims.labels])
    own = torch.eye(len(scene.victims), dtype=torch.bool, device=labels.device)
    wanted = torch.cat([scene.alike, own], 1)
    tables = [torch.zeros(wanted.shape, dtype=torch.float64, device=labels.device) for _ in sites]
    for place, rows in gradient.rows(images, labels):
        for table, site in zip(tables, sites, strict=True):
            table[:, place] = site.table(rows, wanted[:, place])
    out = []
    climber = GaussNewton(steps=max(1, steps), rank=rank)
    for (one, releases), site, table in zip(cases, sites, tables, strict=True):
        likely = table.masked_fill(~wanted, -torch.inf)
        weights = torch.softmax(likely[:, :count], 1)
        found = {"importance-weights": scene.scores(_mean(weights, scene))}
        if steps and _smooth(site.law.mechanism):
            found["gauss-newton"] = scene.scores(_climbed(climber, site, weights, scene))
        picked = scene.picked(likely)
        for candidates, game in picked.items():
            game["bound"] = bound(site.law.mechanism, one.clipping, releases, int(candidates))
        out.append(_row(scene, one.label, releases, found, picked, one.batch, one.note))
    return out


def _mean(weights: Tensor, scene: Scene) -> Tensor:
    """The posterior mean over public records."""
    return torch.einsum("vn,n...->v...", weights, scene.public.images.double())


def _climbed(climber: GaussNewton, site: ReleaseSite, weights: Tensor, scene: Scene) -> Tensor:
    """Gauss-Newton from weights that are there: the library's own would compute them again."""
    found = climber._believed(
        lambda number: ([site], number),
        weights,
        scene.public,
        scene.victims.labels,
        lambda stage, share: None,
        noisy=True,
    )
    return found.images


def _smooth(mechanism: Mechanism) -> bool:
    """Whether a release can be linearised: not of several blocks, and not of signs."""
    try:
        mechanism.fisher_information()
    except UndefinedNotionError:
        return False
    return True


def _row(
    scene: Scene,
    label: Row,
    releases: int,
    found: dict[str, Row],
    picked: Row,
    batch: int,
    note: str,
) -> Row:
    size = {"victims": len(scene.victims), "public": len(scene.public)}
    more = {"note": note} if note else {}
    told = {**label, "batch": batch, "releases": releases}
    return {**told, **strongest(found), "picked": picked, **size, **more}


def _site(
    model: nn.Module, gradient: BoundedGradient, scene: Scene, one: Guarded, count: int, seed: int
) -> ReleaseSite:
    """So many releases of each victim's batch, with the sum of the others known."""
    made = Releases(model, one.mechanism, batch_size=one.batch, clipping=one.clipping, seed=seed)
    own = made.rows(scene.victims.images, scene.victims.labels)
    others = own[:0]
    if one.batch > 1:
        if made.mechanism.stage == "record":
            raise ValueError("batch must be 1 where each record is noised by itself")
        part = slice(0, one.batch - 1)
        others = made.rows(scene.others.images[part], scene.others.labels[part])
    places = range(one.batch)
    seen = torch.stack(
        [
            torch.stack(
                [made.turn(torch.cat([row[None], others]), places).release for _ in range(count)]
            )
            for row in own
        ]
    )
    rest = others.sum(0).expand(len(own), -1) if one.batch > 1 else None
    return ReleaseSite(gradient, Observed(made.mechanism, made.units), seen, rest)


def bound(mechanism: Mechanism, clipping: str, releases: int, candidates: int) -> float | None:
    """What no attacker's share of right picks exceeds: ReRo of so many unsampled releases at 1/n.

    None where there is no bound: unclipped gradients differ by any amount. Add-or-remove-one where
    the mechanism has it, replace-one where not.

    Args:
      mechanism: Configured for the network.
      clipping: "flat", or "none".
      releases: How many are pooled.
      candidates: n, drawn alike.
    """
    if clipping == "none" and mechanism.bounded:
        return None
    try:
        law = mechanism.loss(Neighbouring.ADD_OR_REMOVE)
    except ValueError:
        law = mechanism.loss(Neighbouring.REPLACE)
    return rero(Composition.of([(law, releases)]), 1.0 / candidates)


def on_copies(
    scene: Scene,
    prior: PublicPrior,
    noise: Noise,
    label: Row,
    releases: Sequence[int],
    sides: float,
    seed: int,
) -> list[Row]:
    """Attacks noisy copies of records, which is all that an update of them can show.

    The posterior is exact for the mixture of normals that the prior is. The bound holds for any
    two records of the box of pixels.

    Args:
      scene: Who is attacked.
      prior: Fitted on the public records; many channels share it.
      noise: Of the channel.
      label: Of the row.
      releases: How many copies are pooled.
      sides: Range of a feature.
      seed: Of the noise.
    """
    rows = scene.victims.images.flatten(1).double().cpu().numpy()
    images = torch.cat([scene.public.images, scene.victims.images])
    white = noise.whitened(images.flatten(1).double().cpu().numpy())
    covariance = torch.as_tensor(np.asarray(noise.covariance()))
    generator = np.random.default_rng(seed)
    own = torch.eye(len(rows), dtype=torch.bool)
    wanted = torch.cat([scene.alike.cpu(), own], 1)
    out = []
    for count in releases:
        # The mean of k copies is sufficient: noise of a k-th of the variance.
        normal = generator.standard_normal(rows.shape) / math.sqrt(count)
        copies = rows + noise.shape(normal)
        seen = noise.whitened(copies)
        squared = np.square(seen).sum(1)[:, None] - 2.0 * seen @ white.T + np.square(white).sum(1)
        likely = torch.as_tensor(-0.5 * count * squared).masked_fill(~wanted, -torch.inf)
        behind = BehindNoise(prior, covariance, count)
        rebuilt = [
            behind.believed(torch.as_tensor(copy).to(prior.mean), int(told))[1]
            for copy, told in zip(copies, scene.victims.labels, strict=True)
        ]
        weights = torch.softmax(likely[:, : len(scene.public)], 1).to(scene.public.images.device)
        found = {
            "importance-weights": scene.scores(_mean(weights, scene)),
            "channel-posterior": scene.scores(torch.stack(rebuilt)),
        }
        picked = scene.picked(likely)
        low, _ = noise.std_range
        shift = math.sqrt(count * rows.shape[1]) * sides / low
        for candidates, game in picked.items():
            game["bound"] = local_rero(shift, 1.0 / int(candidates))
        out.append(_row(scene, label, count, found, picked, 1, ""))
    return out
