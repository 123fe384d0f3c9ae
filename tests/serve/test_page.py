"""The live page in a real browser: by keyboard and by mouse, in two tabs, and without its server."""

from __future__ import annotations

import os
import random
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, Route, sync_playwright

from endive.cli.examples import examples_folder
from endive.serve.page_configuration import Presets
from endive.serve.server import serving_in_background
from tests.cli import start
from tests.report.test_browser import CHROMIUM, FLAGS
from tests.serve.conftest import Client, shorter
from tests.serve.random_settings import PATIENCE_MS, Visit, change_something, check
from tests.serve.test_components import own

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium; `apt-get install chromium`, or CHROMIUM names one"),
    pytest.mark.xdist_group("browser"),
]
WRITERS = "#f-workload-ingest-writers"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield found
        found.close()


@pytest.fixture
def visit(browser: Browser, client: Client) -> Iterator[Visit]:
    page = browser.new_page()
    yield Visit(page).open(client.address.whole)
    page.close()


def success(visit: Visit) -> float:
    """The share in the headline."""
    found = re.match(r"([\d.]+)(?:–[\d.]+)?%", visit.text("#sentence"))
    assert found, visit.text("#sentence")
    return float(found[1])


def test_it_opens_with_an_answer_and_its_charts(visit: Visit) -> None:
    page = visit.page
    for name in ("curve", "time", "timeline"):
        page.wait_for_selector(f"#{name}[data-drawn] svg")
    assert "of transactions commit" in visit.text("#sentence")
    assert "current load" in visit.text("#curve")
    assert "token" not in page.url
    assert visit.errors == []


