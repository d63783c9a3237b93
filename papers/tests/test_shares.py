"""Two shares for each paper: counted from cells, and printed on every page as they are counted."""

import sys
from pathlib import Path

import pytest

from recondite_papers.tables.cells import Cell
from recondite_papers.tables.shares import Shares, limit, sentence, shares

ROOT = Path(__file__).resolve().parents[2]


def pages():
    sys.path.insert(0, str(ROOT / "papers" / "pages"))
    try:
        import parts
    finally:
        sys.path.pop(0)
    return parts


def test_a_reason_counts_only_where_it_brings_the_cell_within_the_limit():
    cells = [
        Cell("a", 80.0, 82.9, unit="accuracy"),
        Cell("b", 80.0, 70.0, unit="accuracy", tested=(60.0, 79.0)),
        Cell("c", 80.0, 70.0, unit="accuracy", tested=(60.0,)),
        Cell("c", 80.0, 70.0, unit="accuracy", tested=(60.0,)),  # printed twice, counted once
        Cell("d", None, 70.0, unit="accuracy"),
        Cell("e", 80.0, None, unit="accuracy"),
    ]
    assert shares(cells) == Shares(near=1, run=3, explained=1)
    assert "1 of 3 (33%); of the 2 that are off 1 (50%) have a tested reason" in sentence(cells)
    assert limit(Cell("f", 200.0, 205.0, unit="ε")) == pytest.approx(6.0)
    assert limit(Cell("g", 0.5, 0.6, unit="MSE")) == 0.03


@pytest.mark.parametrize("study", ["compare", "channel", "dirdp", "dirdp-v1"])
def test_every_page_prints_the_shares_of_its_stored_rows(study):
    said = sentence(pages().printed_cells(study))
    assert said in (ROOT / "docs" / "studies" / f"{study}.md").read_text()
