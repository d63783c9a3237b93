"""What a forward pass must not do: mix records, or store them.

Clipping bounds one record only if row i of what every layer sees comes from record i alone, and
noise protects only what goes through the gradient. Both are looked at while training:

- Before the first pass over two records or more the model runs once more on the batch and on two
  of its records alone, in evaluation mode and without a trace on the tape or in the generators.
  Every input of a trained layer must have one row for the one record, the same as in the batch.
- There it also runs on each of the two as it trains. What is left in plain attributes of the layers
  (tensors, numbers, lists of them) must be the same for both (:mod:`recondite.gradients.stored`).
- After every pass no buffer and no parameter may have changed.

What this cannot see: mixing in the loss, or outside the module that is called; mixing that depends
on the values, or that begins later; data stored elsewhere than in the module, or only later on.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.nn.utils.parametrizations import _SpectralNorm

from recondite.gradients.first_step import FirstStep, cut, unsaved
from recondite.gradients.forwards import RecordedForward, WatchedForward, given_back
from recondite.gradients.layers.slow import swapped
from recondite.gradients.stored import data_kept
from recondite.gradients.tape import Tape

__all__ = ["Watch"]

# Relative differences between one record in a batch and alone that rounding explains.
_SAME, _SAME_HALF = 1e-3, 5e-2
_Held = Mapping[str, torch.Tensor | None]


class Watch:
    """Hooks on a model and its parts; the outermost one that is called is looked at.

    Attributes:
      inputs: What each pass since the batch was handed out was called with: the tensors that have a
        row for every record.
    """

    def __init__(self, model: nn.Module, layers: Collection[nn.Module], tape: Tape) -> None:
        self._tape = tape
        self.first_step = FirstStep({p: name for name, p in model.named_parameters()}, tape)
        self._names = {layer: name or "model" for name, layer in model.named_modules()}
        self._depth = 0
        self._checked: set[nn.Module] = set()
        # Parameters and buffers: names, where they are held, what they were, how often written to.
        self._before: list[tuple[str, _Held, str, torch.Tensor, int]] = []
        self._values: dict[str, torch.Tensor] | None = None
        self._rows = True
        self.inputs: list[list[torch.Tensor]] = []
        self._inside = {
            module: trained
            for module in model.modules()
            if (trained := [part for part in module.modules() if part in layers])
        }
        # A model whose parts are exchanged is refused at the step (recondite.training.guard).
        self._places = {module: _places(module) for module in self._inside}
        self._watched: list[tuple[nn.Module, Any]] = []
        self.attach()

    def attach(self) -> None:
        """Puts itself around every part of the model that holds a trained layer."""
        for module in self._inside:
            held = vars(module).get("forward")
            if held is None or isinstance(held, RecordedForward):
                self._watched.append((module, held))
                module.forward = self._around(module, held or module.forward)

    def _around(self, module: nn.Module, run: Any) -> WatchedForward:
        def forward(*args: Any, **kwargs: Any) -> Any:
            try:
                watched = self._enter(module, args, kwargs)
                out = run(*args, **kwargs)
                return self.first_step.leave(module, out) if watched else out
            finally:
                self._leave(module)

        return WatchedForward(module, forward, run)

    def detach(self) -> None:
        """Gives the modules their own forward functions back."""
        given_back(self._watched)

    def storage_only(self) -> None:
        """From now on looks only at what is stored: nothing is bounded record by record."""
        self._rows = False

    def reset(self) -> None:
        """Begins anew after a pass that was interrupted."""
        self._depth, self._before = 0, []

    def _enter(self, module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
        """Whether the call is the outermost one of a pass of the training."""
        self._depth += 1
        if self._depth > 1 or not self._training(module):
            return False
        self._tape.half = self._tape.half or _in_half(module)
        first = module not in self._checked
        rows = next((len(t) for t in _tensors((args, kwargs)) if t.dim()), 0)
        self._tape.rows = rows or None
        if first:
            if rows > 1 and self._rows:
                self._check_rows(module, args, kwargs, rows)
            if rows > 1:
                self._check_kept(module, args, kwargs, rows)
            if rows != 1:  # one record tells nothing: the next batch will; nor does a refused one
                self._checked.add(module)
        given = [t.detach() for t in _tensors((args, kwargs)) if t.dim() and len(t) == rows]
        self.inputs.append(given)
        self._before = [
            (prefix, held, key, tensor, tensor._version)
            for prefix, held in self._places[module]
            for key, tensor in held.items()
            if tensor is not None
        ]
        self._values = {n: t.clone() for n, t in module.named_buffers()} if first else None
        if self._rows:
            self.first_step.enter(module, args, kwargs, rows)
        return self._rows

    def _leave(self, module: nn.Module) -> None:
        self._depth = max(0, self._depth - 1)
        if self._depth > 0:
            return
        self._tape.rows = None
        before, self._before = self._before, []
        values, self._values = self._values, None
        for prefix, held, key, tensor, version in before:
            same = held.get(key) is tensor and tensor._version == version
            if same and values is not None and prefix + key in values:
                # Kernels that update running statistics do not always count as a change.
                same = torch.equal(tensor, values[prefix + key])
            if not same:
                raise ValueError(
                    f"{self._names[module]} changes {prefix + key} in its forward pass: what is "
                    "stored of the data there carries no noise; remove it, or put that layer in "
                    "eval mode"
                )

    def _training(self, module: nn.Module) -> bool:
        if not (self._tape.recording and torch.is_grad_enabled()):
            return False
        return any(layer.training for layer in self._inside[module])

    def _check_rows(
        self, module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], rows: int
    ) -> None:
        with self._aside(module):
            together = self._together(module, args, kwargs, rows)
            for row in (0, rows - 1):
                try:
                    one = cut(args, row, rows), cut(kwargs, row, rows)
                    alone = self._run(module, *one, 1)
                except Exception as error:
                    raise ValueError(
                        f"{self._names[module]} does not run on one record alone "
                        f"({str(error).splitlines()[0] if str(error) else type(error).__name__}): "
                        "keep the batch on the first axis of every input, and its size other than "
                        "theirs"
                    ) from error
                self._compare(together, alone, row, rows)

    def _together(
        self, module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], rows: int
    ) -> list[tuple[nn.Module, torch.Tensor]]:
        """What the layers get of the batch; an error that only private training makes is told."""
        try:
            return self._run(module, args, kwargs, rows)
        except ValueError:
            raise
        except Exception as error:
            self._tape.probe = self._tape.rows = None
            with torch.random.fork_rng(_devices(module)):
                module(*args, **kwargs)  # an error of the model's own comes again
            raise ValueError(
                f"{self._names[module]} gives a layer one row for the whole batch and then counts "
                f"on its one row of output ({str(error).splitlines()[0]}): freeze that layer, or "
                "give it a row for every record"
            ) from error

    def _check_kept(
        self, module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], rows: int
    ) -> None:
        """Refuses layers that keep in an attribute something that depends on the record."""

        def alone(row: int) -> Callable[[], object]:
            one = cut(args, row, rows), cut(kwargs, row, rows)

            def run() -> object:
                self._tape.rows = 1
                buffers = {name: b.clone() for name, b in module.named_buffers()}
                with torch.random.fork_rng(_devices(module)), swapped(module, buffers):
                    return module(*one[0], **one[1])

            return run

        with self._aside(module, training=True):
            try:
                name = data_kept(module, (alone(0), alone(rows - 1)))
            except Exception:  # a person's own model may refuse a batch of one as it likes
                return
        if name is not None:
            raise ValueError(
                f"{self._names[module]} keeps in its attribute {name} what depends on the records "
                "it sees, and that carries no noise: do not keep it, or clear it at the end of "
                "forward"
            )

    def _run(
        self, module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], rows: int
    ) -> list[tuple[nn.Module, torch.Tensor]]:
        found: list[tuple[nn.Module, torch.Tensor]] = []
        self._tape.probe, self._tape.rows = found, rows
        with torch.random.fork_rng(_devices(module)):
            module(*args, **kwargs)
        return found

    def _compare(
        self,
        together: list[tuple[nn.Module, torch.Tensor]],
        alone: list[tuple[nn.Module, torch.Tensor]],
        row: int,
        rows: int,
    ) -> None:
        dropped = self._tape.dropped
        together, alone = (
            [(layer, x) for layer, x in each if layer not in dropped] for each in (together, alone)
        )
        if [layer for layer, _ in together] != [layer for layer, _ in alone]:
            raise ValueError(
                "the layers that are called depend on the number of records: no row of a batch "
                "belongs to one record then"
            )
        for (place, batch), (_, one) in zip(together, alone, strict=True):
            (layer,) = getattr(place, "of", (place,))  # of a module's own operations: the module
            name = f"{self._names[layer]} ({type(layer).__name__})"
            if batch.shape[:1] != (rows,):
                raise ValueError(
                    f"layer {name} saw {len(batch) if batch.dim() else 0} rows where the batch has "
                    f"{rows}: {_remedy(batch, one, rows)}"
                )
            fits = one.shape == (1, *batch.shape[1:])
            if not fits or not _close(batch[row], one[0]):
                seen = "another input" if fits else f"{tuple(one.shape)} as its input's shape"
                raise ValueError(
                    f"layer {name} has {seen} where a record is alone: keep the batch on the first "
                    "axis (batch_first=True), and do not mix its records"
                )

    @contextmanager
    def _aside(self, module: nn.Module, *, training: bool = False) -> Iterator[None]:
        """Without a trace on the tape; in evaluation mode, unless it is to be as in training."""
        modes = [(part, part.training) for part in module.modules()]
        recording, self._tape.recording = self._tape.recording, False
        rows = self._tape.rows
        for part, _ in modes:
            part.training = part.training and training
        try:
            with unsaved():
                yield
        finally:
            for part, mode in modes:
                part.training = mode
            self._tape.recording, self._tape.probe, self._tape.rows = recording, None, rows


def _places(module: nn.Module) -> list[tuple[str, _Held]]:
    """What holds parameters and buffers; spectral normalisation's follow from the weights."""
    found: list[tuple[str, _Held]] = []
    for prefix, part in module.named_modules():
        dot = f"{prefix}." if prefix else ""
        found.append((dot, part._parameters))
        if not isinstance(part, _SpectralNorm):
            found.append((dot, part._buffers))
    return found


