"""Help that lists choices under headings; answers that fit 80 columns; numbers in four digits."""

import itertools
import re
import sys
from pathlib import Path

import pytest

# The generator is shared with the tests of the report.
sys.path.insert(0, str(Path(__file__).parents[1] / "report"))
import synthetic

from recondite.cli import options
from recondite.cli.attack import _NAMES
from recondite.cli.main import run
from recondite.cli.monitor import _Count
from recondite.configuration import CLIPPINGS, NORMS, OPTIMIZERS, PIXELS
from recondite.mechanisms import mechanisms

RUN = ["--rate", "0.0355", "--steps", "580", "--delta", "1e-4"]


@pytest.fixture
def narrow(monkeypatch, capsys):
    """A terminal of 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(type(sys.stdout), "isatty", lambda _: True)


def helped(capsys, monkeypatch, *command):
    monkeypatch.setenv("COLUMNS", "200")
    assert run([*command, "--help"]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("command", "panels"),
    [
        ("account", (options.NOISE, options.BATCHES, options.PRIVACY)),
        ("calibrate", ("Target: exactly one", options.NOISE, options.BATCHES)),
        ("match", (options.NOISE, options.BATCHES)),
        ("check", (options.BATCHES, options.PRIVACY)),
        ("train", (options.DATA, options.DEFENCE, options.TRAINING, options.OUTPUT)),
        ("attack", (options.DATA, options.DEFENCE, options.VICTIM, options.ATTACK)),
        ("compare", (options.RUNNING, options.ANSWER, options.OUTPUT)),
        ("report", (options.ANSWER, options.OUTPUT)),
    ],
)
def test_options_stand_under_headings(command, panels, capsys, monkeypatch):
    text = helped(capsys, monkeypatch, command)
    for panel in panels:
        assert f"─ {panel} ─" in text


def test_choices_are_listed(capsys, monkeypatch):
    training = helped(capsys, monkeypatch, "train")
    for choice in (*CLIPPINGS, *NORMS, *OPTIMIZERS, *PIXELS, "poisson", "allocation",
                   "minimum-power", "per_step"):  # fmt: skip
        assert choice in training
    for command in ("account", "calibrate", "match"):
        text = helped(capsys, monkeypatch, command)
        for choice in ("gaussian", "vmf", "partitioned", "directional", "poisson", "shuffled"):
            assert choice in text, (command, choice)


def test_the_networks_in_help_are_those_there_are(capsys, monkeypatch):
    from recondite.models import names

    assert set(options.NETWORKS.split(", ")) == set(names())
    for command in (["train"], ["attack"], ["federate", "demo"], ["federate", "up"]):
        assert options.NETWORKS in " ".join(helped(capsys, monkeypatch, *command).split())


def test_the_attacks_in_help_are_those_there_are():
    from recondite.attacks.registry import built_in

    assert set(_NAMES.partition(";")[0].split(", ")) == set(built_in())


@pytest.mark.parametrize(
    "command",
    [
        ["account", "gaussian", "--noise-multiplier", "1.23", "--dim", "13700",
         "--max-batch-size", "221", *RUN, "--selected-from", "10"],
        ["account", "vmf", "--kappa", "20000", "--dim", "13700", *RUN],
        ["calibrate", "gaussian", "--epsilon", "3", *RUN, "--selected-from", "5"],
        ["match", "gaussian", "--noise-multiplier", "1.23", "--max-batch-size", "160", "--to",
         "vmf", "--by", "bayes-capacity", "--dim", "13700"],
        ["data", "list"],
    ],
)  # fmt: skip
def test_nothing_is_cut_at_80_columns(command, narrow, capsys):
    assert run(command) == 0
    text = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
    assert "…" not in text
    assert max(len(line) for line in text.splitlines()) <= 80


def test_the_answer_of_a_run_fits_80_columns(tmp_path, narrow, capsys):
    folder = synthetic.write(tmp_path / "run", synthetic.modern_rows())
    assert run(["compare", str(folder)]) == 0
    text = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
    assert "…" not in text
    assert "ReRo" in text
    assert max(len(line) for line in text.splitlines()) <= 80


def test_records_batches_and_epochs_are_a_poisson_run_and_the_line_says_so(capsys):
    told = ["--records", "60000", "--batch-size", "128", "--epochs", "3", "--delta", "1e-5"]
    for command in (
        ["account", "gaussian", "--noise-multiplier", "1.1"],
        ["calibrate", "gaussian", "--epsilon", "3"],
        ["match", "gaussian", "--noise-multiplier", "1.1", "--to", "gaussian", "--by", "epsilon"],
    ):
        assert run([*command, *told]) == 0
        text = capsys.readouterr().out
        assert "poisson batches (the default): rate 0.002133, steps 1,407" in text
        assert run([*command, *told, "--sampling", "poisson"]) == 0
        assert "poisson batches: rate 0.002133" in capsys.readouterr().out


def test_what_was_meant_is_said_once_and_by_its_name(capsys):
    assert run(["acount"]) == 2
    assert capsys.readouterr().err.count("Did you mean") == 1
    assert run(["account", "gaussian", "--sigma", "1"]) == 2
    error = capsys.readouterr().err
    assert "It is called --noise-multiplier here" in error
    assert "--dim" not in error


def test_before_a_task_ended_no_time_is_told_until_a_minute_is_over():
    """The demo's first line said four minutes of a run of one."""
    now = [0.0]
    count = _Count(13, 2, clock=lambda: now[0])
    task = {"kind": "cell", "key": 1, "attacks": {}}
    row = {"status": "done", "attack": "none", "seconds": {"train": 20.0}}
    for now[0], event in (
        (0.0, {"type": "progress", "done": 0.1}),
        (20.0, {"type": "row", "row": row}),
    ):
        count.take(0, task, event)
        assert count.left() is None
    now[0] = 61.0
    assert count.left() is not None


