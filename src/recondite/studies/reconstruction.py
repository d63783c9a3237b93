"""Reconstruction attacks on a cell: victims, what the defence leaks of them, scores, a gallery."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from recondite.records import ImageSet
from recondite.studies import attackers
from recondite.studies.compression import Compression, places_of
from recondite.studies.identify import identification_claims

if TYPE_CHECKING:
    from recondite.studies.cell import Trained

__all__ = ["invert_gradients", "invert_model", "scored", "seen_by_training", "victims"]

_SHOWN = 16  # images of a gallery
_DECIBELS = 100.0  # an exact copy, as far as eight bits can show it


def victims(test: ImageSet, count: int, seed: int) -> Tensor:
    """Positions of held-out records, the same for every defence."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randperm(len(test), generator=generator)[:count]


def bounds_of(records: ImageSet) -> tuple[Tensor, Tensor]:
    """Smallest and largest value of a pixel in the model's scale, one a channel."""
    channels = records.shape[0]
    mean = torch.tensor(records.mean or (0.0,) * channels)
    std = torch.tensor(records.std or (1.0,) * channels)
    return (0.0 - mean) / std, (1.0 - mean) / std


def invert_gradients(trained: Trained, attack: dict[str, Any]) -> dict[str, Any]:
    """A gradient attack on held-out images, through everything the defence does to them.

    The victims' records never were in the training set: the gradient is what a client would send
    for them. Noise on gradients is drawn for a batch of the attack's size; a channel's noise is on
    the records, and the gradient is that of the noisy copy.
    """
    from recondite.gradients.leaked import leaked_gradients
    from recondite.training.setup import build_model, load_records

    plan, seed = trained.plan, trained.task["seed"]
    records, test = load_records(plan, trained.task.get("data_dir"))
    count, size = attack["images"], attack["batch_size"]
    picked = victims(test, count * size, seed)
    chosen = test.subset(picked)
    images = chosen.images.reshape(count, size, *test.shape)
    labels = chosen.labels.reshape(count, size)
    model = trained.model if attack["victim"] == "trained" else build_model(plan, records).eval()
    seen = seen_by_training(trained, records, images)
    leaked = leaked_gradients(
        model,
        seen,
        labels,
        plan.mechanism,
        clipping=plan.clipping,
        max_grad_norm=plan.max_grad_norm,
        seed=seed,
    )
    rest = torch.ones(len(test), dtype=torch.bool)
    rest[picked] = False
    made = _built(trained, attack, model, test.images[rest])
    low, high = bounds_of(records)
    found = made.reconstruct_many(
        model,
        nn.functional.cross_entropy,
        leaked,
        shape=records.shape,
        batch_size=size,
        labels=labels if attack["labels"] else None,
        bounds=(low.to(images), high.to(images)),
        seed=seed,
        progress=lambda now: trained.said(attack["name"], now.step / max(now.steps, 1)),
    )
    if not torch.isfinite(found.images).all():
        raise ValueError("the attack diverged: its images are not finite (lower its learning rate)")
    # An attack that rebuilds something else than the records says what.
    true = made.originals(images) if hasattr(made, "originals") else images
    pixels, originals = (test.pixels(x).clamp(0, 1) for x in (found.images, true))
    out, gallery = scored(pixels, originals)
    out |= {
        "matching_loss": [float(value) for value in found.loss.flatten()],
        "labels_right": None if attack["labels"] else _right(found.labels, labels),
        "iterations": found.steps,
        "restarts": getattr(made, "restarts", 1),
        "batch_size": size,
        "victim": attack["victim"],
        "images_from": "held-out records",
        "interrupted": found.interrupted,
    }
    return {
        "reconstruction": out,
        "gallery": gallery,
        "claims": identification_claims(
            trained, model, pixels, test, chosen, size, told=attack["labels"]
        ),
        "notes": list(found.notes),
    }


def invert_model(trained: Trained, attack: dict[str, Any]) -> dict[str, Any]:
    """Model inversion: each class's typical image from the trained model, against its mean."""
    from recondite.attacks.inversion import class_centres
    from recondite.studies.splits import pool

    records = pool(trained.plan, trained.task)
    made = attackers.build(attack["name"], attack["options"])
    found = made.invert(
        trained.model,
        records.test,
        progress=lambda now: trained.said(attack["name"], now.step / max(now.steps, 1)),
    )
    centres = class_centres(records.training, found.labels)
    pixels, originals = (records.test.pixels(x).clamp(0, 1) for x in (found.images, centres))
    out, gallery = scored(pixels[:, None], originals[:, None])
    out |= {
        "matching_loss": [float(value) for value in found.loss.flatten()],
        "labels_right": None,
        "iterations": found.iterations,
        "restarts": 1,
        "batch_size": None,
        "victim": "trained",
        "images_from": "means of the training records of each class",
        "mse_start": found.score(records.training).start,
        "interrupted": found.interrupted,
    }
    # The mean of a small class is close to its records.
    public = trained.task["data_facts"]["public"]
    return {"reconstruction": out, "gallery": gallery if public else None}


