"""MNIST and Fashion-MNIST files: plain, compressed, damaged, not the published ones."""

import gzip

import numpy as np
import pytest
import torch

from recondite.records import load
from recondite.records.digits import CLOTHES, read_idx


@pytest.mark.parametrize("compressed", [True, False])
@pytest.mark.parametrize("folder", ["mnist", "MNIST/raw"])
def test_all_splits(directory, mnist_files, compressed, folder):
    arrays = mnist_files(directory / folder, compressed)
    train = load("mnist", directory=directory, verify=False)
    test = load("mnist", "test", directory=directory, verify=False)
    expected = arrays["train-images-idx3-ubyte"].astype(np.float32) / 255
    assert train.images.dtype == torch.float32
    assert np.allclose(train.images[:, 0].numpy(), expected)
    assert train.labels.tolist() == [n % 10 for n in range(20)]
    assert len(test) == 10
    assert train.source == str(directory / folder)
    both = load("mnist", "all", directory=directory, verify=False)
    assert torch.equal(both.images, torch.cat([train.images, test.images]))


def test_fashion_mnist_has_names_of_clothes(directory, mnist_files):
    mnist_files(directory / "fashion-mnist")
    assert load("fashion-mnist", directory=directory, verify=False).classes == CLOTHES


def test_files_that_are_not_the_published_ones_are_refused(directory, mnist_files):
    mnist_files(directory / "mnist")
    with pytest.raises(ValueError, match=r"train-images.*not the published file \(MD5"):
        load("mnist", directory=directory)


def test_the_checksum_is_of_the_decompressed_bytes(tmp_path, idx_bytes):
    import hashlib

    content = idx_bytes(np.arange(6).reshape(1, 2, 3))
    expected = hashlib.md5(content).hexdigest()
    for level in (1, 9):
        path = tmp_path / f"{level}.gz"
        path.write_bytes(gzip.compress(content, level))
        assert read_idx(path, expected).shape == (1, 2, 3)
    with pytest.raises(ValueError, match="published " + "0" * 32):
        read_idx(path, "0" * 32)


def test_a_compressed_file_without_its_suffix_is_read(tmp_path, idx_bytes):
    path = tmp_path / "images"
    path.write_bytes(gzip.compress(idx_bytes([1, 2])))
    assert read_idx(path).tolist() == [1, 2]


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda c: b"", "not an idx file"),
        (lambda c: b"<html>not found</html>", "not an idx file"),
        (lambda c: c[:10], "ends within its header"),
        (lambda c: c[:-1], "should hold 24 bytes of data but has 23"),
        (lambda c: c + b"\0", "should hold 24 bytes of data but has more"),
        (lambda c: c[:4] + b"\xff" * 12 + c[16:], "claims to hold"),
        (lambda c: c[:2] + b"\x0d" + c[3:], "not an idx file of bytes"),
        (lambda c: gzip.compress(c)[:-9], "cannot be read"),
        (lambda c: gzip.compress(c)[:-8] + bytes(8), "cannot be read"),
    ],
)
def test_damaged_files_are_refused_in_one_line(tmp_path, idx_bytes, spoil, message):
    path = tmp_path / "file"
    path.write_bytes(spoil(idx_bytes(np.zeros((2, 3, 4)))))
    with pytest.raises(ValueError, match=message) as caught:
        read_idx(path)
    assert "\n" not in str(caught.value)


def test_a_bomb_is_not_unpacked(tmp_path, idx_bytes):
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(idx_bytes([1, 2]) + bytes(50_000_000)))
    with pytest.raises(ValueError, match="but has more"):
        read_idx(path)


def test_images_and_labels_that_do_not_belong_together(directory, mnist_files, idx_bytes):
    mnist_files(directory / "mnist")
    labels = directory / "mnist" / "train-labels-idx1-ubyte.gz"
    labels.write_bytes(gzip.compress(idx_bytes(np.arange(3))))
    with pytest.raises(ValueError, match=r"do not belong together: shapes \(20, 28, 28\) and \(3,"):
        load("mnist", directory=directory, verify=False)


def test_a_missing_file_is_named(directory, mnist_files):
    mnist_files(directory / "mnist")
    (directory / "mnist" / "t10k-labels-idx1-ubyte.gz").unlink()
    assert len(load("mnist", directory=directory, verify=False)) == 20
    with pytest.raises(ValueError, match=r"holds no t10k-labels-idx1-ubyte.gz or t10k-labels"):
        load("mnist", "test", directory=directory, verify=False)


def test_labels_outside_the_classes_are_refused(directory, mnist_files, idx_bytes):
    mnist_files(directory / "mnist")
    labels = directory / "mnist" / "train-labels-idx1-ubyte.gz"
    labels.write_bytes(gzip.compress(idx_bytes(np.full(20, 11))))
    with pytest.raises(ValueError, match=r"labels must lie in 0..9"):
        load("mnist", directory=directory, verify=False)
