"""Interrupting the command while it loads is to interrupt the command."""

import pytest

from recondite import __main__ as command
from recondite._interrupts import interrupted


def wrapped(inner):
    try:
        try:
            raise inner
        except BaseException as error:
            raise RuntimeError("Error calling __set_name__ on an instance") from error
    except RuntimeError as outer:
        return outer


@pytest.mark.parametrize("error", [KeyboardInterrupt(), wrapped(KeyboardInterrupt())])
def test_an_interruption_is_one_line_however_python_wraps_it(error, monkeypatch, capsys):
    def load(name, *rest):
        raise error

    monkeypatch.setattr("builtins.__import__", load)
    with pytest.raises(SystemExit) as ended:
        command.main()
    monkeypatch.undo()
    assert ended.value.code == 130
    assert capsys.readouterr().err == "recondite: interrupted\n"


def test_other_errors_are_not_hidden(monkeypatch):
    def load(name, *rest):
        raise wrapped(ValueError("broken"))

    monkeypatch.setattr("builtins.__import__", load)
    with pytest.raises(RuntimeError, match="__set_name__"):
        command.main()
    monkeypatch.undo()


def test_what_is_behind_an_error():
    assert interrupted(KeyboardInterrupt())
    assert interrupted(wrapped(KeyboardInterrupt()))
    assert not interrupted(wrapped(ValueError()))
    assert not interrupted(None)
