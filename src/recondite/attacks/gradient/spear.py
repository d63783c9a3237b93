"""Whole batches, exactly, from a first linear layer with ReLU: low rank and sparse columns."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from recondite import _validate
from recondite.attacks.gradient.analytic import first_linear, quotients
from recondite.attacks.gradient.base import (
    AttackProgress,
    GradientAttack,
    Reconstruction,
    torch_generator,
)
from recondite.attacks.gradient.descent import watch
from recondite.attacks.gradient.matcher import Matcher
from recondite.attacks.gradient.spans import row_space
from recondite.attacks.gradient.victims import Victims

__all__ = ["Spear"]

_PLENTY = 1024  # guesses for each of the 2^batch that are needed about
_AT_ONCE = 2048  # guesses solved together
_NOISY = 1e-3  # of the largest singular value: more than rounding lies beyond the batch's rank
_DEPENDENT = 1e-6  # of the largest singular value: a record that others add up to
_TRUE = 0.99  # cosine of a column with what the network gives: less is a mixture
_SAME = 1e-3  # of a unit vector, outside of the columns chosen before it


@dataclass(frozen=True)
class Spear(GradientAttack):
    """Dimitrov et al., "SPEAR: exact gradient inversion of batches in federated learning" (2024).

    The gradient of a first linear layer is D·X: a column of D, the derivatives at the outputs, for
    each record of the batch X. Its rank is the batch's size, so that D = U·Q for known U and some
    small Q. ReLU makes about half of every column of D zero: whoever guesses batch - 1 rows in
    which one column is zero finds that column of Q, and sees it by all the other zeros it brings.
    With every column found, the bias's gradient gives their scale and Q⁻¹ the records, exactly.
    Guesses needed double with each record: up to about 20 records in minutes on a CPU.

    Exact where nothing was added to the gradient; bounding each record's gradient changes nothing,
    since its factor belongs to the column. Under noise, or where ``guesses`` run out, rows of the
    layer that few records activate are divided by the bias's, as in ``analytic``: an estimate.

    With two classes and one hidden layer the columns are multiples of one vector where they are not
    zero: their differences are sparser than they are, and batches above one are not found.

    Attributes:
      guesses: Sets of rows tried for a victim, at most.
    """

    name: ClassVar[str] = "spear"
    title: ClassVar[str] = "whole batches, exactly, from a ReLU layer"
    paper: ClassVar[str] = "Dimitrov et al., SPEAR (2024)"
    takes: ClassVar[tuple[str, ...]] = ("images", "rows of a table")

    guesses: int = 2_000_000

    def __post_init__(self) -> None:
        _validate.at_least("guesses", self.guesses, 1)

    def check_model(self, model: nn.Module, shape: tuple[int, ...]) -> None:
        """Refuses a model whose first layer is not linear with a bias, followed by ReLU."""
        inputs = math.prod(shape)
        layers = [m for m in model.modules() if not list(m.children()) and not _passes(m)]
        first, after = (*layers, None, None)[:2]
        fits = isinstance(first, nn.Linear) and first.in_features == inputs
        if not fits or first.bias is None or not isinstance(after, nn.ReLU):  # type: ignore[union-attr]
            raise ValueError(
                f"spear needs a model whose first layer is linear on all {inputs} features, with a "
                "bias, followed by ReLU: choose table-mlp or mlp2"
            )

    def _attack(
        self,
        victims: Victims,
        progress: Callable[[AttackProgress], None] | None,
        time_limit: float | None,
    ) -> Reconstruction:
        self.check_model(victims.model, victims.shape)
        began, found, notes = time.perf_counter(), [], []
        name, bias = first_linear(victims)
        assert bias is not None
        layer = name.removesuffix("weight").rstrip(".")
        weight, slopes = victims.gradients[name].double(), victims.gradients[bias].double()
        if row_space(weight, None, victims.batch_size) is None:
            raise ValueError(
                f"spear needs batches smaller than the first layer ({weight.shape[1]} outputs, "
                f"{weight.shape[2]} inputs), got {victims.batch_size}"
            )
        generator = torch_generator(victims.seed, victims.device)
        tried, stopped, by_user = 0, False, False
        for number in range(victims.count):
            search = _ColumnSearch(weight[number], slopes[number], victims.batch_size, generator)

            def fits(rows: Tensor, columns: Tensor) -> bool:
                # Any columns that span the same space explain the layer: only the true ones are
                # what the network itself gives for the records that they lead to.
                shaped = rows.to(victims.dtype).reshape(-1, *victims.shape)
                best = _fit(victims, shaped, columns, layer).amax(1)
                return bool((best > _TRUE).all())

            def proceed(done: int, share: float) -> bool:
                values = torch.tensor([share], dtype=torch.float64)
                return not watch(began, time_limit, progress, done, self.guesses, values)

            try:
                search.run(0 if stopped else self.guesses, proceed, fits)
            except KeyboardInterrupt:
                stopped = by_user = True
            tried += search.tried
            rows, note = search.records(), search.note()
            if rows is None:
                rest, _ = quotients(weight[number, None], slopes[number, None], victims)
                rows = rest[0]
            stopped = stopped or search.ended
            found.append(rows)
            notes.append(note)
        flat = torch.stack(found).to(victims.dtype)
        records = flat.reshape(victims.count, victims.batch_size, *victims.shape)
        labels = _labels(victims, records)
        loss = Matcher(victims).cosine_distance(records.requires_grad_(), labels).detach()
        return Reconstruction(
            images=records.detach(),
            labels=labels,
            loss=loss,
            interrupted=stopped,
            by_user=by_user,
            steps=tried,
            seconds=time.perf_counter() - began,
            notes=tuple(dict.fromkeys(notes)),
            figures={"exact": sum(note.startswith("exact") for note in notes) / len(notes)},
        )


class _ColumnSearch:
    """One victim's columns."""

    def __init__(self, weight: Tensor, slopes: Tensor, batch: int, generator: torch.Generator):
        self.left, self.sizes, self.right = torch.linalg.svd(weight, full_matrices=False)
        self.slopes, self.batch, self.generator = slopes, batch, generator
        self.rank = int((self.sizes[:batch] > _DEPENDENT * self.sizes[0]).sum())
        beyond, last = float(self.sizes[self.rank]), float(self.sizes[self.rank - 1])
        self.noisy = beyond > _NOISY * float(self.sizes[0])
        # Rounding turns the last directions by about this angle: zeros are zero up to that.
        self.zero = min(max(100.0 * beyond / last, 1e-9), 0.01)
        self.left = self.left[:, : self.rank]
        self.columns: list[Tensor] = []  # of Q, unit vectors, with most zeros first
        self.counts: list[int] = []
        self.tried, self.done, self.ended, self.changed = 0, False, False, False

    def run(
        self,
        guesses: int,
        proceed: Callable[[int, float], bool],
        fits: Callable[[Tensor, Tensor], bool],
    ) -> None:
        """Guesses rows until all columns are found and fit the network, or guesses run out."""
        if self.noisy or not guesses:
            return
        if self.rank == 1:
            self.columns, self.done = [torch.ones_like(self.left[0])], True
            return
        # A small batch needs few: what is not found among these many is not to be found.
        most = min(guesses, _PLENTY << self.rank)
        while self.tried < most and not self.done:
            self.changed = False
            self._guess()
            if self.changed and len(self.columns) == self.rank:
                mixing = self._mixing()
                rows = self._rows(mixing)
                whole = bool(torch.isfinite(rows).all())
                self.done = whole and fits(rows, (self.left @ mixing).T)
            if not proceed(self.tried, 1.0 - len(self.columns) / self.rank):
                self.ended = True
                return

    def _guess(self) -> None:
        outputs, size = len(self.left), self.rank - 1
        drawn = torch.rand(
            _AT_ONCE, outputs, generator=self.generator, device=self.left.device
        ).topk(size, dim=1)
        rows = self.left[drawn.indices]
        self.tried += _AT_ONCE
        # A vector that these rows are zero at: its last entry is 1, which is no loss in general.
        solved, failed = torch.linalg.solve_ex(rows[:, :, :size], -rows[:, :, size:])
        vectors = torch.cat([solved[:, :, 0], torch.ones_like(solved[:, :1, 0])], 1)
        vectors = vectors[(failed == 0) & torch.isfinite(vectors).all(1)]
        vectors = vectors / vectors.norm(dim=1, keepdim=True)
        slopes = (vectors @ self.left.T).abs()
        zeros = (slopes <= self.zero * slopes.amax(1, keepdim=True)).sum(1)
        # By chance a vector is zero at the rows it was made from, and at no others.
        likely = (zeros > size + 2).nonzero().flatten()
        for place in likely[zeros[likely].argsort(descending=True)].tolist():
            self._keep(vectors[place], int(zeros[place]))

    def _keep(self, vector: Tensor, zeros: int) -> None:
        """Keeps a set of independent vectors with as many zeros as possible: mixtures have less."""
        if any(float((vector @ known).abs()) > 1.0 - 1e-6 for known in self.columns):
            return
        pairs = sorted(
            zip([*self.counts, zeros], range(len(self.columns) + 1), strict=True), reverse=True
        )
        every = [*self.columns, vector]
        chosen: list[int] = []
        basis = torch.zeros(0, self.rank, dtype=vector.dtype, device=vector.device)
        for _, place in pairs:
            rest = every[place] - (every[place] @ basis.T) @ basis
            size = float(rest.norm())
            if size > _SAME and len(chosen) < self.rank:
                chosen.append(place)
                basis = torch.cat([basis, (rest / size)[None]])
        counts = [*self.counts, zeros]
        self.changed = self.changed or len(every) - 1 in chosen
        self.columns, self.counts = [every[i] for i in chosen], [counts[i] for i in chosen]

    def _polished(self, vector: Tensor) -> Tensor:
        """The vector that all its zeros agree on: less rounding than in the guessed rows."""
        slopes = (self.left @ vector).abs()
        rows = self.left[slopes <= self.zero * slopes.max()]
        better: Tensor = torch.linalg.svd(rows, full_matrices=True).Vh[-1]
        return better

    def _mixing(self) -> Tensor:
        """Q with the scale of each column, by the bias's gradient: D adds up to it."""
        unit = torch.stack([self._polished(column) for column in self.columns], 1)
        scales: Tensor = torch.linalg.lstsq(self.left @ unit, self.slopes[:, None]).solution[:, 0]
        return unit * scales

    def records(self) -> Tensor | None:
        """(batch, inputs); None where columns are missing. Records found twice stand twice."""
        if not self.done:
            return None
        again = torch.arange(self.batch) % self.rank
        return self._rows(self._mixing())[again]

    def _rows(self, mixing: Tensor) -> Tensor:
        sized = self.sizes[: self.rank, None] * self.right[: self.rank]
        solved, failed = torch.linalg.solve_ex(mixing, sized)
        return solved if int(failed) == 0 else torch.full_like(solved, torch.nan)

    def note(self) -> str:
        """How it went, in one line."""
        if self.done and self.rank < self.batch:
            return f"{self.rank} of {self.batch} records are independent of each other: those only"
        if self.done:
            return "exact: every column of the derivatives was found"
        if self.noisy:
            return "an estimate: noise hides the low rank, so rows are divided by the bias's"
        return (
            f"an estimate: {len(self.columns)} of {self.rank} columns found in {self.tried:,} "
            "guesses (raise guesses)"
        )


