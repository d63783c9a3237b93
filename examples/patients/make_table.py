"""Writes patients.csv: scikit-learn's breast cancer data (Wisconsin, public), a row a patient.

All columns are the published measurements, the ten means of them, rounded as printed. One is made:
``size``, the tumour's mean radius in three classes, so that the table has a column of categories;
it says nothing that the radius, which is left out, did not.

    python examples/patients/make_table.py patients.csv
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

from sklearn.datasets import load_breast_cancer

_MEASURED = 10  # the means; their errors and worst values are left out
_SIZES = ((12.0, "small"), (15.0, "medium"))  # mean radius below, in the data's own unit


def main(path: Path) -> None:
    """Writes the table."""
    data = load_breast_cancer()
    names = [name.removeprefix("mean ").replace(" ", "_") for name in data.feature_names]
    radius, *others = names[:_MEASURED]
    assert radius == "radius"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["size", *others, "diagnosis"])
        for row, target in zip(data.data, data.target, strict=True):
            size = next((name for most, name in _SIZES if row[0] < most), "large")
            cells = [f"{value:.4g}" for value in row[1:_MEASURED]]
            writer.writerow([size, *cells, data.target_names[target]])


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "patients.csv"))
