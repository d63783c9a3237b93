"""A set of labelled images in memory, which says what its pixels mean, and how it is made smaller.

Biswas et al., "Comparing privacy notions …" (2025), compare defences on small images, 16x16:
MNIST cropped at the centre ("crop16"), Fashion-MNIST resized ("resize16").
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from recondite._validate import at_least
from recondite.metrics.floors import Metric
from recondite.metrics.images import score
from recondite.records.base import Records
from recondite.records.image_files import png
from recondite.records.sources import classes_of, labelled_images

__all__ = ["ImageSet", "centre_crop", "crop16", "prepare", "resize", "resized"]

_NAMES = re.compile(r"(crop|resize)([1-9][0-9]{0,3})")


def centre_crop(images: Tensor, size: int) -> Tensor:
    """Returns the middle size x size of each image; where it cannot be even, nearer the top left.

    Example:
      >>> import torch
      >>> centre_crop(torch.arange(16.0).reshape(1, 4, 4), 2)
      tensor([[[ 5.,  6.],
               [ 9., 10.]]])
    """
    at_least("size", size, 1)
    height, width = images.shape[-2:]
    if size > height or size > width:
        raise ValueError(f"cannot crop images of {height}×{width} to {size}×{size}: resize them")
    top, left = (height - size) // 2, (width - size) // 2
    return images[..., top : top + size, left : left + size]


def crop16(images: Tensor) -> Tensor:
    """Returns the middle 16x16 of each image."""
    return centre_crop(images, 16)


def resize(images: Tensor, size: int) -> Tensor:
    """Returns each image at size x size: bilinear, with antialiasing when it shrinks."""
    at_least("size", size, 1)
    height, width = images.shape[-2:]
    if (height, width) == (size, size):
        return images
    flat = images.reshape(-1, 1, height, width)
    small = torch.nn.functional.interpolate(
        flat, size=(size, size), mode="bilinear", align_corners=False, antialias=True
    )
    return small.reshape(*images.shape[:-2], size, size)


def resized(how: str | None) -> int | None:
    """The size that a preparation brings images of any size to; None where it does not resize."""
    match = None if how is None else _NAMES.fullmatch(how)
    return int(match[2]) if match is not None and match[1] == "resize" else None


def prepare(images: Tensor, how: str) -> Tensor:
    """Returns the images cropped or resized as a name says, such as "crop16" or "resize32"."""
    match = _NAMES.fullmatch(how)
    if match is None:
        raise ValueError(f"prepare must be cropN or resizeN, such as crop16, got {how!r}")
    function = centre_crop if match[1] == "crop" else resize
    return function(images, int(match[2]))


@dataclass(frozen=True, eq=False, repr=False)
class ImageSet(Records):
    """Labelled images: a torch dataset of (image, label).

    Attributes:
      images: (n, c, h, w), float32; pixels in [0, 1] unless ``mean`` and ``std`` are given.
      labels: (n,), int64, positions in ``classes``.
      classes: The name of each class.
      name: What the set is called.
      source: Where it was found.
      mean: What was subtracted from the pixels of each channel, or None.
      std: What they were divided by, or None.
      public: Whether the images are known to be public.
    """

    kind: ClassVar = "images"
    metrics: ClassVar = (
        Metric("mse", "MSE", "lower", perfect=0.0, gain="share"),
        Metric("psnr", "PSNR", "higher", unit="dB", perfect=math.inf, gain="none"),
        Metric("ssim", "SSIM", "higher"),
    )
    exposure: ClassVar = "ssim"
    media: ClassVar = "image/png"
    typical_name: ClassVar = "mean image"

    images: Tensor
    labels: Tensor
    classes: tuple[str, ...]
    name: str = "images"
    source: str = "memory"
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    public: bool = False

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
    def features(self) -> Tensor:
        """The images."""
        return self.images

    @property
    def pixel_scale(self) -> str:
        """What a pixel's number means, in words."""
        if self.mean is None or self.std is None:
            return "pixels in [0, 1]"
        shift = ", ".join(f"{value:.4g}" for value in self.mean)
        scale = ", ".join(f"{value:.4g}" for value in self.std)
        return f"(pixel in [0, 1] - ({shift})) / ({scale})"

    @property
    def scale(self) -> str:
        """What a pixel's number means, in words."""
        return self.pixel_scale

    def replaced(self, features: Tensor, labels: Tensor) -> ImageSet:
        """Returns a set of the same scale with these images."""
        return dataclasses.replace(self, images=features, labels=labels)

    @property
    def unit_range(self) -> bool:
        """Pixels are in [0, 1]."""
        return True

    def prepared(self, how: str, *, required: bool = True) -> ImageSet:
        """Returns the set cropped or resized as a name says, such as "crop16" or "resize32"."""
        del required
        images = prepare(self.images, how)
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

    def natural(self, features: Tensor | None = None) -> Tensor:
        """Returns images of this set's scale as pixels; see ``pixels``."""
        return self.pixels(features)

    def typical(self) -> Tensor:
        """Returns the mean image: of all guesses, the one of least expected squared error."""
        return self.images.mean(0)

    def distances(self, rebuilt: Tensor, originals: Tensor) -> Tensor:
        """Squared errors of all pairs; pixels are clipped first, which no attacker would omit."""
        rows, columns = (self._clipped(part).flatten(1).double() for part in (originals, rebuilt))
        return torch.cdist(rows, columns).square()

    def compare(self, rebuilt: Tensor, originals: Tensor) -> dict[str, Tensor]:
        """MSE, PSNR and SSIM of each image, of pixels in [0, 1]; reconstructions are clipped."""
        found = score(self._clipped(rebuilt), self._clipped(originals), matched=False)
        return {"mse": found.mse, "psnr": found.psnr, "ssim": found.ssim}

    def rendered(
        self, rebuilt: Tensor, original: Tensor, *, reveal: bool
    ) -> tuple[bytes | None, bytes | None]:
        """Returns both as PNG files, or nothing: a good reconstruction shows the original."""
        if not reveal:
            return None, None
        first, second = (png(self.pixels(part).cpu().numpy()) for part in (original, rebuilt))
        return first, second

    def _clipped(self, images: Tensor) -> Tensor:
        return self.pixels(images).clamp(0, 1)

    def summary(self) -> dict[str, object]:
        """Returns what the set is, in plain types."""
        return {**super().summary(), "pixel_scale": self.pixel_scale}

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
        """Returns the records of a map-style dataset of (image, label), or of rows with both.

        Args:
          dataset: Images of equal shape as :func:`recondite.records.sources.as_tensor` takes them,
            such as a data set of torchvision or of Hugging Face.
          classes: Their names; by default the dataset's, or the labels' numbers.
          name: What to call the set.
          source: Where it comes from.
        """
        if isinstance(dataset, ImageSet):
            return dataset
        images, numbers = labelled_images(dataset, name)
        labels = torch.tensor(numbers)
        known = classes if classes is not None else classes_of(dataset)
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
