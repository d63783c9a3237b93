"""The copies of a setting give the ε that the page shows. The study: acceptance, it trains."""

import contextlib
import io
import json
import shlex

import pytest
import yaml

from recondite.cli.main import run
from recondite.explore.copies import copies
from recondite.explore.question import Query
from recondite.explore.solving import tight


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"defence": "vmf", "value": "60", "sampling": "shuffled", "delta": "1/60000"},
        {"defence": "directional", "value": "12", "dim": "500", "blocks": "2"},
        {"defence": "partitioned", "value": "12", "dim": "500", "blocks": "4"},
        {"sampling": "fixed-size", "value": "2.5"},
    ],
)
def test_python_and_the_command_give_the_same_epsilon(form, capsys, changes):
    answer = tight(Query.read(form(**changes)))
    made = copies(answer.question)
    assert made["python"].startswith("import recondite as rc\n")
    assert "rc.account(" in made["python"]
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(made["python"], {})
    assert float(said.getvalue()) == answer.epsilon
    name, *arguments = shlex.split(made["command"])
    assert name == "recondite"
    assert run([*arguments, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["epsilon"]["pld"] == answer.epsilon


def test_the_study_says_the_same_setting(form):
    asked = Query.read(form(defence="vmf", value="60"))
    study = yaml.safe_load(copies(asked)["yaml"])
    assert study["defences"] == [{"name": "vmf", "kappa": 60.0}]
    assert study["training"] == {
        "records": 4000, "batch_size": 128, "epochs": 10, "sampling": "poisson",
    }  # fmt: skip
    assert study["delta"] == 1e-5


def test_the_study_gives_the_same_epsilon(form, inline, tmp_path):
    from recondite.studies.runner import compare
    from recondite.studies.study import read_study

    small = {"records": "300", "batch_size": "100", "epochs": "1", "delta": "1e-3"}
    named = {"data": "digits", "model": "mlp", "defence": "gaussian", "value": "1.3"}
    answer = tight(Query.read(form(**small, **named)))
    path = tmp_path / "study.yaml"
    path.write_text(copies(answer.question)["yaml"])
    outcome = compare(read_study(path)[0], tmp_path / "run")
    assert [row["notions"]["epsilon"] for row in outcome.rows] == [answer.epsilon]
