"""Attacks on tables: rows of categories and numbers, rebuilt from a gradient."""

from recondite.attacks.tabular.inversion import TabularInversion

__all__ = ["TabularInversion"]
