"""The report in a real browser: Debian's Chromium, driven by Playwright, from disk, offline."""

import csv
import itertools
import sys
from pathlib import Path

import pytest

from recondite import report
from recondite.report.claims import claims
from recondite.report.improvement import with_improvements
from recondite.report.payload import payload_points, series_of
from recondite.report.points import make_points
from recondite.report.recommend import Budget, recommend
from recondite.report.rows import read_runs

sys.path.insert(0, str(Path(__file__).parents[1] / "report"))
import synthetic

CHROMIUM = Path("/usr/bin/chromium")
OPTIONS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip
LIVE = "html[data-charts=live]"

playwright_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = pytest.mark.skipif(
    not CHROMIUM.exists(), reason="needs Debian's chromium package (/usr/bin/chromium)"
)


@pytest.fixture(scope="module")
def browser():
    with playwright_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=OPTIONS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """Reports of each kind by name, with the run they were made from."""
    folder = tmp_path_factory.mktemp("reports")
    demo = synthetic.comparison(folder / "demo")
    broken = synthetic.comparison_rows(seeds=1, study="second")
    next(r for r in broken if r["claims"] and r["defence"] == "vmf")["claims"][0]["lower"] = 99.0
    broken[-1] |= {"status": "failed", "reason": "a reason </script><script>alert(1)</script>"}
    other = synthetic.write(folder / "other", broken)
    rounds = synthetic.federation(folder / "rounds")
    return {
        "demo": (report.build([demo], folder / "demo.html"), [demo]),
        "two runs": (report.build([demo, other], folder / "two.html"), [demo, other]),
        "federation": (report.build([rounds], folder / "rounds.html"), [rounds]),
    }


@pytest.fixture
def open_page(browser, reports):
    """Opens a report and fails, at the end, on any console message or network request."""
    contexts, troubles = [], []

    def go(name="demo", live=True, **options):
        context = browser.new_context(**({"viewport": {"width": 1280, "height": 900}} | options))
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda m: troubles.append(f"console {m.type}: {m.text}"))
        page.on("pageerror", lambda error: troubles.append(f"error: {error}"))
        page.on("request", lambda r: troubles.append(r.url) if not _local(r.url) else None)
        page.goto(reports[name][0].as_uri())
        if live and options.get("java_script_enabled", True):
            page.wait_for_selector(LIVE, state="attached", timeout=60_000)
        return page

    yield go
    for context in contexts:
        context.close()
    assert not troubles


def _local(address):
    return address.startswith(("file:", "data:", "blob:"))


def overflow(page):
    return page.evaluate("document.documentElement.scrollWidth - window.innerWidth")


def set_range(page, name, value):
    page.evaluate(
        "([id, v]) => { const e = document.getElementById(id); e.value = v;"
        " e.dispatchEvent(new Event('input', {bubbles: true})); }",
        [name, value],
    )


@pytest.mark.parametrize("name", ["demo", "two runs", "federation"])
def test_it_opens_clean_and_paints_at_once(open_page, name):
    page = open_page(name)
    paints = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    assert paints > 0
    # Painted before the chart library was there: the drawn charts stand in until then.
    page.locator(".plot[data-plot=tradeoff]").scroll_into_view_if_needed()
    page.wait_for_selector(".plot.is-live .js-plotly-plot .point", state="attached")


def test_the_axis_switch_changes_the_chart(open_page):
    page = open_page()
    plot = page.locator(".plot[data-plot=tradeoff]")
    plot.scroll_into_view_if_needed()
    page.wait_for_selector(".plot[data-plot=tradeoff].is-live")
    titles = set()
    for x, y in (("epsilon", "mse"), ("log_bayes_capacity_release", "ssim"), ("gdc", "accuracy")):
        page.select_option("#x-axis", x)
        page.select_option("#y-axis", y)
        assert plot.get_attribute("data-axes") == f"{x} {y}"
        titles.add((plot.locator(".xtitle").text_content(), plot.locator(".ytitle").text_content()))
    assert len(titles) == 3
    # Channels have no ε: the page says how many points it cannot draw.
    page.select_option("#x-axis", "epsilon")
    assert "3 of 15 settings have no such number" in page.inner_text("#about-axes")
    page.locator("button.cell").first.click()
    assert plot.get_attribute("data-axes") == "epsilon mse"


