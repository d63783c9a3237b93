"""Data sets of torchvision's and Hugging Face's kind, and what is none."""

import sys

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import Dataset, IterableDataset

from recondite.records import ImageSet, load
from recondite.records.sources import as_tensor, classes_of, refuse_streams


class Vision(Dataset):
    """As torchvision has them: bytes in ``data``, labels in ``targets``, PIL images by number."""

    classes = ("cat", "dog")

    def __init__(self, shape=(4, 6)):
        self.data = np.arange(5 * np.prod(shape), dtype=np.uint8).reshape(5, *shape)
        self.targets = [0, 1, 0, 1, 1]

    def __len__(self):
        return len(self.data)

    def __getitem__(self, index):
        return Image.fromarray(self.data[index]), self.targets[index]


class Endless(IterableDataset):
    def __iter__(self):
        yield torch.zeros(1, 2, 2), 0

    def __len__(self):
        return 7


@pytest.mark.parametrize("shape", [(4, 6), (4, 6, 3)])
def test_a_data_set_of_pil_images_keeps_its_axes(shape):
    data = Vision(shape)
    found = ImageSet.from_dataset(data)
    assert found.shape == (3 if len(shape) == 3 else 1, 4, 6)
    expected = torch.from_numpy(data.data).reshape(5, 4, 6, -1).permute(0, 3, 1, 2) / 255
    torch.testing.assert_close(found.images, expected)
    assert found.labels.tolist() == data.targets
    assert found.classes == ("cat", "dog")


def test_other_modes_of_pil():
    assert as_tensor(Image.new("P", (3, 2)), "it").shape == (3, 2, 3)
    assert as_tensor(Image.new("1", (3, 2), 1), "it").unique().tolist() == [1.0]
    with pytest.raises(ValueError, match="more than 8 bits"):
        as_tensor(Image.new("I;16", (3, 2)), "it")


@pytest.mark.parametrize("columns", [("image", "label"), ("img", "fine_label")])
@pytest.mark.parametrize("formatted", [None, "torch", "numpy"])
def test_a_data_set_of_hugging_face(columns, formatted):
    datasets = pytest.importorskip("datasets")
    image, label = columns
    vision = Vision((4, 6, 3))
    features = datasets.Features(
        {image: datasets.Image(), label: datasets.ClassLabel(names=["cat", "dog"])}
    )
    rows = {image: [one for one, _ in vision], label: vision.targets}
    data = datasets.Dataset.from_dict(rows, features=features)
    assert list(classes_of(data)) == ["cat", "dog"]
    found = ImageSet.from_dataset(data.with_format(formatted) if formatted else data)
    assert found.shape == (3, 4, 6)
    torch.testing.assert_close(found.images, ImageSet.from_dataset(vision).images)
    assert found.classes == ("cat", "dog")


def test_rows_without_an_image_are_refused_with_their_columns():
    with pytest.raises(ValueError, match=r"column image .* got age, label: .*csv"):
        ImageSet.from_dataset([{"age": 3, "label": 0}])


@pytest.mark.parametrize("stream", [Endless(), iter(()), 3])
def test_streams_are_refused_with_a_remedy(stream):
    with pytest.raises(ValueError, match=r"with a length, got .*: .*into memory") as caught:
        refuse_streams(stream, "it")
    assert "\n" not in str(caught.value)
    with pytest.raises(ValueError, match="an IterableDataset"):
        ImageSet.from_dataset(Endless())


OBJECTS = """
import torch
from torch.utils.data import TensorDataset

train = TensorDataset(torch.full((6, 1, 4, 4), 0.5), torch.arange(6) % 3)
both = {"train": train, "test": TensorDataset(*train[:2])}

def made():
    return both
"""


def test_an_object_by_its_name(tmp_path, monkeypatch):
    (tmp_path / "own_objects.py").write_text(OBJECTS)
    monkeypatch.chdir(tmp_path)
    try:
        assert len(load("own_objects:train")) == 6
        for name in ("own_objects:both", "own_objects:made"):
            assert len(load(name)) == 6
            assert len(load(name, "test")) == 2
            assert len(load(name, "all")) == 8
        with pytest.raises(ValueError, match="has no test set"):
            load("own_objects:train", "test")
        with pytest.raises(ValueError, match="level is not an option of own_objects:train"):
            load("own_objects:train", level=1)
        monkeypatch.setitem(sys.modules["own_objects"].__dict__, "both", {"one": 1})
        with pytest.raises(ValueError, match="no split train: it has one"):
            load("own_objects:both")
    finally:
        sys.modules.pop("own_objects", None)
