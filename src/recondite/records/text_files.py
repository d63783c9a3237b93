"""Texts in files: CSV or JSON lines with a column of texts, or folders of .txt files by class.

Token ids are those of the model's own tokenizer, from its folder; nothing is downloaded. What
cannot be used is refused in one line that names the file and the row.
"""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from recondite._validate import at_least, probability
from recondite.records.arrays import needed, stratified
from recondite.records.text import PADDING, TextSet

__all__ = ["load_text", "read_texts", "tokenizer_of"]

HUB = "hf:"
_COLUMNS = ("text", "label")
_MOST = 1_000  # classes
_LONGEST = 100_000  # tokens that a tokenizer says when it has no limit


@dataclass(frozen=True)
class _Texts:
    """Texts as they lie in the files, each with its class, its place and perhaps its person."""

    path: Path
    texts: list[str]
    labels: list[str] | None
    places: list[str]
    people: list[str] | None = None


def load_text(
    data: str,
    split: str,
    *,
    model: str = "",
    truncate: int | None = None,
    directory: str | os.PathLike[str] | None = None,
    verify: bool = True,
    test_fraction: float = 0.2,
    seed: int = 0,
    **options: Any,
) -> TextSet:
    """Loads one split of texts; classes have their share in both.

    Args:
      data: ``FILE.csv#TEXT,LABEL`` or ``FILE.csv#TEXT,LABEL,PERSON`` (also .jsonl, whose columns
        are ``text`` and ``label`` where none are named), or a folder of .txt files by class.
        Without classes: ``FILE.csv#TEXT,``, ``FILE.csv#TEXT,,PERSON``, or a folder of .txt files.
      split: "train", "test" or "all".
      model: ``hf:FOLDER``, whose tokenizer is used.
      truncate: Cut texts to so many tokens; None refuses those over the model's context.
      directory: Ignored: the file is named.
      verify: Nothing is published to compare with: ignored.
      test_fraction: The share that is held out.
      seed: Of the split.
      **options: There are none.
    """
    del directory, verify
    for option in options:
        raise ValueError(f"{option} is not an option of texts: they have test_fraction and seed")
    whole = read_texts(data, tokenizer_of(model), truncate=truncate)
    if split == "all":
        return whole
    held = probability("test_fraction", test_fraction)
    rng = np.random.default_rng(at_least("seed", seed, 0))
    kept = max(1, min(round(len(whole) * (1 - held)), len(whole) - 1))
    train, test = stratified(whole.labels.numpy(), kept, rng)
    return whole.subset(torch.from_numpy(train if split == "train" else test))


def tokenizer_of(model: str) -> Any:
    """The tokenizer in a model's folder; no code of the folder is run."""
    if not model.startswith(HUB):
        raise ValueError(
            f"texts need a Transformers model, whose tokenizer reads them: model {HUB}FOLDER, got "
            f"{model!r}"
        )
    folder = Path(model.removeprefix(HUB)).expanduser()
    if not folder.is_dir():
        raise ValueError(f"model {model}: there is no folder {folder}; nothing is downloaded")
    library = needed("transformers", "recondite[text]")
    try:
        return library.AutoTokenizer.from_pretrained(
            str(folder), local_files_only=True, trust_remote_code=False
        )
    except Exception as error:  # the library raises whatever it stumbles over in the files
        why = " ".join(str(error).split())[:120]
        raise ValueError(f"model {model} has no tokenizer that can be read: {why}") from error


def read_texts(data: str, tokenizer: Any, *, truncate: int | None = None) -> TextSet:
    """Reads texts and makes ids of them.

    Args:
      data: As for :func:`load_text`.
      tokenizer: Of Transformers.
      truncate: Cut texts to so many tokens, special ones with them.
    """
    found = _read(data)
    found, left_out = _one_each(found)
    classes = sorted(set(found.labels or ()))
    if found.labels is not None and (
        not 2 <= len(classes) <= _MOST or len(classes) == len(found.labels)
    ):
        raise ValueError(
            f"{found.path}: the labels must be 2 to {_MOST:,} classes, fewer than texts, got "
            f"{len(classes)}"
        )
    limit = int(getattr(tokenizer, "model_max_length", _LONGEST))
    if truncate is not None:
        limit = min(at_least("truncate", truncate, 4), limit)
    rows = []
    for text, place in zip(found.texts, found.places, strict=True):
        if not text.strip():
            raise ValueError(f"{found.path}: {place} has an empty text: leave it out")
        options = {} if truncate is None else {"truncation": True, "max_length": limit}
        ids = tokenizer(text, verbose=False, **options)["input_ids"]
        if len(ids) > limit:
            raise ValueError(
                f"{found.path}: {place} has {len(ids):,} tokens where the model takes {limit:,}: "
                f"cut texts with truncate {limit}"
            )
        if all(token in tokenizer.all_special_ids for token in ids):
            raise ValueError(f"{found.path}: {place} has no token that the model knows")
        if found.labels is None and len(ids) < 2:
            raise ValueError(
                f"{found.path}: {place} has one token, and nothing to predict after it: leave it "
                "out"
            )
        rows.append(ids)
    tokens = torch.full((len(rows), max(map(len, rows))), float(PADDING))
    for at, ids in enumerate(rows):
        tokens[at, : len(ids)] = torch.tensor(ids, dtype=torch.float32)
    places = {name: at for at, name in enumerate(classes)}
    labels = torch.tensor([places[label] for label in found.labels or ()])
    if found.labels is None:
        labels = torch.zeros(len(rows), dtype=torch.int64)
    return TextSet(
        tokens,
        labels,
        tuple(classes),
        tokenizer,
        found.path.stem,
        str(found.path),
        unit="text" if found.people is None else "person",
        left_out=left_out,
    )