def test_the_legend_hides_a_defence_everywhere(open_page):
    page = open_page()
    page.locator("#tradeoff .plot").scroll_into_view_if_needed()
    page.wait_for_selector("#tradeoff .plot.is-live .point", state="attached")
    count = "document.querySelectorAll('#tradeoff .plot .point').length"
    before = page.evaluate(count)
    page.locator("#tradeoff .legend button", has_text="VMF").first.click()
    assert page.evaluate(count) < before
    assert page.locator(".legend button[aria-pressed=false]").count() == 2  # both legends


# Moves both sliders through their ranges as a reader would, and reads what the page recommends.
ASK = """([judge, allow, scope]) => {
  const set = (id, value, event) => {
    const control = document.getElementById(id);
    if (!control) return;
    if (control.type === 'checkbox') control.checked = value; else control.value = value;
    control.dispatchEvent(new Event(event, { bubbles: true }));
  };
  set('judge', judge, 'change');
  set('unbounded', allow, 'change');
  set('scope', scope === null ? '' : String(scope), 'change');
  const out = [];
  for (const kind of ['accuracy', 'quality']) {
    const slider = document.getElementById(kind);
    for (let i = 0; i <= 24; i += 1) {
      set(kind, Number(slider.min) + (slider.max - slider.min) * i / 24, 'input');
      const strong = document.querySelector('#verdict strong');
      out.push([kind, Number(slider.value), strong ? strong.textContent : null]);
    }
  }
  return out;
}"""


@pytest.mark.parametrize("name", ["demo", "two runs"])
def test_the_budget_picker_agrees_with_python(open_page, reports, name):
    runs = read_runs(reports[name][1])
    points = with_improvements(make_points(runs))
    broken = {claim.point for claim in claims(points) if claim.violated}
    data = payload_points(points, broken, series_of(points, runs)[0])
    page = open_page(name, live=False)
    scopes = [None, 0, 1] if name == "two runs" else [None]
    asked = list(itertools.product(("ssim_worst", "ssim", "auc"), (False, True), scopes))
    seen = set()
    for judge, allow, scope in asked:
        for kind, limit, shown in page.evaluate(ASK, [judge, allow, scope]):
            mine = recommend(data, Budget(kind, limit, judge, scope, allow))
            assert shown == (mine["label"] if mine else None), (judge, allow, kind, limit)
            seen.add(shown)
    assert len(seen) > 4
    assert None in seen  # a budget that nothing meets says so
    assert "Undefended" in seen  # but only once it was allowed


def test_never_one_without_a_bound_unless_allowed(open_page):
    page = open_page(live=False)
    set_range(page, "accuracy", 0.935)
    assert "No defence here with a finite bound" in page.inner_text("#verdict")
    page.check("#unbounded")
    assert "promises nothing" in page.inner_text("#promise")


def test_the_gallery_sorts_and_enlarges_by_mouse_and_keyboard(open_page):
    page = open_page(live=False)
    order = "[...document.querySelectorAll('#strips .strip')].map(s => Number(s.dataset[%r]))"
    worst = page.evaluate(order % "worst")
    assert worst == sorted(worst, reverse=True)
    page.select_option("#gallery-order", "mean")
    mean = page.evaluate(order % "mean")
    assert mean == sorted(mean, reverse=True)
    page.locator("#strips .pair").nth(1).click()
    viewer = page.locator("#viewer")
    assert viewer.is_visible()
    assert page.locator("#viewer-rebuilt").bounding_box()["width"] > 200
    assert page.inner_text("#viewer-place") == "2 of 8"
    page.keyboard.press("ArrowRight")
    assert page.inner_text("#viewer-place") == "3 of 8"
    page.keyboard.press("Escape")
    assert not viewer.is_visible()
    assert page.evaluate("document.activeElement.classList.contains('pair')")
    page.keyboard.press("Enter")
    assert viewer.is_visible()
    assert "SSIM" in page.inner_text("#viewer-scores")


