"""Make random changes on the live page in a browser; check for errors, and that results match the form.

``python -m tests.serve.random_settings --changes 1000`` makes a thousand changes; the test suite makes a few.
"""

from __future__ import annotations

import argparse
import base64
import json
import random
import sys
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from playwright.sync_api import Locator, Page, sync_playwright
from playwright.sync_api import TimeoutError as OutOfReach

from endive.cli.examples import examples_folder
from endive.serve.page_configuration import Presets
from endive.serve.server import serving_in_background
from tests.report.test_browser import CHROMIUM, FLAGS
from tests.serve.conftest import shorter

PATIENCE_MS = 600_000
"""Timeout for a run of 30 s with three seeds each of A and B, on busy cores."""
_REACHABLE_MS = 10_000
_ANSWERED = "body[data-state=answered]"


@dataclass
class Visit:
    """Browser tab with the page, and its errors."""

    page: Page
    errors: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Listen for errors."""
        self.page.set_default_timeout(PATIENCE_MS)
        self.page.on("console", lambda message: self._heard(message.text) if message.type == "error" else None)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))

    def _heard(self, text: str) -> None:
        """Record an error of the console, except rejected configurations (422) and superseded requests (409)."""
        if not any(f"status of {status}" in text for status in (409, 422)):
            self.errors.append(text)

    def open(self, address: str) -> Visit:
        """Open an address and wait for its result."""
        self.page.goto(address)
        return self.answered()

    def answered(self) -> Visit:
        """Wait until the last request is answered."""
        self.page.wait_for_selector(_ANSWERED)
        return self

    def record(self) -> Visit:
        """Wait for the first result of the last request, or a rejection."""
        self.page.wait_for_selector("body:not([data-state=asking])")
        return self

    @property
    def state(self) -> dict[str, Any]:
        """Return the state in the address."""
        text = str(self.page.evaluate("location.hash")).removeprefix("#")
        found: dict[str, Any] = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        return found

    def text(self, selector: str) -> str:
        """Return the text of an element."""
        return self.page.inner_text(selector).replace("\u00a0", " ")

    @property
    def refused(self) -> bool:
        """Return whether the page reports that a configuration cannot be simulated."""
        return self.page.is_visible("#problems")


def pick(page: Page, selector: str, draw: random.Random) -> Locator:
    """Select one of several elements. Raises OutOfReach if none appears in time, as while the form is replaced."""
    found = page.locator(selector)
    found.first.wait_for(state="attached")
    one = found.nth(draw.randrange(max(1, found.count())))
    one.wait_for(state="attached")
    return one


def change_something(visit: Visit, draw: random.Random) -> str:
    """Make a random change by keyboard or mouse, and return it. Raises OutOfReach if the form is replaced meanwhile."""
    page = visit.page
    kind = draw.choice(["slider", "slider", "text", "choice", "choice", "switch", "pin", "start"])
    if kind == "slider":
        slider = pick(page, "#essentials input[type=range]", draw)
        slider.focus()
        for _ in range(draw.randint(1, 4)):
            slider.press(draw.choice(["ArrowLeft", "ArrowRight", "PageUp", "PageDown", "Home"]))
    elif kind == "text":
        pick(page, "#essentials input.value", draw).fill(
            draw.choice(["1", "3", "17", "25s", "90s", "0", "-1", "many", "", "1e9", "2min"])
        )
    elif kind == "choice":
        select = pick(page, "#essentials select", draw)
        values = select.evaluate("select => [...select.options].map(option => option.value)")
        select.select_option(draw.choice(values))
    elif kind == "switch":
        pick(page, "#essentials input.switch", draw).press("Space")
    elif kind == "pin":
        page.click(draw.choice(["#pin", "#pin", "#unpin", "#back"]) if page.is_visible("#unpin") else "#pin")
    else:
        names = page.locator("#start option:not([hidden])").evaluate_all("options => options.map(option => option.value)")
        page.select_option("#start", draw.choice(names))
    return kind


def check(visit: Visit) -> None:
    """Raise AssertionError if the page shows an error, or a result that does not match its form."""
    assert visit.errors == [], visit.errors
    assert not visit.page.is_visible("#gone"), visit.text("#gone")
    if visit.refused:
        assert visit.text("#problems").strip()
        return
    assert visit.page.get_attribute("body", "data-stale") == "false", visit.text("#status")
    # in one step and without layout, because a refined result may replace the table
    heads = "heads => heads.map(head => head.firstChild.textContent)"
    shown = set(visit.page.eval_on_selector_all("table.classes tbody th", heads))
    classes = set(visit.state["tree"].get("workload", {})) or {"default"}
    assert shown - {"all classes"} <= classes, (shown, classes)
    assert visit.page.is_visible("#unpin") == (visit.state.get("a") is not None)


def many(changes: int, seed: int) -> None:
    """Make changes, some of them while a result is pending, and check the state after each result."""
    draw = random.Random(seed)
    with TemporaryDirectory() as name, sync_playwright() as playwright:
        folder = Path(name)
        with serving_in_background(Presets(shorter(folder), folder, examples_folder()), folder) as (address, _):
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
            visit = Visit(browser.new_page()).open(address.whole)
            refused = gone = 0
            for number in range(changes):
                visit.page.set_default_timeout(_REACHABLE_MS)
                try:
                    kind = change_something(visit, draw)
                except OutOfReach:  # the form was replaced between selection and click
                    gone, kind = gone + 1, "gone"
                    assert gone <= 1 + number // 20, "the form does not keep still"
                visit.page.set_default_timeout(PATIENCE_MS)
                moment = draw.random()
                if moment < 0.2:
                    continue  # the next change is made during this simulation
                visit.record() if moment < 0.95 else visit.answered()  # usually while it is refined
                try:
                    check(visit)
                except AssertionError:
                    print(f"change {number} ({kind}), seed {seed}: {visit.page.url}", file=sys.stderr)
                    raise
                refused += visit.refused
                if number % 50 == 0:
                    print(f"{number} changes, {refused} refused with a sentence", file=sys.stderr)
            visit.answered()
            check(visit)
            browser.close()
    print(f"{changes} random changes without an error or a wrong state; {refused} states were refused with a sentence")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--changes", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    many(options.changes, options.seed)
