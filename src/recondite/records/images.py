"""A set of labelled images in memory, which says what its pixels mean."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from recondite.records import transforms

__all__ = ["ImageSet"]


@dataclass(frozen=True, eq=False, repr=False)
class ImageSet(Dataset[tuple[Tensor, int]]):
    """Labelled images: a torch dataset of (image, label).

    Attributes:
      images: (n, c, h, w), float32; pixels in [0, 1] unless ``mean`` and ``std`` are given.
      labels: (n,), int64, positions in ``classes``.
      classes: The name of each class.
      name: What the set is called.
      source: Where it was found.
      mean: What was subtracted from the pixels of each channel, or None.
      std: What they were divided by, or None.
    """

    images: Tensor
    labels: Tensor
    classes: tuple[str, ...]
    name: str = "images"
    source: str = "memory"
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if self.images.dtype != torch.float32 or self.images.ndim != 4 or not self.images.numel():
            raise ValueError(
                "images must be a float32 tensor (n, c, h, w) with at least one image, got "
                f"{self.images.dtype} {tuple(self.images.shape)}"
            )
        if self.labels.dtype != torch.int64 or self.labels.shape != self.images.shape[:1]:
            raise ValueError(
                f"labels must be an int64 tensor with one label for each of {len(self.images)} "
                f"images, got {self.labels.dtype} {tuple(self.labels.shape)}"
            )
        low, high = (int(value) for value in torch.aminmax(self.labels))
        if low < 0 or high >= len(self.classes):
            raise ValueError(
                f"labels must lie in 0..{len(self.classes) - 1}, one for each class, got {low} to "
                f"{high}"
            )
        if (self.mean is None) != (self.std is None):
            raise ValueError("mean and std go together: give both or neither")
        if self.mean is None:
            least, most = (float(value) for value in torch.aminmax(self.images))
            if not (least >= 0 and most <= 1):
                raise ValueError(
                    f"pixels must lie in [0, 1], got {least:.4g} to {most:.4g}: pass raw pixels "
                    "and call normalised(mean, std)"
                )

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.images[index], int(self.labels[index])

    def __repr__(self) -> str:
        size = "×".join(str(side) for side in self.shape)
        return (
            f"ImageSet({self.name}: {len(self):,} images {size}, {len(self.classes)} classes, "
            f"{self.pixel_scale})"
        )

    @property
    def shape(self) -> tuple[int, int, int]:
        """(c, h, w) of one image."""
        channels, height, width = self.images.shape[1:]
        return channels, height, width

    @property
    def tensors(self) -> tuple[Tensor, Tensor]:
        """Images and labels: loaders index them at once instead of record by record."""
        return self.images, self.labels

    @property
    def pixel_scale(self) -> str:
        """What a pixel's number means, in words."""
        if self.mean is None or self.std is None:
            return "pixels in [0, 1]"
        shift = ", ".join(f"{value:.4g}" for value in self.mean)
        scale = ", ".join(f"{value:.4g}" for value in self.std)
        return f"(pixel in [0, 1] - ({shift})) / ({scale})"

    def subset(self, indices: Sequence[int] | Tensor | slice) -> ImageSet:
        """Returns the records at these positions, in this order (or where a mask is true)."""
        if isinstance(indices, slice):
            indices = range(len(self))[indices]
        chosen = torch.as_tensor(indices if isinstance(indices, Tensor) else list(indices))
        if chosen.ndim != 1 or not chosen.numel():
            raise ValueError("indices must be a list of at least one position")
        if chosen.dtype == torch.bool:
            if len(chosen) != len(self):
                raise ValueError(f"a mask must have {len(self)} entries, got {len(chosen)}")
            chosen = chosen.nonzero().reshape(-1)
            if not chosen.numel():
                raise ValueError("the mask chooses no record")
        if chosen.dtype.is_floating_point:
            raise ValueError("indices must be whole numbers")
        if int(chosen.min()) < -len(self) or int(chosen.max()) >= len(self):
            raise ValueError(f"indices must lie below {len(self)}, got {int(chosen.max())}")
        chosen = torch.where(chosen < 0, chosen + len(self), chosen).to(self.images.device)
        return dataclasses.replace(self, images=self.images[chosen], labels=self.labels[chosen])

    def spread(self, count: int) -> ImageSet:
        """Returns ``count`` records, evenly spaced: sets that lie sorted by class keep them all."""
        if count >= len(self):
            return self
        return self.subset([index * len(self) // count for index in range(count)])

    def prepared(self, how: str) -> ImageSet:
        """Returns the set cropped or resized as a name says, such as "crop16" or "resize32"."""
        images = transforms.prepare(self.images, how)
        if self.mean is None:
            images = images.clamp(0, 1)  # rounding of a weighted mean
        return dataclasses.replace(self, images=images.contiguous())

    def normalised(self, mean: Sequence[float], std: Sequence[float]) -> ImageSet:
        """Returns the set with (pixel - mean) / std in each channel.

        Args:
          mean: One for each channel, or one for all, of pixels in [0, 1].
          std: As many, above zero.
        """
        if self.mean is not None:
            raise ValueError("the images are normalised already: start from pixels()")
        shift, scale = (_per_channel(v, self.shape[0]) for v in (mean, std))
        if not all(np.isfinite([*shift, *scale])) or min(scale) <= 0:
            raise ValueError("mean must be finite and std finite and above 0")
        images = (self.images - self._channels(shift)) / self._channels(scale)
        return dataclasses.replace(self, images=images, mean=shift, std=scale)

    def standardised(self) -> ImageSet:
        """Returns the set with mean 0 and standard deviation 1 in each channel.

        The two numbers a channel are computed from these records. Use those of the training set
        for the test set: ``test.normalised(train.mean, train.std)``.

        No guarantee: they are an exact function of the records. Accounting of a private training
        run does not cover them; for that, pass constants that do not come from the data to
        ``normalised``.
        """
        mean, std = self.statistics()
        return self.normalised(mean, std)

    def statistics(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Returns the mean and standard deviation of each channel, exact and thus not private."""
        pairs = []
        for channel in range(self.shape[0]):
            values = self.images[:, channel].to(torch.float64)
            pairs.append((float(values.mean()), float(values.std(correction=0))))
        mean, std = zip(*pairs, strict=True)
        if min(std) == 0:
            raise ValueError("a channel has the same value everywhere: there is nothing to scale")
        return mean, std

    def pixels(self, images: Tensor | None = None) -> Tensor:
        """Returns images of this set's scale as pixels in [0, 1].

        Args:
          images: (..., c, h, w) in this set's scale, such as reconstructions, which are not
            clipped; by default the set's own.
        """
        given = self.images if images is None else images
        if self.mean is None or self.std is None:
            return given
        pixels = given * self._channels(self.std).to(given) + self._channels(self.mean).to(given)
        return pixels.clamp(0, 1) if images is None else pixels

    def to(self, device: torch.device | str) -> ImageSet:
        """Returns the set on a device."""
        return dataclasses.replace(
            self, images=self.images.to(device), labels=self.labels.to(device)
        )

    def summary(self) -> dict[str, Any]:
        """Returns what the set is, in plain types."""
        counts = torch.bincount(self.labels.cpu(), minlength=len(self.classes)).tolist()
        return {
            "name": self.name,
            "source": self.source,
            "records": len(self),
            "shape": list(self.shape),
            "classes": len(self.classes),
            "records_per_class": dict(zip(self.classes, counts, strict=True)),
            "pixel_scale": self.pixel_scale,
            "mean": None if self.mean is None else list(self.mean),
            "std": None if self.std is None else list(self.std),
        }

    def _channels(self, values: tuple[float, ...]) -> Tensor:
        return torch.tensor(values, device=self.images.device).reshape(-1, 1, 1)

    @classmethod
    def from_dataset(
        cls,
        dataset: Any,
        classes: Sequence[str] | None = None,
        *,
        name: str = "data",
        source: str = "memory",
    ) -> ImageSet:
        """Returns the records of a map-style dataset of (image, label).

        Args:
          dataset: Images of equal shape (c, h, w) or (h, w): bytes, or numbers in [0, 1].
          classes: Their names; by default the dataset's ``classes`` or the labels' numbers.
          name: What to call the set.
          source: Where it comes from.
        """
        if isinstance(dataset, ImageSet):
            return dataset
        if not hasattr(dataset, "__len__") or not hasattr(dataset, "__getitem__"):
            raise ValueError(
                f"{name} must be a dataset with a length, got {type(dataset).__name__}"
            )
        items = [dataset[index] for index in range(len(dataset))]
        if not items:
            raise ValueError(f"{name} holds no records")
        if not all(isinstance(item, (tuple, list)) and len(item) == 2 for item in items):
            raise ValueError(f"{name} must hold (image, label) pairs")
        images = [_image(image, name) for image, _ in items]
        if len({image.shape for image in images}) > 1:
            raise ValueError(f"{name} must hold images of equal shape")
        labels = torch.tensor([_label(label, name) for _, label in items])
        known = classes if classes is not None else getattr(dataset, "classes", None)
        count = max(int(labels.max()) + 1, 2)
        titles = [str(n) for n in range(count)] if known is None else [str(n) for n in known]
        return cls(torch.stack(images), labels, tuple(titles), name, source)


def _per_channel(values: Sequence[float], channels: int) -> tuple[float, ...]:
    given = tuple(float(value) for value in values)
    if len(given) == 1:
        given *= channels
    if len(given) != channels:
        raise ValueError(f"mean and std must have 1 or {channels} numbers, got {len(given)}")
    return given


def _image(image: Any, name: str) -> Tensor:
    try:
        tensor = torch.as_tensor(image if isinstance(image, Tensor) else np.asarray(image))
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"{name} must hold images as tensors or arrays") from error
    tensor = tensor[None] if tensor.ndim == 2 else tensor
    if tensor.ndim != 3:
        raise ValueError(f"{name} must hold images (c, h, w), got {tuple(tensor.shape)}")
    return tensor.float() / 255 if tensor.dtype == torch.uint8 else tensor.float()


def _label(label: Any, name: str) -> int:
    try:
        return int(label)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"{name} must hold whole numbers as labels, got {label!r}") from error
