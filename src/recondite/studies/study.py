"""What to compare: the study file's shape, and from a file to a checked study."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    create_model,
    field_validator,
    model_validator,
)

from recondite._deprecated import attack_name
from recondite.accounting.selection import NegativeBinomialRuns, PoissonRuns, RunCount
from recondite.configuration import Option, options
from recondite.notions import targets
from recondite.studies import source as sources
from recondite.studies.mistakes import from_pydantic

if TYPE_CHECKING:
    from recondite.attacks.base import AttackRequest

__all__ = ["AttackSpec", "DefenceSpec", "SearchSpec", "Study", "Target", "Training", "read_study"]

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1, strict=True)]
_MOST_SEEDS = 1_000


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Training(_Part):
    """How models are trained; fields of :class:`recondite.configuration.TrainingConfig`."""

    def given(self) -> dict[str, Any]:
        """The fields that were set."""
        return {key: value for key, value in self.model_dump().items() if value is not None}


def _wanted(option: Option) -> Any:
    """What pydantic checks of an option, so that a mistake has a line."""
    if option.choices:
        return Literal[option.choices]
    if option.type is int:
        return Annotated[int, Field(ge=option.least, strict=True)]
    if option.type is float and option.above is not None:
        return Annotated[float, Field(gt=option.above, allow_inf_nan=False)]
    return Annotated[float, Field(ge=option.least)] if option.type is float else option.type


if TYPE_CHECKING:
    Training = _Training
else:
    Training = create_model(
        "Training",
        __base__=_Training,
        __doc__=_Training.__doc__,
        __module__=__name__,
        **{
            name: (_wanted(option) | None, None)
            for name, option in options().items()
            if option.study
        },
    )


def notion_names() -> list[str]:
    """The notions that a study can aim at, as it spells them."""
    return [name.replace("-", "_") for name in targets()]


class Target(BaseModel):
    """What a defence's strength is chosen by, instead of being given: one notion, or accuracy.

    Keys beyond these are notions by the name of their target: ``epsilon`` (of the run),
    ``bayes_capacity`` and ``mutual_information`` (of one release, in nats), ``rero`` (where a guess
    unaided is right one time in ten), and those of other packages.

    Attributes:
      accuracy: Test accuracy, found by training at several strengths.
      runs: How many trainings the search for an accuracy may take.
      tolerance: How near an accuracy is near enough.
    """

    model_config = ConfigDict(extra="allow", frozen=True)
    __pydantic_extra__: dict[str, Positive | list[Positive] | None]

    accuracy: Positive | list[Positive] | None = None
    runs: Annotated[int, Field(ge=2, le=50)] = 8
    tolerance: Positive = 0.01

    def given(self) -> dict[str, float | list[float] | None]:
        """What was given for each notion, in the notions' order, accuracy last."""
        extra = dict(self.__pydantic_extra__ or {})
        ordered = {name: extra.pop(name) for name in notion_names() if name in extra}
        return {**ordered, **extra, "accuracy": self.accuracy}

    def targets(self) -> list[tuple[str, float]]:
        """Every target by its notion."""
        out: list[tuple[str, float]] = []
        for notion, value in self.given().items():
            values = value if isinstance(value, list) else [] if value is None else [value]
            out += [(notion, float(each)) for each in values]
        return out


class DefenceSpec(BaseModel):
    """One defence; keys beyond these are its own settings and its parameter's values."""

    model_config = ConfigDict(extra="allow", frozen=True)

    name: str
    label: str | None = None
    at: Target | None = None
    training: Training = Training()

    def settings(self) -> dict[str, Any]:
        """The defence's own keys."""
        return dict(self.__pydantic_extra__ or {})


class AttackSpec(BaseModel):
    """One attack; keys beyond these are its own options.

    Attributes:
      name: The attack.
      images: Victims of a gradient attack.
      batch_size: Records behind one gradient.
      victim: Whether gradients are of the trained or of the freshly initialised model.
      labels: Whether a gradient attack is told the labels.
      records: Members, and about as many others, of a membership attack: twice as many training
        records are put in or left out by coins.
      threat: What is released: ``update``, ``training`` or ``model``; or, as in 0.1, who attacks.
      participation: Whether the attacker is told in which steps a record took part.
    """

    model_config = ConfigDict(extra="allow", frozen=True)

    name: str
    images: Count = 8
    batch_size: Count = 1
    victim: Literal["trained", "untrained"] = "untrained"
    labels: bool = True
    records: Count = 300
    threat: str | None = None
    participation: Literal["secret", "known"] = "secret"

    @field_validator("name")
    @classmethod
    def _current(cls, name: str) -> str:
        return attack_name(name)

    def options(self) -> dict[str, Any]:
        """The attack's own keys; one of these above that it does not read may be its own too."""
        from recondite.studies.attackers import own_settings

        given = self.model_fields_set & own_settings(self.name)
        return {**(self.__pydantic_extra__ or {}), **{key: getattr(self, key) for key in given}}

    def asked(self) -> AttackRequest:
        """The study's keys, as the attack reads them."""
        from recondite.attacks.base import AttackRequest

        return AttackRequest(
            **{key: getattr(self, key) for key in type(self).model_fields if key != "name"}
        )


