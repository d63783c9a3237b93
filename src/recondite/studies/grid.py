"""From a study to its cells: one training each, with the attacks on it, and their keys."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from recondite.studies import attackers
from recondite.studies.defences import kinds, label
from recondite.studies.facts import Facts
from recondite.studies.shapes import (
    AttackConfig,
    CellTask,
    Common,
    Configured,
    DefenceConfig,
    Row,
    SearchOptions,
    Shared,
    TargetTask,
)
from recondite.studies.study import AttackSpec, DefenceSpec, Study

__all__ = ["ENGINE_VERSION", "GridCell", "MissingStrength", "cells", "digest", "missing_strengths"]

# Part of every key: grows when the same configuration would give other figures.
ENGINE_VERSION = 3

Aim = dict[str, float | bool]


def digest(value: Any) -> str:
    """A short content hash of plain data."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


@dataclass(frozen=True)
class MissingStrength:
    """A strength that has to be found before a defence can be trained.

    Attributes:
      key: Content hash of everything it depends on.
      common: What all runs of the study share.
      defence: The defence's configuration, without a value.
      notion: What is to be met.
      target: Its value.
      seed: Of the trainings of a search.
      options: How long to search, how near, and where.
    """

    key: str
    common: Common
    defence: DefenceConfig
    notion: str
    target: float
    seed: int
    options: SearchOptions

    def task(self, shared: Shared, probes: dict[str, Row]) -> TargetTask:
        """Plain data for a worker: with what all tasks are told, and what a search found before."""
        return {
            "kind": "target",
            "title": f"{self.defence['name']} at {self.notion}",
            "key": self.key,
            "common": self.common,
            "defence": self.defence,
            "notion": self.notion,
            "target": self.target,
            "seed": self.seed,
            "options": self.options,
            **shared,
            "probes": probes,
        }


@dataclass(frozen=True)
class GridCell:
    """One training and the attacks on it.

    Attributes:
      key: Content hash of everything that determines the training.
      common: What all runs of the study share.
      defence: Name, settings, training overrides, value, label.
      seed: The repetition.
      attacks: Each attack's configuration by the key of its row.
      failure: Why the cell cannot be run; None otherwise.
    """

    key: str
    common: Common
    defence: Configured
    seed: int
    attacks: dict[str, AttackConfig]
    failure: str | None = field(default=None, compare=False)

    def task(self, missing: Mapping[str, AttackConfig], shared: Shared) -> CellTask:
        """Plain data for a worker: the training, and the attacks that are still missing."""
        return {
            "kind": "cell",
            "title": f"{self.defence['label']}, seed {self.seed}",
            "key": self.key,
            "common": self.common,
            "defence": self.defence,
            "seed": self.seed,
            "attacks": dict(missing),
            **shared,
        }


def _common(study: Study, facts: Facts) -> Common:
    return {
        "version": ENGINE_VERSION,
        "data": study.data,
        "data_digest": facts.data_digest,
        "prepare": study.prepare,
        "model": study.model,
        "model_digest": facts.model_digest,
        "delta": study.delta,
        "training": study.training.given(),
        "coins": max(
            (a.records for a in study.attacks if "records" in attackers.reads(a.name)),
            default=0,
        ),
    }


def _fixed(defence: DefenceSpec) -> DefenceConfig:
    """A defence's configuration without its parameter."""
    parameter = kinds()[defence.name].parameter
    settings = {k: v for k, v in defence.settings().items() if k != parameter}
    return {
        "name": defence.name,
        "parameter": parameter,
        "settings": settings,
        "training": defence.training.given(),
    }


def _values(defence: DefenceSpec) -> list[float | None]:
    parameter = kinds()[defence.name].parameter
    if parameter is None:
        return [None]
    given = defence.settings().get(parameter, [])
    return [float(value) for value in (given if isinstance(given, list) else [given])]


