"""A defence on a Flower client: what it adds to a round, and what an auditor takes of one."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.rows import Row, at_most
from benchmarks.runner import Benchmark, Settings, interleave

__all__ = ["BENCHMARKS"]

_RECORDS, _BATCH, _PASSES = 400, 32, 5


def _app(model_name: str) -> tuple[Callable[..., Any], dict[str, Any]]:
    """A client's training function on synthetic digits, and the weights it starts from."""
    import torch
    from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
    from torch.utils.data import DataLoader, TensorDataset

    from recondite.models import build

    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(_RECORDS, 1, 28, 28, generator=generator)
    labels = torch.randint(10, (_RECORDS,), generator=generator)
    loader = DataLoader(TensorDataset(images, labels), batch_size=_BATCH, shuffle=True)
    model = build(model_name, (1, 28, 28), seed=0)
    start = {name: value.numpy().copy() for name, value in model.state_dict().items()}

    def train(message: Any, context: Any) -> Any:
        del context
        record = message.content["arrays"]
        model.load_state_dict({k: torch.from_numpy(v.numpy().copy()) for k, v in record.items()})
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for _ in range(_PASSES):
            for batch, targets in loader:
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(model(batch), targets).backward()
                optimizer.step()
        content = {
            "arrays": ArrayRecord(model.state_dict()),
            "metrics": MetricRecord({"num-examples": _RECORDS}),
        }
        return Message(RecordDict(content), reply_to=message)

    return train, start


class _Rounds:
    """Messages of consecutive rounds for one client."""

    def __init__(self, start: dict[str, Any], folder: Path) -> None:
        from recondite.federated.flower import flower

        self.app = flower()
        identity = flower("flwr.supercore.task_identity").TaskIdentity
        identity.task_id, identity.run_id, identity.node_id = 1, 1, 1
        self.number = 0
        self.start = start
        self.context = self.app.Context(1, 1, {"ledger": str(folder)}, self.app.RecordDict(), {})

    def message(self) -> Any:
        self.number += 1
        arrays = {name: self.app.Array(value) for name, value in self.start.items()}
        content = self.app.RecordDict(
            {
                "arrays": self.app.ArrayRecord(arrays),
                "config": self.app.ConfigRecord({"server-round": self.number}),
            }
        )
        return self.app.Message(content, dst_node_id=1, message_type="train")


def _timed(call: Callable[[], Any]) -> float:
    began = time.perf_counter()
    reply = call()
    assert not reply.has_error(), reply.error.reason
    return time.perf_counter() - began


def _mod(settings: Settings) -> Iterator[Row]:
    """A round of LeNet with and without each defence: five passes over 400 records."""
    import numpy as np

    import recondite as rc
    from recondite.federated import Budget, defend

    train, start = _app("lenet")
    public = np.random.default_rng(1).standard_normal((400, 784)).astype(np.float32)
    defences = {
        "gaussian": defend(rc.Gaussian(1.0), max_norm=1.0, budget=Budget(epsilon=1e6)),
        "vmf": defend(rc.VonMisesFisher(500.0), max_norm=1.0, budget=Budget(epsilon=1e6)),
        "directional": defend(rc.Directional(500.0), max_norm=1.0, budget=Budget(epsilon=1e6)),
        "natural channel": defend(channel=rc.NaturalChannel.fit(public, 78.4)),
    }
    with tempfile.TemporaryDirectory() as folder:
        rounds = {name: _Rounds(start, Path(folder) / name) for name in (*defences, "plain")}
        sides: dict[str, Callable[[], float]] = {
            "plain": lambda: _timed(lambda: train(rounds["plain"].message(), None))
        }
        for name, mod in defences.items():
            own = rounds[name]
            sides[name] = lambda mod=mod, own=own: _timed(  # type: ignore[misc]
                lambda: mod(own.message(), own.context, train)
            )
        interleave(sides, 1)  # warm
        found = interleave(sides, max(settings.repetitions, 5))
    limit = at_most(1.1, "≤ 1.1 × the round without a defence", of="ratio")
    for name in defences:
        yield Row(
            f"client round, lenet (44,426), 400 records, 5 passes, {name}",
            statistics.median(found[name]) * 1e3,
            "ms",
            limit,
            "the app alone",
            statistics.median(found["plain"]) * 1e3,
            "ledger on disk and flushed, budget of ε checked" if "chan" not in name else "",
            {name: found[name], "plain": found["plain"]},
        )


def _auditor(settings: Settings) -> Iterator[Row]:
    """What handing an update to the auditor takes of a round, while it attacks another."""
    from recondite.federated import Auditor
    from recondite.models import build

    model = build("lenet", (1, 28, 28), seed=0)
    arrays = {name: value.numpy().copy() for name, value in model.state_dict().items()}
    moved = {name: value + 0.01 for name, value in arrays.items()}
    with tempfile.TemporaryDirectory() as folder:
        auditor = Auditor(
            model,
            shape=(1, 28, 28),
            out=folder,
            learning_rate=0.1,
            attack_steps=10_000,
            time_limit=600.0,
            pending=1000,
        )
        auditor.observe(1, "0", arrays, moved)
        time.sleep(1.0)  # the attack is under way
        times = []
        for number in range(max(settings.repetitions, 5) * 4):
            began = time.perf_counter()
            with auditor.paused():
                auditor.observe(number + 2, "0", arrays, moved)
            times.append(time.perf_counter() - began)
        auditor.finish(wait=0.01, report=False)
    yield Row(
        "auditor, handing over one update of lenet",
        statistics.median(times) * 1e3,
        "ms",
        at_most(500.0, "≤ 500 ms: the default limit of a round"),
        note="while another attack is under way",
        samples={"hand over": times},
    )


BENCHMARKS = [
    Benchmark("federated client mod", _mod, requires=("torch", "flwr")),
    Benchmark("federated auditor", _auditor, requires=("torch", "flwr", "torchmetrics")),
]
