"""Gradients in files from strangers."""

import pytest
import torch
from torch import nn

from recondite.attacks.files import load_gradients, save_gradients


@pytest.fixture
def model():
    return nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))


def gradients(model, victims=None):
    lead = () if victims is None else (victims,)
    return {name: torch.randn(*lead, *p.shape) for name, p in model.named_parameters()}


def test_files_are_read_as_they_were_written(model, tmp_path):
    leaked = gradients(model, 4)
    save_gradients(leaked, tmp_path / "g.safetensors")
    found = load_gradients(model, tmp_path / "g.safetensors")
    assert {name: value.tolist() for name, value in found.items()} == {
        name: value.tolist() for name, value in leaked.items()
    }


def test_one_victim_may_leave_its_axis_out_and_buffers_are_ignored(model, tmp_path):
    leaked = {**gradients(model), "1.running_mean": torch.zeros(2)}
    save_gradients(leaked, tmp_path / "g.safetensors")
    found = load_gradients(model, tmp_path / "g.safetensors")
    assert set(found) == {name for name, _ in model.named_parameters()}
    assert found["0.weight"].shape == (1, 2, 3)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda leaked: leaked.pop("0.bias"), r"lacks 0\.bias"),
        (lambda leaked: leaked.update(other=torch.zeros(2)), "holds other, which the model lacks"),
        (
            lambda leaked: leaked.update({"0.weight": torch.zeros(2, 2)}),
            r"0\.weight must have shape \(2, 3\), .* got \(2, 2\)",
        ),
    ],
)
def test_files_of_another_model_are_refused(model, tmp_path, change, words):
    leaked = gradients(model)
    change(leaked)
    save_gradients(leaked, tmp_path / "g.safetensors")
    with pytest.raises(ValueError, match=words):
        load_gradients(model, tmp_path / "g.safetensors")
