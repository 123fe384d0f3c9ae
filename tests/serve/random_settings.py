"""Random changes of the live page in a real browser: no error, and never an answer to another question than the form's.

``python -m tests.serve.random_settings --changes 1000`` makes a thousand; the suite makes a few.
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
from endive.serve.presets import Presets
from endive.serve.server import serving_in_background
from tests.report.test_browser import CHROMIUM, FLAGS
from tests.serve.conftest import shorter

PATIENCE_MS = 600_000
"""A run of thirty seconds is taken, with three seeds of A and of B, on cores that others use."""
_REACHABLE_MS = 10_000
_ANSWERED = "body[data-state=answered]"


@dataclass
class Visit:
    """A tab with the page, and what went wrong in it."""

    page: Page
    errors: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Listen for what goes wrong."""
        self.page.set_default_timeout(PATIENCE_MS)
        self.page.on("console", lambda message: self._heard(message.text) if message.type == "error" else None)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))

    def _heard(self, text: str) -> None:
        """Keep an error of the console; that a configuration was refused (422) or a question replaced by the next (409) is none."""
        if not any(f"status of {status}" in text for status in (409, 422)):
            self.errors.append(text)

    def open(self, address: str) -> Visit:
        """Open an address and wait for its answer."""
        self.page.goto(address)
        return self.answered()

    def answered(self) -> Visit:
        """Wait until the last question is answered."""
        self.page.wait_for_selector(_ANSWERED)
        return self

    def record(self) -> Visit:
        """Wait until there is a first answer to the last question, or a refusal."""
        self.page.wait_for_selector("body:not([data-state=asking])")
        return self

    @property
    def state(self) -> dict[str, Any]:
        """What the address says."""
        text = str(self.page.evaluate("location.hash")).removeprefix("#")
        found: dict[str, Any] = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        return found

    def text(self, selector: str) -> str:
        """The text of an element."""
        return self.page.inner_text(selector).replace("\u00a0", " ")

    @property
    def refused(self) -> bool:
        """Whether the page says that this cannot be simulated."""
        return self.page.is_visible("#problems")


def pick(page: Page, selector: str, draw: random.Random) -> Locator:
    """Pick one of several elements. Raises OutOfReach if there is none in time, as between two forms."""
    found = page.locator(selector)
    found.first.wait_for(state="attached")
    one = found.nth(draw.randrange(max(1, found.count())))
    one.wait_for(state="attached")
    return one


def change_something(visit: Visit, draw: random.Random) -> str:
    """Make a random change by keyboard or mouse, and say which. Raises OutOfReach if another form comes meanwhile."""
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
    """Raise AssertionError if the page shows an error, or an answer to something else than its form says."""
    assert visit.errors == [], visit.errors
    assert not visit.page.is_visible("#gone"), visit.text("#gone")
    if visit.refused:
        assert visit.text("#problems").strip()
        return
    assert visit.page.get_attribute("body", "data-stale") == "false"
    # in one step, and without a layout: the table may be replaced by a better answer meanwhile
    heads = "heads => heads.map(head => head.firstChild.textContent)"
    shown = set(visit.page.eval_on_selector_all("table.classes tbody th", heads))
    classes = set(visit.state["tree"].get("workload", {})) or {"default"}
    assert shown - {"all classes"} <= classes, (shown, classes)
    assert visit.page.is_visible("#unpin") == (visit.state.get("a") is not None)


def many(changes: int, seed: int) -> None:
    """Make so many changes, some of them while an answer is on its way, and check the state after each answer."""
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
                except OutOfReach:  # another form came between the look and the touch
                    gone, kind = gone + 1, "gone"
                    assert gone <= 1 + number // 20, "the form does not keep still"
                visit.page.set_default_timeout(PATIENCE_MS)
                moment = draw.random()
                if moment < 0.2:
                    continue  # the next change comes while this one is being simulated
                visit.record() if moment < 0.95 else visit.answered()  # mostly while it is being refined
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
