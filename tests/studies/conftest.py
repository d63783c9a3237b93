"""Study files of a test's own."""

from pathlib import Path

import pytest


@pytest.fixture
def study_file(tmp_path):
    """Writes a study file; returns its path."""

    def write(text: str, name: str = "study.yaml") -> Path:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return write
