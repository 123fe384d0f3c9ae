"""The report in a real browser: Debian's chromium, or the one that CHROMIUM names."""

from __future__ import annotations

import csv
import io
import os
import re
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pandas as pd
import pypdfium2
import pytest
from PIL import Image, ImageOps
from playwright.sync_api import Browser, Locator, Page, ViewportSize, sync_playwright

from endive.report.figure import Threshold
from endive.report.figures import build_figures, build_report_figures
from endive.report.figures.bar_charts import build_commit_parts, build_time_parts
from endive.report.page import render_page
from endive.report.sections import make_page
from endive.report.study_data import Study
from endive.simulation.columns import TIME_WORDS
from tests.report.synthetic import Point, kinds, page_with, synthetic_study

CHROMIUM = (
    os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
PHONE = ViewportSize(width=390, height=844)
DESK = ViewportSize(width=1100, height=900)
_PATIENCE_MS = 180_000  # a busy machine is no error
_PICTURE = """figure => [...document.querySelectorAll(`#${figure} .charts svg`)]
    .filter(drawing => drawing.checkVisibility()).map(drawing => drawing.outerHTML).join()"""
_DIFFERS = f"([figure, before]) => ({_PICTURE})(figure) !== before"
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium; `apt-get install chromium`, or CHROMIUM names one"),
    pytest.mark.xdist_group("browser"),
]