def _built(trained: Trained, attack: dict[str, Any], model: nn.Module, public: Tensor) -> Any:
    """The attack; an adaptive one is handed the defence's own likelihood and a prior."""
    options = dict(attack["options"])
    if attack["name"] != attackers.ADAPTIVE:
        return attackers.build(attack["name"], options)
    from recondite.attacks.gradient.bounded import Bounding
    from recondite.attacks.gradient.priors import GaussianPrior
    from recondite.gradients.leaked import configured_for

    plan = trained.plan
    if options.pop("prior", None) is not None:
        options["prior"] = GaussianPrior.fit(public)
    bounded = {"flat": "clip", "scale": "scale"}.get(plan.clipping, "none")
    options["bounding"] = Bounding(bounded, plan.max_grad_norm)
    if plan.mechanism.parameter:
        sized = configured_for(
            plan.mechanism,
            model,
            attack["batch_size"],
            clipping=plan.clipping,
            max_grad_norm=plan.max_grad_norm,
        )
        options["log_likelihood"] = sized.log_likelihood
        options["per_record"] = sized.per_record
    return attackers.build(attack["name"], options)


def seen_by_training(trained: Trained, records: ImageSet, images: Tensor) -> Tensor:
    """What training would see of the victims' records (victims, batch, c, h, w).

    Args:
      trained: The cell.
      records: The training records, which channels and eigenvectors are fitted on.
      images: The victims'.
    """
    places = places_of(trained.task["defence"])
    if places:
        return Compression.fit(records, places)(images)
    if trained.plan.channel is None:
        return images
    from recondite.training.on_records import fit_channel

    channel = fit_channel(trained.plan, records, trained.task.get("data_dir"))
    flat = images.flatten(0, 1).flatten(1).cpu().double().numpy()
    noisy = channel.perturb(flat, np.random.default_rng(trained.task["seed"]))
    return torch.as_tensor(np.asarray(noisy)).to(images).reshape(images.shape)


def scored(pixels: Tensor, originals: Tensor) -> tuple[dict[str, Any], bytes]:
    """Scores of (victims, batch, c, h, w) in [0, 1], and the gallery as a compressed file."""
    from recondite.metrics import score

    parts: dict[str, list[Tensor]] = {"mse": [], "psnr": [], "ssim": []}
    ordered = []
    several = originals.shape[1] > 1
    placed: dict[str, list[Tensor]] = {"mse": [], "ssim": []}
    if not several:  # nothing to match: one computation for all
        pixels, originals = pixels.transpose(0, 1), originals.transpose(0, 1)
    for mine, true in zip(pixels, originals, strict=True):
        result = score(mine, true, matched=several)
        # By position: where the order within a batch is taken for known, as some papers do.
        same = score(mine, true, matched=False) if several else result
        for name, values in placed.items():
            values.append(getattr(same, name))
        for name, values in parts.items():
            values.append(getattr(result, name))
        ordered.append(mine[result.order.to(mine.device)])
    mse, psnr, ssim = (torch.cat(parts[name]) for name in ("mse", "psnr", "ssim"))
    psnr = psnr.clamp(max=_DECIBELS)
    body = {
        "images": len(mse),
        "mse": _rounded(mse),
        "psnr": _rounded(psnr),
        "ssim": _rounded(ssim),
        "mse_median": float(mse.median()),
        "mse_mean": float(mse.mean()),
        "mse_worst": float(mse.min()),
        "psnr_mean": float(psnr.mean()),
        "ssim_mean": float(ssim.mean()),
        "ssim_worst": float(ssim.max()),
        "mse_placed_mean": float(torch.cat(placed["mse"]).mean()),
        "ssim_placed_mean": float(torch.cat(placed["ssim"]).mean()),
        "scale": "pixels in [0, 1]",
        "gallery": None,
    }
    return body, _gallery(torch.cat(ordered), originals.flatten(0, 1))


def _gallery(pixels: Tensor, originals: Tensor) -> bytes:
    file = io.BytesIO()
    both = (_bytes(originals[:_SHOWN]), _bytes(pixels[:_SHOWN]))
    np.savez_compressed(file, originals=both[0], reconstructions=both[1])
    return file.getvalue()


def _bytes(images: Tensor) -> Any:
    scaled = (images.detach().cpu().clamp(0, 1) * 255).round().to(torch.uint8)
    return scaled.permute(0, 2, 3, 1).contiguous().numpy()


def _rounded(values: Tensor) -> list[float]:
    return [float(f"{value:.6g}") for value in values.tolist()]


def _right(found: Tensor | None, labels: Tensor) -> float | None:
    """Share of labels that were found, in any order within a batch."""
    if found is None:
        return None
    right = 0
    for mine, true in zip(found.tolist(), labels.tolist(), strict=True):
        left = list(true)
        for value in mine:
            if value in left:
                left.remove(value)
                right += 1
    return right / labels.numel()
