"""Whether the loss is an average (or sum) over records of each record's own loss, where it shows.

Clipping bounds a record's own gradient only if no other record has a hand in it. A loss that
divides by something the whole batch shares (its number of tokens, its class weights) breaks that:
one record more rescales the gradients of all others before they are clipped.

The loss function itself is not seen. But the gradient of a cross-entropy with respect to the logits
of one token is c·(softmax − onehot), and c can be read off: it is what the loss multiplies that
token's log-likelihood with. With ``rows`` records (1 in place of ``rows`` for a sum), an average of
the records' own losses has the same rows·c at every token, or the same rows·Σc at every record, at
all steps. Anything else is refused. Binary logits and log-probabilities are read likewise.

Gradients of another form are not judged, nor are tokens that the model is sure of (their c cannot
be read, so they count as an interval). So the assumption stays in every account.
"""

from __future__ import annotations

import dataclasses
import functools
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from recondite.gradients.forwards import RecordedForward, WatchedForward, given_back
from recondite.gradients.tape import wide

__all__ = ["LossCheck"]

FIRST, EVERY = 16, 16  # passes that are all looked at; of later ones, one in so many at random
_SURE = 0.99  # above this probability 1 − p has too few digits
_HALF, _SINGLE = 2e-2, 1e-3  # how far rounding may take a coefficient, relatively
_NARROW = (torch.bfloat16, torch.float16)
_FEWEST = 8  # equal coefficients that make a binary cross-entropy
_REMEDY = (
    "use reduction='none', average inside each record, then over records (or vouch for the loss "
    "with loss_reduction='per-record')"
)


@dataclass(frozen=True)
class _Scale:
    """What rows·c was so far: at tokens (least, most), and at records (what all can have)."""

    token_low: float = np.inf
    token_high: float = 0.0
    record_low: float = 0.0
    record_high: float = np.inf


class LossCheck:
    """Watches the gradients that reach a model's outputs.

    Nothing is registered on the model: its containers get a forward function that can be copied,
    saved and taken away.

    Attributes:
      mean: Whether the loss was told to be an average over records.
    """

    def __init__(self, module: nn.Module, *, mean: bool, watching: bool = True) -> None:
        """Attaches to the model; not ``watching``, it leaves it alone and has no objections."""
        self.mean = mean
        self._seen: list[tuple[tuple[int, int], np.ndarray[Any, np.dtype[np.float64]], float]] = []
        self._scales: dict[tuple[int, int], _Scale] = {}
        self._depth = self._passes = self._calls = 0
        self._chance = random.SystemRandom()
        self._watched: list[tuple[nn.Module, Any]] = []
        for layer in module.modules() if watching else ():
            held = vars(layer).get("forward")
            inner = any(True for _ in layer.children())
            own = held is None or isinstance(held, RecordedForward)
            if own and (layer is module or inner):
                self._watched.append((layer, held))
                layer.forward = self._watching(layer, held or layer.forward)

    def detach(self) -> None:
        """Gives the containers their own forward functions back."""
        given_back(self._watched)

    def clear(self) -> None:
        """Forgets the passes since the last step."""
        self._seen, self._calls = [], 0

    def judge(self, rows: int) -> None:
        """Raises ``ValueError``, in one line, where the last passes show another loss.

        Args:
          rows: Records in the batch.
        """
        seen, scales = self._seen, dict(self._scales)
        self.clear()
        for slot, found, slack in seen:
            if found.size % rows == 0:
                before = scales.get(slot, _Scale())
                scales[slot] = self._judged(found.reshape(rows, -1), slack, before)
        self._scales = scales

    def _judged(
        self, found: np.ndarray[Any, np.dtype[np.float64]], slack: float, scale: _Scale
    ) -> _Scale:
        rows, unknown, known = len(found), np.isnan(found), found > 0
        if not known.any():
            return scale
        least, most = float(found[known].min()), float(found[known].max())
        counts, unclear = known.sum(1), unknown.sum(1)
        if rows > 1 and most <= least * (1 + slack):
            self._refuse_at_once(counts, unclear, 1 / least, slack)
        factor = rows if self.mean else 1
        low = factor * np.where(known, found, 0.0).sum(1)
        high = low + factor * unclear * most
        taking_part = counts + unclear > 0
        scale = _Scale(
            min(scale.token_low, factor * least),
            max(scale.token_high, factor * most),
            max(scale.record_low, float(low[taking_part].max())),
            min(scale.record_high, float(high[taking_part].min())),
        )
        tokens_agree = scale.token_high <= scale.token_low * (1 + slack)
        records_agree = scale.record_low <= scale.record_high * (1 + slack)
        if not tokens_agree and not records_agree:
            raise ValueError(
                "the loss weighs records by something their batch shares, such as its class "
                f"weights or its number of tokens: {_REMEDY}"
            )
        return scale

    def _refuse_at_once(
        self,
        counts: np.ndarray[Any, Any],
        unclear: np.ndarray[Any, Any],
        divisor: float,
        slack: float,
    ) -> None:
        """Refuses what one batch shows already: all coefficients of it are 1/divisor."""
        rows, most = len(counts), counts + unclear
        if self.mean and abs(divisor - 1) <= slack:
            raise ValueError(
                "the loss is a sum over the records, not their mean: give "
                'make_private(..., loss_reduction="sum") or average it'
            )
        # Where records have different numbers of tokens, a divisor that is not the number of
        # records is most likely that of tokens, or made of it.
        if counts.max() > most.min() and abs(divisor / (rows if self.mean else 1) - 1) > slack:
            raise ValueError(
                f"the loss is an average over all tokens (or kept records) of the batch: {_REMEDY}"
            )
        whole = counts.sum() * (1 - slack) <= divisor <= most.sum() * (1 + slack)
        if whole and not self.mean:
            raise ValueError(
                "the loss is a mean over the records, not their sum: give "
                'make_private(..., loss_reduction="mean") or sum it'
            )

    def _watching(self, layer: nn.Module, run: Callable[..., Any]) -> WatchedForward:
        def forward(*args: Any, **kwargs: Any) -> Any:
            self._depth += 1
            try:
                out = run(*args, **kwargs)
            finally:
                self._depth -= 1
            if self._depth == 0 and layer.training and torch.is_grad_enabled():
                self._look(out)
            return out

        return WatchedForward(layer, forward, run)

    def _look(self, out: Any) -> None:
        self._passes, self._calls = self._passes + 1, self._calls + 1
        if self._passes > FIRST and self._chance.randrange(EVERY):
            return
        for place, values in enumerate(_tensors(out)):
            if values.is_cuda and torch.cuda.is_current_stream_capturing():
                return  # for a CUDA graph: the passes before it were looked at
            slot = (self._calls, place)
            held = values.detach()  # a hook that held the tensor itself would keep it alive
            keep = functools.partial(self._keep, slot, held, held._version)
            values.register_hook(keep)  # type: ignore[no-untyped-call]  # torch gives it no types

    def _keep(
        self, slot: tuple[int, int], held: torch.Tensor, version: int, grad: torch.Tensor
    ) -> None:
        if held._version != version:
            return  # written to after the forward pass: these are not the logits any more
        with torch.no_grad():
            found = coefficients(held, grad.detach())
        if found is not None:
            slack = 2 * _slack(held, grad)
            self._seen.append((slot, found.double().cpu().numpy(), slack))


