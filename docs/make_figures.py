"""Makes the figure of the documentation and the tables of its errata page.

``python docs/make_figures.py`` writes ``docs/images/epsilon.svg``;
``python docs/make_figures.py --tables`` prints the tables. Needs recondite-papers.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from pathlib import Path

import recondite as rc
from recondite import accounting
from recondite.mechanisms import Neighbouring
from recondite_papers.biswas2025 import approach_1, approach_2

DIM, RATE, DELTA, EPOCHS, STEPS = 13_700, 128 / 60_000, 1 / 60_000, 3, 1_407

# Biswas et al. (2025), Table I and Table IV.
TABLE_1 = {25: 0.0139, 50: 0.0867, 75: 0.49, 100: 2.5, 125: 4.6, 150: 7.97, 200: 10.9, 300: 41.02}
TABLE_4 = {
    75: (0.49, 1.23),
    100: (2.48, 0.660),
    125: (4.59, 0.544),
    150: (7.97, 0.461),
    175: (9.72, 0.435),
    200: (10.9, 0.420),
    225: (17.25, 0.367),
    250: (27.38, 0.321),
    275: (38.84, 0.287),
    300: (41.02, 0.282),
    325: (64.98, 0.245),
    350: (79.68, 0.229),
    375: (95.44, 0.214),
    400: (112.28, 0.204),
    500: (173.0, 0.174),
}
# Which of the three rules comes nearest to each printed value.
RULES = {25: "1", 50: "1", 75: "1", 150: "2, interpolated", 300: "2, interpolated", 500: "1"}

WIDTH, HEIGHT = 760, 440
LEFT, RIGHT, TOP, BOTTOM = 70, 560, 62, 380
KAPPAS, EPSILONS = (0.0, 500.0), (0.01, 1000.0)


def rows(kappas: Iterable[int]) -> list[dict[str, float]]:
    """Every rule's ε for each κ, in the setting of the paper."""
    out = []
    for kappa in kappas:
        mechanism = rc.VonMisesFisher(kappa=kappa, dim=DIM)
        law = mechanism.loss(Neighbouring.ADD_OR_REMOVE)
        run = rc.Poisson(rate=RATE, steps=STEPS)
        short = rc.Poisson(rate=RATE, steps=EPOCHS)
        out.append(
            {
                "kappa": kappa,
                "1": approach_1(law, RATE, EPOCHS, DELTA),
                "2": approach_2(law, RATE, EPOCHS, DELTA, interpolate=False)[0],
                "2, interpolated": approach_2(law, RATE, EPOCHS, DELTA, as_printed=True)[0],
                "sound": approach_2(law, RATE, EPOCHS, DELTA)[0],
                "tight, 3": rc.epsilon(mechanism, short, DELTA),
                "renyi": accounting.renyi_epsilon(mechanism, run, DELTA)[0],
                "tight": rc.epsilon(mechanism, run, DELTA),
            }
        )
    return out


def tables() -> None:
    """Prints both tables of the errata page in Markdown."""
    everything = {int(row["kappa"]): row for row in rows(sorted({*TABLE_1, *TABLE_4}))}
    printed_4 = {kappa: epsilon for kappa, (epsilon, _) in TABLE_4.items()}
    for name, printed in (("I", TABLE_1), ("IV", printed_4)):
        print(f"\nTable {name}\n")
        columns = ["κ", "printed", "nearest rule", "its value", "sound, N = 3", "tight, N = 3"]
        print("| " + " | ".join([*columns, "Rényi, 1,407", "tight, 1,407"]) + " |")
        print("| --: | --: | :-- | --: | --: | --: | --: | --: |")
        for kappa, value in printed.items():
            row = everything[kappa]
            rule = RULES.get(kappa, "2")
            cells = [
                f"{kappa}",
                f"{value:g}",
                f"approach {rule}",
                f"{row[rule]:.6g}",
                f"{min(row['1'], row['sound']):.4g}",
                f"{row['tight, 3']:.4g}",
                f"{row['renyi']:.4g}",
                f"{row['tight']:.4g}",
            ]
            print("| " + " | ".join(cells) + " |")
    print("\nThe σ row of Table IV\n")
    print("| printed ε | σ | Rényi, N = 1,407 | tight, N = 1,407 | Rényi, N = 3 |")
    print("| --: | --: | --: | --: | --: |")
    for value, sigma in TABLE_4.values():
        gaussian = rc.Gaussian(noise_multiplier=sigma)
        run, short = rc.Poisson(rate=RATE, steps=STEPS), rc.Poisson(rate=RATE, steps=EPOCHS)
        cells = [
            f"{value:g}",
            f"{sigma:g}",
            f"{accounting.renyi_epsilon(gaussian, run, DELTA)[0]:.4g}",
            f"{rc.epsilon(gaussian, run, DELTA):.4g}",
            f"{accounting.renyi_epsilon(gaussian, short, DELTA)[0]:.4g}",
        ]
        print("| " + " | ".join(cells) + " |")


def _x(kappa: float) -> float:
    return LEFT + (RIGHT - LEFT) * (kappa - KAPPAS[0]) / (KAPPAS[1] - KAPPAS[0])


def _y(epsilon: float) -> float:
    low, high = (math.log(value) for value in EPSILONS)
    return BOTTOM - (BOTTOM - TOP) * (math.log(epsilon) - low) / (high - low)


