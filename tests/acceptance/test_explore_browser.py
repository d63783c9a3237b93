"""The explorer in a real browser: every control, a slow or killed server, nothing leaves."""

import contextlib
import functools
import http.server
import io
import json
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from benchmarks.kills import reference_rows
from benchmarks.kills_explorer import STUDY, Explorer, kill_explorer

from recondite.cli.main import run
from recondite.explore.worker import progress_of, running
from recondite.federated.ledger import ReleaseLedger
from recondite.studies.store import load

sys.path.insert(0, str(Path(__file__).parents[1] / "report"))
import synthetic

CHROMIUM = Path("/usr/bin/chromium")
OPTIONS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip
KILLS = 5  # all fifty: python -m benchmarks.kills_explorer
SMALL = """\
name: small
data: digits
model: mlp
prepare: none
defences:
  - name: none
  - name: gaussian
    noise_multiplier: [0.5, 1.0, 2.0]
training: {epochs: 1, batch_size: 64}
attacks:
  - {name: inverting-gradients, images: 2, steps: 40}
  - {name: membership-threshold, records: 100}
"""

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
def runs(tmp_path_factory):
    """A study with images, and a federation with ledgers, a checkpoint and evidence."""
    folder = tmp_path_factory.mktemp("runs")
    rows = synthetic.modern_rows()
    synthetic.pictures(folder / "games", rows)
    games = synthetic.write(folder / "games", rows)
    rounds = folder / "rounds"
    synthetic.federation(rounds, rounds=2)
    (rounds / "study.json").unlink()
    state = {"rows": [{"round": n, "accuracy": 0.4 + n / 10} for n in (0, 1, 2)], "settings": {}}
    (rounds / "checkpoint.json").write_text(json.dumps(state))
    for client in range(3):
        release(rounds, 1, client)
    return {"games": games, "rounds": rounds}


def release(folder, number, client):
    plan = {"sampling": "shuffled", "steps": 1, "passes": 1, "batch_size": 1, "records": 1}
    line = {
        "key": f"{number}-{client}", "run": "1", "round": number, "level": "client",
        "simulation": False, "mechanism": "vmf", "parameters": {"kappa": 20.0, "dim": 13700},
        "schedule": plan,
    }  # fmt: skip
    ReleaseLedger(folder / "ledgers" / f"client-{client}").write(line)


@pytest.fixture
def explorer(runs, tmp_path):
    began = time.perf_counter()
    found = Explorer(str(runs["games"]), str(runs["rounds"]), out=tmp_path / "out")
    print(f"the explorer printed its address after {time.perf_counter() - began:.2f} s")
    yield found
    if found.process.poll() is None:
        assert found.stop() == 0
        assert "stopped; studies that were started go on" in found.process.stdout.read()


@pytest.fixture
def open_page(browser, explorer):
    """Opens the explorer; fails, at the end, on any error in the console or any other address."""
    contexts, troubles = [], []
    home = f"http://{explorer.address.split('/')[2]}/"

    def go(part="calibrate", quiet=True, **options):
        given = {"viewport": {"width": 1280, "height": 900}} | options
        context = browser.new_context(**given, permissions=["clipboard-read", "clipboard-write"])
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(60_000)
        if quiet:
            # What the server refuses in one line, the browser logs too.
            page.on("console", lambda m: troubles.append(m.text) if "422" not in m.text else None)
        page.on("pageerror", lambda error: troubles.append(f"error: {error}"))
        page.on(
            "request",
            lambda r: (
                troubles.append(r.url) if not r.url.startswith((home, "data:", "blob:")) else None
            ),
        )
        page.goto(explorer.address)
        assert page.url.startswith(home)
        assert "token" not in page.url
        page.click(f"nav a[href='#{part}']")
        page.wait_for_selector(f"#{part}:not([hidden])")
        return page

    yield go
    for context in contexts:
        context.close()
    assert not troubles


def until(page, expression, arg=None):
    """Waits; the page's policy forbids what Playwright would evaluate in it for that."""
    deadline = time.monotonic() + 120
    while not page.evaluate(expression, arg):
        assert time.monotonic() < deadline, expression
        page.wait_for_timeout(50)


def answered(page, action):
    """Does something, and waits for the tight answer to it."""
    page.wait_for_selector("#stage.tight")
    page.evaluate("document.getElementById('stage').className = 'tag'")
    action()
    page.wait_for_selector("#stage.tight")
    return page.inner_text("#sentence")


