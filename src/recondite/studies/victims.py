"""From a cell's training to the victim of its attacks: records, defence and account, once."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from recondite.attacks.membership.recipe import Recipe
from recondite.attacks.victim import Accounted, Defended, RecordSets, Victim
from recondite.configuration import TrainingConfig
from recondite.models import resolve
from recondite.studies import rows
from recondite.studies.compression import Compression, places_of
from recondite.training.canary import audit_training
from recondite.training.setup import build_model

if TYPE_CHECKING:
    from recondite.channels.base import Channel

__all__ = ["make_victim"]


def make_victim(
    task: dict[str, Any],
    plan: TrainingConfig,
    model: nn.Module,
    records: RecordSets,
    privacy: dict[str, Any] | None,
    progress: Callable[[str, float], None],
) -> Victim:
    """The victim of a cell.

    Args:
      task: The cell's task.
      plan: How the model was trained.
      model: The model, trained, without what an engine put into it.
      records: Its records.
      privacy: The account of its training; None without one.
      progress: Told a stage and how much of it is done.
    """

    def fresh() -> nn.Module:
        shape, classes = records.training.shape, len(records.training.classes)
        return resolve(plan.model, shape, classes, norm=plan.norm).to(plan.device)

    return Victim(
        model=model,
        initial=lambda: build_model(plan, records.every).eval(),
        fresh=fresh,
        records=records,
        defence=_defence(task, plan, records),
        account=_account(task["defence"]["name"], privacy),
        recipe=Recipe(
            epochs=plan.passes(len(records.training)),
            batch_size=plan.batch_size,
            optimizer=plan.optimizer,
            learning_rate=plan.learning_rate,
            momentum=plan.momentum,
            weight_decay=plan.weight_decay,
        ),
        audit=audit_training,
        seed=task["seed"],
        shown=bool(task["data_facts"]["public"]),
        progress=progress,
    )


def _defence(task: dict[str, Any], plan: TrainingConfig, records: RecordSets) -> Defended:
    """The defence; what has to be fitted on the records is fitted on its first use, once."""

    @cache
    def channel() -> Channel | None:
        from recondite.training.on_records import fit_channel

        if plan.channel is None:
            return None
        return fit_channel(plan, records.every, task.get("data_dir"))

    @cache
    def compression() -> Compression:
        return Compression.fit(records.every, places_of(task["defence"]))

    def seen(images: Tensor) -> Tensor:
        if places_of(task["defence"]):
            return compression()(images)
        fitted = channel()
        if fitted is None:
            return images
        flat = images.flatten(0, -4).flatten(1).cpu().double().numpy()
        noisy = fitted.perturb(flat, np.random.default_rng(task["seed"]))
        return torch.as_tensor(np.asarray(noisy)).to(images).reshape(images.shape)

    return Defended(
        mechanism=plan.mechanism,
        clipping=plan.clipping,
        max_grad_norm=plan.max_grad_norm,
        noisy_records=plan.channel is not None,
        seen=seen,
        fitted=channel,
    )


def _account(defence: str, privacy: dict[str, Any] | None) -> Accounted:
    found = rows.notions(defence, privacy)

    def bound(name: str) -> float | None:
        return None if found[name] is None else float(found[name])

    return Accounted(
        epsilon=bound("epsilon"),
        delta=bound("delta"),
        neighbouring=None if privacy is None else str(privacy["neighbouring"]),
        log_bayes_capacity_release=bound("log_bayes_capacity_release"),
        mutual_information_release=bound("mutual_information_release"),
    )
