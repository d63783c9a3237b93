"""The data sets of the papers, and a person's own, as images in [0, 1] with labels.

Files are read from a data directory and checked; nothing is downloaded and nothing unpickled.
Names are loaded on first use: saying which data sets are here does not import torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from recondite._lazy import lazy_names

if TYPE_CHECKING:
    from recondite.records.catalogue import Availability, available, names
    from recondite.records.directories import search_path
    from recondite.records.images import ImageSet
    from recondite.records.loading import load, load_function
    from recondite.records.transforms import centre_crop, crop16, prepare, resize

_WHERE = {
    "catalogue": ("Availability", "available", "names"),
    "images": ("ImageSet",),
    "loading": ("load", "load_function"),
    "directories": ("search_path",),
    "transforms": ("centre_crop", "crop16", "prepare", "resize"),
}

__all__ = [
    "Availability",
    "ImageSet",
    "available",
    "centre_crop",
    "crop16",
    "load",
    "load_function",
    "names",
    "prepare",
    "resize",
    "search_path",
]

__getattr__, __dir__ = lazy_names(__name__, _WHERE)