def _passes(module: nn.Module) -> bool:
    """Layers that hand a record on as it is."""
    return isinstance(module, nn.Flatten | nn.Identity | nn.Unflatten)


def _labels(victims: Victims, records: Tensor) -> Tensor:
    """The class of each record: told ones in the order that fits, else those that fit best.

    The derivatives at the first layer's outputs are known up to a factor from the records; those
    of the true class point the same way.
    """
    name, bias = first_linear(victims)
    assert bias is not None
    weight = victims.gradients[name].double()
    fits = []
    for number in range(victims.count):
        rows = records[number].flatten(1).double()
        # Least squares: the columns that explain the layer's gradient with these records.
        slopes = torch.linalg.lstsq(rows.T, weight[number].T).solution  # (batch, out)
        fits.append(_fit(victims, records[number], slopes, name.removesuffix("weight").rstrip(".")))
    cost = -torch.stack(fits)  # (victims, batch, classes)
    if victims.labels is None:
        return cost.argmin(2)
    from recondite.metrics.images import assignment

    placed = []
    for mine, told in zip(cost, victims.labels, strict=True):
        order = assignment(mine[:, told].T)  # of records to positions
        own = torch.empty_like(told)
        own[order.to(told.device)] = told
        placed.append(own)
    return torch.stack(placed)


def _fit(victims: Victims, records: Tensor, slopes: Tensor, layer: str) -> Tensor:
    """Cosine between the columns and what each class would give, (batch, classes)."""
    seen: list[Tensor] = []
    module = dict(victims.model.named_modules())[layer]
    handle = module.register_forward_hook(lambda _, __, output: seen.append(output))
    try:
        logits = victims.model(records)
    finally:
        handle.remove()
    found = []
    for label in range(victims.classes):
        labels = torch.full((len(records),), label, device=records.device)
        loss = victims.loss_fn(logits, labels)
        (made,) = torch.autograd.grad(loss, seen[0], retain_graph=True)
        found.append(nn.functional.cosine_similarity(made.double(), slopes, dim=1))
    return torch.stack(found, 1).detach()
