"""Experiments on disk: find them, check them, list what is of no use.

A run is whole if its results have the checksum that its provenance records; everything else is to be run again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from endive.input_files import UnreadableError, read_toml
from endive.output_files import checksum, find_leftovers
from endive.runs.identity import code_version
from endive.runs.layout import CONFIG, PROVENANCE, RESULTS, hash_of, is_experiment, is_seed, label_of
from endive.runs.records import ExperimentName, RecordError, read_provenance


@dataclass(frozen=True)
class StoredRun:
    """The directory of one seed of an experiment. ``experiment_hash`` is that of the experiment, where its name tells one."""

    directory: Path
    experiment_hash: str | None = None

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
        """What the run says of itself; empty if it is missing or damaged."""
        found = self._provenance
        return found if isinstance(found, dict) else {}

    @cached_property
    def _provenance(self) -> dict[str, Any] | RecordError:
        try:
            return read_provenance(self.directory / PROVENANCE)
        except RecordError as error:
            return error

    def problem(self) -> str | None:
        """Return what is wrong with the run; None if it is whole. Reads the results, to compare their checksum."""
        problem = self.record_problem()
        if problem is not None:
            return problem
        try:
            found = checksum(self.results)
        except OSError as error:
            return f"results cannot be read: {error.strerror}"
        return None if found == self.provenance["results_sha256"] else "corrupt: the checksum of its results does not match"

    def record_problem(self) -> str | None:
        """Return what is wrong with the record of the run, or that results are missing; None if nothing is."""
        if not self.results.is_file():
            return "incomplete: it has no results"
        if isinstance(self._provenance, RecordError):
            return "incomplete: it has no provenance" if self._provenance.missing else f"damaged: {self._provenance}"
        return self.misplaced()

    def misplaced(self) -> str | None:
        """Why the run is not one of this place; None if it is, or does not tell."""
        seed, of = self.provenance.get("seed", self.seed), self.provenance.get("experiment_hash")
        if seed != self.seed:
            return f"damaged: {PROVENANCE}: seed: is {seed}, but it lies in the directory of seed {self.seed}"
        if of and self.experiment_hash and of != self.experiment_hash:
            return f"damaged: {PROVENANCE}: experiment_hash: is {of[:40]!r}, of another experiment than {self.experiment_hash!r}"
        return None


NAME_PROBLEM = "its directory has a name that no experiment has"
_NAME = TypeAdapter(ExperimentName)


def is_name(name: str) -> bool:
    """Tell whether an experiment may have such a name: it becomes the name of folders and goes into messages."""
    try:
        _NAME.validate_python(name)
    except ValidationError:
        return False
    return True


@dataclass(frozen=True)
class StoredExperiment:
    """The directory of an experiment."""

    directory: Path

    @property
    def name(self) -> str:
        """Label and hash."""
        return self.directory.name

    @property
    def label(self) -> str:
        """Label of the experiment."""
        return label_of(self.directory)

    @cached_property
    def runs(self) -> tuple[StoredRun, ...]:
        """Its runs by seed, whole or not."""
        seeds = [entry for entry in self._entries if is_seed(entry.name)]
        own = hash_of(self.name)
        return tuple(StoredRun(entry, own) for entry in sorted(seeds, key=lambda entry: int(entry.name)))

    @cached_property
    def _entries(self) -> list[Path]:
        return [entry for entry in self.directory.iterdir() if entry.is_dir()]

    def problems(self) -> list[str]:
        """What is wrong with the directory itself; its runs tell for themselves."""
        found = [] if is_name(self.name) else [f"{NAME_PROBLEM}: {self.name!a}"]
        try:
            read_toml(self.directory / CONFIG)
        except UnreadableError as error:
            found.append(f"{CONFIG}: {'is missing' if error.missing else error}")
        strange = [entry.name for entry in self._entries if entry.name.isnumeric() and not is_seed(entry.name)]
        others = [entry.name for entry in self.directory.iterdir() if is_seed(entry.name) and not entry.is_dir()]
        return [
            *found,
            *(f"{name}: is no seed, as seeds are written" for name in sorted(strange)),
            *(f"{name}: is no directory of a run" for name in sorted(others)),
        ]

    @cached_property
    def code_version(self) -> str | None:
        """The version of the code that ran it, if any run tells."""
        return next((run.provenance["code_version"] for run in self.runs if run.provenance.get("code_version")), None)

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


def find_orphans(root: Path) -> Iterator[StoredExperiment]:
    """The directories in a directory that hold runs but no configuration: what is left of damaged experiments."""
    if root.is_dir():
        for entry in sorted(root.iterdir()):
            if entry.is_dir() and not is_experiment(entry):
                stored = StoredExperiment(entry)
                if any(run.results.is_file() or (run.directory / PROVENANCE).is_file() for run in stored.runs):
                    yield stored


def removable(root: Path, *, incomplete: bool, old: bool) -> list[Path]:
    """Directories of runs that are not whole, files that killed processes left, and experiments of another version."""
    found: list[Path] = []
    for experiment in find_experiments(root):
        if old and not experiment.of_this_version:
            found.append(experiment.directory)
        elif incomplete:
            found += [run.directory for run in experiment.runs if run.problem() is not None]
    if incomplete:
        within = set(found)
        found += [path for path in sorted(find_leftovers(root)) if within.isdisjoint(path.parents)]
    return found
