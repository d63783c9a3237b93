"""The stored posterior attackers: the page's table is what the benchmark wrote."""

import json
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
STORED = json.loads((ROOT / "results" / "posterior-mnist.json").read_text())["defences"]
PAGE = (ROOT / "docs" / "theory" / "attacks.md").read_text(encoding="utf-8")
ROWS = {
    ("clip", ""): "clipping only",
    ("gaussian-0.1", ""): "Gaussian σ = 0.1",
    ("gaussian-0.1", ", 20 releases"): "Gaussian σ = 0.1, 20 releases",
    ("gaussian-0.5", ""): "Gaussian σ = 0.5",
    ("gaussian-0.5", ", 20 releases"): "Gaussian σ = 0.5, 20 releases",
    ("gaussian-1.23", ""): "Gaussian σ = 1.23",
    ("vmf-500", ""): "VMF κ = 500",
    ("vmf-500", ", 20 releases"): "VMF κ = 500, 20 releases",
    ("vmf-5000", ""): "VMF κ = 5,000",
    ("vmf-20000", ""): "VMF κ = 20,000",
    ("directional-5000", ""): "directional κ = 5,000",
    ("natural-5", ""): "Natural channel, 5 nats",
    ("natural-25", ""): "Natural channel, 25 nats",
    ("natural-250", ""): "Natural channel, 250 nats",
}


def line(key, releases, label):
    """The posterior attacker of largest SSIM: means over seeds, of the ends of intervals too."""
    names = ("importance-weights", "gauss-newton", "channel-posterior")
    tried = {name: STORED[key].get(f"{name}, label told{releases}") for name in names}
    name, best = max(((n, r) for n, r in tried.items() if r), key=lambda one: one[1]["ssim_mean"])

    def gain(metric):
        seeds = best[f"gain_{metric}"]
        value, low, high = (sum(s[k] for s in seeds) / len(seeds) for k in ("value", "low", "high"))
        return f"{value:.2f} ({low:.2f} to {high:.2f})".replace("-", "−")

    ssim = f"{best['ssim_mean']:.2f} | {best['blind_ssim_mean']:.2f}"
    seconds = f"{best['processor_seconds']:.1f}"
    return f"| {label} | `{name}` | {ssim} | {gain('ssim')} | {gain('mse')} | {seconds} |"


@pytest.mark.parametrize(("key", "releases"), ROWS, ids=lambda part: str(part) or "one")
def test_the_table_of_the_page_is_what_was_stored(key, releases):
    assert line(key, releases, ROWS[key, releases]) in PAGE.splitlines()


def test_every_stored_defence_is_in_the_table():
    assert {key for key, _ in ROWS} == set(STORED)


if __name__ == "__main__":
    print("\n".join(line(*key, label) for key, label in ROWS.items()))
