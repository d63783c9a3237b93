"""What private training makes of every layer of a model, before anything is trained."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from torch import nn

from recondite.gradients.layers import chosen, refused

__all__ = ["ListedLayer", "list_layers"]


@dataclass(frozen=True)
class ListedLayer:
    """One layer.

    Attributes:
      name: Where it stands in the model.
      kind: Its class.
      parameters: Trained numbers that its rule answers for, those of its parts too where slow.
      rule: "fast", "slow" or "refused".
      cost: What the rule takes; for a refused layer the reason, with the remedy.
    """

    name: str
    kind: str
    parameters: int
    rule: str
    cost: str

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return asdict(self)


def list_layers(model: nn.Module) -> list[ListedLayer]:
    """Every layer that has a rule or is refused, in the model's order.

    What only a forward pass can show (records that are mixed in it, arguments of other shapes) is
    not seen here.

    >>> [layer.rule for layer in list_layers(nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)))]
    ['fast', 'refused']
    """
    rules = chosen(model)
    out = []
    for name, layer in model.named_modules():
        reason, rule = refused(layer), rules.get(layer)
        own = [] if rule is None else rule.parameters(layer)
        size = sum(p.numel() for p in own)
        kind = type(layer).__name__
        if reason is not None:
            out.append(ListedLayer(name or "model", kind, size, "refused", reason))
        elif rule is not None:
            speed = "slow" if rule.slow else "fast"
            others = [type(part).__name__ for part in rule.members(layer)[1:]]
            shared = f", weights shared with {', '.join(others)}" if others else ""
            cost = rule.cost + (_in_turn(layer) if rule.slow else "") + shared
            out.append(ListedLayer(name or "model", kind, size, speed, cost))
    return out


def _in_turn(layer: nn.Module) -> str:
    """What is said of recurrent layers inside: no operation takes all their records at once."""
    kinds = dict.fromkeys(
        type(part).__name__ for part in layer.modules() if isinstance(part, nn.RNNBase)
    )
    return f"; record after record for {', '.join(kinds)}" if kinds else ""
