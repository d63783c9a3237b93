"""The report in a real browser: Debian's Chromium, driven by Playwright, from disk, offline."""

import csv
import itertools
import json
import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import numpy as np
import pytest

from recondite import dossier, report
from recondite.report.answer import Answers
from recondite.report.ladder import VIEWS
from recondite.report.recommend import Requirements, choose, without_accuracy
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


class Reports(dict):
    """Reports of each kind by name, with the runs they were made from; each built when asked."""

    def __init__(self, folder):
        super().__init__()
        self.folder = folder

    def __missing__(self, name):
        runs = RUNS[name](self.folder / name.replace(" ", "-"))
        self[name] = report.build(runs, self.folder / f"{name}.html"), runs
        return self[name]


def _demo(folder):
    return [synthetic.comparison(folder)]


def _two(folder):
    broken = synthetic.comparison_rows(seeds=1, study="second")
    next(r for r in broken if r["claims"] and r["defence"] == "vmf")["claims"][0]["lower"] = 99.0
    broken[-1] |= {"status": "failed", "reason": "a reason </script><script>alert(1)</script>"}
    return [*_demo(folder / "demo"), synthetic.write(folder / "other", broken)]


def _games(folder):
    games = synthetic.modern_rows()
    synthetic.pictures(folder, games)
    return [synthetic.write(folder, games)]


def _records(folder, first, second, media):
    """The games, on records that are no images."""
    games = synthetic.modern_rows()
    (folder / "gallery").mkdir(parents=True)
    for row in games:
        row["data"] |= {"name": "adult" if media.endswith("json") else "mails"}
        made = row["reconstruction"]
        if made:
            count = made["images"]
            np.savez(folder / made["gallery"], media=np.array(media), originals=[first] * count,
                     reconstructions=[second] * count, guesses=[second] * count)  # fmt: skip
    return [synthetic.write(folder, games)]


def _table(folder):
    cells = {"columns": ["age", "work", "a-rather-long-name-of-a-column", "income"],
             "cells": ["41", "Self-employed, not incorporated", "0.1234567", "> 50K"]}  # fmt: skip
    found = {**cells, "right": [True, False, True, False]}
    return _records(folder, json.dumps(cells), json.dumps(found), "application/json")


def _text(folder):
    said = "Dear doctor, my daughter Anna has had a fever since Tuesday. " * 3
    return _records(folder, said, said.replace("Anna", "Emma") + "x" * 90, "text/plain")


def _many(folder):
    rows = [
        {**row, "key": f"{i} {row['key']}", "label": f"{row['label']} #{i}", "value": i}
        for i in range(14)
        for row in synthetic.comparison_rows(seeds=1)
    ]
    return [synthetic.write(folder, rows)]


RUNS = {
    "demo": _demo,
    "two runs": _two,
    "games": _games,
    "table": _table,
    "text": _text,
    "200 settings": _many,
    "federation": lambda folder: [synthetic.federation(folder)],
}


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    return Reports(tmp_path_factory.mktemp("reports"))


@pytest.fixture
def open_page(browser, reports):
    """Opens a report and fails, at the end, on any console message or network request."""
    contexts, troubles = [], []

    def go(name="demo", live=True, view="#voice=technical", **options):
        context = browser.new_context(**({"viewport": {"width": 1280, "height": 900}} | options))
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda m: troubles.append(f"console {m.type}: {m.text}"))
        page.on("pageerror", lambda error: troubles.append(f"error: {error}"))
        page.on("request", lambda r: troubles.append(r.url) if not _local(r.url) else None)
        page.goto(reports[name][0].as_uri() + view)
        if live and options.get("java_script_enabled", True):
            page.wait_for_selector(LIVE, state="attached", timeout=60_000)
        return page

    yield go
    for context in contexts:
        context.close()
    assert not troubles


def _local(address):
    return address.startswith(("file:", "data:", "blob:"))


def script(name):
    return (Path(__file__).parent / "browser" / f"{name}.js").read_text(encoding="utf-8")


def overflow(page):
    return page.evaluate("document.documentElement.scrollWidth - window.innerWidth")


def set_range(page, name, value):
    page.evaluate(
        "([id, v]) => { const e = document.getElementById(id); e.value = v;"
        " e.dispatchEvent(new Event('input', {bubbles: true})); }",
        [name, value],
    )


