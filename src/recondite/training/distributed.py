"""One private training over several processes: DistributedDataParallel, with gloo or NCCL.

Every batch is drawn once, by the first process (rank 0), from the records of all; each process
takes its part of it. Clipped sums are added up on the first process, which counts the step in its
ledger, draws the noise, once, and sends what it releases to all. No seed travels: what the others
learn of the randomness is the batch, which they need, and the release. Noise on each record is
drawn by the process that holds the record, from entropy of its own.

Assumptions: every process holds the same records in the same order, and the processes and what
connects them are as trusted as one process: batches and sums without noise go over it, as it is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import Subset

from recondite.training.fetching import tensors_of

__all__ = ["OtherProcessError", "Ranks", "join", "records_digest", "weights_digest"]

Places = NDArray[np.int64]

_REFUSED = {
    "FullyShardedDataParallel": "splits weights over devices, and a record's norm needs them all",
    "FSDPModule": "(FSDP2) splits weights over devices, and a record's norm needs them all",
    "DataParallel": "copies the model in every pass, past the layers that are recorded",
}
_WRAP = "wrap it in torch.nn.parallel.DistributedDataParallel, or train in one process"
_ROWS = 1024  # of large data sets, in a digest


class OtherProcessError(RuntimeError):
    """Another process of the training ended, refused or is elsewhere: no step is taken."""


class Ranks:
    """The processes of one training; one that trains alone without a wrapper.

    Guarantee: a release is made by the first process only, after it counted it; all processes go
    on with that release, bit by bit, or none takes another step. A process that refuses says so to
    the others, which stop. One that is lost stops them as soon as the backend tells: gloo at once,
    NCCL when its watchdog ends the wait.

    Attributes:
      rank: This process, from 0.
      world: How many there are.
    """

    def __init__(self, wrapper: DistributedDataParallel | None = None) -> None:
        self.rank, self.world = 0, 1
        self._wrapper, self._over = wrapper, False
        if wrapper is None:
            return
        self._group: Any = wrapper.process_group
        self.rank = torch.distributed.get_rank(self._group)
        self.world = torch.distributed.get_world_size(self._group)
        self._first = torch.distributed.get_global_rank(self._group, 0)
        self._device = next(iter(wrapper.parameters())).device

    @property
    def alone(self) -> bool:
        """Whether there is nobody to wait for."""
        return self.world == 1

    @property
    def first(self) -> bool:
        """Whether this process counts, draws and releases."""
        return self.rank == 0

    def attach(self) -> Callable[[], None]:
        """Has the wrapper leave gradients and buffers alone; returns what undoes it.

        What it would average are gradients without bound or noise.
        """
        wrapper = self._wrapper
        if wrapper is None:
            return lambda: None
        before = wrapper.require_backward_grad_sync, wrapper.require_forward_param_sync

        def restore() -> None:
            wrapper.require_backward_grad_sync, wrapper.require_forward_param_sync = before

        wrapper.require_backward_grad_sync = wrapper.require_forward_param_sync = False
        return restore

    def check(self) -> None:
        """Raises ``ValueError``, in one line, where a step would not be that of all processes."""
        if self._wrapper is None:
            _refuse_processes()
        elif self._wrapper.require_backward_grad_sync:
            raise ValueError(
                "require_backward_grad_sync of the DistributedDataParallel was set since "
                "make_private, which would share gradients without noise: leave it"
            )
        if self._over:
            raise ValueError(
                "a process of this training stopped, and all with it: start every process again"
            )

    def seed(self, seed: int | None) -> int | None:
        """The seed of this process's noise: the same on two would be the same noise twice."""
        if seed is None or self.first:
            return seed
        return int(np.random.SeedSequence([seed, self.rank]).generate_state(1, np.uint64)[0] >> 1)

    @contextmanager
    def telling(self) -> Iterator[None]:
        """Has the others stop where what is inside fails: they would wait for this process."""
        try:
            yield
        except Exception:
            if not (self.alone or self._over):
                with suppress(OtherProcessError):
                    self._gather([0, 0, 0])
                self._over = True
            raise

    def meet(self, place: int, count: int) -> None:
        """Waits for all processes, and goes on where none refused.

        Args:
          place: Where in the code this is.
          count: Of what was done so far.

        Raises:
          OtherProcessError: One refused, is elsewhere or was lost.
        """
        if self.alone:
            return
        found = self._gather([1, place, count])
        refused = [rank for rank, (good, *_) in enumerate(found) if not good]
        self._over = bool(refused) or any(row != found[0] for row in found)
        if refused:
            raise OtherProcessError(
                f"process {refused[0]} refused, so that all stop: its own message says why"
            )
        if self._over:
            raise OtherProcessError(
                "the processes are not at the same step: run the same loop, over whole epochs of "
                "the private loader, in each"
            )

    def compare(self, facts: Mapping[str, str]) -> None:
        """Raises ``ValueError``, on every process, where one of these facts differs."""
        if self.alone:
            return
        found: list[Any] = [None] * self.world
        with self._reached():
            torch.distributed.all_gather_object(found, dict(facts), group=self._group)
        for fact in facts:
            if len({theirs[fact] for theirs in found}) > 1:
                self._over = True
                raise ValueError(f"the processes differ in {fact}: give each the same")

    def told(self, value: Any) -> Any:
        """What the first process says."""
        if self.alone:
            return value
        held = [value if self.first else None]
        with self._reached():
            torch.distributed.broadcast_object_list(
                held, src=self._first, group=self._group, device=self._device
            )
        return held[0]

    def parts(self, batches: Iterable[Places]) -> Iterator[tuple[Places, Places]]:
        """This process's part of every batch that the first one draws, and what others hold.

        Parts differ by one record at most, and depend on nothing but the batch's places.
        """
        if self.alone:
            yield from ((batch, batch[:0]) for batch in batches)
            return
        for batch in self.told(list(batches) if self.first else None):
            parts = np.array_split(batch, self.world)
            mine = parts.pop(self.rank)
            yield mine, np.concatenate(parts)

    def part_size(self, records: int) -> int:
        """How many of so many records of a batch this process takes."""
        return records // self.world + (self.rank < records % self.world)

    def released(self, total: Tensor, release: Callable[[Tensor], Tensor], count: int) -> Tensor:
        """What the first process releases from the sum over all processes.

        Args:
          total: This process's sum.
          release: Counts a step and makes a release of the sum of all; called on the first only.
          count: Of the steps so far.
        """
        if self.alone:
            return release(total)
        # A process without records has zeros of the default type; all must add the same.
        kind = torch.promote_types(torch.float32, self._widest())
        out = total = total.to(kind).contiguous()
        with self._reached():
            torch.distributed.reduce(total, dst=self._first, group=self._group)
        with self.telling():
            if self.first:
                out = release(total).to(kind).contiguous()
        self.meet(2, count)
        with self._reached():
            torch.distributed.broadcast(out, src=self._first, group=self._group)
        return out

    def _widest(self) -> torch.dtype:
        assert self._wrapper is not None
        kinds = {p.dtype for p in self._wrapper.parameters() if p.requires_grad}
        return torch.float64 if torch.float64 in kinds else torch.float32

    def _gather(self, numbers: list[int]) -> list[list[int]]:
        mine = torch.tensor(numbers, device=self._device)
        found = [torch.empty_like(mine) for _ in range(self.world)]
        with self._reached():
            torch.distributed.all_gather(found, mine, group=self._group)
            return [[int(number) for number in each] for each in torch.stack(found).tolist()]

    @contextmanager
    def _reached(self) -> Iterator[None]:
        if self._over:
            self.check()
        try:
            yield
        except RuntimeError as error:
            self._over = True
            raise OtherProcessError(
                "another process of this training ended or cannot be reached: no step is taken; "
                "start all again, with the first one's ledger or checkpoint"
            ) from error


