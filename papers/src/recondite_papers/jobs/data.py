"""The papers' data sets as tensors on a device, in the papers' pixel scales."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from recondite.records import load
from recondite.records.images import prepare as prepared

__all__ = ["SCALES", "Split", "pack", "split"]

# Mean and spread that tutorials publish for the 28×28 training sets; Biswas et al. name none,
# but their reconstruction errors are on this scale (see the page of that study).
SCALES: dict[str, dict[str, tuple[float, float]]] = {
    "published": {
        "mnist": (0.1307, 0.3081),
        "mnist-5k": (0.1307, 0.3081),
        "fashion-mnist": (0.2860, 0.3530),
        "cifar10": (0.4734, 0.2516),
        "lfw": (0.5, 0.25),
    },
    "half": {},
    "unit": {},
}


@dataclass(frozen=True)
class Split:
    """Training and test records in a model's scale.

    Attributes:
      images: (N, c, h, w).
      labels: (N,).
      test_images: (T, c, h, w).
      test_labels: (T,).
      mean: Subtracted from pixels in [0, 1].
      std: Divided by.
      name: The data set.
      classes: How many.
    """

    images: Tensor
    labels: Tensor
    test_images: Tensor
    test_labels: Tensor
    mean: float
    std: float
    name: str
    classes: int

    @property
    def shape(self) -> tuple[int, int, int]:
        """(c, h, w)."""
        channels, height, width = self.images.shape[1:]
        return int(channels), int(height), int(width)

    @property
    def bounds(self) -> tuple[float, float]:
        """Black and white in the model's scale."""
        return (0.0 - self.mean) / self.std, (1.0 - self.mean) / self.std

    def pixels(self, images: Tensor) -> Tensor:
        """Back to [0, 1]."""
        return images * self.std + self.mean


def split(
    name: str,
    *,
    device: str,
    data_dir: str | None,
    prepare: str | None = None,
    scale: str = "published",
    records: int | None = None,
) -> Split:
    """Loads a data set.

    Args:
      name: "mnist", "fashion-mnist", "cifar10", "lfw" or "mnist-5k".
      device: Where to put it.
      data_dir: The data directory; a packed ``NAME.npz`` (or ``NAME-1.npz``, …) there comes first.
      prepare: "crop16", "resize32", … or None.
      scale: "published", "own" (this data's mean and spread), "half" ((x-.5)/.5) or "unit".
      records: At most so many training records, and a fifth as many test records.
    """
    parts = _packed(name, data_dir)
    if parts is None:
        sets = [load(name, part, directory=data_dir) for part in ("train", "test")]
        parts = [t for s in sets for t in (s.images, s.labels)]
    images, labels, tests, test_labels = parts
    if records is not None:
        images, labels = images[:records], labels[:records]
        tests, test_labels = tests[: records // 5], test_labels[: records // 5]
    if prepare is not None:
        images, tests = prepared(images, prepare), prepared(tests, prepare)
    if scale == "own":
        mean, std = float(images.mean()), float(images.std())
    else:
        mean, std = {"half": (0.5, 0.5), "unit": (0.0, 1.0)}.get(scale) or SCALES[scale][name]
    moved = [((t - mean) / std).to(device) for t in (images, tests)]
    classes = int(max(labels.max(), test_labels.max())) + 1
    return Split(
        moved[0], labels.to(device), moved[1], test_labels.to(device), mean, std, name, classes
    )


def _packed(name: str, data_dir: str | None) -> list[Tensor] | None:
    if data_dir is None:
        return None
    files = sorted(Path(data_dir).glob(f"{name}-[0-9].npz")) or sorted(
        Path(data_dir).glob(f"{name}.npz")
    )
    if not files:
        return None
    parts: dict[str, list[np.ndarray]] = {}
    for file in files:
        with np.load(file) as stored:
            for key in stored.files:
                parts.setdefault(key, []).append(stored[key])
    joined = {key: torch.from_numpy(np.concatenate(value)) for key, value in parts.items()}
    return [
        joined["images"].float() / 255,
        joined["labels"].long(),
        joined["test_images"].float() / 255,
        joined["test_labels"].long(),
    ]


def pack(name: str, data_dir: str | None, out: Path, parts: int = 1) -> list[Path]:
    """Writes a data set as compressed bytes, in parts that can travel one by one."""
    sets = [load(name, part, directory=data_dir) for part in ("train", "test")]
    arrays = {}
    for prefix, records in zip(("", "test_"), sets, strict=True):
        arrays[f"{prefix}images"] = (records.images * 255).round().to(torch.uint8).numpy()
        arrays[f"{prefix}labels"] = records.labels.numpy().astype(np.int16)
    out.mkdir(parents=True, exist_ok=True)
    files = []
    for part in range(parts):
        chosen: dict[str, Any] = {
            key: np.array_split(value, parts)[part] for key, value in arrays.items()
        }
        file = out / (f"{name}.npz" if parts == 1 else f"{name}-{part + 1}.npz")
        np.savez_compressed(file, **chosen)
        files.append(file)
    return files
