"""Files that a crash, a full disk or a second process cannot spoil."""

import copy
import errno
import os
import pickle
import stat
import subprocess
import sys
import threading

import pytest

from recondite import _files, _locks
from recondite._files import checked, create, replaced, sealed, write_atomically
from recondite._locks import InUse, Lock, Log


def full(*arguments, **options):
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / ("n" * 250)
    write_atomically(path, "größe\r\n")
    assert path.read_bytes() == "größe\r\n".encode()
    for point in ("open", "fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(_files.os, point, full)
            with pytest.raises(OSError, match="No space left"):
                write_atomically(path, b"new")
        assert path.read_bytes() == "größe\r\n".encode()
    with pytest.raises(RuntimeError), replaced(path) as file:
        file.write(b"half")
        raise RuntimeError
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~mask


def test_the_file_and_then_its_folder_are_flushed(tmp_path, monkeypatch):
    flushed, fsync = [], os.fsync

    def note(handle):
        folder = stat.S_ISDIR(os.fstat(handle).st_mode)
        flushed.append(("folder" if folder else "file", (tmp_path / "a").exists()))
        fsync(handle)

    monkeypatch.setattr(_files.os, "fsync", note)
    write_atomically(tmp_path / "a", b"1")
    assert flushed == [("file", False), ("folder", True)]


def test_of_several_that_create_a_file_one_wins(tmp_path):
    path, won = tmp_path / "a", []

    def make(number):
        won.append(create(path, b"%d" % number * 1000))

    threads = [threading.Thread(target=make, args=(number,)) for number in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert sorted(won) == [False] * 7 + [True]
    assert len(set(path.read_bytes())) == 1
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [entry.name for entry in tmp_path.iterdir()] == ["a"]


def test_a_seal_finds_a_changed_number():
    body = {"count": 50, "terms": {"b": [1.5, None], "a": "é"}}
    assert checked(sealed(body)) == body
    assert checked(body) == body  # version 0.1.0 did not seal
    with pytest.raises(ValueError, match="checksum"):
        checked({**sealed(body), "count": 3})


def test_a_lock_has_one_holder(tmp_path):
    lock = Lock(tmp_path / "lock")
    with pytest.raises(InUse):
        Lock(tmp_path / "lock")
    code = "import sys; from recondite._locks import Lock; Lock(sys.argv[1])"
    command = [sys.executable, "-c", code, str(tmp_path / "lock")]
    assert b"InUse" in subprocess.run(command, check=False, capture_output=True).stderr
    for send in (copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="cannot be copied"):
            send(lock)
    lock.release()
    lock.release()
    assert subprocess.run(command, check=False).returncode == 0
    again = Lock(tmp_path / "lock")
    assert again.held
    assert not lock.held


def test_a_lock_file_that_was_removed_is_not_held_twice(tmp_path, monkeypatch):
    """Between opening and locking, the holder may remove the file, and a third make it anew."""
    first, flock, third = Lock(tmp_path / "lock"), _locks._flock, []

    def late(handle, path, **options):
        if not third:
            third.append(None)
            first.release()
            third[0] = Lock(tmp_path / "lock")
        flock(handle, path, **options)

    monkeypatch.setattr(_locks, "_flock", late)
    with pytest.raises(InUse):
        Lock(tmp_path / "lock")


@pytest.mark.parametrize("alone", [True, False])
def test_a_line_that_fails_is_not_there(alone, tmp_path, monkeypatch):
    log = Log(tmp_path / "log", alone=alone)
    log.append(b"one")
    write = os.write

    def short(handle, data):
        if len(data) > 3:
            return write(handle, data[:3])  # a part fits
        raise OSError(errno.ENOSPC, "No space left on device")

    for point, broken in (("write", short), ("fsync", full)):
        with monkeypatch.context() as patch:
            patch.setattr(_files.os, point, broken)
            with pytest.raises(OSError, match="No space left"):
                log.append(b"two, which is long")
        assert (tmp_path / "log").read_bytes() == b"one\n"
    monkeypatch.setattr(_files.os, "write", lambda handle, data: write(handle, data[:2]))
    log.append(b"three")  # short writes are gone on with
    assert log.read() == [b"one", b"three"]
    log.close()
    with pytest.raises(OSError, match="closed"):
        log.append(b"four")


@pytest.mark.parametrize("alone", [True, False])
def test_a_torn_tail_is_cut_off_before_the_next_line(alone, tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b"one\n" + b"x" * 100_000)
    log = Log(path, alone=alone)
    assert log.read() == [b"one"]
    log.append(b"two")
    assert log.read() == [b"two"]
    assert path.read_bytes() == b"one\ntwo\n"
    log.close()
    path.write_bytes(b"torn")
    Log(tmp_path / "log", alone=False).append(b"three")
    assert path.read_bytes() == b"three\n"


def test_writers_side_by_side_tear_no_line(tmp_path):
    code = (
        "import sys; from recondite._locks import Log; log = Log(sys.argv[1]);"
        "[log.append(sys.argv[2].encode() * 3000, durable=False) for _ in range(200)]"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "log")]
    children = [subprocess.Popen([*command, letter]) for letter in "ab"]
    assert [child.wait() for child in children] == [0, 0]
    lines = Log(tmp_path / "log").read()
    assert sorted(lines) == [b"a" * 3000] * 200 + [b"b" * 3000] * 200
