"""Many small training runs in one computation: weights are stacked along a first axis."""

from recondite_papers.stacked.network import Stack
from recondite_papers.stacked.release import StackRelease
from recondite_papers.stacked.train import Plan, train

__all__ = ["Plan", "Stack", "StackRelease", "train"]
