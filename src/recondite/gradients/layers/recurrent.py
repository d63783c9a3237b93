"""Recurrent layers and their cells, all records at once.

A layer of them has two linear maps: of what goes in, and of the state before. The gates' gradients
at every time step are all that their weights' gradients need. Torch's own kernel gives them: it is
called with the gates' share of the input as its input, and with the identity as the weights of it,
so the gradient of that input is the gates'. Nothing is unrolled here, and nothing runs record by
record.

Relation: for gates g_t = W x_t + U h_{t-1} + b the gradient is Σ_t (∂g_t) x_tᵀ and Σ_t (∂g_t)
h_{t-1}ᵀ. A GRU's third gate sees U h through its reset gate r, which multiplies that part's ∂g.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils.parametrize import is_parametrized

from recondite.gradients.forwards import WatchedForward
from recondite.gradients.layers.sites import Site, SitesEntry, SitesRule
from recondite.gradients.tape import Tape

__all__ = ["CellRule", "RecurrentRule", "is_cell", "is_recurrent"]

_KERNELS = {"LSTM": torch.lstm, "GRU": torch.gru, "RNN_TANH": torch.rnn_tanh}
_KERNELS["RNN_RELU"] = torch.rnn_relu


def is_recurrent(layer: nn.Module) -> bool:
    """Whether it is torch's own RNN, LSTM or GRU, without projections of its state.

    >>> is_recurrent(nn.LSTM(2, 3)), is_recurrent(nn.LSTM(2, 3, proj_size=1))
    (True, False)
    """
    kinds = nn.RNN, nn.LSTM, nn.GRU
    return type(layer) in kinds and not layer.proj_size and not is_parametrized(layer)


def is_cell(layer: nn.Module) -> bool:
    """Whether it is torch's own cell of one of them.

    >>> is_cell(nn.GRUCell(2, 3))
    True
    """
    kinds = nn.RNNCell, nn.LSTMCell, nn.GRUCell
    return type(layer) in kinds and not is_parametrized(layer)


class RecurrentRule(SitesRule):
    """``nn.RNN``, ``nn.LSTM`` and ``nn.GRU``, stacked or in both directions; records on any axis.

    Dropout between stacked layers draws other numbers than torch's own kernel does.
    """

    def __init__(self, *, redraws: bool = False) -> None:
        """For layers with dropout between them, or without."""
        self.redraws = redraws

    def attach(self, tape: Tape, layer: nn.Module) -> None:
        """Runs the layer through the tape while training."""
        plain = layer.forward
        layer.forward = WatchedForward(layer, _Recurrent(tape, layer, self, plain), plain)


class _Recurrent:
    """The forward function of one layer."""

    def __init__(self, tape: Tape, layer: Any, rule: SitesRule, plain: Any) -> None:
        self.tape, self.layer, self.rule, self.plain = tape, layer, rule, plain
        ends = ("", "_reverse") if layer.bidirectional else ("",)
        self.names = [[f"l{at}{end}" for end in ends] for at in range(layer.num_layers)]
        self.sites = {
            f"{kind}_{name}": Site(
                getattr(layer, f"weight_{kind}_{name}"),
                getattr(layer, f"bias_{kind}_{name}") if layer.bias else None,
            )
            for names in self.names
            for name in names
            for kind in ("ih", "hh")
        }

    def __call__(self, input: Any, hx: Any = None) -> Any:
        layer, tape = self.layer, self.tape
        kind = type(layer).__name__
        training = tape.recording and layer.training and torch.is_grad_enabled()
        if tape.probe is None and not training:
            return self.plain(input, hx)
        if isinstance(input, nn.utils.rnn.PackedSequence):
            raise ValueError(
                f"{kind}: a PackedSequence has no batch axis: pad the sequences instead"
            )
        if input.dim() != 3:
            raise ValueError(
                f"layer {kind} saw one sequence without a batch: keep the batch on an axis of its "
                "own"
            )
        x = tape.for_each_record(input if layer.batch_first else input.transpose(0, 1))
        states = () if hx is None else hx if isinstance(hx, tuple) else (hx,)
        if tape.probe is not None:
            given = (x, *(state.movedim(1, 0) for state in states))
            tape.probe += [(layer, part.detach()) for part in given]
        entry = self.rule.begin(tape, layer, len(x), x) if training else None
        if entry is None:
            return self.plain(input, hx)
        ends: list[tuple[torch.Tensor, ...]] = []
        for depth, names in enumerate(self.names):
            made = []
            for name in names:
                own = tuple(state[len(ends)] for state in states)
                out, *last = self._one(entry, name, x, own)
                made.append(out)
                ends.append(tuple(last))
            x = torch.cat(made, 2) if len(made) > 1 else made[0]
            if layer.dropout > 0.0 and depth + 1 < len(self.names):
                x = functional.dropout(x, layer.dropout)
        last_states = tuple(torch.cat(parts) for parts in zip(*ends, strict=True))
        out = x if layer.batch_first else x.transpose(0, 1)
        return out, last_states if layer.mode == "LSTM" else last_states[0]

    def _one(
        self, entry: SitesEntry, name: str, x: torch.Tensor, states: tuple[torch.Tensor, ...]
    ) -> tuple[torch.Tensor, ...]:
        """One layer in one direction: what came out, and the last state (with the cell's)."""
        layer, back = self.layer, name.endswith("_reverse")
        own = self._weights(name)
        weight = own["weight_hh"].detach()
        hidden = layer.hidden_size
        if not states:
            empty = weight.new_zeros(len(x), hidden)
            states = (empty, empty) if layer.mode == "LSTM" else (empty,)
        states = tuple(state.to(weight.dtype)[None].contiguous() for state in states)
        # The state's map learns its gradient from the input's.
        told: list[Any] = []

        def then(grad: torch.Tensor) -> None:
            part, reset = told
            grad = grad.flip(1) if back else grad
            if reset is not None:
                grad = torch.cat([grad[..., : 2 * hidden], grad[..., 2 * hidden :] * reset], 2)
            part.keep(grad)

        gates = entry.linear(
            self.sites[f"ih_{name}"], x, own["weight_ih"], own.get("bias_ih"), then
        )
        kernel: Any = _KERNELS[layer.mode]
        one = torch.eye(len(weight), dtype=weight.dtype, device=weight.device)
        bias = own["bias_hh"].detach() if layer.bias else None
        weights = [one, weight]
        with torch.autocast(x.device.type, enabled=False):
            given = gates.to(weight.dtype)
            given = given.flip(1) if back else given
            if layer.mode == "GRU" and bias is not None:
                weights += [torch.zeros_like(bias), bias]  # its place is within the reset
            elif bias is not None:
                given = given + bias
            first = states if layer.mode == "LSTM" else states[0]
            out, *last = kernel(given, first, weights, len(weights) == 4, 1, 0.0, True, False, True)
            before = torch.cat([states[0].detach().transpose(0, 1), out.detach()[:, :-1]], 1)
            reset = None
            if layer.mode == "GRU":
                shares = before @ weight[:hidden].mT
                shares = shares if bias is None else shares + bias[:hidden]
                reset = torch.sigmoid(given.detach()[..., :hidden] + shares)
        told += [entry.known(self.sites[f"hh_{name}"], before), reset]
        return (out.flip(1) if back else out, *last)

    def _weights(self, name: str) -> dict[str, torch.Tensor]:
        kinds = ("weight_ih", "weight_hh", *(("bias_ih", "bias_hh") if self.layer.bias else ()))
        return {kind: getattr(self.layer, f"{kind}_{name}") for kind in kinds}


class CellRule(SitesRule):
    """``nn.RNNCell``, ``nn.LSTMCell`` and ``nn.GRUCell``: one step of all records."""

    def attach(self, tape: Tape, layer: nn.Module) -> None:
        """Runs the cell through the tape while training."""
        plain = layer.forward
        layer.forward = WatchedForward(layer, _Cell(tape, layer, self, plain), plain)


class _Cell:
    """The forward function of one cell."""

    def __init__(self, tape: Tape, layer: Any, rule: SitesRule, plain: Any) -> None:
        self.tape, self.layer, self.rule, self.plain = tape, layer, rule, plain
        self.sites = [
            Site(layer.weight_ih, layer.bias_ih if layer.bias else None),
            Site(layer.weight_hh, layer.bias_hh if layer.bias else None),
        ]

    def __call__(self, input: torch.Tensor, hx: Any = None) -> Any:
        layer, tape = self.layer, self.tape
        kind = type(layer).__name__
        training = tape.recording and layer.training and torch.is_grad_enabled()
        if tape.probe is None and not training:
            return self.plain(input, hx)
        if input.dim() != 2:
            raise ValueError(f"layer {kind} saw one record without a batch: keep the first axis")
        x = tape.for_each_record(input)
        states = () if hx is None else hx if isinstance(hx, tuple) else (hx,)
        if tape.probe is not None:
            tape.probe += [(layer, part.detach()) for part in (x, *states)]
        if not training:
            return self.plain(input, hx)
        if not states:
            states = (x.new_zeros(len(x), layer.hidden_size),) * 2
        entry = self.rule.begin(tape, layer, len(x), x)
        biases = (layer.bias_ih, layer.bias_hh) if layer.bias else (None, None)
        given = entry.linear(self.sites[0], x, layer.weight_ih, biases[0])
        before = entry.linear(self.sites[1], states[0], layer.weight_hh, biases[1])
        if kind == "LSTMCell":
            keep, forget, new, show = (given + before).chunk(4, 1)
            cell = forget.sigmoid() * states[1] + keep.sigmoid() * new.tanh()
            return show.sigmoid() * cell.tanh(), cell
        if kind == "GRUCell":
            mine, its = given.chunk(3, 1), before.chunk(3, 1)
            reset, update = (mine[0] + its[0]).sigmoid(), (mine[1] + its[1]).sigmoid()
            new = (mine[2] + reset * its[2]).tanh()
            return (1.0 - update) * new + update * states[0]
        total = given + before
        return total.tanh() if layer.nonlinearity == "tanh" else total.relu()
