"""From pydantic's errors to lines a person can act on."""

from __future__ import annotations

import difflib
import types
import typing
from typing import TYPE_CHECKING, Any, get_args, get_origin

from recondite.studies.source import Mistake, Place, nearest

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError

__all__ = ["from_pydantic"]

# pydantic's kinds of error: what to say of some, and what is wanted instead of others.
_WHOLE = {"missing": "is missing: add it", "too_short": "must have at least one item"}
_WANTED = {"string_pattern_mismatch": "letters, digits, dots, dashes", "string_type": "text"}


def from_pydantic(error: ValidationError, model: type[BaseModel]) -> list[Mistake]:
    """One mistake for each place that pydantic complains about."""
    found: dict[Place, Mistake] = {}
    for item in error.errors(include_url=False, include_context=True):
        place, fields = _place(item["loc"], model)
        typo = _typo(item, place, fields)
        if typo is not None:
            found[typo.place] = typo
            continue
        found.setdefault(place, Mistake(place, _message(item, place, fields)))
    return list(found.values())


def _typo(item: Any, place: Place, fields: list[str]) -> Mistake | None:
    """A key that is missing because it is there under a name that is nearly right."""
    if item["type"] != "missing" or not isinstance(item["input"], dict):
        return None
    others = [str(key) for key in item["input"] if key not in fields]
    near = difflib.get_close_matches(str(place[-1]), others, n=1)
    if not near:
        return None
    return Mistake((*place[:-1], near[0]), f"is unknown: did you mean {place[-1]}?")


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
    if kind == "value_error":  # one of our own, complete
        return str(item["msg"].removeprefix("Value error, "))
    if kind in _WHOLE:
        return _WHOLE[kind]
    said = _WANTED.get(kind, item["msg"].removeprefix("Input should be "))
    if kind == "literal_error":
        said = context["expected"].replace("'", "")
    return f"must be {said}, got {given!r}"