@pytest.mark.parametrize("name", ["demo", "two runs", "federation", "table", "text"])
def test_it_opens_clean_and_paints_at_once(open_page, name):
    page = open_page(name, view="")
    paints = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    assert paints > 0
    assert page.locator("#tradeoff .point").count() > 1


def test_the_axis_switch_changes_the_chart(open_page):
    page = open_page()
    plot = page.locator(".plot[data-plot=tradeoff]")
    titles = set()
    for x, y in (("epsilon", "mse"), ("log_bayes_capacity_release", "ssim"), ("gdc", "accuracy")):
        page.select_option("#x-axis", x)
        page.select_option("#y-axis", y)
        assert plot.get_attribute("data-axes") == f"{x} {y}"
        titles.add(" ".join(plot.locator(".axis, .arrow").all_text_contents()))
    assert len(titles) == 3
    # Channels have no ε: the page says how many points it cannot draw.
    page.select_option("#x-axis", "epsilon")
    assert "3 of 15 settings have no such number" in page.inner_text("#about-axes")
    page.select_option("#y-axis", "accuracy")
    assert plot.locator(".arrow").all_text_contents() == ["← safer", "↑ more accurate"]
    assert "no limit" in plot.inner_text()
    page.locator("button.cell").first.click()
    assert plot.get_attribute("data-axes") == "epsilon mse"


def test_a_view_can_be_sent(open_page):
    page = open_page(view="")
    page.click("text=Technical")
    page.select_option("#x-axis", "epsilon")
    page.click("#budget-title")
    page.fill("#rero", "2.5")
    page.select_option("#participation", "known")
    sent = page.url[page.url.index("#") :]
    assert {"voice=technical", "x-axis=epsilon", "rero=2.5", "participation=known"} == set(
        sent[1:].split("&")
    )
    answer = page.inner_text("#verdict")
    other = open_page(view=sent)
    assert other.inner_text("#verdict") == answer
    assert other.locator("#tradeoff .plot").get_attribute("data-axes") == "epsilon accuracy"
    other.click("nav a[href='#gallery']")
    assert other.url.endswith(sent)  # a section is no part of a view
    wild = open_page(view="#rero=banana&threat=%3Cscript%3E&x-axis=none&accuracy=1e999&voice=3")
    assert wild.input_value("#rero") == "5"
    assert wild.input_value("#threat") == "training"
    assert wild.locator("#sentence").is_visible()


def test_two_voices_and_terms_by_mouse_and_keyboard(open_page):
    page = open_page("games", view="")
    assert page.locator("#sentence").is_visible()
    assert not page.locator("#verdict").is_visible()
    assert "by guessing 1 in 10, never more than" in page.inner_text("#fact-chance")
    term = page.locator(".term").first
    tip = page.locator(f"#{term.get_attribute('aria-describedby')}")
    assert not tip.is_visible()
    term.hover()
    assert tip.is_visible()
    page.keyboard.press("Escape")
    assert not tip.is_visible()
    page.mouse.move(0, 0)
    page.focus("#theme")
    page.keyboard.press("Tab")
    assert tip.is_visible()
    page.focus("#voice-plain")
    page.keyboard.press("ArrowRight")
    assert page.locator("#verdict").is_visible()
    assert not page.locator("#sentence").is_visible()


@pytest.mark.parametrize("name", ["games", "table", "text"])
def test_five_questions_are_answered_on_the_plain_first_screen(open_page, name):
    """What could be rebuilt, with the defence, what it costs, what is proven, what is not."""
    page = open_page(name, view="")
    inside = "(e) => { const b = e.getBoundingClientRect(); return b.top >= 0 && b.bottom <= 900; }"
    for where, said in (
        (".person:not([hidden]) .tile:nth-child(2)", "Rebuilt without a defence"),
        (".person:not([hidden]) .tile:nth-child(3)", "Rebuilt with Gaussian noise set to"),
        ("#fact-cost", "without a defence"),
        ("#fact-chance", "by guessing 1 in 10, never more than"),
        ("#fact-proven", "Nobody who watches the whole training, without being told when"),
        (".person:not([hidden]) .tile:nth-child(4)", "told its kind, not the record"),
        ("#fact-uncovered", "An intruder who knows when your record was used"),
        ("#short li[data-rung=proven]", "noise set to"),
        ("#short li[data-rung=broken]", "Undefended"),
    ):
        part = page.locator(where)
        assert said in part.inner_text()
        if name != "table" or not where.startswith(".person"):
            assert part.evaluate(inside), where
    assert page.evaluate(script("rules")) == []


