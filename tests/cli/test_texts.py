"""Texts on the command line: columns of a comparison, the form of the issue, what is shown."""

import warnings

import pytest

from recondite.cli.main import run
from recondite.report.ladder import VIEWS
from recondite.studies.runner import compare
from recondite.studies.source import read
from recondite.studies.study import check_source


def said(capsys, *words):
    code = run(list(words))
    out, err = capsys.readouterr()
    return code, out, err


@pytest.fixture(scope="module")
def finished(transformer, reviews, tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")
    path = folder / "study.yaml"
    path.write_text(
        f"""name: notes
data: "{reviews}#text,label"
model: {transformer("gpt2")}
training: {{epochs: 1, batch_size: 16}}
defences:
  - {{name: none}}
  - {{name: gaussian, noise_multiplier: [2.0]}}
attacks:
  - {{name: span-check, images: 6, batch_size: 1}}
""",
        encoding="utf-8",
    )
    study = check_source(read(path), None)[0]
    compare(study, folder / "run", workers=1)
    return folder / "run"


def test_a_comparison_of_texts_has_the_columns_of_texts(finished, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "260")
    code, out, _ = said(capsys, "compare", str(finished), "--threat", "update")
    assert code == 0
    for column in ("tokens", "ROUGE-1", "ROUGE-2", "ROUGE-L", "passage"):
        assert column in out
    assert "SSIM" not in out
    assert "no attack of this study answers" not in out


def test_a_threat_that_no_attack_answers_is_said_with_the_one_to_ask(finished, capsys):
    _, out, _ = said(capsys, "compare", str(finished), "--threat", "model")
    assert "no attack of this study answers threat model" in " ".join(out.split())
    assert "try --threat update" in " ".join(out.split())
    assert ("update", "secret") in VIEWS


def test_the_report_has_rouge_and_no_pixels(finished, tmp_path):
    from recondite.report import build

    page = build([finished], tmp_path / "report.html").read_text(encoding="utf-8")
    table = page[page.index('<table class="results">') :].split("</table>")[0]
    for column in ("Tokens in place", "ROUGE-1", "ROUGE-2", "ROUGE-L", "Longest exact passage"):
        assert f">{column}<" in table
    assert "SSIM" not in table
    assert "MSE" not in table


def test_reveal_shows_texts_with_what_is_right_marked(transformer, reviews, capsys):
    words = ["attack", "span-check", "--data", f"{reviews}#text,label", "--images", "2"]
    words += ["--model", transformer("gpt2")]
    _, out, _ = said(capsys, *words)
    assert "texts are hidden: --reveal shows them" in out
    assert "original:" not in out
    _, out, _ = said(capsys, *words, "--reveal")
    assert "rebuilt: [" in out
    assert "original: [" in out


def test_texts_are_shown_and_columns_named_text_and_label_need_no_naming(
    transformer, reviews, capsys
):
    code, out, _ = said(capsys, "data", "show", str(reviews), "--model", transformer("bert"))
    assert code == 0
    assert "60 texts" in out
    assert "tokens of a text: 6 to 9" in out
    assert "class 0: 30 texts" in out


def test_other_columns_are_to_be_named(transformer, tmp_path, capsys):
    path = tmp_path / "notes.csv"
    path.write_text("note,ward\ngood film,a\nbad film,b\n", encoding="utf-8")
    code, _, err = said(capsys, "data", "show", str(path), "--model", transformer("bert"))
    assert code == 2
    assert "name their columns as notes.csv#TEXT,LABEL; it has note, ward" in err
    assert err.count("\n") == 1


def test_layers_of_a_folder_need_no_shape(transformer, capsys):
    code, out, _ = said(capsys, "layers", transformer("bert"))
    assert code == 0
    assert "fast" in out
    code, out, _ = said(capsys, "layers", transformer("bert"), "--adapter", "lora:4")
    assert code == 0


def test_a_warning_of_ours_is_one_line(capsys, monkeypatch):
    from recondite.cli import data

    def warned(*_, **__):
        warnings.warn_explicit("layer x is slow", UserWarning, data.__file__, 1)
        raise ValueError("enough")

    monkeypatch.setattr("recondite.records.load_records", warned)
    code, _, err = said(capsys, "data", "show", "digits")
    assert code == 2
    assert err == "recondite: layer x is slow\nrecondite: enough\n"


def test_every_metric_names_its_own_guess_only():
    from recondite.records.display import guess_of

    both = "tokens: most frequent tokens, rougeL: best public record"
    assert guess_of(both, "rougeL") == "best public record"
    assert guess_of("best public record", "rougeL") == "best public record"
