"""A person's own folder of images."""

import numpy as np
import pytest
import torch

from recondite.records import load


@pytest.fixture
def animals(tmp_path, picture):
    """Ten cats and five dogs: grey levels say which is which."""
    root = tmp_path / "animals"
    for kind, level, count in (("cat", 10, 10), ("dog", 200, 5)):
        for number in range(count):
            picture(root / kind / f"{number}.png", colour=level + number, mode="L")
    (root / "cat" / "notes.txt").write_text("not an image")
    (root / "cat" / ".hidden.png").write_text("not an image either")
    (root / "empty").mkdir()
    return root


def test_subfolders_are_classes_and_the_split_keeps_their_shares(animals):
    train, test = load(animals), load(animals, "test")
    assert train.classes == test.classes == ("cat", "dog")
    assert torch.bincount(train.labels).tolist() == [8, 4]
    assert torch.bincount(test.labels).tolist() == [2, 1]
    assert train.shape == (1, 8, 8)
    assert train.name == "animals"
    levels = {*train.images[:, 0, 0, 0].tolist(), *test.images[:, 0, 0, 0].tolist()}
    assert len(levels) == 15
    assert torch.equal(train.images[:, 0, 0, 0] > 0.5, train.labels == 1)


def test_the_seed_decides_the_split(animals):
    first = load(animals, seed=1).images
    assert torch.equal(first, load(animals, seed=1).images)
    assert not torch.equal(first, load(animals, seed=2).images)
    assert len(load(animals, "test", test_fraction=0.4)) == 6


def test_train_and_test_folders_are_the_splits(tmp_path, picture):
    root = tmp_path / "own"
    for path in ("train/a/1.png", "train/b/2.png", "test/b/3.png"):
        picture(root / path)
    assert load(root).labels.tolist() == [0, 1]
    assert load(root, "test").labels.tolist() == [1]
    picture(root / "test" / "c" / "4.png")
    with pytest.raises(ValueError, match=r"has a class that .* lacks: c"):
        load(root, "test")


def test_colour_anywhere_means_colour_everywhere(animals, picture):
    picture(animals / "dog" / "colour.jpg")
    assert load(animals).shape == (3, 8, 8)


def test_formats_and_modes(tmp_path, picture):
    root = tmp_path / "own"
    picture(root / "a" / "1.PNG", colour=(1, 2, 3, 4), mode="RGBA")
    picture(root / "a" / "2.gif", colour=7, mode="P")
    picture(root / "b" / "3.bmp")
    picture(root / "b" / "deeper" / "4.webp", colour=3, mode="L")
    assert load(root, "all").shape == (3, 8, 8)


def test_a_picture_is_turned_as_its_camera_says(tmp_path, picture):
    from PIL import Image

    exif = Image.Exif()
    exif[0x0112] = 6
    picture(tmp_path / "own" / "a" / "1.jpg", size=(8, 4), exif=exif)
    picture(tmp_path / "own" / "a" / "2.jpg", size=(4, 8))
    assert load(tmp_path / "own", "all").shape == (3, 8, 4)


def test_sizes_must_agree_or_be_given(animals, picture):
    picture(animals / "dog" / "large.png", colour=0, mode="L", size=(30, 20))
    remedy = "differ in size: resize them with prepare: resize32 in a study, or --prepare resize32"
    with pytest.raises(ValueError, match=remedy):
        load(animals)
    with pytest.raises(ValueError, match=remedy):
        load(animals, prepare="crop8")
    assert load(animals, prepare="resize32").shape == (1, 32, 32)
    assert load(animals, size=16).shape == (1, 16, 16)
    with pytest.raises(ValueError, match="size must be 1 or more"):
        load(animals, size=0)


@pytest.mark.parametrize(
    ("name", "content"),
    [("broken.png", b"\x89PNG\r\n\x1a\n"), ("page.jpg", b"<html>"), ("script.png", b"%!PS-Adobe")],
)
def test_what_is_no_picture_is_refused_in_one_line(animals, name, content):
    (animals / "cat" / name).write_bytes(content)
    with pytest.raises(ValueError, match=f"{name} cannot be read as an image") as caught:
        load(animals)
    assert "\n" not in str(caught.value)


def test_a_truncated_picture_is_refused(animals):
    from PIL import Image

    path = animals / "cat" / "cut.png"
    noise = np.random.default_rng(0).integers(0, 256, (8, 8), dtype=np.uint8)
    Image.fromarray(noise).save(path)
    path.write_bytes(path.read_bytes()[:60])
    with pytest.raises(ValueError, match=r"cut.png cannot be read as an image"):
        load(animals, "all")


def test_sixteen_bit_pictures_are_refused(animals):
    from PIL import Image

    Image.fromarray(np.zeros((8, 8), np.uint16)).save(animals / "cat" / "deep.png")
    with pytest.raises(ValueError, match=r"deep.png cannot be read .* more than 8 bits"):
        load(animals)


def test_folders_that_cannot_be_used_are_refused(tmp_path, picture):
    (tmp_path / "nothing").mkdir()
    with pytest.raises(ValueError, match="holds no images: put those of each class"):
        load(tmp_path / "nothing")
    picture(tmp_path / "few" / "a" / "1.png")
    with pytest.raises(ValueError, match="too few images for a test split"):
        load(tmp_path / "few", "test")
    with pytest.raises(ValueError, match="test_fraction must lie in"):
        load(tmp_path / "few", test_fraction=1.5)
    with pytest.raises(ValueError, match="attribute is not an option of a folder of images"):
        load(tmp_path / "few", attribute="x")


@pytest.mark.parametrize("link", ["elk", "cat/more", "cat/9.png", "cat/old.txt"])
def test_links_are_refused_in_one_line(animals, picture, tmp_path, link):
    picture(tmp_path / "elsewhere" / "1.png")
    target = tmp_path / "elsewhere" / ("1.png" if "." in link else "")
    (animals / link).unlink(missing_ok=True)
    (animals / link).symlink_to(target)
    with pytest.raises(ValueError, match="is a link") as caught:
        load(animals)
    assert "\n" not in str(caught.value)


def test_linked_splits_are_refused_and_a_linked_root_is_followed(tmp_path, picture):
    for path in ("own/train/a/1.png", "elsewhere/a/2.png"):
        picture(tmp_path / path)
    (tmp_path / "own" / "test").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ValueError, match="is a link"):
        load(tmp_path / "own")
    (tmp_path / "named").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ValueError, match="too few images"):
        load(tmp_path / "named", "test")
