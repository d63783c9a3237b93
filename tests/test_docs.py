"""What pages promise is there: notebooks run, names resolve, formulas typeset, numbers stored."""

import ast
import importlib
import json
import re
import sys
import tokenize
from math import ceil, floor
from pathlib import Path

import matplotlib
import pytest

import recondite as rc

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
README = ROOT / "README.md"
PAGES = [README, *sorted(DOCS.rglob("*.md"))]
# Pages for people who come for the first time.
FIRST = [README, *(DOCS / name for name in ("index.md", "one-answer.md", "privacy-officers.md"))]


def text(path):
    return path.read_text(encoding="utf-8")


def cells(name):
    book = json.loads(text(DOCS / "notebooks" / name))
    return [cell for cell in book["cells"] if cell["cell_type"] == "code"]


def run(name):
    """The names that a notebook's cells leave behind, run in order in one namespace."""
    matplotlib.use("Agg")
    names = {}
    for number, cell in enumerate(cells(name)):
        exec(compile("".join(cell["source"]), f"{name}[{number}]", "exec"), names)
    return names


def test_notebooks_are_stored_without_outputs():
    books = sorted(path.name for path in (DOCS / "notebooks").glob("*.ipynb"))
    assert books == ["attack-and-compare.ipynb", "train-and-account.ipynb"]
    for book in books:
        assert all(not cell["outputs"] and cell["execution_count"] is None for cell in cells(book))
        assert f"notebooks/{book}" in text(DOCS / "notebooks.md")


def test_the_notebook_that_trains():
    names = run("train-and-account.ipynb")
    assert names["account"].rero["bound"] <= 0.3
    assert names["undefended"].get_epsilon(delta=names["delta"]) == float("inf")
    assert names["accuracy_without"] > names["accuracy_with"] > 0.3


def test_the_notebook_that_attacks():
    names = run("attack-and-compare.ipynb")
    errors, bounds = names["errors"], names["bounds"]
    assert errors["no defence"] < 0.01 < errors["guess"] < errors["σ = 1.23"]
    assert bounds["no defence"] == bounds["σ = 0.01"] == 1
    assert 0.1 < bounds["σ = 1.23"] < 0.4


def test_the_api_page_has_every_public_name_and_no_other():
    entries = re.findall(r"^::: (\S+)$", text(DOCS / "reference/api.md"), re.MULTILINE)
    assert {f"recondite.{name}" for name in rc.__all__} - set(entries) == {"recondite.__version__"}
    for entry in entries:
        module, _, name = entry.rpartition(".")
        assert getattr(importlib.import_module(module), name).__doc__, entry


@pytest.fixture
def typeset(monkeypatch):
    pytest.importorskip("latex2mathml")
    pytest.importorskip("markdown")
    monkeypatch.syspath_prepend(DOCS)
    yield importlib.import_module("typeset")
    sys.modules.pop("typeset")


def test_every_formula_is_typeset(typeset):
    found = {page: typeset.formulas(text(page)) for page in PAGES}
    assert sum(map(len, found.values())) > 20
    for page, formulas in found.items():
        for latex in formulas:
            made = typeset.mathml(latex)
            assert made.count("<math ") == 1, page
            assert not re.search(r"\\|&amp;|&#x00026;", made), (page, latex)


def test_indices_and_powers_in_prose(typeset):
    from markdown import markdown

    made = markdown(
        "A_p(κ) ≤ e^{−ε} and Q^(T−t), not max_batch_size, `C_i`", extensions=[typeset.Typeset()]
    )
    assert "A<sub>p</sub>" in made
    assert "e<sup>−ε</sup>" in made
    assert "Q<sup>T−t</sup>" in made
    assert "max_batch_size" in made
    assert "<code>C_i</code>" in made


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files(page):
    prose = re.sub(r"```.*?```", "", text(page), flags=re.DOTALL)
    for link in re.findall(r"\]\(([^)\s#]+)", prose):
        if not re.match(r"[a-z]+:", link):
            assert (page.parent / link).exists(), link


def test_the_first_screen_shows_what_the_demo_answered():
    readme, stored = text(README), json.loads(text(ROOT / "results/demo.json"))
    first = readme.split("\n## ")[0]
    assert len(first.splitlines()) <= 32
    for line in stored["answer"]:
        assert line in first
        assert line in text(DOCS / "howto/compare.md")
    tiles = DOCS / "images/tiles.png"
    assert "docs/images/tiles.png" in first
    assert tiles.stat().st_size < 200_000


