"""Tables: read, refused by row or column, guessed at, scored, and shown without giving away."""

import json

import pytest
import torch

from recondite.metrics import gains
from recondite.records import TableSet, load, load_records, read_table

ROWS = """\
age,sex,work,hours,income
39,m,office,40,low
50,f,farm,13.5,high
38,m,office,40,low
53,f,shop,40,high
28,m,office,38,low
37,f,?,40,high
"""


@pytest.fixture
def write(tmp_path):
    def make(text=ROWS, name="people.csv"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return make


@pytest.fixture
def table(write):
    return read_table(write(), "income")


def test_columns_are_inferred_and_shown(table):
    assert [str(column) for column in table.columns] == [
        "age (numbers, right within 0.42)",
        "sex (2 categories)",
        "work (4 categories)",
        "hours (numbers, right within 0.488)",
    ]
    assert table.columns[2].categories == ("?", "farm", "office", "shop")
    assert [column.decimals for column in table.columns] == [0, 0, 0, 1]
    assert table.classes == ("high", "low")
    assert table.labels.tolist() == [1, 0, 1, 0, 1, 0]
    assert table.rows[1].tolist() == [50, 1, 0, 0, 1, 0, 0, 13.5]
    assert repr(table) == "TableSet(people: 6 rows, 4 columns, 8 features, 2 classes, as written)"


def test_one_row_a_person_makes_the_unit_a_person(write):
    people = ROWS.replace("age,", "who,age,", 1)
    names = iter("abacab")
    lines = people.splitlines()
    text = "\n".join([lines[0], *(f"{next(names)},{line}" for line in lines[1:])]) + "\n"
    table = load_records(f"{write(text)}#income?group=who&drop=work", "all")
    assert (len(table), table.left_out, table.unit) == (3, 3, "person")
    assert [column.name for column in table.columns] == ["age", "sex", "hours"]
    assert table.rows[:, 0].tolist() == [39.0, 50.0, 53.0]  # everybody's first
    assert "3 further rows left out" in table.caveats[-1]
    assert table.summary()["unit"] == "person"
    with pytest.raises(ValueError, match="no column 'nobody'"):
        load_records(f"{write(text)}#income?group=nobody", "all")
    with pytest.raises(ValueError, match=r"row 3, column 'who' names no person"):
        load_records(f"{write(text.replace('b,50', ',50'))}#income?group=who&drop=work", "all")
    with pytest.raises(ValueError, match="can have one role only"):
        load_records(f"{write(text)}#income?group=income", "all")


def test_what_was_inferred_can_be_overridden(write):
    table = read_table(write(), "income", categorical=["age"], drop=["work"], tolerance=0)
    assert [column.name for column in table.columns] == ["age", "sex", "hours"]
    assert table.columns[0].categories == ("28", "37", "38", "39", "50", "53")
    assert table.columns[2].tolerance == 0


def test_cells_come_back_from_any_scale(table):
    for version in (table, table.standardised()):
        assert version.text()[1] == ["50", "f", "farm", "13.5"]
    assert abs(float(table.standardised().rows[:, 0].mean())) < 1e-6


def test_amounts_in_the_millions_survive_the_scale(write):
    text = "amount,class\n" + "".join(
        f"{1_000_000 + 17 * i * i},{'ab'[i % 2]}\n" for i in range(30)
    )
    table = read_table(write(text), "class", tolerance=0)
    assert table.standardised().text() == table.text()
    assert table.standardised().score(table.standardised().rows).mean("row") == 1


def test_the_blind_guess_is_the_most_frequent_and_the_median(table):
    row = table.text(table.typical()[None])[0]
    assert row == ["38", "f", "office", "40.0"]  # two categories as frequent: the first
    scaled = table.standardised()
    assert scaled.text(scaled.typical()[None])[0] == row


def test_scores_by_hand(table):
    rebuilt = table.rows.clone()
    rebuilt[0, 0] += 0.4  # rounds to the right age
    rebuilt[1, 0] += 2.0  # does not
    rebuilt[2, 1:3] = torch.tensor([0.2, 0.1])  # another sex
    rebuilt[3] = torch.nan
    scores = table.score(rebuilt, matched=False)
    assert scores.values["cells"].tolist() == [1, 0.75, 0.75, 0, 1, 1]
    assert scores.values["row"].tolist() == [1, 0, 0, 0, 1, 1]
    assert scores.most_exposed("cells", 3) == [0, 4, 5]
    turned = table.score(table.rows.flip(0))
    assert turned.order.tolist() == [5, 4, 3, 2, 1, 0]
    assert turned.mean("row") == 1


def test_a_number_within_its_tolerance_is_right(write):
    table = read_table(write(), "income", tolerance=1.0)
    near, far = table.rows.clone(), table.rows.clone()
    near[:, 0] += 8  # the standard deviation is 8.4
    far[:, 0] += 9
    assert table.score(near, matched=False).mean("cells") == 1
    assert table.score(far, matched=False).mean("cells") == 0.75


def many(write):
    lines = ["age,sex,work,class"]
    for i in range(200):
        work = ("office", "farm", "shop", "mine")[i * i % 7 % 4]
        lines.append(f"{20 + i * 37 % 61},{'mf'[i % 2]},{work},{'ab'[i % 3 > 0]}")
    return write("\n".join(lines), "many.csv")


def test_gains_over_the_blind_guess(write):
    path = many(write)
    train, test = load_records(f"{path}#class"), load_records(f"{path}#class", "test")
    victims, public = test, train.without(test)
    floor = victims.blind(public, victims.labels)
    assert floor.scores.mean("cells") < 0.8
    copied = gains(victims.score(victims.rows), floor.scores)
    assert copied["cells"].beats_guessing
    assert copied["row"].value == pytest.approx(1 - floor.scores.mean("row"))


def test_values_are_hidden_by_default(table):
    rebuilt = table.rows.clone()
    rebuilt[:, 0] += 5
    shown = table.show(rebuilt, most=1, matched=False)[0]
    assert shown.original is None
    assert json.loads(shown.rebuilt) == {
        "columns": ["age", "sex", "work", "hours"],
        "cells": None,
        "right": [False, True, True, True],
    }
    open_ = table.show(rebuilt, most=1, matched=False, reveal=True)[0]
    assert json.loads(open_.original)["cells"] == ["39", "m", "office", "40.0"]
    assert json.loads(open_.rebuilt)["cells"] == ["44", "m", "office", "40.0"]


def test_splits_and_options(write):
    path = many(write)
    train, test = (load_records(path, part, target="class") for part in ("train", "test"))
    whole = load_records(f"{path}#class", "all")
    assert (len(train), len(test), len(whole)) == (160, 40, 200)
    assert isinstance(train, TableSet)
    assert train.columns == test.columns
    other = load_records(path, target="class", test_fraction=0.5, seed=1)
    assert len(other) == 100
    with pytest.raises(ValueError, match="size is not an option of a table .*: it has target"):
        load_records(path, target="class", size=3)
    with pytest.raises(ValueError, match="holds rows of a table, and images are needed here"):
        load(f"{path}#class")


def test_another_delimiter_a_mark_at_the_start_and_quotes(write):
    text = '\ufeffname;n;class\n"a;\nb";1;x\nc;2;y\n\n"a;\nb";5;x\n'
    table = read_table(write(text), "class", delimiter=";")
    assert [column.name for column in table.columns] == ["name", "n"]
    assert table.text()[0] == ["a;\nb", "1"]


def test_parquet(write, tmp_path):
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    content = {"age": [39, 50, 38], "sex": ["m", "f", None], "income": ["a", "b", "a"]}
    parquet.write_table(arrow.table(content), tmp_path / "p.parquet")
    table = load_records(f"{tmp_path / 'p.parquet'}#income", "all", categorical=["sex"])
    assert table.text() == [["39", "m"], ["50", "f"], ["38", ""]]
    (tmp_path / "bad.parquet").write_text("no")
    with pytest.raises(ValueError, match="cannot be read as Parquet"):
        load_records(f"{tmp_path / 'bad.parquet'}#income")


def test_a_category_that_a_split_lacks_is_still_a_feature(write):
    text = "a,b,class\n" + "".join(
        f"{i % 2},{'xyz'[i % 3 if i < 20 else 0]},{i % 2}\n" for i in range(30)
    )
    table = read_table(write(text), "class", categorical=["a"])
    assert table.subset(slice(21, 30)).shape == table.shape == (5,)
    part = table.subset(slice(20, 30))
    assert part.standardised().text() == part.text()


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("a,b\n1,2\n3\n", {}, "row 3 has 1 cells where the heading has 2"),
        ("a,b\n1,2\n\n3,4,5\n", {}, "row 4 has 3 cells where the heading has 2"),
        ("a,b\n1,x\n1,y\n1,x\n", {}, "column 'a' has the same value in every row: drop it"),
        ("a,b\n1.0,x\n1,y\n1,x\n", {}, "column 'a' has the same value in every row: drop it"),
        ("a,b\nj,x\nk,y\nl,x\n", {}, "column 'a' is different in every row: drop it"),
        ("a,b\n7,x\n8,y\n9,x\n", {}, "column 'a' numbers the rows: drop it"),
        ("a,b\n7,x\n\n9,\n9,x\n", {}, "row 4, column 'b' is the target and is empty there"),
        ("a,b\n7,x\n9,x\n", {}, "column 'b' is the target and has one class only"),
        ("a,b\n7,x\n9,y\n", {}, "column 'b' is the target and has 2 values: it must hold classes"),
        ("a,b\n7,x\n,y\n9,x\n", {}, "row 3, column 'a' holds numbers, and '' there: fill it"),
        ("a,b\n7,x\n9,y\nnan,x\n", {}, "row 4, column 'a' holds numbers, and 'nan' there"),
        (
            "a,b\nu,x\nv,y\nu,x\n",
            {"numeric": ["a"]},
            "row 2, column 'a' must hold numbers, got 'u'",
        ),
        ("a,b\n7,x\n9,y\n4,x\n", {"target": None}, r"which column holds the class\?"),
        ("a,b\n7,x\n9,y\n4,x\n", {"target": "c"}, "has no column 'c': it has a, b"),
        ("a,b\n7,x\n9,y\n4,x\n", {"drop": ["c"]}, "has no column 'c'"),
        ("a,b\n7,x\n9,y\n4,x\n", {"drop": ["a"]}, "has no column but the target 'b'"),
        ("a,b\n7,x\n9,y\n4,x\n", {"drop": ["b"]}, "column 'b' can have one role only"),
        ("a,a,b\n7,1,x\n9,1,y\n", {}, "every column needs a heading of its own, got 'a'"),
        ("a,b\n", {}, "must have a heading and at least two rows"),
        ("", {}, "must have a heading and at least two rows"),
        ('a,b\n"7,x\n', {}, "cannot be read as CSV"),
        ("a,b\n7,x\n9,y\n4,x\n", {"delimiter": ",,"}, "delimiter must be one character"),
        ("a,b\n7,x\n9,y\n4,x\n", {"tolerance": -1}, "tolerance must be 0 or more"),
    ],
)
def test_refused_in_one_line(write, text, options, message):
    path = write(text)
    with pytest.raises(ValueError, match=message) as caught:
        read_table(path, **{"target": "b", **options})
    assert "\n" not in str(caught.value)
    if not options:
        assert str(path) in str(caught.value)


def test_files_that_are_not_there_or_no_text(write, tmp_path):
    with pytest.raises(ValueError, match="there is no table .*nowhere.csv"):
        load_records(f"{tmp_path}/nowhere.csv#a")
    path = write()
    path.write_bytes(b"a,b\n\xff\xfe,1\n")
    with pytest.raises(ValueError, match="cannot be read as CSV in UTF-8"):
        read_table(path, "b")


def test_the_file_and_the_column_may_have_a_hash_in_their_names(write, tmp_path):
    (tmp_path / "a#b").mkdir()
    path = write(ROWS.replace("income", "in#come"), "a#b/p#q.csv")
    assert load_records(f"{path}#in#come", "all").classes == ("high", "low")
    with pytest.raises(ValueError, match="which column holds the class"):
        load_records(path)
