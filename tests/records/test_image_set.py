"""ImageSet: a dataset that checks what it holds and says what its pixels mean."""

import pickle

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from recondite.records import ImageSet


@pytest.fixture
def images():
    generator = torch.Generator().manual_seed(0)
    pixels = torch.rand(12, 3, 6, 6, generator=generator)
    return ImageSet(pixels, torch.arange(12) % 4, ("a", "b", "c", "d"), "made up", "a test")


def test_it_is_a_dataset_of_images_and_labels(images):
    image, label = images[5]
    assert len(images) == 12
    assert torch.equal(image, images.images[5])
    assert label == 1
    assert isinstance(label, int)
    batch, labels = next(iter(DataLoader(images, batch_size=4)))
    assert batch.shape == (4, 3, 6, 6)
    assert labels.tolist() == [0, 1, 2, 3]
    assert sum(1 for _ in images) == 12


def test_it_cannot_be_changed_and_travels_to_other_processes(images):
    with pytest.raises(AttributeError):
        images.name = "other"
    again = pickle.loads(pickle.dumps(images))
    assert torch.equal(again.images, images.images)
    assert again.classes == images.classes


def test_summary_and_repr(images):
    summary = images.summary()
    assert summary["records"] == 12
    assert summary["shape"] == [3, 6, 6]
    assert summary["records_per_class"] == {"a": 3, "b": 3, "c": 3, "d": 3}
    assert summary["source"] == "a test"
    assert summary["pixel_scale"] == "pixels in [0, 1]"
    assert repr(images) == "ImageSet(made up: 12 images 3×6×6, 4 classes, pixels in [0, 1])"


@pytest.mark.parametrize(
    ("indices", "expected"),
    [
        ([3, 1], [3, 1]),
        ([-1], [11]),
        (range(2), [0, 1]),
        (slice(10, None), [10, 11]),
        (torch.tensor([7]), [7]),
        (np.array([2, 2]), [2, 2]),
        (torch.arange(12) < 2, [0, 1]),
    ],
)
def test_subset(images, indices, expected):
    part = images.subset(indices)
    assert torch.equal(part.images, images.images[expected])
    assert torch.equal(part.labels, images.labels[expected])
    assert part.classes == images.classes


@pytest.mark.parametrize(
    ("indices", "message"),
    [
        ([], "at least one position"),
        ([12], "below 12, got 12"),
        ([-13], "below 12"),
        (torch.zeros(5, dtype=torch.bool), "12 entries, got 5"),
        (torch.zeros(12, dtype=torch.bool), "no record"),
        ([0.5], "whole numbers"),
    ],
)
def test_subset_refuses(images, indices, message):
    with pytest.raises(ValueError, match=message):
        images.subset(indices)


def test_standardised_has_mean_zero_and_says_its_scale(images):
    scaled = images.standardised()
    assert torch.allclose(scaled.images.mean((0, 2, 3)), torch.zeros(3), atol=1e-6)
    assert torch.allclose(scaled.images.std((0, 2, 3), correction=0), torch.ones(3), atol=1e-6)
    assert scaled.pixel_scale.startswith("(pixel in [0, 1] - (")
    assert scaled.summary()["mean"] == list(scaled.mean)
    assert torch.allclose(scaled.pixels(), images.images, atol=1e-6)
    with pytest.raises(ValueError, match="normalised already"):
        scaled.standardised()


def test_a_test_set_takes_the_scale_of_the_training_set(images):
    train = images.subset(range(8)).standardised()
    test = images.subset(range(8, 12)).normalised(train.mean, train.std)
    assert test.pixel_scale == train.pixel_scale
    assert torch.allclose(test.pixels(), images.images[8:], atol=1e-6)


def test_pixels_of_reconstructions_are_not_clipped(images):
    scaled = images.normalised((0.5,), (0.25,))
    beyond = scaled.pixels(torch.full((2, 3, 6, 6), 4.0))
    assert torch.allclose(beyond, torch.tensor(1.5))
    assert images.pixels(beyond) is beyond
    assert scaled.mean == (0.5, 0.5, 0.5)