def join(module: nn.Module) -> tuple[nn.Module, Ranks]:
    """The model that is trained, and the processes that train it.

    Raises:
      ValueError: In one line: models and processes that would share gradients otherwise.
    """
    kinds = {base.__name__ for layer in module.modules() for base in type(layer).__mro__}
    for name, reason in _REFUSED.items():
        if name in kinds:
            raise ValueError(f"module is a {name}, which {reason}: {_WRAP}")
    if any(type(p).__name__ == "DTensor" for p in module.parameters()):
        raise ValueError(f"module has weights that are split over devices (DTensor): {_WRAP}")
    if not isinstance(module, DistributedDataParallel):
        if "DistributedDataParallel" in kinds:
            raise ValueError(
                "a part of module is a DistributedDataParallel: wrap the whole model in one"
            )
        _refuse_processes()
        return module, Ranks()
    if not torch.distributed.is_initialized():
        raise ValueError(
            "module is a DistributedDataParallel whose process group has ended: call "
            "torch.distributed.init_process_group, and wrap the model after it"
        )
    for option in ("static_graph", "mixed_precision"):
        if getattr(module, option, None):
            raise ValueError(f"{option} of the DistributedDataParallel is not for private training")
    return module.module, Ranks(module)


def _refuse_processes() -> None:
    shared = torch.distributed
    if shared.is_available() and shared.is_initialized() and shared.get_world_size() > 1:
        raise ValueError(
            f"torch.distributed runs {shared.get_world_size()} processes, and module is not shared "
            f"among them: {_WRAP}"
        )


def weights_digest(module: nn.Module) -> str:
    """A digest of all parameters and buffers."""
    return _digest(module.state_dict().values())


def records_digest(dataset: Any) -> str:
    """A digest of the places and tensors of a data set in memory, of some where they are many.

    Records that are made when they are asked for may be augmented: only their number is told.
    """
    if type(dataset) is Subset:
        return _digest([torch.as_tensor(dataset.indices)]) + records_digest(dataset.dataset)
    return f"{len(dataset)} " + _digest(
        part[:: max(1, len(part) // _ROWS)] for part in tensors_of(dataset) or ()
    )


def _digest(tensors: Iterable[Any]) -> str:
    digest = hashlib.sha256()
    for tensor in tensors:
        if isinstance(tensor, Tensor):
            flat = tensor.detach().cpu().contiguous().reshape(-1)
            digest.update(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
            digest.update(flat.view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
