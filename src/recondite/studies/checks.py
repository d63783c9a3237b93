"""What is wrong with a study that has the right shape: names, values, data, model."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from recondite.configuration import TrainingConfig
from recondite.mechanisms import Neighbouring, Setting
from recondite.notions import targets
from recondite.studies import attackers
from recondite.studies.compression import wrong_places
from recondite.studies.defences import Kind, kinds, mechanism
from recondite.studies.facts import Facts, facts
from recondite.studies.source import Mistake, Place, nearest
from recondite.studies.study import AttackSpec, DefenceSpec, Study, Target, notion_names

__all__ = ["defence_mistakes", "facts_of", "mistakes_of"]

_GENERAL = ("name", "label", "at", "training")
_PRIOR = 0.1  # success of a blind guess, for targets that speak of it


def mistakes_of(study: Study, data_dir: str | None = None) -> list[Mistake]:
    """Every mistake that can be seen before anything is trained."""
    found = _facts(study, data_dir)
    rest = [
        *_attacks(study),
        *_training(study, None if isinstance(found, Mistake) else found),
        *_search(study),
    ]
    if isinstance(found, Mistake):
        return [found, *_defences(study, None), *rest]
    return [*_enough(study, found), *_defences(study, found), *rest]


def _facts(study: Study, data_dir: str | None) -> Facts | Mistake:
    """Loads the data and builds the model, as every cell will."""
    weights = study.training.given().get("weights")
    if weights is not None and not Path(weights).is_file():
        return Mistake(("training", "weights"), "is not a file: give a safetensors file")
    try:
        return facts_of(study, data_dir)
    except ValueError as error:
        text = str(error)
        about = "prepare" if text.startswith("prepare") else "data"
        if study.model in text or text.startswith("model"):
            about = "model"
        short = text.removeprefix(f"prepare {study.prepare}: ")
        return Mistake((about,), f"cannot be used: {_one_line(short)}")


def _enough(study: Study, found: Facts) -> Iterator[Mistake]:
    """Whether there is as much as the attacks want."""
    from recondite.attacks.base import Available

    def network() -> Any:
        return made_for(study, found)

    there = Available(
        study.data,
        found.records,
        found.test_records,
        found.shape,
        found.kind,
        found.classes,
        network,
    )
    for index, attack in enumerate(study.attacks):
        try:
            made = attackers.build(attack.name, attack.options())
        except (TypeError, ValueError):
            continue  # said of its name or its options
        refused = made.refusal(there)
        if refused is not None:
            yield Mistake(("attacks", index, "name"), f"{attack.name} {_one_line(refused)}")
            continue
        for key, message in made.misfits(attack.asked(), there):
            yield Mistake(("attacks", index, key), _one_line(message))


def made_for(study: Study, found: Facts) -> Any:
    """The network of a study, untrained."""
    from recondite.models import resolve

    given = study.training.given()
    return resolve(
        study.model,
        found.shape,
        found.classes or 1,
        norm=given.get("norm") or TrainingConfig().norm,
        seed=0,
        one_hot=found.one_hot,
        adapter=given.get("adapter"),
    )


def facts_of(study: Study, data_dir: str | None) -> Facts:
    """The facts of a study."""
    training = study.training.given()
    return facts(
        study.data,
        study.model,
        study.prepare,
        data_dir,
        training.get("norm"),
        training.get("weights"),
        training.get("records"),
        training.get("adapter"),
        training.get("truncate"),
    )


def _defences(study: Study, found: Facts | None) -> Iterator[Mistake]:
    for index, defence in enumerate(study.defences):
        yield from defence_mistakes(defence, ("defences", index), found)


def defence_mistakes(
    defence: DefenceSpec, place: Place = (), found: Facts | None = None
) -> Iterator[Mistake]:
    """What is wrong with one defence."""
    known = kinds()
    if defence.name not in known:
        yield Mistake((*place, "name"), f"is unknown: {nearest(defence.name, known)}")
    else:
        yield from _settings(defence, known[defence.name], place, found)


def _settings(
    defence: DefenceSpec, kind: Kind, place: Place, found: Facts | None
) -> Iterator[Mistake]:
    own = [*kind.settings, *([kind.parameter] if kind.parameter else [])]
    given = defence.settings()
    wrong = [key for key in given if key not in own]
    for key in wrong:
        hint = nearest(key, [*own, *_GENERAL])
        yield Mistake((*place, key), f"is not a setting of {kind.name}: {hint}")
    if defence.at is not None:
        yield from _aims(defence.at, (*place, "at"))
    if defence.at is not None and not defence.at.targets():
        yield Mistake((*place, "at"), "has no target: give epsilon, accuracy, …")
    if defence.at is not None and kind.parameter is None:
        yield Mistake((*place, "at"), f"is not possible: {kind.name} has no strength to choose")
        return
    if defence.at is not None and kind.channel is not None:
        for notion, _ in defence.at.targets():
            if notion != "accuracy":
                yield Mistake(
                    (*place, "at", notion), f"is not possible for {kind.name}: give its capacity"
                )
    if kind.removes:
        yield from _removed(given, kind.removes, place, found)
    if kind.parameter is None or wrong:
        return
    yield from _reachable(defence, place)
    yield from _values(defence, kind, place, found)


def _removed(
    given: Mapping[str, Any], setting: str, place: Place, found: Facts | None
) -> Iterator[Mistake]:
    """Which eigenvectors a compression may remove."""
    place = (*place, setting)
    if setting not in given:
        yield Mistake(place, f"is missing: give {setting}: [0] for the first eigenvector")
        return
    features = None if found is None else math.prod(found.shape)
    for message in wrong_places(given[setting], features):
        yield Mistake(place, message)


def _aims(at: Target, place: Place) -> Iterator[Mistake]:
    """Notions that no installed package has."""
    known = notion_names()
    for notion in at.given():
        if notion not in (*known, "accuracy"):
            hint = nearest(notion, [*known, *Target.model_fields])
            yield Mistake((*place, notion), f"is not a setting of at: {hint}")


def _reachable(defence: DefenceSpec, place: Place) -> Iterator[Mistake]:
    """Targets that a notion can have; an accuracy lies below 1."""
    for name, given in ({} if defence.at is None else defence.at.given()).items():
        listed = isinstance(given, list)
        values: Any = given if listed else [] if given is None else [given]
        for index, value in enumerate(values):
            here = (*place, "at", name, index) if listed else (*place, "at", name)
            wrong = _unreachable(name, value)
            if wrong:
                yield Mistake(here, wrong)


def _unreachable(name: str, value: float) -> str | None:
    notion = targets().get(name.replace("_", "-"))
    share = name == "accuracy" or (notion is not None and notion.share)
    if share and value > 1:
        hint = f": did you mean {value / 100:g}?" if value < 100 else ""
        return f"must be at most 1, got {value:g}{hint}"
    if name == "accuracy":
        return None if value < 1 else f"must lie between 0 and 1, got {value:g}"
    try:
        if notion is not None:
            notion.check_target(value, _PRIOR)
    except ValueError as error:
        return _one_line(str(error)).removeprefix(f"{notion.target if notion else name} ")
    return None


def _values(
    defence: DefenceSpec, kind: Kind, place: Place, found: Facts | None
) -> Iterator[Mistake]:
    assert kind.parameter is not None
    given = defence.settings()
    if kind.parameter not in given:
        if defence.at is None:
            yield Mistake(
                (*place, kind.parameter),
                f"is missing: give {kind.parameter}: [values], or at: {{epsilon: 8}}",
            )
        elif kind.channel is None:
            yield from _try(defence, 1.0, (*place, "name"), found)
        return
    values = given[kind.parameter]
    listed = isinstance(values, list)
    if listed and not values:
        yield Mistake((*place, kind.parameter), "is empty: give at least one value")
    for index, value in enumerate(values if listed else [values]):
        here = (*place, kind.parameter, index) if listed else (*place, kind.parameter)
        if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
            yield Mistake(here, f"must be a number above 0, got {value!r}")
        else:
            yield from _try(defence, float(value), here, found)


def _try(
    defence: DefenceSpec, value: float, place: Place, found: Facts | None
) -> Iterator[Mistake]:
    """Builds the mechanism for the model, whose own checks know best."""
    parameter = kinds()[defence.name].parameter
    settings = {k: v for k, v in defence.settings().items() if k != parameter}
    try:
        made = mechanism(defence.name, value, settings)
        if found is not None:
            setting = Setting(found.shapes, max_batch_size=1, batch_size=1)
            made.configured(setting).loss(Neighbouring.REPLACE)
    except (TypeError, ValueError) as error:
        yield Mistake(place, f"is refused: {_one_line(str(error))}")
    if kinds()[defence.name].channel is not None:
        yield from _channel(settings, place[:2], found)


def _channel(settings: Mapping[str, Any], place: Place, found: Facts | None) -> Iterator[Mistake]:
    """What a channel's own settings must be."""
    for key, known in (("noise", ("once", "per_step")), ("method", ("exact", "paper"))):
        value = settings.get(key, known[0])
        if value not in known:
            yield Mistake((*place, key), f"must be {' or '.join(known)}, got {value!r}")
    beta = settings.get("beta")
    if beta is None or isinstance(beta, str):
        return
    from recondite.channels.registry import rectangle_weights

    try:
        rectangle_weights((1, 512, 512) if found is None else found.shape, **beta)
    except (TypeError, ValueError) as error:
        text = _one_line(str(error)).removeprefix("beta ")
        known_keys = "a .npy file or {rows: [12, 19], columns: [8, 23], weight: 50}"
        yield Mistake((*place, "beta"), f"must be {known_keys}: {text}")


