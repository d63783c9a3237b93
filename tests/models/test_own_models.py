"""A model of one's own that asks for what nobody gives it."""

import pytest
import torch

from recondite.models import resolve
from recondite.records.user_code import check_complete


def test_a_model_function_that_needs_more_says_what_it_can_have(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own_net.py").write_text(
        "import torch\n"
        "def net(num_classes):\n    return torch.nn.Linear(4, num_classes)\n"
        "def fits(shape, classes):\n    return torch.nn.Linear(shape[0], classes)\n"
    )
    with pytest.raises(ValueError, match=r"needs num_classes.*shape, classes and norm"):
        resolve("own_net:net", (4,), 3)
    assert isinstance(resolve("own_net:fits", (4,), 3), torch.nn.Linear)


def test_defaults_and_catch_alls_are_nothing_that_is_missing():
    check_complete("f", lambda a, b=1, *rest, **more: None, {"a"})
    with pytest.raises(ValueError, match="f needs a"):
        check_complete("f", lambda a, b=1: None, set())
