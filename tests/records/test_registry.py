"""Kinds of records: who reads what, what is registered, and what nobody reads."""

import json
import subprocess
import sys

import pytest

from recondite.records import ImageSet, RecordsKind, kind_of, kinds, load_records, search_path
from recondite.records.tables import TableSet


@pytest.fixture
def site(tmp_path, monkeypatch):
    """Where Python finds packages; returns a function that registers a kind."""
    folder = tmp_path / "site"

    def register(code, entry="letters = letters_kind:Letters"):
        about = folder / "letters-0.1.dist-info"
        about.mkdir(parents=True)
        (folder / "letters_kind.py").write_text(code)
        (about / "METADATA").write_text("Metadata-Version: 2.1\nName: letters\nVersion: 0.1\n")
        (about / "entry_points.txt").write_text(f"[recondite.records]\n{entry}\n")
        monkeypatch.syspath_prepend(folder)
        kinds.cache_clear()

    yield register
    kinds.cache_clear()
    sys.modules.pop("letters_kind", None)


GOOD = """
from recondite.records.registry import RecordsKind

class Letters(RecordsKind):
    name, title, takes = "letters", "a made-up kind", "letters=WORD"

    def reads(self, data):
        return data.startswith("letters=")

    def load(self, data, split, **options):
        from recondite.records import load
        return load("digits", split)
"""


@pytest.mark.parametrize(
    ("data", "name"),
    [
        ("digits", "images"),
        ("adult.csv", "tables"),
        ("adult.CSV#income", "tables"),
        ("some/adult.parquet#income", "tables"),
        (".", "image-folders"),
        ("own.module:function", "functions"),
    ],
)
def test_who_reads_what(data, name):
    assert kind_of(data).name == name


def test_what_nobody_reads_is_refused_with_what_is_known():
    with pytest.raises(ValueError, match="data must be one of digits") as caught:
        load_records("no such thing")
    said = str(caught.value)
    assert "\n" not in said
    for kind in kinds().values():
        assert kind.name == "images" or kind.takes in said


def test_a_registered_kind_is_listed_and_loaded(site):
    site(GOOD)
    assert kind_of("letters=abc").name == "letters"
    assert isinstance(load_records("letters=abc"), ImageSet)
    with pytest.raises(ValueError, match="letters=WORD"):
        kind_of("nothing")


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (GOOD.replace('"letters", "a', '"tables", "a'), "its name tables is taken"),
        (GOOD.replace('"letters", "a', '"words", "a'), "it calls itself words: use one name"),
        ("class Letters: pass", "no subclass of recondite.records.RecordsKind"),
        ("1 / 0", "division by zero"),
        (GOOD.replace('"letters=WORD"', '""'), "needs a title"),
    ],
)
def test_a_broken_kind_takes_nothing_away(site, code, message):
    site(code)
    with pytest.warns(UserWarning, match=message):
        found = kinds()
    assert list(found) == ["images", "texts", "tables", "image-folders", "functions"]


def test_a_kind_that_stumbles_over_a_name_is_passed_over(site):
    site(GOOD.replace('data.startswith("letters=")', "1 / 0"))
    with (
        pytest.warns(UserWarning, match="letters could not look at 'nothing'"),
        pytest.raises(ValueError, match="data must be one of"),
    ):
        kind_of("nothing")


def test_the_command_lists_kinds_and_imports_no_torch(site, tmp_path):
    site("import torch\n" + GOOD)
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path / 'site')!r})\n"
        "from recondite.cli.main import run\n"
        "run(['data', 'list', *sys.argv[1:]])\n"
        "assert 'torch' not in sys.modules\n"
    )
    for arguments in ([], ["--json"]):
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments], check=True, capture_output=True, text=True
        )
        assert "letters 0.1" in done.stdout
    listed = json.loads(done.stdout)["kinds"]
    assert listed[-1] == {"name": "letters", "takes": None, "package": "letters 0.1"}
    assert listed[2]["takes"] == "a table FILE.csv#TARGET (or .parquet)"


def test_a_function_may_return_records_of_any_kind(tmp_path, monkeypatch):
    (tmp_path / "own_rows.py").write_text(
        "import torch\n"
        "from recondite.records.tables import Column, TableSet\n"
        "def rows(split):\n"
        "    n = 8 if split == 'train' else 4\n"
        "    rows = torch.arange(n, dtype=torch.float32)[:, None]\n"
        "    return TableSet(rows, torch.arange(n) % 2, ('a', 'b'), (Column('n'),))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert len(load_records("own_rows:rows")) == 8
    whole = load_records("own_rows:rows", "all")
    assert isinstance(whole, TableSet)
    assert whole.rows[:, 0].tolist() == [*range(8), *range(4)]
    sys.modules.pop("own_rows", None)


def test_a_kind_must_say_how():
    with pytest.raises(TypeError, match="abstract"):
        RecordsKind()


def test_the_search_path_is_where_it_was():
    """Named records.places before the rooms were renamed: the name led nowhere."""
    assert search_path("somewhere")[0].name == "somewhere"