def coefficients(logits: torch.Tensor, grad: torch.Tensor) -> torch.Tensor | None:
    """What a cross-entropy multiplies each token's log-likelihood with, record by record.

    Args:
      logits: Batch first; classes on the last axis, or on the second.
      grad: The loss's gradient with respect to them.

    Returns:
      One number for each token, in the order of the records: 0 where there is no gradient, NaN
      where it cannot be read. None where the gradient is not that of a cross-entropy.
    """
    slack = _slack(logits, grad)
    # Rounded between the logits and the loss: another softmax than that of these logits.
    rounded = slack < _HALF and any(bool((grad == grad.to(d)).all()) for d in _NARROW)
    logits, grad = wide(logits), wide(grad).to(wide(logits).dtype)
    axes = [] if logits.dim() < 2 else [-1] if logits.dim() == 2 else [-1, 1]
    for axis in axes:
        z, g = logits.movedim(axis, -1), grad.movedim(axis, -1)
        if z.shape[-1] > 1:
            found, misfit = _softmax(z.flatten(0, -2), g.flatten(0, -2), 0.0 if rounded else slack)
            if not bool(misfit):
                return found
    return None if rounded else _sigmoid(logits.flatten(), grad.flatten(), slack)


def _slack(logits: torch.Tensor, grad: torch.Tensor) -> float:
    return _HALF if logits.dtype in _NARROW or grad.dtype in _NARROW else _SINGLE


def _softmax(z: torch.Tensor, g: torch.Tensor, slack: float) -> tuple[torch.Tensor, torch.Tensor]:
    value, label = g.min(-1, keepdim=True)
    p = z.softmax(-1)
    rest = p.scatter(-1, label, 0.0)
    c = -value / rest.sum(-1, keepdim=True)
    others = g.scatter(-1, label, 0.0)
    off = (others - c * rest).abs().amax(-1)
    unclear = (p.amax(-1) > _SURE) | ~torch.isfinite(value[:, 0])
    c = c[:, 0]
    misfit = (~unclear & (off > slack * c)).any()
    if bool(misfit):  # log-probabilities: a single coordinate has a gradient, and it is −c
        c = -value[:, 0]
        single = (others == 0).all(-1) & (z.logsumexp(-1).abs() < 1e-3)
        unclear = ~torch.isfinite(c)
        misfit = (~unclear & ~single).any()
    return torch.where(unclear, torch.nan, c), misfit


def _sigmoid(z: torch.Tensor, g: torch.Tensor, slack: float) -> torch.Tensor | None:
    """Any gradient has this form: it is a cross-entropy's where all agree, at different logits."""
    share = torch.sigmoid(torch.where(g < 0, -z, z))
    c = torch.where(share < 1 - _SURE, torch.nan, g.abs() / share)
    c = torch.where(torch.isfinite(c), c, torch.nan)
    known, places = c[c > 0], z[c > 0]
    if len(known) < _FEWEST or bool(places.max() - places.min() < 1e-2):
        return None
    return None if bool(known.max() > known.min() * (1 + slack)) else c


def _tensors(out: Any) -> Iterator[torch.Tensor]:
    """The tensors among a model's outputs that a loss could be computed from."""
    if isinstance(out, torch.Tensor):
        if out.requires_grad and out.is_floating_point() and out.dim() > 0:
            yield out
        return
    if isinstance(getattr(out, "logits", None), torch.Tensor):
        out = (out.logits,)
    elif isinstance(out, Mapping):
        out = (out["logits"],) if "logits" in out else out.values()
    elif dataclasses.is_dataclass(out) and not isinstance(out, type):
        out = [getattr(out, field.name) for field in dataclasses.fields(out)]
    elif not isinstance(out, (tuple, list)):
        return
    for part in out:
        yield from _tensors(part)
