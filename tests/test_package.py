"""The package: lazy names, no torch, dependencies one way."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import recondite

SOURCE = Path(recondite.__file__).parent
# Lower layers never import higher ones.
LAYERS = [
    {"_files", "_forks", "_lazy", "_locks", "_moved", "_validate", "_version"},
    {"numerics"},
    {"laws"},
    {"mechanisms"},
    {"accounting"},
    {"leakage", "channels"},
    {"notions"},
    {"calibration"},
    {"records"},
    {"models"},
    {"metrics"},
    {"gradients"},
    {"attacks"},
    {"training"},
    {"studies"},
    {"report"},
    {"federated"},
    {"testing"},
    {"cli", "__main__"},
]


@pytest.mark.parametrize("part", ["", ".records", ".studies", ".federated", ".metrics", ".report"])
def test_every_public_name_resolves_at_its_home(part):
    package = importlib.import_module(f"recondite{part}")
    for name in package.__all__:
        value = getattr(package, name)
        assert value is vars(package)[name], "kept after its first use"
        if name != "__version__":
            assert (value.__name__, value.__module__.startswith(package.__name__)) == (name, True)
    assert dir(package) == sorted(package.__all__)
    with pytest.raises(AttributeError, match=f"'recondite{part}' has no attribute 'nonsense'"):
        _ = package.nonsense


def test_parts_are_loaded_like_names():
    for part in recondite._PARTS:
        assert getattr(recondite, part) is sys.modules[f"recondite.{part}"]


@pytest.mark.parametrize(
    "code",
    [
        "import recondite",
        "import recondite as rc; [getattr(rc, n) for n in rc.__all__ if n != 'PrivacyEngine']",
        "import recondite as rc; rc.account(rc.VonMisesFisher(75, 13700), rc.Poisson(.01, 9), .01)",
        "from recondite.cli.main import run; run(['account', 'vmf', '--kappa', '75', '--dim', '99',"
        " '--rate', '1/9', '--steps', '9', '--delta', '1/9', '--json'])",
        "from recondite.cli.main import run; run(['calibrate', 'gaussian', '--epsilon', '1',"
        " '--rate', '1/9', '--steps', '9', '--delta', '1/9', '--json'])",
    ],
)
def test_torch_is_never_imported(code):
    check = "import sys; assert 'torch' not in sys.modules, 'torch was imported'"
    subprocess.run([sys.executable, "-c", f"{code}\n{check}"], check=True, capture_output=True)


def _layer(name: str) -> int:
    return next(level for level, members in enumerate(LAYERS) if name in members)


def test_dependencies_point_one_way():
    for path in SOURCE.rglob("*.py"):
        part = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        if part == "__init__":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            names = []
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("recondite"):
                names = (
                    [node.module.split(".")[1]]
                    if "." in node.module
                    else [alias.name for alias in node.names]
                )
            for name in names:
                assert _layer(name) <= _layer(part), f"{path.name} imports {name}"


def test_no_module_asks_which_mechanism_it_holds():
    classes = ("VonMisesFisher", "Gaussian", "Directional", "NoNoise", "PartitionedVonMisesFisher")
    for path in SOURCE.rglob("*.py"):
        if path.parent.name == "mechanisms":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "isinstance":
                assert not any(name in ast.unparse(node.args[1]).split(".") for name in classes)


def test_modules_can_be_read_in_one_sitting():
    for path in SOURCE.rglob("*.py"):
        assert len(path.read_text().splitlines()) <= 350, path.name
