"""The white-box membership attack on every run of a stack at once (Tan et al. 2024, Figure 16)."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from recondite.attacks.membership import WhiteBox
from recondite.attacks.membership.features import _GRADIENT_SCALE, _LOSS_SCALE
from recondite.attacks.membership.white_box import _HELD_OUT, _PATIENCE, AttackNetwork
from recondite.metrics import auc
from recondite.models.weights import seeded
from recondite_papers.stacked import Stack
from recondite_papers.stacked.graph import Replayed

__all__ = ["features_all", "membership_areas"]

_DROPOUT = 0.2


@torch.no_grad()
def features_all(stack: Stack, images: Tensor, labels: Tensor, batch: int = 250) -> list[Tensor]:
    """The four inputs of the attack for every run, (R, n, width) each.

    As :func:`recondite.attacks.membership.features.features_of`, with the last layer's gradient
    written as what it is: (posterior - label) times the layer's input.
    """
    parts: list[list[Tensor]] = [[], [], [], []]
    for x, y in zip(torch.split(images, batch), torch.split(labels, batch), strict=True):
        logits, inputs, _ = stack.forward(x.expand(stack.runs, *x.shape))
        logits = logits.detach()
        posterior = logits.softmax(2)
        label = functional.one_hot(y, logits.shape[2]).float().expand_as(posterior)
        slope = posterior - label
        last = slope.unsqueeze(3) * inputs[-1].squeeze(2).unsqueeze(2)
        # By name: the bias comes before the weight.
        flat = torch.cat([slope, last.flatten(2)], 2)
        loss = functional.cross_entropy(
            logits.flatten(0, 1), y.repeat(stack.runs), reduction="none"
        ).view(stack.runs, -1, 1)
        parts[0].append(posterior.sort(dim=2, descending=True).values)
        parts[1].append(torch.asinh(_LOSS_SCALE * loss))
        parts[2].append(torch.asinh(_GRADIENT_SCALE * flat))
        parts[3].append(label)
    return [torch.cat(part, 1) for part in parts]


def membership_areas(
    stack: Stack,
    members: tuple[Tensor, Tensor],
    others: tuple[Tensor, Tensor],
    attack: WhiteBox,
    seed: int = 0,
) -> list[float]:
    """AUC of :class:`WhiteBox` on each run: half of the records are known.

    The attack networks of all runs begin alike and see the same batches and dropout, as they do
    when each run is attacked alone with this seed.
    """
    images = torch.cat([members[0], others[0]])
    labels = torch.cat([members[1], others[1]])
    count = len(images)
    truth = np.arange(count) < len(members[0])
    order = np.random.default_rng([seed, 3]).permutation(count)
    cut = round(attack.known * count)
    known, judged = torch.as_tensor(order[:cut]).to(images.device), np.sort(order[cut:])
    parts = [_scaled(part, known) for part in features_all(stack, images, labels)]
    target = torch.as_tensor(truth).float().to(images.device)
    scores = _learnt(parts, target, known, attack, seed).double().cpu().numpy()
    ours, strangers = judged[truth[judged]], judged[~truth[judged]]
    return [float(auc(row[ours], row[strangers])) for row in scores]


def _scaled(part: Tensor, known: Tensor) -> Tensor:
    chosen = part[:, known]
    mean, std = chosen.mean(1, keepdim=True), chosen.std(1, keepdim=True)
    return ((part - mean) / std.clamp_min(1e-6)).clamp_(-5, 5)


class _Networks:
    """Attack networks of R runs, their weights stacked."""

    def __init__(self, widths: tuple[int, ...], runs: int, seed: int, device: torch.device) -> None:
        with seeded(seed % 2**62):
            first = AttackNetwork(widths)
        self.weights = {
            name: p.detach().expand(runs, *p.shape).clone().to(device).requires_grad_()
            for name, p in first.named_parameters()
        }

    def __call__(self, parts: list[Tensor], keep: Tensor | None = None) -> Tensor:
        """Logits (R, n); ``keep`` is what dropout multiplies the embeddings by."""
        embedded = []
        for place, part in enumerate(parts):
            inner = self._affine(part, f"embed.{place}.0").relu()
            embedded.append(self._affine(inner, f"embed.{place}.2").relu())
        x = torch.cat(embedded, 2)
        if keep is not None:
            x = x * keep
        for place in (1, 3, 5):
            x = self._affine(x, f"join.{place}").relu()
        return self._affine(x, "join.7").squeeze(2)

    def _affine(self, x: Tensor, name: str) -> Tensor:
        weight, bias = self.weights[f"{name}.weight"], self.weights[f"{name}.bias"]
        return torch.baddbmm(bias.unsqueeze(1), x, weight.transpose(1, 2))


def _learnt(
    parts: list[Tensor], target: Tensor, known: Tensor, attack: WhiteBox, seed: int
) -> Tensor:
    """Scores of all records by each run's network, as it was when its held-out loss was least."""
    runs, device = len(parts[0]), known.device
    networks = _Networks(tuple(part.shape[2] for part in parts), runs, seed, device)
    weights = list(networks.weights.values())
    optimizer = torch.optim.Adam(
        weights,
        attack.learning_rate,
        weight_decay=attack.weight_decay,
        fused=True,
        capturable=device.type == "cuda",
    )
    width = networks.weights["join.1.weight"].shape[2]

    def losses(where: Tensor, keep: Tensor | None = None) -> Tensor:
        logits = networks([part[:, where] for part in parts], keep)
        wanted = target[where].expand_as(logits)
        each = functional.binary_cross_entropy_with_logits(logits, wanted, reduction="none")
        return each.mean(1)

    def stepper(size: int) -> tuple[Tensor, Replayed]:
        where = torch.zeros(size, dtype=torch.long, device=device)

        def step() -> None:
            # One mask for all runs: alone, each would have drawn this one.
            keep = functional.dropout(torch.ones(size, width, device=device), _DROPOUT)
            optimizer.zero_grad(set_to_none=True)
            torch.autograd.backward(losses(where, keep).sum())
            optimizer.step()

        return where, Replayed(step, device)

    held = known[: max(1, round(_HELD_OUT * len(known)))]
    learnt = known[len(held) :]
    steppers: dict[int, tuple[Tensor, Replayed]] = {}
    generator = torch.Generator().manual_seed(seed % 2**62)
    best = torch.full((runs,), torch.inf, device=device)
    kept = [weight.detach().clone() for weight in weights]
    since = [0] * runs
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed % 2**62)
        for _ in range(attack.epochs):
            mixed = learnt[torch.randperm(len(learnt), generator=generator).to(device)]
            for chosen in torch.split(mixed, attack.batch_size):
                if len(chosen) not in steppers:
                    steppers[len(chosen)] = stepper(len(chosen))
                where, step = steppers[len(chosen)]
                where.copy_(chosen)
                step()
            with torch.no_grad():
                reached = losses(held)
                going = torch.tensor([n < _PATIENCE for n in since], device=device)
                better = going & (reached < best)
                best = torch.where(better, reached, best)
                for mine, weight in zip(kept, weights, strict=True):
                    mine.copy_(_chosen(better, weight, mine))
            since = _counted(since, better.tolist())
            if min(since) >= _PATIENCE:
                break
    with torch.no_grad():
        for mine, weight in zip(kept, weights, strict=True):
            weight.copy_(mine)
        return networks(parts)


def _chosen(better: Tensor, new: Tensor, old: Tensor) -> Tensor:
    return torch.where(better.view(-1, *[1] * (new.ndim - 1)), new, old)


def _counted(since: list[int], better: list[bool]) -> list[int]:
    """Epochs since each run's best; one that has stopped stays stopped."""
    return [
        n if n >= _PATIENCE else 0 if now else n + 1 for n, now in zip(since, better, strict=True)
    ]
