"""Data sets of other libraries, handed to the engine in an ordinary loader."""

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

import recondite as rc
from recondite.training import PrivacyEngine

torch.set_num_threads(1)
ROWS = 24


class Vision(Dataset):
    def __len__(self):
        return ROWS

    def __getitem__(self, index):
        return Image.fromarray(np.full((4, 4), index, np.uint8)), index % 2


class Stream(IterableDataset):
    def __len__(self):
        return ROWS

    def __iter__(self):
        return iter(())


def hugging_face(formatted):
    datasets = pytest.importorskip("datasets")
    features = datasets.Features({"image": datasets.Image(), "label": datasets.Value("int64")})
    rows = {"image": [one for one, _ in (Vision()[i] for i in range(ROWS))]}
    rows["label"] = [i % 2 for i in range(ROWS)]
    made = datasets.Dataset.from_dict(rows, features=features)
    return made.with_format("torch") if formatted else made


def columns(_):
    datasets = pytest.importorskip("datasets")
    rows = {"x": torch.rand(ROWS, 16).tolist(), "label": [i % 2 for i in range(ROWS)]}
    return datasets.Dataset.from_dict(rows).with_format("torch")


def train(data, **options):
    net = nn.Sequential(nn.Flatten(), nn.Linear(16, 2))
    engine = PrivacyEngine()
    _, optimizer, loader = engine.make_private(
        module=net,
        optimizer=torch.optim.SGD(net.parameters(), lr=0.1),
        data_loader=DataLoader(data, batch_size=8, **options),
        mechanism=rc.Gaussian(1.0),
    )
    for batch in loader:
        if isinstance(batch, dict):
            inputs = batch["image"] if "image" in batch else batch["x"]
            labels = batch["label"]
        else:
            inputs, labels = batch
        # Bytes stay bytes where a data set hands out tensors: they are the person's to scale.
        scaled = inputs.float() / 255 if inputs.dtype == torch.uint8 else inputs
        assert 0 <= float(scaled.min()) <= float(scaled.max()) <= 1
        nn.functional.cross_entropy(net(scaled), labels).backward()
        optimizer.step()
    return engine


@pytest.mark.parametrize(
    "make",
    [
        Vision,
        lambda: hugging_face(False),
        lambda: hugging_face(True),
        lambda: columns(None),
        lambda: TensorDataset(torch.rand(ROWS, 16), torch.arange(ROWS) % 2),
        lambda: [(torch.rand(16), i % 2) for i in range(ROWS)],
    ],
    ids=["torchvision", "images", "tensors", "columns", "TensorDataset", "list"],
)
def test_map_style_data_sets_train(make):
    engine = train(make())
    assert engine.steps == 3
    assert engine.loader.records == ROWS


def test_streams_are_refused_with_a_remedy_even_with_a_length():
    with pytest.raises(ValueError, match=r"an IterableDataset: .*into memory") as caught:
        train(Stream())
    assert "\n" not in str(caught.value)


def test_records_that_make_no_batch_are_one_line():
    ragged = [(torch.rand(16 + i), 0) for i in range(ROWS)]
    with pytest.raises(ValueError, match="make no batch") as caught:
        train(ragged)
    assert "\n" not in str(caught.value)
