r"""How a page shows one content of ``Records.rendered``: HTML, by its media type.

A kind of records says *what* is shown (``rendered``) and as which ``media``; how that looks is
here, once for every page. Contents come from files: nothing of them is trusted, everything is
escaped.

- ``image/png``: the image.
- ``application/json``: a row of a table, ``{"columns": [...], "cells": [...], "right": [...]}``;
  ``right`` marks the cells of a reconstruction that are the original's; null cells are hidden.
- ``text/plain``: a passage; ``\x02`` and ``\x03`` around a part mark it as right.

Another media type is named, not shown: a page must not guess how to read a stranger's bytes.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from html import escape

__all__ = ["RIGHT", "display", "guess_of"]

RIGHT = ("\x02", "\x03")  # around a part of a text that is right: nobody types them
_MOST = 40  # cells of a row
_LONGEST = 2_000  # characters of a passage


def display(media: str, content: bytes, name: str = "") -> str:
    """One content as HTML.

    Args:
      media: Its media type.
      content: As ``Records.rendered`` returned it.
      name: What it is, for those who do not see an image: "original", "rebuilt".
    """
    show = _DISPLAYS.get(media)
    try:
        if show is not None:
            return show(content, name)
    except (ValueError, TypeError, KeyError, AttributeError):
        pass
    return f'<p class="content unknown">cannot be shown ({escape(media)})</p>'


def guess_of(guess: str, key: str) -> str:
    """What was guessed for one metric, where each has its own: "mse: the mean, ssim: a record"."""
    parts = dict(part.split(": ", 1) for part in guess.split(", ") if ": " in part)
    return parts.get(key, guess)


def _image(content: bytes, name: str) -> str:
    code = base64.b64encode(content).decode("ascii")
    return f'<img class="content" src="data:image/png;base64,{code}" alt="{escape(name)}">'


def _row(content: bytes, _: str) -> str:
    held = json.loads(content)
    columns = [str(column) for column in held["columns"]]
    cells = held.get("cells")
    right = held.get("right") or [False] * len(columns)
    if cells is None:
        cells = ["right" if is_right else "wrong" for is_right in right]
    lines = "".join(
        f"<div><dt>{escape(column)}</dt><dd>"
        + (f"<mark>{escape(str(cell))}</mark>" if is_right else escape(str(cell)))
        + "</dd></div>"
        for column, cell, is_right in list(zip(columns, cells, right, strict=True))[:_MOST]
    )
    left = len(columns) - _MOST
    more = f"<p>and {left} more columns</p>" if left > 0 else ""
    return f'<div class="content record"><dl>{lines}</dl>{more}</div>'


def _text(content: bytes, _: str) -> str:
    text = escape(content.decode("utf-8")[:_LONGEST])
    for sign, tag in zip(RIGHT, ("<mark>", "</mark>"), strict=True):
        text = text.replace(sign, tag)
    # Whatever was cut off or left open, a mark ends with its passage.
    text += "</mark>" * max(0, text.count("<mark>") - text.count("</mark>"))
    if text.count("</mark>") > text.count("<mark>"):
        text = text.replace("<mark>", "").replace("</mark>", "")
    return f'<p class="content passage">{text}</p>'


_DISPLAYS: dict[str, Callable[[bytes, str], str]] = {
    "image/png": _image,
    "application/json": _row,
    "text/plain": _text,
}
