"""Commands of other packages: found, kept apart from ours, and one line for what is not here."""

import subprocess
import sys
from importlib import import_module
from typing import Annotated

import pytest
import typer

main = import_module("recondite.cli.main")  # the package's own name main is the function
ABSENT = "reproduce comes with recondite-papers: pip install recondite-papers"


class Entry:
    def __init__(self, name, value):
        self.name, self.value = name, value

    def load(self):
        if isinstance(self.value, Exception):
            raise self.value
        return self.value


def greet(name: str, loud: Annotated[bool, typer.Option("--loud")] = False) -> None:
    """Says a name."""
    print(name.upper() if loud else name)


@pytest.fixture
def commands(monkeypatch, capsys):
    """A function from entries to one that runs a command: exit code, output, error."""

    def made(*entries):
        monkeypatch.setattr(
            main,
            "entry_points",
            lambda *, group: entries if group == main.GROUP else (),
        )
        app = typer.Typer(no_args_is_help=True, rich_markup_mode="markdown")
        app.callback()(main.common)

        @app.command("account")
        def account() -> None:
            """Ours."""
            print("ours")

        main.add_commands(app)
        monkeypatch.setattr(main, "app", app)

        def ask(*words):
            code = main.run(list(words))
            captured = capsys.readouterr()
            return code, captured.out, captured.err

        return ask

    return made


@pytest.mark.parametrize(
    "words",
    [[], ["--list"], ["compare/table-4", "--quick", "--json"], ["--help"], ["--nonsense", "-x"]],
)
def test_without_the_papers_reproduce_says_what_to_install(words, commands):
    assert commands()("reproduce", *words) == (2, "", f"recondite: {ABSENT}\n")


def test_help_says_it_and_lists_no_such_command(commands):
    code, out, _ = commands()("--help")
    shown = " ".join(out.split())
    assert code == 0
    assert shown.count("reproduce") == 1
    assert ABSENT in shown


def test_a_function_and_an_application_become_commands(commands):
    below = typer.Typer()
    below.command("hello")(greet)
    below.command("other")(greet)
    ask = commands(Entry("greet", greet), Entry("greetings", below))
    assert ask("greet", "anna", "--loud") == (0, "ANNA\n", "")
    assert ask("greetings", "hello", "anna") == (0, "anna\n", "")
    assert "Says a name." in ask("--help")[1]
    code, out, err = ask("greet", "--lout")
    assert (code, out, err.count("\n")) == (2, "", 1)


def test_a_package_that_brings_reproduce_is_asked(commands):
    ask = commands(Entry("reproduce", greet), Entry("as-printed", greet))
    assert ask("reproduce", "table") == (0, "table\n", "")
    assert "comes with" not in ask("--help")[1]


def test_no_package_replaces_a_command_of_ours(commands):
    assert commands(Entry("account", greet))("account") == (0, "ours\n", "")


def test_a_broken_package_takes_nothing_away(commands):
    broken = Entry("broken", ImportError("no module named\nnowhere"))
    ask = commands(broken, Entry("greet", greet))
    expected = "recondite: broken could not be loaded: no module named nowhere\n"
    assert ask("broken", "--any") == (2, "", expected)
    assert ask("greet", "anna")[0] == 0
    assert ask("account") == (0, "ours\n", "")


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (RuntimeError("boom"), "boom"),
        (SyntaxError("invalid syntax"), "invalid syntax"),
        (3, "it is no function and no Typer application"),
    ],
)
def test_whatever_breaks_is_one_line_of_that_command_alone(value, reason, commands):
    ask = commands(Entry("broken", value))
    assert ask("broken") == (2, "", f"recondite: broken could not be loaded: {reason}\n")
    assert ask("account") == (0, "ours\n", "")


def test_the_real_command_line_reads_the_standard_entry_points():
    """A distribution on the path adds its command: nothing of ours keeps a list."""
    code = (
        "import pathlib, sys, tempfile\n"
        "home = pathlib.Path(tempfile.mkdtemp())\n"
        "info = home / 'greeter-1.dist-info'\n"
        "info.mkdir()\n"
        "(info / 'METADATA').write_text('Metadata-Version: 2.1\\nName: greeter\\nVersion: 1\\n')\n"
        "(info / 'entry_points.txt').write_text('[recondite.commands]\\ngreet = greeter:go\\n')\n"
        "(home / 'greeter.py').write_text('def go(): print(\"hello\")')\n"
        "sys.path.insert(0, str(home))\n"
        "from recondite.cli.main import run\n"
        "sys.exit(run(['greet']))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "hello\n"), done.stderr


def test_noise_on_records_has_its_settings_by_name(capsys, tmp_path):
    words = "train --data digits --model mlp --prepare none --epochs 1 --json --defence white"
    words = f"{words} --capacity 9"
    assert main.run([*words.split(), "--set", "noise=per_step"]) == 0
    assert '"noise": "per_step"' in capsys.readouterr().out
    assert main.run([*words.split(), "--set", "rank=3"]) == 2
    assert "--set rank is not a setting of white-channel" in capsys.readouterr().err


def test_only_the_typed_command_is_built():
    assert len(main.app.registered_commands) > 10
    for words in (["account"], ["-q", "account", "--help"], ["--debug", "federate", "demo"]):
        small = main._alone(words)
        assert len(small.registered_commands) + len(small.registered_groups) == 1
    for words in ([], ["--help"], ["acount"], ["--help", "account"]):
        assert main._alone(words) is main.app
