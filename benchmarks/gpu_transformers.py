"""Private steps of a transformer of GPT-2's small shape over plain ones: time and peak memory.

``python -m benchmarks.gpu_transformers`` on a machine with a GPU writes
``results/gpu-transformers.json``; ``--tiny`` tries the program on any machine in seconds, and
writes nothing unless ``--out`` says where. Random weights, 16 texts of 256 tokens, the loss of a
text the mean over its tokens. All weights in single precision (under autocast in bfloat16 where the
machine has it), and LoRA of rank 8 on the projections of attention in bfloat16. The network is
written out here, so that nothing but torch is needed; its output has a table of its own.

Sides take turns and medians are compared. Peak memory is that of a whole step, what is held before
it (weights, the optimizer's state) included: the ratio that a person who fills a GPU cares about.
On a CPU no memory is measured.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

import recondite as rc
from benchmarks.provenance import provenance
from recondite.training import PrivacyEngine
from recondite.training.record import machine

__all__ = ["GPT2", "Shape", "main", "measured"]


@dataclass(frozen=True)
class Shape:
    """Of a network and its batch; the defaults are GPT-2 small's."""

    words: int = 50_257
    width: int = 768
    heads: int = 12
    blocks: int = 12
    batch: int = 16
    tokens: int = 256
    rank: int = 8


TINY = Shape(words=101, width=32, heads=4, blocks=2, batch=6, tokens=12, rank=2)


