"""Drafts, the process of a study, the runs that are open, and what is shown of them."""

import json
import threading
import time

import pytest
import synthetic
import yaml

from recondite._locks import Lock
from recondite.explore import drafts, watching, worker
from recondite.explore.question import Query, Refused
from recondite.explore.runs import Runs
from recondite.explore.stored import accurate, nearest
from recondite.report.rows import read_runs


def test_a_draft_is_the_built_in_study_with_what_was_chosen():
    text = drafts.draft({
        "name": "mine", "data": "digits", "epochs": "2", "seeds": "3", "records": "100",
        "defences": {"none": "", "gaussian": "0.5, 1"}, "attacks": ["membership-threshold"],
    })  # fmt: skip
    study = yaml.safe_load(text)
    assert study["defences"] == [
        {"name": "none"},
        {"name": "gaussian", "noise_multiplier": [0.5, 1.0]},
    ]
    assert (study["training"]["epochs"], study["training"]["records"], study["seeds"]) == (
        2,
        100,
        3,
    )
    assert [attack["name"] for attack in study["attacks"]] == ["membership-threshold"]
    assert "prepare" not in study


@pytest.mark.parametrize(
    ("form", "field"),
    [
        ({}, "defences"),
        ({"defences": {"wall": ""}}, "defences"),
        ({"defences": {"gaussian": ""}}, "defences"),
        ({"defences": {"gaussian": "much"}}, "defences"),
        ({"defences": {"none": ""}, "epochs": "-1"}, "epochs"),
    ],
)
def test_a_draft_with_a_mistake_says_where(form, field):
    with pytest.raises(Refused) as refused:
        drafts.draft(form)
    assert refused.value.field == field


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("data: [", "study.yaml:1"),
        ("data: digits\nmodel: mlp\ndefences: []\n", "defences"),
        ("data: my.module:load\nmodel: mlp\ndefences: [{name: none}]\n", "is code"),
        ("data: digits\nmodel: my.module:net\ndefences: [{name: none}]\n", "is code"),
        ("name: ../up\ndata: digits\nmodel: mlp\ndefences: [{name: none}]\n", "name"),
        ("x" * 300_000, "at most"),
    ],
)
def test_a_bad_study_is_refused_before_anything_is_written(tmp_path, text, line):
    with pytest.raises(Refused) as refused:
        drafts.begin(text, tmp_path / "out")
    assert refused.value.field == "yaml"
    assert line in str(refused.value)
    assert not (tmp_path / "out").exists()


def test_a_folder_of_something_else_is_left_alone(tmp_path):
    text = "name: mine\ndata: digits\nmodel: mlp\ndefences: [{name: none}]\n"
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("hello")
    with pytest.raises(Refused, match="is not empty"):
        drafts.begin(text, tmp_path)
    (tmp_path / "mine" / worker.SOURCE).write_text("other")
    with pytest.raises(Refused, match="another study"):
        drafts.begin(text, tmp_path)


def test_whether_a_study_is_at_work_is_seen_by_its_lock(tmp_path):
    assert not worker.running(tmp_path)
    (tmp_path / worker.PROGRESS).write_text('{"state": "running", "done": 3}')
    assert worker.progress_of(tmp_path) == {"state": "killed", "done": 3}
    lock = Lock(tmp_path / worker.LOCK)
    assert worker.running(tmp_path)
    assert worker.progress_of(tmp_path)["state"] == "running"
    drafts.stop(tmp_path)
    assert worker.progress_of(tmp_path)["state"] == "stopping"
    lock.release()
    (tmp_path / worker.PROGRESS).write_text("{torn")
    assert worker.progress_of(tmp_path) == {}
    with pytest.raises(Refused, match="recondite compare"):
        drafts.go_on(tmp_path)


def test_the_process_runs_a_study_and_says_where_it_is(tmp_path, monkeypatch):
    seen = []

    def compare(study, folder, workers, monitor):
        monitor.begin("runs", 2, 1)
        monitor.event(0, {"title": "first"}, {"type": "row", "row": {"status": "failed"}})
        monitor.event(0, {"title": "first"}, {"type": "done"})
        monitor.end()
        seen.append(worker.progress_of(tmp_path))
        raise RuntimeError("the disk\nis full")

    monkeypatch.setattr("recondite.studies.runner.compare", compare)
    monkeypatch.setattr("recondite.studies.study.read_study", lambda path: (None, None))
    assert worker.main(tmp_path) == 1
    assert seen[0]["state"] == "running"
    assert (seen[0]["done"], seen[0]["failed"], seen[0]["now"]) == (1, 1, "first")
    ended = worker.progress_of(tmp_path)
    assert (ended["state"], ended["line"]) == ("failed", "the disk is full")
    lock = Lock(tmp_path / worker.LOCK)
    monkeypatch.setattr(worker, "_TRIES", 1)
    assert worker.main(tmp_path) == 2
    lock.release()


