"""What a law can refuse."""

__all__ = ["GridTooFineError"]


class GridTooFineError(ValueError):
    """A grid of losses would need more cells, or larger numbers, than float64 and memory allow."""
