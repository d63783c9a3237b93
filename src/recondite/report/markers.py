"""Ten marks that are told apart without colour, for the chart and its legend."""

from __future__ import annotations

import math

__all__ = ["marker"]


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
