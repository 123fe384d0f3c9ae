"""Run the commands that the documentation shows, and compare their output with the pages.

``make numbers`` checks README, tutorial, guides and the answers of the gallery (1 h); ``python docs/check_numbers.py
docs/tutorial.md`` checks one page; ``--write`` updates the pages. A page marks omitted lines by ``[...]``. Wall-clock times are
ignored. Rows of tables with ``LOAD UNIT (LOW to HIGH)`` and an ``endive frontier`` command are checked as well.
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
    f"docs/guides/questions/{name}.md"
    for name in ("writers", "compaction", "commit_interval", "compaction_interval", "what_helps", "express", "through_time")
)
PAGES = ("README.md", "docs/tutorial.md", "docs/guides/decisions.md", *_QUESTIONS)
GALLERY = ROOT / "docs" / "gallery" / "answers.json"
LEFT_OUT = "[...]"
_BLOCK = re.compile(r"```(?P<kind>\w+)\n(?P<text>.*?)```", re.DOTALL)
_FILE = re.compile(r"[Ss]ave this as `(?P<name>[\w.]+\.toml)`:\s*\Z")
_TAKEN = re.compile(r"\b\d[\d,.]* s\b(?=[;,]| of simulating| of CPU time|$)|\b[0-9a-f]{12}\b")
"""Wall-clock times of runs, and hashes of experiments."""
_PROGRESS = re.compile(r"[\d,]+ of [\d,]+ runs after ")
"""Progress of a sweep, which slow machines print more often."""
_WHOLE = 10_000
"""Terminal width at which no answer is wrapped."""
_ANSWER = r"(?P<answer>(?P<load>[\d.]+) (?P<unit>\w+/s) \((?P<low>[\d.]+) to (?P<high>[\d.]+)\))"
_ROW = re.compile(rf"^\|[^|]*\| {_ANSWER} \| `(?P<command>endive frontier [^`]+)` \|$", re.MULTILINE)


@dataclass(frozen=True)
class Shown:
    """Command of a page, and its output as shown by the page."""

    page: str
    command: str
    lines: tuple[str, ...]


def shown_in(page: str, text: str) -> Iterator[Shown | tuple[str, str]]:
    """Yield the commands of a page in order, and the files that the reader is asked to save, by name and text."""
    for block in _BLOCK.finditer(text):
        request = _FILE.search(text[: block.start()])
        if block["kind"] == "toml" and request is not None:
            yield request["name"], block["text"]
        elif block["kind"] == "console":
            yield from _commands(page, block["text"])


def _commands(page: str, text: str) -> Iterator[Shown]:
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, output = part.replace("\\\n", " ").partition("\n")
        if command.startswith("endive ") and output.strip():
            yield Shown(page, command.split("  #")[0].strip(), tuple(line.rstrip() for line in output.rstrip().splitlines()))


def run(command: str, folder: Path, *, errors: bool = True, columns: int = 200) -> list[str]:
    """Run a command in a folder and return the lines of stdout and, with ``errors``, of stderr. The exit code is not checked."""
    call = [sys.executable, "-m", "endive", *shlex.split(command)[1:]]
    wide = {**os.environ, "COLUMNS": str(columns)}
    done = subprocess.run(call, cwd=folder, env=wide, capture_output=True, text=True, check=False)
    printed = (done.stdout + (done.stderr if errors else "")).splitlines()
    return [line.rstrip() for line in printed if not _PROGRESS.match(line)]


def missing(shown: Shown, printed: list[str]) -> list[str]:
    """Return the lines of a page that the command does not print, or not in this order."""
    left = iter([_plain(line) for line in printed])
    wanted = [line for line in shown.lines if line != LEFT_OUT and line.strip()]
    return [line for line in wanted if not any(_plain(line) == other for other in left)]


def _plain(line: str) -> str:
    return " ".join(_TAKEN.sub("#", line).split())


def rewritten(shown: Shown, printed: list[str]) -> list[str]:
    """Return the lines that a page should show: the whole output, or the closest line of output for each line it shows."""
    if LEFT_OUT not in shown.lines:
        return printed
    chosen = []
    for line in shown.lines:
        near = difflib.get_close_matches(line, printed, n=1, cutoff=0.3)
        chosen.append(near[0] if line != LEFT_OUT and near else line)
    return chosen


def check_rows(page: str, text: str, folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the rows of tables that differ from the answer of their command, each with the correct row."""
    for row in _ROW.finditer(text):
        found = json.loads("\n".join(run(f"{row['command']} --json", folder, errors=False)))
        load, low, high = (_two_digits(found[name]) for name in ("load", "low", "high"))
        answer = f"{load} {row['unit']} ({low} to {high})"
        if answer != row["answer"]:
            yield row[0], row[0].replace(row["answer"], answer)


def _two_digits(value: float | None) -> str:
    return "-" if value is None else f"{float(f'{value:.2g}'):.1f}" if value < 9.95 else f"{float(f'{value:.2g}'):g}"


def check_page(page: str, *, write: bool) -> list[str]:
    """Return the differences between a page and the output of its commands; with ``write`` the page is updated."""
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
    """Return the differences between the answers of the gallery and those of its studies.

    ``docs/make_gallery.py`` updates the gallery.
    """
    problems = []
    for name, answer in json.loads(GALLERY.read_text(encoding="utf-8")).items():
        with tempfile.TemporaryDirectory(prefix="endive-docs-") as folder:
            (Path(folder) / "examples").symlink_to(ROOT / "examples")
            printed = run(f"endive examples run {name} --quick", Path(folder), columns=_WHOLE)
        problems += [f"gallery, {name}:\n  shows   {line}" for line in answer if line not in printed]
    return problems


def main() -> int:
    """Check the given pages, or all pages and the gallery; return 1 if something differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", metavar="PAGE", help="page, such as docs/tutorial.md; default: all, and the gallery")
    parser.add_argument("--write", action="store_true", help="update the pages with the output of the commands")
    options = parser.parse_args()
    problems: list[str] = []
    for page in options.pages or PAGES:
        print(f"{page} ...", file=sys.stderr, flush=True)
        problems += check_page(page, write=options.write)
    problems += [] if options.pages else check_gallery()
    print("\n".join(problems) or "all pages match the output of their commands")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
