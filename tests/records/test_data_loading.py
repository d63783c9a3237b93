"""One function for all data, and a person's own functions."""

import sys
import textwrap

import pytest
import torch

from recondite.records import load, load_function
from recondite.records.user_code import load_object


@pytest.fixture
def own(tmp_path, monkeypatch):
    """Writes a module into the current folder, which is not on the path."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [p for p in sys.path if p not in ("", str(tmp_path))])
    created = []

    def make(name, text):
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(text))
        created.append(name)

    yield make
    for name in created:
        sys.modules.pop(name, None)


SPLIT = """
    import torch
    from torch.utils.data import TensorDataset

    def both(split, level=0.5):
        count = 6 if split == "train" else 2
        return TensorDataset(torch.full((count, 1, 4, 4), level), torch.arange(count) % 3)

    def one():
        return both("train")

    def wrong(split):
        return iter(())

    number = 3
"""


def test_a_function_of_a_persons_own(own):
    own("own_sets", SPLIT)
    before = list(sys.path)
    train = load("own_sets:both")
    assert sys.path == before
    assert len(train) == 6
    assert train.classes == ("0", "1", "2")
    assert train.name == train.source == "own_sets:both"
    assert len(load("own_sets:both", "test")) == 2
    assert len(load("own_sets:both", "all")) == 8
    assert load("own_sets:both", level=0.25).images.max() == 0.25
    assert load("own_sets:both", prepare="crop2").shape == (1, 2, 2)
    assert isinstance(load_function("own_sets:both"), torch.utils.data.TensorDataset)


@pytest.mark.parametrize(
    ("name", "split", "message"),
    [
        ("own_sets:one", "test", "takes no argument 'split', so it has no test set"),
        ("own_sets:wrong", "train", "with a length"),
        ("own_sets:number", "train", "must be a function that returns a Dataset"),
        ("own_sets:absent", "train", "own_sets has no absent"),
        ("no_such_module:both", "train", "no module no_such_module here"),
        ("own_sets.inner:both", "train", "no module own_sets.inner here"),
    ],
)
def test_functions_that_cannot_be_used(own, name, split, message):
    own("own_sets", SPLIT)
    with pytest.raises(ValueError, match=message):
        load(name, split)
    assert len(load("own_sets:one")) == 6


def test_functions_get_only_what_they_take(own):
    own("own_sets", SPLIT)
    with pytest.raises(ValueError, match="colour is not an option of own_sets:both"):
        load("own_sets:both", colour=1)


def test_modules_that_cannot_be_imported(own):
    own("broken_sets", "1 / 0")
    with pytest.raises(ValueError, match="importing broken_sets failed: ZeroDivisionError"):
        load("broken_sets:f")
    own("needy_sets", "import a_package_nobody_has")
    with pytest.raises(ValueError, match="needy_sets needs a_package_nobody_has, which is missing"):
        load("needy_sets:f")


@pytest.mark.parametrize("name", ["os", "os:", ":path", "os path:join", "os:a b"])
def test_other_forms_are_refused(name):
    with pytest.raises(ValueError, match=r"form package.module:function"):
        load_object(name)


def test_names_that_are_none(tmp_path):
    with pytest.raises(ValueError, match=r"got 'mnst' \(did you mean mnist\?\)"):
        load("mnst")
    with pytest.raises(
        ValueError, match=r"a folder of images or package.module:function"
    ) as caught:
        load(tmp_path / "absent")
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith("absent', which is not there")
    with pytest.raises(ValueError, match="split must be one of train, test, all"):
        load("digits", "validation")