def _one_each(found: _Texts) -> tuple[_Texts, int]:
    """The first text of each person, and how many others there are.

    Guarantee: where everybody has one record, adding or removing a record is adding or removing a
    person, and an account of records is one of people. No sum over a person's texts is needed.
    """
    if found.people is None:
        return found, 0
    first: dict[str, int] = {}
    for place, person in enumerate(found.people):
        if not person:
            raise ValueError(f"{found.path}: {found.places[place]} names no person")
        first.setdefault(person, place)
    kept = list(first.values())
    texts, places = ([part[at] for at in kept] for part in (found.texts, found.places))
    labels = None if found.labels is None else [found.labels[at] for at in kept]
    return _Texts(found.path, texts, labels, places, list(first)), len(found.texts) - len(kept)


def _read(data: str) -> _Texts:
    path, columns = place_of(data)
    if path.is_dir():
        return _folder(path)
    if not path.is_file():
        raise ValueError(f"there is no file of texts {path}")
    named = [column for column in columns if column]
    whole = len(columns) in (1, 2, 3) and columns[0] and all(columns[2:])
    if not whole or len(set(named)) < len(named):
        raise ValueError(
            f"{path}: name the columns as {path.name}#TEXT,LABEL or #TEXT,LABEL,PERSON (#TEXT, or "
            f"#TEXT,,PERSON without classes), got {','.join(columns) or 'none'}"
        )
    rows = _jsonl(path) if path.suffix.lower() == ".jsonl" else _csv(path)
    parts: list[list[str]] = [[] for _ in columns]
    places = []
    for place, row in rows:
        for part, column in zip(parts, columns, strict=True):
            if not column:
                continue
            if column not in row:
                raise ValueError(
                    f"{path}: {place} has no column {column!r}: it has {', '.join(row)}"
                )
            part.append(row[column])
        if len(columns) > 1 and columns[1] and not parts[1][-1]:
            raise ValueError(f"{path}: {place} has no label in column {columns[1]!r}")
        places.append(place)
    if len(places) < 2:
        raise ValueError(f"{path} must have at least two texts")
    labels = parts[1] if len(columns) > 1 and columns[1] else None
    return _Texts(path, parts[0], labels, places, parts[2] if len(parts) == 3 else None)


def place_of(data: str) -> tuple[Path, Sequence[str]]:
    """The file, and the columns after it: the file's name may have a # in it."""
    whole = Path(data).expanduser()
    if whole.exists():
        return whole, _COLUMNS if whole.suffix.lower() == ".jsonl" else ()
    name, _, columns = data.rpartition("#")
    path = Path(name or data).expanduser()
    return path, [column.strip() for column in columns.split(",")] if name else ()


def _csv(path: Path) -> list[tuple[str, dict[str, str]]]:
    before = csv.field_size_limit(2**31 - 1)  # texts are longer than a cell of numbers
    rows = []
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, strict=True)
            names = [name.strip() for name in next(reader, [])]
            for row in reader:
                if not row:
                    continue
                if len(row) != len(names):
                    raise ValueError(
                        f"{path}: row {reader.line_num} has {len(row)} cells where the heading "
                        f"has {len(names)}"
                    )
                rows.append((f"row {reader.line_num}", dict(zip(names, row, strict=True))))
    except (csv.Error, UnicodeDecodeError, OSError) as error:
        raise ValueError(f"{path} cannot be read as CSV in UTF-8: {error}") from error
    finally:
        csv.field_size_limit(before)
    return rows


def _jsonl(path: Path) -> list[tuple[str, dict[str, str]]]:
    rows = []
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (UnicodeDecodeError, OSError) as error:
        raise ValueError(f"{path} cannot be read as UTF-8: {error}") from error
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise ValueError(f"{path}: row {number} is no JSON: {error}") from error
        if not isinstance(row, dict) or any(isinstance(v, dict | list) for v in row.values()):
            raise ValueError(f"{path}: row {number} must be an object of plain values")
        rows.append((f"row {number}", {k: "" if v is None else str(v) for k, v in row.items()}))
    return rows


def _folder(path: Path) -> _Texts:
    classed, plain = (sorted(path.glob(name)) for name in ("*/*.txt", "*.txt"))
    if classed and plain:
        raise ValueError(
            f"{path} has .txt files in subfolders, one for each class, and beside them: move "
            f"{plain[0].name}"
        )
    files = classed or plain
    if len(files) < 2:
        raise ValueError(
            f"{path} must have .txt files, in a subfolder for each class or, without classes, in "
            "itself"
        )
    texts = []
    for file in files:
        try:
            texts.append(file.read_text(encoding="utf-8"))
        except (UnicodeDecodeError, OSError) as error:
            raise ValueError(f"{file} cannot be read as UTF-8: {error}") from error
    places = [str(file.relative_to(path)) for file in files]
    return _Texts(path, texts, [file.parent.name for file in files] if classed else None, places)
