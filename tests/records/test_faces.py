"""LFW's protocol and CelebA's lists, on made-up pictures."""

import shutil
import zipfile

import numpy as np
import pytest
import torch

from recondite.records import available, load


@pytest.fixture
def faces(directory, picture):
    """Six people with 16 images of their own grey level, and one with too few."""

    def make(people=6, each=16):
        for number in range(people):
            first = directory / "lfw" / f"Person_{number:03}" / f"Person_{number:03}_0001.jpg"
            picture(first, colour=(2 * number,) * 3, size=(4, 4))
            for image in range(2, each + 1):
                shutil.copy(first, first.with_name(f"Person_{number:03}_{image:04}.jpg"))
        picture(directory / "lfw" / "Rare" / "Rare_0001.jpg")
        return directory

    return make


def test_the_papers_protocol_has_the_papers_counts(faces):
    folder = faces(people=106, each=15)
    train = load("lfw", directory=folder)
    test = load("lfw", "test", directory=folder)
    assert (len(train), len(test)) == (1113, 371)
    assert len(train.classes) == 106
    assert train.classes[0] == "Person 000"
    assert train.shape == (3, 32, 32)
    per_person = torch.bincount(train.labels)
    assert set(per_person.tolist()) == {10, 11}
    assert (per_person + torch.bincount(test.labels) == 14).all()
    row = next(entry for entry in available(folder) if entry.name == "lfw")
    assert row.records == {"train": 1113, "test": 371}


def test_labels_are_the_people_on_the_images(faces):
    found = load("lfw", directory=faces(), verify=False, size=None)
    level = (found.images[:, 0, 0, 0] * 255).round().long()
    assert found.shape == (3, 4, 4)
    assert torch.equal(level, 2 * found.labels)


def test_faces_of_their_own_size_must_agree(faces, picture):
    folder = faces()
    for number in range(2, 17):
        picture(folder / "lfw" / "Rare" / f"Rare_{number:04}.jpg", size=(5, 5))
    with pytest.raises(ValueError, match=r"differs in size from .*: pass a size for all"):
        load("lfw", directory=folder, verify=False, size=None)


def _chosen(directory, monkeypatch, split, seed):
    from recondite.records import faces as module

    seen = []

    def remember(paths, **options):
        seen.extend(path.name for path in paths)
        return np.zeros((len(paths), 3, 2, 2), np.uint8)

    monkeypatch.setattr(module, "read_pictures", remember)
    load("lfw", split, directory=directory, verify=False, seed=seed)
    return seen


def test_the_seed_decides_and_splits_never_share_an_image(faces, monkeypatch):
    folder = faces()
    train = _chosen(folder, monkeypatch, "train", 0)
    assert train == _chosen(folder, monkeypatch, "train", 0)
    assert train != _chosen(folder, monkeypatch, "train", 1)
    test = _chosen(folder, monkeypatch, "test", 0)
    assert not set(train) & set(test)
    assert len(set(train) | set(test)) == 6 * 14


def test_lfw_refuses(faces):
    folder = faces()
    with pytest.raises(ValueError, match="has 6 people with at least 14 images, published 106"):
        load("lfw", directory=folder)
    with pytest.raises(ValueError, match="nobody with at least 99"):
        load("lfw", directory=folder, per_person=99)
    with pytest.raises(ValueError, match="colour is not an option of lfw: it has per_person, size"):
        load("lfw", directory=folder, colour="red")


NAMES = ("Male", "Smiling", "Young")
PARTS = (0, 0, 0, 1, 2)


@pytest.fixture
def celeba(directory, picture):
    folder = directory / "celeba"
    lines, parts = [str(len(PARTS)), " ".join(NAMES) + " "], []
    for number, part in enumerate(PARTS, start=1):
        name = f"{number:06}.png"  # exact colours; the real ones are .jpg
        picture(folder / "img_align_celeba" / name, colour=(number,) * 3, size=(178, 218))
        lines.append(f"{name}  -1  {1 if number % 2 else -1}  1")
        parts.append(f"{name} {part}")
    (folder / "list_attr_celeba.txt").write_text("\n".join(lines) + "\n")
    (folder / "list_eval_partition.txt").write_text("\n".join(parts) + "\n")
    return folder


def test_celeba_has_an_attribute_as_its_label(directory, celeba):
    train = load("celeba", directory=directory, verify=False)
    assert train.shape == (3, 32, 32)
    assert train.labels.tolist() == [1, 0, 1]
    assert train.classes == ("not Smiling", "Smiling")
    assert (train.images[:, 0, 0, 0] * 255).round().tolist() == [1, 2, 3]
    test = load("celeba", "test", directory=directory, verify=False, attribute="Young")
    assert test.labels.tolist() == [1]
    row = next(entry for entry in available(directory) if entry.name == "celeba")
    assert row.records == {"train": 3, "test": 1}


def test_celeba_extracts_its_images(directory, celeba):
    with zipfile.ZipFile(celeba / "img_align_celeba.zip", "w") as archive:
        for path in (celeba / "img_align_celeba").iterdir():
            archive.write(path, f"img_align_celeba/{path.name}")
    shutil.rmtree(celeba / "img_align_celeba")
    assert len(load("celeba", directory=directory, verify=False, size=8)) == 3
    assert (celeba / "img_align_celeba" / "000001.png").is_file()


def _edit(path, old, new):
    path.write_text(path.read_text().replace(old, new))


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("list_attr_celeba.txt", "5\n", "6\n", "announces 6 images but lists 5"),
        ("list_attr_celeba.txt", "5\n", "five\n", "must start with the number"),
        ("list_attr_celeba.txt", "000002.png  -1  -1", "000002.png  -1  0", "line 4: .* 3 of ±1"),
        ("list_attr_celeba.txt", "000002.png", "000009.png", "no line for 000002.png"),
        ("list_eval_partition.txt", "000001.png 0", "000001.png", "on each line"),
        ("list_eval_partition.txt", "000001.png", "../000001.png", "not the name of a file"),
        ("list_eval_partition.txt", " 0", " 1", "no image of the train split"),
    ],
)
def test_damaged_lists_are_refused(directory, celeba, file, old, new, message):
    _edit(celeba / file, old, new)
    with pytest.raises(ValueError, match=message):
        load("celeba", directory=directory, verify=False)


def test_celeba_refuses(directory, celeba):
    with pytest.raises(ValueError, match="lists 5 images, published 202,599"):
        load("celeba", directory=directory)
    with pytest.raises(
        ValueError, match="attribute must be one of Male, Smiling, Young, got 'Bald'"
    ):
        load("celeba", directory=directory, verify=False, attribute="Bald")
    (celeba / "img_align_celeba" / "000002.png").unlink()
    with pytest.raises(ValueError, match=r"holds no 000002.png"):
        load("celeba", directory=directory, verify=False)
    (celeba / "list_eval_partition.txt").unlink()
    with pytest.raises(ValueError, match=r"holds no list_eval_partition.txt"):
        load("celeba", directory=directory, verify=False)
