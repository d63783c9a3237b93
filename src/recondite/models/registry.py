"""Networks by name, Transformers from a folder, a person's own by ``package.module:function``."""

from __future__ import annotations

import copy
import difflib
import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from recondite._validate import at_least, choice
from recondite.models.networks import NORMS, alexnet, lenet, lenet_dlg, mlp, mlp2, resnet10, vgg16
from recondite.models.pretrained import is_folder, pretrained
from recondite.models.table_networks import table_embedding, table_mlp
from recondite.models.weights import load_weights, seeded
from recondite.records.user_code import accepted, check_complete, is_dotted, load_object

__all__ = ["NETWORKS", "Network", "build", "names", "resolve"]

_BISWAS = "Biswas et al., Comparing privacy notions … (2025)"
_FAUSTINI = "Faustini et al., Applying directional noise to deep learning (2023)"
_VERO = "Vero et al., TabLeak: tabular data leakage in federated learning (2023)"
_TAN = "Tan et al., Defending against data reconstruction attacks in federated learning (2024)"


@dataclass(frozen=True)
class Network:
    """An architecture of the papers.

    Attributes:
      name: What it is called in commands.
      make: ``make(shape, classes, norm, **options)``.
      paper: Who uses it.
      assumptions: What that paper does not say, and what was chosen.
      least: The smallest side of an image it takes.
      flat: Whether it takes records of any shape, rows of a table too; images only where not.
    """

    name: str
    make: Callable[..., nn.Module]
    paper: str
    assumptions: tuple[str, ...] = ()
    least: int = 1
    flat: bool = False

    @property
    def options(self) -> tuple[str, ...]:
        """The names of what else can be chosen when building it."""
        parameters = inspect.signature(self.make).parameters.values()
        return tuple(p.name for p in parameters if p.kind is p.KEYWORD_ONLY)


_RELU = "ReLU and max pooling, where the original has scaled tanh and trained averages"
_NO_DROPOUT = "no dropout"
_ALL = (
    Network("mlp", mlp, _BISWAS, flat=True),
    Network(
        "mlp2",
        mlp2,
        _FAUSTINI,
        ("two linear layers", "1,024 hidden units (option hidden)", "ReLU, with biases"),
        flat=True,
    ),
    Network("table-mlp", table_mlp, _VERO, ("100 hidden units twice (option hidden)",), flat=True),
    Network(
        "table-embedding",
        table_embedding,
        "this system",
        ("half as many numbers as categories, 16 at most",),
        flat=True,
    ),
    Network("lenet", lenet, f"{_FAUSTINI}; {_TAN}", (_RELU,), least=16),
    Network("lenet-dlg", lenet_dlg, "Zhu et al., Deep leakage from gradients (2019)"),
    Network(
        "alexnet",
        alexnet,
        _TAN,
        ("3×3 convolutions of stride 1 and a last map of 4×4, by the printed count", _NO_DROPOUT),
        least=8,
    ),
    Network(
        "vgg16",
        vgg16,
        _TAN,
        (
            "the last map is averaged to 7×7, by the printed count",
            "normalisation after each convolution; norm='none' for the network as first published",
            _NO_DROPOUT,
        ),
        least=32,
    ),
    Network(
        "resnet10", resnet10, _TAN, ("a 3×3 stem without pooling, by the printed count",), least=8
    ),
)
NETWORKS = {network.name: network for network in _ALL}


def names() -> tuple[str, ...]:
    """The names of all networks."""
    return tuple(NETWORKS)


def _shape(shape: Sequence[int]) -> tuple[int, ...]:
    sides = tuple(at_least("shape", side, 1) for side in shape)
    if not sides:
        raise ValueError("shape must have at least one number")
    return sides


def _check_image(network: Network, sides: tuple[int, ...]) -> None:
    """Refuses what a convolutional network has no use for."""
    if len(sides) != 3:
        flat = ", ".join(each.name for each in _ALL if each.flat)
        raise ValueError(
            f"model {network.name} takes images: shape must have 3 numbers (channels, height, "
            f"width), got {sides}; {flat} and your own take any"
        )
    if min(sides[1:]) < network.least:
        raise ValueError(
            f"{network.name} needs images of at least {network.least}×{network.least}, got "
            f"{sides[1]}×{sides[2]}: resize them (resize{max(32, network.least)})"
        )


