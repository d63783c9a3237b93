"""The white-box attack of Tan et al. (2024): a network that learns from known members."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from recondite import _validate
from recondite.attacks.gradient.base import AttackProgress
from recondite.attacks.knowledge import Knowledge
from recondite.attacks.membership.base import Case, Judgement, MembershipAttack
from recondite.attacks.membership.features import Features, features_of
from recondite.attacks.membership.signals import FloatArray
from recondite.models.weights import seeded

__all__ = ["AttackNetwork", "WhiteBox"]

_LEAST = 8
_HELD_OUT, _PATIENCE = 0.2, 5


class AttackNetwork(nn.Module):
    """One network for each input, their embeddings joined by a four-layer perceptron.

    The paper gives no widths: 128 and 64 units a network, then 256, 128, 64 and one output, ReLU
    between, are assumptions.
    """

    def __init__(self, widths: tuple[int, ...], embedding: int = 64, dropout: float = 0.2) -> None:
        super().__init__()
        self.embed = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 128), nn.ReLU(), nn.Linear(128, embedding), nn.ReLU())
            for width in widths
        )
        self.join = nn.Sequential(
            nn.Dropout(dropout),
            nn.Linear(embedding * len(widths), 256),
            nn.ReLU(),
            nn.Linear(256, 128),
            nn.ReLU(),
            nn.Linear(128, 64),
            nn.ReLU(),
            nn.Linear(64, 1),
        )

    def forward(self, *parts: Tensor) -> Tensor:
        """Logit of membership, (n,)."""
        embedded = [net(part) for net, part in zip(self.embed, parts, strict=True)]
        out: Tensor = self.join(torch.cat(embedded, dim=1))[:, 0]
        return out


@dataclass(frozen=True)
class WhiteBox(MembershipAttack):
    """Learns membership from records whose membership is known, and judges the others.

    Ranked posteriors, loss, gradient of the last layer and label go into one network each. The
    known records are drawn from both lists at random; the result is about the rest only. A fifth of
    the known records decides when to stop: an attack network that learns the others by heart is
    weaker than the plain threshold. The paper does not say how much is known, nor how the attack
    network is trained: all of this is assumed.

    Attributes:
      known: Share of all records whose membership the attacker knows.
      epochs: Of the attack network, at most.
      batch_size: Of it.
      learning_rate: Of its Adam.
      weight_decay: Of its Adam.
    """

    known: float = 0.5
    epochs: int = 50
    batch_size: int = 64
    learning_rate: float = 1e-3
    weight_decay: float = 1e-4

    name: ClassVar[str] = "membership-white-box"
    needs: ClassVar[frozenset[Knowledge]] = frozenset(
        {Knowledge.MODEL, Knowledge.RECORDS, Knowledge.MEMBERS}
    )

    def __post_init__(self) -> None:
        _validate.probability("known", self.known)
        _validate.at_least("epochs", self.epochs, 1)
        _validate.at_least("batch_size", self.batch_size, 1)
        _validate.positive("learning_rate", self.learning_rate)
        _validate.non_negative("weight_decay", self.weight_decay)

    def judge(self, case: Case) -> Judgement:
        """Trains on the known records and scores the others."""
        count = len(case.images)
        truth = np.arange(count) < case.members
        # One draw over both lists: whether a record is known must not depend on its membership.
        order = np.random.default_rng([case.seed, 3]).permutation(count)
        cut = round(self.known * count)
        known, judged = order[:cut], np.sort(order[cut:])
        for part in (known, judged):
            inside = int(truth[part].sum())
            if min(inside, len(part) - inside) < _LEAST:
                raise ValueError(
                    f"members and nonmembers must each leave {_LEAST} or more records known and "
                    f"{_LEAST} judged: give more records, or another known than {self.known:g}"
                )
        features = features_of(case.model, case.images, case.labels, case.loss_fn)
        scores = self._learn(features, torch.as_tensor(truth), torch.as_tensor(known), case)
        ours, others = judged[truth[judged]], judged[~truth[judged]]
        return Judgement(
            scores[ours],
            scores[others],
            ours,
            others - case.members,
            (f"membership of {cut} of {count} records was known; the result is about the others",),
        )

    def _learn(self, features: Features, truth: Tensor, known: Tensor, case: Case) -> FloatArray:
        known = known.to(case.device)
        parts = [_scaled(part, known) for part in features.parts]
        target = truth.float().to(case.device)
        with seeded(case.seed % 2**62):
            network = AttackNetwork(tuple(part.shape[1] for part in parts))
        network = network.to(case.device)
        optimizer = torch.optim.Adam(
            network.parameters(), self.learning_rate, weight_decay=self.weight_decay, fused=True
        )
        # The known records come in random order, so the first are as good as any.
        held = known[: max(1, round(_HELD_OUT * len(known)))]
        learnt = known[len(held) :]
        generator = torch.Generator().manual_seed(case.seed % 2**62)
        best, state, since = float("inf"), copy.deepcopy(network.state_dict()), 0
        cuda = [case.device.index or 0] if case.device.type == "cuda" else []
        with torch.random.fork_rng(devices=cuda):
            torch.manual_seed(case.seed % 2**62)  # of dropout
            for epoch in range(self.epochs):
                network.train()
                mixed = learnt[torch.randperm(len(learnt), generator=generator).to(known.device)]
                for where in torch.split(mixed, self.batch_size):
                    loss = _loss(network, parts, target, where)
                    optimizer.zero_grad(set_to_none=True)
                    torch.autograd.backward(loss)
                    optimizer.step()
                network.eval()
                with torch.no_grad():
                    reached = float(_loss(network, parts, target, held))
                if case.progress is not None:
                    case.progress(AttackProgress(epoch + 1, self.epochs, reached))
                since += 1
                if reached < best:
                    best, state, since = reached, copy.deepcopy(network.state_dict()), 0
                if since >= _PATIENCE:
                    break
        network.load_state_dict(state)
        network.eval()
        with torch.no_grad():
            found: FloatArray = network(*parts).double().cpu().numpy()
        if not np.isfinite(found).all():
            raise ValueError("the attack network diverged: choose a smaller learning_rate")
        return found


def _loss(network: nn.Module, parts: list[Tensor], target: Tensor, where: Tensor) -> Tensor:
    logits = network(*(part[where] for part in parts))
    return functional.binary_cross_entropy_with_logits(logits, target[where])


def _scaled(part: Tensor, known: Tensor) -> Tensor:
    """Zero mean and unit standard deviation over the known records, outliers cut."""
    mean, std = part[known].mean(dim=0), part[known].std(dim=0)
    return ((part - mean) / std.clamp_min(1e-6)).clamp(-5, 5)
