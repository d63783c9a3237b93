"""Names of 0.1.0 that are others now: they lead there for one version, with a warning."""

from __future__ import annotations

import importlib.util
import sys
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

__all__ = ["ATTACKS", "MOVED", "RENAMED", "attack_name", "install"]

# Attacks that studies and commands may still call by an old name.
ATTACKS = {"looking": "released-record"}

# Old names to new ones; a name stands for everything below it, and the longest match wins.
MOVED = {
    "recondite.accounting.rdp": "recondite.accounting.composition",
    "recondite.attacks.gradient.adaptive": "recondite.attacks.posterior.adaptive",
    "recondite.attacks.looking": "recondite.attacks.released_record",
    "recondite.attacks.membership.one_run": "recondite.metrics.one_run",
    "recondite.attacks.membership.result": "recondite.metrics.membership",
    "recondite.auditing": "recondite.accounting.auditing",
    "recondite.calibration": "recondite.notions.calibration",
    "recondite.channels.ahead": "recondite.channels.per_step",
    "recondite.channels.floored": "recondite.channels.spectral",
    "recondite.channels.local": "recondite.notions.pairs",
    "recondite.channels.minimum_power": "recondite.channels.spectral",
    "recondite.channels.natural": "recondite.channels.spectral",
    "recondite.channels.prefetch": "recondite.channels.per_step",
    "recondite.channels.spectrum_floor": "recondite.channels.spectral",
    "recondite.channels.white": "recondite.channels.spectral",
    "recondite.data": "recondite.records",
    "recondite.data.dotted": "recondite.records.user_code",
    "recondite.data.pictures": "recondite.records.image_files",
    "recondite.data.places": "recondite.records.files",
    "recondite.data.records": "recondite.records.arrays",
    "recondite.experiments": "recondite.studies",
    "recondite.experiments.engines": "recondite.studies.executors",
    "recondite.experiments.identify": "recondite.attacks.claims",
    "recondite.experiments.members": "recondite.attacks.membership",
    "recondite.experiments.pictures": "recondite.attacks.scoring",
    "recondite.experiments.pool": "recondite.studies.splits",
    "recondite.experiments.single": "recondite.studies.one_attack",
    "recondite.federated.app": "recondite.federated.flower.app",
    "recondite.federated.budget": "recondite.federated.cost",
    "recondite.federated.certificates": "recondite.federated.flower.certificates",
    "recondite.federated.checks": "recondite.federated.flower.screening",
    "recondite.federated.demo": "recondite.federated.flower.simulation",
    "recondite.federated.deployment": "recondite.federated.flower.deployment",
    "recondite.federated.here": "recondite.federated.flower.simulation",
    "recondite.federated.mod": "recondite.federated.flower.mod",
    "recondite.federated.partition": "recondite.federated.shares",
    "recondite.federated.replies": "recondite.federated.flower.replies",
    "recondite.federated.server": "recondite.federated.flower.server",
    "recondite.federated.staying_out": "recondite.federated.policy",
    "recondite.federated.strategy": "recondite.federated.flower.strategy",
    "recondite.gradients.layers.generic": "recondite.gradients.layers.base",
    "recondite.laws.chords": "recondite.laws.pair",
    "recondite.laws.errors": "recondite.laws.pair",
    "recondite.laws.gaussian": "recondite.laws.closed_form",
    "recondite.laws.infinite": "recondite.laws.closed_form",
    "recondite.losses": "recondite.laws",
    "recondite.models.deep": "recondite.models.networks",
    "recondite.models.lenet": "recondite.models.networks",
    "recondite.models.mlp": "recondite.models.networks",
    "recondite.models.norms": "recondite.models.networks",
    "recondite.models.parameters": "recondite.models.weights",
    "recondite.models.patches": "recondite.gradients.patches",
    "recondite.numerics.renewed": "recondite.numerics.fork_safe",
    "recondite.numerics.single": "recondite.numerics.sphere_vector",
    "recondite.records.archives": "recondite.records.files",
    "recondite.records.bundled": "recondite.records.digits",
    "recondite.records.celeba": "recondite.records.faces",
    "recondite.records.directories": "recondite.records.files",
    "recondite.records.folder": "recondite.records.image_files",
    "recondite.records.idx": "recondite.records.digits",
    "recondite.records.lfw": "recondite.records.faces",
    "recondite.records.png": "recondite.records.image_files",
    "recondite.records.svhn": "recondite.records.digits",
    "recondite.records.transforms": "recondite.records.images",
    "recondite.report.made": "recondite.report.provenance",
    "recondite.training.bounding": "recondite.gradients.clipping",
    "recondite.training.channelled": "recondite.training.on_records",
    "recondite.training.collector": "recondite.gradients.collector",
    "recondite.training.layers": "recondite.gradients.layers",
    "recondite.training.leaked": "recondite.gradients.leaked",
    "recondite.training.progress": "recondite.training.protection",
    "recondite.training.terms": "recondite.training.step_parameters",
    "recondite.training.tape": "recondite.gradients.tape",
}

