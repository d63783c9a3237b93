"""How well the gradient attacks do on real images: writes results/dlg.json and the ordering.

    python -m benchmarks.attack_quality leakage --data-dir DIR
    python -m benchmarks.attack_quality ordering --data-dir DIR

``leakage``: Deep Leakage from Gradients on its LeNet (MNIST and CIFAR-10) and Inverting Gradients
on the MLP of Biswas et al. at batch 1, both with untrained weights. ``ordering``: Table II of
Biswas et al. (batches of 128 on MNIST, cut to 16×16, standardised pixels), and the same attack at
equal noise: Gaussian and VMF releases with the same expected cosine to the true gradient.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from benchmarks.provenance import provenance
from recondite import models
from recondite.attacks import DLG, InvertingGradients
from recondite.attacks.gradient.base import AttackProgress, GradientAttack
from recondite.gradients.leaked import leaked_gradients
from recondite.mechanisms import Gaussian, Mechanism, NoNoise, VonMisesFisher
from recondite.metrics import score
from recondite.numerics.bessel import bessel_ratio
from recondite.numerics.roots import last_true
from recondite.records import ImageSet, load

_RESULTS = Path(__file__).resolve().parent.parent / "results"
_GOOD = 1e-3


def _told(progress: AttackProgress) -> None:
    if progress.step % 100 == 0:
        print(f"  {progress.step}/{progress.steps} loss {progress.loss:.3g}", flush=True)


def _first(name: str, directory: str | None, count: int, prepare: str | None = None) -> ImageSet:
    whole = load(name, directory=directory, prepare=prepare)
    return ImageSet(whole.images[:count], whole.labels[:count], whole.classes, name)


def alone(
    attack: GradientAttack, network: str, images: ImageSet, seed: int, at_once: int
) -> dict[str, Any]:
    """One victim an image, weights as they are drawn."""
    model = models.build(network, tuple(images.images.shape[1:]), len(images.classes), seed=seed)
    began, parts, right = time.perf_counter(), [], 0
    for start in range(0, len(images), at_once):
        pictures, labels = images.images[start:][:at_once], images.labels[start:][:at_once]
        leak = leaked_gradients(model, pictures.unsqueeze(1), labels.unsqueeze(1))
        found = attack.reconstruct_many(
            model,
            cross_entropy,
            leak,
            shape=tuple(pictures.shape[1:]),
            bounds=(0.0, 1.0),
            seed=seed,
            progress=_told,
        )
        parts.append(score(found.images.squeeze(1), pictures, matched=False))
        assert found.labels is not None
        right += int((found.labels.squeeze(1) == labels).sum())
    mse, ssim = (torch.cat([getattr(part, field) for part in parts]) for field in ("mse", "ssim"))
    return {
        "attack": attack.name,
        "settings": {k: v for k, v in vars(attack).items() if isinstance(v, int | float | str)},
        "data": f"{images.name}, the first {len(images)} training images",
        "model": f"{network}, untrained",
        "batch_size": 1,
        "scale": "pixels in [0, 1]",
        "images": len(images),
        "mse_median": float(mse.median()),
        "mse_share_below_1e-3": float((mse < _GOOD).float().mean()),
        "mse_largest": float(mse.max()),
        "ssim_mean": float(ssim.mean()),
        "ssim_smallest": float(ssim.min()),
        "labels_right": right / len(images),
        "seconds": round(time.perf_counter() - began, 1),
        "seed": seed,
    }


def leakage(directory: str | None, count: int, seed: int) -> dict[str, Any]:
    """DLG on both data sets, Inverting Gradients on the MLP."""
    dlg = DLG(steps=2500, restarts=1, history=100)
    inverting = InvertingGradients(steps=2000, learning_rate=0.1, total_variation=1e-4)
    rows = []
    for attack, network, name, prepare in (
        (inverting, "mlp", "mnist", "crop16"),
        (dlg, "lenet-dlg", "mnist", None),
        (dlg, "lenet-dlg", "cifar10", None),
    ):
        print(attack.name, network, name, flush=True)
        rows.append(alone(attack, network, _first(name, directory, count, prepare), seed, 10))
        print(json.dumps(rows[-1]), flush=True)
    return {"rows": rows}


def _cosine(released: dict[str, Tensor], true: dict[str, Tensor]) -> float:
    one, other = (torch.cat([g.flatten(1) for g in side.values()], 1) for side in (released, true))
    return float(nn.functional.cosine_similarity(one, other, dim=1).mean())


def _norm(leak: dict[str, Tensor]) -> float:
    return float(torch.cat([g.flatten(1) for g in leak.values()], 1).norm(dim=1).mean())


def _equal(cosine: float, length: float, dim: int, batch: int, bound: float) -> tuple[float, float]:
    """The κ and the noise multiplier of this expected cosine with an average of this length."""
    kappa = last_true(lambda k: float(bessel_ratio(0.5 * dim - 1.0, k)) <= cosine, 1e-3, 1e9)
    noise = length * math.sqrt((1.0 / cosine**2 - 1.0) / dim)  # cos² = r²/(r² + p·std²)
    return kappa, noise * batch / bound


def ordering(
    directory: str | None, victims: int, steps: int, batch: int, seed: int
) -> dict[str, Any]:
    """Table II's defences and, beside them, equal noise."""
    images = _first("mnist", directory, victims * batch, "crop16")
    mean, std = float(images.images.mean()), float(images.images.std())
    pixels = ((images.images - mean) / std).reshape(victims, batch, *images.images.shape[1:])
    labels = images.labels.reshape(victims, batch)
    model = models.build("mlp", tuple(pixels.shape[2:]), seed=seed)
    dim = sum(p.numel() for p in model.parameters())
    bare = leaked_gradients(model, pixels, labels)
    clipped = leaked_gradients(model, pixels, labels, NoNoise(clip=True), clipping="per-layer")
    layers = len(list(model.parameters()))
    gaussian, vmf = Gaussian(noise_multiplier=1.23), VonMisesFisher(kappa=75.0)

    def drawn(mechanism: Mechanism) -> dict[str, Tensor]:
        return leaked_gradients(model, pixels, labels, mechanism, clipping="per-layer", seed=seed)

    def as_noisy_as(cosine: float) -> tuple[float, float]:
        return _equal(cosine, _norm(clipped), dim, batch, math.sqrt(layers))

    faint = Gaussian(noise_multiplier=0.0174)
    like_gaussian, like_faint = (
        as_noisy_as(_cosine(drawn(one), clipped))[0] for one in (gaussian, faint)
    )
    like_vmf = as_noisy_as(float(bessel_ratio(0.5 * dim - 1.0, vmf.kappa)))[1]
    cells: list[tuple[str, dict[str, Tensor], str]] = [
        ("none", bare, "table"),
        ("clipped", clipped, "table"),
        ("Gaussian σ = 1.23", drawn(gaussian), "table"),
        ("VMF κ = 75", drawn(vmf), "table"),
        ("Gaussian σ = 0.0174", drawn(faint), "table"),
        ("VMF κ = 500", drawn(VonMisesFisher(500.0)), "table"),
        (
            f"VMF κ = {like_gaussian:.0f}",
            drawn(VonMisesFisher(like_gaussian)),
            "as much noise as Gaussian σ = 1.23",
        ),
        (
            f"Gaussian σ = {like_vmf:.3g}",
            drawn(Gaussian(like_vmf)),
            "as much noise as VMF κ = 75",
        ),
        (
            f"VMF κ = {like_faint:.0f}",
            drawn(VonMisesFisher(like_faint)),
            "as much noise as Gaussian σ = 0.0174",
        ),
    ]
    attack = InvertingGradients(steps=steps, learning_rate=0.1, total_variation=1e-4)
    bounds = ((0.0 - mean) / std, (1.0 - mean) / std)
    rows = []
    for label, leak, role in cells:
        began = time.perf_counter()
        found = attack.reconstruct_many(
            model,
            cross_entropy,
            leak,
            shape=tuple(pixels.shape[2:]),
            batch_size=batch,
            labels=labels,
            bounds=bounds,
            seed=seed,
        )
        scores = [
            score(a * std + mean, b * std + mean) for a, b in zip(found.images, pixels, strict=True)
        ]
        mse = torch.cat([s.mse for s in scores])
        rows.append(
            {
                "defence": label,
                "role": role,
                "cosine_to_true": _cosine(leak, bare),
                "cosine_to_clipped": _cosine(leak, clipped),
                "mse": float(mse.mean()),
                "mse_standardised": float(mse.mean()) / std**2,
                "mse_standard_error": float(mse.std() / math.sqrt(len(mse))),
                "ssim": float(torch.cat([s.ssim for s in scores]).mean()),
                "matching_loss": float(found.loss.mean()),
                "seconds": round(time.perf_counter() - began, 1),
            }
        )
        print(json.dumps(rows[-1], ensure_ascii=False), flush=True)
    return {
        "attack": attack.name,
        "iterations": steps,
        "batch_size": batch,
        "victims": victims,
        "labels": "known to the attacker, as in the paper's code",
        "data": "mnist, cut to 16×16, standardised",
        "model": "mlp, untrained, 13,700 parameters",
        "clipping": "per layer, to 1",
        "seed": seed,
        "paper": {
            "none": 1.370,
            "clipped": 2.637,
            "gaussian 1.23": 3.923,
            "vmf 75": 4.396,
            "gaussian 0.0174": 2.822,
            "vmf 500": 4.311,
        },
        "rows": rows,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("leakage", "ordering"))
    parser.add_argument("--data-dir", default=os.environ.get("RECONDITE_DATA"))
    parser.add_argument("--images", type=int, default=50)
    parser.add_argument("--victims", type=int, default=2)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.what == "leakage":
        made = leakage(given.data_dir, given.images, given.seed)
    else:
        made = ordering(given.data_dir, given.victims, given.steps, 128, given.seed)
    where = {**provenance(), "command": f"python -m benchmarks.attack_quality {given.what}"}
    name = {"leakage": "dlg.json", "ordering": "attack-ordering.json"}[given.what]
    text = json.dumps({**made, "provenance": where}, indent=1, ensure_ascii=False)
    (_RESULTS / name).write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
