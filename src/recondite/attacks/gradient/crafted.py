"""A server that crafts the weights: every record falls into a bin of its own, and is read out."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor, nn

from recondite.attacks.base import Attack, AttackRequest, Available, Threat
from recondite.attacks.gradient.analytic import distinct
from recondite.attacks.gradient.base import Reconstruction, torch_generator
from recondite.attacks.knowledge import Knowledge

if TYPE_CHECKING:
    from recondite.attacks.outcome import Outcome
    from recondite.attacks.victim import Victim
    from recondite.records import Records

__all__ = ["CraftedWeights", "Trap"]

_LOGITS = 0.1  # at most: a record that the network is sure of would have no gradient


@dataclass(frozen=True, eq=False)
class Trap:
    """A network of the agreed shape with weights that sort a batch's records.

    All rows of the first layer measure one random direction, their biases are the thresholds
    between bins that public records fill alike, and all of its outputs enter the next layer with
    one weight. Behind a ReLU a row then sums the records above its threshold, and two neighbours
    differ by the records in one bin; behind an activation that saturates at both ends a steep row
    sees its own bin alone. Either way a bin with one record is that record times the bias's
    gradient there, exactly, whatever the rest of the network and the batch are.

    Attributes:
      model: The network that the client is sent.
      weight: Name of the first layer's weight.
      bias: Name of its bias.
      ramp: Whether neighbours are subtracted.
    """

    model: nn.Module
    weight: str
    bias: str
    ramp: bool

    @classmethod
    def set_in(cls, model: nn.Module, public: Tensor, generator: torch.Generator) -> Trap:
        """Crafts the weights of a copy.

        Args:
          model: Of the agreed shape.
          public: (n, c, h, w) records of the clients' kind: they fill the bins evenly.
          generator: Draws the direction that is measured.

        Raises:
          ValueError: In one line, where records do not enter a linear layer with a bias first.
        """
        own = copy.deepcopy(model)
        flat = public.flatten(1).double()
        name, first, after, follower = _layers(own, flat.shape[1])
        bins = first.out_features
        drawn = torch.randn(flat.shape[1], generator=generator, device=generator.device)
        direction = drawn.to(flat) / drawn.norm().to(flat)
        measured = flat @ direction
        levels = torch.linspace(0.0, 1.0, bins + 1, device=flat.device, dtype=flat.dtype)[:-1]
        cuts = torch.quantile(measured, levels)
        # Below all of them, with room for a record that is smaller than any public one.
        spread = float(measured.max() - measured.min()) or 1.0
        cuts[0] -= spread
        ramp = _rises(after)
        width = torch.diff(cuts, append=cuts[-1:] + spread).clamp_min(1e-6 * spread)
        steep = torch.ones_like(cuts) if ramp else 16.0 / width
        if not ramp:
            cuts = cuts + 0.5 * width  # a steep row is open around its threshold
        rows, offset = steep[:, None] * direction, -steep * cuts
        most = float(after(flat @ rows.T + offset).sum(1).abs().max()) or 1.0
        share = _LOGITS / most if ramp else 1.0
        with torch.no_grad():
            first.weight.copy_(share * rows)
            first.bias.copy_(share * offset)
            signs = 1.0 - 2.0 * (torch.arange(follower.out_features) % 2)
            follower.weight.copy_(signs.to(follower.weight)[:, None].expand_as(follower.weight))
            follower.weight.mul_(1.0 if ramp else _LOGITS / most)
            if follower.bias is not None:
                follower.bias.zero_()
        prefix = f"{name}." if name else ""
        return cls(own.eval(), f"{prefix}weight", f"{prefix}bias", ramp)

    def read(self, leaked: dict[str, Tensor], batch_size: int, public: Tensor) -> Reconstruction:
        """Reads the records of each batch out of its gradient.

        Bins are ranked by what they hold. Each is a noisy record: noise is measured in the bins
        that hold least, which without noise are empty, and the quotient is drawn towards the
        public records' mean as far as the noise demands.

        Args:
          leaked: Parameter name to (victims, *parameter).
          batch_size: Records behind each gradient.
          public: (n, c, h, w) records of the same kind.
        """
        began = time.perf_counter()
        rows = leaked[self.weight].double()
        slopes = leaked[self.bias].double()
        if self.ramp:
            rows = rows - torch.cat([rows[:, 1:], torch.zeros_like(rows[:, :1])], 1)
            slopes = slopes - torch.cat([slopes[:, 1:], torch.zeros_like(slopes[:, :1])], 1)
        flat = public.flatten(1).double()
        middle, variance = flat.mean(0), float(flat.var(0).mean())
        power = rows.square().mean(2)
        images, kept = [], []
        for pieces, slope, held in zip(rows, slopes, power, strict=True):
            ranked = held.argsort(descending=True)
            empty = held[ranked[batch_size:]]
            noise = float(empty.median()) if len(empty) else 0.0
            signal = (slope.square() - noise).clamp_min(0.0)
            weight = variance * signal / (variance * signal + noise).clamp_min(1e-300)
            quotient = pieces / torch.where(slope == 0, torch.inf, slope)[:, None]
            guesses = middle + weight[:, None] * (quotient - middle)
            images.append(distinct(guesses[ranked[: 2 * batch_size]], batch_size))
            kept.append(1.0 - weight[ranked[0]])
        shape = (len(rows), batch_size, *public.shape[1:])
        shown = torch.stack(kept)
        exact = bool((shown < 1e-6).all())
        how = "exact where a bin holds one record" if exact else "estimates: the bins hold noise"
        return Reconstruction(
            images=torch.stack(images).to(leaked[self.weight].dtype).reshape(shape),
            labels=None,
            loss=shown.to(leaked[self.weight].dtype),
            seconds=time.perf_counter() - began,
            notes=(f"weights crafted by the server, {rows.shape[1]} bins: {how}",),
        )


@dataclass(frozen=True)
class CraftedWeights(Attack):
    """The server chooses the weights that a client computes its gradient at.

    Tan et al. (2024), Section 5.1, name this attacker; the weights follow Fowl et al., "Robbing the
    Fed" (2022), within the agreed architecture. Threat: one update, of a client who does not look
    at what it is sent; an honest server, or one that is watched, cannot do it (threat
    ``active-server``). Clipping alone changes nothing: a record's weight and bias gradients shrink
    by one factor, which their quotient does not see. Noise does, and a guarantee of noise on
    gradients holds at every weight, crafted ones too.

    The loss is the share of the clearest guess that is the public records' mean and not the
    release: 0 where nothing was added.
    """

    name: ClassVar[str] = "crafted-weights"
    title: ClassVar[str] = "an active server's trap weights"
    needs: ClassVar[frozenset[Knowledge]] = frozenset(
        {Knowledge.MODEL, Knowledge.GRADIENTS, Knowledge.CHOICE, Knowledge.PUBLIC_DATA}
    )
    threats: ClassVar[frozenset[Threat]] = frozenset({"update"})
    reads: ClassVar[tuple[str, ...]] = ("images", "batch_size", "threat")
    takes: ClassVar[tuple[str, ...]] = ("images",)
    paper: ClassVar[str] = "Fowl et al., Robbing the Fed (2022)"

    def trains(self, asked: AttackRequest) -> bool:
        """The weights are the server's own."""
        del asked
        return False

    def misfits(self, asked: AttackRequest, there: Available) -> Iterator[tuple[str, str]]:
        """Held-out records are attacked, and two more at least are public."""
        wanted = asked.images * asked.batch_size + 2
        if wanted > there.test_records:
            has = f"{there.data} has {there.test_records}"
            yield "images", f"needs {wanted} held-out records, two of them public: {has}"

    def check_model(self, model: nn.Module, shape: tuple[int, ...]) -> None:
        """Refuses a model whose first layer cannot be made a trap."""
        _layers(model, math.prod(shape))

    def _evaluate(self, victim: Victim) -> Outcome:
        from recondite.attacks.gradient.held_out import aimed, outcome_of

        aim = aimed(victim)
        known = _enough(aim.public)
        generator = torch_generator(victim.seed, torch.device("cpu"))
        trap = Trap.set_in(victim.initial(), known.features, generator)
        victim.progress(self.name, 0.5)
        leaked = victim.leak(trap.model, aim.features, aim.labels)
        found = trap.read(leaked, victim.asked.batch_size, known.features)
        return outcome_of(victim, trap.model, aim, found, told=False, weights="crafted")


