"""Which rule serves which layer, and which models are refused, with the remedy."""

from __future__ import annotations

from torch import nn

from recondite.training.layers.base import Grads, LayerRule
from recondite.training.layers.conv import Conv2dRule
from recondite.training.layers.generic import GenericRule, samplers
from recondite.training.layers.linear import LinearRule

__all__ = ["Grads", "LayerRule", "rules_for"]

_ACROSS_SAMPLES = (nn.modules.batchnorm._BatchNorm,)


def rules_for(model: nn.Module) -> dict[nn.Module, LayerRule]:
    """A rule for every layer of the model that owns trainable parameters.

    Raises:
      ValueError: One line that names the layer and the remedy.
    """
    linear, conv, generic = LinearRule(), Conv2dRule(), GenericRule()
    rules: dict[nn.Module, LayerRule] = {}
    owners: dict[nn.Parameter, str] = {}
    for name, layer in model.named_modules():
        if isinstance(layer, _ACROSS_SAMPLES):
            raise ValueError(
                f"layer {name or 'model'} ({type(layer).__name__}) mixes the samples of a batch: "
                'use group normalisation (norm="group" for our models)'
            )
        if isinstance(layer, nn.InstanceNorm2d) and layer.track_running_stats:
            raise ValueError(
                f"layer {name} keeps running statistics: set track_running_stats=False"
            )
        inner = {p for child in layer.children() for p in child.parameters()}
        own = [p for p in layer.parameters(recurse=False) if p.requires_grad and p not in inner]
        if not own:  # nothing to train, or aliases of what its own parts hold (recurrent layers)
            continue
        for parameter in own:
            if parameter in owners:
                raise ValueError(
                    f"layer {name} shares a weight with {owners[parameter]}: tied weights have no "
                    "per-sample gradient here; untie them or freeze one"
                )
            owners[parameter] = name
        rules[layer] = _rule(name, layer, linear, conv, generic)
    if not rules:
        raise ValueError("module has no trainable parameters: nothing would be released")
    return rules


def _rule(
    name: str, layer: nn.Module, linear: LinearRule, conv: Conv2dRule, generic: GenericRule
) -> LayerRule:
    if type(layer).forward is nn.Linear.forward:  # also the linear maps of recurrent layers
        return linear
    if type(layer) is nn.Conv2d and layer.padding_mode == "zeros":
        return conv
    if type(layer) in samplers():
        return generic
    raise ValueError(
        f"layer {name or 'model'} ({type(layer).__name__}) has no per-sample gradient rule: "
        "replace it by a supported layer or freeze its parameters"
    )