# Names in modules that are there (under their name of today): where the thing is now. No two
# classes have one name, so many were given a name that says more.
RENAMED = {
    "recondite.attacks.Asked": "recondite.attacks.base.AttackRequest",
    "recondite.attacks.base.Asked": "recondite.attacks.base.AttackRequest",
    "recondite.attacks.gradient.base.Progress": "recondite.attacks.gradient.base.AttackProgress",
    "recondite.attacks.membership.recipe.OPTIMIZERS": "recondite.configuration.OPTIMIZERS",
    "recondite.attacks.released_record.Looking": (
        "recondite.attacks.released_record.ReleasedRecord"
    ),
    "recondite.channels.BudgetSpent": "recondite.channels.ledger.BudgetSpentError",
    "recondite.channels.Ledger": "recondite.channels.ledger.RecordLedger",
    "recondite.channels.ledger.BudgetSpent": "recondite.channels.ledger.BudgetSpentError",
    "recondite.channels.ledger.Ledger": "recondite.channels.ledger.RecordLedger",
    "recondite.channels.secret.Draw": "recondite.channels.secret.NoiseDraw",
    "recondite.federated.flower.deployment.write_app": (
        "recondite.federated.flower.project.write_app"
    ),
    "recondite.federated.flower.mod.Defence": "recondite.federated.flower.mod.DefenceMod",
    "recondite.federated.flower.replies.dumps": "recondite.federated.update.dumps",
    "recondite.federated.flower.replies.loads": "recondite.federated.update.loads",
    "recondite.federated.ledger.MemoryLedger": "recondite.federated.flower.replies.MemoryLedger",
    "recondite.federated.local.Outcome": "recondite.federated.local.LocalResult",
    "recondite.federated.settings.CHANNELS": "recondite.training.plan.CHANNELS",
    "recondite.records.arrays.Records": "recondite.records.base.Records",
    "recondite.report.claims.Claim": "recondite.report.claims.ClaimedBound",
    "recondite.report.rows.Run": "recondite.report.rows.StoredRun",
    "recondite.studies.executors.Engine": "recondite.studies.executors.base.Executor",
    "recondite.studies.executors.base.Engine": "recondite.studies.executors.base.Executor",
    "recondite.studies.executors.local.LocalEngine": (
        "recondite.studies.executors.local.LocalExecutor"
    ),
    "recondite.studies.executors.make_engine": "recondite.studies.executors.make_executor",
    "recondite.studies.executors.ray.RayEngine": "recondite.studies.executors.ray.RayExecutor",
    "recondite.studies.estimate.Estimate": "recondite.studies.estimate.TimeEstimate",
    "recondite.studies.grid.Cell": "recondite.studies.grid.GridCell",
    "recondite.studies.grid.Want": "recondite.studies.grid.MissingStrength",
    "recondite.studies.grid.wants": "recondite.studies.grid.missing_strengths",
    "recondite.studies.one_attack.attack_file": "recondite.studies.given_gradients.attack_file",
    "recondite.studies.runner.Outcome": "recondite.studies.runner.RunResult",
    "recondite.studies.source.Source": "recondite.studies.source.SourceText",
    "recondite.studies.study.Attack": "recondite.studies.study.AttackSpec",
    "recondite.studies.study.Defence": "recondite.studies.study.DefenceSpec",
    "recondite.training.canary.CanaryAudit": "recondite.training.canary.CanaryResult",
}
_HOMES = {name.rpartition(".")[0] for name in RENAMED}


