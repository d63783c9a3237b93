"""A contact sheet: originals above reconstructions."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from recondite._files import replaced
from recondite.records.arrays import needed

__all__ = ["contact_sheet"]

_SIDE, _GAP, _COLUMNS = 96, 6, 8


def contact_sheet(
    reconstructions: NDArray[np.uint8],
    originals: NDArray[np.uint8] | None,
    path: str | os.PathLike[str],
) -> None:
    """Writes a PNG with each original above its reconstruction, enlarged without smoothing.

    Args:
      reconstructions: (n, h, w, c) bytes.
      originals: The same shape, or None where nobody knows them.
      path: Where to.
    """
    pictures = needed("PIL.Image", "pillow")
    rows = [reconstructions] if originals is None else [originals, reconstructions]
    count, (height, width) = len(reconstructions), reconstructions.shape[1:3]
    factor = max(1, _SIDE // max(height, width))
    size = (width * factor, height * factor)
    columns = min(_COLUMNS, count)
    bands = -(-count // columns)
    deep = len(rows) * (size[1] + 2) + _GAP
    sheet = pictures.new(
        "RGB", (columns * (size[0] + _GAP) + _GAP, bands * deep + _GAP), (255, 255, 255)
    )
    for index in range(count):
        band, column = divmod(index, columns)
        for row, images in enumerate(rows):
            pixels = images[index]
            picture = pictures.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels)
            place = (_GAP + column * (size[0] + _GAP), _GAP + band * deep + row * (size[1] + 2))
            sheet.paste(picture.convert("RGB").resize(size, pictures.Resampling.NEAREST), place)
    target = Path(path)
    try:
        with replaced(target) as file:
            sheet.save(file, format="PNG")
    except OSError as error:
        raise ValueError(f"cannot write {target}: {error.strerror or error}") from error
