"""Where channels get their normal numbers from; see :mod:`recondite.numerics.normals`."""

from recondite.numerics.normals import Words, fill_normal, fresh_words, keyed_words, scratch

__all__ = ["Words", "fill_normal", "fresh_words", "keyed_words", "scratch"]
