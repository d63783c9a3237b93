"""A person's own code by its name: ``package.module:function``."""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from collections.abc import Callable, Collection, Mapping
from typing import Any

__all__ = ["accepted", "check_complete", "is_dotted", "load_object"]


def is_dotted(name: str) -> bool:
    """Tells whether a name has the form ``package.module:function``."""
    module, colon, member = name.partition(":")
    parts = [*module.split("."), *member.split(".")]
    return bool(colon) and all(part.isidentifier() for part in parts)


def load_object(name: str) -> Any:
    """Imports what ``package.module:function`` names, from the current folder too.

    This runs the code of that module: it is for a person's own, never for files from strangers.
    """
    if not is_dotted(name):
        raise ValueError(f"must have the form package.module:function, got {name!r}")
    module_name, _, member = name.partition(":")
    here = os.getcwd()
    added = here not in sys.path and "" not in sys.path
    if added:
        sys.path.append(here)
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and module_name.split(".")[0] == error.name.split(".")[0]:
            raise ValueError(f"{name}: there is no module {error.name} here") from error
        raise ValueError(f"{name}: {module_name} needs {error.name}, which is missing") from error
    except Exception as error:  # a person's own module raises what it likes
        kind = type(error).__name__
        raise ValueError(f"{name}: importing {module_name} failed: {kind}: {error}") from error
    finally:
        if added:
            sys.path.remove(here)
    for part in member.split("."):
        if not hasattr(found, part):
            raise ValueError(f"{name}: {module_name} has no {member}")
        found = getattr(found, part)
    return found


def accepted(function: Callable[..., Any], given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns those of the arguments that the function takes by name."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return {}
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return given
    known = {p.name for p in parameters if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)}
    return {name: value for name, value in given.items() if name in known}


def check_complete(name: str, function: Callable[..., Any], given: Collection[str]) -> None:
    """Refuses a model's function that needs more than it is given.

    Raises:
      ValueError: In one line: what it needs besides, and what it can have.
    """
    try:
        needs = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return
    missing = [
        one.name
        for one in needs
        if one.default is one.empty
        and one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
        and one.name not in given
    ]
    if missing:
        raise ValueError(
            f"{name} needs {missing[0]}, which nobody gives it: a model's function gets those of "
            "shape, classes and norm that it names, such as def net(shape, classes)"
        )
