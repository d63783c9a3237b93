"""Names of 0.1.0 lead to the same modules, with a warning."""

import importlib
import sys
from importlib.resources import files

import pytest

from recondite import _deprecated


@pytest.mark.parametrize("old", _deprecated.MOVED)
def test_old_names_are_the_new_modules(old):
    sys.modules.pop(old, None)
    with pytest.warns(DeprecationWarning, match=f"{old} is now"):
        found = importlib.import_module(old)
    assert found is importlib.import_module(_deprecated.MOVED[old])


@pytest.mark.parametrize("old", ["recondite.experiments", "recondite.losses", "recondite.data"])
def test_a_module_that_was_met_by_its_old_name_has_its_files(old):
    sys.modules.pop(old, None)
    with pytest.warns(DeprecationWarning, match=f"{old} is now"):
        found = importlib.import_module(old)
    assert found.__spec__.name == found.__name__ == _deprecated.MOVED[old]
    assert files(found.__name__).joinpath("__init__.py").is_file()


def test_a_module_below_a_moved_one():
    sys.modules.pop("recondite.data.images", None)
    with pytest.warns(DeprecationWarning, match="is now recondite.records.images"):
        old = importlib.import_module("recondite.data.images")
    assert old is importlib.import_module("recondite.records.images")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("recondite.data.idx", "recondite.records.digits"),
        ("recondite.losses.gaussian", "recondite.laws.closed_form"),
        ("recondite.training.layers.generic", "recondite.gradients.layers.base"),
    ],
)
def test_a_module_that_moved_with_its_package_and_in_it(old, new):
    sys.modules.pop(old, None)
    with pytest.warns(DeprecationWarning, match=f"{old} is now {new}"):
        assert importlib.import_module(old) is importlib.import_module(new)


def test_what_never_was_is_not_found():
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("recondite.data.nothing")
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("recondite.nothing")
