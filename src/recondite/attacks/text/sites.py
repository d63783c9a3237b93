"""Where a transformer's gradients show its inputs: the linear layers of its first two blocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from recondite.attacks.text.spans import Seen

__all__ = ["LayerSite", "Sites"]


class _Reached(Exception):  # noqa: N818 (no error)
    """The layer that was waited for has its input."""


@dataclass(frozen=True, eq=False)
class LayerSite:
    """Linear layers that share their input.

    Attributes:
      names: Of the layers, in the model.
      layers: The layers.
    """

    names: tuple[str, ...]
    layers: tuple[nn.Module, ...]

    def seen(self, gradients: Mapping[str, Tensor], noise: Mapping[str, Tensor]) -> list[Seen]:
        """What gradients, and a draw of their noise, show of the input."""
        found = []
        for name, layer in zip(self.names, self.layers, strict=True):
            for key, turned, through in _parameters(name, layer):
                if key in gradients:
                    rows, drawn = (
                        None if part is None else part.mT if turned else part
                        for part in (gradients[key], noise.get(key))
                    )
                    assert rows is not None
                    found.append(Seen(rows, through, drawn))
        return found


class Sites:
    """The sites of a model in the order in which they get their inputs; the first sees tokens.

    Attributes:
      sites: At least one.
      causal: Whether a token's inputs depend on those before it only.
      table: The name of the input embeddings' parameter.
      device: Where the model is.
    """

    def __init__(self, model: Any) -> None:
        """Finds them by running the model on three tokens.

        Args:
          model: As :mod:`recondite.models.pretrained` makes it.
        """
        network = getattr(model, "network", None)
        backbone = getattr(network, "base_model", None)
        blocks = [m for m in (backbone or nn.Identity()).modules() if isinstance(m, nn.ModuleList)]
        if not blocks:
            raise ValueError("span-check needs a Transformers model of texts: model hf:FOLDER")
        self._backbone: Any = backbone
        self._start = 0
        self.device = next(model.parameters()).device
        inside = {part for block in list(blocks[0])[:2] for part in block.modules()}
        layers = {
            name: part
            for name, part in model.named_modules()
            if part in inside and _linear(part) and "lora_" not in name and "base_layer" not in name
        }
        self.sites = self._grouped(layers)
        words = network.get_input_embeddings().weight  # type: ignore[union-attr]
        self.table = next(name for name, p in model.named_parameters() if p is words)
        self.vocabulary = len(words)
        self._start = self._first_position()
        deep = self.sites[min(3, len(self.sites) - 1)]
        tokens = torch.tensor([[5, 6, 7], [5, 6, 8]], device=self.device) % self.vocabulary
        first, second = self.inputs(deep, tokens)[:, 0]
        self.causal = bool(torch.allclose(first, second, rtol=1e-6, atol=1e-7))
        self._check_masks(type(network).__name__, deep, tokens)

    def modules(self) -> Iterator[nn.Module]:
        """All parts of the model below its head."""
        found: Iterator[nn.Module] = self._backbone.modules()
        return found

    def inputs(
        self,
        site: LayerSite,
        tokens: Tensor,
        places: Tensor | None = None,
        mask: Tensor | None = None,
        given: Mapping[str, Tensor] | None = None,
    ) -> Tensor:
        """What a site gets, (n, length, width).

        Args:
          site: One of the sites.
          tokens: (n, length), whole ids.
          places: (length,): the positions of the tokens; from 0 on by default.
          mask: (length, length), bool: who attends to whom; as the model has it by default.
          given: What the model gets beside the tokens, instead of places and mask.
        """
        found: list[Tensor] = []

        def reached(_: nn.Module, given: tuple[Tensor, ...]) -> None:
            found.append(given[0].detach())
            raise _Reached

        handle = site.layers[0].register_forward_pre_hook(reached)
        try:
            self._run(tokens, places, mask, given)
        except _Reached:
            pass
        finally:
            handle.remove()
        return found[0]

    def made_by(self, tokens: Tensor, values: Sequence[Tensor]) -> list[list[nn.Module]]:
        """For each of a run's values, the parts of the model that gave it, in their order."""
        found: list[list[nn.Module]] = [[] for _ in values]

        def made(part: nn.Module, _: Any, out: Any) -> None:
            for parts, value in zip(found, values, strict=True):
                if isinstance(out, Tensor) and torch.equal(out, value):
                    parts.append(part)

        handles = [part.register_forward_hook(made) for part in self.modules()]
        try:
            self._run(tokens)
        finally:
            for handle in handles:
                handle.remove()
        return found

    @property
    def config(self) -> Any:
        """Of the Transformers model."""
        return self._backbone.config

    def _first_position(self) -> int:
        """What the model calls a text's first place: RoBERTa and its kin count on from padding."""
        tokens = torch.tensor([[5, 6, 7]], device=self.device) % self.vocabulary
        own = self.inputs(self.sites[0], tokens, given={})
        padding = getattr(self.config, "pad_token_id", None)
        for start in (0, 1 + (padding or 0)):
            self._start = start
            if torch.allclose(self.inputs(self.sites[0], tokens), own, rtol=1e-4, atol=1e-6):
                return start
        return 0

    def _check_masks(self, name: str, deep: LayerSite, tokens: Tensor) -> None:
        """Refuses a model that cannot be told who attends to whom."""
        everybody = torch.ones((3, 3), dtype=torch.bool, device=self.device)
        own = self.inputs(deep, tokens)
        try:
            told = self.inputs(deep, tokens, mask=everybody.tril() if self.causal else everybody)
        except (RuntimeError, TypeError, ValueError):
            told = own.new_zeros(())
        if told.shape != own.shape or not torch.allclose(told, own, rtol=1e-3, atol=1e-5):
            raise ValueError(f"span-check needs attention masks of pairs: {name} takes none")

    def _run(
        self,
        tokens: Tensor,
        places: Tensor | None = None,
        mask: Tensor | None = None,
        given: Mapping[str, Tensor] | None = None,
    ) -> None:
        if given is None:
            given = self._beside(tokens, places, mask)
        with torch.no_grad():
            self._backbone(input_ids=tokens, **given)

    def _beside(
        self, tokens: Tensor, places: Tensor | None, mask: Tensor | None
    ) -> dict[str, Tensor]:
        count, length = tokens.shape
        if places is None:
            places = torch.arange(length, device=self.device)
        given: dict[str, Tensor] = {"position_ids": (places + self._start).expand(count, length)}
        if mask is not None:
            low = torch.finfo(torch.float32).min
            given["attention_mask"] = torch.where(mask, 0.0, low).expand(count, 1, length, length)
        else:
            given["attention_mask"] = torch.ones_like(tokens)
        return given

    def _grouped(self, layers: Mapping[str, nn.Module]) -> tuple[LayerSite, ...]:
        calls: list[tuple[str, Tensor]] = []

        def hook(name: str) -> Any:
            return lambda _, given: calls.append((name, given[0]))

        handles = [part.register_forward_pre_hook(hook(name)) for name, part in layers.items()]
        try:
            self._run(torch.tensor([[1, 2, 3]], device=self.device))
        finally:
            for handle in handles:
                handle.remove()
        groups: list[tuple[list[str], Tensor]] = []
        for name, given in calls:
            same = [names for names, other in groups if other is given]
            if same:
                same[0].append(name)
            else:
                groups.append(([name], given))
        return tuple(LayerSite(tuple(n), tuple(layers[one] for one in n)) for n, _ in groups)


def _linear(part: nn.Module) -> bool:
    weight = getattr(part, "weight", None)
    two = isinstance(weight, Tensor) and weight.ndim == 2 and not isinstance(part, nn.Embedding)
    return hasattr(part, "lora_A") or two


def _parameters(name: str, layer: Any) -> list[tuple[str, bool, Tensor | None]]:
    """Parameters whose gradient shows the layer's input: name, whether turned, and the map."""
    if hasattr(layer, "lora_A"):
        return [
            part
            for key, down in layer.lora_A.items()
            for part in (
                (f"{name}.lora_A.{key}.weight", False, None),
                (f"{name}.lora_B.{key}.weight", False, down.weight.detach()),
            )
        ]
    # GPT-2's Conv1D keeps its weight as (inputs, outputs), and says how many outputs by nf.
    return [(f"{name}.weight", hasattr(layer, "nf"), None)]