def test_defences_are_explained_where_they_are_named(open_page):
    page = open_page("games", view="")
    tip = page.locator("#tip")
    page.locator("#sentence .means").hover()
    assert "Random noise" in tip.inner_text()
    page.keyboard.press("Escape")
    assert not tip.is_visible()
    page.locator("#short .term[tabindex='0']").focus()
    seen = set()
    for _ in range(page.locator("#short .means:visible").count() + 4):
        page.keyboard.press("ArrowRight")
        if tip.is_visible():
            seen.add(tip.inner_text())
    assert len(seen) > 3
    first = page.locator(".view:not([hidden]) .ladder .term[tabindex='0']")
    assert first.count() == 1
    first.focus()
    page.keyboard.press("ArrowDown")
    assert tip.is_visible()


def test_every_rung_shows_a_row_before_anybody_asks_for_all(open_page):
    page = open_page("games", view="")
    rows = page.locator(".view:not([hidden]) .ladder tbody tr:visible")
    shown = {rows.nth(i).get_attribute("data-rung") for i in range(rows.count())}
    every = page.locator(".view:not([hidden]) .ladder tbody tr")
    assert shown == {every.nth(i).get_attribute("data-rung") for i in range(every.count())}
    assert "broken" in shown
    assert rows.count() < every.count()


def test_points_are_reached_by_keyboard_and_show_their_images(open_page):
    page = open_page("games", view="")
    page.locator("#tradeoff .point[tabindex='0']").focus()
    card = page.locator("#tradeoff .card")
    seen = set()
    for _ in range(page.locator("#tradeoff .point").count()):
        page.keyboard.press("ArrowRight")
        assert card.is_visible()
        seen.add(card.locator("b").inner_text())
        assert card.locator("img").count() == 6
    assert len(seen) == page.locator("#tradeoff .point").count()
    page.keyboard.press("Escape")
    assert not card.is_visible()
    page.locator("#tradeoff .point.chosen .mark").hover()
    assert card.is_visible()


@pytest.mark.parametrize("size", [(1280, 800), (390, 844)])
def test_a_chart_of_200_settings_is_usable(open_page, size):
    page = open_page("200 settings", view="", viewport={"width": size[0], "height": size[1]})
    assert page.locator("#tradeoff .point").count() > 180
    labels, overlap = page.evaluate(script("overlaps"))
    assert labels >= 1
    assert not overlap
    marks = "#tradeoff .many .point"
    faded, front = page.locator(f"{marks}:not(.matters)"), page.locator(f"{marks}.matters")
    assert front.count() < 20
    assert float(faded.first.evaluate("e => getComputedStyle(e).opacity")) < 0.5
    assert page.locator("#tradeoff path.front").count() == 1
    assert overflow(page) <= 0
    for voice in ("plain", "technical"):
        page.evaluate("(id) => document.getElementById(id).click()", f"voice-{voice}")
        assert page.evaluate(script("titles")), voice
        named = " ".join(page.locator("#tradeoff .axis").all_text_contents())
        assert ("SSIM" in named) == (voice == "technical")
    counted = page.locator("#short li b").all_text_contents()
    assert sum(map(int, counted)) == 14 * 15  # those that the table has no room for too
    # It was 67,775 pixels long on a phone.
    assert page.evaluate("document.documentElement.scrollHeight") < 30_000


def test_rungs_follow_the_budget(open_page):
    page = open_page("games", view="")
    page.click("#budget-title")
    rows = "document.querySelectorAll('.view:not([hidden]) .ladder tr[data-rung]')"
    rungs = f"[...{rows}].map(row => row.dataset.rung)"
    before = page.evaluate(rungs)
    page.fill("#rero", "1.2")
    after = page.evaluate(rungs)
    page.fill("#rero", "9.8")
    wide = page.evaluate(rungs)
    assert after.count("proven") < before.count("proven") < wide.count("proven")
    order = ["proven", "resisted", "untested", "broken"]
    assert wide == sorted(wide, key=order.index)
    assert "9.8 in 10" in page.locator(".view:not([hidden]) .lead.plain").first.inner_text()
    assert page.locator("#tradeoff .ring").count() == wide.count("proven")


