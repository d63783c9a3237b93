"""What a private loader hands out, and whom it asks and tells about it."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Draw", "LoaderEvents"]


@dataclass(frozen=True)
class Draw:
    """What the batch in hand is.

    Attributes:
      rows: Records in this physical piece.
      keep: False for the placeholder of an empty batch.
      last: Whether this piece completes the batch.
      records: Places of its records in the data set; none for a placeholder.
    """

    rows: int
    keep: bool
    last: bool
    records: list[int]


class LoaderEvents:
    """What a private loader asks and tells whoever trains with it. This one allows everything."""

    def may_begin(self) -> bool:
        """Asked before an epoch begins; False leaves it out."""
        return True

    def begin(self) -> None:
        """Called when an epoch begins."""

    def may_go_on(self) -> bool:
        """Asked before every batch; False ends the epoch."""
        return True

    def opened(self) -> None:
        """Called when a batch, or a piece of one, is handed out."""
