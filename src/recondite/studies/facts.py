"""What a study's data and model are, with digests that notice a change of either."""

from __future__ import annotations

import hashlib
import importlib.util
import os
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from recondite.studies.shapes import DataFacts

__all__ = ["Facts", "facts"]

# Nobody's secrets: data that its makers published for everyone. Faces are left out on purpose.
_PUBLIC = ("digits", "mnist-5k", "mnist", "fashion-mnist", "cifar10", "cifar100", "svhn")


@dataclass(frozen=True)
class Facts:
    """What was found.

    Attributes:
      records: Training records.
      test_records: Held-out records.
      shape: Of a record, after preparation.
      classes: How many; 0 where amounts are predicted.
      kind: What the records are, in the plural.
      one_hot: Features that are one category together.
      parameters: Trainable parameters of the model.
      shapes: Their shapes.
      public: Whether the records are known to be public.
      data_digest: Of every pixel and label.
      model_digest: Of the file that defines a person's own model; None for ours.
    """

    records: int
    test_records: int
    shape: tuple[int, ...]
    classes: int
    kind: str
    one_hot: tuple[tuple[int, int], ...]
    parameters: int
    shapes: tuple[tuple[int, ...], ...]
    public: bool
    data_digest: str
    model_digest: str | None

    def described(self, name: str, *, public: bool | None = None) -> DataFacts:
        """What rows say of the records.

        Args:
          name: What they are called.
          public: Whether they are public, where somebody says so.
        """
        return {
            "name": name,
            "records": self.records,
            "test_records": self.test_records,
            "shape": list(self.shape),
            "classes": self.classes,
            "public": self.public if public is None else public,
        }

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        left_out = ("shapes", "one_hot")
        plain = {key: value for key, value in asdict(self).items() if key not in left_out}
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
    adapter: str | None = None,
    truncate: int | None = None,
) -> Facts:
    """Loads the data and builds the model; ``limit`` as ``records`` of a plan.

    Raises:
      ValueError: In one line, where either cannot be had.
    """
    from recondite.configuration import TrainingConfig
    from recondite.models import count_parameters, resolve
    from recondite.training.setup import load_prepared, shares  # imports torch

    plan = TrainingConfig(data, model, prepare=prepare, truncate=truncate)
    parts = [load_prepared(plan, data, split, data_dir) for split in ("train", "test")]
    if limit is not None:
        parts = [part.spread(n) for part, n in zip(parts, shares(limit), strict=True)]
    whole = hashlib.sha256()
    for part in parts:
        whole.update(part.features.numpy().tobytes())
        whole.update(part.labels.numpy().tobytes())
    if weights is not None:
        whole.update(Path(weights).read_bytes())
    records, test = parts
    network = resolve(
        model,
        records.shape,
        records.outputs,
        norm=norm or plan.norm,
        seed=0,
        weights=weights,
        one_hot=records.one_hot,
        adapter=adapter,
    )
    return Facts(
        records=len(records),
        test_records=len(test),
        shape=records.shape,
        classes=len(records.classes),
        kind=records.kind,
        one_hot=records.one_hot,
        parameters=count_parameters(network),
        shapes=tuple(tuple(p.shape) for p in network.parameters() if p.requires_grad),
        public=data in _PUBLIC,
        data_digest=whole.hexdigest()[:16],
        model_digest=_source(model),
    )


def _source(model: str) -> str | None:
    """Digest of the file behind ``package.module:function``, or of a Transformers folder."""
    from recondite.models.pretrained import digest_of, is_folder

    if is_folder(model):
        return digest_of(model)
    module, colon, _ = model.partition(":")
    if not colon:
        return None
    found = importlib.util.find_spec(module)
    path = Path(module.replace(".", os.sep) + ".py") if found is None else Path(found.origin or "")
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16] if path.is_file() else None
