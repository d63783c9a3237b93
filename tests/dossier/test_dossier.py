"""What a dossier says of a run: bounds that hold, attacks with their power, and what is missing."""

import dataclasses
import json
import re
import shlex

import pytest
import synthetic
from scipy.stats import binomtest

from recondite import dossier
from recondite.cli.main import run
from recondite.dossier.attacks import log
from recondite.dossier.content import _listed, compose
from recondite.dossier.making import EVIDENCE, render
from recondite.dossier.source import read_source
from recondite.report.answer import Answers
from recondite.report.rows import read_runs

FORBIDDEN = re.compile(r"anonym|complian", re.IGNORECASE)


def made(source, out):
    folder, _ = dossier.make(source, out)
    page = (folder / "dossier.html").read_text(encoding="utf-8")
    return json.loads((folder / "dossier.json").read_text(encoding="utf-8")), page


@pytest.mark.parametrize("kind", ["study", "record"])
def test_a_dossier_has_every_part_and_judges_no_law(kind, request, tmp_path):
    data, page = made(request.getfixturevalue(kind), tmp_path / "out")
    assert data["schema"] == "recondite-dossier/1"
    assert data["finished"]
    for part in ("trained", "settings", "threats", "attacks", "not_covered", "search", "software",
                 "verify", "questions", "digests"):  # fmt: skip
        assert data[part], part
    for text in (page, json.dumps(data, ensure_ascii=False)):
        assert not FORBIDDEN.search(text)
    assert "<script" not in page
    assert "default-src &#39;none&#39;" in page
    anchors = set(re.findall(r'href="#([^"]+)"', page))
    assert anchors <= set(re.findall(r'id="([^"]+)"', page))
    assert not re.search(r'(?:href|src)="(?!#)', page)


def test_every_bound_is_rounded_up_and_every_measured_number_has_its_interval(study, tmp_path):
    data, _ = made(study, tmp_path / "out")
    promises = [one for setting in data["settings"] for one in setting["promises"]]
    assert len(promises) > 10
    for one in promises:
        shown = one["text"].replace("\u202f", "").replace(",", "")
        if re.fullmatch(r"[\d.]+", shown):
            assert float(shown) >= one["value"]
    for setting in data["settings"]:
        assert "95%" in setting["accuracy"] or "no interval" in setting["accuracy"]
    for trial in data["attacks"]:
        assert trial["power"]
        if trial["beats"] is not None:
            assert "95%" in trial["result"], trial


def test_each_setting_stands_against_every_threat_model(study, tmp_path):
    data, page = made(study, tmp_path / "out")
    views = {(one["threat"], one["participation"]) for one in data["threats"]}
    assert ("training", "known") in views
    for setting in data["settings"]:
        assert {(one["threat"], one["participation"]) for one in setting["against"]} == views
    none = next(one for one in data["settings"] if one["defence"] == "none")
    assert none["promises"] == []
    assert {one["promise"] for one in none["against"]} == {"Nothing is proven: no noise protects."}
    assert "whom the records are about" in page.lower()
    # Wide tables are scrolled, by keyboard too, and each is named once.
    regions = re.findall(
        r'<div class="wide" tabindex="0" role="region" aria-label="([^"]+)">', page
    )
    assert len(regions) == page.count('class="wide"') == len(set(regions)) > 4


def test_notions_are_called_by_their_names(study):
    dossier = compose(read_source(study), {})
    one = dataclasses.replace(
        dossier.settings[2], not_defined={"metric_privacy": "r", "a.stranger_notion": "s"}
    )
    page = render(dataclasses.replace(dossier, settings=(one,)))
    assert "<td>metric privacy</td>" in page
    assert "<td>a.stranger notion</td>" in page
    assert "in more than 100%" not in page


def test_a_rate_has_four_digits_and_settings_all_of_theirs():
    schedule = {"sampling": "poisson", "rate": 128 / 3602, "steps": 580}
    assert _listed("", schedule) == "sampling poisson, rate 0.03554, steps 580"
    told = _listed("gaussian", {"noise_multiplier": 1.25549})
    assert told == "gaussian: noise multiplier 1.25549"


def test_games_say_what_they_could_have_told(study):
    runs = read_runs([study])
    points = Answers.of(runs).points
    games = [trial for trial in log(runs[0], points) if "games" in trial.power]
    assert games
    least = next(
        hits for hits in range(400) if binomtest(hits, 400).proportion_ci(method="exact").low > 0.1
    )
    assert least == 53
    assert any("about 13% or more is told from a guess’s 10%" in trial.power for trial in games)


