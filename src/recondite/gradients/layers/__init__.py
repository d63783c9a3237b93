"""Which rule serves which layer, and which models are refused, with the remedy."""

from __future__ import annotations

import warnings

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm
from torch.nn.utils.parametrizations import _SpectralNorm
from torch.nn.utils.parametrize import ParametrizationList, is_parametrized

from recondite.gradients.layers.base import GenericRule, Grads, LayerRule, samplers
from recondite.gradients.layers.conv import Conv2dRule
from recondite.gradients.layers.embedding import EmbeddingRule
from recondite.gradients.layers.formed import (
    Conv1DRule,
    ConvTransposeRule,
    PReLURule,
    RMSNormRule,
    is_conv1d,
    is_rms_norm,
)
from recondite.gradients.layers.linear import LinearRule
from recondite.gradients.layers.slow import SlowRule
from recondite.gradients.layers.tied import TiedRule

__all__ = ["Grads", "LayerRule", "chosen", "note_slow", "refused", "rules_for"]

_LINEAR, _CONV1D, _GENERIC, _SLOW = LinearRule(), Conv1DRule(), GenericRule(), SlowRule()
_RMS_NORM = RMSNormRule()
_TRANSPOSED = ConvTransposeRule()
_FAST: dict[type[nn.Module], LayerRule] = {
    nn.Conv2d: Conv2dRule(),
    nn.ConvTranspose1d: _TRANSPOSED,
    nn.ConvTranspose2d: _TRANSPOSED,
    nn.ConvTranspose3d: _TRANSPOSED,
    nn.PReLU: PReLURule(),
    nn.Embedding: EmbeddingRule(),
}
_HOLDERS = (nn.ParameterList, nn.ParameterDict)


def rules_for(model: nn.Module) -> dict[nn.Module, LayerRule]:
    """A rule for every layer of the model that owns trainable parameters.

    A module without a fast rule gets the slow one, with all its parts: a warning names it and the
    cost. Layers that share weights are one column of the norms.

    Raises:
      ValueError: One line that names the layer and the remedy.
    """
    for name, layer in model.named_modules():
        reason = refused(layer)
        if reason is not None:
            raise ValueError(f"layer {name or 'model'} ({type(layer).__name__}) {reason}")
    rules = chosen(model)
    if not rules:
        raise ValueError("module has no trainable parameters: nothing would be released")
    return rules


def chosen(model: nn.Module) -> dict[nn.Module, LayerRule]:
    """The rules alone, whatever is refused."""
    rules: dict[nn.Module, LayerRule] = {}
    inside: set[nn.Module] = set()
    for layer in model.modules():
        if layer in inside or not _own(layer):
            continue
        rule = _fast(layer)
        if rule is None:
            rule = _SLOW
            inside.update(layer.modules())
        rules[layer] = rule
    return _tied(rules)


def note_slow(model: nn.Module, rules: dict[nn.Module, LayerRule]) -> None:
    """Warns once of all the layers that cost more, with the cost."""
    names = {layer: name or "model" for name, layer in model.named_modules()}
    slow = {layer: rule.parameters(layer) for layer, rule in rules.items() if rule.slow}
    if not slow:
        return
    few = [f"{names[layer]} ({type(layer).__name__})" for layer in list(slow)[:3]]
    more = f" and {len(slow) - 3} more" if len(slow) > 3 else ""
    size = sum(p.numel() for own in slow.values() for p in own)
    warnings.warn(
        f"no fast per-sample rule for layer {', '.join(few)}{more}: the slow one forms their "
        f"gradients for every record, {size:,} numbers each",
        stacklevel=4,
    )


