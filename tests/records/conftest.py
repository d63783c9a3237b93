"""Makers of small files in the formats of the real data sets."""

import gzip
import struct

import numpy as np
import pytest


@pytest.fixture(autouse=True)
def nowhere_else(monkeypatch, tmp_path):
    """No test sees the data of the machine it runs on."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.delenv("RECONDITE_DATA", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(home))
    monkeypatch.chdir(home)


@pytest.fixture
def directory(tmp_path):
    folder = tmp_path / "datasets"
    folder.mkdir()
    return folder


@pytest.fixture
def idx_bytes():
    def make(array):
        array = np.asarray(array, dtype=np.uint8)
        header = struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape)
        return header + array.tobytes()

    return make


@pytest.fixture
def mnist_files(idx_bytes):
    """Writes the four files of MNIST, 20 and 10 images of 28x28; returns what is in them."""

    def make(folder, compressed=True):
        folder.mkdir(parents=True)
        rng = np.random.default_rng(0)
        arrays = {}
        for prefix, count in (("train", 20), ("t10k", 10)):
            arrays[f"{prefix}-images-idx3-ubyte"] = rng.integers(0, 256, (count, 28, 28))
            arrays[f"{prefix}-labels-idx1-ubyte"] = np.arange(count) % 10
        for name, array in arrays.items():
            content = idx_bytes(array)
            if compressed:
                (folder / f"{name}.gz").write_bytes(gzip.compress(content))
            else:
                (folder / name).write_bytes(content)
        return arrays

    return make


@pytest.fixture
def picture():
    """Writes a small picture of one colour, or of noise."""

    def make(path, colour=(10, 20, 30), size=(8, 8), mode="RGB", **options):
        from PIL import Image

        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new(mode, size, colour).save(path, **options)
        return path

    return make
