"""The site as a reader has it: built strictly, then opened from a disk, without any network."""

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

pytest.importorskip("mkdocs")
pytest.importorskip("mkdocstrings")

ROOT = Path(__file__).resolve().parents[2]


class Page(HTMLParser):
    """What a page links to, what it loads, and the places in it that can be linked to."""

    def __init__(self, text):
        super().__init__()
        self.links, self.loads, self.places = [], [], {""}
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.places.update(given[key] for key in ("id", "name") if given.get(key))
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        if given.get("src"):
            self.loads.append(given["src"])
        if tag == "link" and given.get("rel") in ("stylesheet", "icon"):
            self.loads.append(given["href"])


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    out = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(out)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": "docs", "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return out


@pytest.fixture(scope="module")
def pages(site):
    found = {path: Page(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}
    found.pop(site / "404.html")  # a server's, not a disk's
    assert len(found) > 40
    return found


def test_every_link_works_from_a_disk(pages):
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            assert target.is_file(), (path, link)
            if target in pages:
                assert unquote(parts.fragment) in pages[target].places, (path, link)


def test_nothing_is_loaded_from_elsewhere(pages):
    for path, page in pages.items():
        for source in page.loads:
            assert not urlsplit(source).scheme or source.startswith("data:"), (path, source)
            if not urlsplit(source).scheme:
                assert (path.parent / urlsplit(source).path).resolve().is_file(), (path, source)


def test_formulas_and_signatures_are_there(site):
    theory = (site / "theory/mechanisms.html").read_text(encoding="utf-8")
    assert len(re.findall(r"<math [^>]*display=\"block\"", theory)) >= 7
    api = (site / "reference/api.html").read_text(encoding="utf-8")
    assert 'id="recondite.epsilon"' in api
    assert "group_size" in re.search(r'id="recondite.epsilon".*?</code></pre>', api, re.DOTALL)[0]


def test_the_site_opens_in_a_browser(site):
    playwright = pytest.importorskip("playwright.sync_api")
    chromium = next(
        (p for p in ("/usr/bin/chromium", "/usr/bin/google-chrome") if Path(p).exists()), None
    )
    if chromium is None:
        pytest.skip("no Chromium here")
    asked, failed = [], []
    with playwright.sync_playwright() as browsers:
        browser = browsers.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.on("request", lambda request: asked.append(request.url))
        page.on("requestfailed", lambda request: failed.append(request.url))
        page.goto((site / "index.html").as_uri())
        page.get_by_role("link", name="I want one answer").first.click()
        assert page.url.endswith("one-answer.html")
        assert page.locator("h1").inner_text().startswith("One answer")
        page.goto((site / "theory/leakage.html").as_uri())
        assert page.locator("math").first.bounding_box()["height"] > 20
        browser.close()
    assert not failed
    assert all(url.startswith(("file:", "data:", "blob:")) for url in asked)
