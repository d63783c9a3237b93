"""recondite compare, demo and report, as they are typed."""

import json
import re

import pytest

from recondite.cli.dry_run import searched
from recondite.cli.main import run
from recondite.cli.monitor import Lines, _Count, duration
from recondite.studies.store import load

STUDY = """\
name: small
data: digits
model: mlp
prepare: none
defences:
  - name: none
  - name: gaussian
    noise_multiplier: 1.0
training: {epochs: 1, batch_size: 256}
attacks:
  - name: inverting-gradients
    images: 2
    steps: 2
"""


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A small study, run once."""
    folder = tmp_path_factory.mktemp("compare")
    (folder / "study.yaml").write_text(STUDY)
    out = folder / "run"
    code = run(
        ["-q", "compare", str(folder / "study.yaml"), "--out", str(out), "--workers", "1",
         "--parquet"]
    )  # fmt: skip
    return code, folder / "study.yaml", out


def test_a_study_runs_and_is_reported(finished, capsys):
    code, study, out = finished
    assert code == 0
    assert (out / "report.html").stat().st_size < 5_000_000
    assert len(load(out)) == 2
    assert run(["-q", "compare", str(study), "--out", str(out)]) == 0
    shown = capsys.readouterr().out
    assert "Undefended" in shown
    assert "Gaussian σ = 1" in shown
    assert "(2, 0 new" in shown
    assert "report: " in shown


def test_the_answer_comes_first_and_the_table_fits_a_terminal(finished, capsys, monkeypatch):
    import sys

    _, _, out = finished
    assert run(["compare", str(out)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines.index("") in (3, 4)
    assert lines[0].startswith(("Nothing tried protects at ", "Use "))
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    assert run(["compare", str(out)]) == 0
    plain = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
    table = plain.splitlines()[lines.index("") + 1 :]
    assert max(map(len, table)) <= 80
    assert "…" not in "".join(table)
    for name in ("rung", "accuracy", "ReRo", "of 10", "gain"):
        assert name in " ".join(table)
    legend = " ".join(table)
    assert re.search(r"ε at δ = [\d.]+( × 10⁻.)?: (add-or-remove-one|replace-one)", legend)
    assert "seconds" not in legend  # no column of it at this width


def test_a_gate_for_ci(finished, capsys):
    _, study, out = finished
    assert run(["compare", str(out), "--require", "epsilon<=1e9"]) == 0
    assert capsys.readouterr().out.startswith("met by Gaussian σ = 1: epsilon ")
    assert run(["compare", str(out), "--require", "epsilon<=1e-9", "--threat", "model"]) == 1
    assert "not met: the nearest, Gaussian σ = 1, has epsilon" in capsys.readouterr().out
    both = ["--require", "epsilon<=1e9", "--require", "accuracy>=0.999"]
    assert run(["-q", "compare", str(study), "--out", str(out), *both]) == 1
    shown = capsys.readouterr().out
    assert "accuracy" in shown.splitlines()[-1]
    assert run(["compare", str(out), "--json", *both]) == 1
    told = json.loads(capsys.readouterr().out)
    assert (told["met"], told["threat"], len(told["answer"])) == (False, "training", 3)
    assert told["rungs"]["Undefended"] in ("broken", "untested")
    report = ["report", str(out), "--out", str(out / "again.html")]
    assert run([*report, "--require", "epsilon<=1e9"]) == 0
    for wrong in (["--require", "eps<=8"], ["--threat", "server"], ["--participation", "maybe"]):
        assert run(["compare", str(out), *wrong]) == 2
        said = capsys.readouterr().err.strip()
        assert "\n" not in said
        assert wrong[0][2:] in said


def test_rows_are_read_with_pandas_in_one_line(finished):
    import pandas as pd

    _, _, out = finished
    table = pd.read_parquet(out / "records.parquet")
    assert list(table["defence"]) == ["none", "gaussian"]
    assert table["notions.epsilon"][0] == float("inf")
    assert pd.read_json(out / "records.jsonl", lines=True).shape[0] == 2


def test_a_dry_run_shows_the_grid_and_runs_nothing(finished, tmp_path, capsys):
    _, study, _ = finished
    assert run(["compare", str(study), "--out", str(tmp_path / "new"), "--dry-run"]) == 0
    shown = capsys.readouterr().out
    assert "2 rows in about" in shown
    assert "a trial of the first training and attacks" in shown
    assert "target" not in shown
    assert not (tmp_path / "new").exists()


def test_a_dry_run_without_attacks_guesses_none(tmp_path, capsys):
    path = tmp_path / "study.yaml"
    path.write_text("data: digits\nmodel: mlp\nprepare: none\ndefences: [{name: none}]\n")
    command = ["compare", str(path), "--out", str(tmp_path / "new"), "--workers", "1", "--dry-run"]
    assert run(command) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "1 row in about" in shown
    assert "on 1 worker: a short trial" in shown
    assert "guess" not in shown


def test_a_dry_run_counts_the_search_for_a_target(tmp_path, capsys):
    path = tmp_path / "study.yaml"
    searched = STUDY.replace("noise_multiplier: 1.0", "at: {accuracy: 0.5, runs: 4}")
    path.write_text(searched + "delta: 0.01\n")
    command = ["compare", str(path), "--out", str(tmp_path / "new"), "--dry-run"]
    assert run(command) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "1 strength that meets a target is found first, by at most 4 trainings" in shown
    assert "δ = 0.01 is above 1 / 1437 records" in shown
    assert run([*command, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["search_trainings"], len(found["notes"])) == (4, 1)


def test_an_estimate_of_what_is_there_is_nothing(finished, capsys):
    _, study, out = finished
    assert run(["compare", str(study), "--out", str(out), "--dry-run", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["seconds"], found["rows_missing"]) == (0.0, 0)
    assert [cell["missing"] for cell in found["cells"]] == [0, 0]


def test_mistakes_are_lines_and_exit_code_2(tmp_path, capsys):
    path = tmp_path / "study.yaml"
    path.write_text(STUDY.replace("noise_multiplier", "noise_multiplyer").replace("steps", "stops"))
    assert run(["compare", str(path)]) == 2
    said = capsys.readouterr().err.strip().splitlines()
    assert said == [
        "study.yaml:8: defences[1].noise_multiplyer is not a setting of gaussian: "
        "did you mean noise_multiplier?",
        "study.yaml:13: attacks[0].stops is not an option of inverting-gradients: "
        "did you mean steps?",
    ]


def test_failed_rows_are_exit_code_1(tmp_path, capsys):
    path = tmp_path / "study.yaml"
    body, _, _ = STUDY.partition("attacks:")
    diverging = "batch_size: 256, optimizer: sgd, learning_rate: 1e38"
    path.write_text(body.replace("batch_size: 256", diverging))
    out = tmp_path / "run"
    command = ["-q", "compare", str(path), "--out", str(out), "--workers", "1", "--no-report"]
    assert run(command) == 1
    shown = " ".join(capsys.readouterr().out.split())
    assert "2 failed, with their reasons in the rows" in shown
    assert "failed: undefended: training diverged" in shown
    assert run([*command, "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["failed"] == 2


def test_a_device_that_is_not_here_is_one_line(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    path = tmp_path / "study.yaml"
    path.write_text(STUDY.replace("epochs: 1,", "epochs: 1, device: cuda,"))
    commands = (
        ["compare", str(path), "--dry-run"],
        ["train", "--data", "digits", "--model", "mlp", "--device", "cuda"],
        ["attack", "dlg", "--data", "digits", "--device", "cuda"],
    )
    for command in commands:
        assert run(["-q", *command]) == 2
        said = capsys.readouterr().err.strip()
        assert said.endswith("device cuda is not here: choose cpu"), said
        assert "\n" not in said


def test_a_report_of_several_runs(finished, tmp_path, capsys):
    _, _, out = finished
    page = tmp_path / "both.html"
    assert run(["report", str(out), str(out), "--out", str(page)]) == 0
    assert page.stat().st_size > 10_000
    assert f"report: {page}" in capsys.readouterr().out
    assert run(["report", str(tmp_path)]) == 2
    assert "holds no records.jsonl" in capsys.readouterr().err


def test_rows_are_logged_to_mlflow_once(finished, tmp_path):
    from recondite.studies.frame import log_to_mlflow

    _, _, out = finished
    place = f"sqlite:///{tmp_path}/mlflow.db"
    assert log_to_mlflow(load(out), "small", place) == 2
    assert log_to_mlflow(load(out), "small", place) == 0


def test_unknown_engines_are_refused(finished, tmp_path, capsys):
    _, study, _ = finished
    assert run(["-q", "compare", str(study), "--out", str(tmp_path), "--engine", "slurm"]) == 2
    assert "engine must be one of local, ray" in capsys.readouterr().err


def test_progress_counts_parts_and_says_how_long(capsys):
    count = _Count(2)
    task = {"kind": "cell", "title": "x", "attacks": {"a": {}, "b": {}}}
    count.take(0, task, {"type": "progress", "done": 0.5})
    assert count.share == pytest.approx(0.5 / 3 / 2)
    count.take(0, task, {"type": "row", "row": {"status": "failed"}})
    count.take(0, task, {"type": "progress", "done": 0.5})
    assert count.share == pytest.approx(1.5 / 3 / 2)
    count.take(0, task, {"type": "done"})
    assert (count.share, count.done, count.failed) == (0.5, 1, 1)
    lines = Lines()
    lines.begin("runs", 2, 1)
    lines.event(0, task, {"type": "done"})
    lines.end()
    assert capsys.readouterr().err == "runs: 2 to do on 1 worker\nruns: 1 of 2 done\n"
    assert [duration(s) for s in (5, 600, 7200)] == ["5 s", "10 min", "2.0 h"]


@pytest.mark.parametrize("key", ["data", "model"])
def test_a_dry_run_does_not_run_the_code_that_a_study_names(tmp_path, capsys, monkeypatch, key):
    monkeypatch.chdir(tmp_path)
    (tmp_path / f"stranger_{key}.py").write_text("open('ran', 'w').close()\nmake = None\n")
    lines = {"data": "digits", "model": "mlp"} | {key: f"stranger_{key}:make"}
    study = "".join(f"{name}: '{value}'\n" for name, value in lines.items())
    (tmp_path / "study.yaml").write_text(study + "defences: [{name: none}]\n")
    assert run(["-q", "compare", "study.yaml", "--dry-run"]) == 2
    said = capsys.readouterr().err
    assert f"{key} stranger_{key}:make is code" in said
    assert said.count("\n") == 1
    assert not (tmp_path / "ran").exists()
    assert run(["-q", "compare", "study.yaml", "--dry-run", "--own-code"]) == 2
    assert (tmp_path / "ran").exists()


def test_a_dry_run_refuses_a_model_that_every_training_would_refuse(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mixes_records.py").write_text(
        "from torch import nn\n\n\ndef make(shape, classes):\n"
        "    return nn.Sequential(nn.Flatten(), nn.BatchNorm1d(64), nn.Linear(64, classes))\n"
    )
    (tmp_path / "study.yaml").write_text(
        "data: digits\nmodel: 'mixes_records:make'\nprepare: none\n"
        "defences: [{name: gaussian, noise_multiplier: 1}]\n"
    )
    assert run(["-q", "compare", "study.yaml", "--dry-run", "--own-code"]) == 2
    said = capsys.readouterr().err
    assert "BatchNorm1d) mixes the samples of a batch" in said
    assert "recondite.fix(model)" in said


def test_the_study_in_a_dossier_asks_for_the_same_rows(finished, tmp_path, capsys):
    _, _, out = finished
    assert run(["dossier", "make", str(out), "--out", str(tmp_path / "dossier")]) == 0
    evidence = tmp_path / "dossier" / "evidence"
    capsys.readouterr()
    again = ["compare", str(evidence / "study.yaml"), "--out", str(evidence), "--dry-run", "--json"]
    assert run(again) == 0
    assert json.loads(capsys.readouterr().out)["rows_missing"] == 0
    assert run(["dossier", "verify", str(tmp_path / "dossier")]) == 0


def test_the_template_is_a_study_to_copy(tmp_path, capsys, monkeypatch):
    import yaml

    assert run(["compare", "--template"]) == 0
    text = capsys.readouterr().out
    assert all(len(line) <= 100 for line in text.splitlines())
    study = tmp_path / "study.yaml"
    study.write_text(text)
    assert run(["compare", str(study), "--out", str(tmp_path / "no"), "--dry-run", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    names = {name for cell in told["cells"] for name in cell["attacks"]}
    assert names == {"strongest", "identification", "membership-lira"}
    # The same attacks on less: every one of them runs, and all three threats are answered.
    body = yaml.safe_load(text)
    body |= {
        "data": "digits",
        "seeds": 1,
        "defences": [{"name": "gaussian", "noise_multiplier": 1}],
    }
    body.pop("prepare")
    body["training"] |= {"epochs": 1}
    for attack in body["attacks"]:
        attack |= {key: small for key, small in
                   {"images": 2, "budget": 1.5, "games": 10, "records": 60, "references": 2}.items()
                   if key in attack}  # fmt: skip
    study.write_text(yaml.safe_dump(body))
    assert run(["-q", "compare", str(study), "--out", str(tmp_path / "run"), "--no-report"]) == 0
    rows = load(tmp_path / "run")
    assert [row["reason"] for row in rows if row["status"] != "done"] == []
    assert {row["threat"] for row in rows} == {"update", "training", "model"}
    told = [(one["threat"], one["epsilon"]) for one in rows[0]["exposures"]]
    assert [threat for threat, _ in told] == ["update", "training"]
    assert 0 < told[0][1] < told[1][1]
    for threat in ("update", "model"):
        assert run(["compare", str(tmp_path / "run"), "--threat", threat]) == 0
        shown = capsys.readouterr().out
        assert f"threat {threat}, participation secret" in shown
        assert "untested" not in shown
    limit = ["--require", f"epsilon<={told[0][1] + 1}", "--threat", "update"]
    assert run(["compare", str(tmp_path / "run"), *limit]) == 0


def test_a_dry_run_says_what_a_search_trains():
    assert searched([]) == []
    assert searched([0]) == [
        "1 strength that meets a target is found first, by calibration: seconds"
    ]
    assert "at most 5 trainings" in searched([2, 3])[0]
