"""Laws of the noise kernels, on a GPU or by Triton's interpreter: numbers for a test to judge.

``TRITON_INTERPRET=1 python tests/numerics/kernel_laws.py`` on a CPU, without the variable on a GPU
(``--rows 200000`` there). Prints JSON: errors against float64 from the same random words, and
p-values of Kolmogorov-Smirnov and moment tests.
"""

from __future__ import annotations

import argparse
import json
import math

import numpy as np
import torch
from scipy import integrate, stats

import recondite as rc
from recondite.numerics import device_noise
from recondite.numerics.kernels import COLUMNS, QUARTER, TILE
from recondite.training.record import machine

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
# Blocks of every kind: below and above the limit of float64, one tile, several chunks.
SIZES, KAPPAS, LENGTHS = (2, 300, 1_024, 2_500), (5.0, 40.0, 1e4, 60.0), (1.0, 0.5, 2.0, 1.0)


def philox(counter, row, nonce, key):
    """Philox 4x32 with ten rounds, in NumPy."""
    c = [np.asarray(counter, np.uint64), np.uint64(row) + 0 * np.asarray(counter, np.uint64)]
    c += [c[0] * 0 + (nonce & 0xFFFFFFFF), c[0] * 0 + (nonce >> 32)]
    k0, k1 = key & 0xFFFFFFFF, key >> 32
    low = np.uint64(0xFFFFFFFF)
    for _ in range(10):
        a, b = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [
            (b >> np.uint64(32)) ^ c[1] ^ np.uint64(k0),
            b & low,
            (a >> np.uint64(32)) ^ c[3] ^ np.uint64(k1),
            a & low,
        ]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return c


def normals(counter, row, nonce, key):
    """Four float64 normals a counter, by sines and cosines of NumPy."""
    words = philox(counter, row, nonce, key)
    out = []
    for bits, turn in (words[:2], words[2:]):
        radius = np.sqrt(-2 * np.log1p((bits.astype(float) + 0.5) * 2.0**-32 - 1))
        radius = np.where(turn & np.uint64(2), -radius, radius)
        part = (turn & np.uint64(0xFFFFFFFC)).astype(np.uint32).view(np.int32).astype(float)
        angle = part * math.pi / 4 * 2.0**-31
        pair = np.cos(angle), np.sin(angle)
        swap = (turn & np.uint64(1)).astype(bool)
        out += [radius * np.where(swap, pair[1], pair[0]), radius * np.where(swap, *pair)]
    return out


def seeded(seed=7):
    return torch.Generator(device=DEVICE).manual_seed(seed)


def gaussian_error():
    """Largest error of a normal number against float64 from the same words."""
    size = 3 * TILE + 77
    key, nonce = (int(word) for word in device_noise.words(seeded(), 2))
    made = device_noise.add_gaussian(torch.zeros(size, device=DEVICE), 1.0, seeded())
    wanted = []
    for tile in range(4):
        wanted += normals(tile * QUARTER + np.arange(QUARTER), 0, nonce, key)
    return float(np.abs(made.cpu().numpy() - np.concatenate(wanted)[:size]).max())


def reference(rows, total):
    """Draws in float64 from the words and cosines that the kernels get."""
    count, dim = rows.shape
    same = seeded()
    key, nonce = (int(word) for word in device_noise.words(same, 2))
    pairs = device_noise._cosines(count, SIZES, KAPPAS, LENGTHS)(same)
    pairs = pairs.reshape(count, len(SIZES), 2)
    table = device_noise._chunks(SIZES, 1 if total else count, total, rows.device).cpu().numpy()
    assert table.shape[1] == COLUMNS
    out = np.zeros((count, dim))
    x = rows.double().cpu().numpy()
    for row in range(count):
        z = np.zeros(dim)
        for start, end, counter, *_ in table:
            for begin in range(start, end, TILE):
                first = counter + (begin - start) // 4
                made = normals(first + np.arange(QUARTER), row, nonce, key)
                z[begin : min(end, begin + TILE)] = np.concatenate(made)[: end - begin]
        place = 0
        for block, size in enumerate(SIZES):
            own, noise = x[row, place : place + size], z[place : place + size]
            t, s = pairs[row, block]
            if not own.any():
                drawn = math.hypot(t, s) * noise / np.linalg.norm(noise)
            else:
                unit = own / np.linalg.norm(own)
                tangent = noise - (noise @ unit) * unit
                drawn = t * unit + s * tangent / np.linalg.norm(tangent)
            out[row, place : place + size] = drawn
            place += size
    return out.sum(0) if total else out