def test_the_process_stops_when_asked(tmp_path, monkeypatch):
    def compare(study, folder, workers, monitor):
        monitor.begin("runs", 1, 1)
        threading.Timer(0.2, lambda: drafts.stop(tmp_path)).start()
        time.sleep(30)

    monkeypatch.setattr("recondite.studies.runner.compare", compare)
    monkeypatch.setattr("recondite.studies.study.read_study", lambda path: (None, None))
    assert worker.main(tmp_path) == 130
    assert worker.progress_of(tmp_path)["state"] == "stopped"
    assert not (tmp_path / worker.STOP).exists()


def test_runs_keep_their_name_over_restarts(tmp_path, study):
    first, again = Runs(tmp_path / "out", [study]), Runs(tmp_path / "out", [study])
    assert first.listed()[0].id == again.listed()[0].id
    rows = study / "records.jsonl"
    assert Runs(tmp_path / "out", [rows]).listed()[0].path == rows
    with pytest.raises(ValueError, match="is not there"):
        Runs(tmp_path / "out", [tmp_path / "none"])
    with pytest.raises(Refused, match="not open"):
        first.find("none")
    # What lies in the folder of studies is listed too.
    assert [each.name for each in Runs(tmp_path).listed()] == ["games"]


def test_a_study_is_shown_with_its_ladder_images_and_alarms(tmp_path, study):
    opened = Runs(tmp_path / "out", [study]).listed()[0]
    found = watching.snapshot(opened)
    assert found["count"] == len(found["rows"]) == 45
    assert found["lines"]
    assert {one["rung"] for one in found["ladder"]} <= {"proven", "resisted", "untested", "broken"}
    assert found["ladder"][0]["rung"] == "proven"
    assert 0 < len(found["strips"]) <= watching.STRIPS
    assert found["alarms"] == []
    assert json.dumps(found, allow_nan=False)
    known = watching.snapshot(opened, ("training", "known"))
    assert known["ladder"] != found["ladder"]


def test_a_contradicted_claim_is_an_alarm(tmp_path):
    rows = synthetic.comparison_rows(seeds=1)
    next(r for r in rows if r["claims"] and r["defence"] == "vmf")["claims"][0]["lower"] = 99.0
    folder = synthetic.write(tmp_path / "broken", rows)
    found = watching.snapshot(Runs(tmp_path / "out", [folder]).listed()[0])
    assert len(found["alarms"]) == 1
    assert "yet membership attack shows at least 99" in found["alarms"][0]


def test_a_study_without_rows_is_shown_as_such(tmp_path):
    folder = tmp_path / "new"
    folder.mkdir()
    (folder / worker.SOURCE).write_text("name: new")
    found = watching.snapshot(Runs(tmp_path / "out", [folder]).listed()[0])
    assert (found["count"], found["rows"]) == (0, [])
    assert found["empty"]


def test_private_images_are_withheld(tmp_path):
    folder = tmp_path / "private"
    rows = synthetic.comparison_rows(seeds=1, public=False)
    synthetic.pictures(folder, rows)
    opened = Runs(tmp_path / "out", [synthetic.write(folder, rows)]).listed()[0]
    found = watching.snapshot(opened)
    assert found["strips"] == []
    assert found["withheld"] > 0
    assert watching.snapshot(opened, show_private=True)["strips"]


def test_the_nearest_stored_attack_is_named_with_how_it_differs(form, study):
    runs = read_runs([study])
    asked = Query.read(form(value="1.7", epochs="7"))
    found = nearest(asked, runs, show_private=False)
    assert found["label"] == "Gaussian σ = 2"
    assert found["differs"] == ["noise multiplier 2 there, 1.7 here", "epochs 10 there, 7 here"]
    exact = nearest(Query.read(form(value="2")), runs, show_private=False)
    assert exact["differs"] == []
    none = nearest(Query.read(form(defence="partitioned", value="2")), runs, show_private=False)
    assert none["found"] is False


def test_an_accuracy_takes_the_most_noise_that_a_run_measured(form, study):
    runs = read_runs([study])
    found = accurate(Query.read(form(lock="accuracy", target="0.5")), runs)
    assert found.mechanism.strength == 4.0
    vmf = accurate(Query.read(form(lock="accuracy", target="0.5", defence="vmf")), runs)
    assert vmf.mechanism.strength == 20.0
    with pytest.raises(Refused, match="solve for noise"):
        accurate(Query.read(form(lock="accuracy", target="0.5", solve="epochs")), runs)
    with pytest.raises(Refused, match="no open run"):
        accurate(Query.read(form(lock="accuracy", target="0.5")), [])


def test_an_attack_of_several_threats_is_offered_once():
    from recondite.explore.drafts import choices

    offered = choices()["attacks"]
    assert "strongest" in offered
    assert len(set(offered)) == len(offered)