def test_one_answer_prints_what_is_stored():
    page = text(DOCS / "one-answer.md")
    settings = json.loads(text(ROOT / "results/identification.json"))["settings"]
    lines = {
        "gaussian-1.23": "Gaussian, σ = 1.23",
        "gaussian-0.5": "Gaussian, σ = 0.5",
        "gaussian-0.1": "Gaussian, σ = 0.1",
        "vmf-500": "VMF, κ = 500",
        "vmf-5000": "VMF, κ = 5,000",
    }
    for key, label in lines.items():
        found = settings[key]
        rate = found["success"]["secret"]["10"]
        low, high = floor(1000 * rate["low"]) / 10, ceil(1000 * rate["high"]) / 10
        bound = ceil(1000 * found["bound"]["secret"]["10"]) / 10
        measured = f"{100 * rate['rate']:.1f}% ({low}–{high}%)"
        accuracy = floor(100 * found["accuracy"])
        assert f"| {accuracy}% | {label} | {measured} | {bound:.4g}% |" in page
    trained = json.loads(text(ROOT / "results/training-accuracy.json"))["rows"]
    for name, label in (("mnist", "MNIST"), ("fashion-mnist", "Fashion-MNIST")):
        means = {row["defence"]: f"{row['mean']:.1f}%" for row in trained if row["data"] == name}
        shown = " | ".join(means[defence] for defence in ("none", "gaussian 1.23", "vmf 500"))
        assert f"| {label} | {shown} |" in page
    spread = {row["defence"]: row["test_accuracy"] for row in trained if row["data"] == "mnist"}
    for defence in ("none", "gaussian 1.23", "vmf 75"):
        low, high = min(spread[defence]), max(spread[defence])
        assert f"{low:.1f}–{high:.1f}% " in text(DOCS / "performance.md")


def test_nothing_is_called_what_only_a_court_can_call_it():
    for page in FIRST:
        assert not re.search(r"anonym|complian", text(page), re.IGNORECASE), page


@pytest.mark.parametrize("page", FIRST, ids=lambda page: page.name)
def test_sentences_are_short(page):
    prose = re.sub(r"```.*?```|<[^>]+>|^[|#!].*$", "", text(page), flags=re.DOTALL | re.MULTILINE)
    prose = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", prose)
    for paragraph in re.split(r"\n\s*\n|\n- |\n\d+\. ", prose):
        for sentence in re.split(r"[.!?:;](?=\s|$)", " ".join(paragraph.split())):
            assert len(sentence.split()) <= 25, sentence


WORDS = r"first weights|blind guess has|area under the curve|which less noise does not do by itself"


# Of prose alone: code keeps the names that it has, and files theirs.
PROSE = (
    r"\bpictures?\b|(?<!standard )\bdeviations?\b|\bstrength C\b|\bbound C\b|\btape of messages\b"
)


def prose(page):
    """A page without its code, links and file names, its lines joined."""
    plain = re.sub(r"```.*?```|`[^`]*`|<[^>]+>|\]\([^)]*\)", " ", text(page), flags=re.DOTALL)
    return " ".join(plain.split())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_words_of_the_field(page):
    assert not re.search(WORDS, text(page), re.IGNORECASE)
    assert re.findall(rf".{{40}}(?:{PROSE})", prose(page), re.IGNORECASE) == []


def said(path):
    """Comments and docstrings of a module, each with its lines joined."""
    tree = ast.parse(text(path))
    kinds = ast.Module, ast.ClassDef, ast.FunctionDef
    for node in ast.walk(tree):
        if isinstance(node, kinds) and (found := ast.get_docstring(node)):
            # What is tried, what is quoted and what an argument is called is code.
            plain = re.sub(
                r"``[^`]*``|^ *(>>>|\.\.\.) .*$|^ *\w+: ", " ", found, flags=re.MULTILINE
            )
            yield " ".join(plain.split())
    with path.open(encoding="utf-8") as file:
        for token in tokenize.generate_tokens(file.readline):
            if token.type == tokenize.COMMENT:
                yield token.string


@pytest.mark.parametrize("folder", ["src/recondite", "papers/src/recondite_papers"])
def test_code_speaks_the_field_s_words_too(folder):
    found = [
        f"{path}: {line}"
        for path in (ROOT / folder).rglob("*.py")
        for line in said(path)
        if re.search(WORDS, line, re.IGNORECASE) or re.search(PROSE, line, re.IGNORECASE)
    ]
    assert found == []


def test_every_finding_of_the_review_names_tests_that_there_are():
    lines = text(DOCS / "reviewed.md").splitlines()
    rows = [line for line in lines if re.match(r"\| (low|[248]|[CHMW]\d+) \|", line)]
    ids = {row.split("|")[1].strip() for row in rows}
    wanted = {f"W{n}" for n in range(1, 25)} | {f"M{n}" for n in range(1, 12)}
    assert ids >= wanted | {f"H{n}" for n in range(1, 5)} | {"C1"}
    tests = Path(__file__).parent
    for row in rows:
        named = re.findall(r"`((?:\w+/)*test_\w+\.py)::(\w+)`", row)
        assert named, row
        for path, name in named:
            source = (tests / path).read_text(encoding="utf-8")
            assert re.search(rf"^ *def {name}\(", source, re.MULTILINE), f"{path}::{name}"
