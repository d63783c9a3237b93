"""Layers that share weights: their gradients are added up record by record."""

from __future__ import annotations

from torch import nn

from recondite.gradients.layers.base import FormedRule, Grads, LayerRule
from recondite.gradients.tape import Entry, Tape, wide

__all__ = ["TiedRule"]


class TiedRule(FormedRule):
    """Several layers as one: an embedding and the output that shares its table, for instance.

    The norm of a sum does not follow from the norms of its parts, so every record's gradient of
    all these layers is formed.
    """

    slow = True

    def __init__(self, rules: dict[nn.Module, LayerRule]) -> None:
        """With the layers and the rule of each; the first stands for all."""
        self._rules = rules
        self.redraws = any(rule.redraws for rule in rules.values())

    def parameters(self, layer: nn.Module) -> list[nn.Parameter]:
        """Of all the layers, each once."""
        found = (p for each, rule in self._rules.items() for p in rule.parameters(each))
        return list(dict.fromkeys(found))

    def members(self, layer: nn.Module) -> list[nn.Module]:
        """All the layers."""
        return list(self._rules)

    def attach(self, tape: Tape, layer: nn.Module) -> None:
        """Each by its own rule, on one account."""
        for each, rule in self._rules.items():
            rule.attach(tape, each)
            tape.owners[each] = layer

    def detach(self, layer: nn.Module) -> None:
        """Gives every layer its own forward function back."""
        for each, rule in self._rules.items():
            rule.detach(each)

    def per_sample(self, entry: Entry) -> Grads:
        """Of one call of one of the layers; zeros for what only the others have."""
        rows = len(entry.activation)
        found = self._rules[entry.layer].per_sample(entry)
        return {
            p: found[p] if p in found else wide(p.detach()).new_zeros((rows, *p.shape))
            for p in self.parameters(entry.layer)
        }
