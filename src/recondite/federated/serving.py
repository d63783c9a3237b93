"""A data channel under an app that knows nothing of it: its loaders serve noisy copies."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from recondite.channels import Channel, Protected

__all__ = ["Serving", "serving"]

_KEPT = (
    "per_record",
    "per_dimension",
    "data_set",
    "uses",
    "records",
    "noise",
    "channel",
    "capacity_nats",
    "guarantee",
)


def _same(index: int, record: Any) -> int:
    """Every record is identified by its content alone.

    Apps shuffle, split and subset: a record that came back under another number would be drawn
    again, and nothing could count it. The price: equal records have equal noisy copies.
    """
    del index, record
    return 0


class Serving:
    """The protected loaders of an app, kept from round to round while it uses the same ones.

    Args:
      channel: The fitted channel.
      noise: "once" or "per_step".
      folder: Where the secret and the counts of uses live.
      total: The most nats that may be told of a record, or None.
      seed: For `per_step` noise in simulations.
    """

    def __init__(
        self,
        channel: Channel,
        noise: str,
        folder: Path,
        total: float | None,
        seed: int | None = None,
    ) -> None:
        self._channel, self._noise, self._folder = channel, noise, folder
        self._total, self._seed = total, seed
        self._made: dict[int, tuple[Any, Any]] = {}
        self._used: set[int] = set()
        self._elsewhere = False

    def begin(self) -> None:
        """A round begins: twins of loaders that the last one did not use are forgotten."""
        self._made = {key: self._made[key] for key in self._used}
        self._used = set()
        self._elsewhere = False

    def read_elsewhere(self) -> None:
        """Another thread, which nothing was served to, read records while the app trained."""
        self._elsewhere = True

    def protected(self, loader: Any) -> Any:
        """The protected twin of a loader, made once for every data set."""
        self._used.add(id(loader))
        known = self._made.get(id(loader))
        if known is not None:
            return known[1]
        options: dict[str, Any] = {"total_information": self._total}
        if self._noise == "once":
            options["identity"] = _same
            options["secret"] = self._folder / "channel.secret"
        else:
            options["seed"] = self._seed
        options["ledger"] = self._folder / f"channel-{len(loader.dataset)}.jsonl"
        made = self._channel.protect(loader, self._noise, **options)
        self._made[id(loader)] = (loader, made)  # the loader too: its id must stay its own
        return made

    def account(self) -> Mapping[str, Any]:
        """What was told of the record that was told most of.

        Raises:
          ValueError: If no batch went through the channel, or some were read in another thread.
        """
        if self._elsewhere:
            raise ValueError(
                "a loader was read in another thread while the app trained, past the channel: the "
                "app must read its records in the thread that its training function is called in"
            )
        if not self._used:
            raise ValueError(
                "no batch went through the channel: the app must read its records through torch "
                "DataLoaders, in the training function"
            )
        accounts = [
            made.information() for key, (_, made) in self._made.items() if key in self._used
        ]
        most = max(accounts, key=lambda account: float(account["per_record"]))
        return {key: most[key] for key in _KEPT}


_SERVING: ContextVar[Serving | None] = ContextVar("recondite_serving", default=None)


class _AskingLoaders:
    """Torch's loaders ask whether a channel is in force while anybody is inside, and only then."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside: list[Serving] = []
        self._original: Any = None

    def enter(self, serving: Serving) -> None:
        """The first one in has loaders ask, when they are iterated."""
        import torch.utils.data

        with self._lock:
            self._inside.append(serving)
            if len(self._inside) > 1:
                return
            kind: Any = torch.utils.data.DataLoader
            original = self._original = kind.__iter__

            def iterate(loader: Any) -> Any:
                current = _SERVING.get()
                if isinstance(loader, Protected):
                    return original(loader)
                if current is None:
                    self._tell()
                    return original(loader)
                return iter(current.protected(loader))

            kind.__iter__ = iterate

    def _tell(self) -> None:
        """Whose app that thread belongs to cannot be known: everybody inside is told."""
        with self._lock:
            for one in self._inside:
                one.read_elsewhere()

    def leave(self, serving: Serving) -> None:
        """The last one out gives torch back what it had."""
        import torch.utils.data

        with self._lock:
            self._inside.remove(serving)
            if not self._inside:
                kind: Any = torch.utils.data.DataLoader
                kind.__iter__, self._original = self._original, None


_LOADERS = _AskingLoaders()


@contextmanager
def serving(current: Serving) -> Iterator[Serving]:
    """While inside, every torch ``DataLoader`` that is iterated serves noisy copies.

    Only here: other threads' loaders, which see another context, serve what they hold, and then
    there is no account of this round (:meth:`Serving.account`). After the last one is out torch's
    class is as it was.
    """
    current.begin()
    _LOADERS.enter(current)
    token = _SERVING.set(current)
    try:
        yield current
    finally:
        _SERVING.reset(token)
        _LOADERS.leave(current)
