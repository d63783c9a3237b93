"""For the tests of both packages: quiet hypothesis, acceptance on request, shared fixtures.

With ``--base`` a test that needs an extra's package which is not installed is skipped, and so is a
module of tests: what is left is what works without torch (``make tests-base``).
"""

import json
from importlib.util import find_spec

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
    parser.addoption(
        "--base", action="store_true", help="skip what needs an extra that is not installed"
    )


EXTRAS = frozenset(
    [
        "PIL",
        "dp_accounting",
        "flwr",
        "hypothesis",
        "jinja2",
        "matplotlib",
        "mlflow",
        "mlxtend",
        "mpmath",
        "nvflare",
        "opacus",
        "pandas",
        "peft",
        "playwright",
        "prv_accountant",
        "pyarrow",
        "pydantic",
        "qif",
        "ray",
        "safetensors",
        "sklearn",
        "starlette",
        "torch",
        "torchmetrics",
        "transformers",
        "triton",
        "uvicorn",
        "yaml",
    ]
)


def pytest_configure(config):
    if config.getoption("--base"):
        config.option.doctest_ignore_import_errors = True


def absent(config, error):
    """The package of an extra that an error says is missing, with ``--base``."""
    while isinstance(error, BaseException) and not isinstance(error, ModuleNotFoundError):
        error = error.__cause__
    name = (getattr(error, "name", None) or "").split(".")[0]
    found = config.getoption("--base") and name in EXTRAS and find_spec(name) is None
    return name if found else None


class WithExtras(pytest.Module):
    """A module of tests, skipped where it imports a package that is not installed."""

    def _getobj(self):
        try:
            return super()._getobj()
        except self.CollectError as error:
            if name := absent(self.config, error):
                pytest.skip(f"needs {name}", allow_module_level=True)
            raise


def pytest_pycollect_makemodule(module_path, parent):
    if parent.config.getoption("--base"):
        return WithExtras.from_parent(parent, path=module_path)
    return None


def _unless_absent(config):
    """Waits for the rest of a hook; skips the test where a package is missing."""
    try:
        return (yield)
    except ModuleNotFoundError as error:
        if name := absent(config, error):
            pytest.skip(f"needs {name}")
        raise


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem):
    return (yield from _unless_absent(pyfuncitem.config))


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef, request):
    del fixturedef
    return (yield from _unless_absent(request.config))


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
    """Comparisons in this process; the executor's class."""
    from recondite.studies import runner

    monkeypatch.setattr(runner, "make_executor", lambda engine, workers: Inline())
    return Inline
