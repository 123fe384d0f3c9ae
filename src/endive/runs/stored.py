"""Experiments on disk: find them, check them, list what is of no use.

A run is whole if its results have the checksum that its provenance records; everything else is to be run again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from endive.files import checksum
from endive.runs.identity import code_version
from endive.runs.layout import PROVENANCE, RESULTS, SUMMARY, is_experiment


@dataclass(frozen=True)
class StoredRun:
    """The directory of one seed of an experiment."""

    directory: Path

    @property
    def seed(self) -> int:
        """The seed."""
        return int(self.directory.name)

    @property
    def results(self) -> Path:
        """The rows."""
        return self.directory / RESULTS

    @cached_property
    def provenance(self) -> dict[str, Any]:
        """What the run says of itself; empty if it cannot be read."""
        try:
            found = json.loads((self.directory / PROVENANCE).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def problem(self) -> str | None:
        """What is wrong with the run; None if it is whole. Reads the whole file, to compare its checksum."""
        if not self.results.is_file():
            return "incomplete: it has no results"
        if "results_sha256" not in self.provenance:
            return "incomplete: it has no provenance"
        try:
            found = checksum(self.results)
        except OSError as error:
            return f"results cannot be read: {error.strerror}"
        if found != self.provenance["results_sha256"]:
            return "corrupt: its results are not those that were written"
        return None


@dataclass(frozen=True)
class StoredExperiment:
    """The directory of an experiment."""

    directory: Path

    @property
    def name(self) -> str:
        """Label and hash."""
        return self.directory.name

    @cached_property
    def runs(self) -> tuple[StoredRun, ...]:
        """Its runs by seed, whole or not."""
        seeds = [entry for entry in self.directory.iterdir() if entry.is_dir() and entry.name.isdigit()]
        return tuple(StoredRun(entry) for entry in sorted(seeds, key=lambda entry: int(entry.name)))

    @cached_property
    def code_version(self) -> str | None:
        """The version of the code that ran it, if any run tells."""
        return next((run.provenance["code_version"] for run in self.runs if "code_version" in run.provenance), None)

    @property
    def of_this_version(self) -> bool:
        """Whether running it again would land in the same directory."""
        return self.code_version in (None, code_version())


def find_experiments(root: Path) -> Iterator[StoredExperiment]:
    """The experiments in a directory, by name."""
    if root.is_dir():
        for entry in sorted(root.iterdir()):
            if is_experiment(entry):
                yield StoredExperiment(entry)


def row_count_problem(run: StoredRun) -> str | None:
    """Whether the results have other rows than the run's summary counts; None if they agree."""
    try:
        summary = json.loads((run.directory / SUMMARY).read_text(encoding="utf-8"))
        counted = summary["total"]["transactions"]
        rows = pq.read_metadata(run.results).num_rows
    except (OSError, ValueError, KeyError, pa.ArrowInvalid) as error:
        return f"summary or results cannot be read: {error}"
    return None if rows == counted else f"{rows} rows, but its summary counts {counted}"


def removable(root: Path, *, incomplete: bool, old: bool) -> list[Path]:
    """Directories of runs that are not whole, and of experiments of another version."""
    found: list[Path] = []
    for experiment in find_experiments(root):
        if old and not experiment.of_this_version:
            found.append(experiment.directory)
        elif incomplete:
            found += [run.directory for run in experiment.runs if run.problem() is not None]
    return found