def _tensors(values: Any) -> Iterator[torch.Tensor]:
    if isinstance(values, torch.Tensor):
        yield values
    elif isinstance(values, dict):
        yield from (t for value in values.values() for t in _tensors(value))
    elif isinstance(values, list | tuple):
        yield from (t for value in values for t in _tensors(value))


def _remedy(batch: torch.Tensor, one: torch.Tensor, rows: int) -> str:
    """What to do about a layer whose input has not one row for each record."""
    if batch.dim() and batch.shape == one.shape:  # T5's table of relative positions
        return "its input is the same for any batch; freeze that layer, or give it a row a record"
    if batch.dim() and one.dim() and len(one) > 1 and len(batch) == rows * len(one):  # Swin
        return (
            f"each record has {len(one)} (windows or patches); freeze that layer, or keep the "
            "batch on the first axis and those on another"
        )
    return "use the private loader, and keep the batch on the first axis"


def _close(one: torch.Tensor, other: torch.Tensor) -> bool:
    if not one.is_floating_point():
        return torch.equal(one, other)
    half = one.element_size() < 4 or torch.is_autocast_enabled(one.device.type)
    a, b = one.double(), other.double()
    if not bool(torch.isfinite(a).all() & torch.isfinite(b).all()):
        return True  # such a record is zeroed
    gap = float((a - b).norm())
    return gap <= (_SAME_HALF if half else _SAME) * max(float(a.norm()), float(b.norm()))


def _in_half(module: nn.Module) -> bool:
    first = next(module.parameters())
    return first.element_size() < 4 or torch.is_autocast_enabled(first.device.type)


def _devices(module: nn.Module) -> list[int]:
    found = {p.device for p in module.parameters() if p.is_cuda}
    return sorted(device.index or 0 for device in found)
