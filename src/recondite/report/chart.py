"""Static charts, drawn by hand as SVG: what stands before the script runs, and on paper.

Colours are classes (``hue-0`` …), so a chart follows the theme of the page.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from recondite.report.quantities import axis
from recondite.report.scales import Scale, scale

__all__ = ["Box", "marker", "scatter"]

MOST = 1500  # markers; a page with more of them is slow to open and shows no more


@dataclass(frozen=True)
class Box:
    """Where the plot lies in its picture; ``band`` is the strip for infinite values."""

    width: int = 720
    height: int = 420
    left: int = 66
    right: int = 16
    top: int = 14
    bottom: int = 54
    band: int = 0

    def x(self, share: float) -> float:
        """From a share of the horizontal axis to pixels."""
        return self.left + share * (self.width - self.left - self.right - self.band)

    def y(self, share: float) -> float:
        """From a share of the vertical axis to pixels."""
        return self.height - self.bottom - share * (self.height - self.top - self.bottom)

    @property
    def infinity(self) -> float:
        """The middle of the strip for infinite values."""
        return self.width - self.right - self.band / 2


def scatter(
    points: Sequence[dict[str, Any]],
    series: Sequence[dict[str, Any]],
    x_key: str,
    y_key: str,
    *,
    front: Collection[int] = (),
    name: str = "",
    box: Box | None = None,
) -> str:
    """A scatter plot of two quantities; one curve and one shape a series."""
    drawn = [p for p in points if p["v"].get(x_key) and p["v"].get(y_key)]
    drawn = [p for p in drawn if p["v"][y_key][0] != "inf"]
    if len(drawn) > MOST:
        stride = math.ceil(len(drawn) / MOST)
        drawn = [p for i, p in enumerate(drawn) if i % stride == 0 or p["id"] in front]
    infinite = any(p["v"][x_key][0] == "inf" for p in drawn)
    frame = box or Box()
    frame = Box(**{**frame.__dict__, "band": 54 if infinite else 0})
    xs = scale([p["v"][x_key][0] for p in drawn if p["v"][x_key][0] != "inf"], log=axis(x_key).log)
    ys = scale([e for p in drawn for e in p["v"][y_key]], log=axis(y_key).log)
    parts = [
        f'<svg class="chart" viewBox="0 0 {frame.width} {frame.height}" role="img" '
        f'aria-label="{escape(name)}">',
        *_grid(frame, xs, ys, percent=y_key == "accuracy"),
        *_titles(frame, axis(x_key).label, axis(y_key).label),
    ]
    if infinite:
        parts += _infinity(frame)
    for index, one in enumerate(series):
        of_series = [p for p in drawn if p["series"] == index]
        parts += _series(frame, xs, ys, one, of_series, (x_key, y_key), front)
    return "".join([*parts, "</svg>"])


def marker(shape: int, x: float, y: float, size: float = 5.0) -> str:
    """The path of one of ten shapes: told apart without colour."""
    r = size
    if shape == 0:
        return f"M{x - r:.1f} {y:.1f}a{r} {r} 0 1 0 {2 * r} 0a{r} {r} 0 1 0 {-2 * r} 0Z"
    corners = _SHAPES[shape]
    path = "L".join(f"{x + r * a:.1f} {y + r * b:.1f}" for a, b in corners)
    return f"M{path}Z"


def _polygon(
    sides: int, turn: float = 0.0, inner: float | None = None
) -> list[tuple[float, float]]:
    count = sides if inner is None else 2 * sides
    out = []
    for i in range(count):
        radius = 1.2 if inner is None or i % 2 == 0 else inner
        angle = 2 * math.pi * i / count + turn - math.pi / 2
        out.append((radius * math.cos(angle), radius * math.sin(angle)))
    return out


_ARM = 0.38
_CROSS = [
    (-_ARM, -1.1), (_ARM, -1.1), (_ARM, -_ARM), (1.1, -_ARM), (1.1, _ARM), (_ARM, _ARM),
    (_ARM, 1.1), (-_ARM, 1.1), (-_ARM, _ARM), (-1.1, _ARM), (-1.1, -_ARM), (-_ARM, -_ARM),
]  # fmt: skip
_TURN = math.sqrt(0.5)
_SHAPES: dict[int, list[tuple[float, float]]] = {
    1: [(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)],
    2: [(0, -1.3), (1.3, 0), (0, 1.3), (-1.3, 0)],
    3: _polygon(3),
    4: _polygon(3, math.pi),
    5: _CROSS,
    6: [((a - b) * _TURN, (a + b) * _TURN) for a, b in _CROSS],
    7: _polygon(5),
    8: _polygon(5, 0.0, 0.55),
    9: _polygon(6),
}


def _grid(box: Box, xs: Scale, ys: Scale, *, percent: bool) -> list[str]:
    out = []
    floor, ceiling = box.y(0), box.y(1)
    for tick in ys.ticks:
        y = box.y(ys(tick))
        out.append(f'<path class="grid" d="M{box.x(0):.1f} {y:.1f}H{box.width - box.right}"/>')
        out.append(
            f'<text class="tick" x="{box.left - 10}" y="{y + 4:.1f}" text-anchor="end">'
            f"{f'{100 * tick:.4g} %' if percent else ys.name(tick)}</text>"
        )
    for tick in xs.ticks:
        x = box.x(xs(tick))
        out.append(f'<path class="grid" d="M{x:.1f} {floor:.1f}V{ceiling:.1f}"/>')
        out.append(
            f'<text class="tick" x="{x:.1f}" y="{floor + 20:.1f}" text-anchor="middle">'
            f"{xs.name(tick)}</text>"
        )
    return out


def _titles(box: Box, x_label: str, y_label: str) -> list[str]:
    middle = (box.y(0) + box.y(1)) / 2
    return [
        f'<text class="axis" x="{(box.x(0) + box.x(1)) / 2:.1f}" y="{box.height - 10}" '
        f'text-anchor="middle">{escape(x_label)}</text>',
        f'<text class="axis" transform="translate(16 {middle:.1f}) rotate(-90)" '
        f'text-anchor="middle">{escape(y_label)}</text>',
    ]


def _infinity(box: Box) -> list[str]:
    left = box.width - box.right - box.band + 8
    return [
        f'<rect class="band" x="{left}" y="{box.y(1):.1f}" width="{box.band - 8}" '
        f'height="{box.y(0) - box.y(1):.1f}"/>',
        f'<text class="tick" x="{box.infinity + 4:.1f}" y="{box.y(0) + 20:.1f}" '
        'text-anchor="middle">∞</text>',
    ]


def _series(
    box: Box, xs: Scale, ys: Scale, one: dict[str, Any], points: list[dict[str, Any]],
    keys: tuple[str, str], front: Collection[int],
) -> list[str]:  # fmt: skip
    out, line = [], []
    for point in points:
        value, (height, *ends) = point["v"][keys[0]][0], point["v"][keys[1]]
        x = box.infinity + 4 if value == "inf" else box.x(xs(value))
        y = box.y(ys(height))
        if value != "inf":
            line.append(f"{x:.1f} {y:.1f}")
        if ends:
            low, high = (box.y(ys(end)) for end in ends)
            out.append(f'<path class="whisker" d="M{x:.1f} {low:.1f}V{high:.1f}"/>')
        hollow = ' class="hollow"' if one["run"] % 2 else ""
        ring = f'<circle class="front" cx="{x:.1f}" cy="{y:.1f}" r="9.5"/>' * (point["id"] in front)
        out.append(
            f'{ring}<path d="{marker(one["shape"], x, y)}"{hollow}>'
            f"<title>{escape(point['label'])}</title></path>"
        )
    if len(line) > 1:
        out.insert(0, f'<path class="link" d="M{"L".join(line)}"/>')
    return [f'<g class="hue-{one["hue"]}">', *out, "</g>"]
