"""Typesets formulas when the site is built: LaTeX in, MathML out; no script, no font, no network.

``mkdocs.yml`` names this module as a Markdown extension (``A_p`` and ``e^ε`` in prose) and
:func:`fence` for ```` ```math ```` blocks, which GitHub renders too. Both MkDocs and Zensical read
it; ``PYTHONPATH=docs`` lets them find it (``make docs``).
"""

from __future__ import annotations

import re
from xml.etree import ElementTree

from latex2mathml.converter import convert
from markdown import Markdown
from markdown.extensions import Extension
from markdown.inlinepatterns import InlineProcessor
from markdown.util import AtomicString

_BLOCK = re.compile(r"^```math\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_MARKS = "\u0300-\u036f"  # a hat or a bar over a letter
# One letter has an index, so that names such as max_batch_size stay as they are.
_BASE = rf"[^\W\d_][{_MARKS}]?|1(?=_[A-Z])|(?:max|min|sup)(?=_\w\b)"
_INDEX = rf"(?<!\w)({_BASE})_(?:\{{([^{{}}]+)\}}|([A-Za-z0-9]+|[Ͱ-Ͽ][{_MARKS}]?))"
_POWER = r"(?<=[\w)\]])\^(?:\{([^{}]+)\}|\(([^()]+)\)|([^\W_]+))"


def formulas(page: str) -> list[str]:
    """The LaTeX of a page's formulas."""
    return [found[1] for found in _BLOCK.finditer(page)]


def mathml(latex: str) -> str:
    """A formula as MathML that scrolls where it is wider than the page.

    GitHub wants ``aligned``, which latex2mathml knows as ``align*`` alone.
    """
    made = convert(latex.strip().replace("{aligned}", "{align*}"), display="block")
    return f'<div class="math">{made}</div>'


def fence(source: str, language: str, name: str, options: object, md: object, **_: object) -> str:
    """What pymdownx.superfences asks of a format: the HTML of one block."""
    return mathml(source)


class _Index(InlineProcessor):
    def handleMatch(self, m: re.Match[str], data: str) -> tuple[ElementTree.Element, int, int]:  # noqa: N802
        element = ElementTree.Element("span")
        element.text = AtomicString(m[1])
        ElementTree.SubElement(element, "sub").text = AtomicString(m[2] or m[3])
        return element, m.start(0), m.end(0)


class _Power(InlineProcessor):
    def handleMatch(self, m: re.Match[str], data: str) -> tuple[ElementTree.Element, int, int]:  # noqa: N802
        element = ElementTree.Element("sup")
        element.text = AtomicString(m[1] or m[2] or m[3])
        return element, m.start(0), m.end(0)


class Typeset(Extension):
    """Indices and powers in prose: after code was set aside, before emphasis is looked for."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802
        """Registers both patterns."""
        md.inlinePatterns.register(_Index(_INDEX, md), "index", 185)
        md.inlinePatterns.register(_Power(_POWER, md), "power", 184)


def makeExtension(**settings: object) -> Typeset:  # noqa: N802
    """What Python-Markdown calls for an extension by the module's name."""
    return Typeset(**settings)
