"""Writes a folder of images, a subfolder for each person: LFW's where it is there, digits if not.

python make_folder.py FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path

from PIL import Image

from recondite.records import load

PEOPLE, EACH = 10, 40


def main(folder: Path) -> str:
    """Writes the images; returns what they are, in a line."""
    try:
        images, what = load("lfw", "all", per_person=EACH, size=32), "faces of LFW"
    except ValueError:
        images = load("digits", "all")
        what = "handwritten digits, in the place of faces: no LFW in the data directory"
    counts: dict[int, int] = {}
    for image, label in zip(images.images, images.labels.tolist(), strict=True):
        number = counts.get(label, 0)
        if label >= PEOPLE or number >= EACH:
            continue
        counts[label] = number + 1
        path = folder / images.classes[label].replace(" ", "_") / f"{number:03}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels = (image.permute(1, 2, 0) * 255).round().byte().numpy()
        Image.fromarray(pixels.squeeze(2) if pixels.shape[2] == 1 else pixels).save(path)
    return f"{folder}: {sum(counts.values())} images in {len(counts)} subfolders ({what})"


if __name__ == "__main__":
    print(main(Path(sys.argv[1])))
