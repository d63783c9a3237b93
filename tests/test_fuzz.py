"""Whatever a stranger types or sends: an answer, or one line."""

import logging
from pathlib import Path

import pytest
from benchmarks.fuzz_inputs import KINDS, attempt, findings, run_command

CORPUS = Path(__file__).parent / "corpus"


@pytest.mark.parametrize("line", (CORPUS / "commands.txt").read_text().splitlines())
def test_a_command_that_once_failed(line):
    run_command(line.split())


@pytest.mark.parametrize("path", sorted((CORPUS / "files").iterdir()), ids=lambda path: path.name)
def test_a_file_that_once_failed(path):
    code, _ = run_command(["channel", "natural", "--data", str(path), "--capacity", "1"])
    assert code == 2


@pytest.mark.parametrize("part", range(4))
@pytest.mark.filterwarnings("ignore")
def test_a_sample_of_random_inputs(part):
    pytest.importorskip("flwr")
    logging.disable(logging.CRITICAL)
    try:
        rows = [attempt(number, seed=99) for number in range(100 * part, 100 * (part + 1))]
    finally:
        logging.disable(logging.NOTSET)
    assert findings(rows) == []
    assert {row["kind"] for row in rows} == set(KINDS)