def test_the_time_that_is_left_does_not_swing():
    """Sixteen cells on two workers: quick trainings, one slow and one quick attack each."""
    now = [0.0]
    count = _Count(16, 2, clock=lambda: now[0])
    attacks = {"a": {"name": "slow"}, "b": {"name": "quick"}}
    lengths = {"train": 3.0, "slow": 30.0, "quick": 0.2}
    events = []
    for cell in range(16):
        worker, begin = cell % 2, (cell // 2) * 33.2 + 0.4 * (cell % 2)
        factor = 0.8 + 0.4 * (cell % 3) / 2  # cells differ by as much as half
        task = {"kind": "cell", "key": cell, "attacks": attacks}
        events += [(begin + share * 3.0, worker, task, {"type": "progress", "done": share})
                   for share in (0.1, 0.5, 0.9)]  # fmt: skip
        for name, end in (("slow", 33.0), ("quick", 33.15)):
            seconds = {"train": 3.0 * factor, "account": 0.0, "attack": lengths[name] * factor}
            row = {"status": "done", "attack": name, "seconds": seconds}
            events.append((begin + end, worker, task, {"type": "row", "row": row}))
        events.append((begin + 33.19, worker, task, {"type": "done"}))
    whole, seen = 8 * 33.2, []
    for at, worker, task, event in sorted(events, key=lambda item: item[0]):
        now[0] = at
        count.take(worker, task, event)
        if count.left() is not None:
            seen.append(at + count.left())
    assert len(seen) > 50
    assert all(whole / 2 <= end <= 2 * whole for end in seen)
    assert all(abs(b - a) <= 0.1 * whole for a, b in itertools.pairwise(seen))


@pytest.mark.parametrize("columns", ["80", "120", ""])
def test_piped_lines_keep_to_columns(monkeypatch, capsys, columns):
    """80 where nothing says otherwise: a pipe has no width of its own."""
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setattr(type(sys.stdout), "isatty", lambda _: False)
    options = ["--records", "4000", "--batch-size", "128", "--epochs", "20", "--delta", "1e-5"]
    for mechanism in (["gaussian", "--noise-multiplier", "1"],
                      ["vmf", "--kappa", "500", "--dim", "13700"]):  # fmt: skip
        assert run(["account", *mechanism, *options]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert max(map(len, lines)) <= int(columns or 80), lines


def test_a_misspelt_mechanism_is_answered_and_every_choice_is_in_the_help(capsys):
    assert run(["account", "gausian"]) == 2
    said = capsys.readouterr().err
    assert "did you mean gaussian?" in said
    assert run(["account", "--help"]) == 0
    shown = capsys.readouterr().out
    for name, kind in mechanisms().items():
        if kind.__module__.startswith("recondite."):
            assert name in shown


@pytest.mark.parametrize(
    ("command", "words"),
    [("layers", "hf:DIR or"), ("explore", "Folders of runs"), ("dossier verify", "The dossier."),
     ("calibrate", "gaussian, vmf,"), ("leakage", "A second channel")],
)  # fmt: skip
def test_arguments_are_explained(command, words, capsys, monkeypatch):
    """Click from 8.5 on forgets what Typer was told of arguments."""
    monkeypatch.setenv("COLUMNS", "80")
    assert run([*command.split(), "--help"]) == 0
    shown = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
    assert words in shown.split("─ Arguments ─")[1].split("─ Options ─")[0]


def test_one_option_of_two_commands_has_a_heading_in_each(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    for command, heading in (("compare", "The answer"), ("attack", "The attack")):
        assert run([command, "--help"]) == 0
        shown = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
        assert "--participation" in shown.split(f"─ {heading} ─")[1].split("╰─")[0]


def test_what_is_missing_is_called_as_it_is_typed(capsys):
    drawn = ["--records", "60000", "--batch-size", "128", "--epochs", "3"]
    assert run(["calibrate", "gaussian", "--epsilon", "8", *drawn]) == 2
    assert "--delta is needed with epsilon, for example" in capsys.readouterr().err
    to = ["--to", "vmf", "--dim", "100", "--by", "epsilon"]
    assert run(["match", "gaussian", "--noise-multiplier", "1", *to, *drawn]) == 2
    assert "--delta is needed with epsilon" in capsys.readouterr().err
    assert run(["layers", "--model", "lenet"]) == 2
    error = capsys.readouterr().err
    assert "Write it without: recondite layers MODEL" in error
    assert "--help'?" not in error
    assert run(["dossier", "make", "--run", "x"]) == 2
    assert "recondite dossier make RUN" in capsys.readouterr().err


def test_rounds_of_a_federation_fit_and_break_between_words(capsys, monkeypatch, tmp_path):
    from recondite.cli.federate import _show

    monkeypatch.setenv("COLUMNS", "80")

    common = {"round": 1, "accuracy": 0.1, "information": 9.105, "ssim": 0.0449, "mse": 0.37}
    plain = common | {"partition": "iid", "local_steps": 1, "defence": "undefended"}
    noisy = common | {"partition": "dirichlet", "local_steps": 4, "defence": "VMF κ = 500"}
    rows = [
        plain | {"protects": "nothing", "epsilon": None},
        noisy | {"protects": "client", "epsilon": 71.9},
    ]
    _show(rows, tmp_path, None, simulation=True)
    text = capsys.readouterr().out
    head = [line for line in text.splitlines() if str(tmp_path) not in line]
    assert max(len(line) for line in head) <= 80
    for word in ("everything", "undefended", "dirichlet, FedAvg", "ε 71.9, 9.11 nats", "client"):
        assert word in text
