"""One membership attack on a model that was given, with members of its training set and others."""

from __future__ import annotations

from typing import Any

from recondite.attacks.gradient.base import AttackProgress
from recondite.attacks.knowledge import Knowledge
from recondite.attacks.outcome import Membership
from recondite.attacks.registry import membership_attacks
from recondite.configuration import TrainingConfig
from recondite.defences import find
from recondite.models import count_parameters, resolve
from recondite.records import Records
from recondite.records.blind import duplicates
from recondite.records.given import Given, load_given
from recondite.studies.defences import kinds, plan
from recondite.studies.given_gradients import checked_defence, renamed, strength
from recondite.studies.one_attack import Attacked, Said
from recondite.studies.shapes import Common, Configured, Settings
from recondite.studies.victims import reference_trainer
from recondite.training.record import RunRecord
from recondite.training.setup import scale_of

__all__ = ["attack_members"]

_CONFIDENCE = 0.999


def attack_members(
    name: str,
    options: Settings,
    *,
    model: str,
    weights: str | None,
    members: str | None,
    non_members: str | None,
    public: str | None = None,
    data: str | None = None,
    prepare: str | None = None,
    records: int | None = None,
    training: Settings | None = None,
    defence: Settings | None = None,
    data_dir: str | None = None,
    seed: int = 0,
    said: Said = lambda _, __: None,
) -> Attacked:
    """Attacks the model that was given, and no other.

    What it says of ε is an estimate: nobody flipped coins for these members.

    Args:
      name: A membership attack.
      options: Its settings.
      model: The network's name, or ``package.module:function``.
      weights: Of the trained model: a safetensors file.
      members: Records it was trained on, as :func:`load_given` takes them; the training part of a
        data set.
      non_members: Others of the same kind; the test part of a data set.
      public: Further ones, in neither of the two, for reference models; the test part.
      data: The data set that the model was trained on, whose scale and preparation the records
        get; by default the members'.
      prepare: How images are cropped or resized; None for the network's own way.
      records: How many records the model was trained on, so that reference models get as many; by
        default as many as there are members.
      training: How the model was trained, for reference models: fields of
        :class:`TrainingConfig`, its defaults where not given.
      defence: Its defence, for reference models.
      data_dir: Where data sets are.
      seed: Repeats the attack.
      said: Told how much is done.
    """
    able = membership_attacks()
    if name not in able:
        raise ValueError(f"members can only be given to {', '.join(able)}")
    if weights is None or members is None or non_members is None:
        raise ValueError("weights, members and non-members go together: give all three")
    made = able[name](**options)
    references = Knowledge.SHADOW_DATA in made.needs
    given = defence or {"name": "none"}
    defended = find(given["name"], unproven=True).acts
    if not references and (defended or public is not None):
        raise ValueError(f"{name} trains no reference models: leave defence and public out")
    config = _config(data or members.split("@")[0], model, prepare, training or {}, given, seed)
    first = _loaded("members", members, "train", config, data_dir)
    classes = first.records.classes
    ours = _scaled(first, classes, config)
    others = _scaled(_loaded("non-members", non_members, "test", config, data_dir), classes, config)
    _apart(ours, others)
    population = None
    if public is not None:
        population = _scaled(_loaded("public", public, "test", config, data_dir), classes, config)
    elif references:
        raise ValueError(
            f"{name} needs public: records of the same kind that are in neither of the lists, for "
            "reference models"
        )

    def network(weights: str | None = None) -> Any:
        made = resolve(
            model,
            ours.shape,
            len(classes),
            norm=config.norm,
            weights=weights,
            adapter=config.adapter,
        )
        return made.to(config.device)

    def progress(now: AttackProgress) -> None:
        said(name, now.step / max(now.steps, 1))

    victim = network(weights).eval()
    trainer = reference_trainer(config, ours, data_dir) if references else None
    result = made.infer(
        victim,
        ours,
        others,
        make_model=network,
        population=population,
        size=len(ours) if records is None else records,
        recipe=config if trainer is None else trainer,
        seed=seed,
        progress=progress,
    )
    record = RunRecord(
        kind="attack",
        data={"members": len(ours), "non_members": len(others), "scale": ours.scale},
        model={"name": model, "parameters": count_parameters(victim), "weights": weights},
        defence=dict(given) if defended else {},
        training={},
        results={"seconds": round(result.seconds, 3)},
        privacy=None,
        notes=(*result.notes, "members as given, not by coins: what is said of ε is an estimate"),
    ).to_dict()
    body = Membership(result, 1.0 / len(ours), _CONFIDENCE).to_dict()
    return Attacked(
        {**record, "attack": name, "attack_options": options, "seed": seed, "membership": body}
    )


def _config(
    data: str,
    model: str,
    prepare: str | None,
    training: Settings,
    given: Settings,
    seed: int,
) -> TrainingConfig:
    """How the model was trained, as far as that is known."""
    defence = checked_defence(given)
    settings = defence.settings()
    value = strength(settings, kinds()[defence.name].parameter)
    common: Common = {"data": data, "model": model, "prepare": prepare, "training": training}
    own: Configured = {"name": defence.name, "value": value, "settings": settings, "training": {}}
    return plan(common, own, seed)


def _loaded(
    what: str, text: str, split: str, config: TrainingConfig, data_dir: str | None
) -> Given:
    try:
        found = load_given(text, split=split, prepare=config.preparation, directory=data_dir)
    except ValueError as error:
        raise ValueError(f"{what}: {error}") from None
    if not found.labelled:
        raise ValueError(f"{what} must have labels: put images of each class into a subfolder")
    return found


def _scaled(given: Given, classes: tuple[str, ...], config: TrainingConfig) -> Records:
    records = renamed(given, classes)
    scale = scale_of(config, records)
    return (records if scale is None else records.normalised(*scale)).to(config.device)


def _apart(members: Records, others: Records) -> None:
    if members.shape != others.shape:
        raise ValueError(
            f"members and non-members must be of one shape, got {members.shape} and {others.shape}"
        )
    shared = duplicates(members.natural(), others.natural())
    if shared:
        raise ValueError(
            f"members and non-members must have no record in common: member {shared[0][0] + 1} is "
            f"non-member {shared[0][1] + 1} ({len(shared)} in all)"
        )
