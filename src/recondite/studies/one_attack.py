"""One attack on its own, on a victim made for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from numpy.typing import NDArray
from pydantic import ValidationError

from recondite.attacks import registry
from recondite.attacks.outcome import Gallery
from recondite.attacks.victim import Accounted
from recondite.studies import attackers, rows
from recondite.studies.cell import run_cell
from recondite.studies.checks import facts_of, mistakes_of
from recondite.studies.defences import plan
from recondite.studies.grid import cells
from recondite.studies.mistakes import from_pydantic
from recondite.studies.shapes import AttackConfig, CellTask, Event, Row, Settings, Shared
from recondite.studies.source import Mistake, where
from recondite.studies.splits import pool
from recondite.studies.study import Study
from recondite.studies.victims import make_victim
from recondite.training.record import machine
from recondite.training.setup import build_model

__all__ = ["Attacked", "Said", "attack_victim", "first_mistake"]

Said = Callable[[str, float], None]


@dataclass(frozen=True, eq=False)
class Attacked:
    """What an attack found.

    Attributes:
      record: The row of a comparison, or the record of an attack on a file.
      originals: (n, h, w, c) bytes of images, (n,) text of others; None where nobody knows them.
      reconstructions: The same shape; None for attacks that rebuild nothing.
      media: The media type of one content.
    """

    record: Row
    originals: NDArray[Any] | None = None
    reconstructions: NDArray[Any] | None = None
    media: str = "image/png"

    @property
    def interrupted(self) -> bool:
        """Whether it was ended early and holds the best so far."""
        found = self.record.get("reconstruction") or {}
        return bool(found.get("interrupted"))


def attack_victim(
    settings: Settings, *, data_dir: str | None = None, said: Said = lambda _, __: None
) -> Attacked:
    """Makes a victim and attacks it.

    Args:
      settings: A study with one defence and one attack, as plain data. A gradient attack on an
        untrained victim trains nothing, nor does any attack on a model with given weights.
      data_dir: Where data sets are.
      said: Told the stage and how much of it is done.
    """
    study = _checked(settings, data_dir)
    facts = facts_of(study, data_dir)
    cell = cells(study, facts, {})[0]
    shared: Shared = {
        "study": study.name,
        "data_dir": data_dir,
        "data_facts": facts.described(study.data),
        "model_facts": {"name": study.model, "parameters": facts.parameters},
    }
    task = cell.task(cell.attacks, shared)
    if not cell.attacks:
        name, defence = study.attacks[0].name, study.defences[0].name
        raise ValueError(f"attack {name} has nothing to attack behind defence {defence}")
    (key, attack), *_ = cell.attacks.items()
    made, asked = attackers.build(attack["name"], attack["options"]), attackers.asked(attack)
    given = study.training.given().get("weights") is not None and made.exposed(asked) == "model"
    if given and made.name in registry.membership_attacks():
        raise ValueError(
            f"weights are the model that {made.name} attacks: give its members and non-members "
            "too, or leave weights out to train a victim"
        )
    if given or not made.trains(asked):
        return _untrained(task, key, attack, said)
    events: list[Event] = []

    def emit(event: Event) -> None:
        if event["type"] == "row":
            events.append(event)
        else:
            said(str(event.get("stage", "")), float(event.get("done", 0.0)))

    run_cell(task, emit)
    row = events[-1]["row"]
    if row["status"] == "failed":
        raise ValueError(row["reason"])
    gallery = events[-1].get("gallery")
    return _pictured(row, Gallery.from_bytes(gallery) if isinstance(gallery, bytes) else None)


def _checked(settings: Settings, data_dir: str | None) -> Study:
    try:
        study = Study.model_validate(settings)
    except ValidationError as error:
        raise ValueError(first_mistake(from_pydantic(error, Study))) from None
    found = mistakes_of(study, data_dir)
    if found:
        raise ValueError(first_mistake(found))
    return study


_LISTS = ("defences", "attacks", "training")
# What a list of a study calls a name is an option, or the argument, of the command.
_OPTIONS: dict[tuple[str, ...], tuple[str, ...]] = {
    ("defences", "name"): ("defence",),
    ("attacks", "name"): ("attack",),
}


def first_mistake(mistakes: list[Mistake]) -> str:
    """The first mistake, named as the command's options are, not as a file's lines."""
    place = tuple(part for part in mistakes[0].place if not isinstance(part, int))
    short = _OPTIONS.get(place, place[1:] if len(place) > 1 and place[0] in _LISTS else place)
    return f"{where(short)} {mistakes[0].message}"


def _untrained(task: CellTask, key: str, attack: AttackConfig, said: Said) -> Attacked:
    planned = plan(task["common"], task["defence"], task["seed"])
    records = pool(planned, task)
    model = build_model(planned, records.training).eval()
    victim = make_victim(task, planned, model, records, None, said)
    # No run was accounted for: one release alone has no ε of a run, and nothing is claimed of it.
    victim = replace(victim, account=Accounted(), asked=attackers.asked(attack))
    found = replace(attackers.build(attack["name"], attack["options"]).evaluate(victim), claims=())
    row = rows.row(task, key, attack, **found.to_dict(), machine=machine())
    return _pictured(row, found.gallery)


def _pictured(row: Row, gallery: Gallery | None) -> Attacked:
    if gallery is None:
        return Attacked(row)
    return Attacked(row, gallery.originals, gallery.reconstructions, gallery.media)
