"""Rows of a table from a gradient: relaxed categories, many attempts, pooled cell by cell."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from recondite import _validate
from recondite.attacks.base import Attack, AttackRequest, Available, Threat
from recondite.attacks.gradient.base import torch_generator
from recondite.attacks.gradient.bounded import Bounding
from recondite.attacks.gradient.descent import Best, descend
from recondite.attacks.gradient.labels import infer_labels
from recondite.attacks.gradient.matcher import Matcher
from recondite.attacks.gradient.spans import Spans
from recondite.attacks.gradient.victims import Victims
from recondite.attacks.knowledge import Knowledge
from recondite.attacks.tabular.pooling import Pooled, pool
from recondite.attacks.tabular.relaxation import Relaxation
from recondite.gradients.losses import usual_loss

if TYPE_CHECKING:
    from recondite.attacks.outcome import Outcome
    from recondite.attacks.victim import Victim
    from recondite.mechanisms import Observed
    from recondite.records import Records

__all__ = ["TabularInversion"]

_RULES = {"flat": "clip", "scale": "scale", "automatic": "scale"}  # of clipping, in one factor
_SUREST = 0.25  # of the cells: those whose attempts agree most


@dataclass(frozen=True)
class TabularInversion(Attack):
    """Vero et al., "TabLeak: tabular data leakage in federated learning" (2023), and its spans.

    Every category is a softmax of free numbers, so that the search is over possible rows only.
    From several starts it minimises 1 - cosine(gradient, leak), and the distance of every record
    from the row spaces of the leaked gradients (:mod:`recondite.attacks.gradient.spans`), which
    is this system's own addition. The attempts are matched and pooled; the entropy of a cell over
    them is the attacker's own estimate of which cells are right.

    Under noise on gradients it minimises the negative log-likelihood of the defence's own law, with
    the shares of categories and the spread of numbers among public records as a prior: with much
    noise it ends at the blind guess. Where the law speaks of each record of a batch it falls back
    on the cosine.

    Attributes:
      steps: Iterations.
      restarts: Attempts a victim, all of which are pooled.
      learning_rate: Size of a signed step.
      span: Weight of the distance from the row spaces; 0 for TabLeak as published.
    """

    name: ClassVar[str] = "tabular-inversion"
    title: ClassVar[str] = "rows of a table from a gradient"
    needs: ClassVar[frozenset[Knowledge]] = frozenset(
        {Knowledge.MODEL, Knowledge.GRADIENTS, Knowledge.DEFENCE, Knowledge.PUBLIC_DATA}
    )
    threats: ClassVar[frozenset[Threat]] = frozenset({"update"})
    reads: ClassVar[tuple[str, ...]] = ("images", "batch_size", "victim", "labels", "threat")
    takes: ClassVar[tuple[str, ...]] = ("rows of a table",)
    amounts: ClassVar[bool] = True
    paper: ClassVar[str] = "Vero et al., TabLeak (2023)"

    steps: int = 1000
    restarts: int = 8
    learning_rate: float = 0.06
    span: float = 0.1

    def __post_init__(self) -> None:
        _validate.at_least("steps", self.steps, 1)
        _validate.at_least("restarts", self.restarts, 1)
        _validate.positive("learning_rate", self.learning_rate)
        _validate.non_negative("span", self.span)

    def trains(self, asked: AttackRequest) -> bool:
        """Only where the gradients of the trained model are asked for."""
        return asked.victim == "trained"

    def misfits(self, asked: AttackRequest, there: Available) -> Iterator[tuple[str, str]]:
        """Held-out rows are attacked, and some more must stay public."""
        wanted = asked.images * asked.batch_size
        if wanted + 2 > there.test_records:
            has = f"{there.data} has {there.test_records}"
            yield "images", f"needs {wanted} held-out records and two public ones: {has}"

    def _evaluate(self, victim: Victim) -> Outcome:
        """Attacks what one step on held-out records releases."""
        from recondite.attacks import scoring
        from recondite.attacks.outcome import Outcome, Rebuilt

        asked, test = victim.asked, victim.records.test
        picked = scoring.picked(test, asked.images * asked.batch_size, victim.seed)
        public = scoring.public_records(victim, picked)
        if public is None:
            raise ValueError(f"{self.name} needs public records: leave some that are not attacked")
        chosen = test.subset(picked)
        true = chosen.features.reshape(asked.images, asked.batch_size, *test.shape)
        labels = chosen.labels.reshape(asked.images, asked.batch_size)
        model = victim.target()
        victims = Victims.of(
            model,
            usual_loss,
            victim.leak(model, true, labels),
            shape=test.shape,
            batch_size=asked.batch_size,
            labels=labels if asked.labels or not test.classes else None,
            bounds=None,
            classes=test.outputs,
            weights=None,
            seed=victim.seed,
        )
        defence = victim.defence
        found = self.invert(
            victims,
            Relaxation.of(public),
            law=victim.observed(model, asked.batch_size),
            bounding=Bounding(_RULES.get(defence.clipping, "none"), defence.max_grad_norm),
            progress=victim.told(self.name),
        )
        rebuilt = found.features.reshape(true.shape).to(true)
        scores, gallery, blind = scoring.beside(chosen, rebuilt, true, public, told=asked.labels)
        return Outcome(
            rebuilt=Rebuilt(
                scores,
                images_from="held-out records",
                matching_loss=tuple(found.losses.tolist()),
                labels_right=None
                if asked.labels or not test.classes
                else scoring.labels_found(found.labels, labels),
                restarts=self.restarts,
                batch_size=asked.batch_size,
                victim=asked.victim,
                figures=_sureness(test, found, rebuilt, true),
                blind=blind,
            ),
            gallery=gallery,
            notes=found.notes,
            iterations=found.best.steps,
            interrupted=found.best.interrupted,
            seconds=found.best.seconds,
        )

    def invert(
        self,
        victims: Victims,
        relaxation: Relaxation,
        *,
        law: Observed | None = None,
        bounding: Bounding | None = None,
        progress: Callable[[Any], None] | None = None,
        time_limit: float | None = None,
    ) -> Inverted:
        """Attacks gradients of many batches at once.

        Args:
          victims: What leaked.
          relaxation: Of records like theirs.
          law: Of the noise on the gradients; None without any.
          bounding: How the victim bounded each record's gradient.
          progress: Called now and then.
          time_limit: Seconds after which the best so far is returned.
        """
        labels = infer_labels(victims) if victims.labels is None else victims.labels
        matcher = Matcher(victims, self.restarts, bounding)
        each = labels.repeat_interleave(self.restarts, 0)
        shape = (len(each), victims.batch_size, relaxation.width)
        start = torch.randn(
            shape,
            generator=torch_generator(victims.seed, victims.device),
            device=victims.device,
            dtype=victims.dtype,
        )
        spans = Spans(victims)
        likelihood = None if law is None or law.per_record else law

        def matched(rows: Tensor) -> Tensor:
            if likelihood is None:
                return matcher.cosine_distance(rows, each)
            parts = [one.flatten(1) for one in matcher.gradients(rows, each)]
            leaked = [one.flatten(1) for one in matcher.targets()]
            seen: Tensor = likelihood.log_likelihood(torch.cat(leaked, 1), torch.cat(parts, 1))
            return -seen

        def objective(free: Tensor) -> Tensor:
            rows = relaxation.features(free).reshape(*free.shape[:2], *victims.shape)
            value = matched(rows)
            if likelihood is not None:
                value = value + relaxation.surprise(free).sum(1)
            elif self.span and spans.layers:
                value = value + self.span * spans.outside(rows).mean(1)
            return value

        best = descend(
            objective,
            start,
            steps=self.steps,
            learning_rate=self.learning_rate,
            signed=True,
            decay=True,
            project=lambda free: free.clamp(-30.0, 30.0),
            progress=progress,
            time_limit=time_limit,
        )
        return self._pooled(victims, relaxation, best, labels, spans, likelihood is not None)

    def _pooled(
        self,
        victims: Victims,
        relaxation: Relaxation,
        best: Best,
        labels: Tensor,
        spans: Spans,
        noisy: bool,
    ) -> Inverted:
        entries = relaxation.entries(best.points.detach())
        entries = entries.reshape(victims.count, self.restarts, *entries.shape[1:])
        losses = best.values.detach().reshape(victims.count, self.restarts)
        found: list[Pooled] = [
            pool(relaxation, mine, own, value)
            for mine, own, value in zip(entries, labels, losses, strict=True)
        ]
        notes = []
        if victims.labels is None:
            notes.append("labels inferred from the gradient: an estimate for more than one record")
        if noisy:
            notes.append("by the likelihood of the defence's noise, with columns of public records")
        elif self.span and spans.layers:
            count = len(spans.layers)
            which = f"row spaces of {count} layers narrow" if count > 1 else "row spaces narrow"
            notes.append(f"{which} each record down")
        if best.interrupted:
            notes.append(f"ended early after {best.steps} iterations: the best so far")
        return Inverted(
            features=relaxation.placed(torch.stack([one.entries for one in found])),
            entropy=torch.stack([one.entropy for one in found]),
            labels=labels,
            losses=losses.amin(1),
            best=best,
            notes=tuple(notes),
        )


@dataclass(frozen=True, eq=False)
class Inverted:
    """What was rebuilt.

    Attributes:
      features: (victims, batch, features), in the model's scale.
      entropy: (victims, batch, columns): see :class:`~recondite.attacks.tabular.pooling.Pooled`.
      labels: (victims, batch): told, or inferred.
      losses: (victims,), of the best attempt.
      best: How the search ended.
      notes: What a reader should know.
    """

    features: Tensor
    entropy: Tensor
    labels: Tensor
    losses: Tensor
    best: Best
    notes: tuple[str, ...]


def _sureness(
    records: Records, found: Inverted, rebuilt: Tensor, true: Tensor
) -> dict[str, float | None]:
    """Whether the attacker can tell which cells are right, from the entropy over the attempts."""
    right = []
    for mine, own in zip(rebuilt, true, strict=True):
        order = torch.as_tensor(records.score(mine, own).order)
        parts = records.right(mine[order], own)
        if parts.shape[1] != found.entropy.shape[2]:  # records without cells
            return {"entropy_mean": float(found.entropy.mean())}
        aligned = torch.empty_like(parts)
        aligned[order] = parts
        right.append(aligned)
    cells, entropy = torch.stack(right).flatten(), found.entropy.cpu().flatten()
    surest = entropy.argsort()[: max(1, math.ceil(_SUREST * len(entropy)))]
    whole: dict[str, float | None] = {"entropy_mean": float(entropy.mean())}
    for name, part in (("right", cells), ("wrong", ~cells)):
        whole[f"entropy_{name}"] = float(entropy[part].mean()) if bool(part.any()) else None
    return {**whole, "cells_right_of_surest_quarter": float(cells[surest].double().mean())}
