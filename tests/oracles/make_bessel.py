"""Writes bessel.csv and bessel_difference.csv, the oracle of tests/numerics/test_bessel.py.

    python tests/oracles/make_bessel.py           (about six minutes; needs mpmath)

Every value comes from one rule that works at any dimension p and argument k: with t = tanh(x)

    0F1(; p/2; k^2/4) = integral of sech(x)^(p-1) exp(k tanh x) dx / B(1/2, (p-1)/2),

and the trapezoidal rule converges geometrically on that integrand (analytic in a strip, decaying
exponentially). The step is halved until two sums agree to 48 digits. Three other methods check
it wherever each can, and the script stops if they disagree in the 30th digit:

* mpmath's hyp0f1 (series and Hankel's expansion), where it converges;
* the uniform (Debye) expansion with 40 terms at 60 digits, for orders of 200 and above;
* mpmath's adaptive quadrature of the integral over the cosine itself, at a few points.

Nothing here imports recondite. Arguments are written with repr, so that they read back to the same
double; values have 22 digits.
"""

from __future__ import annotations

import csv
from functools import lru_cache
from pathlib import Path

import mpmath as mp
import numpy as np

HERE = Path(__file__).parent
DIGITS = 60
AGREE = mp.mpf(10) ** -30
ETA_ROOT = mp.mpf("0.66274341934918158097474209710925290705623354911502")


def law_sum(dim, argument, step, top, scale, bend):
    """Trapezoidal sums of the integrand and of integrand * tanh, over exp(top)."""
    total = weighted = mp.mpf(0)
    for sign in (1, -1):
        j = 0 if sign == 1 else 1
        while True:
            x = bend + sign * j * step
            t = mp.tanh(x)
            height = -(dim - 1) * mp.log(mp.cosh(x)) + argument * t - top
            if height < -scale:
                break
            weight = mp.exp(height)
            total += weight
            weighted += weight * t
            j += 1
    return step * total, step * weighted


def trapezoid(dim, argument):
    """(log 0F1, ratio) from the integral over the latitude x, tanh(x) being the cosine."""
    dim, argument = mp.mpf(dim), mp.mpf(argument)
    mode_t = 2 * argument / (dim - 1 + mp.hypot(dim - 1, 2 * argument))
    mode = mp.atanh(mode_t)
    top = -(dim - 1) * mp.log(mp.cosh(mode)) + argument * mode_t
    # Minus the second derivative of the log-integrand is (p-1) sech^2 + 2 k tanh sech^2.
    sech2 = 1 - mode_t**2
    width = 1 / mp.sqrt((dim - 1) * sech2 + 2 * argument * mode_t * sech2)
    step = min(width, mp.mpf("0.5")) / 2
    last = None
    for _ in range(8):
        total, weighted = law_sum(dim, argument, step, top, 2.4 * mp.mp.dps, mode)
        if last is not None and abs(total / last[0] - 1) < mp.mpf(10) ** (12 - mp.mp.dps):
            break
        last = total, weighted
        step /= 2
    else:
        raise SystemExit(f"no convergence at dim {dim}, argument {argument}")
    log_beta = mp.loggamma(mp.mpf(1) / 2) + mp.loggamma((dim - 1) / 2) - mp.loggamma(dim / 2)
    return top + mp.log(total) - log_beta, weighted / total


@lru_cache(maxsize=1)
def debye_polynomials(terms=40):
    """Coefficients of u_k(t) by their recurrence (DLMF 10.41.9)."""
    rows = [[mp.mpf(1)]]
    for _ in range(terms):
        u = rows[-1]
        new = [mp.mpf(0)] * (len(u) + 3)
        for k, c in enumerate(u):
            new[k + 1] += c * k / 2 + c / (8 * (k + 1))
            new[k + 3] += -c * k / 2 - 5 * c / (8 * (k + 3))
        rows.append(new)
    return rows


def debye_log_iv(order, argument):
    """Log I by the uniform expansion."""
    order, argument = mp.mpf(order), mp.mpf(argument)
    z = argument / order
    w = mp.sqrt(1 + z * z)
    eta = w + mp.log(z / (1 + w))
    series = sum(mp.polyval(u[::-1], 1 / w) / order**k for k, u in enumerate(debye_polynomials()))
    return order * eta - mp.log(2 * mp.pi * order * w) / 2 + mp.log(series)


def prefactor(order, argument):
    """Log I less log 0F1."""
    order = mp.mpf(order)
    return order * mp.log(mp.mpf(argument) / 2) - mp.loggamma(order + 1)


def close(what, ours, other, where):
    """Stops unless two values agree to 30 digits (relative to 1 where they are large logs)."""
    if abs(ours - other) > AGREE * max(1, abs(ours)):
        raise SystemExit(f"{what} disagrees at {where}: {ours} against {other}")


def by_hyp0f1(dim, argument):
    """(log 0F1, ratio) by mpmath's own function, or None where it gives up or takes long."""
    order = mp.mpf(dim) / 2 - 1
    series_terms = 0.5 * (float(argument) ** 2 / (order + mp.hypot(order, argument)))
    hankel = float(order) ** 2 < 2 * float(argument)
    if series_terms > 3000 and not hankel:
        return None
    try:
        x = mp.mpf(argument) ** 2 / 4
        base = mp.hyp0f1(order + 1, x)
        ratio = mp.mpf(argument) / (2 * (order + 1)) * mp.hyp0f1(order + 2, x) / base
        return mp.log(base), ratio
    except (mp.NoConvergence, ValueError):
        return None


