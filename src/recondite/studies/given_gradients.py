"""One attack on gradients from files."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from recondite import _validate
from recondite.attacks import registry
from recondite.attacks.files import load_gradients
from recondite.attacks.gradient.base import Reconstruction
from recondite.attacks.leak import Leak
from recondite.attacks.scoring import as_images, labels_found
from recondite.attacks.victim import Defended
from recondite.configuration import suited
from recondite.models import count_parameters, resolve
from recondite.records import ImageSet, Records
from recondite.records.given import Given, load_given
from recondite.studies import attackers
from recondite.studies.checks import defence_mistakes
from recondite.studies.defences import kinds
from recondite.studies.one_attack import Attacked, Said, first_mistake
from recondite.studies.shapes import Row, Settings
from recondite.studies.study import DefenceSpec
from recondite.training.record import RunRecord

__all__ = ["attack_file", "checked_defence", "renamed", "strength"]


def attack_file(
    name: str,
    options: Settings,
    *,
    model: str,
    gradients: Sequence[str | os.PathLike[str]],
    shape: tuple[int, int, int] | None = None,
    weights: str | None = None,
    classes: int = 10,
    norm: str = "group",
    batch_size: int = 1,
    labels: list[int] | None = None,
    bounds: tuple[float, float] = (0.0, 1.0),
    defence: Settings | None = None,
    clipping: str | None = None,
    max_grad_norm: float | None = None,
    public: str | None = None,
    originals: str | None = None,
    prepare: str | None = None,
    data_dir: str | None = None,
    seed: int | None = None,
    device: str = "cpu",
    time_limit: float | None = None,
    said: Said = lambda _, __: None,
) -> Attacked:
    """Attacks gradients from files; nothing in them is executed.

    Args:
      name: An attack that takes gradients.
      options: Its settings.
      model: The network's name, or ``package.module:function``.
      gradients: Safetensors keyed by parameter name, of one victim or several; each further file
        holds a further release of the same records.
      shape: (c, h, w) of a record; None for that of the public records.
      weights: The network's weights when the gradient was taken.
      classes: Number of classes of a network by name.
      norm: Normalisation of our networks.
      batch_size: Records behind each gradient.
      labels: Where the attacker knows them.
      bounds: Smallest and largest pixel in the network's scale.
      defence: What was done to the gradients: its name and settings. An attack that cannot use it
        refuses.
      clipping: How each record's gradient was bounded.
      max_grad_norm: The bound.
      public: Records of the same kind that the attacker has, as :func:`load_given` takes them.
      originals: The records behind the gradients, for scores.
      prepare: How public records and originals are cropped or resized.
      data_dir: Where data sets are.
      seed: Makes it repeatable.
      device: cpu or cuda.
      time_limit: Seconds.
      said: Told how much is done.
    """
    able = [each for each, kind in registry.classes().items() if kind.takes_gradients]
    if name not in able:
        raise ValueError(f"gradients can only be given to {', '.join(able)}")
    if "releases" in options:
        raise ValueError("releases are counted by their files: give gradients once for each")
    made = attackers.build(name, options)
    defended, label = _defended(defence or {"name": "none"}, clipping, max_grad_norm)
    _validate.device(device)
    held = _images("public", public, "train", prepare, data_dir)
    true = _images("originals", originals, "test", prepare, data_dir)
    shape_given = shape is not None
    if shape is None:
        if held is None:
            raise ValueError("shape is needed with gradients: channels,height,width")
        shape = as_images(held.records).shape
    kinds_of = _classes(held, classes)
    for what, records in (("public", held), ("originals", true)):
        if records is not None and as_images(records.records).shape != shape:
            theirs, ours = (_sides(one) for one in (as_images(records.records).shape, shape))
            raise ValueError(
                f"{what} must be records of {ours}, as the others are, got {theirs}: bring them "
                "to that size with prepare (crop16, resize32, …), or give others"
            )
    try:
        network = resolve(model, shape, classes, norm=norm, seed=seed, weights=weights)
    except ValueError as error:
        if shape_given or weights is None or held is None:
            raise
        raise ValueError(
            f"public holds records of {_sides(shape)}, for which {model} takes other weights than "
            f"these ({error}): give public records of the shape that the victims have, or prepare "
            "them (crop16, resize32, …)"
        ) from None
    network = network.to(device).eval()
    each = [load_gradients(network, path) for path in gradients]
    counts = {len(next(iter(one.values()))) for one in each}
    if len(counts) > 1:
        raise ValueError(
            "gradients must hold as many victims in every file, since each is a release of the "
            f"same records, got {' and '.join(map(str, sorted(counts)))}"
        )
    victims = counts.pop()
    leak = Leak(
        network,
        {key: torch.stack([one[key] for one in each], 1) for key in each[0]},
        shape,
        batch_size,
        _told(labels, victims, batch_size),
        bounds,
        defended,
        _scaled(held, kinds_of, bounds, device),
        _scaled(true, kinds_of, bounds, device),
        seed,
        time_limit,
        said,
    )
    if leak.originals is not None and leak.labels is not None:
        leak = dataclasses.replace(leak, originals=_with_told(leak, true))
    begun = time.perf_counter()
    found = made.rebuild(leak)
    seconds = time.perf_counter() - begun
    record = RunRecord(
        kind="attack",
        data={
            "shape": list(shape),
            "victims": victims,
            "batch_size": batch_size,
            "releases": leak.releases,
            "public_records": None if leak.public is None else len(leak.public),
        },
        model={"name": model, "parameters": count_parameters(network), "weights": weights},
        defence={} if not leak.defended else {**(defence or {}), "clipping": defended.clipping},
        training={},
        results={"seconds": round(seconds, 3)},
        privacy=None,
        notes=found.notes,
    ).to_dict()
    record |= {"attack": name, "attack_options": options, "seed": seed}
    if leak.defended:
        record["label"] = label
    labelled = true is not None and true.labelled
    return _reported(record, leak, found, labelled)


def _sides(shape: Sequence[int]) -> str:
    return "×".join(map(str, shape))


def _reported(record: Row, leak: Leak, found: Reconstruction, labelled: bool) -> Attacked:
    """The record with what was found, and its images."""
    agreement = None if found.agreement is None else found.agreement.tolist()
    body: Row = {
        "images": int(found.images.flatten(0, 1).shape[0]),
        "matching_loss": found.loss.tolist(),
        "agreement": agreement,
        "labels": None if found.labels is None else found.labels.tolist(),
        "labels_told": leak.labels is not None,
        "iterations": found.steps,
        "interrupted": found.interrupted,
        **found.figures,
    }
    notes = list(record["notes"])
    if leak.originals is None:
        guess = (
            "matching loss and agreement are estimates of success"
            if len(found.loss)
            else ("nothing here says how near this is")
        )
        notes.append(f"no originals: {guess}")
        pictures = _bytes(found.images.flatten(0, 1), leak.bounds)
        return Attacked({**record, "notes": notes, "reconstruction": body}, None, pictures)
    scores, gallery, blind = leak.scores(found.images)
    body |= scores.to_dict() | ({} if blind is None else blind.to_dict())
    if blind is None:
        notes.append("no public records: no blind guess to compare with")
    if labelled and leak.labels is None:
        true = leak.originals.labels.reshape(leak.victims, leak.batch_size)
        body["labels_right"] = labels_found(found.labels, true)
    return Attacked(
        {**record, "notes": notes, "reconstruction": body},
        gallery.originals,
        gallery.reconstructions,
    )


def _defended(
    given: Settings, clipping: str | None, max_grad_norm: float | None
) -> tuple[Defended, str]:
    """The defence that gradients went through, checked, and its title."""
    defence = checked_defence(given)
    kind, settings = kinds()[defence.name], defence.settings()
    if kind.on_records:
        raise ValueError(
            f"defence {kind.name} changes records, not gradients: attack it with data and "
            "channel-posterior"
        )
    if not kind.bounds and (clipping is not None or max_grad_norm is not None):
        raise ValueError(
            f"clipping and max_grad_norm go with a defence: {kind.name} bounds nothing"
        )
    value = strength(settings, kind.parameter)
    chosen = suited(kind, {"clipping": clipping, "max_grad_norm": max_grad_norm})
    mechanism: Any = kind.build(value, **settings)
    return (
        Defended(mechanism, chosen["clipping"], chosen.get("max_grad_norm", 1.0)),
        kind.label(value, settings),
    )


def checked_defence(given: Settings) -> DefenceSpec:
    """A defence by its name and settings; refused in one line where something is wrong with it."""
    defence = DefenceSpec.model_validate(given)
    for mistake in defence_mistakes(defence):
        raise ValueError(f"defence {first_mistake([mistake])}")
    return defence


def strength(settings: dict[str, Any], parameter: str | None) -> float | None:
    """Takes the one value of a defence's parameter out of its settings."""
    value = settings.pop(parameter, None) if parameter is not None else None
    if isinstance(value, list):
        if len(value) != 1:
            raise ValueError(f"{parameter} must be one value here, got {len(value)}")
        value = value[0]
    return None if value is None else float(value)


