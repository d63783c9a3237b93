"""What was released to a row's attacker, and what they were told: whom its result speaks of."""

from __future__ import annotations

from recondite.report.rows import Row, number, section

__all__ = ["participation_of", "pooled", "tells", "threat_of"]


def threat_of(row: Row) -> str:
    """What the row's attack was given; rows of 0.1 do not say, but their results do."""
    if pooled(row):
        return "training"  # several updates of one record are more than one
    said = row.get("threat")
    if isinstance(said, str) and said:
        return said
    made = section(row, "reconstruction")
    if made.get("batch_size"):
        return "update"
    return "training" if made and made.get("victim") is None else "model"


def participation_of(row: Row) -> str:
    """Whether the row's attacker was told in which steps a record took part."""
    if pooled(row) or tells(row):
        return "known"  # whose updates are the same record's is told
    return str(section(row, "attack_options").get("participation") or "secret")


def pooled(row: Row) -> bool:
    """Whether an attack on updates saw several of the same record."""
    seen = number(section(row, "reconstruction").get("releases"))
    return row.get("threat") == "update" and seen is not None and seen > 1


def tells(row: Row) -> bool:
    """Whether the row's attacker knew the others' batches where these tell of the record's too.

    Batches of one size are accounted as wholly secret. An attacker of the training who knows who
    else is in them knows more than that account allows: it says nothing against its bound.
    """
    schedule = section(section(row, "privacy"), "schedule")
    if schedule.get("sampling") != "fixed-size" or threat_of(row) != "training":
        return False
    rebuilt = section(row, "reconstruction")
    return bool(row.get("identification")) or rebuilt.get("images_from") == "training records"
