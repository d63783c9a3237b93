"""A model without layers that mix records or keep something of them."""

from __future__ import annotations

import copy
import warnings

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm

from recondite.models.networks import norm_layer

__all__ = ["fix"]


def fix(model: nn.Module) -> nn.Module:
    """Returns a copy with group normalisation in the place of batch normalisation.

    Trained scales and shifts are kept; running statistics are not, so a pretrained model should be
    tuned afterwards. Instance normalisation loses its running statistics. A warning says what was
    replaced; the model that is given stays as it is.

    Raises:
      ValueError: A lazy layer does not know its channels yet.

    Example:
      >>> with warnings.catch_warnings():
      ...     warnings.simplefilter("ignore")
      ...     fixed = fix(nn.Sequential(nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8)))
      >>> type(fixed[1]).__name__
      'GroupNorm'
    """
    for name, parameter in model.named_parameters():
        if isinstance(parameter, nn.UninitializedParameter):
            raise ValueError(f"{name} belongs to a lazy layer: run the model once before fix")
    fixed = nn.ModuleList([copy.deepcopy(model)])  # the model itself may be such a layer
    made: dict[nn.Module, nn.Module] = {}
    said = []
    for name, layer in list(fixed.named_modules(remove_duplicate=False)):
        new = made[layer] if layer in made else _instead(layer)
        if new is None:
            continue
        made[layer] = new
        above, _, last = name.rpartition(".")
        setattr(fixed.get_submodule(above), last, new)
        kinds = f"{type(layer).__name__} by {type(new).__name__}"
        said.append(f"{name.partition('.')[2] or 'model'} ({kinds})")
    what = ", ".join(said) if said else "nothing"
    warnings.warn(f"fix replaced {what}", stacklevel=2)
    return fixed[0]


def _instead(layer: nn.Module) -> nn.Module | None:
    """What stands in a layer's place; None for one that can stay."""
    if isinstance(layer, _InstanceNorm) and layer.track_running_stats:
        plain = copy.deepcopy(layer)
        plain.track_running_stats = False
        plain.running_mean = plain.running_var = plain.num_batches_tracked = None
        return plain
    if not isinstance(layer, _BatchNorm):
        return None
    # One group over vectors: of a channel alone nothing would be left.
    vectors = isinstance(layer, nn.BatchNorm1d)
    new = (
        nn.GroupNorm(1, layer.num_features) if vectors else norm_layer("group", layer.num_features)
    )
    assert isinstance(new, nn.GroupNorm)
    new.eps, new.affine = layer.eps, layer.affine
    if not layer.affine:
        new.weight = new.bias = None  # type: ignore[assignment]
        return new.train(layer.training)
    with torch.no_grad():
        for name in ("weight", "bias"):
            old = getattr(layer, name)
            kept = nn.Parameter(old.detach().clone(), requires_grad=old.requires_grad)
            setattr(new, name, kept)
    return new.train(layer.training)
