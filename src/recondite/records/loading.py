"""One function for all data: a name, a folder of images, a person's own function, any kind."""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from recondite._validate import choice
from recondite.records.arrays import RawImages
from recondite.records.base import Records
from recondite.records.catalogue import SOURCES, SPLITS
from recondite.records.files import search_path
from recondite.records.image_files import read_folder
from recondite.records.images import ImageSet, resized
from recondite.records.registry import kind_of
from recondite.records.user_code import accepted, load_object

__all__ = ["load", "load_folder", "load_function", "load_named", "load_own", "load_records"]

_HUB = "hf:"  # models that read texts
_DIFFER = "if_differ"  # the size that prepare brings a folder's images to where they differ
_FOLDER_OPTIONS = ("size", "test_fraction", "seed")


def load_records(
    name: str | os.PathLike[str],
    split: str = "train",
    *,
    directory: str | os.PathLike[str] | None = None,
    prepare: str | None = None,
    required: bool = True,
    verify: bool = True,
    model: str = "",
    truncate: int | None = None,
    **options: Any,
) -> Records:
    """Loads records of any kind, ours or registered: see :mod:`recondite.records.registry`.

    Args:
      name: What a ``--data`` argument takes.
      split: "train", "test", or "all" for the one followed by the other.
      directory: The data directory; by default RECONDITE_DATA, ``./data`` or the user's.
      prepare: "crop16", "resize16", "resize32", … or None for images as they are.
      required: Whether records that are no images are refused where ``prepare`` is given.
      verify: Compares files with what was published (checksums, or sizes).
      model: The network that they are for: its tokenizer reads texts.
      truncate: Cut texts to so many tokens.
      **options: Of the kind.

    Raises:
      ValueError: In one line: what is missing and where to put it, or what is wrong with it.
    """
    choice("split", split, (*SPLITS, "all"))
    text, size = os.fspath(name), resized(prepare)
    if model.startswith(_HUB):
        text = _with_columns(text)
    kind = kind_of(text)
    if size is not None and kind.sizes_differ:
        options[_DIFFER] = size
    if kind.tokenised:
        options |= {"model": model, "truncate": truncate}
    elif truncate is not None:
        raise ValueError(f"truncate is for texts: {text} holds none")
    records = kind.load(text, split, directory=directory, verify=verify, **options)
    if prepare is None:
        return records
    try:
        return records.prepared(prepare, required=required)
    except ValueError as error:
        reason = str(error)
        named = reason if reason.startswith("prepare") else f"prepare {prepare}: {reason}"
        raise ValueError(named) from None


def _with_columns(data: str) -> str:
    """A CSV for a model of texts: its columns text and label where none are named.

    Raises:
      ValueError: With the columns that it has, where those are not among them.
    """
    if not data.lower().endswith(".csv") or not Path(data).expanduser().is_file():
        return data
    with Path(data).expanduser().open(encoding="utf-8-sig", errors="replace", newline="") as file:
        names = [name.strip() for name in next(csv.reader(file), [])]
    if {"text", "label"} <= set(names):
        return f"{data}#text,label"
    raise ValueError(
        f"{data}: the model reads texts: name their columns as {Path(data).name}#TEXT,LABEL; it "
        f"has {', '.join(names[:8])}"
    )


def load(
    name: str | os.PathLike[str],
    split: str = "train",
    *,
    directory: str | os.PathLike[str] | None = None,
    prepare: str | None = None,
    verify: bool = True,
    **options: Any,
) -> ImageSet:
    """Loads labelled images, with pixels in [0, 1].

    | name | options |
    | --- | --- |
    | digits, mnist-5k, mnist, fashion-mnist, cifar10, svhn | |
    | cifar100 | ``labels``: "fine" or "coarse" |
    | lfw | ``per_person``, ``size``, ``seed`` |
    | celeba | ``attribute``, ``size`` |
    | a folder with a subfolder of images for each class | ``size``, ``test_fraction``, ``seed`` |
    | ``package.module:function`` | passed to the function |

    Args:
      name: One of the above. A folder in the current one is ``./name`` if a data set has its name.
      split: "train", "test", or "all" for the one followed by the other.
      directory: The data directory; by default RECONDITE_DATA, ``./data`` or the user's.
      prepare: "crop16", "resize16", "resize32", … or None for images as they are.
      verify: Compares files with what was published (checksums, or sizes).
      **options: Of the data set, as above.

    Raises:
      ValueError: In one line: what is missing and where to put it, or what is wrong with it.

    Example:
      >>> load("digits")
      ImageSet(digits: 1,437 images 1×8×8, 10 classes, pixels in [0, 1])
    """
    records = load_records(
        name, split, directory=directory, prepare=prepare, required=False, verify=verify, **options
    )
    if not isinstance(records, ImageSet):
        raise ValueError(
            f"{os.fspath(name)} holds {records.kind}, and images are needed here: "
            "recondite.records.load_records loads it"
        )
    return records


