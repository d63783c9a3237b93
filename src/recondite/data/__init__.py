"""The data sets of the papers, and a person's own, as images in [0, 1] with labels.

Files are read from a data directory and checked; nothing is downloaded and nothing unpickled.
Names are loaded on first use: saying which data sets are here does not import torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from recondite.data.catalogue import Availability, available, names
    from recondite.data.images import ImageSet
    from recondite.data.loading import load, load_function
    from recondite.data.places import search_path
    from recondite.data.transforms import centre_crop, crop16, prepare, resize

_WHERE = {
    "recondite.data.catalogue": ("Availability", "available", "names"),
    "recondite.data.images": ("ImageSet",),
    "recondite.data.loading": ("load", "load_function"),
    "recondite.data.places": ("search_path",),
    "recondite.data.transforms": ("centre_crop", "crop16", "prepare", "resize"),
}
_HOME = {name: module for module, members in _WHERE.items() for name in members}

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


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'recondite.data' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
