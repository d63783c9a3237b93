"""What formulas of the papers say as they stand in print, and ``recondite as-printed``.

None of these numbers is a guarantee: the documentation's errata say what is wrong with each.
"""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Annotated

import typer

from recondite import _validate
from recondite.cli.options import MECHANISM, RUN, build_mechanism, build_schedule, shared
from recondite.cli.output import figure, print_json, print_table, progress
from recondite.mechanisms import Gaussian, Mechanism
from recondite.notions import json_ready
from recondite.notions.releases import MechanismRun
from recondite.numerics.ball import log_gaussian_ball_capacity
from recondite_papers.biswas2025 import approach_1, approach_2

__all__ = [
    "as_printed",
    "dp_information",
    "dp_information_from_epsilon",
    "gaussian_log_bayes_capacity",
    "printed_values",
]


def gaussian_log_bayes_capacity(mechanism: Gaussian) -> float:
    """Biswas et al. (2025): radius-to-noise ratio 1/σ, which forgets the batch (erratum 6)."""
    return log_gaussian_ball_capacity(mechanism.required_dim(), 1.0 / mechanism.noise_multiplier)


def dp_information(batch_size: int, sensitivity: float, noise_variance: float) -> float:
    """Tan et al. (2024), Theorem 4: B·S²/σ, which lost a factor ½ (erratum 15)."""
    return batch_size * (sensitivity / noise_variance * sensitivity)


def dp_information_from_epsilon(batch_size: int, epsilon: float, delta: float) -> float:
    """Tan et al. (2024), Theorem 4: B·ε²/(2 ln(1.25/δ)), whatever the noise (erratum 15)."""
    return batch_size * epsilon**2 / (2 * math.log(1.25 / delta))


def printed_values(release: MechanismRun) -> dict[str, float | None]:
    """Both accountants of Biswas et al. (2025) and its capacity of Gaussian noise, as printed."""
    given = release.unsampled()
    run = (given.law, given.rate, given.releases, release.delta)
    mechanism: Mechanism = release.mechanism
    return {
        "epsilon.paper_1": approach_1(*run, as_printed=True),
        "epsilon.paper_2": approach_2(*run, as_printed=True)[0],
        "log_bayes_capacity": (
            gaussian_log_bayes_capacity(mechanism) if isinstance(mechanism, Gaussian) else None
        ),
    }


_LABELS = {
    "epsilon.paper_1": "ε, approach 1",
    "epsilon.paper_2": "ε, approach 2",
    "log_bayes_capacity": "log Bayes' capacity of one release",
}


# Not --group-size, --prior-success or --neighbouring, of which the paper says nothing.
_RUN = ("batch_size", "sampling", "rate", "steps", "epochs", "records", "delta")


@shared(MECHANISM, {name: RUN[name] for name in _RUN})
def as_printed(
    mechanism: Annotated[str, typer.Argument(help="As in recondite account.")],
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
    *,
    given: SimpleNamespace,
) -> None:
    """What the formulas of Biswas et al. (2025) say of a run as printed: no guarantees.

    `recondite as-printed vmf --kappa 75 --dim 13700 --rate 128/60000 --steps 1407 --delta 1/60000`
    The bounds that hold are those of `recondite account`, with the same options.
    """
    chosen = build_mechanism(mechanism, given)
    schedule = build_schedule(given)
    assert schedule is not None
    if given.delta is None:
        raise ValueError("--delta is needed, for example --delta 1/60000")
    delta = _validate.probability("delta", given.delta)
    release = MechanismRun(chosen, schedule, delta, 0.1, 1)
    if not release.unsampled().amplified:
        raise ValueError("the paper's formulas are for Poisson batches with noise on the average")
    with progress("the printed formulas"):
        values = printed_values(release)
    if as_json:
        print_json(json_ready({"schema_version": 1, "delta": delta, "as_printed": values}))
        return
    rows = [
        [_LABELS[key], figure(value), "no bound"]
        for key, value in values.items()
        if value is not None
    ]
    print_table(str(release), ["as printed", "value", "which is"], rows, [], numbers=(1,))
