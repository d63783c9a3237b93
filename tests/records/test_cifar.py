"""CIFAR-10 and CIFAR-100, binary form."""

import numpy as np
import pytest

from recondite.records import load

BATCHES = [f"data_batch_{number}.bin" for number in range(1, 6)]


def _rows(labels, seed=0):
    labels = np.asarray(labels, dtype=np.uint8).reshape(len(labels), -1)
    pixels = np.random.default_rng(seed).integers(0, 256, (len(labels), 3072), dtype=np.uint8)
    return np.concatenate([labels, pixels], axis=1)


@pytest.fixture
def cifar10(directory):
    folder = directory / "cifar-10-batches-bin"
    folder.mkdir()
    for number, name in enumerate([*BATCHES, "test_batch.bin"]):
        (folder / name).write_bytes(_rows([number, 9], number).tobytes())
    return folder


def test_cifar10_reads_its_batches_in_order(directory, cifar10):
    train = load("cifar10", directory=directory, verify=False)
    assert train.shape == (3, 32, 32)
    assert train.labels.tolist() == [0, 9, 1, 9, 2, 9, 3, 9, 4, 9]
    assert train.classes[3] == "cat"
    # Planar: the red plane comes first, row by row.
    row = np.frombuffer((cifar10 / BATCHES[2]).read_bytes()[1:3073], dtype=np.uint8)
    assert np.allclose(train.images[4].numpy().reshape(-1), row / np.float32(255))
    assert len(load("cifar10", "test", directory=directory, verify=False)) == 2


def test_cifar10_that_is_not_the_published_one_is_refused(directory, cifar10):
    with pytest.raises(ValueError, match=r"data_batch_1.bin is not the published file \(MD5"):
        load("cifar10", directory=directory)


@pytest.mark.parametrize("content", [b"", b"x" * 3072, b"x" * 3074])
def test_truncated_batches_are_refused(directory, cifar10, content):
    (cifar10 / BATCHES[1]).write_bytes(content)
    with pytest.raises(ValueError, match=r"data_batch_2.bin has .* whole number of 3,073-byte"):
        load("cifar10", directory=directory, verify=False)


def test_a_missing_batch_is_named(directory, cifar10):
    (cifar10 / BATCHES[4]).unlink()
    with pytest.raises(ValueError, match=r"holds no data_batch_5.bin: put it there"):
        load("cifar10", directory=directory, verify=False)


def test_an_impossible_label_is_refused(directory, cifar10):
    (cifar10 / BATCHES[0]).write_bytes(_rows([10]).tobytes())
    with pytest.raises(ValueError, match="has the label 10, of 10 classes"):
        load("cifar10", directory=directory, verify=False)


@pytest.fixture
def cifar100(directory):
    folder = directory / "cifar-100-binary"
    folder.mkdir()
    (folder / "train.bin").write_bytes(_rows([[4, 30], [19, 99]]).tobytes())
    (folder / "test.bin").write_bytes(_rows([[0, 1]]).tobytes())
    (folder / "coarse_label_names.txt").write_text("\n".join(f"kind{n}" for n in range(20)) + "\n")
    return folder


def test_cifar100_has_fine_and_coarse_labels(directory, cifar100):
    fine = load("cifar100", directory=directory, verify=False)
    coarse = load("cifar100", directory=directory, verify=False, labels="coarse")
    assert fine.labels.tolist() == [30, 99]
    assert len(fine.classes) == 100
    assert coarse.labels.tolist() == [4, 19]
    assert coarse.classes[4] == "kind4"
    assert (fine.images == coarse.images).all()


def test_cifar100_refuses(directory, cifar100):
    with pytest.raises(ValueError, match=r"6,148 bytes, published 153,700,000"):
        load("cifar100", directory=directory)
    with pytest.raises(ValueError, match="labels must be one of fine, coarse"):
        load("cifar100", directory=directory, labels="rough")
    (cifar100 / "coarse_label_names.txt").write_text("one")
    with pytest.raises(ValueError, match="should name 20 classes but names 1"):
        load("cifar100", directory=directory, verify=False, labels="coarse")
    (cifar100 / "train.bin").write_bytes(b"x" * 3073)
    with pytest.raises(ValueError, match="whole number of 3,074-byte"):
        load("cifar100", directory=directory, verify=False)
