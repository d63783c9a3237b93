"""The plain voice, and the one person whom the first screen shows."""

import dataclasses
import json
import math
import re

import numpy as np
import pytest
import synthetic

from recondite import report
from recondite.defences import defences
from recondite.report import words
from recondite.report.answer import Answers
from recondite.report.gallery import contents
from recondite.report.markers import marker
from recondite.report.person import _by, _made_from, people
from recondite.report.plain import TERMS, explained, fewer, limit_of, plain_label, plain_name
from recondite.report.rows import read_runs


@pytest.mark.parametrize(
    ("value", "said"),
    [(0.3, "3 in 10"), (0.3001, "3.1 in 10"), (0.322, "3.3 in 10"), (1, "10 in 10")],
)
def test_limits_in_ten_are_rounded_up(value, said):
    assert words.in_ten_at_most(value) == said
    assert limit_of(value) == ("no limit is proven" if value == 1 else f"never more than {said}")


def test_no_limit_is_ever_below_its_bound():
    for value in np.random.default_rng(0).uniform(0, 1, 2000):
        for count in (10, 100, 1000):
            shown = float(words.in_ten_at_most(value, count).split(" in ")[0].replace(",", ""))
            assert shown / count >= value - 1e-9
    assert words.in_ten(0.034, 100) == "3 in 100"
    assert words.in_ten_span(0.0149, 0.271) == "0.1 to 2.8 in 10"


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (0.15306, 0.27298, ("15%", "28%")),  # as the page in tens, "1.5 to 2.8"
        (0.0, 0.013, ("0%", "1.3%")),
        (0.0129, 0.0671, ("1.2%", "6.8%")),
        (0.9817, 1.0, ("98%", "100%")),
        (0.9949, 0.99991, ("99%", "100%")),
        (0.1, 0.3, ("10%", "30%")),  # what binary fractions cannot say is no excess
    ],
)
def test_ends_of_an_interval_are_rounded_outwards(low, high, said):
    assert words.chance_ends(low, high) == said


def test_no_interval_is_ever_narrowed():
    for low, wide in np.random.default_rng(0).uniform(0, 1, (2000, 2)):
        ends = words.chance_ends(low**4, low**4 + wide * (1 - low**4))
        shown = [float(end[:-1]) / 100 for end in ends]
        assert shown[0] <= low**4 + 1e-9
        assert shown[1] >= low**4 + wide * (1 - low**4) - 1e-9


def test_every_term_is_one_line_and_plain():
    for line in TERMS.values():
        assert len(line) < 100
        assert not set("εδσκ≤") & set(line)


def test_every_kind_of_defence_is_explained_in_its_own_sentence(some):
    known = defences()
    assert {"gaussian", "vmf", "directional", "natural-channel", "none", "clip"} <= known.keys()
    said = {name: one.explanation for name, one in known.items() if one.explanation}
    ours = {name for name, one in known.items() if one.make.__module__.startswith("recondite.")}
    assert ours <= said.keys()
    assert len(set(said.values())) == len(said)
    for line in said.values():
        assert len(line) < 100
        assert not set("εδσκ≤") & set(line)
    (gaussian,) = (p for p in Answers.of(read_runs(some[0])).points if p.defence == "gaussian")
    assert explained(gaussian).endswith("A larger number is more noise.")
    assert fewer(6.42) == "6.4 in 100 fewer"
    assert fewer(-0.3) == "0.3 in 100 more"


def test_every_term_and_every_defence_is_explained_on_the_page(some, tmp_path):
    html = report.build([some[0]], tmp_path / "r.html").read_text(encoding="utf-8")
    for line in TERMS.values():
        assert f">{line}</span>" in html, line
    named = set(re.findall(r'class="[^"]*\bmeans\b[^"]*" aria-describedby="(means-\d+)"', html))
    assert named == {"means-0", "means-1"}
    for one in named:
        assert re.search(rf'id="{one}">[^<]{{20,}}<', html)


def test_names_without_symbols():
    assert plain_name("gaussian") == "Gaussian noise"
    assert plain_name("none") == "Undefended"
    assert plain_name("a-strangers", "Strange λ = 3") == "Strange λ"
    assert all(marker(shape, 0, 0).startswith("M") for shape in range(10))


