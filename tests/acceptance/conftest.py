"""For tests that start the command and interrupt it."""

import signal

import pytest


@pytest.fixture(scope="session", autouse=True)
def heed_interruptions():
    """A shell lets what it starts with & ignore interruptions, and children inherit that."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
