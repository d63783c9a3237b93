"""Studies small enough to run in a second."""

import json
from pathlib import Path

import pytest

TINY = """\
name: tiny
data: digits
model: mlp
prepare: none
defences:
  - name: none
  - name: gaussian
    noise_multiplier: [1.0, 2.0]
training:
  epochs: 1
  batch_size: 128
attacks:
  - name: inverting-gradients
    images: 2
    steps: 3
  - name: membership-threshold
    records: 50
seeds: 1
"""


def comparable(rows):
    """Rows without what differs between two runs of the same thing."""
    kept = []
    for given in rows:
        row = json.loads(json.dumps(given))
        for key in ("seconds", "created", "machine"):
            row.pop(key)
        row["training"].pop("seconds", None)
        kept.append(row)
    return sorted(kept, key=lambda row: row["key"])


@pytest.fixture
def study_file(tmp_path):
    """Writes a study file; returns its path."""

    def write(text: str = TINY, name: str = "study.yaml") -> Path:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return write
