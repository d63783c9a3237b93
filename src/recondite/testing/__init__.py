"""Conformance suites for what other packages add: run them in your tests."""
