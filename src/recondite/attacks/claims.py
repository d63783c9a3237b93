"""From reconstructions to lower bounds: which of N people was it?

Whoever rebuilds an image can pick, among N candidates, the one that it resembles most. How often
that is right bounds from below what one release told: the gain over a blind guess is at most
Bayes' capacity, and by Fano's inequality the information is at least what the guesses needed.
"""

from __future__ import annotations

import math

import torch
from scipy.stats import beta
from torch import Tensor, nn

from recondite.attacks.outcome import Claim
from recondite.attacks.scoring import as_images
from recondite.attacks.victim import Victim
from recondite.mechanisms import Setting, UndefinedNotionError
from recondite.records import Records

__all__ = ["capacity_lower", "identification_claims", "information_lower"]

_CONFIDENCE = 0.999
_HOW = "identification among held-out records"


def success_lower(right: int, trials: int, confidence: float = _CONFIDENCE) -> float:
    """Lower bound on a success probability, Clopper and Pearson's, exact."""
    return 0.0 if right == 0 else float(beta.ppf(1.0 - confidence, right, trials - right + 1))


def capacity_lower(success: float, candidates: int) -> float:
    """ln(success · N): at most log Bayes' capacity, as guessing is right in 1/N."""
    return max(0.0, math.log(success * candidates)) if success > 0 else 0.0


def information_lower(success: float, candidates: int) -> float:
    """Fano: guesses among N equally likely candidates that are right so often need these nats."""
    if success <= 1.0 / candidates:
        return 0.0
    error = 1.0 - success
    entropy = sum(-p * math.log(p) for p in (success, error) if p > 0)
    return max(0.0, math.log(candidates) - entropy - error * math.log(candidates - 1))


def identification_claims(
    victim: Victim,
    model: nn.Module,
    pixels: Tensor,
    chosen: Records,
    size: int,
    *,
    told: bool,
) -> tuple[Claim, ...]:
    """Claims about one release beside what identification showed.

    Guarantee: at the confidence stated for each, the lower bound is below the true capacity (or
    information) of one release about a record drawn from the held-out ones. Victims are drawn
    without replacement, which only makes the success rate's bound cautious.

    Args:
      victim: The victim; its held-out records are the candidates.
      model: The model whose gradients leaked.
      pixels: Reconstructions (victims, batch, c, h, w) in [0, 1].
      chosen: The victims, in the order of ``pixels``.
      size: Records behind a gradient; with more than one there is no single answer.
      told: Whether the attacker knew the labels, which then may account for ln(classes) nats.
    """
    if size != 1 or victim.defence.clipping == "per-layer":
        return ()
    if not chosen.media.startswith("image/"):
        return ()  # rows of a table may be alike: guessing one of them right says less
    test = as_images(victim.records.test)
    rebuilt, true = pixels.flatten(0, 1).flatten(1), chosen.features
    candidates = test.pixels().flatten(1)
    picked = test.images[torch.cdist(rebuilt, candidates).argmin(1)]
    # Equal pixels are the same answer, wherever they stand in the set.
    right = int((picked.flatten(1) == true.flatten(1)).all(1).sum())
    success = success_lower(right, len(true))
    uppers = _release(victim, model)
    about = f"one release; {right} of {len(true)} right among {len(test)}"
    # A channel leaves labels as they are: there the gradient may tell them too.
    free = math.log(len(test.classes)) if told or victim.defence.noisy_records else 0.0
    lowers = {
        "log_bayes_capacity_release": max(0.0, capacity_lower(success, len(test)) - free),
        "mutual_information_release": max(0.0, information_lower(success, len(test)) - free),
    }
    return tuple(
        Claim(notion, uppers[notion], lower, _HOW, about, _CONFIDENCE)
        for notion, lower in lowers.items()
        if notion in uppers
    )


def _release(victim: Victim, model: nn.Module) -> dict[str, float]:
    """Capacity and information of a release for a batch of one record, as it was attacked."""
    if victim.defence.noisy_records:
        known = {
            "log_bayes_capacity_release": victim.account.log_bayes_capacity_release,
            "mutual_information_release": victim.account.mutual_information_release,
        }
        return {name: value for name, value in known.items() if value is not None}
    shapes = tuple(tuple(p.shape) for p in model.parameters() if p.requires_grad)
    setting = Setting(shapes, max_batch_size=1, batch_size=1)
    mechanism = victim.defence.mechanism.configured(setting)
    out = {}
    for name, compute in (
        ("log_bayes_capacity_release", mechanism.log_bayes_capacity),
        ("mutual_information_release", mechanism.mutual_information),
    ):
        try:
            out[name] = float(compute())
        except UndefinedNotionError:
            continue
    return out