class LoRA(nn.Module):
    """A frozen linear layer and a trained product of two small ones beside it."""

    def __init__(self, held: nn.Linear, rank: int) -> None:
        super().__init__()
        self.held = held.requires_grad_(False)
        self.down = nn.Linear(held.in_features, rank, bias=False)
        self.up = nn.Linear(rank, held.out_features, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Both."""
        out: Tensor = self.held(x) + self.up(self.down(x))
        return out


class Block(nn.Module):
    """Attention to what came before, and two linear layers, each after a norm."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        width, self.heads = shape.width, shape.heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.seen: nn.Module = nn.Linear(width, 3 * width)
        self.told: nn.Module = nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Of the same shape."""
        parts = self.seen(self.before(x)).chunk(3, -1)
        query, key, value = (p.unflatten(-1, (self.heads, -1)).transpose(1, 2) for p in parts)
        found = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.told(found.transpose(1, 2).flatten(2))
        out: Tensor = x + self.narrow(functional.gelu(self.wide(self.between(x))))
        return out


class GPT2(nn.Module):
    """A decoder of GPT-2's shape."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.table = nn.Embedding(shape.words, shape.width)
        self.places = nn.Embedding(shape.tokens, shape.width)
        self.blocks = nn.Sequential(*(Block(shape) for _ in range(shape.blocks)))
        self.norm = nn.LayerNorm(shape.width)
        self.head = nn.Linear(shape.width, shape.words, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits of the next word at every position."""
        places = torch.arange(tokens.shape[1], device=tokens.device).expand_as(tokens)
        out: Tensor = self.head(self.norm(self.blocks(self.table(tokens) + self.places(places))))
        return out


def adapted(model: GPT2, rank: int) -> GPT2:
    """The same network, of which only adapters of attention are trained."""
    model.requires_grad_(False)
    for block in model.blocks:
        block.seen, block.told = LoRA(block.seen, rank), LoRA(block.told, rank)  # type: ignore[arg-type]
    return model


def next_word(logits: Tensor, tokens: Tensor) -> Tensor:
    """The mean over texts of the mean over each one's tokens."""
    return functional.cross_entropy(logits[:, :-1].flatten(0, 1).float(), tokens[:, 1:].flatten())


@dataclass(eq=False)
class _Side:
    """A training loop that takes one step at a time."""

    model: nn.Module
    optimizer: Any
    loader: Any
    half: bool
    device: str
    batches: Any = ()

    def __post_init__(self) -> None:
        self.batches = iter(())

    def prepare(self) -> Callable[[], None]:
        """Fetches a batch; what is returned takes the step."""
        batch = next(self.batches, None)
        if batch is None:
            self.batches = iter(self.loader)
            batch = next(self.batches)
        return lambda: self.step(batch[0])

    def step(self, tokens: Tensor) -> None:
        """Forward, backward, update."""
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast(self.device, torch.bfloat16, enabled=self.half):
            loss = next_word(self.model(tokens), tokens)
        loss.backward()  # type: ignore[no-untyped-call]  # torch gives it no types
        self.optimizer.step()


def _side(shape: Shape, tuned: str, private: bool, device: str) -> _Side:
    torch.manual_seed(0)
    model: nn.Module = GPT2(shape)
    if tuned == "lora":
        model = adapted(model, shape.rank).to(torch.bfloat16)  # type: ignore[arg-type]
    model = model.to(device).train()
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer: Any = torch.optim.AdamW(trained, lr=1e-4)
    tokens = torch.randint(0, shape.words, (4 * shape.batch, shape.tokens), device=device)
    loader: Any = DataLoader(TensorDataset(tokens), batch_size=shape.batch)
    if private:
        model, optimizer, loader = PrivacyEngine().make_private(
            module=model,
            optimizer=optimizer,
            data_loader=loader,
            mechanism=rc.Gaussian(1.0),
            sampling="shuffled",
        )
    return _Side(model, optimizer, loader, tuned == "full, autocast", device)


def _timed(step: Callable[[], None], device: str) -> float:
    if device == "cuda":
        torch.cuda.synchronize()
    start = time.perf_counter()
    step()
    if device == "cuda":
        torch.cuda.synchronize()
    return 1e3 * (time.perf_counter() - start)


def _peak(side: _Side, device: str) -> float | None:
    """MiB that are held at most in a step, all that the process holds on the device included."""
    if device != "cuda":
        return None
    step = side.prepare()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    step()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() / 2**20


def measured(shape: Shape, tuned: str, rounds: int, device: str) -> list[dict[str, Any]]:
    """Rows of plain and private training, in turns; memory of each alone.

    Args:
      shape: Of the network and the batch.
      tuned: "full", "full, autocast" or "lora".
      rounds: Steps whose median is taken, after 20 that are not counted.
      device: "cuda" or "cpu".
    """
    sides = {side: _side(shape, tuned, side == "private", device) for side in ("plain", "private")}
    times: dict[str, list[float]] = {side: [] for side in sides}
    for turn in range(rounds + 20):  # the first passes of a private model are all looked at
        for name, side in sides.items():
            took = _timed(side.prepare(), device)
            if turn >= 20:
                times[name].append(took)
    parameters = list(sides["plain"].model.parameters())
    size = sum(p.numel() for p in parameters)
    trained = sum(p.numel() for p in parameters if p.requires_grad)
    del sides, side, parameters
    rows: list[dict[str, Any]] = []
    for name, taken in times.items():
        gc.collect()
        if device == "cuda":
            torch.cuda.empty_cache()
        alone = _side(shape, tuned, name == "private", device)
        for _ in range(3):
            alone.prepare()()
        row = {"tuned": tuned, "side": name, "parameters": size, "trained": trained}
        rows.append({**row, "ms": statistics.median(taken), "peak_mib": _peak(alone, device)})
        del alone
    for row in rows:
        row["over_plain"] = row["ms"] / rows[0]["ms"]
        if row["peak_mib"] is not None:
            row["memory_over_plain"] = row["peak_mib"] / rows[0]["peak_mib"]
    return rows


def main(given: list[str] | None = None) -> None:
    """Measures all three ways to train."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu_transformers", description=__doc__
    )
    parser.add_argument("--tiny", action="store_true", help="a small network, on any machine")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args(given)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cpu" and not asked.tiny:
        parser.error("no GPU: run this where torch.cuda.is_available(), or give --tiny")
    out = asked.out or (None if asked.tiny else Path("results/gpu-transformers.json"))
    shape, rows = TINY if asked.tiny else Shape(), []
    for tuned in ("full", "full, autocast", "lora"):
        for row in measured(shape, tuned, asked.rounds, device):
            rows.append({**row, "batch": shape.batch, "tokens": shape.tokens})
            print(json.dumps(rows[-1]), flush=True)
    made = {**provenance(), "command": "python -m benchmarks.gpu_transformers"}
    found = {"rows": rows, "machine": machine(), "provenance": made}
    if out is not None:
        out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
