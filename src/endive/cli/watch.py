"""``endive experiments watch``: how far the sweeps of a directory are, told from elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from endive.cli.app import EXIT_FAILED, command, refuse
from endive.cli.experiments import commands
from endive.cli.options import ROOT, RootArgument
from endive.cli.sweep import duration_in_words

if TYPE_CHECKING:
    from endive.runs.progress import StudyProgress

_EVERY_SECONDS = 2.0


@commands.command()
def watch(
    root: RootArgument = ROOT,
    once: Annotated[bool, typer.Option("--once", help="Say how far they are, and do not wait.")] = False,
    every: Annotated[float, typer.Option(metavar="SECONDS", help="How often to look.", min=0.1)] = _EVERY_SECONDS,
    json: Annotated[bool, typer.Option("--json", help="Print a line of JSON on stdout for each look that finds news.")] = False,
) -> None:
    """Watch the sweeps of a directory from elsewhere: runs that are done, and about how long the others take.

    Only files are looked at, so it works from another terminal or another machine. It ends when all runs are done.

    Exit codes: 1 if a sweep was stopped before its end, otherwise 0.
    """
    with command(json) as output:
        tell = (lambda each: print(dumps(asdict(each)), flush=True)) if json else (lambda each: output.text(in_words(each)))
        if "stopped" in follow(root, tell, once=once, every=every):
            raise typer.Exit(EXIT_FAILED)


def follow(root: Path, tell: Callable[[StudyProgress], None], *, once: bool, every: float) -> set[str]:
    """Tell of every study that it is further than before, until none is running; return the states that they ended in."""
    from endive.runs.progress import progress_of
    from endive.runs.study_records import read_studies

    told: dict[str, tuple[int, str]] = {}
    while True:
        found = [progress_of(root, record, time.time()) for record in read_studies(root)]
        if not found:
            refuse(str(root), "no sweep was run here; `endive sweep STUDY --out DIR` runs one")
        for each in found:
            if told.get(each.label) != (each.done, each.state):
                told[each.label] = (each.done, each.state)
                tell(each)
        if once or all(each.state != "running" for each in found):
            return {each.state for each in found}
        wait(every)


def wait(seconds: float) -> None:
    """Wait until the next look."""
    time.sleep(seconds)


def in_words(each: StudyProgress) -> str:
    """How far a study is, in a line."""
    runs = f"{each.label}: {each.done:,} of {each.total:,} runs"
    if each.state == "finished":
        return f"{runs}, finished"
    if each.state == "stopped":
        return f"{runs}; the sweep was stopped, and the same command goes on with it"
    left = "" if each.seconds_left is None else f", about {duration_in_words(each.seconds_left)} left"
    return f"{runs} after {duration_in_words(each.elapsed_seconds)}{left}"