class SearchSpec(_Part):
    """How many of the study's settings are tried, of which only the best is told.

    Attributes:
      rule: The law of their number: ``logarithmic``, ``geometric`` or ``negative-binomial`` (at
        least one; Papernot and Steinke, 2022) or ``poisson`` (perhaps none).
      mean: How many are tried on average.
      shape: η of ``negative-binomial``, above -1.
    """

    rule: Literal["logarithmic", "geometric", "negative-binomial", "poisson"] = "logarithmic"
    mean: Annotated[float, Field(gt=1, le=10_000, allow_inf_nan=False)]
    shape: Annotated[float, Field(gt=-1, le=100, allow_inf_nan=False)] | None = None

    @model_validator(mode="after")
    def _shaped(self) -> SearchSpec:
        if (self.shape is None) == (self.rule == "negative-binomial"):
            raise ValueError("shape is given with rule negative-binomial, and with no other")
        return self

    def law(self) -> RunCount:
        """The law of the number of runs."""
        if self.rule == "poisson":
            return PoissonRuns(self.mean)
        shape = {"logarithmic": 0.0, "geometric": 1.0}.get(self.rule, self.shape)
        assert shape is not None
        return NegativeBinomialRuns.with_mean(self.mean, shape)


class Study(_Part):
    """A comparison of defences on one data set and model.

    Attributes:
      name: What it is called; names the folder of its results.
      data: A data set's name, a folder of images, or ``package.module:function``.
      model: A network's name, or ``package.module:function``.
      prepare: How images are cropped or resized; None for the network's own way.
      defences: What is compared.
      training: How every model is trained, unless a defence says otherwise.
      attacks: What is tried on each.
      seeds: Repetitions; a number n stands for 0, …, n - 1.
      delta: δ of (ε, δ); one over the records by default.
      public: Whether the records may be shown: true for the papers' data sets other than faces.
      threat: What is released, for every attack that answers it and says nothing else; also the
        intruder that the answer is for.
      participation: Whether the intruder knows in which steps a record took part; likewise.
      search: Try a secret number of settings and tell the best only; None compares all.
    """

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")] = "study"
    data: str
    model: str
    prepare: str | None = None
    defences: Annotated[list[DefenceSpec], Field(min_length=1)]
    training: Training = Training()
    attacks: list[AttackSpec] = []
    seeds: Annotated[
        list[Annotated[int, Field(ge=0, strict=True)]], Field(min_length=1, max_length=_MOST_SEEDS)
    ] = [0]
    delta: Annotated[float, Field(gt=0, lt=1)] | None = None
    public: bool | None = None
    threat: Literal["update", "training", "model"] | None = None
    participation: Literal["secret", "known"] | None = None
    search: SearchSpec | None = None

    @field_validator("seeds", mode="before")
    @classmethod
    def _count(cls, value: Any) -> Any:
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            if value > _MOST_SEEDS:
                raise ValueError(f"must be at most {_MOST_SEEDS:,} repetitions, got {value}")
            return list(range(value))
        if not isinstance(value, list):
            raise ValueError(
                f"must be a number of repetitions above 0, or a list of seeds, got {value!r}"
            )
        return value

    @field_validator("seeds", mode="after")
    @classmethod
    def _once(cls, value: list[int]) -> list[int]:
        for position, seed in enumerate(value):
            if seed in value[:position]:
                raise ValueError(f"has {seed} twice: each seed is one repetition")
        return value


def read_study(
    path: str | os.PathLike[str], data_dir: str | None = None
) -> tuple[Study, sources.SourceText]:
    """Reads and checks a study file; nothing of it runs but the user's own data function.

    Returns:
      The study, and its source for messages about lines.

    Raises:
      StudyError: With one line for each of the first few mistakes.
    """
    return check_source(sources.read(path), data_dir)


def check_source(
    source: sources.SourceText, data_dir: str | None = None
) -> tuple[Study, sources.SourceText]:
    """A study from plain data with lines."""
    from recondite.studies.checks import mistakes_of  # imports torch

    if not isinstance(source.data, dict):
        raise source.error([sources.Mistake((), "must have keys: data, model, defences")])
    try:
        study = Study.model_validate(source.data)
    except ValidationError as error:
        raise source.error(from_pydantic(error, Study)) from None
    study = _threatened(study)
    found = mistakes_of(study, data_dir)
    if found:
        raise source.error(found)
    return study, source


def _threatened(study: Study) -> Study:
    """The study's threat and participation as each attack's own, where it answers them."""
    from recondite.attacks.registry import classes  # imports torch

    def own(attack: AttackSpec) -> AttackSpec:
        kind = classes().get(attack.name)
        if kind is None:
            return attack
        given = {"threat": study.threat, "participation": study.participation}
        if study.threat not in kind.threats:
            del given["threat"]
        filled = {
            key: value
            for key, value in given.items()
            if value is not None and key in kind.reads and key not in attack.model_fields_set
        }
        return attack.model_copy(update=filled) if filled else attack

    return study.model_copy(update={"attacks": [own(attack) for attack in study.attacks]})