def _own(layer: nn.Module) -> list[nn.Parameter]:
    """Trained parameters that are the layer's to use, not those of a part that is called."""
    if isinstance(layer, _HOLDERS):  # never called: the module that holds them uses them
        return []
    parts = [part for part in layer.children() if not isinstance(part, _HOLDERS)]
    if is_parametrized(layer):
        parts = [part for part in parts if part is not layer.parametrizations]
    inner = {p for part in parts for p in part.parameters()}
    held = [p for part in layer.children() if part not in parts for p in part.parameters()]
    own = [*layer.parameters(recurse=False), *held]
    # What its own parts hold too is an alias (recurrent layers of Opacus).
    return [p for p in own if p.requires_grad and p not in inner]


def _tied(rules: dict[nn.Module, LayerRule]) -> dict[nn.Module, LayerRule]:
    """Layers that share a weight, however many, become one."""
    groups: dict[nn.Parameter, list[nn.Module]] = {}
    for layer, rule in rules.items():
        together = [layer]
        own = rule.parameters(layer)
        for parameter in own:
            for other in groups.get(parameter, []):
                if other not in together:
                    together.append(other)
        for each in together:
            for parameter in rules[each].parameters(each):
                groups[parameter] = together
    out: dict[nn.Module, LayerRule] = {}
    done: set[nn.Module] = set()
    for layer, rule in rules.items():
        if layer in done:
            continue
        shared = set(groups[rule.parameters(layer)[0]])
        done |= shared
        members = {each: rules[each] for each in rules if each in shared}
        out[layer] = rule if len(members) == 1 else TiedRule(members)
    return out


def refused(layer: nn.Module) -> str | None:
    """Why a layer that mixes samples, or stores what it sees, is refused, trained or not."""
    if isinstance(layer, _BatchNorm):
        return (
            "mixes the samples of a batch: use group normalisation, by recondite.fix(model) "
            '(norm="group" for our models)'
        )
    if isinstance(layer, _InstanceNorm) and layer.track_running_stats:
        return (
            "keeps running statistics, which carry no noise: set track_running_stats=False, or "
            "use recondite.fix(model)"
        )
    if isinstance(layer, nn.Embedding | nn.EmbeddingBag):
        if layer.max_norm is not None:
            return (
                "rewrites the rows of the batch in its forward pass, without noise: leave "
                "max_norm out"
            )
        if layer.scale_grad_by_freq:
            return "scales gradients by how often the batch has a row: leave scale_grad_by_freq out"
    spectral = hasattr(layer, "weight_orig") or (
        isinstance(layer, ParametrizationList)
        and any(isinstance(part, _SpectralNorm) for part in layer)
    )
    if spectral and any(p.requires_grad for p in layer.parameters()):
        return (
            "has parameters that its kind has not (weight_orig): remove spectral normalisation, "
            "whose estimate changes in every forward pass, or freeze them"
        )
    return None


def _fast(layer: nn.Module) -> LayerRule | None:
    """The fast rule of a kind of layer; None for a subclass, which may do something else."""
    trained = {key for key, p in layer.named_parameters(recurse=False) if p.requires_grad}
    if not trained <= {"weight", "bias"} or any(True for _ in layer.children()):
        return None
    if type(layer).forward is nn.Linear.forward:  # also the linear maps of recurrent layers
        return _LINEAR
    if is_conv1d(layer):
        return _CONV1D
    if is_rms_norm(layer):
        return _RMS_NORM
    if type(layer) in _FAST:
        return None if _uneven(layer) else _FAST[type(layer)]
    padded = isinstance(layer, nn.Conv1d | nn.Conv3d) and layer.padding_mode != "zeros"
    known = type(layer) is not nn.EmbeddingBag and type(layer) in samplers()
    return _GENERIC if known and not padded else None


def _uneven(layer: nn.Module) -> bool:
    """An even kernel that is padded with zeros to the same size: not on both sides alike."""
    if not (isinstance(layer, nn.Conv2d) and layer.padding == "same"):
        return False
    whole = [d * (k - 1) for d, k in zip(layer.dilation, layer.kernel_size, strict=True)]
    return layer.padding_mode == "zeros" and any(extra % 2 for extra in whole)
