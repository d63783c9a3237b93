"""Where an attack does worse than a guess that sees nothing, its errors show no protection.

The guess is the test records' mean image, whose scores on the attacked records the job "blind"
stores. An attack fails where it is no better by either measure: its error is at least the mean
image's, and its similarity at most.
"""

from __future__ import annotations

from collections.abc import Sequence

from recondite_papers.tables.cells import Row, find

__all__ = ["errs_more", "failing", "fails", "mean_image"]

Rows = Sequence[Row]


def mean_image(blind: Rows, study: str, data: str) -> Row | None:
    """Its scores on the records that a study attacks; None where they are not stored."""
    return find(blind, study=study, data=data, guess="mean image")


def fails(row: Row, blind: Rows, study: str) -> bool:
    """Whether an attack's row is no better than the mean image by either measure.

    Args:
      row: Of the paper's own attack.
      blind: Of the job "blind".
      study: Whose attack.
    """
    guess = mean_image(blind, study, row["data"])
    if guess is None:
        return False
    return bool(row["mse_scaled"] >= guess["mse_scaled"] and row["ssim"] <= guess["ssim"])


def failing(rows: Rows, blind: Rows, study: str) -> tuple[int, int]:
    """In how many settings an attack fails, and of how many."""
    return sum(fails(row, blind, study) for row in rows), len(rows)


def errs_more(rows: Rows, blind: Rows, study: str) -> float | None:
    """The mean image's error where every row's is at least that; None where one's is less."""
    guesses = {row["data"]: mean_image(blind, study, row["data"]) for row in rows}
    if not rows or None in guesses.values():
        return None
    least = {data: guess["mse_scaled"] for data, guess in guesses.items() if guess is not None}
    if any(row["mse_scaled"] < least[row["data"]] for row in rows):
        return None
    return float(max(least.values()))
