"""Tan et al. (2024) beyond LeNet: times (Table 2), accuracy (Figure 9); inversion stands beside."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from recondite.mechanisms import Gaussian
from recondite.models import build, count_parameters
from recondite.training import PrivacyEngine
from recondite_papers.jobs.channel import LARGE, SMALL, STEPS, records
from recondite_papers.jobs.channel_training import (
    Draw,
    precision,
    right_share,
    train_all,
)
from recondite_papers.jobs.channel_victims import inversion
from recondite_papers.jobs.channels import (
    ChannelInputs,
    ChannelSetting,
    Fitter,
    spectrum,
)
from recondite_papers.jobs.data import Split
from recondite_papers.jobs.sink import Context, Row

__all__ = ["accuracy", "inversion", "times"]

NETWORKS = ("lenet", "resnet10", "alexnet", "vgg16")
_ENDS, _BETWEEN = (LARGE[0], LARGE[-1]), LARGE[1:-1]
_WIDE = ("white", "personalized-paper")
_RATES = (0.001, 0.0003, 0.0001, 0.00003)
# Steps of trainings that try a rate, and what each must reach: a network that dies stays at 0.1.
_PILOT, _REACHED = 1000, 0.15
_PILOTS = [
    ChannelSetting(),
    ChannelSetting("natural", SMALL[0]),
    ChannelSetting("natural", SMALL[-1]),
]


def times(context: Context) -> None:
    """An epoch of plain training, of DP-SGD and of training on noisy data, turn by turn."""
    sink = context.sink("channel-times")
    chosen = context.pick(NETWORKS[:1], NETWORKS, NETWORKS)
    blocks: dict[str, Callable[[], list[Row]]] = {
        name: partial(_times, context, name) for name in chosen
    }
    context.blocks(sink, blocks)


def _times(context: Context, name: str) -> list[Row]:
    on_cpu = context.device == "cpu"
    # Per-sample gradients of 134 million weights at batch 64 are 34 GB.
    batch = {"lenet": 64, "resnet10": 16, "alexnet": 8, "vgg16": 4}[name] if on_cpu else 64
    steps = {"lenet": 10, "resnet10": 2, "alexnet": 2, "vgg16": 1}[name] if on_cpu else 50
    repeats = {"lenet": 3, "resnet10": 2, "alexnet": 2, "vgg16": 1}[name] if on_cpu else 4
    data = records(context, "cifar10", max(50, batch * steps))
    runs: dict[str, Callable[[], float]] = {}
    for kind in ("sgd", "dp", "data"):
        chosen = data.images[: batch * steps], data.labels[: batch * steps]
        runs[kind] = _epoch(context, name, *chosen, batch, kind)
    # Turn by turn, so that a busy neighbour slows all three; the least is the least disturbed.
    found: dict[str, list[float]] = {kind: [] for kind in runs}
    for _ in range(repeats):
        for kind, run in runs.items():
            found[kind].append(run())
    row: Row = {"model": name, "batch": batch, "steps": steps, "repeats": repeats}
    row["precision"] = "float32" if on_cpu else "TF32 in convolutions, float32 elsewhere"
    seconds = {f"seconds_{kind}": min(values) for kind, values in found.items()}
    parameters = count_parameters(build(name, data.shape, 10, seed=0))
    return [{**row, "parameters": parameters, "run": context.mark, **seconds}]


def _epoch(
    context: Context, name: str, images: torch.Tensor, labels: torch.Tensor, batch: int, kind: str
) -> Callable[[], float]:
    model = build(name, seed=0).to(context.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    rows = _Rows(images, labels)
    loader: Any = DataLoader(rows, batch_size=batch, collate_fn=_as_it_is)
    if kind == "dp":
        loader = PrivacyEngine(seed=0).make_private(
            module=model,
            optimizer=optimizer,
            data_loader=loader,
            mechanism=Gaussian(0.8),
            sampling="shuffled",
        )[2]

    def epoch() -> float:
        _wait(context)
        began = time.perf_counter()
        for x, y in loader:
            seen = x + 0.5 * torch.randn_like(x) if kind == "data" else x
            optimizer.zero_grad()
            loss: Any = nn.functional.cross_entropy(model(seen), y)
            loss.backward()
            optimizer.step()
        _wait(context)
        return time.perf_counter() - began

    return epoch


class _Rows(Dataset[Any]):
    """Records that a loader takes a batch at a time: one by one would cost more than a step."""

    def __init__(self, images: Tensor, labels: Tensor) -> None:
        self.images, self.labels = images, labels

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.images[index], self.labels[index]

    def __getitems__(self, index: list[int]) -> tuple[Tensor, Tensor]:
        chosen = torch.tensor(index, device=self.images.device)
        return self.images[chosen], self.labels[chosen]


def _as_it_is(batch: Any) -> Any:
    return batch


def _wait(context: Context) -> None:
    if context.device.startswith("cuda"):
        torch.cuda.synchronize()


def accuracy(context: Context) -> None:
    """Figure 9's other networks, the most telling blocks first.

    A block's runs train side by side: "natural" has the undefended one and Natural by κ, "wide"
    White and Personalized at the least and the largest κ, "between" at those between.
    """
    sink = context.sink("channel-networks")
    if context.quick or context.small:
        names = context.pick(("resnet10",), ("resnet10", "alexnet"), ())
        order = [(model, "fashion-mnist", "natural") for model in names]
    else:
        order = [(m, d, "natural") for d in ("cifar10", "fashion-mnist") for m in NETWORKS[1:3]]
        order += [("resnet10", "cifar10", "wide"), ("vgg16", "cifar10", "natural")]
        order += [("alexnet", "cifar10", "wide"), ("resnet10", "fashion-mnist", "wide")]
        order += [("alexnet", "fashion-mnist", "wide"), ("vgg16", "fashion-mnist", "natural")]
        every = [(m, d) for m in NETWORKS[1:] for d in ("cifar10", "fashion-mnist")]
        order += [(m, d, "between") for m, d in every if m != "vgg16"]
        order += [(m, d, g) for g in ("wide", "between") for m, d in every if m == "vgg16"]
    known = _Known()
    blocks: dict[str, Callable[[], list[Row]]] = {
        f"{model}/{name}/{group}": partial(_trained, context, known, model, name, group)
        for model, name, group in order
    }
    context.blocks(sink, blocks)


@dataclass
class _Known:
    """What blocks of one call share.

    Attributes:
      data: Records and channels by data set.
      rates: By (model, data set): least accuracy of short trainings, by learning rate.
    """

    data: dict[str, tuple[Split, Fitter]] = field(default_factory=dict)
    rates: dict[tuple[str, str], dict[float, float]] = field(default_factory=dict)


def _settings(context: Context, group: str) -> list[ChannelSetting]:
    if group == "natural":
        kappas = context.pick((300.0,), (50.0, 300.0), SMALL)
        return [ChannelSetting(), *(ChannelSetting("natural", kappa) for kappa in kappas)]
    kappas = _ENDS if group == "wide" else _BETWEEN
    return [ChannelSetting(kind, kappa) for kind in _WIDE for kappa in kappas]


def _trained(context: Context, known: _Known, model: str, name: str, group: str) -> list[Row]:
    if name not in known.data:
        known.data.clear()  # one data set at a time
        data = records(context, name, context.pick(60, 3000, None))
        known.data[name] = data, Fitter(spectrum(data), data.shape)
    data, fitter = known.data[name]
    settings = _settings(context, group)
    generator = torch.Generator(context.device).manual_seed(7)
    inputs = ChannelInputs(data, fitter, settings, generator)
    steps, batch = context.pick(5, 30, STEPS), context.pick(4, 16, 64)
    draws = [noisy_batches(inputs, run, batch) for run in range(len(settings))]
    if (model, name) not in known.rates and not (context.quick or context.small):
        hard = ChannelInputs(data, fitter, _PILOTS, generator)
        pilots = [noisy_batches(hard, run, batch) for run in range(len(_PILOTS))]
        known.rates[model, name] = tried(model, data, context.device, _PILOT, pilots)
    rates = known.rates.get((model, name), {})
    rate = chosen(rates)
    tests = context.pick(12, 300, 10_000)
    nets = [network(model, data, context.device) for _ in settings]
    began = time.monotonic()
    done = train_all(
        nets,
        draws,
        steps,
        seeds=[1000 * NETWORKS.index(model) + run for run in range(len(settings))],
        device=context.device,
        rate=rate,
        deadline=context.began + 60 * context.minutes,
    )
    seconds = time.monotonic() - began
    label: dict[str, Any] = {
        "data": name,
        "model": model,
        "steps": done,
        "batch": batch,
        "optimizer": "adam",
        "rate": rate,
        "rates_tried": {f"{tried:g}": right for tried, right in rates.items()},
        "precision": precision(context.device),
        "train_seconds": seconds,
    }
    if done < steps:
        label["cut"] = f"time was up after {done:,} of {steps:,} steps"
    rows = []
    for setting, net in zip(settings, nets, strict=True):
        right = right_share(net, data.test_images[:tests], data.test_labels[:tests])
        own = {"defence": setting.kind, "value": setting.capacity, "accuracy": [right]}
        rows.append({**label, **own, "run": context.mark})
    return rows


def tried(
    model: str, data: Split, device: str, steps: int, draws: Sequence[Draw]
) -> dict[float, float]:
    """Least accuracy of short trainings, one for each way to draw batches, by rate.

    The paper names no optimizer. The first layer of VGG16's classifier has 25,088 inputs: a step of
    0.001 in each weight moves its outputs by more than ten, and noise on the data makes it worse.
    Smaller rates are tried until no training dies.
    """
    found: dict[float, float] = {}
    for rate in _RATES:
        nets = [network(model, data, device) for _ in draws]
        seeds = [99 + number for number in range(len(nets))]
        train_all(nets, draws, steps, seeds=seeds, device=device, rate=rate)
        images, labels = data.test_images[:2000], data.test_labels[:2000]
        found[rate] = min(right_share(net, images, labels) for net in nets)
        if found[rate] > _REACHED:
            break
    return found


def chosen(rates: dict[float, float]) -> float:
    """The largest rate that all learn with; the first where none does or none was tried."""
    return next((rate for rate, right in rates.items() if right > _REACHED), _RATES[0])


def network(model: str, data: Split, device: str) -> nn.Module:
    """A network with its initial weights; on a GPU in the layout that its convolutions are fast in.

    Group norms want the other layout, so only AlexNet, which has none, gets this one.
    """
    net = build(model, data.shape, 10, seed=0).to(device)
    if model == "alexnet" and device.startswith("cuda"):
        # torch's types know this argument for tensors only.
        return net.to(memory_format=torch.channels_last)  # type: ignore[call-overload,no-any-return]
    return net


def noisy_batches(inputs: ChannelInputs, run: int, batch: int) -> Draw:
    """Batches drawn with replacement, each image with fresh noise of the run's channel."""
    images, labels = inputs.data.images, inputs.data.labels

    def draw(generator: torch.Generator) -> tuple[Tensor, Tensor]:
        index = torch.randint(len(images), (batch,), generator=generator, device=images.device)
        return inputs.noisy(run, images[index], generator), labels[index]

    return draw
