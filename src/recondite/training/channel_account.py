"""What training with a channel costs, with the keys of a mechanism's account."""

from __future__ import annotations

import math
from typing import Any

import torch

from recondite.channels.base import Channel
from recondite.channels.local import local_epsilon, local_rero, log_bayes_capacity, shift
from recondite.data import ImageSet
from recondite.notions import json_ready
from recondite.training.engine import SIMULATION
from recondite.training.plan import Plan

__all__ = ["channel_account"]

_PRIOR = 0.1


def channel_account(
    plan: Plan, channel: Channel, loader: Any, records: ImageSet, delta: float
) -> dict[str, Any]:
    """The account of a run with a channel, ready for JSON.

    Guarantee: every number is an upper bound. Information is that of the ledger. ε, Bayes'
    capacity and reconstruction success take a noisy copy of a record for a local Gaussian release
    of pixels in [0, 1], labels and the fitted covariance for public; k fresh copies count as one
    with 1/k of the noise variance. ε is usually huge: it is about the worst two images. Where the
    ledger counts uses of another channel, whose noise it does not know, they are infinite.

    Args:
      plan: The plan.
      channel: The channel as fitted.
      loader: The protected loader after training.
      records: The training records, for the scale of their pixels.
      delta: δ.
    """
    told = loader.information()
    uses = max(told["uses"], 1)
    scale = torch.tensor(records.std or (1.0,) * records.shape[0])
    sides = (1.0 / scale)[:, None, None].expand(records.shape).flatten().double().numpy()
    foreign = loader.ledger.foreign
    mu = math.inf if foreign else shift(channel, sides, uses)
    simulation = loader.ledger.simulation
    gap = (
        "speaks of two records that differ in their features only, in any way that pixels in "
        "[0, 1] allow (replace-one)"
    )
    assumptions = [
        f"epsilon, capacity and rero: {gap}; labels are taken for public",
        "the covariance the channel was fitted to is public",
        *channel.limits,
    ]
    if foreign:
        assumptions.append(
            "uses of another channel are counted too: no finite epsilon, capacity or rero is known"
        )
    if simulation:
        assumptions.insert(0, SIMULATION)
    reason = "only for mechanisms that noise gradients"
    information = {key: value for key, value in told.items() if key != "limits"}
    if simulation:
        information.update(guarantee=False, note=SIMULATION)
    account = {
        "schema_version": 1,
        "mechanism": plan.defence,
        "parameters": {"capacity": plan.capacity, "noise": plan.channel_noise, "dim": channel.dim},
        "schedule": {
            "sampling": "shuffled",
            "epochs": plan.passes(len(records)),
            "uses": told["uses"],
        },
        "neighbouring": "replace-one",
        "group_size": 1,
        "delta": delta,
        "epsilon": {
            "pld": math.inf if foreign else local_epsilon(mu, delta),
            "rdp": None,
            "paper_1": None,
            "paper_2": None,
            "pure": float("inf"),
        },
        "rdp_order": None,
        "metric_privacy": None,
        "log_bayes_capacity": {
            "per_release": log_bayes_capacity(channel, sides),
            "run": math.inf if foreign else log_bayes_capacity(channel, sides, uses),
        },
        "mutual_information": {"per_release": channel.capacity_nats, "run": told["per_record"]},
        "rero": {"prior": _PRIOR, "bound": local_rero(mu, _PRIOR)},
        "subject": "one record's features",
        "assumptions": assumptions,
        "reasons": {
            "epsilon.rdp": reason,
            "epsilon.paper_1": reason,
            "epsilon.paper_2": reason,
            "metric_privacy": "Gaussian noise has no metric guarantee: far outputs tell any pair",
        },
        "information": information,
    }
    plain: dict[str, Any] = json_ready(account)
    return plain