def _attacks(study: Study) -> Iterator[Mistake]:
    from recondite.attacks.registry import attack_named

    known = attackers.names()
    if study.threat is not None and study.attacks:
        kinds_of = [attack_named(a.name) for a in study.attacks if a.name in known]
        if not any(study.threat in kind.threats for kind in kinds_of):
            yield Mistake(("threat",), f"{study.threat} is what no attack here answers: add one")
    named = [d.name for d in study.defences if d.name in kinds()]
    for index, attack in enumerate(study.attacks):
        place: Place = ("attacks", index)
        if attack.name not in known:
            yield Mistake((*place, "name"), f"is unknown: {nearest(attack.name, known)}")
            continue
        wants = attack_named(attack.name).wants
        behind = [attackers.applies(attack.name, name, first=True) for name in named]
        if wants and named and not any(behind):
            text = f"{attack.name} needs {wants}, got {' and '.join(dict.fromkeys(named))}"
            yield Mistake((*place, "name"), text)
        yield from _options(attack, place)


def _options(attack: AttackSpec, place: Place) -> Iterator[Mistake]:
    from recondite.attacks.registry import attack_named

    kept, options = attackers.reads(attack.name), attack_named(attack.name).setting_names()
    said = {*kept, *attack.options(), "name"}
    general = [key for key in attack.model_fields_set if key not in said]
    extra = [key for key in attack.options() if key not in options]
    for key in (*(key for key in general if key in type(attack).model_fields), *extra):
        hint = nearest(key, [*options, *kept])
        yield Mistake((*place, key), f"is not an option of {attack.name}: {hint}")
    if extra:
        return
    try:
        made = attackers.build(attack.name, attack.options())
        made.check_threat(attack.asked())
    except (TypeError, ValueError) as error:
        yield Mistake(place, f"is refused: {_one_line(str(error))}")


