"""Notions of privacy, and the account of a release in all of them."""

from recondite.notions.accounts import SCHEMA_VERSION, Account, account, account_for, json_ready
from recondite.notions.base import Figure, Notion, Release
from recondite.notions.bounds import format_bound, round_bound
from recondite.notions.pairs import Pair
from recondite.notions.registry import built_in, figures, notions, targets
from recondite.notions.releases import MechanismRun

__all__ = [
    "SCHEMA_VERSION",
    "Account",
    "Figure",
    "MechanismRun",
    "Notion",
    "Pair",
    "Release",
    "account",
    "account_for",
    "built_in",
    "figures",
    "format_bound",
    "json_ready",
    "notions",
    "round_bound",
    "targets",
]
