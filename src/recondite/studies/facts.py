"""What a study's data and model are, with digests that notice a change of either."""

from __future__ import annotations

import hashlib
import importlib.util
import os
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

__all__ = ["Facts", "facts"]

# Nobody's secrets: data that its makers published for everyone. Faces are left out on purpose.
_PUBLIC = ("digits", "mnist-5k", "mnist", "fashion-mnist", "cifar10", "cifar100", "svhn")


@dataclass(frozen=True)
class Facts:
    """What was found.

    Attributes:
      records: Training records.
      test_records: Held-out records.
      shape: (c, h, w) after preparation.
      classes: How many.
      parameters: Trainable parameters of the model.
      shapes: Their shapes.
      public: Whether the records are known to be public.
      data_digest: Of every pixel and label.
      model_digest: Of the file that defines a person's own model; None for ours.
    """

    records: int
    test_records: int
    shape: tuple[int, int, int]
    classes: int
    parameters: int
    shapes: tuple[tuple[int, ...], ...]
    public: bool
    data_digest: str
    model_digest: str | None

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        plain = {key: value for key, value in asdict(self).items() if key != "shapes"}
        return {**plain, "shape": list(self.shape)}


@lru_cache(maxsize=4)
def facts(
    data: str,
    model: str,
    prepare: str | None,
    data_dir: str | None,
    norm: str | None = None,
    weights: str | None = None,
    limit: int | None = None,
) -> Facts:
    """Loads the data and builds the model; ``limit`` as ``records`` of a plan.

    Raises:
      ValueError: In one line, where either cannot be had.
    """
    from recondite.configuration import TrainingConfig
    from recondite.models import count_parameters, resolve
    from recondite.records import load  # imports torch
    from recondite.training.setup import shares

    plan = TrainingConfig(data, model, prepare=prepare)
    parts = [
        load(data, split, directory=data_dir, prepare=plan.preparation)
        for split in ("train", "test")
    ]
    if limit is not None:
        parts = [part.spread(n) for part, n in zip(parts, shares(limit), strict=True)]
    whole = hashlib.sha256()
    for part in parts:
        whole.update(part.images.numpy().tobytes())
        whole.update(part.labels.numpy().tobytes())
    if weights is not None:
        whole.update(Path(weights).read_bytes())
    records, test = parts
    network = resolve(
        model, records.shape, len(records.classes), norm=norm or plan.norm, seed=0, weights=weights
    )
    return Facts(
        records=len(records),
        test_records=len(test),
        shape=records.shape,
        classes=len(records.classes),
        parameters=count_parameters(network),
        shapes=tuple(tuple(p.shape) for p in network.parameters() if p.requires_grad),
        public=data in _PUBLIC,
        data_digest=whole.hexdigest()[:16],
        model_digest=_source(model),
    )


def _source(model: str) -> str | None:
    """Digest of the file behind ``package.module:function``."""
    module, colon, _ = model.partition(":")
    if not colon:
        return None
    found = importlib.util.find_spec(module)
    path = Path(module.replace(".", os.sep) + ".py") if found is None else Path(found.origin or "")
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16] if path.is_file() else None