def test_every_field_of_the_setting_changes_the_answer(open_page):
    page = open_page()
    said = {answered(page, lambda: page.fill("#epochs", "12"))}
    for name, value in (
        ("value", "1.5"),
        ("records", "3000"),
        ("batch_size", "100"),
        ("candidates", "20"),
    ):
        said.add(answered(page, lambda name=name, value=value: page.fill(f"#{name}", value)))
    for name, value in (("sampling", "fixed-size"), ("sampling", "poisson"), ("threat", "update"),
                        ("threat", "model"), ("participation", "known")):  # fmt: skip
        said.add(
            answered(page, lambda name=name, value=value: page.select_option(f"#{name}", value))
        )
    assert len(said) >= 9
    before = page.inner_text("#figures")
    answered(page, lambda: page.fill("#delta", "1e-6"))
    answered(page, lambda: page.fill("#prior", "0.2"))
    assert page.inner_text("#figures") != before
    # The address keeps the setting: a reload shows it again.
    page.reload()
    page.wait_for_selector("#stage.tight")
    assert page.input_value("#records") == "3000"
    assert page.input_value("#participation") == "known"


def test_every_defence_can_be_chosen(open_page):
    page = open_page()
    page.wait_for_selector("#stage.tight")  # the choices come from the server, before it
    names = page.eval_on_selector_all("#defence option", "all => all.map((one) => one.value)")
    assert len(names) >= 5
    for name in names:
        answered(page, lambda name=name: page.select_option("#defence", name))
    answered(page, lambda: page.select_option("#defence", "directional"))
    answered(page, lambda: page.fill("#blocks", "3"))
    answered(page, lambda: page.fill("#dim", "500"))
    assert "blocks=3" in page.inner_text("#copied")
    assert "dim=500" in page.inner_text("#copied")


def test_a_locked_target_is_solved_for(open_page):
    page = open_page()
    answered(page, lambda: page.select_option("#lock", "epsilon"))
    assert "≤ 8.000" in page.inner_text("#figures")
    noise = float(page.input_value("#value"))
    answered(page, lambda: page.fill("#target", "2"))
    assert float(page.input_value("#value")) > noise
    answered(page, lambda: page.select_option("#solve", "epochs"))
    assert int(page.input_value("#epochs")) >= 1
    answered(page, lambda: page.select_option("#solve", "noise"))
    answered(page, lambda: page.select_option("#lock", "identification"))
    assert "in more than 30% of cases" in page.inner_text("#sentence")
    answered(page, lambda: page.select_option("#lock", "rero"))
    answered(page, lambda: page.select_option("#lock", "accuracy"))
    assert page.input_value("#value") in ("0.5", "1", "2", "4")
    assert "noise multiplier" not in page.inner_text("#stored-label")


def test_a_coarse_answer_that_holds_comes_before_the_tight_one(open_page):
    page = open_page()
    page.wait_for_selector("#stage.tight")
    page.evaluate(
        "window.stages = []; new MutationObserver(() => window.stages.push("
        "[document.getElementById('stage').className, document.getElementById('figures').innerText,"
        " performance.now()])).observe(document.getElementById('figures'), {childList: true});"
        "window.began = performance.now()"
    )
    answered(page, lambda: page.select_option("#lock", "epsilon"))
    stages = page.evaluate("window.stages")
    assert [kind for kind, _, _ in stages] == ["tag coarse", "tag tight"]
    began = page.evaluate("window.began")
    for kind, _, at in stages:
        print(f"{kind}: {at - began:.0f} ms after the change, 250 of them waiting for more typing")


def test_images_are_those_of_the_nearest_stored_run_and_say_so(open_page):
    page = open_page()
    answered(page, lambda: page.fill("#value", "1.9"))
    until(page, "document.getElementById('stored-label').innerText.includes('σ = 2')")
    said = page.inner_text("#stored-label")
    assert "Measured in run demo with Gaussian σ = 2" in said
    assert "noise multiplier 2 there, 1.9 here" in said
    assert page.locator("#stored img").count() == 12
    assert "stored" in page.inner_text("#stored figcaption")
    rounds = page.locator("#run option", has_text="rounds").get_attribute("value")
    answered(page, lambda: page.select_option("#run", rounds))
    until(page, "document.getElementById('stored').innerText.includes('No stored run')")
    assert page.locator("#stored img").count() == 0


