"""Reference (shadow) models: many small trainings as one batched computation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap
from torch.nn import functional

from recondite import _validate
from recondite.attacks.gradient.base import AttackProgress
from recondite.attacks.membership.signals import LossFunction, evaluation_mode, logits_of
from recondite.configuration import TrainingConfig
from recondite.models.weights import count_parameters, seeded

__all__ = ["References", "halves", "train_references"]

MakeModel = Callable[[], nn.Module]
Trainer = Callable[[nn.Module, Tensor, Tensor, int], Any]
Watch = Callable[[AttackProgress], None]
_NUMBERS = 2**27  # parameters trained at once; Adam keeps four copies: 2 GiB
_BATCH, _EVERY = 128, 10


@dataclass(frozen=True, eq=False)
class References:
    """Trained reference models, and which records each one saw.

    Attributes:
      models: The models, in evaluation mode.
      inside: (models, records) of the pool: whether the record was in the training set.
      images: The pool.
      labels: Its labels.
      batched: Whether they were trained, and are evaluated, as one computation.
    """

    models: tuple[nn.Module, ...]
    inside: NDArray[np.bool_]
    images: Tensor
    labels: Tensor
    batched: bool

    def __len__(self) -> int:
        return len(self.models)

    def logits(self, images: Tensor) -> Tensor:
        """Logits of every model, (models, n, classes), without gradients."""
        if not self.batched or len(self.models) == 1:
            return torch.stack([logits_of(model, images) for model in self.models])
        out = []
        for group in _groups(self.models):
            base, parameters = _stacked(group)
            first = next(iter(parameters.values()))
            call = vmap(_forward(base), in_dims=(0, None), randomness="different")
            with torch.no_grad(), evaluation_mode(base):
                parts = [
                    call(parameters, part.to(first.device, first.dtype))
                    for part in torch.split(images, _BATCH)
                ]
            out.append(torch.cat(parts, dim=1))
        return torch.cat(out)


def halves(
    records: int, count: int, seed: int, size: int | None = None, coins: int = 0
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Random halves for ``count`` models: positions (count, size) and membership (count, records).

    Models come in pairs with opposite halves, so that each record is in half of them (with an odd
    number of records each pair leaves one out, at random).

    Args:
      records: How many to choose from.
      count: How many models.
      seed: Of the choice.
      size: Records a model, by default half of them.
      coins: So many of the first records are in one model of each pair whatever the size is; the
        others fill up. 0 treats all alike.
    """
    chosen = records // 2 if size is None else _validate.at_least("size", size, 1)
    if not 1 <= chosen <= records:
        raise ValueError(
            f"population must hold more records: {records} cannot give a model {max(chosen, 1)}"
        )
    generator = np.random.default_rng([seed, 1])
    rows = []
    for index in range(count):
        if index % 2 == 0:
            order = coins + generator.permutation(records - coins)
            flipped = generator.permutation(coins) if coins else np.arange(0)
        half = flipped[: coins // 2] if index % 2 == 0 else flipped[coins // 2 :]
        more = chosen - len(half)
        if not 0 <= more <= len(order):
            raise ValueError(
                f"size must leave room for half of {coins} records and be at most "
                f"{len(order) + len(half)}, got {chosen}"
            )
        rest = order[:more] if index % 2 == 0 else order[len(order) - more :]
        rows.append(np.concatenate([half, rest]))
    positions = np.stack(rows)
    inside = np.zeros((count, records), dtype=bool)
    np.put_along_axis(inside, positions, True, axis=1)
    return positions, inside


def train_references(
    make_model: MakeModel,
    images: Tensor,
    labels: Tensor,
    count: int,
    recipe: TrainingConfig | Trainer,
    *,
    loss_fn: LossFunction | None = None,
    size: int | None = None,
    coins: int = 0,
    seed: int = 0,
    device: torch.device | str = "cpu",
    batched: bool | None = None,
    progress: Watch | None = None,
) -> References:
    """Trains reference models, each from its own initial weights on its own random half of a pool.

    Models without buffers (no batch norm) are trained together: their parameters are stacked and
    every step is one computation for all. Others are trained one after another, on the same
    batches. Deterministic under a seed on one machine; batched and sequential runs agree up to
    rounding.

    Args:
      make_model: Returns a new, untrained model of the victim's kind.
      images: The pool, (n, c, h, w).
      labels: (n,).
      count: How many models.
      recipe: How to train, or your own ``train(model, images, labels, seed)``, which trains the
        model in place: to train references with the victim's defence.
      loss_fn: Loss of (logits, labels), the mean over a batch; by default cross-entropy.
      size: Records a model; by default half of the pool.
      coins: So many of the pool's first records are in exactly half of the models, whatever the
        size is (:func:`halves`).
      seed: Of halves, initial weights and batches.
      device: Where to train.
      batched: Force one way; by default what the model allows.
      progress: Called now and then with steps done, steps in all and the training loss.
    """
    count = _validate.at_least("references", count, 1)
    positions, inside = halves(len(images), count, seed, size, coins)
    models = [_built(make_model, seed, index, device) for index in range(count)]
    _alike(models)
    together = _can_batch(models[0]) if batched is None else batched
    pool = images.to(device), labels.to(device)
    own = callable(recipe)
    if not callable(recipe):
        if recipe.defence.parameter:
            raise ValueError(
                "recipe has a defence, and references are trained without: leave it out, or give "
                "your own train(model, images, labels, seed)"
            )
        orders = _Orders(positions, recipe, seed)
        groups = _groups(models) if together else [[model] for model in models]
        run = _Run(recipe, loss_fn, pool, progress, orders, len(groups))
        with _randomness(seed, device):
            for number, group in enumerate(groups):
                run.train(number, group, sum(map(len, groups[:number])), together)
    else:
        for index, model in enumerate(models):
            where = torch.as_tensor(positions[index], device=pool[0].device)
            recipe(model, pool[0][where], pool[1][where], seed + index)
            if progress is not None:
                progress(AttackProgress(index + 1, count, float("nan")))
    for model in models:
        model.eval()
    return References(tuple(models), inside, *pool, together and not own)


def _built(make_model: MakeModel, seed: int, index: int, device: torch.device | str) -> nn.Module:
    try:
        with seeded((seed * 1_000_003 + index) % 2**62):
            model = make_model()
    except Exception as error:  # a person's own function raises what it likes
        raise ValueError(f"make_model could not build a reference model: {error}") from error
    if not isinstance(model, nn.Module):
        raise ValueError(f"make_model must return a torch module, got {type(model).__name__}")
    if count_parameters(model) == 0:
        raise ValueError("make_model must return a model with parameters to train")
    return model.to(device).train()


def _alike(models: list[nn.Module]) -> None:
    first = {name: p.shape for name, p in models[0].named_parameters()}
    for model in models[1:]:
        if {name: p.shape for name, p in model.named_parameters()} != first:
            raise ValueError("make_model must return models of one architecture each time")
        if model is models[0]:
            raise ValueError("make_model must return a new model each time, got the same one twice")


def _can_batch(model: nn.Module) -> bool:
    # Buffers are written in place (running statistics), which a batched call cannot do; frozen
    # parameters would be stacked and trained.
    return not list(model.buffers()) and all(p.requires_grad for p in model.parameters())


def _groups(models: Any) -> list[list[nn.Module]]:
    at_once = max(1, _NUMBERS // max(1, count_parameters(models[0])))
    return [list(models[start : start + at_once]) for start in range(0, len(models), at_once)]


def _stacked(models: list[nn.Module]) -> tuple[nn.Module, dict[str, Tensor]]:
    parameters, _ = stack_module_state(models)
    return models[0], parameters


def _forward(base: nn.Module) -> Callable[[dict[str, Tensor], Tensor], Tensor]:
    def forward(parameters: dict[str, Tensor], images: Tensor) -> Tensor:
        out: Tensor = functional_call(base, parameters, (images,))
        return out

    return forward


class _Orders:
    """The batches of every model and epoch, the same whichever way models are trained."""

    def __init__(self, positions: NDArray[np.int64], recipe: TrainingConfig, seed: int) -> None:
        self._positions, self._recipe, self._seed = positions, recipe, seed
        self.steps = recipe.total_steps(positions.shape[1])

    def batches(self, first: int, count: int, device: torch.device) -> Iterator[Tensor]:
        """Positions (count, batch) of each step for the models from ``first`` on."""
        generators = [
            np.random.default_rng([self._seed, 2, index]) for index in range(first, first + count)
        ]
        rows, size = self._positions[first : first + count], self._recipe.batch_size
        left = self.steps
        for _ in range(self._recipe.passes(rows.shape[1])):
            order = np.stack([g.permutation(row) for g, row in zip(generators, rows, strict=True)])
            batches = torch.split(torch.as_tensor(order, device=device), size, dim=1)[:left]
            left -= len(batches)
            yield from batches


@dataclass(frozen=True)
class _Run:
    recipe: TrainingConfig
    loss_fn: LossFunction | None
    pool: tuple[Tensor, Tensor]
    progress: Watch | None
    orders: _Orders
    groups: int

    def train(self, number: int, models: list[nn.Module], first: int, together: bool) -> None:
        images, labels = self.pool
        loss_fn = functional.cross_entropy if self.loss_fn is None else self.loss_fn
        base, stacked = _stacked(models) if together else (models[0], {})
        call = vmap(_forward(base), randomness="different")
        losses = vmap(lambda z, y: loss_fn(z, y).mean(), randomness="different")
        trained = stacked.values() if together else base.parameters()
        optimizer = self.recipe.make_optimizer(trained, fused=True)
        batches = self.orders.batches(first, len(models), images.device)
        for step, where in enumerate(batches, 1):
            x, y = images[where], labels[where]
            if together:
                # Each model's loss depends on its own slice only: one backward pass serves all.
                loss = losses(call(stacked, x), y).sum()
            else:
                loss = loss_fn(base(x[0]), y[0]).mean()
            optimizer.zero_grad(set_to_none=True)
            torch.autograd.backward(loss)
            optimizer.step()
            if self.progress is not None and (step % _EVERY == 0 or step == self.orders.steps):
                done = number * self.orders.steps + step
                mean = float(loss.detach()) / len(models)
                self.progress(AttackProgress(done, self.groups * self.orders.steps, mean))
        if together:
            with torch.no_grad():
                for index, model in enumerate(models):
                    for name, parameter in model.named_parameters():
                        parameter.copy_(stacked[name][index])


@contextmanager
def _randomness(seed: int, device: torch.device | str) -> Iterator[None]:
    """Dropout draws from the seed, and torch's generators are afterwards what they were."""
    where = torch.device(device)
    cuda = where.type == "cuda"
    devices = [torch.cuda.current_device() if where.index is None else where.index] if cuda else []
    with torch.random.fork_rng(devices=devices):
        torch.default_generator.manual_seed(seed % 2**62)
        for index in devices:
            torch.cuda.default_generators[index].manual_seed(seed % 2**62)
        yield
