"""Leaked files as the posterior attackers see them: with the defence's law, and by likelihood."""

from __future__ import annotations

import torch

from recondite.attacks.leak import Leak
from recondite.attacks.posterior.releases import ReleaseSite, site_of
from recondite.attacks.reconstruction import Reconstruction

__all__ = ["likelihood", "site_of_leak"]


def site_of_leak(leak: Leak) -> tuple[ReleaseSite, tuple[str, ...]]:
    """The releases with the defence's law, for an attacker who uses it, and what to note."""
    flat = torch.cat([value.flatten(2) for value in leak.gradients.values()], 2)
    return site_of(leak.model, leak.defence, flat)


def likelihood(leak: Leak, site: ReleaseSite, found: Reconstruction) -> float:
    """Log-likelihood of the releases at what was rebuilt of one record each."""
    assert found.labels is not None
    total = 0.0
    for victim in range(leak.victims):
        image = found.images[victim, 0].float()
        gradient = site.gradient.at(image, found.labels[victim, 0]).detach().double()
        total += float(site.log_likelihood(victim, site.centre(gradient, victim)[None])[0])
    return total
