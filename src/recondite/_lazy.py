"""Names of a package that are loaded on first use, so that importing it is quick."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Collection, Mapping
from importlib import import_module
from typing import Any

__all__ = ["lazy_names"]


def lazy_names(
    package: str,
    where: Mapping[str, Collection[str]],
    parts: Collection[str] = (),
    before: Mapping[str, Collection[str]] | None = None,
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Returns the ``__getattr__`` and ``__dir__`` of a package.

    Args:
      package: Its ``__name__``; its ``__all__`` is what ``dir`` lists.
      where: The names that each module of the package is home to.
      parts: Packages below this one that are loaded like names.
      before: Names that the package had in 0.1.0, by the module that is their only home now: for
        one version, with a warning.
    """
    home = {name: module for module, names in where.items() for name in names}
    old = {name: module for module, names in (before or {}).items() for name in names}

    def load(name: str) -> Any:
        if name in parts:
            return import_module(f"{package}.{name}")
        if name in old:
            there = f"{package}.{old[name]}"
            line = f"{package}.{name} is now {there}.{name}"
            warnings.warn(line, DeprecationWarning, stacklevel=2)
            return getattr(import_module(there), name)
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f"{package}.{home[name]}"), name)
        setattr(sys.modules[package], name, value)  # found at once the next time
        return value

    def listed() -> list[str]:
        return sorted(sys.modules[package].__all__)

    return load, listed
