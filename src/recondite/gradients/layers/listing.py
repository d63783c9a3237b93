"""What private training makes of every layer of a model, before anything is trained."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from recondite.gradients.layers import chosen, conv, linear, refused

__all__ = ["ListedLayer", "list_layers"]

_GRADIENTS, _PRODUCTS = "gradients", "products"


@dataclass(frozen=True)
class ListedLayer:
    """One layer.

    Attributes:
      name: Where it stands in the model.
      kind: Its class.
      parameters: Trained numbers that its rule answers for, those of its parts too where slow.
      rule: "fast", "slow" or "refused".
      cost: What the rule takes; for a refused layer the reason, with the remedy.
      norms: What the norms of records' gradients come from, where the rule has a choice and a
        record was given to try: "products" of positions (ghost norms) or each record's "gradients".
    """

    name: str
    kind: str
    parameters: int
    rule: str
    cost: str
    norms: str = ""

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return asdict(self)


def list_layers(
    model: nn.Module, record: Tensor | None = None, batch_size: int = 64
) -> list[ListedLayer]:
    """Every layer that has a rule or is refused, in the model's order.

    What only a forward pass can show (records that are mixed in it, arguments of other shapes) is
    not seen here, except what norms come from: a record is passed through the model for that.

    Args:
      model: The model.
      record: A batch of one record, of any content, or None.
      batch_size: Of a pass; gradients of a batch are made where they are small.

    >>> [layer.rule for layer in list_layers(nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)))]
    ['fast', 'refused']
    """
    rules = chosen(model)
    shapes = {} if record is None else _shapes(model, record)
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
            norms = "" if rule.slow else _norms(layer, shapes, batch_size)
            out.append(ListedLayer(name or "model", kind, size, speed, cost, norms))
    return out


Shapes = Mapping[nn.Module, tuple[torch.Size, torch.Size]]


def _shapes(model: nn.Module, record: Tensor) -> Shapes:
    """Shapes of what goes into layers and comes out, of those that a pass reaches."""
    found: dict[nn.Module, tuple[torch.Size, torch.Size]] = {}

    def note(layer: nn.Module, given: Any, made: Any) -> None:
        found[layer] = given[0].shape, made.shape

    layers = [layer for layer in model.modules() if isinstance(layer, nn.Linear | nn.Conv2d)]
    hooks = [layer.register_forward_hook(note) for layer in layers]
    training = model.training
    try:
        with torch.no_grad():
            model.eval()(record)
    except Exception:
        return {}  # this only looks: a record of another shape is the loop's to refuse
    finally:
        model.train(training)
        for hook in hooks:
            hook.remove()
    return found


def _norms(layer: nn.Module, shapes: Shapes, batch_size: int) -> str:
    """What norms come from, by the rules of linear layers and convolutions."""
    if layer not in shapes:
        return ""
    given, made = shapes[layer]
    if isinstance(layer, nn.Conv2d):
        if conv.small(layer, batch_size):
            return _GRADIENTS
        sides = layer.weight[0].numel(), layer.out_channels // layer.groups
        return _PRODUCTS if conv.by_products(made[2:].numel(), *sides) else _GRADIENTS
    if len(given) < 3:
        return _PRODUCTS  # one position: the product of two norms
    positions = given[1:-1].numel()
    return _PRODUCTS if linear.by_products(positions, given[-1], made[-1]) else _GRADIENTS


def _in_turn(layer: nn.Module) -> str:
    """What is said of recurrent layers inside: no operation takes all their records at once."""
    kinds = dict.fromkeys(
        type(part).__name__ for part in layer.modules() if isinstance(part, nn.RNNBase)
    )
    return f"; record after record for {', '.join(kinds)}" if kinds else ""
