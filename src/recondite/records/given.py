"""Records as a command is given them: a data set, a folder, an image, an array file; or a part."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from recondite.records.base import Records
from recondite.records.catalogue import SOURCES, SPLITS
from recondite.records.image_files import is_picture, read_header, read_pictures
from recondite.records.images import ImageSet, resized
from recondite.records.loading import load_records

__all__ = ["Given", "load_given"]

_RANGE = re.compile(r"(\d*):(\d*)")
_NO_CLASS = ("unknown",)


@dataclass(frozen=True, eq=False)
class Given:
    """Records, in the order in which they are there, on their natural scale.

    Attributes:
      records: The records.
      labelled: Whether their classes are known; all labels are 0 where not.
      named: Whether ``records.classes`` are names: an array file has numbers only.
    """

    records: Records
    labelled: bool = True
    named: bool = True


def load_given(
    text: str,
    *,
    split: str,
    prepare: str | None = None,
    directory: str | os.PathLike[str] | None = None,
) -> Given:
    """Loads what an argument names: ``WHERE``, ``WHERE@test``, ``WHERE@0:300``, ``…@train@0:300``.

    | WHERE | which records |
    | --- | --- |
    | what ``--data`` takes | those of ``split``, unless ``@train``, ``@test`` or ``@all`` says |
    | a folder with ``train`` and ``test`` in it | the same |
    | another folder of images, in subfolders by class or not | all, in the order of their names |
    | an image | that one |
    | ``FILE.npz`` with ``images`` (n, c, h, w) or (n, h, w), and ``labels`` | all |

    Args:
      text: The argument.
      split: Of a data set that has two.
      prepare: "crop16", "resize32", …; None for images as they are.
      directory: The data directory.

    Raises:
      ValueError: In one line: what is missing, or what is wrong with it.
    """
    where, *parts = text.split("@")
    span, asked = None, None
    for part in parts:
        if _RANGE.fullmatch(part) and span is None:
            span = part
        elif part in (*SPLITS, "all") and asked is None:
            asked = part
        else:
            raise ValueError(f"{text!r}: after @ stands train, test, all, or a range START:END")
    found = _loaded(where, asked, split, prepare, directory)
    if span is None:
        return found
    first, last = (int(end) if end else None for end in span.split(":"))
    chosen = range(len(found.records))[first:last]
    if not len(chosen) or (last or 0) > len(found.records):
        raise ValueError(f"{text!r}: the range must lie in 0:{len(found.records)}, the records")
    return Given(found.records.subset(chosen), found.labelled, found.named)


def _loaded(
    where: str,
    asked: str | None,
    split: str,
    prepare: str | None,
    directory: str | os.PathLike[str] | None,
) -> Given:
    path = Path(where).expanduser()
    own = where not in SOURCES and asked is None
    if own and path.suffix.lower() == ".npz":
        return _prepared(_arrays(path), prepare)
    if own and path.is_file() and is_picture(path):
        return _prepared(_images([path], path, prepare), prepare)
    if own and path.is_dir() and not all((path / part).is_dir() for part in SPLITS):
        paths = sorted(one for one in path.rglob("*") if one.is_file() and is_picture(one))
        return _prepared(_images(paths, path, prepare), prepare)
    return Given(
        load_records(
            where,
            asked or split,
            directory=directory,
            prepare=prepare,
            required=prepare is not None,
        )
    )


def _prepared(found: Given, prepare: str | None) -> Given:
    if prepare is None:
        return found
    return Given(found.records.prepared(prepare), found.labelled, found.named)


def _images(paths: list[Path], root: Path, prepare: str | None) -> Given:
    """Image files; their classes are the subfolders that they lie in, where they all do."""
    if not paths:
        raise ValueError(f"{root} holds no images")
    headers = [read_header(path) for path in paths]
    differ = len({header.size for header in headers}) > 1
    if differ and resized(prepare) is None:
        raise ValueError(f"the images in {root} differ in size: give prepare resize32, or the like")
    pixels = read_pictures(
        paths,
        grey=all(header.grey for header in headers),
        size=resized(prepare) if differ else None,
    )
    images = torch.from_numpy(pixels).to(torch.float32).div_(255)
    inside = [path.relative_to(root).parts[:-1] for path in paths]
    if not all(inside):
        return Given(_set(images, None, _NO_CLASS, root), labelled=False)
    classes = tuple(sorted({parts[0] for parts in inside}))
    labels = torch.tensor([classes.index(parts[0]) for parts in inside])
    return Given(_set(images, labels, classes, root))


def _arrays(path: Path) -> Given:
    try:
        # Never unpickle: an object array from a stranger could run code.
        with np.load(path, allow_pickle=False) as held:
            arrays = {name: held[name] for name in held.files}
    except (OSError, ValueError, EOFError) as error:
        raise ValueError(f"{path} is no .npz file of plain arrays") from error
    if "images" not in arrays:
        raise ValueError(f"{path} must hold images, and labels where they are known")
    images = np.asarray(arrays["images"])
    if images.ndim == 3:
        images = images[:, None]
    scale = 255.0 if images.dtype == np.uint8 else 1.0
    if images.ndim != 4 or images.dtype.kind not in "uf" or not len(images):
        raise ValueError(
            f"{path}: images must be (n, c, h, w) or (n, h, w), bytes or pixels in [0, 1], got "
            f"{images.dtype} {images.shape}"
        )
    tensor = torch.from_numpy(images.astype(np.float32)) / scale
    if "labels" not in arrays:
        return Given(_set(tensor, None, _NO_CLASS, path), labelled=False)
    given = np.asarray(arrays["labels"])
    if given.dtype.kind not in "ui" or given.shape != (len(tensor),) or int(given.min()) < 0:
        raise ValueError(
            f"{path}: labels must be one whole number for each of {len(tensor)} images"
        )
    labels = torch.from_numpy(given.astype(np.int64))
    classes = tuple(str(number) for number in range(int(given.max()) + 1))
    return Given(_set(tensor, labels, classes, path), named=False)


def _set(
    images: torch.Tensor, labels: torch.Tensor | None, classes: tuple[str, ...], path: Path
) -> ImageSet:
    known = torch.zeros(len(images), dtype=torch.int64) if labels is None else labels
    return ImageSet(images.contiguous(), known, classes, path.name, str(path))
