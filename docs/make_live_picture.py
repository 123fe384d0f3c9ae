"""Make ``docs/guides/live.png``: the live page after a moved slider.

Run ``python docs/make_live_picture.py``; it needs a chromium.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from playwright.sync_api import ViewportSize, sync_playwright

from endive.cli.examples import examples_folder
from endive.serve.page_configuration import Presets
from endive.serve.server import serving_in_background

_PICTURE = Path(__file__).parent / "guides" / "live.png"
_SIZE = ViewportSize(width=1280, height=1010)
_PATIENCE_MS = 300_000


def main() -> None:
    """Start a server, change the page and take the picture."""
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        folder = Path(name)
        with serving_in_background(Presets(None, folder, examples_folder()), folder) as (address, _):
            browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
            page = browser.new_page(viewport=_SIZE, color_scheme="light")
            page.set_default_timeout(_PATIENCE_MS)
            page.goto(address.whole)
            page.wait_for_selector("body[data-state=answered]")
            page.fill("#f-workload-ingest-writers", "24")
            page.wait_for_selector("body[data-state=answered]")
            page.wait_for_selector("#curve[data-drawn] svg")
            page.locator("#f-workload-ingest-writers").blur()
            page.wait_for_timeout(500)
            page.screenshot(path=_PICTURE)
            browser.close()
    print(f"wrote {_PICTURE}")


if __name__ == "__main__":
    main()
