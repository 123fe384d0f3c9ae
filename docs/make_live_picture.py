"""Make ``docs/guides/live.png``: the live page as somebody sees it who has pinned a state and moved a slider.

Run ``python docs/make_live_picture.py``; it needs a chromium.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import time
from pathlib import Path

from playwright.sync_api import ViewportSize, sync_playwright

from endive.cli.examples import examples_folder
from endive.serve.server import serving
from endive.serve.starts import Starts

_PICTURE = Path(__file__).parent / "guides" / "live.png"
_SIZE = ViewportSize(width=1280, height=1010)
_PATIENCE_MS = 300_000


def main() -> None:
    """Start a server, change the page and take the picture."""
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    with tempfile.TemporaryDirectory() as folder, serving(Starts(None, Path(folder), examples_folder()), Path(folder)) as served:
        server, address = served
        thread = threading.Thread(target=server.run, daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.05)
        with sync_playwright() as playwright:
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
        server.should_exit = True
        thread.join()
    print(f"wrote {_PICTURE}")


if __name__ == "__main__":
    main()