def test_copies_give_the_epsilon_that_is_shown(open_page, capsys):
    page = open_page()
    shown = []
    for changes in ({"value": "1.2"}, {"records": "500", "batch_size": "50"}):
        for name, value in changes.items():
            answered(page, lambda name=name, value=value: page.fill(f"#{name}", value))
        page.click("[data-copy=python]")
        page.click("#copy")
        until(page, "document.getElementById('copy-said').innerText === 'copied'")
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            exec(page.evaluate("navigator.clipboard.readText()"), {})
        shown.append(float(said.getvalue()))
        page.click("[data-copy=command]")
        capsys.readouterr()
        assert run([*shlex.split(page.inner_text("#copied"))[1:], "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["epsilon"]["pld"] == shown[-1]
    page.click("[data-copy=yaml]")
    answered(page, lambda: page.fill("#copy-data", "digits"))
    answered(page, lambda: page.fill("#copy-model", "mlp"))
    assert "data: digits" in page.inner_text("#copied")
    assert f"{shown[-1]:.2f}"[:3] in page.inner_text("#figures")


def test_bad_input_stays_in_the_field_with_one_line(open_page):
    page = open_page()
    page.wait_for_selector("#stage.tight")
    for name, value in (("value", "much"), ("records", "-3"), ("delta", "7"), ("epochs", "")):
        kept = page.input_value(f"#{name}")
        page.fill(f"#{name}", value)
        page.wait_for_selector(f"[data-field={name}] .mistake:not(:empty)")
        assert page.input_value(f"#{name}") == value
        line = page.inner_text(f"[data-field={name}] .mistake")
        assert line
        assert "\n" not in line
        assert page.get_attribute(f"#{name}", "aria-invalid") == "true"
        assert page.locator(".mistake:not(:empty)").count() == 1
        assert "not answered" in page.inner_text("#stage")
        assert page.inner_text("#figures") == ""
        page.click("#copy")
        assert "wait for" in page.inner_text("#copy-said")
        answered_again = functools.partial(page.fill, f"#{name}", kept)
        answered_again()
        page.wait_for_selector("#stage.tight")
        assert page.locator(".mistake:not(:empty)").count() == 0


def test_the_theme_changes_and_is_kept(open_page):
    page = open_page()
    page.click("#theme")
    theme = page.evaluate("document.documentElement.dataset.theme")
    page.reload()
    page.wait_for_selector("#stage.tight")
    assert page.evaluate("document.documentElement.dataset.theme") == theme


def test_a_run_is_opened_by_path_file_folder_and_drop(open_page, runs):
    page = open_page("study")
    page.wait_for_selector("#rows tr")
    page.fill("#path", "/no/such/run")
    page.click("#open button")
    page.wait_for_selector("[data-field=path] .mistake:not(:empty)")
    assert page.input_value("#path") == "/no/such/run"
    assert "is not there" in page.inner_text("[data-field=path] .mistake")
    page.fill("#path", str(runs["games"]))
    page.click("#open button")
    until(page, "document.getElementById('watched-name').innerText === 'games'")
    page.set_input_files("#drop-file", str(runs["games"] / "records.jsonl"))
    until(page, "document.getElementById('watched-name').innerText === 'records.jsonl'")
    assert "45" in page.inner_text("#watched-count")
    page.set_input_files("#drop-folder", str(runs["games"]))
    until(page, "document.getElementById('watched-path').innerText === 'games'")
    page.wait_for_selector("#strips img")
    page.evaluate(
        """(text) => { const given = new DataTransfer();
        given.items.add(new File([text], 'dropped.jsonl'));
        window.dispatchEvent(new DragEvent('drop', {dataTransfer: given, bubbles: true})); }""",
        (runs["games"] / "records.jsonl").read_text(),
    )
    until(page, "document.getElementById('watched-name').innerText === 'dropped.jsonl'")
    page.set_input_files("#drop-file", {"name": "x.jsonl", "mimeType": "", "buffer": b"hello"})
    page.wait_for_selector("[data-field=drop] .mistake:not(:empty)")
    assert "no row of a study" in page.inner_text("[data-field=drop] .mistake")


def test_a_run_that_takes_long_to_open_says_so(open_page):
    page = open_page()
    held = []
    page.route("**/watch/**", lambda route: held.append(route))  # noqa: PLW0108
    page.click("nav a[href='#study']")
    until(page, "document.getElementById('unwatched').innerText === 'Opening games…'")
    assert page.is_hidden("#stop")
    assert page.is_hidden("#view-threat")
    held[0].continue_()
    page.wait_for_selector("#ladder tr")
    assert page.is_hidden("#unwatched")


def test_links_and_folds_within_the_page(open_page):
    page = open_page("federation")
    page.focus(".skip")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    assert page.is_visible("#federation")  # the address names a part, and #main is none
    page.click("#federation a[href='#study']")
    page.wait_for_selector("#study:not([hidden])")
    opened = page.get_attribute("#new-study", "open")
    page.click("#new-study summary")
    assert page.get_attribute("#new-study", "open") != opened


def test_the_ladder_follows_the_intruder(open_page):
    page = open_page("study")
    page.locator("#runs button", has_text="games").first.click()
    page.wait_for_selector("#ladder tr")
    before = page.inner_text("#ladder")
    assert "proven" in before
    page.select_option("#view-participation", "known")
    until(page, "(was) => document.getElementById('ladder').innerText !== was", arg=before)
    page.select_option("#view-threat", "update")
    page.wait_for_timeout(300)
    assert page.locator("#ladder tr").count() == 15


def test_the_form_writes_a_study_and_says_what_is_wrong(open_page):
    page = open_page("study")
    until(page, "document.getElementById('yaml').value.includes('gaussian')")

    def drafted(part):
        until(page, "(part) => document.getElementById('yaml').value.includes(part)", arg=part)

    for name, value, part in (
        ("#new-name", "mine", "name: mine"), ("#new-data", "digits", "data: digits"),
        ("#new-model", "lenet", "model: lenet"), ("#new-epochs", "7", "epochs: 7"),
        ("#new-batch", "33", "batch_size: 33"), ("#new-records", "444", "records: 444"),
        ("#new-seeds", "2", "seeds: 2"), ("#noise-gaussian", "0.75", "- 0.75"),
    ):  # fmt: skip
        page.fill(name, value)
        drafted(part)
    page.uncheck("#defend-vmf")
    until(page, "!document.getElementById('yaml').value.includes('vmf')")
    page.check("#defend-partitioned")
    page.fill("#noise-partitioned", "12")
    drafted("name: partitioned")
    page.uncheck("#attack-strongest")
    until(page, "!document.getElementById('yaml').value.includes('strongest')")
    page.fill("#noise-gaussian", "loud")
    page.wait_for_selector("[data-field=defences] .mistake:not(:empty)")
    assert page.input_value("#noise-gaussian") == "loud"
    page.fill("#yaml", "data: digits\nmodel: nothing\ndefences: [{name: none}]\n")
    page.click("#start")
    page.wait_for_selector("[data-field=yaml] .mistake:not(:empty)")
    assert "study.yaml:2: model" in page.inner_text("[data-field=yaml] .mistake")
    assert page.input_value("#yaml").startswith("data: digits\nmodel: nothing")


def test_a_study_grows_stops_goes_on_and_outlives_the_server(open_page, explorer, tmp_path):
    page = open_page("study", quiet=False)
    folder = tmp_path / "out" / "small"
    page.fill("#yaml", SMALL)
    page.click("#start")
    until(page, "document.getElementById('watched-name').innerText === 'small'")
    page.wait_for_selector("#rows tr")
    first = page.locator("#rows tr").count()
    until(page, "(n) => document.querySelectorAll('#rows tr').length > n", arg=first)
    assert page.locator("#ladder tr").count() >= 1
    with contextlib.suppress(playwright_api.TimeoutError):  # it may be over by now
        page.click("#stop", timeout=10_000)
    until(
        page, "['stopped', 'finished'].includes(document.getElementById('watched-state').innerText)"
    )
    assert not running(folder)
    kept = {row["key"] for row in load(folder)}
    if page.inner_text("#watched-state") == "stopped":
        page.click("#go-on")
    until(
        page,
        "['starting', 'running', 'finished']"
        ".includes(document.getElementById('watched-state').innerText)",
    )
    explorer.kill()
    page.wait_for_selector("#banner:not([hidden])")
    assert "not answering" in page.inner_text("#banner")
    assert page.input_value("#yaml") == SMALL
    deadline = time.monotonic() + 120
    while progress_of(folder).get("state") != "finished" and time.monotonic() < deadline:
        time.sleep(0.2)
    assert progress_of(folder)["state"] == "finished"
    assert kept <= {row["key"] for row in load(folder)}
    assert len(load(folder)) == 8


def test_a_finished_study_gives_its_report(open_page, runs, explorer):
    from recondite import report

    report.build([runs["games"]], runs["games"] / "report.html")
    page = open_page("study")
    page.locator("#runs button", has_text="games").first.click()
    page.wait_for_selector("#watched-report:not([hidden])")
    with page.expect_download() as download:
        page.click("#watched-report")
    assert download.value.suggested_filename == "games.html"


def test_a_federation_is_followed_with_budgets_and_alarms(open_page, runs):
    page = open_page("federation")
    page.wait_for_selector("#clients tbody tr")
    assert page.locator("#clients tbody tr").count() == 3
    assert page.locator("#clients .released").count() == 3
    assert page.locator("#best img").count() == 12
    release(runs["rounds"], 2, 1)
    until(page, "document.querySelectorAll('#clients .released').length === 4")
    page.fill("#budget", "none of it")
    page.wait_for_selector("[data-field=budget] .mistake:not(:empty)")
    assert page.input_value("#budget") == "none of it"
    page.fill("#budget", "5")
    page.wait_for_selector("#clients .left")
    assert page.locator("#federation-alarms .alarm").count() == 0
    page.fill("#budget", "0.01")
    page.wait_for_selector("#federation-alarms .alarm")
    page.fill("#budget", "5")
    page.wait_for_selector("#federation-alarms .alarm", state="detached")
    rows = [
        json.loads(line) for line in (runs["rounds"] / "records.jsonl").read_text().splitlines()
    ]
    broken = next(row for row in rows if row["defence"] == "vmf")
    broken["claims"] = [{"notion": "epsilon", "claim": 1.0, "lower": 3.0, "how": "an audit"}]
    with (runs["rounds"] / "records.jsonl").open("a") as file:
        file.write(json.dumps(broken) + "\n")
    page.wait_for_selector("#federation-alarms .alarm")
    assert "yet an audit shows at least 3" in page.inner_text("#federation-alarms")
    page.select_option("#which", label="rounds")


def test_a_slow_server_is_said_to_be_slow(open_page, explorer):
    page = open_page()
    page.wait_for_selector("#stage.tight")
    assert page.is_hidden("#banner")
    os.kill(explorer.process.pid, signal.SIGSTOP)
    try:
        page.wait_for_selector("#banner:not([hidden])")
        assert "The server is slow" in page.inner_text("#banner")
    finally:
        os.kill(explorer.process.pid, signal.SIGCONT)
    page.wait_for_selector("#banner", state="hidden")


def test_a_killed_server_and_another_in_its_place_are_told(open_page, explorer, tmp_path):
    page = open_page(quiet=False)
    page.wait_for_selector("#stage.tight")
    page.fill("#value", "1.25")
    explorer.kill()
    page.wait_for_selector("#banner:not([hidden])")
    assert "The server is not answering" in page.inner_text("#banner")
    assert page.input_value("#value") == "1.25"
    port = explorer.address.split("/")[2].partition(":")[2]
    other = Explorer("--port", port, out=tmp_path / "out")
    try:
        until(page, "document.getElementById('banner').innerText.includes('Another server')")
        page.goto(other.address)
        page.wait_for_selector("#stage.tight")
        assert page.is_hidden("#banner")
    finally:
        assert other.stop() == 0


def test_another_page_of_this_browser_gets_nothing(browser, explorer, tmp_path):
    (tmp_path / "evil.html").write_text("<p>hello")
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        context = browser.new_context()
        page = context.new_page()
        page.goto(explorer.address)
        page.wait_for_selector("#stage")
        page.goto(f"http://127.0.0.1:{server.server_port}/evil.html")
        host = explorer.address.split("/")[2]
        code = """async ([address, mode]) => { try { const found = await fetch(address,
          {credentials: 'include', mode}); return found.status + (await found.text()); }
          catch (error) { return String(error); } }"""
        for address in ("/state", "/live", "/"):
            for mode in ("cors", "no-cors"):
                said = page.evaluate(code, [f"http://{host}{address}", mode])
                assert said in ("0", "TypeError: Failed to fetch")
        assert (
            page.evaluate(
                """(address) => new Promise((done) => { const source = new EventSource(address,
            {withCredentials: true}); source.onmessage = () => done('heard');
            source.addEventListener('beat', () => done('heard'));
            source.onerror = () => done('nothing'); })""",
                f"http://{host}/live",
            )
            == "nothing"
        )
        context.close()
        server.shutdown()


@pytest.mark.parametrize("part", ["calibrate", "study", "federation"])
def test_a_phone_shows_it_without_scrolling_sideways(open_page, part):
    page = open_page(part, viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    page.wait_for_selector(
        {"calibrate": "#stage.tight", "study": "#rows tr", "federation": "#clients tr"}[part]
    )
    assert page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0
    small = page.evaluate(
        "[...document.querySelectorAll('button, input:not([type=checkbox]):not([type=file]), "
        "select')].filter((one) => one.offsetParent && one.getBoundingClientRect().height < 30)"
        ".map((one) => one.id)"
    )
    assert small == []


@pytest.mark.parametrize("part", ["calibrate", "study", "federation"])
def test_every_control_has_a_name(open_page, part):
    page = open_page(part)
    page.wait_for_timeout(1500)
    kinds = ", ".join(f"#{part} {kind}" for kind in ("input", "select", "textarea", "button"))
    unnamed = page.eval_on_selector_all(
        kinds,
        "all => all.filter((one) => !(one.labels?.length || one.textContent.trim() || "
        "one.getAttribute('aria-label'))).map((one) => one.outerHTML)",
    )
    assert unnamed == []


@pytest.mark.parametrize("part", ["calibrate", "study", "federation"])
def test_accessibility_of_every_part(open_page, part):
    """The main rules of axe-core always, all of them where RECONDITE_AXE names axe.min.js."""
    axe = os.environ.get("RECONDITE_AXE")
    page = open_page(part, bypass_csp=bool(axe))
    page.wait_for_selector(
        {"calibrate": "#stage.tight", "study": "#rows tr", "federation": "#clients tr"}[part]
    )
    rules = Path(__file__).parent / "browser" / "rules.js"
    found = page.evaluate(rules.read_text(encoding="utf-8"))
    if axe:
        page.evaluate(Path(axe).read_text(encoding="utf-8") + ";0")
        ran = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
        found += [f"axe {one['id']}: {len(one['nodes'])}" for one in ran["violations"]]
    assert found == []


def test_a_real_federation_is_followed_live(open_page, tmp_path):
    """Flower's own rounds: ledgers, budgets and the auditor's best image come while they run."""
    folder = tmp_path / "flower"
    command = [sys.executable, "-m", "recondite", "federate", "demo", "--clients", "2",
               "--rounds", "2", "--partition", "iid", "--local-steps", "1",
               "--audit-seconds", "20", "--out", str(folder)]  # fmt: skip
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        page = open_page("study", quiet=False)
        run = folder / "iid-fedsgd-vmf"
        deadline = time.monotonic() + 500
        while not list(run.glob("ledgers/*/releases.jsonl")):
            assert process.poll() is None, (tmp_path / "log").read_text()[-2000:]
            assert time.monotonic() < deadline
            time.sleep(0.5)
        page.fill("#path", str(run))
        page.click("#open button")
        page.set_default_timeout(400_000)
        page.wait_for_selector("#clients .released")
        assert "finished" not in page.inner_text("#round")  # while it runs
        page.fill("#budget", "1e6")
        page.wait_for_selector("#clients .left")
        page.wait_for_selector("#best img")
        deadline = time.monotonic() + 500
        while "finished" not in page.inner_text("#round"):
            assert time.monotonic() < deadline
            page.wait_for_timeout(500)
        assert page.locator("#clients .released").count() == 4
        assert page.locator("#clients tbody tr").count() == 2
        assert "ledger" in page.inner_text("#clients caption")
        assert process.wait(timeout=300) == 0
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            process.wait(timeout=60)


def test_kills_of_the_server_lose_no_row(tmp_path):
    path = tmp_path / "study.yaml"
    path.write_text(STUDY)
    found = kill_explorer(reference_rows(path, tmp_path / "reference"), tmp_path / "out", KILLS)
    print(found)
    assert found["kills"] >= KILLS
    assert found["finished"] >= 1
    assert found["lost"] == found["wrong"] == found["stopped_with_the_server"] == 0
