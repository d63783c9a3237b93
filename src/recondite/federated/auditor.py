"""An honest-but-curious server's second occupation: rebuilding records, in the background."""

from __future__ import annotations

import contextlib
import copy
import logging
import os
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from recondite import _validate
from recondite.attacks.leak import Leak
from recondite.attacks.reconstruction import Reconstruction
from recondite.federated.evidence import Originals, gallery_bytes, row_of
from recondite.records import ImageSet
from recondite.studies.shapes import Row
from recondite.studies.store import Store

__all__ = ["Auditor"]

Arrays = Mapping[str, NDArray[Any]]
_STOP = None


def _told(level: int, message: str) -> None:
    """One line in Flower's log, where a server's other lines are."""
    logging.getLogger("flwr").log(level, " ".join(message.split()))


@dataclass(frozen=True)
class _AuditJob:
    round_number: int
    client: str
    before: Arrays
    after: Arrays
    observed: str


class Auditor:
    """Attacks the updates it is shown, one after the other, in a thread of low priority.

    Threat model: the server follows the protocol and keeps what it sees: the weights it sent, the
    weights that came back, the learning rate, the number of local steps and their batch size.
    Updates are attacked with all of that; labels are inferred.

    Guarantee: :meth:`observe` never waits. When ``pending`` updates are waiting, further ones are
    not attacked, and a log line says so. While :meth:`paused` is entered, the attack rests at its
    next iteration.

    Args:
      model: A network of the architecture that is trained.
      shape: (c, h, w) of a record.
      out: Folder for records.jsonl, the gallery and the report.
      learning_rate: Of the clients' SGD.
      local_steps: E, local steps of a round; 1 is FedSGD.
      batch_size: Records of a local step.
      attack: An attack or its name; by default "inverting-gradients" for one local step and
        "multi-step" for several.
      attack_steps: Iterations of an attack given by name.
      time_limit: Seconds for one attack; the best so far counts.
      pending: Updates that may wait.
      scale: Mean and standard deviation of each channel in the model's pixel scale; None for
        [0, 1].
      originals: For simulations: from round and client to what the client trained on, or None.
      public: Records of the same kind that the server has, for attacks that use such.
      about: Parts of every row: defence, label, data, model, training.
      loss_fn: The clients' loss.
      study: Name of the run in the report.
      seed: Makes attacks repeatable.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        shape: Sequence[int],
        out: str | os.PathLike[str],
        learning_rate: float,
        local_steps: int = 1,
        batch_size: int = 1,
        attack: Any = None,
        attack_steps: int = 500,
        time_limit: float = 30.0,
        pending: int = 8,
        scale: tuple[Sequence[float], Sequence[float]] | None = None,
        originals: Callable[[int, str], Originals | None] | None = None,
        public: ImageSet | None = None,
        about: Mapping[str, Any] | None = None,
        loss_fn: Callable[[Tensor, Tensor], Tensor] | None = None,
        study: str = "federated",
        seed: int | None = None,
    ) -> None:
        self._model = copy.deepcopy(model).cpu()
        self.shape = tuple(shape)
        self.learning_rate = _validate.positive("learning_rate", learning_rate)
        self.local_steps = _validate.at_least("local_steps", local_steps, 1)
        self.batch_size = _validate.at_least("batch_size", batch_size, 1)
        self.time_limit = _validate.positive("time_limit", time_limit)
        self.attack = self._built(attack, attack_steps)
        self._scale = scale
        self._originals, self._public = originals, public
        self.about = dict(about or {})
        self._loss_fn = loss_fn or nn.functional.cross_entropy
        self.study, self._seed = study, seed
        self.rows: list[Row] = []
        self.dropped = 0
        self._utility: dict[int, dict[str, float]] = {}
        self._store = Store(Path(out))
        self._jobs: queue.Queue[_AuditJob | None] = queue.Queue(
            _validate.at_least("pending", pending, 1)
        )
        self._free = threading.Event()
        self._free.set()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._work, name="recondite-auditor", daemon=True)
        self._thread.start()

    def _built(self, attack: Any, steps: int) -> Any:
        from recondite.attacks import registry

        name = attack
        if name is None or name == "":
            name = "inverting-gradients" if self.local_steps == 1 else "multi-step"
        if not isinstance(name, str):
            return self._able(name)
        # Two attempts: how far they differ is all an attacker without the originals can tell.
        wanted = {
            "steps": _validate.at_least("attack_steps", steps, 1),
            "restarts": 2,
            "local_steps": self.local_steps,
            "local_learning_rate": self.learning_rate,
            "local_batch_size": self.batch_size,
        }
        kind = registry.classes().get(name)
        known = () if kind is None else kind.setting_names()
        return self._able(registry.build(name, **{k: v for k, v in wanted.items() if k in known}))

    @staticmethod
    def _able(attack: Any) -> Any:
        """An attack that rebuilds from gradients: an update is all that there is."""
        if hasattr(attack, "reconstruct") or getattr(attack, "takes_gradients", False):
            return attack
        raise ValueError(
            f"attack {attack.name} takes no gradients, and an auditor has nothing else: choose one "
            "with takes_gradients"
        )

    @property
    def folder(self) -> Path:
        """Where the evidence is."""
        return self._store.folder

    def observe(
        self,
        round_number: int,
        client: str,
        before: Arrays,
        after: Arrays,
        observed: str = "update",
    ) -> bool:
        """Hands over what the server saw; False where there is no room for it.

        Args:
          round_number: The round.
          client: Who sent it.
          before: The weights that were sent.
          after: The weights that came back; what the sum implies, under secure aggregation.
          observed: What this is, for people: "update" or "sum of n updates".
        """
        try:
            self._jobs.put_nowait(_AuditJob(round_number, client, before, after, observed))
        except queue.Full:
            self.dropped += 1
            _told(
                logging.INFO,
                f"recondite auditor: busy, so the update of client {client} in round "
                f"{round_number} is not attacked",
            )
            return False
        return True

    def note_utility(self, round_number: int, metrics: Mapping[str, float]) -> None:
        """How the global model did after a round, for the report."""
        self._utility[round_number] = {key: float(value) for key, value in metrics.items()}

    @contextlib.contextmanager
    def paused(self) -> Any:
        """The attack rests while the server aggregates."""
        self._free.clear()
        try:
            yield
        finally:
            self._free.set()

    def finish(self, wait: float | None = None, *, report: bool = True) -> list[Row]:
        """Ends the auditor and writes its report.

        Args:
          wait: Seconds to wait for attacks that are not finished; by default the time limit of
            each. The one at work then ends with the best so far.
          report: Whether to write report.html.
        """
        allowed = (self._jobs.qsize() + 1) * self.time_limit if wait is None else wait
        deadline = time.monotonic() + allowed
        with contextlib.suppress(queue.Full):
            self._jobs.put(_STOP, timeout=max(allowed, 0.01))
        self._thread.join(max(deadline - time.monotonic(), 0.01))
        self._ending.set()
        self._free.set()
        self._thread.join(10.0)
        self._complete()
        self._store.close()
        if report and self.rows:
            self._report()
        return self.rows

    def _report(self) -> None:
        try:
            from recondite.report import build

            build([self.folder], self.folder / "report.html")
        except (ValueError, ImportError) as error:
            _told(logging.WARNING, f"recondite auditor: no report: {error}")

    def _complete(self) -> None:
        """Rows whose round was evaluated after their attack are written again, with the result."""
        for row in self.rows:
            utility = self._utility.get(row["round"])
            if utility and not row["utility"]:
                row["utility"] = utility
                self._store.append(row)

    def _work(self) -> None:
        if hasattr(os, "setpriority"):
            with contextlib.suppress(OSError, AttributeError):
                os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 10)
        while not self._ending.is_set():
            job = self._jobs.get()
            if job is None:
                return
            try:
                self._attacked(job)
            except Exception as error:  # an auditor must never stop the training it watches
                _told(
                    logging.WARNING,
                    f"recondite auditor: round {job.round_number}, client {job.client}: no "
                    f"reconstruction: {error}",
                )

    def _rest(self, progress: Any) -> None:
        del progress
        self._free.wait()
        if self._ending.is_set():
            raise KeyboardInterrupt  # attacks end with the best so far

    def _attacked(self, job: _AuditJob) -> None:
        began = time.monotonic()
        weights = {name: torch.from_numpy(array.copy()) for name, array in job.before.items()}
        self._model.load_state_dict(weights)
        self._model.train()
        names = [name for name, _ in self._model.named_parameters()]
        leaked = {
            name: torch.from_numpy(job.before[name] - job.after[name]) / self.learning_rate
            for name in names
        }
        # An attack that knows of local steps rebuilds the records of all of them.
        records = self.batch_size * getattr(self.attack, "local_steps", 1)
        found = self._rebuilt(leaked, records)
        truth = None if self._originals is None else self._originals(job.round_number, job.client)
        self._write(job, found, truth, time.monotonic() - began)

    def _rebuilt(self, leaked: Mapping[str, Tensor], records: int) -> Reconstruction:
        if hasattr(self.attack, "reconstruct"):
            found: Reconstruction = self.attack.reconstruct(
                self._model,
                self._loss_fn,
                leaked,
                shape=self.shape,
                batch_size=records,
                bounds=self._bounds(),
                seed=self._seed,
                progress=self._rest,
                time_limit=self.time_limit,
            )
            return found
        low, high = (torch.as_tensor(value) for value in self._bounds())
        leak = Leak(
            self._model,
            {name: gradient[None, None] for name, gradient in leaked.items()},
            (self.shape[0], self.shape[1], self.shape[2]),
            batch_size=records,
            bounds=(float(low.min()), float(high.max())),
            public=self._public,
            seed=self._seed,
            time_limit=self.time_limit,
            progress=lambda stage, done: self._rest((stage, done)),
        )
        found = self.attack.rebuild(leak)
        return found.victim(0)

    def _write(self, job: _AuditJob, found: Any, truth: Originals | None, seconds: float) -> None:
        pixels = self._pixels(found.images)
        originals = None if truth is None else self._pixels(truth[0])
        if originals is not None and len(originals) != len(pixels):
            count = min(len(originals), len(pixels))
            originals, pixels = originals[:count], pixels[:count]
        row = row_of(
            found,
            study=self.study,
            round_number=job.round_number,
            client=job.client,
            attack=self.attack,
            about=self.about,
            pixels=pixels,
            originals=originals,
            labels=None if truth is None else truth[1],
            seconds=seconds,
            observed=job.observed,
        )
        row["utility"] = self._utility.get(job.round_number, {})
        self._store.put(row["reconstruction"]["gallery"], gallery_bytes(pixels, originals))
        self._store.append(row)
        self.rows.append(row)
        _told(logging.INFO, _sentence(row))

    def _pixels(self, images: Tensor) -> Tensor:
        flat = images.reshape(-1, *self.shape).detach()
        if self._scale is None:
            return flat
        mean, std = (torch.tensor(v, dtype=flat.dtype).reshape(-1, 1, 1) for v in self._scale)
        return flat * std + mean

    def _bounds(self) -> tuple[Any, Any]:
        if self._scale is None:
            return 0.0, 1.0
        mean, std = (torch.tensor(value) for value in self._scale)
        return (0.0 - mean) / std, (1.0 - mean) / std


def _sentence(row: Row) -> str:
    found = row["reconstruction"]
    where = f"recondite auditor: round {row['round']}, client {row['client']}"
    if row["ground_truth"]:
        return f"{where}: best SSIM {found['ssim_worst']:.2f}, scored against the originals"
    loss = min((v for v in found["matching_loss"] if v is not None), default=float("nan"))
    agreement = found["agreement"]
    agreed = "one attempt" if agreement is None else f"restarts differ by {agreement:.3f}"
    return f"{where}: matching loss {loss:.3g}, {agreed} (estimates: no ground truth)"
