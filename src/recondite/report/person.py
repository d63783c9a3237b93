"""The first thing a reader sees: one person in four tiles.

The original; what the attacks here rebuilt without a defence; what they rebuilt with the one that
is chosen; the best guess of somebody who saw nothing. The person is the one whom the strongest
attack on the *chosen* defence came nearest to: no other would flatter it less.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from recondite.records.display import guess_of
from recondite.report.answer import Answers
from recondite.report.gallery import Contents, Picture, contents, most_exposed, public
from recondite.report.plain import plain_label
from recondite.report.points import Point
from recondite.report.quantities import attack_name
from recondite.report.released import participation_of, threat_of
from recondite.report.rows import number, section
from recondite.report.words import score, several

__all__ = ["Person", "Tile", "people"]

MOST = 24  # candidates with tiles of their own; the page has few others


@dataclass(frozen=True)
class Tile:
    """One tile.

    Attributes:
      title: What it shows.
      technical: The same for whoever knows the field.
      media: The media type of ``content``.
      content: What to show; None where there is nothing, and ``note`` says why.
      note: What it comes to for this person.
      figures: The same in numbers.
    """

    title: str
    technical: str
    media: str = ""
    content: bytes | None = None
    note: str = ""
    figures: str = ""


@dataclass(frozen=True)
class Person:
    """The tiles for one recommendation; ``point`` is None where nothing is recommended."""

    point: int | None
    tiles: tuple[Tile, ...]
    attack: str = ""


def people(answers: Answers, wanted: Iterable[int | None], *, show_private: bool) -> list[Person]:
    """The tiles of each point that may be recommended, and of None."""
    out = [_person(answers, index, show_private=show_private) for index in dict.fromkeys(wanted)]
    return [person for person in out if person is not None][:MOST]


def _person(answers: Answers, index: int | None, *, show_private: bool) -> Person | None:
    chosen = None if index is None else answers.points[index]
    base = answers.undefended(0 if chosen is None else chosen.run)
    mine, bare = (_held(answers, point, show_private=show_private) for point in (chosen, base))
    if not mine and not bare:
        return None
    first: list[Contents | None] = [*mine] or [None]
    second: list[Contents | None] = [*bare] or [None]
    pairs = (
        (one, picture, other, twin)
        for one in first
        for picture in (one.pictures if one else [None])
        for other in second
        for twin in (other.pictures if other else [None])
        if picture is None or twin is None or picture.original == twin.original
    )
    one, picture, other, twin = next(pairs, (None, None, None, None))
    if picture is None and twin is None:  # attacks on other people: the chosen defence comes first
        one, picture = (mine or bare)[0], (mine or bare)[0].pictures[0]
    known = one or other
    seen = picture or twin
    if known is None or seen is None:
        return None
    guess = (picture and picture.guess) or (twin and twin.guess) or None
    return Person(
        index,
        (
            Tile("The record", "original", known.media, seen.original,
                 "one person’s, as it was used", ""),
            _rebuilt("Rebuilt without a defence", "undefended", other, twin),
            _rebuilt(
                f"Rebuilt with {'a defence' if chosen is None else plain_label(chosen)}",
                "no defence is recommended" if chosen is None else chosen.label, one, picture,
            ),
            Tile("Best guess, seeing nothing", "blind guess", known.media, guess,
                 _told(known) if guess else "not stored in this run",
                 _figures(known, seen.blind, _guessed(known))),
        ),
        attack_name(str(known.row.get("attack") or "attack")),
    )  # fmt: skip


def _held(answers: Answers, point: Point | None, *, show_private: bool) -> list[Contents]:
    """What may be shown of a point, the strongest attack first."""
    if point is None:
        return []
    rows = [row for row in most_exposed(point) if public(row) or show_private]
    found = (contents(row, answers.runs[point.run].directory) for row in rows)
    return [one for one in found if one is not None and one.pictures]


def _rebuilt(title: str, technical: str, held: Contents | None, seen: Picture | None) -> Tile:
    if held is None or seen is None:
        return Tile(title, technical, note="not attacked here")
    note = f"{_nearer(held, seen)}, {_made_from(held)}"
    figures = _figures(held, seen.scores, _by(held))
    return Tile(title, technical, held.media, seen.rebuilt, note, figures)


def _made_from(held: Contents) -> str:
    """What the attack read: whoever sees a whole training may need no more than one message."""
    if threat_of(held.row) == "model":
        return "from the finished model"
    releases = number(section(held.row, "reconstruction").get("releases"))
    return "from the whole training" if releases and releases > 1 else "from one message"


def _by(held: Contents) -> str:
    """The attack and what it was given."""
    found, threat = section(held.row, "reconstruction"), threat_of(held.row)
    side = "" if threat == "update" else f", participation {participation_of(held.row)}"
    parts = [attack_name(str(held.row.get("attack") or "attack")), f"threat {threat}{side}"]
    if found.get("victim"):
        parts.append(f"{found['victim']} model")
    size, releases = number(found.get("batch_size")), number(found.get("releases"))
    if size:
        parts.append(f"{several(int(size), 'record')} in an update")
    if releases and releases > 1:
        parts.append(f"{releases:.0f} updates of the record")
    return "; ".join(parts)


def _nearer(held: Contents, seen: Picture) -> str:
    """Whether this person's reconstruction is nearer to them than the guess is."""
    blind = seen.blind.get(held.exposure)
    if seen.likeness is None or blind is None:
        return "not compared with a guess"
    if seen.likeness >= 0.99:
        return "a copy of the record"
    return "nearer than the guess" if seen.likeness > blind else "no nearer than the guess"


def _guessed(held: Contents) -> str:
    """The guess of the metric that is shown, in the row's words."""
    return guess_of(str(section(held.row, "reconstruction").get("blind", {}).get("guess") or ""),
                    held.exposure)  # fmt: skip


def _told(held: Contents) -> str:
    """What whoever guesses knows all the same: a guess of the class looks like its records."""
    return "told its kind, not the record" if "class" in _guessed(held) else "of any such record"


def _figures(held: Contents, scores: Mapping[str, float | None], by: str) -> str:
    value = scores.get(held.exposure)
    shown = "" if value is None else f"{held.exposure.upper()} {score(value)}"
    return "; ".join(part for part in (by, shown) if part)