class Visit:
    """A page that was opened, and what it did on the way."""

    def __init__(self, page: Page, file: Path, *, more: bool = True) -> None:
        self.page = page
        self.errors: list[str] = []
        self.requests: list[str] = []
        page.set_default_timeout(_PATIENCE_MS)
        page.on("console", lambda message: self.errors.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.route(re.compile(".*"), lambda route: self._asked(route, file))
        page.goto(file.as_uri())
        page.wait_for_selector("body[data-drawn]")
        if more:
            self.open_more()

    def open_more(self) -> None:
        """Open what is behind "more figures", and wait until it is drawn."""
        self.page.locator("details.more-figures > summary").click()
        self.page.wait_for_selector("details.more-figures[data-drawn]")

    def _asked(self, route: Any, file: Path) -> None:
        if route.request.url.partition("#")[0] == file.as_uri():
            route.continue_()
        else:
            self.requests.append(route.request.url)
            route.abort()

    def picture(self, figure: str) -> str:
        """The drawing of a figure, all its panels that are seen."""
        return str(self.page.evaluate(_PICTURE, figure))

    def open_table(self, figure: str) -> Locator:
        """Open the table behind a figure, and return its cells when they are there: it is filled after the click."""
        self.page.locator(f"#{figure} details.table summary").click()
        cells = self.page.locator(f"#{figure} tbody td")
        cells.first.wait_for()
        return cells

    def choose(self, figure: str, label: str, value: str) -> None:
        """Choose a value of a filter, and wait for the picture to follow."""
        before = self.picture(figure)
        self.page.locator(f"#{figure}").get_by_label(label, exact=True).select_option(value)
        self.page.wait_for_function(_DIFFERS, arg=[figure, before])


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield started
        started.close()


@pytest.fixture(scope="module")
def report(mixed: Study, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a study with two stores, two classes and three operations."""
    file = tmp_path_factory.mktemp("report") / "report.html"
    file.write_text(render_page(make_page(mixed, build_report_figures(mixed))), encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def every_kind(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page with a figure of each kind."""
    file = tmp_path_factory.mktemp("kinds") / "kinds.html"
    file.write_text(render_page(page_with(kinds())), encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def visit(browser: Browser, report: Path) -> Iterator[Visit]:
    """The report, open on a desk; tests leave its filters as they found them, or keep to a figure of their own."""
    page = browser.new_page(viewport=DESK)
    yield Visit(page, report)
    page.close()


_OVERLAPS = """() => [...document.querySelectorAll('section.figure')].flatMap(section =>
    [...section.querySelectorAll('.charts svg')].filter(drawing => drawing.checkVisibility()).flatMap(drawing => {
        const paper = drawing.getBoundingClientRect();
        const texts = [...drawing.querySelectorAll('text')].filter(text => text.textContent.trim()
            && getComputedStyle(text).opacity > 0 && text.getAttribute('fill') !== 'transparent');
        const boxes = texts.map(text => [text.textContent, text.getBoundingClientRect()]);
        const found = boxes.filter(([, box]) => box.left < paper.left - 1 || box.right > paper.right + 1 || box.top < paper.top - 1
            || box.bottom > paper.bottom + 1).map(([text]) => `${section.id}: ${text} is cut`);
        boxes.forEach(([one, a], place) => boxes.slice(place + 1).forEach(([other, b]) => {
            const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
            const down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
            if (across > 2 && down > 4) found.push(`${section.id}: ${one} lies on ${other}`);
        }));
        return found;
    }))"""


@pytest.mark.parametrize("viewport", [DESK, PHONE], ids=["desk", "phone"])
@pytest.mark.parametrize("which", ["report", "every_kind"])
def test_it_is_drawn_without_errors_and_without_a_network(
    browser: Browser, which: str, viewport: ViewportSize, request: pytest.FixtureRequest
) -> None:
    context = browser.new_context(viewport=viewport, has_touch=viewport is PHONE, is_mobile=viewport is PHONE)
    visit = Visit(context.new_page(), request.getfixturevalue(which))
    assert visit.errors == []
    assert visit.requests == []
    figures = visit.page.locator("section.figure")
    assert figures.count() >= 6
    for number in range(figures.count()):
        section = figures.nth(number)
        assert section.get_attribute("data-drawn") == "yes"
        drawings = section.locator(".charts svg")
        assert drawings.count() > 0
        for place in range(drawings.count()):
            box = drawings.nth(place).bounding_box()
            assert box is not None
            assert 100 < box["width"] <= viewport["width"]
        assert section.locator(".charts svg [role='graphics-symbol'] path, .charts svg path[aria-roledescription]").count() > 0
    wide = visit.page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
    assert wide[0] <= wide[1], "the page must not scroll sideways"
    assert visit.page.evaluate(_OVERLAPS) == [], "no text is cut off or overlaps"
    context.close()


def test_filters_change_the_picture_and_the_table(visit: Visit) -> None:
    cells = visit.open_table("success_by_class")
    assert {"S3", "S3 Express"} <= set(cells.all_inner_texts())
    visit.choose("success_by_class", "object store", "S3 Express")
    assert "S3" not in cells.all_inner_texts()
    one = visit.picture("success_by_class")
    visit.choose("success_by_class", "object store", "")
    assert visit.picture("success_by_class") != one


def test_operations_and_classes_are_filters(visit: Visit) -> None:
    for figure in ("success_by_operation", "success_by_class"):
        panels = visit.page.locator(f"#{figure} .charts svg:visible")
        before = panels.count()
        values = visit.page.locator(f"#{figure} select >> nth=1").locator("option").all_inner_texts()
        visit.choose(figure, "series", values[1])
        assert (before, panels.count()) == (len(values) - 1, 1)


@pytest.fixture(scope="module")
def kinds_visit(browser: Browser, every_kind: Path) -> Iterator[Visit]:
    """Return the page with a figure of each kind, open on a desk."""
    page = browser.new_page(viewport=DESK)
    yield Visit(page, every_kind)
    page.close()


def test_total_rows_are_chosen_first(kinds_visit: Visit) -> None:
    """Otherwise totals and their parts would overlap."""
    select = kinds_visit.page.locator("#lines").get_by_label("operation", exact=True)
    assert select.input_value() == "all"
    assert select.locator("option").all_inner_texts() == ["all", "fast append"]


def test_a_click_on_a_name_hides_it(visit: Visit) -> None:
    points = visit.page.locator("#retries .charts svg path[aria-roledescription='point']")
    before = points.count()
    button = visit.page.locator("#retries .legend button", has_text="S3 Express")
    button.click()
    visit.page.wait_for_function(
        "n => document.querySelectorAll(\"#retries path[aria-roledescription='point']\").length < n", arg=before
    )
    assert (points.count(), button.get_attribute("aria-pressed")) == (before // 2, "false")
    button.click()
    visit.page.wait_for_function(
        "n => document.querySelectorAll(\"#retries path[aria-roledescription='point']\").length === n", arg=before
    )


def test_a_tooltip_shows_the_numbers_of_a_mark(visit: Visit) -> None:
    visit.page.locator("#retries .charts svg path[aria-roledescription='point']").last.hover(force=True)
    answer = visit.page.locator("#vg-tooltip-element")
    answer.wait_for()
    text = answer.inner_text()
    assert "retries" in text
    assert "95% CI lower" in text
    assert re.search(r"S3|S3 Express", text)
    assert "undefined" not in text


def test_wheel_and_control_zoom_the_wheel_alone_scrolls(visit: Visit) -> None:
    chart = visit.page.locator("#overhead .charts svg")
    chart.scroll_into_view_if_needed()
    chart.hover(position={"x": 300, "y": 150})
    before, at = visit.picture("overhead"), visit.page.evaluate("scrollY")
    visit.page.mouse.wheel(0, 120)
    visit.page.wait_for_function("y => scrollY !== y", arg=at)
    assert visit.picture("overhead") == before
    chart.hover(position={"x": 300, "y": 150})
    visit.page.keyboard.down("Control")
    visit.page.mouse.wheel(0, -120)
    visit.page.keyboard.up("Control")
    visit.page.wait_for_function("b => document.querySelector('#overhead .charts svg').outerHTML !== b", arg=before)


def test_the_numbers_can_be_taken_along(visit: Visit, mixed: Study) -> None:
    visit.open_table("sustainable_throughput")
    with visit.page.expect_download() as started:
        visit.page.locator("#sustainable_throughput a.download").click()
    text = Path(started.value.path()).read_text(encoding="utf-8")
    rows = list(csv.DictReader(io.StringIO(text)))
    figure = next(each for each in build_figures(mixed) if each.name == "sustainable_throughput")
    assert started.value.suggested_filename == "sustainable_throughput.csv"
    assert [float(row["y"]) for row in rows] == pytest.approx(figure.data["y"].tolist(), rel=1e-5)
    assert [row["series"] for row in rows] == figure.data["series"].tolist()


def test_more_figures_are_drawn_when_they_are_opened(browser: Browser, report: Path) -> None:
    visit = Visit(browser.new_page(viewport=DESK), report, more=False)
    assert visit.page.locator("section.figure[data-drawn]").count() == 4
    assert not visit.page.locator("#retries").is_visible()
    visit.page.locator("nav a[href='#retries']").click()
    visit.page.wait_for_selector("#retries[data-drawn]")
    visit.page.wait_for_selector("details.more-figures[data-drawn]")
    assert visit.page.locator("#retries .charts svg").is_visible()
    assert visit.errors == []
    visit.page.close()


def test_nothing_can_be_evaluated_in_the_page(browser: Browser, report: Path) -> None:
    """The charts of the other tests are drawn under this policy; here it is seen to hold."""
    visit = Visit(browser.new_page(viewport=DESK), report, more=False)
    visit.page.evaluate("""() => {
        const script = document.createElement('script');
        script.textContent = 'window.injected = true';
        document.body.append(script);
        setTimeout(() => {  // out of the call, which a debugger may make whatever the policy
            try { window.evaluated = eval('1'); } catch { window.refused = true; }
            window.tried = true;
        });
    }""")
    visit.page.wait_for_function("window.tried")
    assert visit.page.evaluate("[window.evaluated, window.refused, window.injected]") == [None, True, None]
    assert any("Content Security Policy" in error for error in visit.errors)
    visit.page.close()


def test_axis_titles_fit_with_three_charts_in_a_row(browser: Browser, tmp_path: Path) -> None:
    """Bars of shares, which have long numbers at their ends."""
    widths = {f"mean_{part}_hw": 1.0 for part in TIME_WORDS}
    slow = {f"mean_{part}": 90_000.0 for part in TIME_WORDS}
    points: list[Point] = [
        {"series": name, "x": x, **widths, **(slow if x > 2 else {})} for name in ("a", "b", "c") for x in (1.0, 2.0, 4.0)
    ]
    study = synthetic_study(points)
    figures = [build_commit_parts(study), build_time_parts(study)]
    assert all(figure.y.percent for figure in figures)
    file = tmp_path / "page.html"
    file.write_text(render_page(page_with(figures)), encoding="utf-8")
    visit = Visit(browser.new_page(viewport=DESK), file, more=False)
    assert visit.page.locator("#commit_parts .charts svg").count() == 3
    assert visit.page.evaluate(_OVERLAPS) == []
    visit.page.close()


def test_nothing_is_cut_when_a_phone_is_turned(browser: Browser, tmp_path: Path) -> None:
    """The number at the longest bar has room within the axes of a wide page, and none in a narrow one."""
    means = {f"mean_{part}": 5_000.0 for part in TIME_WORDS}
    widths = {f"mean_{part}_hw": 50.0 for part in TIME_WORDS}
    longest: Point = {"series": "longer_waits", **means, "mean_t_backoff": 150_000.0, **widths}
    study = synthetic_study([{"series": "today", **means, **widths, "mean_t_backoff_hw": 35_000.0}, longest], by_load=False)
    file = tmp_path / "page.html"
    file.write_text(render_page(page_with([build_commit_parts(study), build_time_parts(study)])), encoding="utf-8")
    visit = Visit(browser.new_page(viewport={"width": 844, "height": 390}), file, more=False)
    assert visit.page.evaluate(_OVERLAPS) == []
    visit.page.set_viewport_size(PHONE)
    visit.page.wait_for_selector(f"body[data-fitted='{PHONE['width']}']")
    assert visit.page.evaluate(_OVERLAPS) == []
    visit.page.close()


def test_labels_of_times_do_not_overlap(browser: Browser, tmp_path: Path) -> None:
    """Three charts side by side, in each of which a class begins and ends in the middle."""
    lines = kinds()[0]
    marks = tuple(Threshold(at, f"backfill {word}", "x") for at, word in ((3.0, "begins"), (4.5, "ends")))
    panels = pd.concat([lines.data, lines.data[lines.data["panel"] == "p50"].assign(panel="p90")], ignore_index=True)
    file = tmp_path / "page.html"
    file.write_text(render_page(page_with([replace(lines, thresholds=marks, data=panels)])), encoding="utf-8")
    visit = Visit(browser.new_page(viewport=DESK), file, more=False)
    assert visit.page.locator("#lines .charts svg").count() == 3
    assert visit.page.evaluate(_OVERLAPS) == []
    visit.page.close()


def test_charts_of_a_row_are_aligned(kinds_visit: Visit) -> None:
    """Also where the name of one of them takes two lines."""
    kinds_visit.page.locator("#lines h4").first.evaluate("name => { name.textContent = 'a name of many words '.repeat(9); }")
    ends = kinds_visit.page.locator("#lines .charts svg").evaluate_all("all => all.map(one => one.getBoundingClientRect().bottom)")
    assert len(ends) == 2
    assert abs(ends[0] - ends[1]) <= 1


def test_printed_pages_are_whole(browser: Browser, report: Path, tmp_path: Path) -> None:
    """Titles and words are on the pages, bars of parts have their colours, and nothing lies in the margins."""
    visit = Visit(browser.new_page(viewport=DESK), report)
    file = tmp_path / "report.pdf"
    visit.page.pdf(path=file, prefer_css_page_size=True)
    titles = visit.page.locator("section.figure h2").all_inner_texts()
    visit.page.emulate_media(media="print")
    visit.page.set_viewport_size({"width": 688, "height": 1000})  # an A4 page within its margins
    wide = visit.page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
    assert wide[0] <= wide[1]
    signs = visit.page.locator("#commit_parts .legend i").all()
    colours = {tuple(map(int, re.findall(r"\d+", sign.evaluate("sign => getComputedStyle(sign).color"))[:3])) for sign in signs}
    visit.page.close()
    pages = pages_of(file)
    for title in titles:
        assert sum(title in words for words, _ in pages) == 1, title  # whole, on one page
    for words in ("catalog reads", "95%", "ideal: every transaction commits", "Reproduce", "endive report"):
        assert any(words in text for text, _ in pages), words
    bars = next(picture for text, picture in pages if "Commit time breakdown" in text)
    found = Counter(bars.get_flattened_data())
    assert len(colours) > 2
    for colour in colours - {QUIET_PART}:
        assert found[colour] > 1_000, f"no bar has a part of this colour: {colour}"
    for number, (_, picture) in enumerate(pages):
        assert_margins_are_empty(picture, number)


QUIET_PART = (213, 94, 0)
"""Conflict I/O, of which the study has little."""
_DOTS_PER_POINT = 2.0
_MARGIN = int(14 / 25.4 * 72 * _DOTS_PER_POINT) - 3


def pages_of(file: Path) -> list[tuple[str, Image.Image]]:
    """The pages of a PDF: their words, and how they look on white paper."""
    with pypdfium2.PdfDocument(file) as document:
        words = [re.sub(r"\s+", " ", page.get_textpage().get_text_bounded()) for page in document]
        pictures = [page.render(scale=_DOTS_PER_POINT).to_pil().convert("RGB") for page in document]
    return list(zip(words, pictures, strict=True))


def assert_margins_are_empty(picture: Image.Image, number: int) -> None:
    """Nothing is printed outside of the margins, where a printer would cut it."""
    inked = ImageOps.invert(picture.convert("L")).getbbox()
    assert inked is not None, f"page {number} is blank"
    left, top, right, bottom = inked
    assert left >= _MARGIN, f"page {number}"
    assert top >= _MARGIN, f"page {number}"
    assert right <= picture.width - _MARGIN, f"page {number}"
    assert bottom <= picture.height - _MARGIN, f"page {number}"


def test_dark_mode_is_for_the_screen(browser: Browser, report: Path) -> None:
    context = browser.new_context(viewport=DESK, color_scheme="dark")
    visit = Visit(context.new_page(), report)
    medias: tuple[Literal["screen", "print"], ...] = ("screen", "print")
    for media in medias:
        visit.page.emulate_media(media=media, color_scheme="dark")
        paper = visit.page.evaluate("getComputedStyle(document.body).backgroundColor")
        ink = visit.page.evaluate("getComputedStyle(document.querySelector('#retries .charts svg text')).fill")
        is_dark = sum(int(number) for number in re.findall(r"\d+", paper)[:3]) < 3 * 60
        has_light_text = sum(int(number) for number in re.findall(r"\d+", ink)[:3]) > 3 * 180
        assert (is_dark, has_light_text) == (media == "screen", media == "screen")
    context.close()