def missing_strengths(study: Study, facts: Facts) -> list[MissingStrength]:
    """Every strength that a target asks for."""
    common = _common(study, facts)
    found = []
    for defence in study.defences:
        for notion, target in defence.at.targets() if defence.at else ():
            fixed = _fixed(defence)
            options: SearchOptions = {}
            if notion == "accuracy":
                assert defence.at is not None
                low, high = kinds()[defence.name].search_range
                options = {
                    "runs": defence.at.runs,
                    "tolerance": defence.at.tolerance,
                    "low": low,
                    "high": high,
                }
            seed = study.seeds[0]
            parts = [common, fixed, notion, target, options, seed if options else None]
            found.append(
                MissingStrength(
                    digest(["target", *parts]), common, fixed, notion, target, seed, options
                )
            )
    return found


def cells(study: Study, facts: Facts, found: Mapping[str, Row]) -> list[GridCell]:
    """The grid, in the order of the study.

    Args:
      study: The study.
      facts: What its data and model are.
      found: What the search for every target found, by its key.
    """
    common = _common(study, facts)
    searched = {
        (missing.defence["name"], digest(missing.defence), missing.notion, missing.target): missing
        for missing in missing_strengths(study, facts)
    }
    out: dict[str, GridCell] = {}
    for defence in study.defences:
        fixed = _fixed(defence)
        variants: list[tuple[float | None, Aim | None, str | None]] = [
            (value, None, None) for value in _values(defence)
        ]
        for notion, target in defence.at.targets() if defence.at else ():
            missing = searched[defence.name, digest(fixed), notion, target]
            result = found.get(missing.key, {"failure": "its strength was not found yet"})
            aimed = {notion: target, **_achieved(result, missing)}
            variants.append((result.get("value"), aimed, result.get("failure")))
        for value, aim, failure in variants:
            for position, seed in enumerate(study.seeds):
                cell = _cell(study, common, defence, fixed, value, aim, seed, position, failure)
                out.setdefault(cell.key, cell)
    return list(out.values())


def _achieved(result: Row, missing: MissingStrength) -> Aim:
    """What was reached; of a search, which promises nothing, also whether it is near enough."""
    reached = result.get("achieved")
    if reached is None:
        return {}
    if missing.notion != "accuracy":
        return {"achieved": reached}
    # A rounding error of the difference is no miss.
    met = abs(reached - missing.target) <= missing.options["tolerance"] + 1e-12
    return {"achieved": reached, "met": met}


def _cell(
    study: Study,
    common: Common,
    defence: DefenceSpec,
    fixed: DefenceConfig,
    value: float | None,
    aim: Aim | None,
    seed: int,
    position: int,
    failure: str | None,
) -> GridCell:
    title = label(defence.name, value, fixed["settings"])
    if defence.label is not None:
        title = defence.label if value is None else f"{defence.label} ({title})"
    for notion, aimed in (aim or {}).items():
        if notion not in ("achieved", "met"):
            title = f"{title} at {notion.replace('_', ' ')} {aimed:g}"
    if aim is not None and not aim.get("met", True):
        title = f"{title}, reached {aim['achieved']:.3g}"
    configured: Configured = {**fixed, "value": value, "target": aim, "label": title}
    # Whether a target counts as met says nothing about the run.
    plain_aim = None if aim is None else {k: v for k, v in aim.items() if k != "met"}
    key = digest([common, fixed, value, plain_aim, seed])
    attacks: dict[str, AttackConfig] = {}
    for attack in study.attacks:
        if attackers.applies(attack.name, defence.name, first=position == 0):
            plain = attack_config(attack)
            attacks[digest([key, plain])] = plain
    if not study.attacks:
        attacks[digest([key, None])] = {"name": "none"}
    return GridCell(key, common, configured, seed, attacks, failure)


def attack_config(attack: AttackSpec) -> AttackConfig:
    """Everything of a study that an attack reads, in plain types."""
    read: Any = {key: getattr(attack, key) for key in attackers.reads(attack.name)}
    config: AttackConfig = {"name": attack.name}
    config.update(read)
    config["options"] = attack.options()
    return config
