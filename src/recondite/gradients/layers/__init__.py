"""Which rule serves which layer, and which models are refused, with the remedy."""

from __future__ import annotations

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm

from recondite.gradients.layers.base import Grads, LayerRule
from recondite.gradients.layers.conv import Conv2dRule
from recondite.gradients.layers.generic import GenericRule, samplers
from recondite.gradients.layers.linear import LinearRule

__all__ = ["Grads", "LayerRule", "rules_for"]


def rules_for(model: nn.Module) -> dict[nn.Module, LayerRule]:
    """A rule for every layer of the model that owns trainable parameters.

    Raises:
      ValueError: One line that names the layer and the remedy.
    """
    linear, conv, generic = LinearRule(), Conv2dRule(), GenericRule()
    rules: dict[nn.Module, LayerRule] = {}
    owners: dict[nn.Parameter, str] = {}
    for name, layer in model.named_modules():
        _refuse(f"layer {name or 'model'} ({type(layer).__name__})", layer)
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


def _refuse(place: str, layer: nn.Module) -> None:
    """Layers that mix samples, or store what they see, trained or not."""
    if isinstance(layer, _BatchNorm):
        raise ValueError(
            f"{place} mixes the samples of a batch: use group normalisation "
            '(norm="group" for our models)'
        )
    if isinstance(layer, _InstanceNorm) and layer.track_running_stats:
        raise ValueError(
            f"{place} keeps running statistics, which carry no noise: set track_running_stats=False"
        )
    if isinstance(layer, nn.Embedding | nn.EmbeddingBag):
        if layer.max_norm is not None:
            raise ValueError(
                f"{place} rewrites the rows of the batch in its forward pass, without noise: leave "
                "max_norm out"
            )
        if layer.scale_grad_by_freq:
            raise ValueError(
                f"{place} scales gradients by how often the batch has a row: leave "
                "scale_grad_by_freq out"
            )


def _rule(
    name: str, layer: nn.Module, linear: LinearRule, conv: Conv2dRule, generic: GenericRule
) -> LayerRule:
    place = f"layer {name or 'model'} ({type(layer).__name__})"
    rule: LayerRule | None = None
    if type(layer).forward is nn.Linear.forward:  # also the linear maps of recurrent layers
        rule = linear
    elif type(layer) is nn.Conv2d:
        rule = conv
    elif isinstance(layer, nn.Conv1d | nn.Conv3d) and layer.padding_mode != "zeros":
        raise ValueError(
            f"{place} has padding_mode={layer.padding_mode!r}, which has no per-sample gradient "
            "rule: pad with a layer of its own before it (nn.ReflectionPad1d and the like)"
        )
    elif type(layer) is not nn.EmbeddingBag and type(layer) in samplers():
        rule = generic
    if rule is None:
        raise ValueError(
            f"{place} has no per-sample gradient rule: replace it by a supported layer or freeze "
            "its parameters"
        )
    trained = {key for key, p in layer.named_parameters(recurse=False) if p.requires_grad}
    if not trained <= {"weight", "bias"}:
        raise ValueError(
            f"{place} has parameters that its kind has not ({', '.join(sorted(trained))}): remove "
            "weight or spectral normalisation, or freeze them"
        )
    return rule
