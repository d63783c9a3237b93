"""The store: any prefix of its file resumes, and nothing that was finished is lost."""

import errno
import json
import os
import subprocess
import sys
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recondite.studies.store import RECORDS, STUDY, Store, StoreError, load, read_lines

ROWS = [{"key": f"k{i}", "text": "größe \u2028 \n" * i, "value": i} for i in range(5)]
PLAIN = st.dictionaries(
    st.text(max_size=5), st.one_of(st.integers(), st.text(max_size=8), st.none()), max_size=3
)


def written(folder, rows):
    with Store(folder) as store:
        for row in rows:
            store.append(row)
    return (folder / RECORDS).read_bytes()


@given(rows=st.lists(PLAIN, max_size=6), data=st.data())
def test_any_prefix_of_the_file_resumes(tmp_path_factory, rows, data):
    folder = tmp_path_factory.mktemp("run")
    rows = [{**row, "key": str(number)} for number, row in enumerate(rows)]
    with patch("os.fsync"):  # the disk is not what is tested here
        content = written(folder, rows)
        cut = data.draw(st.integers(0, len(content)))
        (folder / RECORDS).write_bytes(content[:cut])
        whole = content[:cut].count(b"\n")
        with Store(folder) as store:
            assert list(store.rows.values()) == rows[:whole]
            for row in rows[whole:]:
                store.append(row)
    assert (folder / RECORDS).read_bytes() == content
    assert load(folder) == rows


def test_the_last_row_of_a_key_counts(tmp_path):
    written(tmp_path, [*ROWS, {"key": "k1", "value": 9}])
    assert {row["key"]: row["value"] for row in load(tmp_path)}["k1"] == 9
    assert len(load(tmp_path)) == len(ROWS)


def test_rows_follow_the_study_as_it_is_now(tmp_path):
    written(tmp_path, ROWS)
    (tmp_path / STUDY).write_text(json.dumps({"keys": ["k3", "k1", "new"]}))
    assert [row["key"] for row in load(tmp_path)] == ["k3", "k1"]
    assert len(load(tmp_path, every=True)) == len(ROWS)
    assert len(load(tmp_path / RECORDS)) == len(ROWS)


def test_unreadable_lines_are_left_out(tmp_path):
    written(tmp_path, ROWS[:2])
    with open(tmp_path / RECORDS, "ab") as file:
        file.write(b'\x00\x00\x00\n[1]\n{"no": 1}\n')
    assert load(tmp_path) == ROWS[:2]
    assert read_lines(tmp_path / "nothing.jsonl") == []


def test_a_second_writer_is_kept_out_and_death_lets_go(tmp_path):
    with Store(tmp_path) as store:
        with pytest.raises(StoreError, match="written by another process"):
            Store(tmp_path)
        store.append(ROWS[0])
    with Store(tmp_path) as store:
        assert list(store.rows) == ["k0"]
    code = (
        "import os, sys; from recondite.studies.store import Store; "
        "Store(sys.argv[1]).append({'key': 'x'}); os.kill(os.getpid(), 9)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False)
    assert done.returncode == -9
    with Store(tmp_path) as store:
        assert list(store.rows) == ["k0", "x"]


def test_a_full_disk_is_one_line_and_loses_nothing(tmp_path, monkeypatch):
    store = Store(tmp_path)
    store.append(ROWS[0])
    write = os.write

    def full(handle, content):
        if handle != store._log._handle:
            return write(handle, content)
        if len(content) > 10:
            return write(handle, content[:10])  # a part fits
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(StoreError, match="No space left on device: what was finished is kept"):
        store.append(ROWS[1])
    monkeypatch.undo()
    store.append(ROWS[2])
    store.close()
    assert load(tmp_path) == [ROWS[0], ROWS[2]]


def test_other_files_are_written_whole_or_not_at_all(tmp_path, monkeypatch):
    with Store(tmp_path) as store:
        store.put("gallery/a.npz", b"one")

        def full(handle):
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(StoreError, match="No space left"):
            store.put("gallery/a.npz", b"two")
    assert (tmp_path / "gallery" / "a.npz").read_bytes() == b"one"
    assert [path.name for path in (tmp_path / "gallery").iterdir()] == ["a.npz"]


def test_no_run_is_one_line(tmp_path):
    with pytest.raises(ValueError, match="holds no records.jsonl: give the folder of a run"):
        load(tmp_path)


def test_reading_rows_imports_neither_torch_nor_pydantic():
    code = (
        "import sys, recondite.studies.store, recondite.studies; "
        "assert not {'torch', 'pydantic'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