def by_quadrature(dim, argument):
    """Log 0F1 by adaptive quadrature over the cosine, cut at its mode."""
    dim, argument = mp.mpf(dim), mp.mpf(argument)
    half = (dim - 3) / 2
    mode = 2 * argument / (dim - 3 + mp.hypot(dim - 3, 2 * argument))
    width = 1 / mp.sqrt(dim + argument)

    def density(t):
        return mp.exp(half * mp.log((1 - t * t) / (1 - mode**2)) + argument * (t - mode))

    points = sorted({max(mp.mpf(-1), min(mp.mpf(1), mode + width * k)) for k in range(-48, 49, 4)})
    log_beta = mp.loggamma(mp.mpf(1) / 2) + mp.loggamma((dim - 1) / 2) - mp.loggamma(dim / 2)
    top = half * mp.log(1 - mode**2) + argument * mode
    return mp.log(mp.quad(density, points)) + top - log_beta


def points(generator):
    """Random points of the domain, then the seams of the implementation."""
    dims = np.unique(np.rint(np.exp(generator.uniform(np.log(2), np.log(1e9), 4000))))
    dims = generator.choice(dims, 1650, replace=False)
    small = generator.integers(2, 80, 450).astype(float)
    for dim in np.concatenate([dims, small]):
        yield int(dim), float(np.exp(generator.uniform(np.log(1e-6), np.log(1e8))))
    for dim in (2, 3, 10, 59, 60, 61, 62, 63, 64, 13_700, 10**6 + 1, 20_000_002, 10**9):
        for argument in (1e-6, 1e-3, 1.0, 75.0, 1e6, 1e8):
            yield dim, argument
    yield from seams(generator)


def seams(generator):
    """Order 30; k^2/4 = 4(nu+1); k = nu+1; the zero of eta; the zero of log I itself."""
    for dim in (2, 3, 4, 5, 61, 62, 63, 64, 100, 1_001, 13_700, 10**5, 10**7, 10**9 - 1, 10**9):
        order = dim / 2 - 1
        edge = 4 * np.sqrt(order + 1)
        for factor in (1 - 1e-3, 1 - 1e-12, 1.0, 1 + 1e-12, 1 + 1e-3):
            yield dim, float(edge * factor)
            yield dim, float((order + 1) * factor)
    for dim in (61, 62, 63):
        for argument in np.exp(generator.uniform(np.log(1e-6), np.log(1e8), 20)):
            yield dim, float(argument)
    sizes = np.unique(np.rint(np.exp(generator.uniform(np.log(64), np.log(2e8), 24))))
    for dim in [*sizes.astype(int), 150_000_001, 299_999_999]:
        order = mp.mpf(int(dim)) / 2 - 1
        root = float(order * ETA_ROOT)
        crossing = float(mp.findroot(lambda x, nu=order: debye_log_iv(nu, x), root))
        for centre in (root, crossing):
            yield int(dim), centre
            yield int(dim), float(np.nextafter(centre, 0))
            yield int(dim), centre * (1 + float(generator.uniform(-1, 1)) * 1e-9)
        for factor in (0.97, 0.9799999, 0.9800001, 0.999, 1.001, 1.0199999, 1.0200001, 1.03):
            yield int(dim), root * factor


def differences(generator):
    """Pairs of arguments: close, one double apart, on both sides of the factor 2, far apart."""
    gaps = (1e-12, 1e-8, 1e-3, 0.3, 0.4999999, 0.5000001, 0.9)
    for gap in gaps:
        for _ in range(30):
            dim = int(np.rint(np.exp(generator.uniform(np.log(2), np.log(1e9)))))
            upper = float(np.exp(generator.uniform(np.log(1e-5), np.log(1e8))))
            yield dim, upper, upper * (1 - gap)
    for dim in (2, 3, 61, 62, 13_700, 10**6, 10**9):
        for upper in (1e-3, 1.0, 30.0, 75.0, 5e5, 1e8):
            yield dim, upper, float(np.nextafter(upper, 0))


def text(value):
    return mp.nstr(value, 22, min_fixed=-2, max_fixed=2)


def main():
    mp.mp.dps = DIGITS
    counts = {"rows": 0, "hyp0f1": 0, "debye": 0, "quadrature": 0}
    rows = []
    for dim, argument in points(np.random.default_rng(20240)):
        order = mp.mpf(dim) / 2 - 1
        log_f, ratio = trapezoid(dim, argument)
        log_i = log_f + prefactor(order, argument)
        where = (dim, argument)
        known = by_hyp0f1(dim, argument)
        if known is not None:
            counts["hyp0f1"] += 1
            close("hyp0f1", log_f / known[0], mp.mpf(1), where)
            close("ratio by hyp0f1", ratio / known[1], mp.mpf(1), where)
        if order >= 200:
            counts["debye"] += 1
            close("Debye", log_i, debye_log_iv(order, argument), where)
            above = mp.exp(debye_log_iv(order + 1, argument) - log_i)
            close("ratio by Debye", ratio / above, mp.mpf(1), where)
        if known is None and order < 200:
            raise SystemExit(f"nothing checks {where}")
        if counts["rows"] % 250 == 0 and dim > 3:
            counts["quadrature"] += 1
            close("quadrature", log_f, by_quadrature(dim, argument), where)
        counts["rows"] += 1
        rows.append([dim, repr(argument), text(log_i), text(log_f), text(ratio)])
    write("bessel.csv", ["dim", "argument", "log_iv", "log_0f1", "ratio"], rows)
    mp.mp.dps = 2 * DIGITS  # differences cancel
    rows = []
    for dim, upper, lower in differences(np.random.default_rng(7)):
        value = trapezoid(dim, upper)[0] - trapezoid(dim, lower)[0]
        rows.append([dim, repr(upper), repr(lower), text(value)])
    write("bessel_difference.csv", ["dim", "upper", "lower", "difference"], rows)
    print(counts)


def write(name, header, rows):
    with open(HERE / name, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


if __name__ == "__main__":
    main()
