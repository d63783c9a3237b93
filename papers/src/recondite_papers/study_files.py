"""Study files of the papers' tables and figures: which there are, and how they are run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from recondite.studies.attackers import reads

if TYPE_CHECKING:  # the list of files is there without the libraries of a comparison
    from recondite.studies.study import Study

__all__ = ["FILES", "Ran", "chosen", "files_of", "quickened", "read", "run", "text"]

_HOME = "recondite_papers"


def _each(stem: str, *parts: Sequence[str]) -> tuple[str, ...]:
    return tuple("-".join((stem, *chosen)) for chosen in product(*parts))


_BOTH = ("mnist", "fashion-mnist")
_TWO = ("fashion-mnist", "cifar10")
_NETWORKS = ("resnet10", "alexnet", "vgg16")
_PAIR = ("lenet", "mlp2")
_COMPARE = {n: _each(f"compare/table-{n}", _BOTH) for n in (3, 5, 6)}
_ACCURACY = _each("channel/figure-9-lenet", _TWO)
_PLANES = _each("channel/figure-15", _TWO)
_TRAINED = _each("dirdp/table-2", _PAIR, (*_TWO, "lfw"))
_MEMBERS = _each("dirdp/table-3", _PAIR, _TWO)
_REBUILT = _each("dirdp/table-4", _PAIR, (*_TWO, "lfw"))
_VICTIMS = ("mnist", "cifar10", "lfw")

# Item: its files below ``studies``, the cheapest first. Items without training have none.
FILES: dict[str, tuple[str, ...]] = {
    "compare/table-2": _COMPARE[6],
    "compare/table-3": _COMPARE[3],
    "compare/table-5": _COMPARE[5],
    "compare/table-6": _COMPARE[6],
    "compare/figure-1": _COMPARE[6],
    "compare/figure-2": _COMPARE[5],
    "compare/figure-3": _COMPARE[6],
    "compare/figure-4": _COMPARE[6],
    "compare/figure-6": _COMPARE[3],
    "channel/table-2": _each("channel/table-2", ("lenet", *_NETWORKS)),
    "channel/figure-5": ("channel/figure-5-lfw",),
    "channel/figure-6": ("channel/figure-6-cifar10",),
    "channel/figure-8": ("channel/figure-8-cifar10",),
    "channel/figure-9": _ACCURACY,
    "channel/figure-9-networks": _each("channel/figure-9", _NETWORKS, _TWO),
    "channel/figure-10": (*_PLANES, "channel/figure-14-lenet"),
    "channel/figure-11": _ACCURACY,
    "channel/figure-12": _ACCURACY,
    "channel/figure-13": _PLANES,
    "channel/figure-14": ("channel/figure-14-lenet",),
    "channel/figure-14-networks": _each("channel/figure-14", _NETWORKS),
    "channel/figure-15": _PLANES,
    "channel/figure-16": _PLANES,
    "dirdp/table-2": _TRAINED,
    "dirdp/table-3": _MEMBERS,
    "dirdp/table-4": _REBUILT,
    "dirdp/figure-2": (*_TRAINED, *_MEMBERS, *_REBUILT),
    "dirdp-v1/table-1": _each("dirdp-v1/table-1", _PAIR, ("mnist", "cifar10")),
    "dirdp-v1/table-2": _each("dirdp-v1/table-2", _PAIR, ("lfw",)),
    "dirdp-v1/table-3": _each("dirdp-v1/table-3", _PAIR, _VICTIMS),
    "dirdp-v1/table-4": _each("dirdp-v1/table-3", _PAIR, _VICTIMS),
    "dirdp-v1/table-6": _each("dirdp-v1/table-6", _PAIR, _VICTIMS),
    "dirdp-v1/figure-4": _each("dirdp-v1/table-3", _PAIR, _VICTIMS),
    "dirdp-v1/figure-5": _each("dirdp-v1/table-3", _PAIR, _VICTIMS),
    "dirdp-v1/figure-6": _each("dirdp-v1/table-6", _PAIR, _VICTIMS),
}


class _Size(NamedTuple):
    """Of a quick training: at most so many."""

    records: int
    steps: int
    batch: int


_SMALL, _DEEP = _Size(1000, 60, 128), _Size(200, 3, 8)
# Of a quick attack.
_ATTACK = {"steps": 20, "iterations": 5, "restarts": 1, "references": 2}
_ASKED = 50


@dataclass(frozen=True)
class Ran:
    """What the studies of an item gave.

    Attributes:
      studies: Each file's study as the paper has it, its run's folder and its rows.
      failed: Rows that went wrong.
      reason: Of the first of them.
    """

    studies: tuple[tuple[str, Study, Path, list[dict[str, Any]]], ...]
    failed: int
    reason: str = ""


def files_of(item: str) -> tuple[str, ...]:
    """The study files of an item, as ``compare/table-5-mnist``.

    Raises:
      ValueError: In one line, where it has none.
    """
    if item not in FILES:
        raise ValueError(
            f"{item} has no study file: it trains nothing, or does what a comparison cannot; "
            "leave --study and --engine out"
        )
    return FILES[item]


def text(name: str) -> str:
    """A file as it is, its comments included."""
    study, _, stem = name.partition("/")
    place = resources.files(_HOME).joinpath("studies", study, f"{stem}.yaml")
    return place.read_text(encoding="utf-8")


def read(name: str) -> Study:
    """A file's study. Its data and model are not looked at: they may not be here."""
    from recondite.studies.source import parse
    from recondite.studies.study import Study

    return Study.model_validate(parse(text(name), f"{name}.yaml").data)


