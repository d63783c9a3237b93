"""The command: mistakes in one line and exit code 2, before anything listens."""

import socket
import subprocess
import sys

from recondite.cli.main import run
from recondite.explore import server


def test_a_missing_extra_says_how_to_install_it(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert run(["explore", "--no-browser"]) == 2
    assert "explore needs uvicorn: pip install 'recondite[explore]'" in capsys.readouterr().err


def test_a_path_that_is_no_run_is_one_line(tmp_path, capsys):
    assert run(["explore", str(tmp_path / "none"), "--no-browser"]) == 2
    said = capsys.readouterr().err
    assert "is not there: give the folder of a run" in said
    assert said.count("\n") == 1


def test_a_port_that_is_taken_is_one_line(capsys):
    with socket.socket() as other:
        other.bind((server.HOST, 0))
        other.listen()
        port = other.getsockname()[1]
        assert run(["explore", "--no-browser", "--port", str(port)]) == 2
    assert f"port {port} cannot be used" in capsys.readouterr().err
    assert run(["explore", "--no-browser", "--port", "70000"]) == 2


def test_it_listens_on_this_machine_alone():
    with server._listen(0) as found:
        assert found.getsockname()[0] == "127.0.0.1"


def test_a_browser_that_cannot_be_opened_is_told(monkeypatch):
    lines = []
    monkeypatch.setattr("webbrowser.open", lambda address: False)
    server._ready("http://127.0.0.1:1/?token=x", lines.append, browser=True)
    assert "open the address yourself" in lines[-1]


def test_starting_does_not_import_torch():
    code = (
        "import sys; from pathlib import Path; import recondite.explore.server;"
        "from recondite.explore.pages import application; from recondite.explore.runs import Runs;"
        "import recondite.explore.solving, recondite.explore.drafts;"
        "application(Runs(Path('x')), Path('x')); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