def build(
    name: str,
    shape: Sequence[int] = (3, 32, 32),
    classes: int = 10,
    norm: str = "group",
    *,
    seed: int | None = None,
    **options: Any,
) -> nn.Module:
    """Builds a network of the papers, which returns logits.

    | name | parameters, 10 classes | on |
    | --- | --- | --- |
    | mlp | 13,700 | 1×16×16 |
    | mlp2 | 3,157,002 | 3×32×32 |
    | table-mlp, table-embedding | by the columns | rows of a table |
    | lenet | 62,006; 44,426 | 3×32×32; 1×28×28 |
    | lenet-dlg | 15,826 | 3×32×32 |
    | alexnet | 35,855,178 | 3×32×32 |
    | vgg16 | 134,309,962; 134,301,514 without norm | 3×32×32 |
    | resnet10 | 4,903,242 | 3×32×32 |

    Args:
      name: One of the above.
      shape: Of one record: (c, h, w) of an image; mlp, mlp2 and table-mlp take any.
      classes: How many.
      norm: What stands where the architecture normalises (vgg16, resnet10): "group", "batch" (no
        private training) or "none".
      seed: Draws the initial weights from it, and leaves torch's generators alone; None draws them
        from torch's own generator.
      **options: Of the network: ``hidden`` of mlp2 and those for tables, ``one_hot`` of
        table-embedding.

    Example:
      >>> from recondite.models import count_parameters
      >>> count_parameters(build("mlp", (1, 16, 16), seed=0))
      13700
    """
    if name not in NETWORKS:
        near = difflib.get_close_matches(name, names(), n=1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        raise ValueError(
            f"model must be one of {', '.join(names())} or package.module:function, got "
            f"{name!r}{hint}"
        )
    network = NETWORKS[name]
    sides = _shape(shape)
    at_least("classes", classes, 1)
    choice("norm", norm, NORMS)
    for option in options:
        if option not in network.options:
            known = ", ".join(network.options) or "none"
            raise ValueError(f"{option} is not an option of {name}: it has {known}")
    if not network.flat:
        _check_image(network, sides)
    with seeded(seed):
        return network.make(sides, classes, norm, **options)


def resolve(
    model: str,
    shape: Sequence[int],
    classes: int,
    *,
    norm: str = "group",
    seed: int | None = None,
    weights: str | os.PathLike[str] | None = None,
    adapter: str | None = None,
    one_hot: Sequence[tuple[int, int]] = (),
    **options: Any,
) -> nn.Module:
    """Returns the model that a command names, with its weights.

    Args:
      model: A network's name, ``hf:FOLDER`` (:mod:`recondite.models.pretrained`), or
        ``package.module:function``. The function (or class) gets those of ``shape``, ``classes``,
        ``norm``, ``one_hot`` and the options that it takes, and must return a module that maps a
        batch of records to one logit for each class, or to one amount.
      shape: Of one record: (c, h, w) of an image.
      classes: How many.
      norm: As in :func:`build`.
      seed: As in :func:`build`.
      weights: A safetensors file to load.
      adapter: ``lora:RANK``, of a Transformers model.
      one_hot: Of the records: features that are one category together.
      **options: Of the network.
    """
    if adapter is not None and not is_folder(model):
        raise ValueError(f"adapter is for a Transformers model, hf:FOLDER: model is {model}")
    if is_folder(model):
        found: nn.Module = pretrained(
            model, _shape(shape), at_least("classes", classes, 1), adapter=adapter, seed=seed
        )
    elif is_dotted(model):
        found = _own(model, _shape(shape), classes, norm, seed, options, one_hot)
    else:
        if model in NETWORKS and "one_hot" in NETWORKS[model].options:
            options = {**options, "one_hot": one_hot}
        found = build(model, shape, classes, norm, seed=seed, **options)
    if weights is not None:
        load_weights(found, weights)
    return found


def _own(
    name: str,
    shape: tuple[int, ...],
    classes: int,
    norm: str,
    seed: int | None,
    options: Mapping[str, Any],
    one_hot: Sequence[tuple[int, int]],
) -> nn.Module:
    at_least("classes", classes, 1)
    # Apart: what a module draws when it is first imported must not shift what follows.
    with seeded(seed):
        made = load_object(name)
    with seeded(seed):
        if isinstance(made, nn.Module):
            made = copy.deepcopy(made)  # training one must not change the next
        elif callable(made):
            given = accepted(
                made, {"shape": shape, "classes": classes, "norm": norm, "one_hot": one_hot}
            )
            unknown = set(options) - set(accepted(made, options))
            if unknown:
                raise ValueError(f"{name} takes no argument {min(unknown)!r}")
            check_complete(name, made, {*given, *options})
            made = made(**given, **options)
        if not isinstance(made, nn.Module):
            raise ValueError(f"{name} must return a torch module, got {type(made).__name__}")
        _try(name, made, shape, classes)
    return made


def _try(name: str, model: nn.Module, shape: tuple[int, ...], classes: int) -> None:
    """Refuses a model that does not map such records to so many logits."""
    kind, size = "images" if len(shape) == 3 else "records", "×".join(str(side) for side in shape)
    first = next(model.parameters(), torch.zeros(()))
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        with torch.no_grad():
            output = model(torch.zeros((1, *shape), device=first.device, dtype=first.dtype))
    except Exception as error:  # a person's own network raises what it likes
        raise ValueError(f"{name} cannot take {kind} of {size}: {error}") from error
    finally:
        for module, training in modes:
            module.training = training
    if not isinstance(output, torch.Tensor) or output.shape != (1, classes):
        what = tuple(output.shape) if isinstance(output, torch.Tensor) else type(output).__name__
        raise ValueError(
            f"{name} must return {classes} logits for each {kind[:-1]}, got {what} for one"
        )
