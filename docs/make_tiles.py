"""Images of the demo's report: the answer with its four tiles, and the first screen of the page.

``python docs/make_tiles.py demo/report.html`` writes ``docs/images/tiles.png`` and ``report.png``.
Needs playwright and a Chromium (``CHROMIUM`` says where, if it is not playwright's own).
"""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

IMAGES = Path(__file__).parent / "images"


def take(report: Path, folder: Path) -> None:
    """The page in the plain voice, and the answer alone, without the part that unfolds."""
    with sync_playwright() as browsers:
        browser = browsers.chromium.launch(
            executable_path=os.environ.get("CHROMIUM"), args=["--no-sandbox"]
        )
        size = {"width": 1180, "height": 1000}
        page = browser.new_page(viewport=size, device_scale_factor=1.5, color_scheme="light")
        page.goto(report.resolve().as_uri() + "#voice=plain")
        page.wait_for_timeout(500)
        _store(page.screenshot(), folder / "report.png")
        page.evaluate("document.querySelectorAll('.answer details').forEach(part => part.remove())")
        _store(page.locator("#answer .answer").first.screenshot(), folder / "tiles.png")
        browser.close()


def _store(shot: bytes, target: Path) -> None:
    """Few colours are enough, and a third of the bytes."""
    Image.open(io.BytesIO(shot)).convert("RGB").quantize(128).save(target, optimize=True)
    print(f"wrote {target} ({target.stat().st_size // 1000} kB)")


if __name__ == "__main__":
    take(Path(sys.argv[1]), IMAGES)