@pytest.fixture(scope="module")
def some(tmp_path_factory):
    """A small run: undefended, and Gaussian noise at one strength."""
    folder = tmp_path_factory.mktemp("some")
    rows = [row for row in synthetic.modern_rows() if row["value"] in (None, 2.0)]
    rows = [row for row in rows if row["defence"] in ("none", "gaussian")]
    synthetic.pictures(folder, rows)
    return synthetic.write(folder, rows), rows


def test_the_person_is_the_one_whom_the_chosen_defence_protects_least(some):
    folder, rows = some
    answers = Answers.of(read_runs(folder))
    chosen = next(point for point in answers.points if point.defence == "gaussian")
    (person,) = people(answers, [chosen.index], show_private=False)
    made = next(r for r in rows if r["defence"] == "gaussian" and r["reconstruction"])
    best = int(np.argmax(made["reconstruction"]["ssim"]))
    original, bare, defended, guess = person.tiles
    with np.load(folder / made["reconstruction"]["gallery"]) as held:
        from recondite.report.gallery import _png

        assert original.content == _png(held["originals"][best])
        assert defended.content == _png(held["reconstructions"][best])
        assert guess.content == _png(held["guesses"][best])
    assert bare.content is not None
    assert plain_label(chosen) in defended.title
    assert defended.note in ("nearer than the guess, from one message",
                             "no nearer than the guess, from one message")  # fmt: skip
    assert "Inverting Gradients; threat update; untrained model; 1 record" in defended.figures
    pooled = {**made, "reconstruction": {**made["reconstruction"], "releases": 21.1}}
    seen = dataclasses.replace(contents(made, folder), row=pooled)
    assert _made_from(seen) == "from the whole training"
    assert "21 updates of the record" in _by(seen)
    assert guess.note == "told its kind, not the record"
    assert guess.figures.startswith("the class mean; SSIM ")


def test_what_is_said_keeps_to_its_bound_and_its_intruder(some):
    answers = Answers.of(read_runs(some[0]))
    view = ("training", "secret")
    (one,) = answers.ranked[view]
    said = answers.said(view, one)["plain"]
    bound = answers.standings[view][one.point].rero
    shown = float(said["chance"].rsplit("never more than ", 1)[1].split(" in")[0])
    assert shown / 10 >= bound
    assert shown == math.ceil(100 * bound - 1e-9) / 10
    assert "by guessing 1 in 10" in said["chance"]
    assert "An intruder who knows when your record was used" in said["uncovered"]
    assert "without a defence" in said["cost"]


@pytest.mark.parametrize(
    ("bound", "said", "plainly"),
    [
        (None, "100%", "(nothing is proven then)"),
        (1.0, "100%", "(nothing is proven then)"),
        (0.9908, "99.1%", "(next to nothing is proven then)"),
        (0.55, "55%", "(the limit is 5.5 in 10 then)"),
    ],
)
def test_a_weak_limit_is_a_limit_and_the_tiles_say_what_it_is_worth(some, bound, said, plainly):
    answers = Answers.of(read_runs(some[0]))
    view = ("training", "secret")
    (one,) = answers.ranked[view]
    stands = answers.standings["training", "known"]
    stands[one.point] = dataclasses.replace(stands[one.point], rero=bound, chances=())
    uncovered = answers.said(view, one)["plain"]["uncovered"]
    assert plainly in uncovered
    assert answers._told(view, one.point)[0] == f"; told when you took part: {said}"


def test_rows_of_a_table_and_hostile_contents_are_shown_as_text(some, tmp_path):
    rows = [json.loads(json.dumps(synthetic.plain(row))) for row in some[1]]
    (tmp_path / "run" / "gallery").mkdir(parents=True)
    for row in rows:
        made = row["reconstruction"]
        if made:
            cells = {"columns": ["age", "city"], "cells": ["41", "<img src=x onerror=alert(1)>"]}
            contents = [json.dumps(cells)] * made["images"]
            right = [json.dumps({**cells, "right": [True, False]})] * made["images"]
            np.savez(tmp_path / "run" / made["gallery"], media=np.array("application/json"),
                     originals=np.array(contents), reconstructions=np.array(right),
                     guesses=np.array(contents))  # fmt: skip
    run = synthetic.write(tmp_path / "run", rows)
    html = report.build([run], tmp_path / "r.html").read_text(encoding="utf-8")
    assert "<mark>41</mark>" in html
    assert "<img src=x" not in html
    assert html.count("could not be read") == 0
