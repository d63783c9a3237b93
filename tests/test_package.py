"""The package: lazy names, no torch, dependencies one way."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import recondite

SOURCE = Path(recondite.__file__).parent


@pytest.mark.parametrize("part", ["", ".federated", ".metrics", ".records", ".report", ".studies"])
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
        "import recondite as rc\n"
        "[getattr(rc, n) for n in rc.__all__ if n not in ('PrivacyEngine', 'compare', 'fix')]",
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


def test_compare_is_the_comparison_of_defences_and_two_channels_are_sent_on():
    from recondite import studies

    assert recondite.compare is studies.compare
    fair = recondite.DiscreteChannel([[1.0, 0.0], [0.0, 1.0]])
    with pytest.raises(TypeError, match=r"got DiscreteChannel; .*refinement\.compare_channels"):
        recondite.compare(fair, fair)


@pytest.mark.parametrize(
    ("module", "name"), [(module, n) for module, names in recondite._BEFORE.items() for n in names]
)
def test_names_that_left_the_top_are_found_with_a_warning(module, name):
    assert name not in recondite.__all__
    with pytest.warns(DeprecationWarning, match=rf"recondite\.{name} is now recondite\.{module}"):
        found = getattr(recondite, name)
    assert found is getattr(importlib.import_module(f"recondite.{module}"), name)


def test_no_module_asks_which_mechanism_it_holds():
    classes = ("VonMisesFisher", "Gaussian", "Directional", "NoNoise", "PartitionedVonMisesFisher")
    for path in SOURCE.rglob("*.py"):
        if path.parent.name == "mechanisms":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "isinstance":
                assert not any(name in ast.unparse(node.args[1]).split(".") for name in classes)
