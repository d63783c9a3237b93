"""Shapes of the plain data between a study and its workers: a task out, events and rows back.

All of it is JSON on the way. Keys are those that stored runs have.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NotRequired, Required, TypeAlias, TypedDict

__all__ = [
    "AttackConfig",
    "CellTask",
    "Common",
    "Configured",
    "DataFacts",
    "DefenceConfig",
    "Event",
    "ModelFacts",
    "Row",
    "SearchOptions",
    "Settings",
    "Shared",
    "TargetTask",
    "Task",
]

# By name, whatever a defence, an attack or a training calls its settings.
Settings: TypeAlias = Mapping[str, Any]
# A row of records.jsonl: as it is stored, of this version or an earlier one.
Row: TypeAlias = dict[str, Any]


class Common(TypedDict):
    """What all runs of a study share; ``coins``: records that are in or out by a coin, halved."""

    version: NotRequired[int]
    data: str
    data_digest: NotRequired[str]
    prepare: str | None
    model: str
    model_digest: NotRequired[str | None]
    delta: NotRequired[float | None]
    training: Settings
    coins: NotRequired[int]


class DefenceConfig(TypedDict):
    """A defence without the value of its parameter."""

    name: str
    parameter: NotRequired[str | None]
    settings: Settings
    training: Settings


class Configured(DefenceConfig):
    """A defence at a value, with the target that the value was chosen for."""

    value: float | None
    target: NotRequired[Mapping[str, float | bool] | None]
    label: NotRequired[str]


class AttackConfig(TypedDict, total=False):
    """An attack: the fields of :class:`recondite.attacks.base.AttackRequest` read, and its own."""

    name: Required[str]
    images: int
    batch_size: int
    victim: Literal["trained", "untrained"]
    labels: bool
    records: int
    threat: str | None
    participation: Literal["secret", "known"]
    options: Settings


class DataFacts(TypedDict):
    """What rows say of the records."""

    name: str
    records: int
    test_records: int
    shape: list[int]
    classes: int
    public: bool


class ModelFacts(TypedDict):
    """What rows say of the network."""

    name: str
    parameters: int


class Shared(TypedDict):
    """What every task of a run is told; ``work``: where a training is kept for its attacks."""

    study: str
    data_dir: str | None
    work: NotRequired[str]
    data_facts: DataFacts
    model_facts: ModelFacts


class CellTask(Shared):
    """One training and the attacks on it, by the keys of their rows."""

    kind: Literal["cell"]
    title: str
    key: str
    common: Common
    defence: Configured
    seed: int
    attacks: dict[str, AttackConfig]


class SearchOptions(TypedDict, total=False):
    """How long to search for a strength, how near, and where; empty where it is computed."""

    runs: int
    tolerance: float
    low: float
    high: float


class TargetTask(Shared):
    """A strength to be found; ``probes``: rows of an earlier search."""

    kind: Literal["target"]
    title: str
    key: str
    common: Common
    defence: DefenceConfig
    notion: str
    target: float
    seed: int
    options: SearchOptions
    probes: dict[str, Row]


Task: TypeAlias = CellTask | TargetTask


class Event(TypedDict, total=False):
    """What a worker says: a row with the images beside it, progress, or how the task ended."""

    type: Required[Literal["row", "progress", "done", "error", "lost"]]
    row: Row
    gallery: bytes | str | None
    stage: str
    done: float
    reason: str
    trace: str
