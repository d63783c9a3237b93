"""Images as PNG files, without a library: grey or colour, eight bits a channel."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["png"]

_GREY, _COLOUR = 0, 2  # the format's colour types


def png(pixels: NDArray[Any]) -> bytes:
    """Returns one image as the content of a PNG file.

    Args:
      pixels: (c, h, w) in [0, 1], clipped otherwise: NaN is black. With three channels it is a
        colour image; with another number the channels stand side by side, in grey.
    """
    scaled = np.rint(np.clip(np.nan_to_num(pixels, posinf=1.0), 0, 1) * 255).astype(np.uint8)
    if len(scaled) == 3:
        kind, rows = _COLOUR, scaled.transpose(1, 2, 0)
    else:
        kind, rows = _GREY, np.concatenate(list(scaled), axis=1)[..., None]
    height, width = rows.shape[:2]
    # Each line begins with its filter: 0, none.
    lines = np.concatenate(
        [np.zeros((height, 1), np.uint8), rows.reshape(height, -1)], axis=1
    ).tobytes()
    header = struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(lines, 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(name, content) for name, content in parts)


def _chunk(name: bytes, content: bytes) -> bytes:
    check = zlib.crc32(name + content)
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", check)
