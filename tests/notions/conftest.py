"""Accounts of the library alone, whatever other packages are installed."""

import pytest

from recondite.notions import notions, registry


@pytest.fixture(autouse=True)
def library_alone(monkeypatch):
    monkeypatch.setattr(registry, "entry_points", lambda *, group: [])
    notions.cache_clear()
    yield
    notions.cache_clear()