def _enough(public: Records | None) -> Records:
    if public is None or len(public) < 2:
        raise ValueError(
            "crafted-weights needs two public records or more: attack fewer images, or give some"
        )
    return public


def _layers(model: nn.Module, pixels: int) -> tuple[str, nn.Linear, nn.Module, nn.Linear]:
    """The layer that records enter, its name, its activation and the next layer."""
    leaves = [(n, m) for n, m in model.named_modules() if not list(m.children())]
    layers = [(n, m) for n, m in leaves if not isinstance(m, nn.Flatten | nn.Identity)]
    if len(layers) >= 3:
        (name, first), (_, after), (_, follower) = layers[:3]
        fits = isinstance(first, nn.Linear) and isinstance(follower, nn.Linear)
        plain = next(after.parameters(), None) is None
        if fits and plain and first.in_features == pixels and first.bias is not None:
            return name, first, after.double(), follower
    raise ValueError(
        f"crafted-weights needs a model that begins with a linear layer with a bias on all {pixels}"
        " pixels, an activation and a linear layer: choose mlp2, or another attack"
    )


def _rises(activation: nn.Module) -> bool:
    """Whether it has another slope far to the right than far to the left, as a ReLU has.

    Raises:
      ValueError: In one line, where it has one slope everywhere, which sorts nothing.
    """
    at = torch.tensor([-1e3, -5e2, 5e2, 1e3], dtype=torch.float64)
    low, lower, high, higher = (float(v) for v in activation(at))
    left, right = (lower - low) / 500.0, (higher - high) / 500.0
    if abs(right - left) < 0.1 and abs(left) > 0.1:
        raise ValueError("crafted-weights needs an activation after the first layer: it has none")
    return abs(right - left) >= 0.1
