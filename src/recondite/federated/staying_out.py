"""When a client takes no part in a round."""

from __future__ import annotations

__all__ = ["StayOutError"]


class StayOutError(Exception):
    """The client takes no part in this round.

    The message goes to the server too: it depends on settings and counts, never on the data.
    """