def _images(
    what: str, text: str | None, split: str, prepare: str | None, data_dir: str | None
) -> Given | None:
    if text is None:
        return None
    try:
        found = load_given(text, split=split, prepare=prepare, directory=data_dir)
    except ValueError as error:
        raise ValueError(f"{what}: {error}") from None
    as_images(found.records)
    if what == "public" and not found.labelled:
        raise ValueError("public: put the images of each class into a subfolder with its name")
    return found


def _classes(public: Given | None, count: int) -> tuple[str, ...]:
    """The names of the network's classes: the public records', or numbers."""
    if public is None or not public.named:
        return tuple(str(number) for number in range(count))
    if len(public.records.classes) != count:
        raise ValueError(
            f"public must have the network's {count} classes, got {len(public.records.classes)}: "
            "say with classes how many the network has, or give others"
        )
    return public.records.classes


def _scaled(
    given: Given | None, classes: tuple[str, ...], bounds: tuple[float, float], device: str
) -> ImageSet | None:
    """Images in the network's scale, their labels places among its classes."""
    if given is None:
        return None
    images, (low, high) = as_images(renamed(given, classes)), bounds
    if bounds != (0.0, 1.0):
        images = images.normalised((-low / (high - low),), (1.0 / (high - low),))
    return images.to(device)


