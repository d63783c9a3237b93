"""Writes notes.csv: 300 made-up discharge notes in a clinic's style, a row a note.

No patient is behind them: names, drugs, findings and what became of it are drawn from short lists,
with a fixed seed. ``label`` says whether the patient came back within a month, which follows from
the findings in the note nine times out of ten.

    python examples/notes/make_notes.py notes.csv
"""

from __future__ import annotations

import csv
import random
import sys
from pathlib import Path

_NOTES = 300
_PEOPLE = """Adams Baker Clark Diaz Evans Fischer Gupta Huber Ivanov Jones Keller Lopez Moreau Novak
Okafor Patel Quinn Rossi Sato Tanaka Ueda Vogel Weber Young Zhou"""
_PILLS = "aspirin insulin warfarin metformin heparin lisinopril morphine prednisone"
_SETTLED = ("pain resolved", "wound healed", "fever gone", "walking alone", "appetite back")
_WORRYING = (
    "short of breath",
    "wound infected",
    "fever persists",
    "confused at night",
    "fell twice",
)
_ENDS = ("home with family", "home alone", "to a care home", "review in clinic")


def note(draw: random.Random) -> tuple[str, str]:
    """One note and its label."""
    back = draw.random() < 0.5
    told = back if draw.random() < 0.9 else not back
    finding = draw.choice(_WORRYING if told else _SETTLED)
    name, age, drug = (
        draw.choice(_PEOPLE.split()),
        draw.randint(21, 94),
        draw.choice(_PILLS.split()),
    )
    text = f"{name}, {age}, on {drug} {draw.randint(1, 40)} mg: {finding}, {draw.choice(_ENDS)}."
    return text, "readmitted" if back else "well"


def main(path: Path) -> None:
    """Writes the notes."""
    draw = random.Random(7)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "label"])
        writer.writerows(note(draw) for _ in range(_NOTES))


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "notes.csv"))