def test_nothing_can_leave_the_page(browser, reports):
    """A real server waits for whatever comes; nothing does, whatever a script tries."""
    came = []

    class Waiting(BaseHTTPRequestHandler):
        def do_GET(self):
            came.append(self.path)
            self.send_response(200)
            self.end_headers()

        do_POST = do_HEAD = do_OPTIONS = do_GET  # noqa: N815

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Waiting)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}/"
    try:
        context = browser.new_context()
        page = context.new_page()
        page.goto(address)  # it can be heard
        assert came
        page.goto(reports["demo"][0].as_uri())
        came.clear()
        ways, threw = page.evaluate(script("ways"), address)
        assert ways == 18
        assert threw >= 3
        context.close()
    finally:
        server.shutdown()
    assert came == []


STOP = (
    "document.activeElement === document.body || Boolean(document.activeElement.closest('footer'))"
)


@pytest.mark.parametrize("voice", ["plain", "technical"])
def test_figures_of_the_page(browser, reports, voice, capsys):
    """Prints size, first paint, tab stops and what accessibility checks find.

    axe-core is used where RECONDITE_AXE names its axe.min.js; its main rules are checked always.
    """
    path = reports["games"][0]
    axe = os.environ.get("RECONDITE_AXE")
    context = browser.new_context(viewport={"width": 1280, "height": 800}, bypass_csp=bool(axe))
    page = context.new_page()
    page.goto(f"{path.as_uri()}#voice={voice}")
    page.wait_for_selector(LIVE, state="attached")
    paint = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    found = page.evaluate(script("rules"))
    if axe:
        page.evaluate(Path(axe).read_text(encoding="utf-8") + ";0")
        ran = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
        found += [f"axe {one['id']}: {len(one['nodes'])}" for one in ran["violations"]]
    stops = 0
    while stops < 200:
        page.keyboard.press("Tab")
        if page.evaluate(STOP):
            break
        stops += 1
    context.close()
    checked = "axe-core and its main rules" if axe else "axe-core's main rules"
    with capsys.disabled():
        print(
            f"\nreport, {voice}: {path.stat().st_size / 1e3:.0f} kB, first paint {paint:.0f} ms, "
            f"{stops} tab stops, {len(found)} findings by {checked}"
        )
    assert path.stat().st_size < 1_000_000
    assert stops < 60
    assert found == []


def test_the_legend_hides_a_defence_everywhere(open_page):
    page = open_page()
    count = "document.querySelectorAll('#tradeoff .plot .point').length"
    before = page.evaluate(count)
    page.locator("#tradeoff .legend button", has_text="VMF").first.click()
    assert page.evaluate(count) < before
    assert page.locator(".legend button[aria-pressed=false]").count() == 2  # both legends


BUDGETS = [
    {"rero": 0.5}, {"rero": 0.2, "epsilon": 3}, {"epsilon": 0.5}, {"identification": 0.2}, {},
]  # fmt: skip


@pytest.mark.parametrize("name", ["demo", "two runs", "games"])
def test_the_page_walks_the_answers_of_python(open_page, reports, name):
    answers = Answers.of(read_runs(reports[name][1]))
    page = open_page(name, live=False)
    scopes = [None, 0, 1] if name == "two runs" else [None]
    seen = set()
    for view, scope, budgets in itertools.product(VIEWS, scopes, BUDGETS):
        asked = {key: budgets.get(key) for key in ("epsilon", "rero", "identification")}
        for level, shown, met in page.evaluate(script("ask"), [*view, scope, asked]):
            limits = Requirements(**asked, accuracy=level).limits()
            runs = None if scope is None else {scope}
            mine = choose(answers.ranked[view], limits, runs)
            assert met == (mine is not None), (view, limits)
            mine = mine or choose(answers.ranked[view], without_accuracy(limits), runs)
            label = None if mine is None else answers.points[mine.point].label
            assert shown == label, (view, limits)
            seen.add(shown)
    assert len(seen) > 3
    assert None in seen  # an intruder against whom nothing is proven
    assert "Undefended" not in seen  # never, whatever the budget


