"""What a guess that sees no release scores on the images that the four papers' attacks are run on.

The guess is the mean image of the test set: no attacked image is in it, and no label is used. With
the class, which these attacks are told, it is the mean image of the class. An attack that errs more
than either rebuilds nothing: how its errors are ordered says little about what a release tells.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from recondite_papers.jobs import channel, compare, dirdp
from recondite_papers.jobs.data import Split
from recondite_papers.jobs.leaks import measured
from recondite_papers.jobs.sink import Context, Row

__all__ = ["blind", "guesses"]

_IMAGES = {"compare": 256, "dirdp": 50, "dirdp-v1": 50, "channel": 30}  # as many as are attacked


def blind(context: Context) -> None:
    """One block for each paper and data set."""
    blocks: dict[str, Callable[[], list[Row]]] = {}
    sets = {
        "compare": tuple(compare.DATA),
        "channel": ("cifar10", "fashion-mnist"),
        "dirdp": ("fashion-mnist", "cifar10", "lfw"),
        "dirdp-v1": ("mnist", "cifar10", "lfw"),
    }
    for study, names in sets.items():
        for name in names:
            blocks[f"{study}/{name}"] = partial(_block, context, study, name)
    if context.quick:
        blocks = dict(list(blocks.items())[:1])
    context.blocks(context.sink("blind"), blocks)


def _block(context: Context, study: str, name: str) -> list[Row]:
    if study == "compare":
        data = compare.records(context, name)
    elif study == "channel":
        data = channel.records(context, name)
    else:
        data = dirdp.records(context, name, scale="half" if study == "dirdp" else "published")
    truth = data.images[: _IMAGES[study]]
    found = guesses(data, data.labels[: len(truth)])
    return [
        {"study": study, "data": name, "guess": how, **measured(one[:, None], truth[:, None], data)}
        for how, one in found.items()
    ]


def guesses(data: Split, labels: Tensor) -> dict[str, Tensor]:
    """The test set's mean image, and that of each label's class, once for every label."""
    whole = data.test_images.mean(0)
    means = []
    for label in labels:
        same = data.test_labels == label
        means.append(data.test_images[same].mean(0) if bool(same.any()) else whole)
    return {"mean image": whole.expand(len(labels), *whole.shape), "class mean": torch.stack(means)}
