"""For the tests of both packages: quiet hypothesis, acceptance on request, shared fixtures."""

import json

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "recondite",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("recondite")


def pytest_addoption(parser):
    parser.addoption(
        "--run-acceptance", action="store_true", help="run the tests in folders named acceptance"
    )


def pytest_collection_modifyitems(config, items):
    if config.getoption("--run-acceptance"):
        return
    kept = [item for item in items if "tests/acceptance/" not in item.nodeid]
    dropped = [item for item in items if item not in kept]
    if dropped:
        config.hook.pytest_deselected(items=dropped)
        items[:] = kept


@pytest.fixture(scope="session")
def comparable():
    """A function from rows to what two runs of the same study must have in common."""

    def common(rows):
        kept = []
        for given in rows:
            row = json.loads(json.dumps(given))
            for key in ("seconds", "created", "machine"):
                row.pop(key)
            row["training"].pop("seconds", None)
            kept.append(row)
        return sorted(kept, key=lambda row: row["key"])

    return common


class Inline:
    """Runs tasks of a comparison in this process: no worker has to start."""

    workers = 1

    def run(self, tasks, handle):
        from recondite.studies.tasks import run_task

        for task in tasks:
            run_task(task, lambda event, task=task: handle(0, task, event))

    def close(self):
        import torch

        torch.set_num_threads(1)


@pytest.fixture
def inline(monkeypatch):
    """Comparisons in this process; the engine's class."""
    from recondite.studies import runner

    monkeypatch.setattr(runner, "make_engine", lambda engine, workers: Inline())
    return Inline
