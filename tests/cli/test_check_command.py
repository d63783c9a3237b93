"""recondite check as a person types it."""

import json

import numpy as np
import pytest

from recondite.checking import Trainer
from recondite.cli.main import run

CLAIM = ["--delta", "1e-5", "--rate", "1", "--steps", "4", "--runs", "100", "--seed", "4"]
MODULE = """
import numpy as np
from recondite.checking import Trainer

def make_trainer(noise=2.0):
    records = list(np.eye(4)[:, None, :])
    def step(batch):
        total = sum((r[0] for r in batch), np.zeros(4))
        lengths = [np.linalg.norm(r) for r in batch]
        total = sum((r[0] / max(1.0, n) for r, n in zip(batch, lengths)), np.zeros(4))
        return total + noise * np.random.standard_normal(4)
    return Trainer(records, step)

def weak():
    return make_trainer(1.0)

nothing = 3
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "my_training.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)


def told(*words):
    return run(["check", *words, *CLAIM])


@pytest.mark.usefixtures("folder")
def test_the_answer_is_the_exit_code(capsys):
    # σ = 2, four full batches, δ = 1e-5: ε = 4.83.
    assert told("my_training:make_trainer", "--claim", "epsilon=4.9") == 0
    out = capsys.readouterr().out
    assert "consistent with the claim: ε = 4.9 at δ = 1e-05" in out
    assert "every record is in every batch, as told" in " ".join(out.split())
    assert told("my_training:weak", "--claim", "epsilon=4.9") == 1
    assert "violates the claim" in capsys.readouterr().out
    assert told("my_training:weak", "--claim", "epsilon=4.9", "--json") == 1
    found = json.loads(capsys.readouterr().out)
    assert found["verdict"] == "violates"
    line = next(f["evidence"] for f in found["findings"] if f["verdict"] == "violates")
    assert "of what the claim needs" in line


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["my_training:nothing", "--claim", "epsilon=1"], "must be a function"),
        (["my_training:none", "--claim", "epsilon=1"], "has no none"),
        (["my_training", "--claim", "epsilon=1"], "package.module:function"),
        (["my_training:weak", "--claim", "8"], "--claim must be epsilon=NUMBER"),
        (["my_training:weak", "--claim", "epsilon=-1"], "epsilon must be above 0"),
        (["my_training:weak", "--claim", "epsilon=x"], "no number"),
        (["my_training:weak", "--claim", "epsilon=1", "--mechanism", "salt"], "mechanism must be"),
        (["my_training:weak", "--claim", "epsilon=1", "--skip", "salt"], "skip must be one of"),
    ],
)
def test_mistakes_are_one_line(words, message, capsys):
    assert told(*words) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.usefixtures("folder")
def test_what_a_claim_needs_is_asked_for(capsys):
    assert run(["check", "my_training:weak", "--claim", "epsilon=1"]) == 2
    assert "--delta is needed" in capsys.readouterr().err
    assert run(["check", "my_training:weak", "--claim", "epsilon=1", "--delta", "1e-5"]) == 2
    assert "a schedule is needed" in capsys.readouterr().err


def test_the_assertion_of_test_suites():
    from recondite import Poisson
    from recondite.testing import assert_private

    def make(noise=1.0):
        def step(batch):
            return float(len(batch)) + noise * np.random.standard_normal(3)  # noqa: NPY002

        return Trainer([(np.ones(1),)] * 4, step)

    options = {"delta": 1e-5, "schedule": Poisson(1.0, 1), "seed": 1, "runs": 100}
    with pytest.raises(AssertionError, match="violates the claim"):
        assert_private(lambda: make(0.1), epsilon=4.0, **options)
    assert assert_private(lambda: make(2.0), epsilon=4.0, **options).verdict == "consistent"
