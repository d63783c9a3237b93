"""A study from a form: the built-in one with what was chosen, as YAML that a person may edit."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from recondite._files import write_atomically
from recondite.defences import Defence, defences
from recondite.explore.question import Refused
from recondite.explore.worker import SOURCE, STOP, running
from recondite.records.catalogue import names as data_names
from recondite.records.user_code import is_dotted

__all__ = ["begin", "choices", "draft", "go_on", "stop"]

_MOST = 200_000  # characters of a study


def _demo() -> dict[str, Any]:
    import yaml

    text = resources.files("recondite.studies").joinpath("demo.yaml").read_text(encoding="utf-8")
    found: dict[str, Any] = yaml.safe_load(text)
    return found


def choices() -> dict[str, Any]:
    """What the form offers, filled in with the built-in study."""
    demo = _demo()
    tried = {each["name"]: each for each in demo["defences"]}

    def one(each: Defence) -> dict[str, Any]:
        values = tried.get(each.name, {}).get(each.parameter or "", [])
        return {
            "name": each.name,
            "title": each.heading or each.title,
            "parameter": each.parameter,
            "symbol": each.symbol,
            "values": ", ".join(f"{value:g}" for value in values),
            "chosen": each.name in tried,
        }

    return {
        "data": demo["data"],
        "data_names": list(data_names()),
        "model": demo["model"],
        "defences": [one(each) for each in defences().values()],
        "attacks": list(dict.fromkeys(each["name"] for each in demo["attacks"])),
        "training": demo["training"],
        "seeds": demo["seeds"],
        "threat": demo["threat"],
    }


def draft(form: Mapping[str, Any]) -> str:
    """The study of a form, as YAML.

    Args:
      form: Text by field; ``defences`` maps names to strengths, ``attacks`` lists names.

    Raises:
      Refused: In one line, with the field.
    """
    import yaml

    demo, known = _demo(), defences()
    chosen = form.get("defences") or {}
    if not isinstance(chosen, Mapping) or not chosen:
        raise Refused("defences", "choose at least one defence")
    found: list[dict[str, Any]] = []
    for name, strengths in chosen.items():
        if name not in known:
            raise Refused("defences", f"{name!r} is no defence here")
        parameter = known[name].parameter
        if parameter is None:
            found.append({"name": name})
        else:
            found.append({"name": name, parameter: _strengths(name, parameter, str(strengths))})
    wanted = form.get("attacks") or []
    attacks = [each for each in demo["attacks"] if each["name"] in wanted]
    counts = {name: _count(form, name) for name in ("epochs", "batch_size", "records")}
    training = {**demo["training"], **{k: v for k, v in counts.items() if v is not None}}
    data = str(form.get("data") or demo["data"]).strip()
    study: dict[str, Any] = {
        "name": str(form.get("name") or "study").strip(),
        "data": data,
        "model": str(form.get("model") or demo["model"]).strip(),
        # How the built-in study prepares its images is for its own data.
        **({"prepare": demo["prepare"]} if data == demo["data"] else {}),
        "threat": str(form.get("threat") or demo["threat"]),
        "defences": found,
        "training": training,
        "attacks": attacks,
        "seeds": _count(form, "seeds") or 1,
    }
    text: str = yaml.safe_dump(study, sort_keys=False, allow_unicode=True)
    return text


def _strengths(name: str, parameter: str, text: str) -> list[float]:
    parts = [part for part in re.split(r"[,\s]+", text.strip()) if part]
    if not parts:
        raise Refused("defences", f"{name} needs its {parameter.replace('_', ' ')}: type a number")
    try:
        return [float(part) for part in parts]
    except ValueError:
        raise Refused("defences", f"{name}: {text[:40]!r} is not a list of numbers") from None


def _count(form: Mapping[str, Any], name: str) -> int | None:
    text = str(form.get(name) or "").strip().replace(",", "")
    if not text:
        return None
    if not text.isdigit() or int(text) < 1:
        raise Refused(name, f"{text[:40]!r} is no whole number above 0")
    return int(text)


def begin(text: str, out: Path, workers: int | None = None) -> Path:
    """Starts a study in a process of its own and returns its folder.

    Guarantee: the process belongs to nobody else: it outlives this one, whatever ends it, and every
    row that it finishes is on the disk. A study whose data or model is code is refused: only a
    person at a terminal may start it.

    Raises:
      Refused: In one line, with the field; nothing was written.
    """
    from recondite.studies.source import StudyError, parse
    from recondite.studies.study import check_source  # imports torch

    if len(text) > _MOST:
        raise Refused("yaml", f"a study has at most {_MOST:,} characters")
    try:
        source = parse(text, SOURCE)
        for key in ("data", "model"):
            name = source.data.get(key) if isinstance(source.data, dict) else None
            if isinstance(name, str) and is_dotted(name):
                line = f"{key} {name} is code: start it with recondite compare, and watch it here"
                raise Refused("yaml", line)
        study, _ = check_source(source)
    except StudyError as error:
        raise Refused("yaml", error.lines[0]) from None
    except Refused:
        raise
    except ValueError as error:
        raise Refused("yaml", str(error)) from None
    folder = out / study.name
    there = folder / SOURCE
    if there.exists() and there.read_text(encoding="utf-8") != text:
        line = f"{folder} holds another study: choose another name"
        raise Refused("yaml", line)
    if not there.exists() and folder.exists() and any(folder.iterdir()):
        raise Refused("yaml", f"{folder} is not empty: choose another name")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(there, text)
    except OSError as error:
        raise Refused("yaml", f"cannot write to {folder}: {error.strerror}") from None
    go_on(folder, workers)
    return folder


def go_on(folder: Path, workers: int | None = None) -> None:
    """Starts the process of a study that is not at work; does nothing where it is.

    Raises:
      Refused: The folder was not made by a form.
    """
    if not (folder / SOURCE).exists():
        raise Refused("run", f"{folder.name} holds no {SOURCE}: go on with recondite compare")
    if running(folder):
        return
    (folder / STOP).unlink(missing_ok=True)
    paths = [path or os.getcwd() for path in sys.path]
    command = [sys.executable, "-m", "recondite.explore.worker", str(folder.resolve())]
    with (folder / "explore.log").open("ab") as log:
        subprocess.Popen(
            [*command, *([] if workers is None else [str(workers)])],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
            start_new_session=True,  # neither Ctrl-C nor a closed terminal is for the study
        )


def stop(folder: Path) -> None:
    """Asks the process of a study to stop; what was finished is kept."""
    if running(folder):
        write_atomically(folder / STOP, "")
