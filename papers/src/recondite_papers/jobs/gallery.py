"""Images: reconstructions of Faustini et al. (2022), noisy faces of Tan et al. (2024)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from recondite._files import replaced
from recondite.attacks.gradient.dlg import DLG
from recondite.attacks.gradient.inverting import InvertingGradients
from recondite.metrics import ssim
from recondite.models import build
from recondite_papers.jobs.channels import ChannelSetting, Fitter, beta, spectrum
from recondite_papers.jobs.data import Split, split
from recondite_papers.jobs.dirdp import records
from recondite_papers.jobs.leaks import attacked, joined, leak, measured
from recondite_papers.jobs.sink import Context, Row
from recondite_papers.stacked import Plan, Stack, StackRelease, train

__all__ = ["faces", "reconstructions", "stored"]

_PLAIN = StackRelease("none", clipping="none")
_NAMES = ("mnist", "cifar10", "lfw")


def stored(job: str, block: str) -> str:
    """The file of a block's images, beside the job's rows."""
    return f"gallery-{job}-{block.replace('/', '-')}.npz"


def _save(context: Context, job: str, block: str, pictures: dict[str, Tensor]) -> None:
    if context.out is None:
        return
    context.out.mkdir(parents=True, exist_ok=True)
    arrays: dict[str, Any] = {
        key: (value.clamp(0, 1) * 255).round().to(torch.uint8).cpu().numpy()
        for key, value in pictures.items()
    }
    with replaced(context.out / stored(job, block)) as file:
        np.savez_compressed(file, **arrays)


def reconstructions(context: Context) -> None:
    """One image a data set: DLG (Figure 4), Inverting Gradients (5), trained victims (6)."""
    job = "dirdp-v1-pictures"
    sink = context.sink(job)
    blocks: dict[str, Callable[[], list[Row]]] = {}
    for attack in ("dlg", "iga"):
        for model in ("lenet-dlg", "mlp2"):
            for name in _NAMES:
                key = f"{attack}/{model}/{name}"
                blocks[key] = partial(_pictures, context, job, key)
    if context.quick:
        blocks = {key: run for key, run in blocks.items() if "lenet-dlg/mnist" in key}
    if context.small:
        # DLG on three million weights in double precision takes minutes an image on a CPU.
        blocks = {key: run for key, run in blocks.items() if "mlp2" not in key or "mnist" in key}
    context.blocks(sink, blocks)


def _pictures(context: Context, job: str, key: str) -> list[Row]:
    attack, model, name = key.split("/")
    data = records(context, name, 300 if context.quick else None, scale="published")
    cases: list[tuple[str, float, StackRelease, bool]] = [("none", 0.0, _PLAIN, False)]
    # As Section 4.4 has it: standard deviation ε on the raw gradient.
    for value in context.pick((0.8,), (0.8,), (0.8, 8.0)):
        cases.append(
            ("gaussian", value, StackRelease("gaussian", value, norm=1e6, sensitivity=1.0), False)
        )
    for value in context.pick((500.0,), (5.0, 500.0, 300_000.0), (5.0, 50.0, 500.0, 300_000.0)):
        turned = StackRelease("directional", value, blocks="flat", weights="own")
        cases.append(("vmf", value, turned, True))
    steps = context.pick(20, 150 if attack == "dlg" else 600, 1000)
    method: Any = DLG(steps=steps, restarts=1) if attack == "dlg" else InvertingGradients(steps)
    rows: list[Row] = []
    pictures: dict[str, Tensor] = {"original": data.pixels(data.images[:1])}
    for victim in ("untrained", "trained"):
        net = build(model, data.shape, data.classes, seed=0).to(context.device)
        if victim == "trained":
            _train(net, model, data, context)
        shown = cases if victim == "untrained" else cases[:1]
        parts = [
            leak(net, data, release, batch=1, batches=1, seed=60 + n, keep_norm=keep)
            for n, (_, _, release, keep) in enumerate(shown)
        ]
        whole = joined(parts)
        found = attacked(method, net, whole, data, context.pick(10, 15, context.seconds))
        for n, (defence, value, _, _) in enumerate(shown):
            pictures[f"{victim}, {defence}, {value:g}"] = data.pixels(found.images[n])
            scores = measured(found.images[n : n + 1], whole.images[n : n + 1], data)
            label = {"data": name, "model": model, "attack": attack, "victim": victim}
            more = {"iterations": found.steps, "interrupted": found.interrupted}
            rows.append({**label, "defence": defence, "value": value, "run": context.mark,
                         **more, **scores})  # fmt: skip
    _save(context, job, key, pictures)
    return rows


def _train(net: nn.Module, model: str, data: Split, context: Context) -> None:
    """Five epochs of AdamW, one on a CPU."""
    stack = Stack([net], context.device)
    steps = min(context.pick(5, 80, 10_000), 5 * max(1, len(data.images) // 128))
    plan = Plan(steps, 128, "shuffled", "adamw", 0.001 if model == "mlp2" else 0.003)
    train(stack, data.images, data.labels, [_PLAIN], plan, seed=3)
    net.load_state_dict(stack.state(0))


def faces(context: Context) -> None:
    """Figure 5 on the faces of LFW, since CelebA is not here."""
    sink = context.sink("channel-pictures")
    context.blocks(sink, {"lfw": partial(_faces, context)})


def _faces(context: Context) -> list[Row]:
    data = split("lfw", device="cpu", data_dir=context.data_dir, scale="half")
    if context.quick:  # Grey: 1,024 features, whose spectrum takes a second.
        grey = [t.mean(1, keepdim=True) for t in (data.images, data.test_images)]
        data = Split(grey[0], data.labels, grey[1], data.test_labels, 0.5, 0.5, "lfw", data.classes)
    fitter = Fitter(spectrum(data), data.shape)
    eyes = torch.from_numpy(beta(data.shape) > 1).view(data.shape)
    shown = data.images[:4]
    pictures, rows = {"original": data.pixels(shown)}, []
    kinds = ("natural", "white", "personalized-paper", "personalized")
    for kind in context.pick(kinds[:2] + kinds[3:], kinds, kinds):
        for kappa in (50.0, 300.0, 1500.0):
            fitted = fitter(ChannelSetting(kind, kappa))
            noisy = torch.from_numpy(
                np.asarray(fitted.noise.added_to(shown.double().numpy(), np.random.default_rng(0)))
            ).float()
            pictures[f"{kind}, {kappa:g}"] = data.pixels(noisy)
            error = (noisy - shown).square()
            rows.append(
                {
                    "data": "lfw",
                    "defence": kind,
                    "value": kappa,
                    "mse_scaled": float(error.mean()),
                    "mse_eyes": float(error[:, eyes].mean()),
                    "mse_rest": float(error[:, ~eyes].mean()),
                    "ssim": float(ssim(data.pixels(noisy).clamp(0, 1), data.pixels(shown)).mean()),
                    "noise_power": fitted.noise.power,
                    "run": context.mark,
                }
            )
    _save(context, "channel-pictures", "lfw", pictures)
    return rows