def _training(study: Study, found: Facts | None) -> Iterator[Mistake]:
    """A plan of each defence, whose own checks know what does not go together."""
    parts: list[tuple[Place, Mapping[str, Any]]] = [(("training",), {})]
    parts += [
        (("defences", index, "training"), defence.training.given())
        for index, defence in enumerate(study.defences)
        if defence.training.given()
    ]
    said = set()
    for place, own in parts:
        if place != ("training",) and "records" in own:
            # Facts, victims and coins are the study's: defences on other data do not compare.
            yield Mistake((*place, "records"), "is for all defences: give it in training")
        given = own if place != ("training",) else study.training.given()
        size = given.get("batch_size", 0)
        if found is not None and size > found.records:
            yield Mistake(
                (*place, "batch_size"),
                f"must be at most {found.records}, the training records, got {size}",
            )
        try:
            TrainingConfig(
                study.data,
                study.model,
                prepare=study.prepare,
                **{**study.training.given(), **own},
            )
        except (TypeError, ValueError) as error:
            text = _one_line(str(error))
            if text in said:  # of the training that all share: once is enough
                continue
            said.add(text)
            if text.startswith("device "):
                yield Mistake((*place, "device"), text.removeprefix("device "))
            else:
                yield Mistake(place, f"is refused: {text}")


def _search(study: Study) -> Iterator[Mistake]:
    """What a search cannot be priced with."""
    if study.search is None:
        return
    if "seeds" in study.model_fields_set:
        yield Mistake(("seeds",), "are drawn by the search, in secret: leave them out")
    for index, defence in enumerate(study.defences):
        if defence.at is not None and defence.at.accuracy is not None:
            yield Mistake(
                ("defences", index, "at", "accuracy"),
                "looks at the records before the search does: give values, or at: {epsilon: 8}",
            )
    for index, attack in enumerate(study.attacks):
        if attack.name in attackers.names() and "records" in attackers.reads(attack.name):
            yield Mistake(
                ("attacks", index, "name"),
                f"{attack.name} trains without some records, so that it would choose another "
                "model: attack the winner in a study of its own",
            )


def _one_line(text: str) -> str:
    return " ".join(text.split())