@pytest.mark.parametrize(
    ("mean", "std", "message"),
    [
        ((0.1, 0.2), (1.0,), "1 or 3 numbers, got 2"),
        ((0.1,), (0.0,), "above 0"),
        ((float("nan"),), (1.0,), "finite"),
    ],
)
def test_normalised_refuses(images, mean, std, message):
    with pytest.raises(ValueError, match=message):
        images.normalised(mean, std)


def test_a_constant_channel_cannot_be_standardised(images):
    flat = ImageSet(torch.zeros(2, 1, 4, 4), torch.tensor([0, 1]), ("a", "b"))
    with pytest.raises(ValueError, match="same value everywhere"):
        flat.standardised()


def test_prepared_keeps_pixels_in_range(images):
    ones = ImageSet(torch.ones(2, 1, 7, 9), torch.tensor([0, 1]), ("a", "b"))
    assert float(ones.prepared("resize5").images.max()) == 1
    assert images.prepared("crop4").shape == (3, 4, 4)
    scaled = images.standardised()
    small = scaled.prepared("resize3")
    assert (small.mean, small.std) == (scaled.mean, scaled.std), "the scale stays with the images"


@pytest.mark.parametrize(
    ("pixels", "labels", "message"),
    [
        (torch.zeros(2, 3, 4), torch.zeros(2, dtype=torch.int64), "images must be a float32"),
        (torch.zeros(0, 1, 4, 4), torch.zeros(0, dtype=torch.int64), "at least one image"),
        (torch.zeros(2, 1, 4, 4).double(), torch.zeros(2, dtype=torch.int64), "float64"),
        (torch.zeros(2, 1, 4, 4), torch.zeros(2), "labels must be an int64"),
        (torch.zeros(2, 1, 4, 4), torch.zeros(3, dtype=torch.int64), "each of 2 images"),
        (torch.zeros(2, 1, 4, 4), torch.tensor([0, 2]), r"lie in 0..1.* 0 to 2"),
        (torch.zeros(2, 1, 4, 4), torch.tensor([-1, 0]), "-1 to 0"),
        (torch.zeros(2, 1, 4, 4) - 1, torch.tensor([0, 1]), r"pixels must lie in \[0, 1\], got -1"),
        (torch.full((2, 1, 4, 4), torch.nan), torch.tensor([0, 1]), "got nan"),
    ],
)
def test_what_cannot_be_an_image_set_is_refused_in_one_line(pixels, labels, message):
    with pytest.raises(ValueError, match=message) as caught:
        ImageSet(pixels, labels, ("a", "b"))
    assert "\n" not in str(caught.value)


def test_mean_without_std_is_refused():
    with pytest.raises(ValueError, match="go together"):
        ImageSet(torch.zeros(1, 1, 2, 2), torch.tensor([0]), ("a",), mean=(0.0,))


class Own:
    classes = ("cat", "dog")

    def __init__(self, items):
        self.items = items

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        return self.items[index]


def test_from_dataset():
    byte = np.full((4, 4), 255, dtype=np.uint8)
    found = ImageSet.from_dataset(Own([(byte, 0), (byte, torch.tensor(1))]), name="own")
    assert found.shape == (1, 4, 4)
    assert float(found.images.min()) == 1
    assert found.classes == ("cat", "dog")
    assert ImageSet.from_dataset(found) is found
    unnamed = ImageSet.from_dataset([(torch.zeros(1, 2, 2), 3)])
    assert unnamed.classes == ("0", "1", "2", "3")


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ([], "no records"),
        ([torch.zeros(1, 2, 2)], r"\(image, label\) pairs"),
        ([(torch.zeros(5), 0)], r"images \(c, h, w\), got \(5,\)"),
        ([("a cat", 0)], "tensors, arrays or of PIL"),
        ([(torch.zeros(1, 2, 2), "cat")], "labels, got 'cat'"),
        ([(torch.zeros(1, 2, 2), 0), (torch.zeros(1, 3, 3), 1)], "equal shape"),
        ([(torch.full((1, 2, 2), 255.0), 0)], r"lie in \[0, 1\]"),
    ],
)
def test_from_dataset_refuses(items, message):
    with pytest.raises(ValueError, match=message):
        ImageSet.from_dataset(Own(items))


def test_from_dataset_refuses_streams():
    with pytest.raises(ValueError, match="with a length, got generator"):
        ImageSet.from_dataset(item for item in ())


def test_to_a_device(images):
    assert images.to("cpu").images.device.type == "cpu"
