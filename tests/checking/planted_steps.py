"""DP-SGD written by hand, in NumPy, with one mistake at a time."""

from __future__ import annotations

import numpy as np

from recondite.accounting import Poisson
from recondite.checking import PrivacyClaim, Trainer

RECORDS, BATCH, STEPS, SIGMA, NORM, RATE = 64, 16, 50, 1.0, 0.5, 0.1
SCHEDULE = Poisson(BATCH / RECORDS, STEPS)
rng = np.random.default_rng(0)
DATA = [(x, int(x[0] > 0)) for x in rng.standard_normal((RECORDS, 5))]


def claim(**options):
    """The ε that noise of multiplier SIGMA has."""
    from recondite.accounting import epsilon
    from recondite.mechanisms import Gaussian

    cost = epsilon(Gaussian(SIGMA), SCHEDULE, 1e-5)
    return PrivacyClaim(**{"epsilon": cost, "delta": 1e-5, "schedule": SCHEDULE, **options})


def gradients(weights, bias, batch):
    """Of a logistic regression, one row a record: weights, then bias."""
    if not batch:
        return np.zeros((0, weights.size + 1))
    x, y = np.stack([r[0] for r in batch]), np.array([r[1] for r in batch])
    error = 1 / (1 + np.exp(-np.clip(x @ weights + bias, -50, 50))) - y
    return error[:, None] * np.column_stack([x, np.ones(len(x))])


def clip(rows, norm=NORM):
    return rows / np.maximum(1.0, np.linalg.norm(rows, axis=-1, keepdims=True) / norm)


def poisson():
    chosen = np.random.random((RECORDS // BATCH, RECORDS)) < BATCH / RECORDS  # noqa: NPY002
    return [np.flatnonzero(row).tolist() for row in chosen]


def shuffled():
    order = np.random.permutation(RECORDS)  # noqa: NPY002
    return order.reshape(-1, BATCH).tolist()


def make_trainer(
    *,
    noise=SIGMA,
    mean_clipped=False,
    noise_divisor=BATCH,
    realised=None,
    unclipped_bias=False,
    seeded=False,
    batches=poisson,
    unit=RATE * NORM / BATCH,
    sensitivity=1.0,
):
    """A trainer with the mistakes that are asked for; without any it is right."""
    own = np.random.default_rng(7 if seeded else np.random.randint(2**31))  # noqa: NPY002
    weights, bias = 0.1 * np.ones(5), 0.0

    def step(batch):
        rows = gradients(weights, bias, batch)
        drawn = own.standard_normal(rows.shape[1]) * noise * NORM
        if mean_clipped:
            mean = rows.mean(0) if len(rows) else np.zeros(rows.shape[1])
            return -RATE * (clip(mean) + drawn / BATCH)
        clipped = clip(rows, NORM * sensitivity)
        if unclipped_bias:
            clipped[:, -1] = rows[:, -1]
        if realised == "all":
            update = (clipped.sum(0) + drawn) / max(1, len(rows))
        elif realised == "sum":
            update = clipped.sum(0) / max(1, len(rows)) + drawn / noise_divisor
        else:
            update = clipped.sum(0) / BATCH + drawn / noise_divisor
        return {"weights": -RATE * update[:-1], "bias": -RATE * update[-1:]}

    return Trainer(DATA, step, batches, unit)