def renamed(given: Given, classes: tuple[str, ...]) -> Records:
    """Records whose labels are places among these classes."""
    records: Any = given.records
    labels = records.labels
    if given.labelled and given.named:
        unknown = [one for one in records.classes if one not in classes]
        if unknown and records.classes != classes:
            raise ValueError(f"{records.name} has a class that the others lack: {unknown[0]}")
        places = torch.tensor([classes.index(one) for one in records.classes])
        labels = places[labels]
    elif len(records.classes) > len(classes):
        raise ValueError(
            f"{records.name} has labels up to {len(records.classes) - 1}, and there are "
            f"{len(classes)} classes"
        )
    out: Records = dataclasses.replace(records, labels=labels, classes=classes)
    return out


def _told(labels: list[int] | None, victims: int, batch_size: int) -> Tensor | None:
    if labels is None:
        return None
    if len(labels) != victims * batch_size:
        raise ValueError(
            f"labels must name {victims * batch_size} classes, one a record, got {len(labels)}"
        )
    return torch.tensor(labels).reshape(victims, batch_size)


def _with_told(leak: Leak, given: Given | None) -> ImageSet:
    """The originals with the labels that were told, which must be theirs."""
    assert leak.originals is not None
    assert leak.labels is not None
    assert given is not None
    told = leak.labels.flatten().to(leak.originals.labels)
    if given.labelled and not torch.equal(told, leak.originals.labels):
        raise ValueError("labels must be those of the originals: leave them out, or give the right")
    return leak.originals.replaced(leak.originals.images, told)


def _bytes(images: Tensor, bounds: tuple[float, float]) -> NDArray[np.uint8]:
    low, high = bounds
    unit = ((images.detach().cpu() - low) / (high - low)).clamp(0, 1)
    out: NDArray[np.uint8] = (unit * 255).round().to(torch.uint8).permute(0, 2, 3, 1).numpy()
    return out