def test_the_intruder_changes_every_table(open_page):
    page = open_page("games", live=False)
    page.click("#budget-title")
    for threat, side in VIEWS:
        page.select_option("#threat", threat)
        page.select_option("#participation", side)
        shown = page.locator("[data-view]:visible")
        assert {shown.nth(i).get_attribute("data-view") for i in range(shown.count())} == {
            f"{threat} {side}"
        }
    page.select_option("#threat", "training")
    page.select_option("#participation", "secret")
    assert "no such intruder can exceed" in page.inner_text("#risks")
    set_range(page, "accuracy", 0.935)
    assert "Nothing tried protects at" in page.inner_text("#eyebrow")
    assert "Give up" in page.inner_text("#verdict")


def test_every_limit_moves_the_answer_by_its_own_control(open_page):
    page = open_page("two runs", view="")
    page.click("#budget-title")
    before = page.inner_text("#sentence")
    page.fill("#epsilon", "0.6")
    tight = page.inner_text("#sentence")
    assert tight != before
    assert page.url.endswith("epsilon=0.6")
    page.fill("#epsilon", "")
    assert page.inner_text("#sentence") == before
    page.fill("#identification", "1")
    assert "Nothing tried here is proven" in page.inner_text("#sentence")  # nobody played the game
    page.fill("#identification", "")
    page.select_option("#scope", "1")
    assert "scope=1" in page.url
    chosen = page.locator(".view:not([hidden]) .ladder tr.chosen").inner_text()
    assert "second" in chosen


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
    page.click("#previous")
    assert page.inner_text("#viewer-place") == "2 of 8"
    page.click("#next")
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


@pytest.mark.parametrize("name", ["demo", "two runs", "federation", "games", "table", "text"])
@pytest.mark.parametrize("width", [1280, 390, 320])
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
    ink = "getComputedStyle(document.querySelector('#tradeoff .plot .axis')).fill"
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
    page.click("#budget-title")
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
        ".filter(e => e.tabIndex < 0 && e.id !== 'main' && !e.closest('[data-roving]'))"
        ".map(e => e.outerHTML)"
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
    assert "With" in page.inner_text("#sentence")
    page.click("text=Technical")  # the style sheet alone changes the voice
    assert "it keeps" in page.inner_text("#verdict")
    assert "its numbers are in the table below" in page.inner_text("#tradeoff .plot")
    assert page.locator("#strips img").first.is_visible()


def test_print_gives_what_is_on_the_screen(open_page, tmp_path):
    page = open_page(view="#voice=technical&x-axis=epsilon&y-axis=ssim")
    page.click("text=The study as it was run")
    page.emulate_media(media="print")
    assert not page.locator("#budget").is_visible()
    assert not page.locator("pre").is_visible()
    assert page.locator("#tradeoff .plot").get_attribute("data-axes") == "epsilon ssim"
    assert page.locator("#tradeoff svg.chart").is_visible()
    assert page.locator("#verdict").is_visible()
    assert not page.locator("#sentence").is_visible()
    page.evaluate("document.getElementById('voice-plain').click()")
    sizes = "[...document.querySelectorAll('.ladder td')].filter(e => e.getClientRects().length)"
    sizes = page.evaluate(f"{sizes}.map(e => parseFloat(getComputedStyle(e).fontSize))")
    assert min(sizes) == max(sizes) == 12  # 9 points: read without a glass
    page.evaluate("document.getElementById('voice-technical').click()")
    path = tmp_path / "report.pdf"
    page.pdf(path=path)
    assert path.read_bytes().startswith(b"%PDF")


@pytest.mark.parametrize("width", [1280, 390])
def test_the_dossier_reads_on_a_desk_and_on_a_phone(browser, reports, tmp_path, width):
    dossier.make(reports["games"][1][0], tmp_path / "dossier")
    axe = os.environ.get("RECONDITE_AXE")
    context = browser.new_context(viewport={"width": width, "height": 844}, bypass_csp=bool(axe))
    page = context.new_page()
    page.goto((tmp_path / "dossier/dossier.html").as_uri())
    found = page.evaluate(script("rules"))
    if axe:
        page.evaluate(Path(axe).read_text(encoding="utf-8") + ";0")
        ran = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
        found += [f"axe {one['id']}: {len(one['nodes'])}" for one in ran["violations"]]
    assert found == []
    assert overflow(page) <= 0
    narrow = "[...document.querySelectorAll('.wide td')].map(e => e.getBoundingClientRect().width)"
    assert min(page.evaluate(narrow)) > 40  # a word a line is no table
    context.close()


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
