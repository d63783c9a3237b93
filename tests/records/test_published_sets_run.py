"""CIFAR-100, SVHN and CelebA from a few records in files as published: trained and attacked."""

import json

import numpy as np
import pytest
from scipy.io import savemat

from recondite.cli.main import run
from recondite.records import cifar, digits, faces

TRAIN, TEST = 40, 12


def cifar100(directory, monkeypatch, picture):
    del picture
    folder = directory / "cifar-100-binary"
    folder.mkdir()
    rng = np.random.default_rng(0)
    for split, count in (("train", TRAIN), ("test", TEST)):
        rows = rng.integers(0, 256, (count, 2 + 3072), dtype=np.uint8)
        rows[:, 1] = np.arange(count) % 100
        rows[:, 0] = rows[:, 1] // 5
        (folder / f"{split}.bin").write_bytes(rows.tobytes())
    for kind, count in (("fine", 100), ("coarse", 20)):
        names = "\n".join(f"{kind}_{number}" for number in range(count))
        (folder / f"{kind}_label_names.txt").write_text(names + "\n")
    monkeypatch.setattr(cifar, "_CIFAR100_RECORDS", {"train": TRAIN, "test": TEST})


def svhn(directory, monkeypatch, picture):
    del picture
    folder = directory / "svhn"
    folder.mkdir()
    rng, sizes = np.random.default_rng(1), {}
    for split, count in (("train", TRAIN), ("test", TEST)):
        images = rng.integers(0, 256, (32, 32, 3, count), dtype=np.uint8)
        labels = (np.arange(count) % 10 + 1).astype(np.uint8)[:, None]
        path = folder / f"{split}_32x32.mat"
        savemat(path, {"X": images, "y": labels}, do_compression=True)
        sizes[split] = path.stat().st_size
    monkeypatch.setattr(digits, "_BYTES", sizes)


def celeba(directory, monkeypatch, picture):
    folder, count = directory / "celeba", TRAIN + TEST
    lines, parts = [str(count), "Male Smiling Young "], []
    for number in range(1, count + 1):
        name = f"{number:06}.jpg"
        picture(folder / "img_align_celeba" / name, colour=(4 * number, 90, 9), size=(178, 218))
        lines.append(f"{name}  -1  {1 if number % 2 else -1}  1")
        parts.append(f"{name} {0 if number <= TRAIN else 2}")
    (folder / "list_attr_celeba.txt").write_text("\n".join(lines) + "\n")
    (folder / "list_eval_partition.txt").write_text("\n".join(parts) + "\n")
    monkeypatch.setattr(faces, "_PUBLISHED", count)


@pytest.mark.parametrize(("make", "classes"), [(cifar100, 100), (svhn, 10), (celeba, 2)])
def test_it_trains_privately_and_is_attacked(
    make, classes, directory, monkeypatch, picture, capsys
):
    make(directory, monkeypatch, picture)
    common = ["--data", make.__name__, "--data-dir", str(directory), "--model", "lenet"]
    noise = ["--defence", "gaussian", "--noise-multiplier", "1", "--json"]
    train = ["-q", "train", *common, *noise, "--steps", "2", "--batch-size", "8"]
    assert run([*train, "--delta", "0.01"]) == 0, capsys.readouterr().err
    record = json.loads(capsys.readouterr().out)
    assert record["data"]["records"] == TRAIN
    assert record["data"]["test_records"] == TEST
    assert record["privacy"]["epsilon"]
    attack = ["-q", "attack", "inverting-gradients", *common, *noise, "--images", "2"]
    assert run([*attack, "--option", "steps=3"]) == 0, capsys.readouterr().err
    found = json.loads(capsys.readouterr().out)
    assert found["reconstruction"]["images"] == 2
    assert found["reconstruction"]["blind"]["guess"]
    assert found["data"]["classes"] == classes
