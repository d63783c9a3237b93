"""Figures of what people see: the demo's page, and the explorer's server.

    python -m benchmarks.pages demo       # runs the demo; results/demo.json
    python -m benchmarks.pages explorer   # results/explorer.json

Both want playwright and Debian's chromium. Accessibility is checked by axe-core where
``RECONDITE_AXE`` names its axe.min.js; its version stands beside what it found.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from benchmarks.kills_explorer import Explorer
from benchmarks.provenance import provenance

__all__ = ["answers_of", "demo", "explorer", "figures_of"]

_OPTIONS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
]
_STOP = "(e) => e === document.body || Boolean(e.closest('footer'))"
_PARTS = ("calibrate", "study", "federation")
# What the page asks as it opens: the form's own values.
SETTING = {
    "defence": "gaussian", "value": "1", "dim": "13706", "lock": "", "target": "8",
    "solve": "noise", "records": "4000", "batch_size": "128", "epochs": "20", "delta": "1e-5",
    "sampling": "poisson",
    "threat": "training", "participation": "secret", "candidates": "10", "prior": "0.1",
}  # fmt: skip


def demo(folder: Path) -> dict[str, Any]:
    """Runs the demo; its time, answer, accuracies, and the figures of its page."""
    command = [sys.executable, "-m", "recondite", "demo", "--out", str(folder)]
    began = time.perf_counter()
    narrow = {**os.environ, "COLUMNS": "80"}
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=narrow)
    seconds = time.perf_counter() - began
    rows = [
        json.loads(line)
        for line in (folder / "records.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return {
        "seconds": round(seconds, 1),
        "load": [round(value, 1) for value in os.getloadavg()],
        "answer": answers_of(done.stdout),
        "accuracy": {row["label"]: row["utility"]["test_accuracy"] for row in rows},
        "page": figures_of(folder / "report.html"),
        "megabytes": round(size / 1e6, 2),
    }


def answers_of(printed: str) -> list[str]:
    """The lines of the answer: what is printed before the first empty line or table."""
    lines = []
    for line in printed.splitlines():
        if not line.strip() or set(line) & set("─━"):
            break
        lines.append(line.rstrip())
    return lines


def figures_of(page: Path) -> dict[str, Any]:
    """Size, first paint, tab stops in both voices, and what axe-core finds."""
    found: dict[str, Any] = {"kilobytes": round(page.stat().st_size / 1e3, 1)}
    with _browser() as browser:
        paints = []
        for voice in ("plain", "technical"):
            shown = browser.new_context(viewport={"width": 1280, "height": 800}, bypass_csp=True)
            tab = shown.new_page()
            tab.goto(f"{page.resolve().as_uri()}#voice={voice}")
            tab.wait_for_selector("html[data-charts=live]", state="attached")
            entry = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
            paints.append(tab.evaluate(entry))
            found[f"{voice}_tab_stops"] = _stops(tab)
            found[f"{voice}_axe"] = _axe(tab)
            shown.close()
    return {**found, "first_paint_ms": round(min(paints))}


def _stops(tab: Any) -> int:
    for count in range(500):
        tab.keyboard.press("Tab")
        if tab.evaluate(f"({_STOP})(document.activeElement)"):
            return count
    return 500


def explorer(repeats: int) -> dict[str, Any]:
    """Seconds until the address is printed, until both answers, and what axe-core finds."""
    starts, coarse, tight = [], [], []
    with tempfile.TemporaryDirectory() as folder, _browser() as browser:
        for turn in range(repeats):
            began = time.perf_counter()
            server = Explorer(out=Path(folder))
            starts.append(time.perf_counter() - began)
            try:
                # The first question of a server loads what all of them need.
                for sigma in ("1", f"1.{turn + 1}"):
                    seconds = _asked(server, {**SETTING, "value": sigma})
                coarse.append(seconds["coarse"])
                tight.append(seconds["tight"])
                if turn == repeats - 1:
                    axe = _explored(browser, server)
            finally:
                server.stop()
    return {
        "start_seconds": _spread(starts),
        "coarse_seconds": _spread(coarse),
        "tight_seconds": _spread(tight),
        "axe": axe,
        "load": [round(value, 1) for value in os.getloadavg()],
    }


def _asked(server: Explorer, setting: dict[str, str]) -> dict[str, float]:
    """Seconds from a question to each of its answers."""
    host = server.address.split("/")[2]
    cookie = f"recondite-{host.partition(':')[2]}={server.address.partition('token=')[2]}"
    connection = http.client.HTTPConnection(host, timeout=120)
    began = time.perf_counter()
    found: dict[str, float] = {}
    connection.request("GET", f"/answer?{urlencode(setting)}", headers={"Cookie": cookie})
    answer = connection.getresponse()
    while line := answer.readline().decode():
        if event := re.match(r"event: (coarse|tight|refused|end)", line):
            found.setdefault(event[1], time.perf_counter() - began)
            if event[1] == "end":
                break
    connection.close()
    return found


def _explored(browser: Any, server: Explorer) -> dict[str, Any]:
    shown = browser.new_context(bypass_csp=True)
    tab = shown.new_page()
    tab.goto(server.address)
    found = {}
    for part in _PARTS:
        tab.click(f"nav a[href='#{part}']")
        tab.wait_for_selector(f"#{part}:not([hidden])")
        tab.wait_for_timeout(1500)
        found[part] = _axe(tab)
    shown.close()
    return found


def _axe(tab: Any) -> Any:
    place = os.environ.get("RECONDITE_AXE")
    if not place:
        return "not run"
    tab.evaluate(Path(place).read_text(encoding="utf-8") + ";0")
    ran = tab.evaluate("axe.run(document, { resultTypes: ['violations'] })")
    return {
        "version": ran["testEngine"]["version"],
        "violations": [{"id": one["id"], "nodes": len(one["nodes"])} for one in ran["violations"]],
    }


def _spread(values: list[float]) -> dict[str, float]:
    return {"median": round(statistics.median(values), 3), "most": round(max(values), 3)}


@contextmanager
def _browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=os.environ.get("CHROMIUM", "/usr/bin/chromium"), args=_OPTIONS
        )
        yield browser
        browser.close()


def main() -> None:
    """Measures what is named and writes it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("demo", "explorer"))
    parser.add_argument("--folder", type=Path, default=Path("demo"), help="the demo's results")
    parser.add_argument("--repeats", type=int, default=5, help="starts of the explorer")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    origin = provenance()
    found = demo(given.folder) if given.what == "demo" else explorer(given.repeats)
    command = f"python -m benchmarks.pages {given.what}"
    body = {"command": command, "provenance": origin, **found}
    out = given.out or Path(f"results/{given.what}.json")
    out.write_text(json.dumps(body, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(json.dumps({**body, "provenance": "…"}, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
