"""From pydantic's errors to lines a person can act on."""

from __future__ import annotations

import types
import typing
from typing import TYPE_CHECKING, Any, get_args, get_origin

from recondite.experiments.source import Mistake, Place, nearest

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError

__all__ = ["from_pydantic"]


def from_pydantic(error: ValidationError, model: type[BaseModel]) -> list[Mistake]:
    """One mistake for each place that pydantic complains about."""
    found: dict[Place, Mistake] = {}
    for item in error.errors(include_url=False, include_context=True):
        place, fields = _place(item["loc"], model)
        found.setdefault(place, Mistake(place, _message(item, place, fields)))
    return list(found.values())


def _place(loc: tuple[int | str, ...], model: type[BaseModel]) -> tuple[Place, list[str]]:
    """The path without the names of union members, and the known keys where it ends."""
    place: list[str | int] = []
    current: Any = model
    fields: list[str] = []
    for part in loc:
        if isinstance(part, int):
            place.append(part)
            continue
        known = list(getattr(current, "model_fields", {}))
        if part in known:
            place.append(part)
            fields, current = known, _model(current.model_fields[part].annotation)
        elif known:
            place.append(part)
            fields = known
            break
    return tuple(place), fields


def _model(annotation: Any) -> Any:
    """The model inside an annotation: of a list, or of what may be missing."""
    if hasattr(annotation, "model_fields"):
        return annotation
    if get_origin(annotation) in (list, typing.Union, types.UnionType, typing.Annotated):
        for inner in get_args(annotation):
            found = _model(inner)
            if found is not None:
                return found
    return None


def _message(item: Any, place: Place, fields: list[str]) -> str:
    kind, context = item["type"], item.get("ctx", {})
    given = item.get("input")
    if kind == "extra_forbidden":
        inside = f"a setting of {place[-2]}" if len(place) > 1 else "a key of a study"
        return f"is not {inside}: {nearest(str(place[-1]), fields)}"
    if kind == "missing":
        return "is missing: add it"
    if kind == "literal_error":
        return f"must be {context['expected'].replace(chr(39), '')}, got {given!r}"
    if kind == "string_pattern_mismatch":
        return f"must be letters, digits, dots, dashes, got {given!r}"
    if kind == "too_short":
        return "must have at least one item"
    said = item["msg"].removeprefix("Input should be ").removeprefix("Value error, ")
    return f"must be {said}, got {given!r}"