def vmf_error(total):
    """Largest error of a draw, over the largest coordinate of its block's length."""
    rows = torch.randn(3, sum(SIZES), generator=seeded(1), device=DEVICE)
    rows[1, 2:302] = 0.0  # a block without a direction
    rows[2] *= 1e-38  # squares that single precision does not hold
    made = device_noise.draw_vmf(
        rows, SIZES, KAPPAS, seeded(), weights=LENGTHS, zero="uniform", total=total
    )
    return float(np.abs(made.cpu().double().numpy() - reference(rows, total)).max())


def latitude(dim, kappa):
    """The exact distribution function of the cosine, by quadrature."""
    t = np.linspace(-1, 1, 200_001)
    with np.errstate(divide="ignore"):
        log = 0.5 * (dim - 3) * np.log1p(-t * t) + kappa * t
    mass = np.exp(log - log[np.isfinite(log)].max())
    total = integrate.cumulative_trapezoid(mass, t, initial=0.0)
    return lambda x: np.interp(x, t, total / total[-1])


def p_values(rows):
    """p-values of Kolmogorov-Smirnov and moment tests."""
    z = (device_noise.add_gaussian(torch.zeros(100 * rows, device=DEVICE), 2.0, None) / 2).double()
    z = z.cpu().numpy()
    found = {"gaussian, KS": stats.kstest(z, "norm").pvalue}
    spread = {1: (0, 1), 2: (1, 2), 3: (0, 15), 4: (3, 96)}
    for power, (mean, variance) in spread.items():
        score = ((z**power).mean() - mean) / math.sqrt(variance / len(z))
        found[f"gaussian, moment {power}"] = 2 * stats.norm.sf(abs(score))
    score = (z[1:] * z[:-1]).mean() * math.sqrt(len(z) - 1)
    found["gaussian, neighbours"] = 2 * stats.norm.sf(abs(score))
    for dim, kappa in ((5, 3.0), (300, 100.0), (1_500, 400.0)):
        x = torch.randn(dim, device=DEVICE)
        y = rc.VonMisesFisher(kappa).perturb(x.expand(rows, dim)).double()
        cosine = (y @ (x.double() / x.double().norm())).cpu().numpy()
        law = latitude(dim, kappa)
        found[f"vmf {dim}, cosine, KS"] = stats.kstest(cosine, law).pvalue
        # A tangent coordinate over sqrt(1 - t²) is that of a uniform direction.
        other = torch.randn(dim, dtype=torch.float64, device=DEVICE)
        other -= (other @ x.double()) / (x.double() @ x.double()) * x.double()
        side = (y @ (other / other.norm())).cpu().numpy() / np.sqrt(1 - cosine**2)
        found[f"vmf {dim}, tangent, KS"] = stats.kstest(side, latitude(dim - 1, 0.0)).pvalue
        score = side.mean() * math.sqrt(len(side) * (dim - 1))
        found[f"vmf {dim}, tangent, mean"] = 2 * stats.norm.sf(abs(score))
    draws = min(rows, 20_000)
    x = torch.randn(600, device=DEVICE)
    batch = x.expand(draws, 600)
    y = rc.PartitionedVonMisesFisher(50.0, blocks=(400, 200)).perturb(batch).double()
    for start, size in ((0, 400), (400, 200)):
        own = x[start : start + size].double()
        cosine = (y[:, start : start + size] @ (own / own.norm())).cpu().numpy()
        law = latitude(size, 50.0)
        part = stats.kstest(cosine / math.sqrt(size / 600), law).pvalue
        found[f"partitioned, block of {size}, KS"] = part
    one = x.expand(1, 600)
    several = max(20, rows // 40)
    mean = torch.stack([rc.Directional(80.0).perturb(one) for _ in range(several)]).double()
    cosine = (mean @ (x.double() / x.double().norm())).cpu().numpy()
    found["directional, one record, KS"] = stats.kstest(cosine, latitude(600, 80.0)).pvalue
    return {name: float(value) for name, value in found.items()}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=60)
    parser.add_argument("--out")
    asked = parser.parse_args()
    torch.manual_seed(0)
    found = {
        "device": torch.cuda.get_device_name() if DEVICE == "cuda" else "Triton's interpreter",
        "rows": asked.rows,
        "errors": {
            "gaussian": gaussian_error(),
            "draws": vmf_error(False),
            "sum of draws": vmf_error(True),
        },
        "p_values": p_values(asked.rows),
        "machine": machine(),
    }
    text = json.dumps(found, indent=1)
    print(text)
    if asked.out:
        with open(asked.out, "w", encoding="utf-8") as file:
            file.write(text + "\n")


if __name__ == "__main__":
    main()
