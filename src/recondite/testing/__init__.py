"""Conformance suites: what we ask of our own extensions, for other people's to be run too."""

from recondite.testing.attacks import check_attack
from recondite.testing.mechanisms import check_mechanism
from recondite.testing.notions import check_notion

__all__ = ["check_attack", "check_mechanism", "check_notion"]
