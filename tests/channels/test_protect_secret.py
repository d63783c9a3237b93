"""The secret: kept to itself, in memory and in its file."""

from __future__ import annotations

import copy
import multiprocessing
import os
import pickle
import stat

import pytest

from recondite.channels.secret import NoiseDraw, Secret

KEY = bytes(range(32))
DRAW = NoiseDraw("abc", "law", 3.5)


def derived(secret):
    return secret.derive("test", b"part").hex()


def test_fresh_secrets_differ():
    assert derived(Secret()) != derived(Secret())


def test_same_bytes_same_keys():
    assert derived(Secret(KEY)) == derived(Secret(bytearray(KEY)))
    assert derived(Secret(KEY)) != derived(Secret(KEY[::-1]))


def test_purposes_and_parts_are_kept_apart():
    secret = Secret(KEY)
    keys = [
        secret.derive("one", b"ab", b"c"),
        secret.derive("one", b"a", b"bc"),
        secret.derive("one", b"abc"),
        secret.derive("two", b"abc"),
    ]
    assert len(set(keys)) == 4


def test_file_is_created_for_its_owner_only_and_found_again(tmp_path):
    path = tmp_path / "run.key"
    first = Secret(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert derived(Secret(str(path))) == derived(first)
    assert [entry.name for entry in tmp_path.iterdir()] == ["run.key"]


def test_raw_file(tmp_path):
    path = tmp_path / "raw.key"
    path.write_bytes(KEY)
    path.chmod(0o600)
    secret = Secret(path)
    assert derived(secret) == derived(Secret(KEY))
    secret.remember(DRAW)
    assert path.read_bytes() == KEY


def test_file_remembers_draws(tmp_path):
    path = tmp_path / "run.key"
    secret = Secret(path)
    secret.remember(DRAW)
    secret.remember(DRAW)
    assert secret.draws == Secret(path).draws == (DRAW,)


def test_a_line_cut_short_swallows_nothing(tmp_path):
    path = tmp_path / "run.key"
    secret = Secret(path)
    with path.open("a") as file:
        file.write("\ndraw xyz l")
    secret.remember(DRAW)
    assert Secret(path).draws == (DRAW,)


def test_nothing_shows_the_secret():
    secret = Secret(KEY)
    shown = repr(secret) + str(secret) + f"{secret!r}" + repr([secret]) + repr(vars(Holder(secret)))
    assert KEY.hex() not in shown
    assert repr(KEY)[2:-1] not in shown


class Holder:
    def __init__(self, secret):
        self.secret = secret


def test_a_secret_is_not_pickled():
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(Secret(KEY))
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(Holder(Secret(KEY)))


def test_copies_are_the_same_object():
    secret = Secret(KEY)
    assert copy.copy(secret) is copy.deepcopy(secret) is secret


def _send(secret, queue):
    queue.put(derived(secret))


def test_a_process_that_is_started_gets_it():
    context = multiprocessing.get_context("spawn")
    queue = context.SimpleQueue()
    process = context.Process(target=_send, args=(Secret(KEY), queue))
    process.start()
    assert queue.get() == derived(Secret(KEY))
    process.join()


@pytest.mark.parametrize(
    ("given", "reason"),
    [(b"short", "32 bytes, got 5"), (7, "got int"), (True, "got bool")],
)
def test_bad_secrets(given, reason):
    with pytest.raises(ValueError, match=reason) as caught:
        Secret(given)
    assert "short" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_bad_files(tmp_path):
    path = tmp_path / "run.key"
    Secret(path)
    path.chmod(0o640)
    with pytest.raises(ValueError, match="chmod 600"):
        Secret(path)
    path.chmod(0o600)
    path.write_text("recondite-secret 1\nzz\n")
    with pytest.raises(ValueError, match="neither"):
        Secret(path)
    path.write_bytes(b"\xff" * 40)
    with pytest.raises(ValueError, match="neither"):
        Secret(path)
    with pytest.raises(ValueError, match="cannot be written"):
        Secret(tmp_path / "missing" / "run.key")
    with pytest.raises(ValueError, match="cannot be read"):
        Secret(tmp_path)


def test_of_two_that_create_a_file_one_wins(tmp_path, monkeypatch):
    path = tmp_path / "run.key"
    other = Secret(path)
    monkeypatch.setattr(os.path, "exists", lambda _: False)
    monkeypatch.setattr(type(path), "exists", lambda _: False)
    assert derived(Secret(path)) == derived(other)


def test_a_draw_that_cannot_be_written_whole_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "run.key"
    secret, write = Secret(path), os.write

    def short(handle, data):
        if len(data) > 10:
            return write(handle, data[:-4])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", short)
    with pytest.raises(ValueError, match="cannot be written: No space left"):
        secret.remember(NoiseDraw("abc", "law", 37.25))
    monkeypatch.undo()
    assert secret.draws == Secret(path).draws == ()
    secret.remember(NoiseDraw("abc", "law", 37.25))
    assert Secret(path).draws == (NoiseDraw("abc", "law", 37.25),)


def test_a_number_cut_short_is_no_number(tmp_path):
    path = tmp_path / "run.key"
    secret = Secret(path)
    with path.open("a") as file:
        file.write("draw abc law 3")  # of 37.25
    assert Secret(path).draws == ()
    secret.remember(DRAW)
    assert Secret(path).draws == (DRAW,)
    path.unlink()
    with pytest.raises(ValueError, match="is gone"):
        secret.remember(NoiseDraw("other", "law", 1.0))
