"""One attack on its own: on a victim made for it, or on gradients from a file."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import ValidationError
from torch import Tensor, nn

from recondite import _validate
from recondite.attacks import registry
from recondite.attacks.files import load_gradients
from recondite.attacks.gradient.base import Progress
from recondite.attacks.outcome import Gallery
from recondite.attacks.victim import Accounted
from recondite.models import count_parameters, resolve
from recondite.studies import attackers, rows
from recondite.studies.cell import run_cell
from recondite.studies.checks import facts_of, mistakes_of
from recondite.studies.defences import plan
from recondite.studies.facts import Facts
from recondite.studies.grid import cells
from recondite.studies.mistakes import from_pydantic
from recondite.studies.source import Mistake, where
from recondite.studies.splits import pool
from recondite.studies.study import Study
from recondite.studies.victims import make_victim
from recondite.training.record import RunRecord, machine
from recondite.training.setup import build_model

__all__ = ["Attacked", "attack_file", "attack_victim"]

Said = Callable[[str, float], None]


@dataclass(frozen=True, eq=False)
class Attacked:
    """What an attack found.

    Attributes:
      record: The row of a comparison, or the record of an attack on a file.
      originals: (n, h, w, c) bytes; None where nobody knows them.
      reconstructions: The same shape; None for attacks that rebuild nothing.
    """

    record: dict[str, Any]
    originals: NDArray[np.uint8] | None = None
    reconstructions: NDArray[np.uint8] | None = None

    @property
    def interrupted(self) -> bool:
        """Whether it was ended early and holds the best so far."""
        found = self.record.get("reconstruction") or {}
        return bool(found.get("interrupted"))


def attack_victim(
    settings: dict[str, Any], *, data_dir: str | None = None, said: Said = lambda _, __: None
) -> Attacked:
    """Makes a victim and attacks it.

    Args:
      settings: A study with one defence and one attack, as plain data. A gradient attack on an
        untrained victim (or on given weights) trains nothing.
      data_dir: Where data sets are.
      said: Told the stage and how much of it is done.
    """
    study = _checked(settings, data_dir)
    facts = facts_of(study, data_dir)
    cell = cells(study, facts, {})[0]
    task = {
        **cell.task(cell.attacks),
        "study": study.name,
        "data_dir": data_dir,
        "data_facts": {"name": study.data, **_public(facts)},
        "model_facts": {"name": study.model, "parameters": facts.parameters},
    }
    if not cell.attacks:
        name, defence = study.attacks[0].name, study.defences[0].name
        raise ValueError(f"attack {name} has nothing to attack behind defence {defence}")
    (key, attack), *_ = cell.attacks.items()
    made = attackers.build(attack["name"], attack["options"])
    if not made.trains(attackers.asked(attack)):
        return _untrained(task, key, attack, said)
    events: list[dict[str, Any]] = []

    def emit(event: dict[str, Any]) -> None:
        if event["type"] == "row":
            events.append(event)
        else:
            said(str(event.get("stage", "")), float(event.get("done", 0.0)))

    run_cell(task, emit)
    row = events[-1]["row"]
    if row["status"] == "failed":
        raise ValueError(row["reason"])
    gallery = events[-1].get("gallery")
    return _pictured(row, None if gallery is None else Gallery.from_bytes(gallery))


def _checked(settings: dict[str, Any], data_dir: str | None) -> Study:
    try:
        study = Study.model_validate(settings)
    except ValidationError as error:
        raise ValueError(_first(from_pydantic(error, Study))) from None
    found = mistakes_of(study, data_dir)
    if found:
        raise ValueError(_first(found))
    return study


def _first(mistakes: list[Mistake]) -> str:
    """The first mistake, named as the command's options are, not as a file's lines."""
    place = tuple(part for part in mistakes[0].place if not isinstance(part, int))
    short = (
        place[1:] if len(place) > 1 and place[0] in ("defences", "attacks", "training") else place
    )
    return f"{where(short)} {mistakes[0].message}"


def _public(facts: Facts) -> dict[str, Any]:
    body = facts.to_dict()
    return {k: v for k, v in body.items() if k not in ("data_digest", "model_digest", "parameters")}


def _untrained(task: dict[str, Any], key: str, attack: dict[str, Any], said: Said) -> Attacked:
    planned = plan(task["common"], task["defence"], task["seed"])
    records = pool(planned, task)
    model = build_model(planned, records.training).eval()
    victim = make_victim(task, planned, model, records, None, said)
    # No run was accounted for: one release alone has no ε of a run, and nothing is claimed of it.
    victim = replace(victim, account=Accounted(), asked=attackers.asked(attack))
    found = replace(attackers.build(attack["name"], attack["options"]).evaluate(victim), claims=())
    row = rows.row(task, key, attack, **found.to_dict(), machine=machine())
    return _pictured(row, found.gallery)


def _pictured(row: dict[str, Any], gallery: Gallery | None) -> Attacked:
    if gallery is None:
        return Attacked(row)
    return Attacked(row, gallery.originals, gallery.reconstructions)


def attack_file(
    name: str,
    options: dict[str, Any],
    *,
    model: str,
    gradients: str | os.PathLike[str],
    shape: tuple[int, int, int],
    weights: str | None = None,
    classes: int = 10,
    norm: str = "group",
    batch_size: int = 1,
    labels: list[int] | None = None,
    bounds: tuple[float, float] = (0.0, 1.0),
    seed: int | None = None,
    device: str = "cpu",
    time_limit: float | None = None,
    said: Said = lambda _, __: None,
) -> Attacked:
    """Attacks gradients from a file; nothing in the file is executed.

    Args:
      name: A gradient attack.
      options: Its settings.
      model: The network's name, or ``package.module:function``.
      gradients: A safetensors file keyed by parameter name, of one victim or several.
      shape: (c, h, w) of a record.
      weights: The network's weights when the gradient was taken.
      classes: Number of classes of a network by name.
      norm: Normalisation of our networks.
      batch_size: Records behind each gradient.
      labels: Where the attacker knows them.
      bounds: Smallest and largest pixel in the network's scale.
      seed: Makes it repeatable.
      device: cpu or cuda.
      time_limit: Seconds.
      said: Told how much is done.
    """
    able = registry.gradient_attacks()
    if name not in able:
        raise ValueError(f"gradients can only be given to {', '.join(able)}")
    _validate.device(device)
    network = resolve(model, shape, classes, norm=norm, seed=seed, weights=weights)
    network = network.to(device).eval()
    leaked = load_gradients(network, gradients)
    victims = len(next(iter(leaked.values())))
    known = None
    if labels is not None:
        if len(labels) != victims * batch_size:
            raise ValueError(
                f"labels must name {victims * batch_size} classes, one a record, got {len(labels)}"
            )
        known = torch.tensor(labels).reshape(victims, batch_size)

    def progress(now: Progress) -> None:
        said(name, now.step / max(now.steps, 1))

    found = able[name](**options).reconstruct_many(
        network,
        nn.functional.cross_entropy,
        leaked,
        shape=shape,
        batch_size=batch_size,
        labels=known,
        bounds=bounds,
        seed=seed,
        progress=progress,
        time_limit=time_limit,
    )
    record = RunRecord(
        kind="attack",
        data={"shape": list(shape), "victims": victims, "batch_size": batch_size},
        model={"name": model, "parameters": count_parameters(network), "weights": weights},
        defence={},
        training={},
        results={"seconds": round(found.seconds, 3)},
        privacy=None,
        notes=(*found.notes, "no originals: matching loss and agreement are estimates of success"),
    ).to_dict()
    agreement = None if found.agreement is None else found.agreement.tolist()
    record |= {
        "attack": name,
        "attack_options": options,
        "seed": seed,
        "reconstruction": {
            "images": int(found.images.flatten(0, 1).shape[0]),
            "matching_loss": found.loss.tolist(),
            "agreement": agreement,
            "labels": None if found.labels is None else found.labels.tolist(),
            "iterations": found.steps,
            "interrupted": found.interrupted,
        },
    }
    return Attacked(record, None, _bytes(found.images.flatten(0, 1), bounds))


def _bytes(images: Tensor, bounds: tuple[float, float]) -> NDArray[np.uint8]:
    low, high = bounds
    unit = ((images.detach().cpu() - low) / (high - low)).clamp(0, 1)
    out: NDArray[np.uint8] = (unit * 255).round().to(torch.uint8).permute(0, 2, 3, 1).numpy()
    return out
