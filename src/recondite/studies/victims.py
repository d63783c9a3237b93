"""From a cell's training to the victim of its attacks: records, defence and account, once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from recondite.attacks.membership.recipe import Recipe
from recondite.attacks.victim import Accounted, Defended, RecordSets, Victim
from recondite.configuration import TrainingConfig
from recondite.models import resolve
from recondite.records import Records
from recondite.studies import rows
from recondite.studies.compression import Compression, places_of
from recondite.studies.shapes import CellTask
from recondite.training.canary import audit_training
from recondite.training.setup import build_model
from recondite.training.trainer import train

if TYPE_CHECKING:
    from recondite.attacks.transcript import Transcript
    from recondite.channels.base import Channel

__all__ = ["make_victim", "reference_trainer"]

_APART = 7_919_017  # the seeds of reference models lie apart from those of victims


def make_victim(
    task: CellTask,
    plan: TrainingConfig,
    model: nn.Module,
    records: RecordSets,
    privacy: Mapping[str, Any] | None,
    progress: Callable[[str, float], None],
    transcript: Transcript | None = None,
) -> Victim:
    """The victim of a cell.

    Args:
      task: The cell's task.
      plan: How the model was trained.
      model: The model, trained, without what an engine put into it.
      records: Its records.
      privacy: The account of its training; None without one.
      progress: Told a stage and how much of it is done.
      transcript: What its training released, where that was recorded.
    """

    def fresh() -> nn.Module:
        shape, classes = records.training.shape, records.training.outputs
        one_hot = records.training.one_hot
        made = resolve(
            plan.model, shape, classes, norm=plan.norm, one_hot=one_hot, adapter=plan.adapter
        )
        return made.to(plan.device)

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
        trainer=reference_trainer(
            plan, records.training, task.get("data_dir"), places_of(task["defence"])
        ),
        audit=audit_training,
        transcript=transcript,
        seed=task["seed"],
        shown=bool(task["data_facts"]["public"]),
        progress=progress,
    )


def reference_trainer(
    plan: TrainingConfig, like: Records, data_dir: str | None, places: Sequence[int] = ()
) -> Callable[[nn.Module, Tensor, Tensor, int], None] | None:
    """Trains a model in place as a victim was, behind its defence; None where it had none.

    Args:
      plan: How the victim was trained.
      like: Records of the victim, for their kind and scale.
      data_dir: Where data sets are.
      places: Components that a compression removes.
    """
    if not (plan.defence.parameter or places or plan.clipping != "none"):
        return None

    def trained(model: nn.Module, features: Tensor, labels: Tensor, seed: int) -> None:
        own = like.replaced(features, labels)
        if places:
            own = Compression.fit(own, places).applied(own)
        _, made = train(
            replace(plan, seed=seed + _APART),
            data_dir=data_dir,
            sets=(own, own.subset([0])),
            running_epsilon=False,
            accounted=False,
        )
        model.load_state_dict(made.state_dict())

    return trained


def _defence(task: CellTask, plan: TrainingConfig, records: RecordSets) -> Defended:
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
        flat = images.reshape(-1, fitted.dim).cpu().double().numpy()
        noisy = fitted.perturb(flat, np.random.default_rng(task["seed"]))
        return torch.as_tensor(np.asarray(noisy)).to(images).reshape(images.shape)

    return Defended(
        mechanism=plan.mechanism,
        clipping=plan.clipping,
        max_grad_norm=plan.max_grad_norm,
        noisy_records=plan.channel is not None,
        looks=plan.copies(len(records.training)),
        fresh_noise=plan.defence.parameters().get("noise") == "per_step",
        seen=seen,
        fitted=channel,
    )


def _account(defence: str, privacy: Mapping[str, Any] | None) -> Accounted:
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