def quickened(study: Study) -> Study:
    """A small version: fewer records, steps, images, iterations, strengths and one seed."""
    plain = study.model_dump(exclude_none=True, exclude_defaults=True)
    whole = study.training.given().get("steps")
    size = _DEEP if study.model in _NETWORKS else _SMALL
    plain["name"] = f"{study.name}-quick"
    plain["seeds"] = study.seeds[:1]
    plain["training"] = {
        **_fewer_steps(plain["training"], whole, size),
        "steps": min(whole or size.steps, size.steps),
        "records": size.records,
    }
    plain["training"].pop("epochs", None)
    plain["defences"] = [_fewer_values(defence, whole, size) for defence in plain["defences"]]
    plain["attacks"] = [_less(attack) for attack in plain.get("attacks", ())]
    return type(study).model_validate(plain)


def _fewer_steps(training: Mapping[str, Any], whole: int | None, size: _Size) -> dict[str, Any]:
    out = dict(training)
    if "batch_size" in out:
        out["batch_size"] = min(out["batch_size"], size.batch)
    if "steps" in out and whole is not None and whole > size.steps:
        out["steps"] = max(1, out["steps"] * size.steps // whole)
    return out


def _fewer_values(defence: Mapping[str, Any], whole: int | None, size: _Size) -> dict[str, Any]:
    """The ends of every list of strengths."""
    out = {key: _ends(value) for key, value in defence.items()}
    if "at" in out:
        out["at"] = {key: _ends(value) for key, value in out["at"].items()}
    if "training" in out:
        out["training"] = _fewer_steps(out["training"], whole, size)
    return out


def _ends(value: Any) -> Any:
    return [value[0], value[-1]] if isinstance(value, list) and len(value) > 2 else value


def _less(attack: Mapping[str, Any]) -> dict[str, Any]:
    out = {**attack, **{k: min(attack[k], most) for k, most in _ATTACK.items() if k in attack}}
    known = reads(attack["name"])
    if "batch_size" in known:
        out["images"] = 1 if attack.get("batch_size", 1) > 1 else 2
    if "records" in known:
        out["records"] = _ASKED
    return out


def _table(name: str) -> str:
    """``dirdp/table-2`` of ``dirdp/table-2-lenet-lfw``."""
    study, _, stem = name.partition("/")
    return f"{study}/{'-'.join(stem.split('-')[:2])}"


def chosen(item: str, quick: bool) -> Iterator[tuple[str, Study, Study]]:
    """Name, study as the paper has it, and study that is run; quick: the first of each table."""
    names = files_of(item)
    # An item may put the files of several tables together: a figure of one against another.
    first = {_table(name): name for name in reversed(names)}
    for name in names:
        if quick and name != first[_table(name)]:
            continue
        whole = read(name)
        yield name, whole, quickened(whole) if quick else whole


def run(
    item: str,
    out: Path,
    *,
    quick: bool = False,
    engine: str = "local",
    workers: int | None = None,
    device: str = "cpu",
    data_dir: str | None = None,
    data: Mapping[str, str] | None = None,
    monitor: Any = None,
) -> Ran:
    """Runs the studies of an item, each in a folder of its own; what is there is not run again.

    Args:
      item: The item's name.
      out: Folder of the runs.
      quick: The small version.
      engine: "local" or "ray".
      workers: Tasks at a time.
      device: cpu or cuda.
      data_dir: Where data sets are.
      data: Other data in place of the paper's, by its name; rows then count as the paper's.
      monitor: Watches.
    """
    from recondite.studies.runner import compare  # imports torch
    from recondite.studies.source import SourceText
    from recondite.studies.study import check_source

    done, failed, reason = [], 0, ""
    for name, whole, study in chosen(item, quick):
        plain = study.model_dump(exclude_none=True, exclude_defaults=True)
        plain["data"] = (data or {}).get(study.data, study.data)
        if device != "cpu":
            plain["training"]["device"] = device
        checked, _ = check_source(SourceText(f"{name}.yaml", plain, {}), data_dir)
        outcome = compare(
            checked,
            out / study.name,
            engine=engine,
            workers=workers,
            data_dir=data_dir,
            monitor=monitor,
        )
        broken = [row for row in outcome.rows if row["status"] == "failed"]
        failed += len(broken)
        reason = reason or (f"{broken[0]['label']}: {broken[0]['reason']}" if broken else "")
        done.append((name, whole, outcome.run, outcome.rows))
    return Ran(tuple(done), failed, reason)
