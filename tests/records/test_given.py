"""Records as a command is given them: names, folders, images, arrays, and parts of them."""

import numpy as np
import pytest
import torch
from PIL import Image

from recondite.records import load
from recondite.records.given import load_given


def save(path, value, size=(4, 4)):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.full(size, value, np.uint8)).save(path)


def test_a_data_set_has_its_splits_and_parts():
    test = load("digits", "test")
    assert torch.equal(load_given("digits", split="test").records.images, test.images)
    part = load_given("digits@test@5:9", split="train").records
    assert torch.equal(part.images, test.images[5:9])
    assert len(load_given("digits@350:", split="test").records) == len(test) - 350


def test_a_folder_is_read_in_the_order_of_names_with_or_without_classes(tmp_path):
    for name, value in (("b/1.png", 30), ("a/2.png", 20), ("a/1.png", 10)):
        save(tmp_path / "sorted" / name, value)
        save(tmp_path / "flat" / name.replace("/", "-"), value)
    found = load_given(str(tmp_path / "sorted"), split="train")
    assert (found.records.images[:, 0, 0, 0] * 255).round().tolist() == [10, 20, 30]
    assert found.records.labels.tolist() == [0, 0, 1]
    assert found.records.classes == ("a", "b")
    flat = load_given(str(tmp_path / "flat"), split="train")
    assert not flat.labelled
    assert (flat.records.images[:, 0, 0, 0] * 255).round().tolist() == [10, 20, 30]
    one = load_given(str(tmp_path / "flat" / "b-1.png"), split="train", prepare="resize2")
    assert one.records.shape == (1, 2, 2)
    assert len(one.records) == 1


def test_arrays(tmp_path):
    file = tmp_path / "some.npz"
    np.savez(file, images=np.full((3, 4, 4), 51, np.uint8), labels=np.array([0, 2, 1]))
    found = load_given(f"{file}@1:", split="train")
    assert found.labelled
    assert not found.named
    assert found.records.labels.tolist() == [2, 1]
    assert float(found.records.images.max()) == pytest.approx(0.2)
    np.savez(file, images=np.zeros((3, 1, 4, 4), np.float32))
    assert not load_given(str(file), split="train").labelled


@pytest.mark.parametrize(
    ("arrays", "line"),
    [
        ({"pixels": np.zeros((2, 4, 4))}, "must hold images"),
        ({"images": np.zeros((2, 4))}, "must be"),
        ({"images": np.full((2, 4, 4), 3.0)}, "pixels must lie in"),
        ({"images": np.zeros((2, 4, 4)), "labels": np.array([0.5, 1])}, "one whole number"),
        ({"images": np.array([None, 1], dtype=object)}, "plain arrays"),
    ],
)
def test_bad_arrays_are_one_line(tmp_path, arrays, line):
    np.savez(tmp_path / "bad.npz", **arrays)
    with pytest.raises(ValueError, match=line) as caught:
        load_given(str(tmp_path / "bad.npz"), split="train")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("digits@nonsense", "after @ stands"),
        ("digits@5:5", "must lie in"),
        ("digits@0:9999", "must lie in"),
        ("digitz", "did you mean digits"),
    ],
)
def test_mistakes_are_one_line(text, line):
    with pytest.raises(ValueError, match=line):
        load_given(text, split="train")


def test_images_that_differ_in_size_need_one(tmp_path):
    save(tmp_path / "1.png", 1)
    save(tmp_path / "2.png", 2, (5, 5))
    with pytest.raises(ValueError, match="differ in size"):
        load_given(str(tmp_path), split="train")
    assert load_given(str(tmp_path), split="train", prepare="resize4").records.shape == (1, 4, 4)
    (tmp_path / "none").mkdir()
    with pytest.raises(ValueError, match="holds no images"):
        load_given(str(tmp_path / "none"), split="train")
