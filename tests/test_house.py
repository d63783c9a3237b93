"""The drawing in CONTRIBUTING.md is the code: rooms, directions of imports, walks, tests."""

import ast
import re
from pathlib import Path

import pytest

import recondite

SOURCE = Path(recondite.__file__).parent
TESTS = Path(__file__).parent
PAGE = (TESTS.parent / "CONTRIBUTING.md").read_text(encoding="utf-8")
HELPERS = "_*.py"
# Imports against the drawing, as (module, module) with the reason. Keep it empty.
ALLOWED: dict[tuple[str, str], str] = {}
# Modules that a test elsewhere tries: a command's, or one that still waits to move.
TRIED_BY = {
    "__main__": "acceptance/test_as_a_user.py",
    "studies.estimate": "cli/test_compare.py",
    "studies.executors.worker": "acceptance/test_kills.py",
}

# Where plain JSON, YAML or what somebody typed comes in or goes out: a dict of anything is at home.
EDGES = {
    "_files",  # sealed JSON
    "attacks.outcome",  # the parts of a row
    "channels.ledger",  # channel.jsonl
    "cli",
    "configuration",  # a checkpoint's fingerprint, options as they were typed
    "explore",  # what the page sends, and the JSON that it shows
    "federated.flower",  # Flower's configurations and contexts
    "federated.ledger",  # releases.jsonl
    "federated.local",  # the state of a generator, in Flower's context
    "federated.policy",  # a node's configuration
    "report",  # study.json in, the page's JSON out
    "studies.shapes",  # a row of records.jsonl: the one name for it
    "studies.source",
    "studies.study",  # a study's YAML
    "training.plan",  # a checkpoint of 0.1.0
    "training.record",  # record.json
}
# Functions whose result or argument is JSON or a checkpoint, wherever they stand.
EDGE_FUNCTIONS = {
    *("to_dict", "to_config", "state_dict", "load_state_dict", "check_state"),
    *("__getstate__", "__setstate__"),
}
# Who takes steps of an optimizer: the one loop of a training, and what is no training of a model.
STEPPED_IN = {
    "training.trainer": "the loop: `descend`, for trainings, federations, conformance suites",
    "training.canary": "an audit of the engine's release, with gradients that are given",
    "checking.torch_trainer": "somebody's own training, which is what is checked",
    "attacks.membership.references": "reference models, all at once",
    "attacks.membership.white_box": "the attacker's own network, stopped by its held-out loss",
    "attacks.inversion": "pixels",
}
STEPPED_IN_PAPERS = {
    "stacked.train": "the loop of runs that share a pass",
    "frontier.training": "trainings over banks of gradients that are kept",
    "jobs.channel_training": "runs recorded as CUDA graphs",
    "jobs.channel_membership": "the attackers' own networks, all runs at once",
    "jobs.channel_models": "pixels",
    "jobs.networks": "a paper's table of times: nothing but the step may be timed",
}
# Elsewhere: keyword arguments on their way to a call, and parameters that each class names itself.
DICTS_OF_ANYTHING = 18
DICTS_IN_PAPERS = 24


def drawing() -> dict[str, str]:
    """Rooms and their purposes, in order."""
    return {name: purpose for name, purpose in drawn().items() if name not in FOLDERS}


def drawn() -> dict[str, str]:
    """Rooms and the folders in them with their purposes, in order: a folder as room.folder."""
    block = re.search(r"## How the code is laid out\n\n```text\n(.*?)```", PAGE, re.DOTALL)[1]
    found, room_of_it = {}, ""
    for line in block.splitlines():
        name, purpose = line.split(maxsplit=1)
        if line.startswith(" "):
            name = f"{room_of_it}.{name}"
        else:
            room_of_it = name
        found[name] = purpose
    return found


def modules() -> dict[str, Path]:
    """Every module below the package by its name there; "" is the package itself."""
    found = {}
    for path in SOURCE.rglob("*.py"):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()
FOLDERS = [name for name, path in MODULES.items() if path.name == "__init__.py" and "." in name]
ORDER = [*drawing(), "__main__"]


