"""SVHN's .mat files."""

import numpy as np
import pytest
from scipy.io import savemat

from recondite.records import available, load


@pytest.fixture
def files(directory):
    folder = directory / "svhn"
    folder.mkdir()
    rng = np.random.default_rng(0)
    content = {}
    for split, count in (("train", 12), ("test", 5)):
        images = rng.integers(0, 256, (32, 32, 3, count), dtype=np.uint8)
        labels = (np.arange(count) % 10 + 1).astype(np.uint8)[:, None]
        savemat(folder / f"{split}_32x32.mat", {"X": images, "y": labels}, do_compression=True)
        content[split] = images
    return content


def test_the_label_ten_is_the_digit_zero(directory, files):
    train = load("svhn", directory=directory, verify=False)
    assert train.labels.tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1, 2]
    assert train.shape == (3, 32, 32)
    expected = files["train"].transpose(3, 2, 0, 1).astype(np.float32) / 255
    assert np.allclose(train.images.numpy(), expected)


def test_records_are_counted_without_reading(directory, files):
    row = next(entry for entry in available(directory) if entry.name == "svhn")
    assert row.records == {"train": 12, "test": 5}


def test_the_published_size_is_checked(directory, files):
    with pytest.raises(ValueError, match=r"train_32x32.mat.*published 182,040,794"):
        load("svhn", directory=directory)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"X": np.zeros((32, 32, 3, 2), np.uint8)}, "must hold the arrays X and y"),
        ({"X": np.zeros((2, 3, 32, 32)), "y": [1, 2]}, "X must hold bytes"),
        ({"X": np.zeros((32, 32, 3, 2), np.uint8), "y": [1]}, "one label for each of 2"),
        ({"X": np.zeros((32, 32, 3, 2), np.uint8), "y": [0, 1]}, "labels from 1 to 10"),
        ({"X": np.zeros((32, 32, 3, 2), np.uint8), "y": [1.5, 1]}, "labels from 1 to 10"),
        ({"X": np.zeros((32, 32, 3, 2), np.uint8), "y": ["a", "b"]}, "one label for each"),
    ],
)
def test_other_arrays_are_refused(directory, files, content, message):
    savemat(directory / "svhn" / "train_32x32.mat", content)
    with pytest.raises(ValueError, match=message):
        load("svhn", directory=directory, verify=False)


def test_damaged_files_are_refused_in_one_line(directory, files):
    path = directory / "svhn" / "train_32x32.mat"
    whole = path.read_bytes()
    for content in (whole[: len(whole) // 2], b"", b"not a matlab file at all" * 20):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="is not a MATLAB 5 file"):
            load("svhn", directory=directory, verify=False)
    assert "is not a MATLAB 5 file" in next(
        entry.remedy for entry in available(directory) if entry.name == "svhn"
    )
