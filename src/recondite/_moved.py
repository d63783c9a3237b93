"""Modules of 0.1.0 under the names they had: for one version, with a warning."""

from __future__ import annotations

import importlib.util
import sys
import warnings
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

__all__ = ["MOVED", "install"]

# Old names to new ones; a name stands for everything below it, and the longest match wins.
MOVED = {
    "recondite.accounting.rdp": "recondite.accounting.composition",
    "recondite.auditing": "recondite.accounting.auditing",
    "recondite.calibration": "recondite.notions.calibration",
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
    "recondite.training.bounding": "recondite.gradients.clipping",
    "recondite.training.channelled": "recondite.training.on_records",
    "recondite.training.collector": "recondite.gradients.collector",
    "recondite.training.layers": "recondite.gradients.layers",
    "recondite.training.leaked": "recondite.gradients.leaked",
    "recondite.training.progress": "recondite.training.protection",
    "recondite.training.terms": "recondite.training.step_parameters",
    "recondite.training.tape": "recondite.gradients.tape",
}


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


class _Moved(MetaPathFinder, Loader):
    """Finds a module of 0.1.0 where it is now, and hands that very module over."""

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
        return importlib.import_module(there)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing: the module is loaded under its own name."""


def install() -> None:
    """Makes old names importable.

    Asked first: below a package that moved, the path would be found and loaded a second time.
    """
    if not any(isinstance(finder, _Moved) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Moved())