def room(module: str) -> str:
    """The room of a module; helpers are one room."""
    head = module.partition(".")[0]
    return HELPERS if head.startswith("_") and head != "__main__" else head


def imports(path: Path) -> set[str]:
    """Modules of ours that a file imports: at its top, in functions, for types only."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            # from recondite.a import b: the module a.b, or a name in a.
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            head, _, rest = name.partition(".")
            if head != "recondite":
                continue
            while rest and rest not in MODULES:
                rest = rest.rpartition(".")[0]
            found.add(rest)
    return found


def test_every_room_is_drawn_and_every_drawn_room_is_there():
    rooms = {room(name) for name in MODULES if name} - {"__main__"}
    assert set(drawing()) == rooms
    assert all(purpose.strip() for purpose in drawing().values())


def test_every_import_points_up_the_drawing():
    against = {
        (name, other)
        for name, path in MODULES.items()
        if name
        for other in imports(path)
        if ORDER.index(room(other)) > ORDER.index(room(name))
    }
    assert against == set(ALLOWED)


def folder(module: str) -> str:
    """The folder within a room that a module is in; a module of the room itself is one alone."""
    above = [name for name in FOLDERS if module == name or module.startswith(f"{name}.")]
    return above[0] if above else module


def test_every_folder_of_a_room_is_drawn():
    assert {name for name in drawn() if name != HELPERS and "." in name} == set(FOLDERS)


def test_imports_between_folders_of_a_room_point_up_too():
    order = [name for name in drawn() if name in FOLDERS]
    against = {
        (name, other)
        for name, path in MODULES.items()
        for other in imports(path)
        if folder(name) in order and folder(other) in order and room(name) == room(other)
        if order.index(folder(other)) > order.index(folder(name))
    }
    assert against == set()


def test_no_folder_is_in_a_cycle():
    """With single modules of its room or with others: whatever kind of import makes it."""
    towards: dict[str, set[str]] = {}
    for name, path in MODULES.items():
        found = {folder(other) for other in imports(path) if other}
        towards.setdefault(folder(name), set()).update(found - {folder(name)})

    def reached(start: str) -> set[str]:
        todo, seen = list(towards[start]), set(towards[start])
        while todo:
            new = towards[todo.pop()] - seen
            seen |= new
            todo += new
        return seen

    assert [name for name in FOLDERS if name in reached(name)] == []


def test_no_module_takes_names_from_the_top_of_the_package():
    # The top loads every room: whoever asks it depends on all.
    assert [name for name, path in MODULES.items() if name and "" in imports(path)] == []


def test_the_check_sees_every_kind_of_import(tmp_path):
    path = tmp_path / "module.py"
    path.write_text(
        "from typing import TYPE_CHECKING\n"
        "import recondite.report\n"
        "from recondite import cli\n"
        "if TYPE_CHECKING:\n    from recondite.studies import Study\n"
        "def later():\n    from recondite.attacks.registry import names\n    import recondite\n"
    )
    assert imports(path) == {"report", "cli", "studies", "attacks.registry", ""}


def test_no_two_classes_have_one_name():
    """In the library and the papers' package together: a name says which thing is meant."""
    homes: dict[str, list[str]] = {}
    papers = TESTS.parent / "papers" / "src"
    for path in [*MODULES.values(), *papers.rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                homes.setdefault(node.name, []).append(f"{path}:{node.lineno}")
    assert {name: places for name, places in homes.items() if len(places) > 1} == {}


def test_walks_name_files_that_are_there():
    walks = PAGE[PAGE.index("### Three walks") : PAGE.index("## Minutes of CI")]
    named = re.findall(r"`([a-z_]+/(?:[a-z_]+/)?(?:[a-z_]+\.py)?)`", walks)
    assert len(named) > 25
    assert [name for name in named if not (SOURCE / name).exists()] == []


def test_minutes_of_ci_add_up():
    text = PAGE[PAGE.index("## Minutes of CI") : PAGE.index("## House rules")]
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    said = {row[0].strip("*"): row[1].strip("*") for row in rows}
    parts = {row[0]: float(row[1]) for row in rows if row[1][0].isdigit() and row[0] != "free"}
    booked, allowed = float(said["booked"]), float(re.search(r"may take (\d+) minutes", text)[1])
    assert sum(parts.values()) == booked
    assert float(said["free"]) == allowed - booked >= 0
    for part in ("tests", "acceptance"):
        (whole,) = (minutes for name, minutes in parts.items() if name.startswith(part))
        assert sum(float(row[2]) for row in rows if row[0] == part) <= whole


@pytest.mark.parametrize("name", sorted(MODULES))
def test_modules_are_as_long_as_a_concept(name):
    assert len(MODULES[name].read_text(encoding="utf-8").splitlines()) <= 400


def named(path: Path) -> set[str]:
    """Modules that a test imports, names in a string, or has a public name of."""
    home = {name: module for module, names in recondite._WHERE.items() for name in names}
    found = imports(path)
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.update(re.findall(r"recondite\.([a-z_0-9.]+)", node.value))
        elif isinstance(node, ast.Attribute) and node.attr in home:
            found.add(home[node.attr])
    return found & set(MODULES)


def test_every_module_is_tried_in_its_room_or_by_a_test_of_its_name():
    """Reached from the test by imports within the room: its surface may stand for its parts."""
    inside = {name: imports(path) for name, path in MODULES.items()}
    files = {path.relative_to(TESTS): named(path) for path in TESTS.rglob("*.py")}

    def reached(given: set[str], where: str) -> set[str]:
        todo = [name for name in given if not name or room(name) == where]
        seen = set(todo)
        while todo:
            new = {other for other in inside[todo.pop()] if other and room(other) == where} - seen
            seen |= new
            todo += new
        return seen

    missing = []
    for name, source in MODULES.items():
        where, stem = room(name), name.rpartition(".")[2].strip("_")
        if source.name == "__init__.py" or name in TRIED_BY or where in TRIED_BY:
            continue
        folder = "" if where == HELPERS else where
        tests = [
            given
            for path, given in files.items()
            if path.parts[:-1] == ((folder,) if folder else ()) or stem in path.stem
        ]
        if not any(name in reached(given, where) for given in tests):
            missing.append(name)
    assert missing == []
    assert [path for path in TRIED_BY.values() if not (TESTS / path).exists()] == []


def takes_steps(path: Path) -> bool:
    """Whether a file calls ``optimizer.step``."""
    return any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "step"
        and ast.unparse(node.func.value).endswith("optimizer")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    )