def _parts(split: str) -> tuple[str, ...]:
    return SPLITS if split == "all" else (split,)


def _check(name: str, options: Mapping[str, Any], known: tuple[str, ...]) -> None:
    for option in options:
        if option not in known:
            listed = f": it has {', '.join(known)}" if known else ": it has none"
            raise ValueError(f"{option} is not an option of {name}{listed}")


def _image_set(parts: list[RawImages], name: str, source: str, public: bool = False) -> ImageSet:
    records = parts[0] if len(parts) == 1 else parts[0].followed_by(parts[1])
    # frombuffer's arrays are read-only, which tensors cannot be.
    array = records.images if records.images.flags.writeable else records.images.copy()
    images = torch.from_numpy(np.ascontiguousarray(array))
    pixels = images.to(torch.float32).div_(255) if images.dtype == torch.uint8 else images
    labels = torch.from_numpy(records.labels)
    return ImageSet(pixels, labels, records.classes, name, source, public=public)


def load_named(
    name: str,
    split: str,
    *,
    directory: str | os.PathLike[str] | None = None,
    verify: bool = True,
    **options: Any,
) -> ImageSet:
    """Loads a data set of the catalogue."""
    source = SOURCES[name]
    _check(name, options, source.options)
    folder = source.obtain(search_path(directory))
    try:
        parts = [source.read(folder, part, verify, **options) for part in _parts(split)]
    except OSError as error:
        raise ValueError(f"{name} cannot be read: {error}") from error
    return _image_set(parts, name, str(folder), source.public and verify)


def load_folder(
    data: str,
    split: str,
    *,
    directory: str | os.PathLike[str] | None = None,
    verify: bool = True,
    **options: Any,
) -> ImageSet:
    """Loads a folder of images."""
    del directory, verify  # the folder is named, and nothing is published to compare with
    folder = Path(data).expanduser()
    if_differ = options.pop(_DIFFER, None)
    _check(f"a folder of images ({folder})", options, _FOLDER_OPTIONS)
    try:
        parts = [
            read_folder(folder, part, if_differ=if_differ, **options) for part in _parts(split)
        ]
    except OSError as error:
        raise ValueError(f"{folder} cannot be read: {error}") from error
    return _image_set(parts, folder.resolve().name, str(folder))


def load_function(name: str, split: str = "train", **options: Any) -> Any:
    """Returns the dataset of ``package.module:function``, or of an object, as it is.

    Args:
      name: The function. It gets the split as its argument ``split``. What takes no such argument,
        or is a dataset itself, stands for the training set and has no test set, unless it is, or
        returns, a mapping from splits to datasets (Hugging Face's ``DatasetDict``).
      split: "train" or "test".
      **options: Passed to the function.
    """
    choice("split", split, SPLITS)
    function = load_object(name)
    given: Mapping[str, Any] = {}
    if callable(function):
        given = accepted(function, {"split": split})
        _check(name, options, tuple(accepted(function, options)))
        function = function(**given, **options)
    elif not hasattr(function, "__getitem__"):
        raise ValueError(f"{name} must be a function that returns a Dataset, or a Dataset")
    else:
        _check(name, options, ())
    if isinstance(function, Mapping):
        if split not in function:
            raise ValueError(f"{name} has no split {split}: it has {', '.join(map(str, function))}")
        return function[split]
    if split != "train" and not given:
        raise ValueError(f"{name} takes no argument 'split', so it has no {split} set: add one")
    return function


def load_own(
    name: str,
    split: str,
    *,
    directory: str | os.PathLike[str] | None = None,
    verify: bool = True,
    **options: Any,
) -> Records:
    """Loads what a person's own function returns: records of any kind, or a dataset of images."""
    del directory, verify
    returned = [load_function(name, part, **options) for part in _parts(split)]
    sets = [
        one if isinstance(one, Records) else ImageSet.from_dataset(one, name=name, source=name)
        for one in returned
    ]
    if len(sets) == 1:
        return sets[0]
    first, second = sets
    if (type(first), first.shape, first.scale) != (type(second), second.shape, second.scale):
        raise ValueError(f"{name} returns splits that differ in shape or scale")
    longer = max(sets, key=lambda one: len(one.classes))
    features, labels = (torch.cat(parts) for parts in zip(*(s.tensors for s in sets), strict=True))
    return longer.replaced(features, labels)
