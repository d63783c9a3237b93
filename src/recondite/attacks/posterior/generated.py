"""A generative prior: draws of a model of the records, beside the public ones.

What an attacker can draw counts as public records do. The better the generator, the stronger every
posterior attack; a bad one is found out by the rehearsal, which is on real public records.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from recondite.records import ImageSet
from recondite.records.user_code import is_dotted, load_object

__all__ = ["DRAWS", "real_of", "with_draws"]

DRAWS = 4_000  # of a generator, unless somebody asks for others
_FORM = "must return images (n, c, h, w) in [0, 1] and their labels (n,)"


def with_draws(public: ImageSet, prior: str, count: int, seed: int = 0) -> ImageSet:
    """Public records with the draws of a prior after them, in the same scale.

    Args:
      public: The records that the attacker has; they come first.
      prior: ``package.module:function``, called with a number of draws and a seed, which returns
        images in [0, 1] and labels; or samples as :func:`~recondite.records.given.load_given`
        takes them: a folder with a subfolder for each class, an .npz, a data set's name.
      count: Draws at most.
      seed: For the function.

    Raises:
      ValueError: In one line, where it gives no such records. A function's code is run: it is a
        person's own.
    """
    images, labels = _called(prior, count, seed) if is_dotted(prior) else _loaded(prior, public)
    images, labels = images[:count], labels[:count]
    if images.ndim != 4 or tuple(images.shape[1:]) != public.shape or len(images) != len(labels):
        sides = "×".join(map(str, public.shape))
        raise ValueError(
            f"prior {prior}: must give records of {sides} with one label each, got images "
            f"{tuple(images.shape)} and {len(labels)} labels"
        )
    if not len(images):
        raise ValueError(f"prior {prior}: gives no record")
    if not bool(torch.isfinite(images).all()) or images.min() < -1e-6 or images.max() > 1 + 1e-6:
        raise ValueError(f"prior {prior}: pixels must lie in [0, 1]")
    if labels.min() < 0 or labels.max() >= len(public.classes):
        raise ValueError(
            f"prior {prior}: labels must lie in 0..{len(public.classes) - 1}, the classes"
        )
    held = public.images
    channels = public.shape[0]
    mean = torch.tensor(public.mean or (0.0,) * channels).reshape(-1, 1, 1)
    std = torch.tensor(public.std or (1.0,) * channels).reshape(-1, 1, 1)
    scaled = ((images.cpu().float() - mean) / std).to(held)
    return public.replaced(
        torch.cat([held, scaled]), torch.cat([public.labels, labels.to(public.labels)])
    )


def real_of(public: ImageSet, real: int | None) -> ImageSet:
    """The records among which draws were put, which come first; all where none were."""
    return public if real is None or real == len(public) else public.subset(range(real))


def _called(prior: str, count: int, seed: int) -> tuple[Tensor, Tensor]:
    function: Any = load_object(prior)
    if not callable(function):
        raise ValueError(f"prior {prior}: {_FORM}: it is no function")
    try:
        made = function(count, seed)
    except Exception as error:  # a person's own code raises what it likes
        raise ValueError(f"prior {prior}: {type(error).__name__}: {error}") from error
    if not isinstance(made, tuple | list) or len(made) != 2:
        raise ValueError(f"prior {prior}: {_FORM}")
    return _tensor(made[0]).float(), _tensor(made[1]).long()


def _loaded(prior: str, public: ImageSet) -> tuple[Tensor, Tensor]:
    from recondite.records.given import load_given

    given = load_given(prior, split="train")
    records = given.records
    if not isinstance(records, ImageSet):
        raise ValueError(f"prior {prior}: must hold images, holds {records.kind}")
    if not given.labelled and len(public.classes) > 1:
        raise ValueError(f"prior {prior}: put the images of each class into a subfolder")
    return records.pixels(), records.labels


def _tensor(values: Any) -> Tensor:
    return values.detach() if isinstance(values, Tensor) else torch.as_tensor(np.asarray(values))