def test_models_are_trained_by_one_loop():
    assert {name for name, path in MODULES.items() if takes_steps(path)} == set(STEPPED_IN)
    papers = TESTS.parent / "papers" / "src" / "recondite_papers"
    found = {path for path in papers.rglob("*.py") if takes_steps(path)}
    names = {".".join(path.relative_to(papers).with_suffix("").parts) for path in found}
    assert names == set(STEPPED_IN_PAPERS)


def dicts_of_anything(path: Path) -> int:
    """How often a file writes the type ``dict[str, Any]``, but in functions that are an edge."""
    found, todo = 0, [ast.parse(path.read_text(encoding="utf-8"))]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.FunctionDef) and node.name in EDGE_FUNCTIONS:
            continue
        found += isinstance(node, ast.Subscript) and ast.unparse(node) == "dict[str, Any]"
        todo += ast.iter_child_nodes(node)
    return found


def test_a_dict_of_anything_stays_at_the_edges():
    """Between rooms goes what has a type: lower the numbers when they fall, never raise them."""

    def edge(module: str) -> bool:
        return any(module == one or module.startswith(f"{one}.") for one in EDGES)

    inside = {name: dicts_of_anything(path) for name, path in MODULES.items() if not edge(name)}
    assert sum(inside.values()) <= DICTS_OF_ANYTHING, {n: c for n, c in inside.items() if c}
    papers = TESTS.parent / "papers" / "src"
    assert sum(map(dicts_of_anything, papers.rglob("*.py"))) <= DICTS_IN_PAPERS
    gone = {one for one in EDGES if not any(edge(name) for name in MODULES if name == one)}
    assert gone == set(), "these are no longer there"
