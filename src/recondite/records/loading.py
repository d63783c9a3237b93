"""One function for all data: a name, a folder of images, or a person's own function."""

from __future__ import annotations

import difflib
import os
from pathlib import Path
from typing import Any

import numpy as np
import torch

from recondite._validate import choice
from recondite.records.arrays import RawImages
from recondite.records.catalogue import SOURCES, SPLITS, names
from recondite.records.directories import search_path
from recondite.records.folder import read_folder
from recondite.records.images import ImageSet
from recondite.records.transforms import resized
from recondite.records.user_code import accepted, is_dotted, load_object

__all__ = ["load", "load_function"]

_FOLDER_OPTIONS = ("size", "test_fraction", "seed")


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
    choice("split", split, (*SPLITS, "all"))
    text = os.fspath(name)
    if text in SOURCES:
        found = _named(text, split, directory, verify, options)
    elif Path(text).expanduser().is_dir():
        found = _folder(Path(text).expanduser(), split, options, resized(prepare))
    elif is_dotted(text):
        found = _own(text, split, options)
    else:
        near = difflib.get_close_matches(text, names(), n=1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        raise ValueError(
            f"data must be one of {', '.join(names())}, a folder of images or "
            f"package.module:function, got {text!r}{hint}"
        )
    if prepare is None:
        return found
    try:
        return found.prepared(prepare)
    except ValueError as error:
        said = str(error)
        named = said if said.startswith("prepare") else f"prepare {prepare}: {said}"
        raise ValueError(named) from None


def _parts(split: str) -> tuple[str, ...]:
    return SPLITS if split == "all" else (split,)


def _check(name: str, options: dict[str, Any], known: tuple[str, ...]) -> None:
    for option in options:
        if option not in known:
            listed = f": it has {', '.join(known)}" if known else ": it has none"
            raise ValueError(f"{option} is not an option of {name}{listed}")


def _image_set(parts: list[RawImages], name: str, source: str) -> ImageSet:
    records = parts[0] if len(parts) == 1 else parts[0].followed_by(parts[1])
    # frombuffer's arrays are read-only, which tensors cannot be.
    array = records.images if records.images.flags.writeable else records.images.copy()
    images = torch.from_numpy(np.ascontiguousarray(array))
    pixels = images.to(torch.float32).div_(255) if images.dtype == torch.uint8 else images
    return ImageSet(pixels, torch.from_numpy(records.labels), records.classes, name, source)


def _named(
    name: str,
    split: str,
    directory: str | os.PathLike[str] | None,
    verify: bool,
    options: dict[str, Any],
) -> ImageSet:
    source = SOURCES[name]
    _check(name, options, source.options)
    folder = source.obtain(search_path(directory))
    try:
        parts = [source.read(folder, part, verify, **options) for part in _parts(split)]
    except OSError as error:
        raise ValueError(f"{name} cannot be read: {error}") from error
    return _image_set(parts, name, str(folder))


def _folder(folder: Path, split: str, options: dict[str, Any], if_differ: int | None) -> ImageSet:
    _check(f"a folder of images ({folder})", options, _FOLDER_OPTIONS)
    try:
        parts = [
            read_folder(folder, part, if_differ=if_differ, **options) for part in _parts(split)
        ]
    except OSError as error:
        raise ValueError(f"{folder} cannot be read: {error}") from error
    return _image_set(parts, folder.resolve().name, str(folder))


def load_function(name: str, split: str = "train", **options: Any) -> Any:
    """Calls ``package.module:function`` and returns its dataset as it is.

    Args:
      name: The function. It gets the split as its argument ``split``; one without such an argument
        stands for the training set and has no test set.
      split: "train" or "test".
      **options: Passed to the function.
    """
    choice("split", split, SPLITS)
    function = load_object(name)
    if not callable(function):
        raise ValueError(f"{name} must be a function that returns a Dataset")
    given = accepted(function, {"split": split})
    if split != "train" and not given:
        raise ValueError(f"{name} takes no argument 'split', so it has no {split} set: add one")
    _check(name, options, tuple(accepted(function, options)))
    return function(**given, **options)


def _own(name: str, split: str, options: dict[str, Any]) -> ImageSet:
    sets = [
        ImageSet.from_dataset(load_function(name, part, **options), name=name, source=name)
        for part in _parts(split)
    ]
    if len(sets) == 1:
        return sets[0]
    first, second = sets
    if first.shape != second.shape or (first.mean, first.std) != (second.mean, second.std):
        raise ValueError(f"{name} returns splits that differ in shape or scale")
    images, labels = (torch.cat([getattr(s, part) for s in sets]) for part in ("images", "labels"))
    longer = max((s.classes for s in sets), key=len)
    return ImageSet(images, labels, longer, name, name, first.mean, first.std)
