"""Run the commands that the documentation shows and compare what they print with what it says they print.

``make numbers`` checks README, tutorial and the guide to decisions, and the answers of the gallery (an hour); ``python
docs/check_numbers.py docs/tutorial.md`` one page; ``--write`` puts what was printed into the pages. ``[...]`` stands for lines that
a page leaves out; times that a machine took are of no account. Rows of tables with ``LOAD UNIT (LOW to HIGH)`` and a command of
``endive frontier`` are checked as well.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_QUESTIONS = tuple(
    f"docs/guides/questions/{name}.md" for name in ("writers", "compaction", "what_helps", "express", "through_time")
)
PAGES = ("README.md", "docs/tutorial.md", "docs/guides/decisions.md", *_QUESTIONS)
GALLERY = ROOT / "docs" / "gallery" / "answers.json"
LEFT_OUT = "[...]"
_BLOCK = re.compile(r"```(?P<kind>\w+)\n(?P<text>.*?)```", re.DOTALL)
_FILE = re.compile(r"[Ss]ave this as `(?P<name>[\w.]+\.toml)`:\s*\Z")
_TAKEN = re.compile(r"\b\d[\d,.]* s\b(?=[;,]| of simulating| of one core|$)|\b[0-9a-f]{12}\b")
"""Times that a run took, and hashes of experiments."""
_PROGRESS = re.compile(r"[\d,]+ of [\d,]+ runs after ")
"""How far a sweep has come, which a slow machine tells more often."""
_WHOLE = 10_000
"""Columns in which no answer is broken into lines."""
_ANSWER = r"(?P<answer>(?P<load>[\d.]+) (?P<unit>\w+/s) \((?P<low>[\d.]+) to (?P<high>[\d.]+)\))"
_ROW = re.compile(rf"^\|[^|]*\| {_ANSWER} \| `(?P<command>endive frontier [^`]+)` \|$", re.MULTILINE)


@dataclass(frozen=True)
class Shown:
    """A command of a page, and the lines that the page says it prints."""

    page: str
    command: str
    lines: tuple[str, ...]


def shown_in(page: str, text: str) -> Iterator[Shown | tuple[str, str]]:
    """The commands of a page in order, and the files that it tells to save, by name and text."""
    for block in _BLOCK.finditer(text):
        told = _FILE.search(text[: block.start()])
        if block["kind"] == "toml" and told is not None:
            yield told["name"], block["text"]
        elif block["kind"] == "console":
            yield from _commands(page, block["text"])


def _commands(page: str, text: str) -> Iterator[Shown]:
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, output = part.replace("\\\n", " ").partition("\n")
        if command.startswith("endive ") and output.strip():
            yield Shown(page, command.split("  #")[0].strip(), tuple(line.rstrip() for line in output.rstrip().splitlines()))


def run(command: str, folder: Path, *, errors: bool = True, columns: int = 200) -> list[str]:
    """What a command prints, in a folder, with what it says on the side if asked for; the exit code is the page's affair."""
    call = [sys.executable, "-m", "endive", *shlex.split(command)[1:]]
    wide = {**os.environ, "COLUMNS": str(columns)}
    done = subprocess.run(call, cwd=folder, env=wide, capture_output=True, text=True, check=False)
    printed = (done.stdout + (done.stderr if errors else "")).splitlines()
    return [line.rstrip() for line in printed if not _PROGRESS.match(line)]


def missing(shown: Shown, printed: list[str]) -> list[str]:
    """The lines of a page that are not printed, or not in this order."""
    left = iter([_plain(line) for line in printed])
    wanted = [line for line in shown.lines if line != LEFT_OUT and line.strip()]
    return [line for line in wanted if not any(_plain(line) == other for other in left)]


def _plain(line: str) -> str:
    return " ".join(_TAKEN.sub("#", line).split())


def rewritten(shown: Shown, printed: list[str]) -> list[str]:
    """The lines that a page should show: all that is printed, or what is printed in place of each line that it chose to show."""
    if LEFT_OUT not in shown.lines:
        return printed
    chosen = []
    for line in shown.lines:
        near = difflib.get_close_matches(line, printed, n=1, cutoff=0.3)
        chosen.append(near[0] if line != LEFT_OUT and near else line)
    return chosen


def check_rows(page: str, text: str, folder: Path) -> Iterator[tuple[str, str]]:
    """Rows of tables whose answer is not that of their command: the row, and the row that it should be."""
    for row in _ROW.finditer(text):
        found = json.loads("\n".join(run(f"{row['command']} --json", folder, errors=False)))
        load, low, high = (_two_digits(found[name]) for name in ("load", "low", "high"))
        answer = f"{load} {row['unit']} ({low} to {high})"
        if answer != row["answer"]:
            yield row[0], row[0].replace(row["answer"], answer)


def _two_digits(value: float | None) -> str:
    return "-" if value is None else f"{float(f'{value:.2g}'):.1f}" if value < 9.95 else f"{float(f'{value:.2g}'):g}"


def check_page(page: str, *, write: bool) -> list[str]:
    """What is wrong with a page; with ``write`` it is put right."""
    path, problems = ROOT / page, []
    text = path.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory(prefix="endive-docs-") as name:
        folder = Path(name)
        (folder / "examples").symlink_to(ROOT / "examples")
        for each in list(shown_in(page, text)):
            if not isinstance(each, Shown):
                (folder / each[0]).write_text(each[1], encoding="utf-8")
                continue
            printed = run(each.command, folder)
            gone = missing(each, printed)
            problems += [f"{page}: $ {each.command}\n  shows   {line}" for line in gone]
            if gone and write:
                text = text.replace("\n".join(each.lines), "\n".join(rewritten(each, printed)), 1)
        for row, right in list(check_rows(page, text, folder)):
            problems.append(f"{page}:\n  shows   {row}\n  is      {right}")
            text = text.replace(row, right, 1)
    if write:
        path.write_text(text, encoding="utf-8")
    return problems


def check_gallery() -> list[str]:
    """The answers of the gallery that differ from those that its studies give now; ``docs/make_gallery.py`` makes them anew."""
    problems = []
    for name, answer in json.loads(GALLERY.read_text(encoding="utf-8")).items():
        with tempfile.TemporaryDirectory(prefix="endive-docs-") as folder:
            (Path(folder) / "examples").symlink_to(ROOT / "examples")
            printed = run(f"endive examples run {name} --quick", Path(folder), columns=_WHOLE)
        problems += [f"gallery, {name}:\n  shows   {line}" for line in answer if line not in printed]
    return problems


def main() -> int:
    """Check the pages that are named, or all and the gallery; 1 if something differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", metavar="PAGE", help="as docs/tutorial.md; all of them and the gallery without one")
    parser.add_argument("--write", action="store_true", help="put what is printed into the pages")
    options = parser.parse_args()
    problems: list[str] = []
    for page in options.pages or PAGES:
        print(f"{page} ...", file=sys.stderr, flush=True)
        problems += check_page(page, write=options.write)
    problems += [] if options.pages else check_gallery()
    print("\n".join(problems) or "all numbers are what the commands print")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
