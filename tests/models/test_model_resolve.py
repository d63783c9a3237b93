"""What a command's --model and --weights stand for."""

import sys
import textwrap

import pytest
import torch
from torch import nn

from recondite.models import build, resolve, save_weights

MODULE = """
    import torch
    from torch import nn

    def small(shape, classes, width=3):
        c, h, w = shape
        return nn.Sequential(nn.Flatten(), nn.Linear(c * h * w, width), nn.Dropout(),
                             nn.BatchNorm1d(width), nn.Linear(width, classes))

    def fixed():
        return nn.Sequential(nn.Flatten(), nn.Linear(16, 3))

    class Net(nn.Module):
        def __init__(self, classes):
            super().__init__()
            self.fc = nn.LazyLinear(classes)
            self.norm = nn.Dropout()

        def forward(self, x):
            return self.norm(self.fc(x.flatten(1)))

    ready = fixed()
    number = 3

    def none():
        return None

    def pair():
        class Pair(nn.Module):
            def forward(self, x):
                return x, x
        return Pair()
"""


@pytest.fixture(autouse=True)
def own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own_models.py").write_text(textwrap.dedent(MODULE))
    yield
    sys.modules.pop("own_models", None)


def test_a_name():
    model = resolve("lenet", (1, 28, 28), 10, seed=4)
    expected = build("lenet", (1, 28, 28), 10, seed=4)
    assert torch.equal(model.conv1.weight, expected.conv1.weight)


def test_a_function_a_class_and_a_module():
    small = resolve("own_models:small", (1, 4, 4), 5, seed=0)
    again = resolve("own_models:small", (1, 4, 4), 5, seed=0)
    assert small[-1].out_features == 5
    assert torch.equal(small[1].weight, again[1].weight)
    assert resolve("own_models:small", (1, 4, 4), 5, width=9)[1].out_features == 9
    assert isinstance(resolve("own_models:fixed", (1, 4, 4), 3), nn.Module)
    assert resolve("own_models:Net", (1, 4, 4), 3)(torch.zeros(2, 1, 4, 4)).shape == (2, 3)
    first, second = (resolve("own_models:ready", (1, 4, 4), 3) for _ in range(2))
    assert isinstance(first, nn.Module)
    assert first is not second


def test_trying_a_model_leaves_its_mode_and_statistics_and_the_generator():
    torch.manual_seed(1)
    expected = torch.rand(2)
    torch.manual_seed(1)
    model = resolve("own_models:small", (1, 4, 4), 5, seed=0)
    assert torch.equal(torch.rand(2), expected)
    assert all(module.training for module in model.modules())
    assert int(model[3].num_batches_tracked) == 0


def test_weights(tmp_path):
    save_weights(build("mlp", (1, 4, 4), seed=7), "w.safetensors")
    model = resolve("mlp", (1, 4, 4), 10, weights=tmp_path / "w.safetensors")
    assert torch.equal(model.fc1.weight, build("mlp", (1, 4, 4), seed=7).fc1.weight)
    with pytest.raises(ValueError, match=r"fc1.weight has shape"):
        resolve("mlp", (1, 5, 5), 10, weights="w.safetensors")
    with pytest.raises(ValueError, match=r"lacks 1.weight"):
        resolve("own_models:fixed", (1, 4, 4), 3, weights="w.safetensors")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("own_models:absent", "own_models has no absent"),
        ("absent_models:f", "no module absent_models here"),
        ("own_models:number", "must return a torch module, got int"),
        ("own_models:none", "must return a torch module, got NoneType"),
        ("own_models:fixed", r"must return 10 logits for each image, got \(1, 3\) for one"),
        ("own_models:pair", "must return 10 logits for each image, got tuple"),
        ("own-models.f", "model must be one of mlp"),
        ("", "model must be one of mlp"),
    ],
)
def test_models_that_cannot_be_used_are_refused_in_one_line(name, message):
    with pytest.raises(ValueError, match=message) as caught:
        resolve(name, (1, 4, 4), 10)
    assert "\n" not in str(caught.value)


def test_images_that_a_model_cannot_take():
    with pytest.raises(ValueError, match="own_models:fixed cannot take images of 1×5×5"):
        resolve("own_models:fixed", (1, 5, 5), 3)
    with pytest.raises(ValueError, match="takes no argument 'depth'"):
        resolve("own_models:small", (1, 4, 4), 3, depth=2)