CLIPBOARD = """async () => {
    const [item] = await navigator.clipboard.read();
    const image = await createImageBitmap(await item.getType("image/png"));
    const canvas = new OffscreenCanvas(image.width, image.height);
    const context = canvas.getContext("2d");
    context.drawImage(image, 0, 0);
    const pixels = context.getImageData(0, 0, image.width, image.height).data;
    const colours = new Set();
    for (let place = 0; place < pixels.length; place += 4) colours.add(pixels.slice(place, place + 4).join());
    return { width: image.width, height: image.height, corner: [...pixels.slice(0, 4)], colours: [...colours] };
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_figure_is_copied_as_png(browser: Browser, client: Client, scheme: Literal["light", "dark"]) -> None:
    """The picture has a white background and dark ink in both schemes, the colours of the figure, and twice its width."""
    context = browser.new_context(permissions=["clipboard-read", "clipboard-write"], color_scheme=scheme)
    visit = Visit(context.new_page()).open(client.address.whole)
    page = visit.page
    for name in ("curve", "time", "timeline"):
        page.wait_for_selector(f"#{name}[data-drawn] svg")
        page.click(f"#{name} button.picture")
        page.wait_for_selector(f"#{name} button.picture:has-text('Copied')")
        found = page.evaluate(CLIPBOARD)
        drawn = page.locator(f"#{name} .chart svg").bounding_box()
        assert drawn is not None
        assert found["width"] >= 2 * int(drawn["width"])
        assert found["height"] > 2 * int(drawn["height"]), "title and legend are above the chart"
        assert found["corner"] == [255, 255, 255, 255]
        assert "26,28,31,255" in found["colours"], "text has the ink of paper"
    assert visit.errors == []
    context.close()


def test_a_figure_is_saved_where_the_clipboard_is_closed(visit: Visit) -> None:
    page = visit.page
    page.wait_for_selector("#curve[data-drawn] svg")
    page.evaluate("() => { navigator.clipboard.write = () => Promise.reject(new Error('closed')); }")
    with page.expect_download() as download:
        page.click("#curve button.picture")
    assert download.value.suggested_filename == "throughput_versus_offered_load.png"
    assert Path(download.value.path()).read_bytes().startswith(b"\x89PNG")
    page.wait_for_selector("#curve button.picture:has-text('Saved')")
    assert visit.errors == []


def test_a_slider_moved_by_keys_changes_the_answer_and_survives_a_reload(visit: Visit) -> None:
    before = success(visit)
    slider = visit.page.locator("[data-row='workload.ingest.writers'] input[type=range]")
    slider.focus()
    for _ in range(8):
        slider.press("ArrowRight")
    visit.answered()
    after = success(visit)
    writers = visit.page.input_value(WRITERS)
    assert int(writers) > 40
    assert after < before
    visit.page.reload()
    visit.answered()
    assert (visit.page.input_value(WRITERS), success(visit)) == (writers, after)
    assert visit.errors == []


def test_everything_is_reached_by_the_tab_key_and_has_a_name(visit: Visit) -> None:
    nameless = visit.page.evaluate(
        """() => [...document.querySelectorAll("button, select, input, textarea")].filter(each => each.checkVisibility())
            .filter(each => !each.labels?.length && !each.getAttribute("aria-label") && !each.textContent.trim())
            .map(each => each.outerHTML)"""
    )
    assert nameless == []
    reached = []
    for _ in range(12):
        visit.page.keyboard.press("Tab")
        reached.append(visit.page.evaluate("document.activeElement.id || document.activeElement.className"))
    assert reached[:6] == ["skip", "start", "pin", "copy", "save", "report"]
    assert WRITERS.removeprefix("#") in reached


def test_errors_appear_at_their_field_until_they_are_corrected(visit: Visit) -> None:
    visit.page.fill(WRITERS, "many")
    visit.answered()
    row = visit.page.locator("[data-row='workload.ingest.writers']").first
    assert "integer" in row.locator(".error").inner_text()
    assert visit.page.get_attribute(WRITERS, "aria-invalid") == "true"
    assert visit.page.get_attribute("body", "data-stale") == "true"
    visit.page.fill(WRITERS, "3")
    visit.answered()
    assert not visit.refused
    assert visit.page.get_attribute("body", "data-stale") == "false"


def test_a_pinned_state_is_compared(visit: Visit) -> None:
    visit.page.click("#pin")
    visit.answered()
    visit.page.fill(WRITERS, "50")
    visit.answered()
    assert "worse than A in success" in visit.text("#comparison")
    throughput = [row.split("\t") for row in visit.page.locator(".compared tr", has_text="throughput").all_inner_texts()]
    assert {tuple(cell[-2:] for cell in row[1:4]) for row in throughput} == {
        ("/s", "/s", "/s"),
        ("/h", "/h", "/h"),
    }  # of compaction
    size = visit.page.viewport_size
    visit.page.set_viewport_size({"width": 360, "height": 740})
    ends = visit.page.locator(".compared td").evaluate_all("cells => cells.map(cell => cell.getBoundingClientRect().right)")
    assert max(ends) <= 360, "verdicts are seen on a phone without scrolling"
    visit.page.set_viewport_size(size)  # type: ignore[arg-type]
    visit.page.click("#back")
    visit.answered()
    assert visit.page.input_value(WRITERS) == "12"
    visit.page.click("#unpin")
    assert not visit.page.is_visible("#against")


def test_a_class_is_switched_off_and_on_again(visit: Visit) -> None:
    visit.page.locator("#f-switch-compaction").press("Space")
    visit.answered()
    assert "compaction" not in visit.text("#classes")
    visit.page.locator("#f-switch-compaction").press("Space")
    visit.answered()
    assert "compaction" in visit.text("#classes")
    assert visit.state["tree"]["workload"]["compaction"]["operation"] == "rewrite_files"


def test_an_answer_that_comes_late_is_not_shown(visit: Visit) -> None:
    """Questions that follow each other at once: what is shown in the end is the answer to the last."""
    for writers in (60, 40, 20, 3):
        visit.page.fill(WRITERS, str(writers))
        visit.page.wait_for_timeout(300)
    visit.answered()
    quick = success(visit), visit.text("#classes")
    visit.page.reload()
    visit.answered()
    assert (success(visit), visit.text("#classes")) == quick
    assert visit.page.input_value(WRITERS) == "3"


def test_a_start_that_comes_late_overwrites_nothing(visit: Visit) -> None:
    """A recipe is on its way when a field is changed: what is shown is no answer to either, and the field stays."""
    held: list[Route] = []
    visit.page.route("**/api/starts/*", lambda route: held.append(route))
    names = visit.page.locator("#start option:not([hidden])").evaluate_all("options => options.map(option => option.value)")
    with visit.page.expect_request("**/api/starts/*"):
        visit.page.select_option("#start", names[-1])
    assert visit.page.get_attribute("body", "data-state") == "asking"
    assert visit.page.get_attribute("body", "data-stale") == "true"
    visit.page.fill(WRITERS, "3")
    visit.answered()
    with visit.page.expect_response("**/api/starts/*"):
        held[0].continue_()
    check(visit.answered())
    assert visit.page.input_value(WRITERS) == "3"


def test_two_tabs_at_once_each_have_their_own_answer(browser: Browser, client: Client) -> None:
    tabs = [Visit(browser.new_page()).open(client.address.whole) for _ in range(2)]
    for visit, writers in zip(tabs, ("60", "2"), strict=True):
        visit.page.fill(WRITERS, writers)
    shares = [success(visit.answered()) for visit in tabs]
    assert shares[0] < 90.0 < shares[1]
    for visit in tabs:
        check(visit)
        visit.page.close()


def test_random_changes_leave_no_error_and_no_wrong_state(visit: Visit) -> None:
    draw = random.Random(7)
    for _ in range(10):
        change_something(visit, draw)
        check(visit.record())
    check(visit.answered())


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_wider_than_a_phone(browser: Browser, client: Client, scheme: str) -> None:
    page = browser.new_page(viewport={"width": 360, "height": 740}, color_scheme=scheme)  # type: ignore[arg-type]
    visit = Visit(page).open(client.address.whole)
    page.wait_for_selector("#curve[data-drawn]")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert visit.errors == []
    page.close()


def test_a_custom_catalog_is_named_and_has_controls(browser: Browser, tmp_path: Path) -> None:
    page = browser.new_page()
    starts = Presets(own(tmp_path), tmp_path, examples_folder(), code=True)
    with serving_in_background(starts, tmp_path, workers=1) as (address, _):
        visit = Visit(page).open(address.whole)
        assert page.locator("#f-catalog-type option").all_inner_texts() == ["custom: QueueCatalog"]
        assert page.is_disabled("#f-catalog-type")
        slider = page.locator("[data-row='parts.catalog.options.service_ms'] input[type=range]")
        slider.focus()
        slider.press("ArrowRight")
        visit.answered()
        assert page.input_value("#f-parts-catalog-options-service_ms") == "100"
        assert "endive run live.toml --seed 0 --allow-code" in (page.text_content("#basis pre") or "")
        page.select_option("#start", "default")
        visit.answered()
        assert page.locator("#f-catalog-type option").count() > 1
        assert page.locator("[data-row^='parts.']").count() == 0
        assert visit.errors == []
        page.close()


def test_a_class_keeps_the_arrivals_of_transaction_if_they_are_chosen_again(browser: Browser, tmp_path: Path) -> None:
    configuration = tmp_path / "shared.toml"
    configuration.write_text(
        "[simulation]\nduration_ms = 60000\n[storage]\nprovider = 's3'\n[transaction]\ninter_arrival = { scale = 2000 }\n"
        "[workload.ingest]\noperation = 'fast_append'\n"
    )
    page = browser.new_page()
    with serving_in_background(Presets(configuration, tmp_path, examples_folder()), tmp_path, workers=1) as (address, _):
        visit = Visit(page).open(address.whole)
        page.select_option("#f-workload-ingest-arrivals", "")
        visit.answered()
        assert visit.errors == []
        assert page.input_value("#f-workload-ingest-arrivals") == ""
        page.close()


def test_a_server_that_ends_is_reported_and_waited_for(browser: Browser, tmp_path: Path) -> None:
    page = browser.new_page()
    page.set_default_timeout(PATIENCE_MS)
    starts = Presets(shorter(tmp_path), tmp_path, examples_folder())
    with serving_in_background(starts, tmp_path, workers=1) as (address, end):
        page.goto(address.whole)
        page.wait_for_selector("body[data-state=answered]")
        end()
    page.fill(WRITERS, "20")
    page.wait_for_selector("#gone:not([hidden])")
    assert "does not respond" in page.inner_text("#gone")
    with serving_in_background(starts, tmp_path, workers=1, port=address.port, token=address.token):
        page.click("#gone button")
        page.wait_for_selector("#gone[hidden]", state="attached")
        page.wait_for_selector("body[data-state=answered]")
        assert page.input_value(WRITERS) == "20"
        assert page.get_attribute("body", "data-stale") == "false"
    page.close()


def test_a_killed_server_is_reported_and_its_workers_end(browser: Browser, tmp_path: Path) -> None:
    page = browser.new_page()
    page.set_default_timeout(PATIENCE_MS)
    process = start("serve", str(shorter(tmp_path)), "--no-open", "--workers", "1", cwd=tmp_path)
    try:
        assert process.stdout is not None
        page.goto(process.stdout.readline().split()[-1])
        page.wait_for_selector("body[data-state=answered]")
        workers = descendants(process.pid)
        page.fill(WRITERS, "20")
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
    page.fill(WRITERS, "21")
    page.wait_for_selector("#gone:not([hidden])")
    assert "does not respond" in page.inner_text("#gone")
    assert page.get_attribute("body", "data-stale") == "true"
    assert workers
    deadline = time.monotonic() + PATIENCE_MS / 1000.0
    while any(map(runs, workers)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(runs, workers))
    page.close()


def descendants(process: int) -> set[int]:
    """The processes that a process has started, and those that they have."""
    found: set[int] = set()
    new = {process}
    while new:
        new = {int(each) for one in new for each in _children(one)} - found
        found |= new
    return found


def _children(process: int) -> list[str]:
    return [child for file in Path(f"/proc/{process}/task").glob("*/children") for child in file.read_text().split()]


def runs(process: int) -> bool:
    """Tell whether a process is there and has not ended."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
