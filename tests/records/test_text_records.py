"""Texts: read from files, refused by row, scored, and shown without giving away."""

import json

import pytest
import torch

from recondite.records import TextSet, kind_of, load_records, read_texts
from recondite.records.display import RIGHT, display
from recondite.testing import check_records


@pytest.fixture
def texts(reviews, tokenizer):
    return read_texts(f"{reviews}#text,label", tokenizer)


def test_texts_are_ids_padded_at_their_end(texts, tokenizer):
    assert isinstance(texts, TextSet)
    assert repr(texts) == "TextSet(reviews: 60 texts of at most 9 tokens, 2 classes)"
    first = [int(x) for x in texts.tokens[0] if x >= 0]
    assert first[0] == tokenizer.cls_token_id
    assert first[-1] == tokenizer.sep_token_id
    assert texts.decoded()[0].endswith("bad")
    assert texts.labels.tolist()[:4] == [0, 1, 0, 1]


def test_texts_keep_the_contract_of_records(texts):
    check_records(texts)


def test_json_lines_and_folders_hold_the_same_texts(texts, tmp_path, tokenizer):
    rows = zip(texts.decoded(), texts.labels.tolist(), strict=True)
    lines = [json.dumps({"text": text, "label": label}) for text, label in rows]
    (tmp_path / "r.jsonl").write_text("\n".join(lines), encoding="utf-8")
    for number, text in enumerate(texts.decoded()):
        folder = tmp_path / "folder" / str(int(texts.labels[number]))
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number:02}.txt").write_text(text, encoding="utf-8")
    lined = read_texts(str(tmp_path / "r.jsonl"), tokenizer)
    assert torch.equal(lined.tokens, texts.tokens)
    foldered = read_texts(str(tmp_path / "folder"), tokenizer)
    assert sorted(foldered.tokens.tolist()) == sorted(texts.tokens.tolist())
    for data in (tmp_path / "r.jsonl", tmp_path / "folder", "a.csv#text,label", "b.jsonl#t,l"):
        assert kind_of(str(data)).name == "texts"
    (tmp_path / "t.csv").write_text('x,"a,b"\n1,2\n', encoding="utf-8")
    assert kind_of(f"{tmp_path / 't.csv'}#a,b").name == "tables"  # a column of that very name


def test_one_text_a_person_makes_the_unit_a_person(reviews, tokenizer):
    people = read_texts(f"{reviews}#text,label,who", tokenizer)
    assert (len(people), people.left_out, people.unit) == (25, 35, "person")
    assert "35 further texts left out" in people.caveats[-1]
    assert people.summary()["unit"] == "person"


def test_splits_come_from_the_model_s_tokenizer(reviews, transformer):
    data, model = f"{reviews}#text,label", transformer("bert")
    train, test = (load_records(data, part, model=model) for part in ("train", "test"))
    assert (len(train), len(test)) == (48, 12)
    cut = load_records(data, "test", model=transformer("bert"), truncate=5)
    assert cut.shape == (5,)


@pytest.mark.parametrize(
    ("content", "columns", "said"),
    [
        ("text,label\na b,0\nc,1,2\n", "text,label", "row 3 has 3 cells where the heading has 2"),
        ("text,label\na b,0\nc,1\n", "text,class", "row 2 has no column 'class'"),
        ("text,label\ngood film,0\n  ,1\nbad,1\n", "text,label", "row 3 has an empty text"),
        ("text,label\ngood,0\nbad,\nso,1\n", "text,label", "row 3 has no label"),
        ("text,label\ngood,0\nbad,0\n", "text,label", "must be 2 to 1,000 classes"),
        (f"text,label\ngood,0\n{'so ' * 40},1\nbad,1\n", "text,label", "row 3 has 42 tokens"),
        ("text,label\ngood,0\nqwe xyz,1\nbad,1\n", "text,label", "row 3 has no token"),
        ("text,label,who\ngood,0,a\nbad,1,\nso,1,b\n", "text,label,who", "row 3 names no person"),
        ("text,label\ngood,0\nbad,1\nso,1\n", "text,text", "name the columns as"),
    ],
)
def test_what_cannot_be_used_is_refused_with_its_row(tmp_path, tokenizer, content, columns, said):
    path = tmp_path / "t.csv"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ValueError, match="t.csv") as error:
        read_texts(f"{path}#{columns}", tokenizer)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_json_that_is_none_is_refused_with_its_row(tmp_path, tokenizer):
    path = tmp_path / "t.jsonl"
    path.write_text('{"text": "good", "label": 1}\nnope\n', encoding="utf-8")
    with pytest.raises(ValueError, match="row 2 is no JSON"):
        read_texts(str(path), tokenizer)
    path.write_text('{"text": ["good"], "label": 1}\n', encoding="utf-8")
    with pytest.raises(ValueError, match="row 1 must be an object of plain values"):
        read_texts(str(path), tokenizer)


def test_texts_need_a_transformers_model_and_others_no_truncation(reviews):
    with pytest.raises(ValueError, match="texts need a Transformers model"):
        load_records(f"{reviews}#text,label", model="mlp")
    with pytest.raises(ValueError, match="nothing is downloaded"):
        load_records(f"{reviews}#text,label", model="hf:./nowhere")
    with pytest.raises(ValueError, match="truncate is for texts"):
        load_records("digits", truncate=8)


def test_right_tokens_are_marked_and_nothing_private_is_shown(texts):
    original = texts.tokens[0]
    rebuilt = original.clone()
    rebuilt[2] = (rebuilt[2] - 4 + 1) % 20 + 4  # another word
    true, found = texts.rendered(rebuilt, original, reveal=True)
    assert found.decode().startswith(RIGHT[0])
    assert true.decode().count(RIGHT[0]) == found.decode().count(RIGHT[0]) == 2
    assert "<mark>" in display(texts.media, found)
    assert texts.rendered(rebuilt, original, reveal=False) == (None, None)
    scores = texts.compare(rebuilt[None], original[None])
    words = len(texts.texts(original[None])[0])
    assert float(scores["tokens"]) == pytest.approx((words - 1) / words)


def test_the_typical_text_has_the_most_frequent_token_of_each_place(texts):
    column = texts.tokens[:, 1].long()
    assert int(texts.typical()[1]) == int(column.mode().values)
