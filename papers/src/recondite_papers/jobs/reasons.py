"""Biswas et al. (2025), Table VI: a likely reason why Gaussian cells are off, tested."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from recondite.attacks.gradient.inverting import InvertingGradients
from recondite_papers.jobs.compare import records
from recondite_papers.jobs.compare_network import network
from recondite_papers.jobs.leaks import attacked, joined, leak, measured
from recondite_papers.jobs.sink import Context, Row
from recondite_papers.stacked import Plan, Stack, StackRelease, train

__all__ = ["noise_size"]

_PLAIN = StackRelease("none", clipping="none")


def noise_size(context: Context) -> None:
    """Biswas et al., Table VI: the Gaussian cells with the noise divided once more."""
    sink = context.sink("compare-noise-size")
    sizes = (4,) if context.quick else (16, 64) if context.small else (16, 32, 64, 128)
    blocks: dict[str, Callable[[], list[Row]]] = {
        f"noise/mnist/{batch}": partial(_sizes, context, batch) for batch in sizes
    }
    if not context.quick:
        blocks["victim/mnist/16"] = partial(_sizes, context, 16, trained=True)
    context.blocks(sink, blocks)


def _sizes(context: Context, batch: int, trained: bool = False) -> list[Row]:
    data = records(context, "mnist")
    model = network(data.shape, 10, seed=0).to(context.device)
    if trained:
        stack = Stack([model], context.device)
        plan = Plan(1400, 128, "shuffled", "adamw", 0.005, decay=0.1)
        train(stack, data.images, data.labels, [_PLAIN], plan, seed=0)
        model.load_state_dict(stack.state(0))
    cases = [("clipped flat", 0.0, 0.0, StackRelease("clip"))]
    cases.append(("clipped by layer", 0.0, 0.0, StackRelease("clip", clipping="per-layer")))
    divisors = (1.0,) if trained or context.quick else (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
    for sigma in (0.204, 0.461, 1.23):
        for divisor in divisors:
            cases.append(("gaussian", sigma, divisor, StackRelease("gaussian", sigma / divisor)))
        by_layer = StackRelease("gaussian", sigma, clipping="per-layer")
        cases.append(("gaussian by layer", sigma, 1.0, by_layer))
    batches = 1 if batch > 16 else 2
    whole = joined(
        [
            leak(model, data, case[3], batch=batch, batches=batches, seed=100 + number)
            for number, case in enumerate(cases)
        ]
    )
    steps = 40 if context.quick else 2500 if context.small else 10_000
    found = attacked(InvertingGradients(steps=steps), model, whole, data, 170)
    rows = []
    for number, (name, sigma, divisor, _) in enumerate(cases):
        span = slice(number * batches, (number + 1) * batches)
        rows.append(
            {
                "data": "mnist",
                "defence": name,
                "value": sigma,
                "divisor": divisor,
                "batch": batch,
                "victim": "trained" if trained else "untrained",
                "iterations": found.steps,
                "run": context.mark,
                **measured(found.images[span], whole.images[span], data),
            }
        )
    return rows