def test_what_failed_or_was_contradicted_is_in_the_log(tmp_path):
    rows = synthetic.modern_rows()
    broken = next(row for row in rows if row["defence"] == "gaussian" and row["attack"] != "none")
    broken["claims"] = [
        {"notion": "epsilon", "claim": 1.0, "lower": 2.5, "how": "canary audit",
         "confidence": 0.999, "about": "one step", "violated": False}
    ]  # fmt: skip
    rows.append({**broken, "key": "failed", "status": "failed", "reason": "out of memory",
                 "attack": "dlg", "claims": []})  # fmt: skip
    data, page = made(synthetic.write(tmp_path / "run", rows), tmp_path / "out")
    assert any("out of memory" in trial["result"] for trial in data["attacks"])
    assert any(trial["contradicts"] for trial in data["attacks"])
    assert any(setting["contradicted"] for setting in data["settings"])
    assert "do not rely on its bounds" in page
    assert any("1 row failed" in line for line in data["not_covered"])


def test_an_unfinished_study_says_so(study, tmp_path):
    lines = (study / "records.jsonl").read_text().splitlines()
    (study / "records.jsonl").write_text("\n".join(lines[:-3]) + "\n")
    data, page = made(study, tmp_path / "out")
    assert not data["finished"]
    assert data["rows_missing"] == 3
    assert "The run is not finished: 3 of" in page
    assert data["not_covered"][0] == data["status"]
    assert not any("study.yaml" in command for _, command in data["verify"])


def test_a_training_says_what_it_did_not_do(record, tmp_path):
    data, page = made(record, tmp_path / "out")
    assert data["kind"] == "training"
    (setting,) = data["settings"]
    assert setting["label"] == "Gaussian σ = 1.1"
    assert setting["noise"] == "from a cryptographic generator"
    (audit,) = data["attacks"]
    assert "showed at least 1.50 where 3.50 is claimed" in audit["result"]
    assert audit["power"] == "too weak to tell: it reached 43% of the claim"
    assert "not known to this record" in data["search"][0]
    asked = {one["question"]: one for table in data["questions"] for one in table["questions"]}
    member = next(one for text, one in asked.items() if "in the data at all" in text)
    assert not member["answered"]
    assert member["where"] == "not answered by this run"
    assert "not answered by this run" in page


def test_commands_of_a_dossier_give_its_bounds_again(record, tmp_path, capsys):
    data, _ = made(record, tmp_path / "out")
    (setting,) = data["settings"]
    capsys.readouterr()
    assert run([*shlex.split(setting["command"])[1:], "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    bounds = {one["key"]: one["value"] for one in setting["promises"]}
    assert again["epsilon"]["pld"] == bounds["epsilon"]
    assert again["rero"]["bound"] == bounds["rero_bound"]


def test_a_simulation_and_an_undefended_model_promise_nothing(training_record, tmp_path):
    path = tmp_path / "record.json"
    path.write_text(json.dumps(training_record(simulation=True)))
    data, page = made(path, tmp_path / "simulated")
    assert data["settings"][0]["simulation"]
    assert "this run is a simulation" in data["not_covered"][0]
    path.write_text(json.dumps(training_record(defended=False)))
    data, page = made(path, tmp_path / "plain")
    assert data["settings"][0]["promises"] == []
    assert data["settings"][0]["command"] is None
    assert "Nothing is promised" in page
    answered = [one for one in data["questions"][0]["questions"] if one["answered"]]
    assert {one["anchor"] for one in answered} == {"protected"}


def test_names_from_a_run_are_text(tmp_path):
    rows = [{**row, "label": '<img src=x onerror="1">'} for row in synthetic.modern_rows()]
    _, page = made(synthetic.write(tmp_path / "run", rows), tmp_path / "out")
    assert "<img" not in page


def test_four_documents_are_asked_and_questions_without_an_answer_stay(study, tmp_path):
    data, _ = made(study, tmp_path / "out")
    assert [table["key"] for table in data["questions"]] == [
        "nist-sp-800-226", "ico-motivated-intruder", "edpb-28-2024", "opendp-registry",
    ]  # fmt: skip
    for table in data["questions"]:
        answers = [one["answered"] for one in table["questions"]]
        assert True in answers
        assert False in answers
        assert all((one["anchor"] is None) != one["answered"] for one in table["questions"])


def test_evidence_is_handed_over_as_it_is(study, tmp_path):
    made(study, tmp_path / "out")
    for name in ("records.jsonl", "study.json"):
        assert (tmp_path / "out" / EVIDENCE / name).read_bytes() == (study / name).read_bytes()
    assert not list((tmp_path / "out").rglob("*.npz"))


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({}, "holds neither records.jsonl nor record.json"),
        ({"ledger.json": "{}"}, "has not finished"),
        ({"record.json": "{"}, "is no record of a training"),
        ({"record.json": '{"kind": "training"}'}, "has no data"),
        ({"record.json": '{"kind": "attack"}'}, "is no record of a training"),
        ({"records.jsonl": ""}, "no finished row yet"),
    ],
)
def test_what_is_no_run_is_refused_in_one_line(files, words, tmp_path, capsys):
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    assert run(["dossier", "make", str(tmp_path), "--out", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()
