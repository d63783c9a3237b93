"""What is shown of an attack: some originals beside what was rebuilt and guessed of them."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor

    from recondite.records import Records

__all__ = ["Gallery"]

_SHOWN = 16  # victims of a gallery
_IMAGES = "image/png"


@dataclass(frozen=True, eq=False)
class Gallery:
    """Some originals, what was rebuilt of them, and what a guess that saw no release hands in.

    Images are (n, h, w, c) bytes. Every other kind is text, (n,), as ``Records.rendered`` says it:
    :meth:`of` makes such a gallery. The page shows both by their media type
    (``records/display.py``).

    Attributes:
      originals: The victims.
      reconstructions: What the attack made of them, in their order.
      guesses: The blind guess at each; None where there is none.
      media: The media type of one content.
      places: Each one's place among the victims, in whose order scores are; None for the first.
    """

    originals: NDArray[Any]
    reconstructions: NDArray[Any]
    guesses: NDArray[Any] | None = None
    media: str = _IMAGES
    places: NDArray[Any] | None = None

    @classmethod
    def of(
        cls,
        records: Records,
        rebuilt: Tensor,
        originals: Tensor,
        guesses: Tensor | None = None,
        places: Tensor | None = None,
    ) -> Gallery:
        """Of records whose contents are text, such as rows of a table; the first sixteen.

        Args:
          records: Their kind: its ``rendered`` says how one is shown, its ``media`` as what.
          rebuilt: (n, …), in its scale.
          originals: As many.
          guesses: As many blind guesses; None where there are none.
          places: Their places among the victims; None where they are the first.
        """

        def contents(features: Tensor, side: int) -> NDArray[Any]:
            pairs = zip(features[:_SHOWN], originals[:_SHOWN], strict=True)
            made = (records.rendered(one, true, reveal=True)[side] for one, true in pairs)
            return np.array([(content or b"").decode("utf-8") for content in made], dtype=np.str_)

        guessed = None if guesses is None else contents(guesses, 1)
        of = None if places is None else places[:_SHOWN].cpu().numpy()
        return cls(contents(rebuilt, 0), contents(rebuilt, 1), guessed, records.media, of)

    def to_bytes(self) -> bytes:
        """A compressed file."""
        file = io.BytesIO()
        held: Any = {"originals": self.originals, "reconstructions": self.reconstructions}
        if self.guesses is not None:
            held["guesses"] = self.guesses
        if self.media != _IMAGES:
            held["media"] = np.array(self.media)
        if self.places is not None:
            held["places"] = self.places
        np.savez_compressed(file, **held)
        return file.getvalue()

    @classmethod
    def from_bytes(cls, file: bytes) -> Gallery:
        """From what :meth:`to_bytes` made; nothing in it is executed."""
        with np.load(io.BytesIO(file), allow_pickle=False) as held:
            return cls(
                held["originals"],
                held["reconstructions"],
                held.get("guesses"),
                str(held["media"]) if "media" in held else _IMAGES,
                held.get("places"),
            )