def attack_name(name: str) -> str:
    """What an attack is called now."""
    return ATTACKS.get(name, name)


def new_name(name: str) -> str | None:
    """Where a module of 0.1.0 is now; None where it did not move."""
    head, tail = name, ""
    while head:
        if head in MOVED:
            there = MOVED[head] + tail
            return new_name(there) or there  # a module may have moved with its package, and in it
        head, _, last = head.rpartition(".")
        tail = f".{last}{tail}"
    return None


def _with_old_names(module: ModuleType) -> None:
    """Lets a module answer to the names that it had."""
    answered = vars(module).get("__getattr__")

    def load(name: str) -> Any:
        there = RENAMED.get(f"{module.__name__}.{name}")
        if there is None:
            if answered is not None:
                return answered(name)
            raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
        line = f"{module.__name__}.{name} is now {there}; the old name goes with the next version"
        warnings.warn(line, DeprecationWarning, stacklevel=2)
        home, _, last = there.rpartition(".")
        return getattr(importlib.import_module(home), last)

    vars(module)["__getattr__"] = load


def _run(run: Callable[[ModuleType], None], module: ModuleType) -> None:
    run(module)
    _with_old_names(module)


class _Renamed(MetaPathFinder):
    """Has a module that had other names answer to them: the module's own code knows none."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec that everybody else finds; its loader sees to the old names in the end."""
        if name not in _HOMES:
            return None
        for finder in sys.meta_path:
            if isinstance(finder, (_Renamed, _Moved)):
                continue
            spec = finder.find_spec(name, path, target)
            if spec is not None and spec.loader is not None:
                # On this loader only: whoever asks it for the source still gets that.
                run = partial(_run, spec.loader.exec_module)
                spec.loader.exec_module = run  # type: ignore[method-assign]
                return spec
        return None


class _Moved(MetaPathFinder, Loader):
    """Finds a module of 0.1.0 where it is now, and hands that very module over."""

    def __init__(self) -> None:
        self._own: dict[str, ModuleSpec | None] = {}

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """A spec for a name that moved."""
        del path, target
        there = new_name(name)
        if there is None or importlib.util.find_spec(there) is None:
            return None
        return ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """The module under its new name, with a warning."""
        there = new_name(spec.name)
        assert there is not None
        warnings.warn(
            f"{spec.name} is now {there}; the old name goes with the next version",
            DeprecationWarning,
            stacklevel=2,
        )
        found = importlib.import_module(there)
        self._own[spec.name] = found.__spec__
        return found

    def exec_module(self, module: ModuleType) -> None:
        """Nothing is run: the module is loaded under its own name, and keeps its own spec.

        Python has given it that of the old name, by which its files could not be read.
        """
        assert module.__spec__ is not None
        module.__spec__ = self._own.pop(module.__spec__.name)


def install() -> None:
    """Makes old names of modules, and of what is in them, importable.

    Asked first: below a package that moved, the path would be found and loaded a second time.
    """
    if not any(isinstance(finder, _Moved) for finder in sys.meta_path):
        sys.meta_path[:0] = [_Moved(), _Renamed()]
