"""Weights: safetensors and nothing else, all or none."""

import json
import os
import pickle
import struct

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from recondite.models import build, load_weights, save_weights
from recondite.models.weights import read_tensors


def test_round_trip(tmp_path):
    for name, norm in (("mlp", "group"), ("resnet10", "batch")):
        model = build(name, (1, 16, 16), norm=norm, seed=0)
        path = tmp_path / f"{name}.safetensors"
        save_weights(model, path)
        other = build(name, (1, 16, 16), norm=norm, seed=1)
        assert load_weights(other, path) is other
        assert all(
            torch.equal(value, other.state_dict()[key]) for key, value in model.state_dict().items()
        )
        assert set(load_file(path)) == set(model.state_dict())


def test_keys_are_those_of_the_model_and_gradients_stay_possible(tmp_path):
    model = build("mlp", (1, 4, 4), seed=0)
    save_weights(model, tmp_path / "w.safetensors")
    assert set(load_file(tmp_path / "w.safetensors")) == {"fc1.weight", "fc2.weight", "fc3.weight"}
    load_weights(model, tmp_path / "w.safetensors")
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_tied_weights_can_be_saved(tmp_path):
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    model[1].weight = model[0].weight
    save_weights(model, tmp_path / "w.safetensors")
    load_weights(model, tmp_path / "w.safetensors")
    assert model[1].weight is model[0].weight


def test_saving_replaces_a_file_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "w.safetensors"
    path.write_text("old")

    def full(*arguments):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        with pytest.raises(ValueError, match=r"cannot write .*: No space left on device"):
            save_weights(build("mlp", (1, 4, 4)), path)
    assert [p.name for p in tmp_path.iterdir()] == ["w.safetensors"]
    assert path.read_text() == "old"
    save_weights(build("mlp", (1, 4, 4)), path)
    mask = os.umask(0)
    os.umask(mask)
    assert path.stat().st_mode & 0o777 == 0o666 & ~mask
    with pytest.raises(ValueError, match=r"cannot write .*absent"):
        save_weights(build("mlp", (1, 4, 4)), tmp_path / "absent" / "w.safetensors")


@pytest.fixture
def state():
    return build("mlp", (1, 4, 4), seed=0).state_dict()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s.pop("fc2.weight"), "lacks fc2.weight: it was saved from another model"),
        (lambda s: [s.pop(k) for k in ("fc1.weight", "fc3.weight")], "fc1.weight and 1 more"),
        (lambda s: s.update(extra=torch.zeros(1)), "has extra, which the model lacks"),
        (
            lambda s: s.update({"fc1.weight": torch.zeros(50, 9)}),
            r"fc1.weight has shape \(50, 9\), the model needs \(50, 16\)",
        ),
        (
            lambda s: s.update({"fc1.weight": torch.zeros(50, 16, dtype=torch.int32)}),
            "fc1.weight is torch.int32, the model needs torch.float32",
        ),
    ],
)
def test_other_models_weights_are_refused_and_change_nothing(tmp_path, state, change, message):
    change(state)
    path = tmp_path / "w.safetensors"
    save_file(state, path)
    model = build("mlp", (1, 4, 4), seed=1)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    with pytest.raises(ValueError, match=message) as caught:
        load_weights(model, path)
    assert "\n" not in str(caught.value)
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())


def test_half_precision_weights_are_taken(tmp_path, state):
    save_file({key: value.half() for key, value in state.items()}, tmp_path / "w.safetensors")
    model = load_weights(build("mlp", (1, 4, 4), seed=1), tmp_path / "w.safetensors")
    assert model.fc1.weight.dtype == torch.float32
    assert torch.allclose(model.fc1.weight, state["fc1.weight"], atol=1e-3)


class Trap:
    def __reduce__(self):
        return os.mkdir, ("sprung",)


def test_pickles_are_refused_unread(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.save({"fc1.weight": Trap()}, "new.pt")
    torch.save({"fc1.weight": Trap()}, "old.pt", _use_new_zipfile_serialization=False)
    (tmp_path / "raw.pkl").write_bytes(pickle.dumps(Trap()))
    for name in ("new.pt", "old.pt", "raw.pkl"):
        with pytest.raises(ValueError, match=r"is a pickle \(torch.save\), which could run"):
            load_weights(build("mlp", (1, 4, 4)), name)
    assert not (tmp_path / "sprung").exists()


def _header(content):
    text = json.dumps(content).encode()
    return struct.pack("<Q", len(text)) + text


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"nonsense",
        struct.pack("<Q", 2**60) + b"{}",
        _header({"a": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}}),
        _header({"a": {"dtype": "F32", "shape": [4], "data_offsets": [0, 99]}}) + bytes(16),
    ],
)
def test_other_files_are_refused_in_one_line(tmp_path, content):
    path = tmp_path / "w.safetensors"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="is not a safetensors file") as caught:
        load_weights(build("mlp", (1, 4, 4)), path)
    assert "\n" not in str(caught.value)


def test_files_that_are_not_there(tmp_path):
    model = build("mlp", (1, 4, 4))
    with pytest.raises(ValueError, match=r"cannot read weights from .*: No such file"):
        load_weights(model, tmp_path / "absent.safetensors")
    with pytest.raises(ValueError, match=r"cannot read weights from .*: Is a directory"):
        load_weights(model, tmp_path)


def test_a_header_whose_length_looks_like_a_pickle_is_read(tmp_path):
    for padding in range(0, 400):
        save_file({"w": torch.ones(2)}, tmp_path / "w.safetensors", {"note": "x" * padding})
        if (tmp_path / "w.safetensors").read_bytes()[:1] == b"\x80":
            break
    assert (tmp_path / "w.safetensors").read_bytes()[:1] == b"\x80"
    assert read_tensors(tmp_path / "w.safetensors")["w"].tolist() == [1, 1]
