"""Records of every kind: the data sets of the papers, images, tables, texts, and a person's own.

Files are read from a data directory and checked; nothing is downloaded and nothing unpickled.
Names are loaded on first use: saying which data sets are here does not import torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from recondite._lazy import lazy_names

if TYPE_CHECKING:
    from recondite.records.base import Records, Shown
    from recondite.records.blind import BlindGuess
    from recondite.records.catalogue import Availability, available, names
    from recondite.records.files import search_path
    from recondite.records.images import ImageSet, centre_crop, crop16, prepare, resize
    from recondite.records.loading import load, load_function, load_records
    from recondite.records.registry import RecordsKind, kind_of, kinds
    from recondite.records.table_files import read_table
    from recondite.records.tables import Column, TableSet
    from recondite.records.text import TextSet
    from recondite.records.text_files import read_texts

_WHERE = {
    "base": ("Records", "Shown"),
    "blind": ("BlindGuess",),
    "catalogue": ("Availability", "available", "names"),
    "files": ("search_path",),
    "images": ("ImageSet", "centre_crop", "crop16", "prepare", "resize"),
    "registry": ("RecordsKind", "kind_of", "kinds"),
    "loading": ("load", "load_function", "load_records"),
    "table_files": ("read_table",),
    "tables": ("Column", "TableSet"),
    "text": ("TextSet",),
    "text_files": ("read_texts",),
}

__all__ = [
    "Availability",
    "BlindGuess",
    "Column",
    "ImageSet",
    "Records",
    "RecordsKind",
    "Shown",
    "TableSet",
    "TextSet",
    "available",
    "centre_crop",
    "crop16",
    "kind_of",
    "kinds",
    "load",
    "load_function",
    "load_records",
    "names",
    "prepare",
    "read_table",
    "read_texts",
    "resize",
    "search_path",
]

__getattr__, __dir__ = lazy_names(__name__, _WHERE)
