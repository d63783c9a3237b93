"""Data sets as other libraries have them (torch, torchvision, Hugging Face): rows and images.

A data set is asked for its records by ``dataset[i]`` and never bypassed: what it hands out, after
its own transforms, is what is trained on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import IterableDataset

from recondite.records.image_files import GREY

__all__ = ["as_tensor", "classes_of", "is_picture_object", "labelled_images", "refuse_streams"]

_IMAGES = ("image", "img", "pixel_values", "pixels", "input", "x")
_LABELS = ("label", "labels", "target", "targets", "class", "y", "fine_label")
_CHANNELS = (1, 3)


def refuse_streams(dataset: Any, name: str) -> None:
    """Refuses what has no length or no records by number.

    Raises:
      ValueError: In one line with the remedy: without the number of records nothing is accounted.
    """
    stream = isinstance(dataset, IterableDataset)  # one may have a length, but no record by number
    if stream or not hasattr(dataset, "__len__") or not hasattr(dataset, "__getitem__"):
        kind = "an IterableDataset" if stream else type(dataset).__name__
        raise ValueError(
            f"{name} must be a map-style dataset with a length, got {kind}: its records are "
            "counted and drawn by number; put them into memory (list(stream)) or into files"
        )


def is_picture_object(value: Any) -> bool:
    """Tells whether this is an image of PIL, without importing PIL."""
    return hasattr(value, "getbands") and hasattr(value, "convert")


def as_tensor(image: Any, name: str) -> Tensor:
    """One image as float numbers (c, h, w): bytes, also those of a PIL image, become [0, 1].

    Args:
      image: A tensor or array (c, h, w), (h, w) or, with 1 or 3 channels, (h, w, c); or of PIL.
      name: What holds it.
    """
    if is_picture_object(image):
        if image.mode[0] in "IF":
            raise ValueError(f"{name} has images of more than 8 bits a pixel: convert them to 8")
        image = np.array(image.convert("L" if image.mode in GREY else "RGB"))
    try:
        tensor = torch.as_tensor(image if isinstance(image, Tensor) else np.array(image))
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"{name} must hold images as tensors, arrays or of PIL") from error
    tensor = tensor[None] if tensor.ndim == 2 else tensor
    if tensor.ndim != 3:
        raise ValueError(f"{name} must hold images (c, h, w), got {tuple(tensor.shape)}")
    if tensor.shape[0] not in _CHANNELS and tensor.shape[2] in _CHANNELS:
        tensor = tensor.permute(2, 0, 1)
    return tensor.float() / 255 if tensor.dtype == torch.uint8 else tensor.float()


def labelled_images(dataset: Any, name: str) -> tuple[list[Tensor], list[int]]:
    """The images and labels of a data set of pairs, or of rows with named columns.

    Raises:
      ValueError: In one line: what it holds is nothing of this.
    """
    refuse_streams(dataset, name)
    items = [_pair(dataset[index], name) for index in range(len(dataset))]
    if not items:
        raise ValueError(f"{name} holds no records")
    images = [as_tensor(image, name) for image, _ in items]
    if len({image.shape for image in images}) > 1:
        raise ValueError(f"{name} must hold images of equal shape")
    return images, [_label(label, name) for _, label in items]


def classes_of(dataset: Any) -> Sequence[str] | None:
    """The names of the classes, where a data set has them (``classes``, ``features``)."""
    known = getattr(dataset, "classes", None)
    features = getattr(dataset, "features", None)
    if known is None and isinstance(features, Mapping):
        column = next((key for key in _LABELS if key in features), None)
        known = getattr(features.get(column), "names", None)
    return known


def _pair(item: Any, name: str) -> tuple[Any, Any]:
    if isinstance(item, Mapping):
        found = [next((k for k in keys if k in item), None) for keys in (_IMAGES, _LABELS)]
        if None in found:
            raise ValueError(
                f"{name} must have a column image and a column label, got "
                f"{', '.join(map(str, item))}: rename them, or give a table as FILE.csv or .parquet"
            )
        return item[found[0]], item[found[1]]
    if not (isinstance(item, tuple | list) and len(item) == 2):
        raise ValueError(f"{name} must hold (image, label) pairs")
    return item[0], item[1]


def _label(label: Any, name: str) -> int:
    try:
        return int(label)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"{name} must hold whole numbers as labels, got {label!r}") from error
