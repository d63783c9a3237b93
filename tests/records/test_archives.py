"""Archives: extracted whole and safely, or not at all."""

import io
import os
import stat
import tarfile
import zipfile

import pytest

from recondite.records import available, files, load
from recondite.records.files import extract


def _tar(path, members, mode="w:gz"):
    with tarfile.open(path, mode) as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            if isinstance(content, bytes):
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
            else:
                info.type, info.linkname = content
                archive.addfile(info)
    return path


def _zip(path, members):
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


@pytest.mark.parametrize("suffix", ["tar", "tar.gz", "zip"])
@pytest.mark.parametrize("top", ["mnist/", "raw/", ""])
def test_what_is_in_it_becomes_the_folder(tmp_path, suffix, top):
    members = {f"{top}a.bin": b"one", f"{top}sub/b.bin": b"two"}
    path = tmp_path / f"data.{suffix}"
    if suffix == "zip":
        _zip(path, members)
    else:
        _tar(path, members, "w" if suffix == "tar" else "w:gz")
    folder = extract(path, tmp_path / "mnist")
    assert (folder / "a.bin").read_bytes() == b"one"
    assert (folder / "sub" / "b.bin").read_bytes() == b"two"
    assert sorted(p.name for p in tmp_path.iterdir() if p.name != "home") == [path.name, "mnist"]
    assert stat.S_IMODE(folder.stat().st_mode) == 0o755


TRAVERSALS = ["../evil", "sub/../../evil", "/tmp/recondite-evil", "..\\evil", "C:\\evil"]


@pytest.mark.parametrize("name", TRAVERSALS)
@pytest.mark.parametrize("make", [_tar, _zip])
def test_paths_that_lead_out_refuse_the_whole_archive(directory, name, make):
    path = make(directory / "archive", {"good": b"x", name: b"evil"})
    with pytest.raises(
        ValueError, match=r"not safe to extract: .* leads out of the data directory"
    ):
        extract(path, directory / "folder")
    assert [p.name for p in directory.iterdir()] == ["archive"]
    assert not (directory.parent / "evil").exists()
    assert not os.path.exists("/tmp/recondite-evil")


@pytest.mark.parametrize(
    "member",
    [
        (tarfile.SYMTYPE, "/etc/passwd"),
        (tarfile.SYMTYPE, "good"),
        (tarfile.LNKTYPE, "good"),
        (tarfile.CHRTYPE, ""),
        (tarfile.FIFOTYPE, ""),
    ],
)
def test_links_and_devices_are_refused(directory, member):
    path = _tar(directory / "archive.tar.gz", {"good": b"x", "link": member})
    with pytest.raises(ValueError, match="'link' is neither a file nor a folder"):
        extract(path, directory / "folder")
    assert not (directory / "folder").exists()


def test_links_in_zip_files_are_refused(directory):
    link = zipfile.ZipInfo("link")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    path = _zip(directory / "archive.zip", {link: b"/etc/passwd"})
    with pytest.raises(ValueError, match="'link' is neither a file nor a folder"):
        extract(path, directory / "folder")


@pytest.mark.parametrize("make", [_tar, _zip])
def test_an_archive_that_unpacks_to_too_much_is_refused(directory, monkeypatch, make):
    monkeypatch.setattr(files, "LIMIT", 10)
    path = make(directory / "archive", {"a": b"123456", "b": b"123456"})
    with pytest.raises(ValueError, match="'b' takes it above 10 bytes"):
        extract(path, directory / "folder")


def test_files_that_are_no_archives_or_damaged(directory):
    path = directory / "archive"
    path.write_bytes(b"<html>404</html>")
    with pytest.raises(ValueError, match="is not a tar or zip archive"):
        extract(path, directory / "folder")
    whole = _tar(path, {"a": os.urandom(50_000)}).read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match="cannot be extracted"):
        extract(path, directory / "folder")
    whole = _zip(path, {"a": b"x" * 1000}).read_bytes()
    path.write_bytes(whole.replace(b"x" * 1000, b"x" * 999 + b"y"))
    with pytest.raises(ValueError, match="cannot be extracted"):
        extract(path, directory / "folder")
    assert [p.name for p in directory.iterdir()] == ["archive"]


def test_a_folder_that_is_there_is_kept(directory):
    path = _zip(directory / "archive.zip", {"a": b"new"})
    (directory / "folder").mkdir()
    extract(path, directory / "folder")
    (directory / "folder" / "a").write_text("mine")
    with pytest.raises(ValueError, match="is there already"):
        extract(path, directory / "folder")
    assert (directory / "folder" / "a").read_text() == "mine"


def test_two_processes_may_extract_at_once(directory, monkeypatch):
    path = _zip(directory / "archive.zip", {"a": b"x"})

    def late(source, destination):
        destination.mkdir()
        (destination / "a").write_bytes(b"x")
        raise OSError(39, "Directory not empty")

    monkeypatch.setattr(os, "replace", late)
    assert (extract(path, directory / "folder") / "a").read_bytes() == b"x"


def test_loading_extracts_the_canonical_archive(directory):
    rows = {f"cifar-10-batches-bin/data_batch_{n}.bin": bytes(3073) for n in range(1, 6)}
    _tar(directory / "cifar-10-binary.tar.gz", rows)
    row = next(entry for entry in available(directory) if entry.name == "cifar10")
    assert row.found
    assert row.remedy == "extracted when it is first used"
    assert len(load("cifar10", directory=directory, verify=False)) == 5
    row = next(entry for entry in available(directory) if entry.name == "cifar10")
    assert row.where == str(directory / "cifar-10-batches-bin")
    assert row.records == {"train": 5}
    assert "test_batch.bin" in row.remedy


def test_an_unsafe_archive_stops_loading(directory):
    _tar(directory / "cifar-100-binary.tar.gz", {"../train.bin": bytes(3074)})
    with pytest.raises(ValueError, match="not safe to extract"):
        load("cifar100", directory=directory)
