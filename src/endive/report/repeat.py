"""How the numbers of a report are made again: the file to start from, which the report holds, and the commands to call beside it.

Made of a ``Study`` and the records of its runs. A report is read apart from its results, so commands lead to their directory only
where they must: where files of the user's own (profiles, traces, code) belong to a study, and where runs lie together that no file
planned.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from endive.config.study import files_named
from endive.formatting import format_count
from endive.input_files import UnreadableError, parse_toml, read_text
from endive.report.page import Repetition
from endive.report.study import Record, Study
from endive.runs.layout import CONFIG, study_file
from endive.version import DIRTY


def repetition_of(study: Study, records: Sequence[Record]) -> Repetition:
    """How to get the numbers of a study again."""
    commits = sorted({str(record["git_commit"]) for record in records if record.get("git_commit") is not None})
    first = [_checkout(commits[0])] if len(commits) == 1 else []
    if study.single_runs:
        return _of_runs(study, first)
    again = f"{study.path.resolve().name}-again"
    last = f"endive report {shlex.quote(again)}"
    number = format_count(study.provenance()["runs"], "run")
    if study.record is None:
        return Repetition("\n".join([*first, *_of_files(study, again, number), last]))
    source = study_file(study.path, study.record.label)
    start = _start(source, f"{study.record.label}.toml")
    arguments = [start.file or str(source.resolve()), *study.record.arguments, *_allowed(start), "--out", again]
    return Repetition("\n".join([*first, f"endive sweep {shlex.join(arguments)}", last]), start.file, start.text)


def _checkout(commit: str) -> str:
    """Go back to the code of a commit, in a clone; what was changed since is in no clone, and said."""
    known = commit.removesuffix(DIRTY)
    return f"git checkout {known}   # in a clone of Endive" + ("" if known == commit else "; it was changed since")


def _of_runs(study: Study, first: Sequence[str]) -> Repetition:
    """The runs of one configuration, and the report of the same place as this one."""
    config, label = study.single_runs[0].config, study.single_runs[0].label
    start = _start(config, f"{label}.toml")
    again = f"{label}-again"
    seeds = [str(run.seed) for run in study.single_runs]
    call = ["endive", "run", start.file or str(config.resolve()), *_allowed(start), "--out", again, "--seed"]
    one = f"{shlex.join(call)} {seeds[0]}"
    every = f"for seed in {' '.join(seeds)}; do {shlex.join(call)} $seed; done"
    place = Path(again) / _within(study, start)
    report = f"endive report {shlex.quote(str(place))}"
    return Repetition("\n".join([*first, one if len(seeds) == 1 else every, report]), start.file, start.text)


def _within(study: Study, start: _Start) -> Path:
    """Where below the directory of results the same lies as what is reported."""
    run = study.single_runs[0]
    if run.config.name != CONFIG:  # a run without a label, beside the path that its configuration says
        about = start.tree.get("simulation")
        place = about.get("output_path") if isinstance(about, dict) else None
        return Path(place if isinstance(place, str) else run.results.name)
    experiment = run.config.resolve().parent.name
    return Path(experiment) if study.kind == "experiment" else Path(experiment) / str(run.seed)


def _of_files(study: Study, again: str, number: str) -> Iterator[str]:
    """Runs that no study planned: each from the file that lies beside it."""
    run = f"endive run $cfg --seed $seed --out {shlex.quote(again)}"
    files = f"{shlex.quote(str(study.path.resolve()))}/*/{CONFIG}"
    yield f"for cfg in {files}; do for seed in {' '.join(map(str, study.provenance()['seeds']))}; do {run}; done; done   # {number}"
    yield f"endive consolidate {shlex.quote(again)}"


@dataclass(frozen=True)
class _Start:
    """A file that runs start from. ``file`` and ``text`` are empty if it needs others, or cannot be read."""

    tree: Mapping[str, Any]
    file: str = ""
    text: str = ""


def _start(source: Path, name: str) -> _Start:
    try:
        text = read_text(source)
        tree = parse_toml(text)
    except UnreadableError:
        return _Start({})
    return _Start(tree, name, text) if not any(files_named(tree)) else _Start(tree)


def _allowed(start: _Start) -> list[str]:
    """The option that code of the user's own is run with, where there is some."""
    return ["--allow-code"] if any(key == "code" for key, _ in files_named(start.tree)) else []
