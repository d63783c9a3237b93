"""The studies' pages are what the stored results give: none is stale, none was edited by hand."""

from pathlib import Path

import pytest

pytest.importorskip("matplotlib")
PAPERS = Path(__file__).resolve().parents[2]
STORED = PAPERS.parent / "docs" / "studies"


@pytest.mark.parametrize("page", ["compare", "channel", "dirdp", "dirdp-v1", "frontier"])
def test_a_page_is_made_from_the_results(page, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(PAPERS / "pages"))
    import make_studies
    import parts

    monkeypatch.setattr(parts, "PAGES", tmp_path)
    monkeypatch.setattr(parts, "IMAGES", tmp_path / "images")
    make_studies.PAGES[page]()
    assert (tmp_path / f"{page}.md").read_text() == (STORED / f"{page}.md").read_text()
