"""Builds both wheels and tries them in a clean environment: the library alone, then the papers."""

import json
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
REPRODUCE = "recondite: reproduce comes with recondite-papers: pip install recondite-papers\n"


def call(*arguments: object) -> str:
    command = [str(argument) for argument in arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def refused(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [str(argument) for argument in arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True)


def size(wheel: Path) -> str:
    """Modules and lines of a wheel's Python."""
    with zipfile.ZipFile(wheel) as archive:
        texts = [archive.read(name) for name in archive.namelist() if name.endswith(".py")]
    lines = sum(len(text.splitlines()) for text in texts)
    return f"{len(texts)} modules, {lines} lines"


def try_library(binary: Path) -> None:
    """The library alone has no reproduce, and says in one line what to install."""
    assert refused(binary / "python", "-c", "import recondite_papers").returncode, "papers came"
    asked = refused(binary / "recondite", "reproduce", "compare/table-4", "--quick")
    assert (asked.returncode, asked.stdout, asked.stderr) == (2, "", REPRODUCE), asked
    assert REPRODUCE.partition(": ")[2].strip() in call(binary / "recondite", "--help")


def try_papers(binary: Path) -> int:
    """With the papers' wheel there is a command more, and its pure accounting needs no torch."""
    items = json.loads(call(binary / "recondite", "reproduce", "--list", "--json"))["items"]
    with tempfile.TemporaryDirectory() as out:
        line = [binary / "recondite", "reproduce", "dirdp/table-5", "--out", out, "--json"]
        done = json.loads(call(*line))
    assert done["run"] == len(done["cells"]) > 0, done
    studies = call(binary / "python", "-c", "from recondite_papers.study_files import FILES, text\n"
                   "print(len([text(f) for n in FILES.values() for f in n]))")  # fmt: skip
    assert int(studies) > 60, studies
    return len(items)


def main() -> None:
    with tempfile.TemporaryDirectory() as work:
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
        call(*pip, "wheel", "--no-deps", "-w", work, ROOT, ROOT / "papers")
        library = next(Path(work).glob("recondite-*.whl"))
        papers = next(Path(work).glob("recondite_papers-*.whl"))
        venv.create(Path(work) / "env", with_pip=True)
        binary = Path(work) / "env" / "bin"
        inside = [binary / "python", "-m", "pip", "--disable-pip-version-check", "-q"]
        call(*inside, "install", "-c", ROOT / "constraints.txt", library)
        try_library(binary)
        print(f"{library.name}: {size(library)}; alone, it has no reproduce and says so")
        # Without what it declares, torch above all: that would take minutes here.
        call(*inside, "install", "--no-deps", papers)
        print(f"{papers.name}: {size(papers)}; adds reproduce, {try_papers(binary)} items")


if __name__ == "__main__":
    main()
