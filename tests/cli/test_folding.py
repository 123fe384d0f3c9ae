"""Lines and tables in few columns: nothing is broken that belongs together, and nothing is lost."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from endive.cli.folding import fold, number_like, table_lines
from endive.report.pieces import pieces_of

WORDS = st.text("abcdefgh/_.", min_size=1, max_size=30)
NUMBERS = st.one_of(
    st.integers(0, 10**9).map("{:,}".format),
    st.floats(0.0, 100.0).map("{:.4g} %".format),
    st.floats(0.0, 1e5).map("{:.3g} ms".format),
    st.sampled_from(["> 4.81 s", "1.2 ± 0.1 commits/s", "-", "never"]),
)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.one_of(WORDS, NUMBERS), min_size=1, max_size=20).map(" ".join), st.integers(20, 100))
def test_lines_are_no_wider_than_asked_for_and_say_the_same(text: str, width: int) -> None:
    lines = fold(text, width)
    assert " ".join(lines).split() == text.split()
    assert all(len(line) <= width or len(pieces_of(line)) == 1 for line in lines)


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("success is 99.92 % here", "99.92 %"),
        ("up to 13.56 ± 0.05 commits/s, it is said", "13.56 ± 0.05 commits/s,"),
        ("it takes > 4.81 s, or more", "> 4.81 s,"),
        ("from 12 writers on", "12 writers"),
        ("the first 690 s of 3,600 s are cut", "3,600 s"),
    ],
)
def test_a_number_keeps_its_sign_and_its_unit(text: str, whole: str) -> None:
    assert whole in pieces_of(text)
    assert all(any(whole in line for line in fold(text, width)) for width in range(len(whole), len(text)))


def test_a_path_is_not_broken() -> None:
    path = "/a/rather/long/path/" + "x" * 90
    assert fold(f"written to {path} now", 80) == ["written to", path, "now"]


def test_further_lines_are_indented_as_the_first() -> None:
    assert fold("  one two three", 9) == ["  one two", "  three"]


@settings(deadline=None, max_examples=60)
@given(st.data(), st.integers(1, 9), st.integers(1, 4), st.integers(60, 120))
def test_a_table_has_every_cell_whole_and_fits(data: st.DataObject, columns: int, rows: int, width: int) -> None:
    header = [f"name {place}" for place in range(columns)]
    names = [data.draw(st.text("abc", min_size=1, max_size=12)) for _ in range(rows)]
    cells = [[data.draw(NUMBERS) for _ in range(columns - 1)] for _ in range(rows)]
    lines = [line for line, _ in table_lines(header, [[name, *own] for name, own in zip(names, cells, strict=True)], width)]
    assert all(len(line) <= width for line in lines)
    text = "\n".join(lines)
    for cell in (cell for row in cells for cell in row):
        assert re.search(rf"(^|\s){re.escape(cell)}(\s|$)", text, re.MULTILINE), cell


def test_a_table_that_is_too_wide_is_split_and_each_part_has_the_first_column() -> None:
    lines = [line for line, _ in table_lines(["", "entered", "commits", "success"], [["ingest", "1,187", "1,186", "99.92 %"]], 24)]
    assert lines == ["        entered  commits", "ingest    1,187    1,186", "", "        success", "ingest  99.92 %"]


def test_words_are_folded_before_a_table_is_split() -> None:
    lines = [line for line, _ in table_lines(["name", "question"], [["a", "what is it that we wanted to know, and why?"]], 34)]
    assert lines == ["name  question", "a     what is it that we wanted to", "      know, and why?"]


@pytest.mark.parametrize(("cell", "number"), [("> 4.81 s", True), ("-", True), ("never", True), ("99 %", True), ("success", False)])
def test_numbers_stand_to_the_right(cell: str, number: bool) -> None:
    assert number_like(cell) is number
