"""The studies' pages are what the stored results give: none is stale, none was edited by hand."""

import sys
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")
PAPERS = Path(__file__).resolve().parents[2]
STORED = PAPERS.parent / "docs" / "studies"


@pytest.mark.parametrize("page", ["compare", "channel", "dirdp", "dirdp-v1"])
def test_a_page_is_made_from_the_results(page, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(PAPERS / "pages"))
    for name in ("make_studies", "study_pages"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    import make_studies
    import study_pages

    monkeypatch.setattr(make_studies, "PAGES", tmp_path)
    monkeypatch.setattr(make_studies, "IMAGES", tmp_path / "images")
    study_pages.PAGES[page]()
    assert (tmp_path / f"{page}.md").read_text() == (STORED / f"{page}.md").read_text()
