"""Conformance suites: what we ask of our own extensions, for other people's to be run too."""

from recondite.testing.mechanisms import check_mechanism

__all__ = ["check_mechanism"]
