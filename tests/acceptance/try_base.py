"""The tests that need no torch, on another interpreter, in a clean environment.

    make tests-base PYTHON=python3.12
    python tests/acceptance/try_base.py --python python3.13 [TESTS…]

A new environment in a temporary folder gets the built wheel without extras, what reads the tests
and a few libraries of reference that need no torch; pytest runs with ``--base``, which skips what
needs an extra. So that this is no empty promise, at least ``--least`` tests must have passed.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree

sys.path.insert(0, str(Path(__file__).parent))
from try_installs import PIP, call  # a script beside this one

ROOT = Path(__file__).resolve().parents[2]
# What tests compare with: other accountants, exact arithmetic, random cases.
TOOLS = ("pytest", "hypothesis", "mpmath", "packaging", "dp-accounting", "prv-accountant")
TESTS = ("accounting", "laws", "leakage", "notions", "mechanisms", "numerics", "metrics", "cli")
LEAST = 400


def counted(report: Path) -> dict[str, int]:
    """Tests by what became of them."""
    suites = list(ElementTree.parse(report).getroot().iter("testsuite"))
    keys = ("tests", "failures", "errors", "skipped")
    found = {key: sum(int(suite.get(key, 0)) for suite in suites) for key in keys}
    return found | {"passed": found["tests"] - sum(found[key] for key in keys[1:])}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("tests", nargs="*", help=f"folders of tests, by default {' '.join(TESTS)}")
    parser.add_argument("--python", default=sys.executable, help="the interpreter")
    parser.add_argument("--least", type=int, default=LEAST, help="so many must pass")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        call(sys.executable, *PIP, "wheel", "--no-deps", "-w", folder, ROOT)
        call(given.python, "-m", "venv", folder / "env")
        python = folder / "env" / "bin" / "python"
        wheel = next(folder.glob("recondite-*.whl"))
        call(python, *PIP, "install", "-c", ROOT / "constraints.txt", wheel, *TOOLS)
        version = call(python, "--version").strip()
        tests = given.tests or [f"tests/{name}" for name in TESTS]
        options = ("--base", "-p", "no:cacheprovider", f"--junitxml={folder / 'report.xml'}")
        done = subprocess.run([python, "-m", "pytest", *options, *tests], cwd=ROOT, check=False)
        found = counted(folder / "report.xml")
        print(f"{version}: {found}", flush=True)
        return 1 if done.returncode or found["passed"] < given.least else 0


if __name__ == "__main__":
    raise SystemExit(main())
