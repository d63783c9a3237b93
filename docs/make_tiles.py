"""An image of the answer in the demo's report: its four tiles and what stands beside them.

``python docs/make_tiles.py demo/report.html`` writes ``docs/images/tiles.png``. Needs playwright
and a Chromium (``CHROMIUM`` says where, if it is not playwright's own).
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

TARGET = Path(__file__).parent / "images" / "tiles.png"


def take(report: Path, target: Path) -> None:
    """The answer in the plain voice, without the part that unfolds."""
    with sync_playwright() as browsers:
        browser = browsers.chromium.launch(
            executable_path=os.environ.get("CHROMIUM"), args=["--no-sandbox"]
        )
        size = {"width": 1180, "height": 1000}
        page = browser.new_page(viewport=size, device_scale_factor=1.5, color_scheme="light")
        page.goto(report.resolve().as_uri() + "#voice=plain")
        page.evaluate("document.querySelectorAll('.answer details').forEach(part => part.remove())")
        page.wait_for_timeout(500)
        page.locator("#answer .answer").first.screenshot(path=str(target))
        browser.close()


if __name__ == "__main__":
    take(Path(sys.argv[1]), TARGET)
    print(f"wrote {TARGET} ({TARGET.stat().st_size // 1000} kB)")