def _curve(points: list[tuple[float, float]], kind: str) -> str:
    path = " ".join(f"{_x(k):.1f},{_y(e):.1f}" for k, e in points)
    return f'<polyline class="{kind}" points="{path}"/>'


def _label(x: float, y: float, kind: str, lines: list[str]) -> str:
    spans = "".join(
        f'<tspan x="{x:.1f}" dy="{0 if i == 0 else 16}">{line}</tspan>'
        for i, line in enumerate(lines)
    )
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}">{spans}</text>'


STYLE = """
  text { font: 13px system-ui, "Segoe UI", Helvetica, Arial, sans-serif; fill: #24292f }
  .card { fill: #fbfbf9; stroke: #d6d6d0 } .grid { stroke: #dfdfd9 } .axis { stroke: #8a8a84 }
  .title { font-weight: 600; font-size: 15px } .soft { fill: #5a5f66 }
  polyline { fill: none; stroke-width: 2 }
  polyline.tight { stroke: #0b6b62; stroke-width: 3.5 }
  text.tight { fill: #0b6b62; font-weight: 600 }
  polyline.renyi { stroke: #4b5fb0 } text.renyi { fill: #4b5fb0 }
  polyline.printed { stroke: #b4470f; stroke-dasharray: 5 4 } text.printed { fill: #b4470f }
  circle { fill: #b4470f }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6e6e2 } .card { fill: #1d2024; stroke: #3a3f45 } .grid { stroke: #33383e }
    .axis { stroke: #858b92 } .soft { fill: #a9afb6 }
    polyline.tight { stroke: #4fd1c0 } text.tight { fill: #4fd1c0 }
    polyline.renyi { stroke: #9db0ff } text.renyi { fill: #9db0ff }
    polyline.printed { stroke: #ff9a5c } text.printed { fill: #ff9a5c } circle { fill: #ff9a5c }
  }
"""


def figure() -> str:
    """The figure: ε against κ as printed, by Rényi divergence and tight."""
    kappas = [20, 25, *range(35, 105, 10), *range(110, 200, 15), *range(200, 501, 25)]
    data = rows(kappas)
    ends = {name: data[-1][name] for name in ("renyi", "tight")}
    printed = {**TABLE_1, **{kappa: epsilon for kappa, (epsilon, _) in TABLE_4.items()}}
    dots = sorted(printed.items())
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        'aria-labelledby="t d">',
        '<title id="t">Epsilon of von Mises-Fisher noise against its concentration</title>',
        '<desc id="d">Logarithmic epsilon against kappa. The tight curve lies below the Rényi '
        "curve; the printed values lie below both, because they compose 3 epochs instead of "
        "1407 steps.</desc>",
        f"<style>{STYLE}</style>",
        f'<rect class="card" x="0.5" y="0.5" width="{WIDTH - 1}" height="{HEIGHT - 1}" rx="8"/>',
        '<text class="title" x="20" y="27">What a training run with von Mises-Fisher noise costs'
        "</text>",
        '<text class="soft" x="20" y="46">p = 13,700, rate 128/60,000, 1,407 steps, '
        "δ = 1/60,000</text>",
    ]
    for epsilon in (0.01, 0.1, 1, 10, 100, 1000):
        y = _y(epsilon)
        parts.append(f'<line class="grid" x1="{LEFT}" y1="{y:.1f}" x2="{RIGHT}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{epsilon:g}</text>')
    for kappa in range(0, 501, 100):
        x = _x(kappa)
        parts.append(
            f'<line class="axis" x1="{x:.1f}" y1="{BOTTOM}" x2="{x:.1f}" y2="{BOTTOM + 5}"/>'
        )
        parts.append(f'<text x="{x:.1f}" y="{BOTTOM + 20}" text-anchor="middle">{kappa}</text>')
    middle = (TOP + BOTTOM) / 2
    parts += [
        f'<line class="axis" x1="{LEFT}" y1="{BOTTOM}" x2="{RIGHT}" y2="{BOTTOM}"/>',
        f'<text x="{(LEFT + RIGHT) / 2}" y="{BOTTOM + 42}" text-anchor="middle">concentration κ '
        "(larger is less noise)</text>",
        f'<text transform="translate(22 {middle}) rotate(-90)" text-anchor="middle">ε of the run'
        "</text>",
        _curve(dots, "printed"),
        *(f'<circle cx="{_x(k):.1f}" cy="{_y(e):.1f}" r="3"/>' for k, e in dots),
        _curve([(row["kappa"], row["renyi"]) for row in data], "renyi"),
        _curve([(row["kappa"], row["tight"]) for row in data], "tight"),
        _label(RIGHT + 8, _y(ends["renyi"]) - 6, "renyi", ["exact Rényi"]),
        _label(RIGHT + 8, _y(ends["tight"]) + 12, "tight", ["tight (this library)"]),
        _label(
            RIGHT + 8,
            _y(dots[-1][1]) + 24,
            "printed",
            ["printed, Biswas et al.", "(3 compositions,", "so not a bound here)"],
        ),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def main() -> None:
    """Writes the figure, or prints the tables."""
    if "--tables" in sys.argv[1:]:
        tables()
        return
    target = Path(__file__).parent / "images" / "epsilon.svg"
    target.parent.mkdir(exist_ok=True)
    target.write_text(figure(), encoding="utf-8")
    print(f"wrote {target}")


if __name__ == "__main__":
    main()
