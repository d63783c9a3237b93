"""What an auditor writes down: rows of the comparison's schema, one a client and round."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

import numpy as np
import torch
from torch import Tensor

from recondite.metrics.images import score
from recondite.studies.shapes import Row
from recondite.training.record import machine

__all__ = ["Originals", "gallery_bytes", "row_of"]

Originals = tuple[Tensor, Tensor | None]

_DECIBELS = 100.0  # an exact copy, as far as eight bits can show it
_ESTIMATE = "no ground truth: matching loss and agreement of restarts are estimates"


def row_of(
    found: Any,
    *,
    study: str,
    round_number: int,
    client: str,
    attack: Any,
    about: Mapping[str, Any],
    pixels: Tensor,
    originals: Tensor | None,
    labels: Tensor | None,
    seconds: float,
    observed: str,
) -> Row:
    """One row.

    Args:
      found: The reconstruction.
      study: Name of the run.
      round_number: The round.
      client: The client, as the server knows it.
      attack: What was tried.
      about: The parts of the row that do not depend on the attack.
      pixels: Reconstructions, pixels in [0, 1].
      originals: The same for what was attacked, in a simulation.
      labels: True labels, in a simulation.
      seconds: Time of the attack.
      observed: What the server saw: an update of one client, or a sum.
    """
    text = f"{study} {round_number} {client} {attack.name} {about.get('label')}"
    key = hashlib.blake2b(text.encode(), digest_size=12).hexdigest()
    loss = [float(value) for value in found.loss.reshape(-1)]
    agreement = None if found.agreement is None else float(found.agreement.mean())
    result: Row = {
        "images": len(pixels),
        "matching_loss": [value if np.isfinite(value) else None for value in loss],
        "agreement": agreement,
        "labels_right": _right(found.labels, labels),
        "scale": "pixels in [0, 1]",
        "iterations": found.steps,
        "restarts": getattr(attack, "restarts", 1),
        "batch_size": len(pixels),
        "victim": "untrained" if round_number == 1 else "trained",
        "gallery": f"gallery/{key}.npz",
    }
    if originals is not None:
        result |= _scores(pixels, originals)
    notes = list(found.notes)
    if originals is None:
        notes.append(_ESTIMATE)
    return {
        "schema_version": 1,
        "kind": "federated",
        "key": key,
        "study": study,
        "status": "done",
        "reason": None,
        "target": None,
        "seed": None,
        "attack": attack.name,
        "utility": {},
        "privacy": None,
        "notions": {},
        "membership": None,
        "claims": [],
        **about,
        "reconstruction": result,
        "round": round_number,
        "client": client,
        "observed": observed,
        "ground_truth": originals is not None,
        "seconds": {"attack": round(seconds, 3)},
        "machine": machine(),
        "created": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "notes": [*about.get("notes", []), *notes],
    }


def _right(found: Tensor | None, labels: Tensor | None) -> float | None:
    """Share of the labels found, whatever their order."""
    if found is None or labels is None or found.is_floating_point():
        return None
    guessed, true = sorted(found.reshape(-1).tolist()), sorted(labels.reshape(-1).tolist())
    left = list(true)
    hits = 0
    for label in guessed:
        if label in left:
            left.remove(label)
            hits += 1
    return hits / max(len(true), 1)


def _scores(pixels: Tensor, originals: Tensor) -> Row:
    scores = score(pixels.clamp(0, 1), originals.clamp(0, 1))
    summary = scores.summary()
    kept = ("mse_mean", "mse_median", "mse_worst", "ssim_mean", "ssim_worst")
    decibels = scores.psnr.clamp(max=_DECIBELS)
    return {
        **{key: summary[key] for key in kept},
        "psnr_mean": float(decibels.mean()),
        "mse": scores.mse.tolist(),
        "ssim": scores.ssim.tolist(),
        "psnr": decibels.tolist(),
    }


def gallery_bytes(pixels: Tensor, originals: Tensor | None) -> bytes:
    """Images as eight-bit arrays (n, h, w, c), reconstructions in the originals' order."""
    rebuilt = pixels
    if originals is not None:
        rebuilt = pixels[score(pixels.clamp(0, 1), originals.clamp(0, 1)).order]
    shown = {"reconstructions": _bytes(rebuilt)}
    shown["originals"] = _bytes(rebuilt[:0] if originals is None else originals)
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **shown)
    return buffer.getvalue()


def _bytes(images: Tensor) -> Any:
    plain = torch.nan_to_num(images).clamp(0, 1).mul(255).round().to(torch.uint8)
    return plain.permute(0, 2, 3, 1).contiguous().cpu().numpy()
