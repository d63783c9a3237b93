"""Many small training runs in one computation: weights are stacked along a first axis."""

from recondite.experiments.reproductions.stacked.network import Stack
from recondite.experiments.reproductions.stacked.release import Release
from recondite.experiments.reproductions.stacked.train import Plan, train

__all__ = ["Plan", "Release", "Stack", "train"]