@pytest.mark.parametrize("name", ["demo", "two runs"])
def test_the_csv_downloads_with_every_row(open_page, reports, tmp_path, name):
    page = open_page(name, live=False)
    with page.expect_download() as waiting:
        page.click("#csv")
    path = tmp_path / "rows.csv"
    waiting.value.save_as(path)
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == sum(len(run.rows) for run in read_runs(reports[name][1]))
    assert rows[0]["utility.test_accuracy"]
    assert waiting.value.suggested_filename == "recondite.csv"


@pytest.mark.parametrize("name", ["demo", "two runs", "federation"])
@pytest.mark.parametrize("width", [1280, 375, 320])
def test_no_overflow_in_any_theme_or_size(open_page, name, width):
    page = open_page(name, viewport={"width": width, "height": 812}, has_touch=width < 500)
    page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    page.evaluate("window.scrollTo(0, document.body.scrollHeight)")
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        page.wait_for_timeout(200)
        assert overflow(page) <= 0
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (sum(map(int, ground[4:-1].split(","))) < 200) == (scheme == "dark")


def test_the_theme_button_changes_the_theme_and_the_chart(open_page):
    page = open_page(color_scheme="light")
    page.locator("#tradeoff .plot").scroll_into_view_if_needed()
    page.wait_for_selector("#tradeoff .plot.is-live .xtitle", state="attached")
    ink = "getComputedStyle(document.querySelector('#tradeoff .plot .xtitle')).fill"
    before = page.evaluate(ink)
    page.click("#theme")
    assert page.get_attribute("html", "data-theme") == "dark"
    assert page.evaluate(ink) != before


def test_the_keyboard_reaches_everything(open_page):
    page = open_page(live=False)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    page.focus("#accuracy")
    before = page.inner_text("#accuracy-out")
    page.keyboard.press("Home")
    assert page.inner_text("#accuracy-out") != before
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"
    page.focus("#x-axis")
    chosen = page.input_value("#x-axis")
    page.keyboard.press("ArrowDown")
    assert page.input_value("#x-axis") != chosen
    stuck = page.evaluate(
        "[...document.querySelectorAll('button, select, input, summary, a[href], [tabindex]')]"
        ".filter(e => e.tabIndex < 0 && e.id !== 'main' && e.name !== 'kind').map(e => e.outerHTML)"
    )
    assert stuck == []


def test_reduced_motion_is_respected(open_page):
    page = open_page(live=False, reduced_motion="reduce")
    moving = page.evaluate(
        "[...document.querySelectorAll('*')].filter(e => {"
        " const s = getComputedStyle(e);"
        " return parseFloat(s.transitionDuration) > 0 || s.scrollBehavior === 'smooth'; }).length"
    )
    assert moving == 0


def test_it_reads_without_scripts(open_page):
    page = open_page(java_script_enabled=False)
    assert "it keeps" in page.inner_text("#verdict")
    assert page.locator("svg.chart").first.is_visible()
    assert page.locator("#strips img").first.is_visible()


def test_it_prints(open_page, tmp_path):
    page = open_page()
    page.emulate_media(media="print")
    assert not page.locator("#budget").is_visible()
    assert page.locator("#tradeoff svg.chart").is_visible()
    assert not page.locator("#tradeoff .live").is_visible()
    path = tmp_path / "report.pdf"
    page.pdf(path=path)
    assert path.read_bytes().startswith(b"%PDF")


def test_a_violated_bound_is_the_first_thing_seen(open_page):
    page = open_page("two runs", live=False)
    alarm = page.locator(".alarm")
    assert alarm.bounding_box()["y"] < page.locator("#answer").bounding_box()["y"]
    assert "⚠" in alarm.inner_text()
    assert "99" in alarm.inner_text()


def test_a_federation_shows_each_round(open_page):
    page = open_page("federation", live=False)
    assert page.locator("#rounds details").count() == 3
    page.locator("#rounds .pair").first.click()
    assert "Round 1" in page.inner_text("#viewer-caption")
