"""The commands as a user runs them: real processes, terminals, pipes and signals."""

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, "-m", "recondite"]
RUN = ["--rate", "128/60000", "--steps", "1407", "--delta", "1/60000"]
ACCOUNT = ["account", "vmf", "--kappa", "75", "--dim", "13700", *RUN]
CALIBRATE = ["calibrate", "vmf", "--dim", "13700", "--epsilon", "8", *RUN]


def run(*arguments, **options):
    return subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, timeout=120, check=False, **options
    )


def in_terminal(arguments, environment=None):
    """Runs a command with standard error on a terminal; returns what it drew there."""
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, *arguments],
        stdout=subprocess.PIPE,
        stderr=follower,
        env={**os.environ, "TERM": "xterm", **(environment or {})},
    )
    os.close(follower)
    drawn = b""
    while process.poll() is None or select.select([leader], [], [], 0.1)[0]:
        if select.select([leader], [], [], 0.1)[0]:
            try:
                drawn += os.read(leader, 65536)
            except OSError:
                break
    out = process.stdout.read()
    process.wait()
    os.close(leader)
    return process.returncode, out.decode(), drawn.decode()


def test_progress_goes_to_a_terminal_and_nowhere_else():
    code, out, drawn = in_terminal(CALIBRATE)
    assert code == 0
    assert "kappa = 135.0" in out
    assert "calibrating vmf" in drawn
    _, _, quiet = in_terminal(["--quiet", *CALIBRATE])
    assert quiet == ""
    assert run(*CALIBRATE).stderr == ""


def test_no_color_is_respected():
    _, _, drawn = in_terminal(CALIBRATE, {"NO_COLOR": "1"})
    assert "\x1b[3" not in drawn
    plain = run(*ACCOUNT)
    assert "\x1b[" not in plain.stdout


def test_json_is_one_object_in_a_pipe():
    result = run(*ACCOUNT, "--json")
    assert result.returncode == 0
    assert json.loads(result.stdout)["schema_version"] == 2


@pytest.mark.parametrize("wait", [0.0, 0.4])
def test_interruption_exits_with_130(wait):
    """From the first import of its own work on: before that the interpreter decides."""
    process = subprocess.Popen(
        [
            *COMMAND,
            "calibrate",
            "partitioned",
            "--dim",
            "100000",
            "--blocks",
            "700",
            "--epsilon",
            "8",
            *RUN,
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    loaded = Path(f"/proc/{process.pid}/maps")
    while process.poll() is None and "numpy" not in loaded.read_text():
        time.sleep(0.02)
    time.sleep(wait)
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    # CPython remembers an interruption inside exec(), as in making a dataclass, and ends by the
    # signal itself; a shell says 130 of both.
    assert process.returncode in (130, -signal.SIGINT), (process.returncode, out, err)
    assert out == ""
    assert "Traceback" not in err


def test_bad_input_exits_with_2_in_one_line():
    result = run("account", "vmf", "--kappa", "-1", "--dim", "10", *RUN)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == "recondite: kappa must be above 0, got -1.0\n"


def test_a_closed_pipe_is_no_error():
    line = f"{sys.executable} -m recondite {' '.join(ACCOUNT)} | head -n 1"
    result = subprocess.run(line, shell=True, capture_output=True, text=True, check=False)
    assert "Traceback" not in result.stderr


def test_the_tour_of_the_accounting_commands_runs():
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    result = subprocess.run(
        ["sh", ROOT / "examples" / "tour.sh"],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env={**os.environ, "PATH": path, "NO_COLOR": "1"},
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("$ recondite") == 8
