"""The command line: thin over the library, one line for every mistake."""

from recondite.cli.main import main

__all__ = ["main"]
