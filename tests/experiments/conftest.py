"""Study files of a test's own, and comparisons without worker processes."""

from pathlib import Path

import pytest
import torch

from recondite.experiments import runner
from recondite.experiments.tasks import run_task


@pytest.fixture
def study_file(tmp_path):
    """Writes a study file; returns its path."""

    def write(text: str, name: str = "study.yaml") -> Path:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return write


class Inline:
    """Runs tasks in this process: no worker has to start."""

    workers = 1

    def run(self, tasks, handle):
        for task in tasks:
            run_task(task, lambda event, task=task: handle(0, task, event))

    def close(self):
        torch.set_num_threads(1)


@pytest.fixture
def inline(monkeypatch):
    """Comparisons in this process; the engine's class."""
    monkeypatch.setattr(runner, "make_engine", lambda engine, workers: Inline())
    return Inline
