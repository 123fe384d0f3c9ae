"""Find, check and clean up experiments on disk.

A run is complete if its results have the checksum that its provenance records; otherwise it is run again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from endive.config.sweep_file import KEPT_ROWS, KeptRows
from endive.input_files import UnreadableError, read_toml, state
from endive.output_files import checksum, find_leftovers
from endive.runs.layout import CONFIG, PROVENANCE, RESULTS, hash_of, is_experiment, is_seed, label_of, scratch_directory
from endive.runs.records import ExperimentName, RecordError, read_provenance
from endive.version import code_version


@dataclass(frozen=True)
class StoredRun:
    """Directory of one seed of an experiment. ``experiment_hash`` is the hash in the experiment's name, if it has one."""

    directory: Path
    experiment_hash: str | None = None

    @property
    def seed(self) -> int:
        """Seed of the run."""
        return int(self.directory.name)

    @property
    def results(self) -> Path:
        """File of the rows."""
        return self.directory / RESULTS

    @cached_property
    def provenance(self) -> dict[str, Any]:
        """Provenance record; empty if it is missing or damaged."""
        found = self._provenance
        return found if isinstance(found, dict) else {}

    @cached_property
    def _provenance(self) -> dict[str, Any] | RecordError:
        try:
            return read_provenance(self.directory / PROVENANCE)
        except RecordError as error:
            return error

    @property
    def rows_kept(self) -> KeptRows:
        """Rows that the study keeps: all, a sample, or none."""
        found: KeptRows = self.provenance.get("rows_kept", "all")
        return found

    def keeps(self, rows: KeptRows) -> bool:
        """Return whether at least these rows are kept."""
        return KEPT_ROWS.index(self.rows_kept) <= KEPT_ROWS.index(rows)

    def problem(self) -> str | None:
        """Return the problem of the run; None if it is complete. Reads the results to compare their checksum."""
        problem = self.record_problem()
        if problem is not None:
            return problem
        try:
            found = checksum(self.results)
        except OSError as error:
            return f"results cannot be read: {error.strerror}"
        return None if found == self.provenance["results_sha256"] else "corrupt: the checksum of its results does not match"

    def record_problem(self) -> str | None:
        """Return the problem of the record of the run, or a message that results are missing; None if there is no problem."""
        if not self.results.is_file():
            return "incomplete: it has no results"
        if isinstance(self._provenance, RecordError):
            return "incomplete: it has no provenance" if self._provenance.missing else f"damaged: {self._provenance}"
        return self.misplaced()

    def misplaced(self) -> str | None:
        """Return the reason why the record belongs to another seed or experiment; None if it does not."""
        seed, experiment = self.provenance.get("seed", self.seed), self.provenance.get("experiment_hash")
        if seed != self.seed:
            return f"damaged: {PROVENANCE}: seed: is {seed}, but it is in the directory of seed {self.seed}"
        if experiment and self.experiment_hash and experiment != self.experiment_hash:
            return f"damaged: {PROVENANCE}: experiment_hash: is {experiment[:40]!r}, not {self.experiment_hash!r}"
        return None


NAME_PROBLEM = "its directory does not have the name of an experiment"
_NAME = TypeAdapter(ExperimentName)


def is_name(name: str) -> bool:
    """Return whether a name is valid for an experiment, whose directory it names."""
    try:
        _NAME.validate_python(name)
    except ValidationError:
        return False
    return True


@dataclass(frozen=True)
class StoredExperiment:
    """Directory of an experiment."""

    directory: Path

    @property
    def name(self) -> str:
        """Label and hash of the experiment."""
        return self.directory.name

    @property
    def label(self) -> str:
        """Label of the experiment."""
        return label_of(self.directory)

    @cached_property
    def runs(self) -> tuple[StoredRun, ...]:
        """Runs by seed, complete or not."""
        seeds = [entry for entry in self._entries if is_seed(entry.name)]
        own = hash_of(self.name)
        return tuple(StoredRun(entry, own) for entry in sorted(seeds, key=lambda entry: int(entry.name)))

    @cached_property
    def _entries(self) -> list[Path]:
        return [entry for entry in self.directory.iterdir() if entry.is_dir()]

    def problems(self) -> list[str]:
        """Return the problem of the directory, without the problems of its runs."""
        found = [] if is_name(self.name) else [f"{NAME_PROBLEM}: {self.name!a}"]
        try:
            read_toml(self.directory / CONFIG)
        except UnreadableError as error:
            found.append(state(CONFIG, "is missing" if error.missing else str(error)))
        strange = [entry.name for entry in self._entries if entry.name.isnumeric() and not is_seed(entry.name)]
        others = [entry.name for entry in self.directory.iterdir() if is_seed(entry.name) and not entry.is_dir()]
        return [
            *found,
            *(f"{name} is not a seed" for name in sorted(strange)),
            *(f"{name} is not a directory of a run" for name in sorted(others)),
        ]

    @cached_property
    def code_version(self) -> str | None:
        """Model version of the runs, if a record contains it."""
        return next((run.provenance["code_version"] for run in self.runs if run.provenance.get("code_version")), None)

    @property
    def of_this_version(self) -> bool:
        """True if the experiment has the current model version."""
        return self.code_version in (None, code_version())


def find_experiments(root: Path) -> Iterator[StoredExperiment]:
    """Yield the experiments of a directory, by name."""
    if root.is_dir():
        for entry in sorted(root.iterdir()):
            if is_experiment(entry):
                yield StoredExperiment(entry)


def find_orphans(root: Path) -> Iterator[StoredExperiment]:
    """Yield the directories with runs but without a configuration, which are remains of damaged experiments."""
    if root.is_dir():
        for entry in sorted(root.iterdir()):
            if entry.is_dir() and not is_experiment(entry):
                stored = StoredExperiment(entry)
                if any(run.results.is_file() or (run.directory / PROVENANCE).is_file() for run in stored.runs):
                    yield stored


def removable(root: Path, *, incomplete: bool, old: bool) -> list[Path]:
    """Return the directories of incomplete runs, files that killed processes left, and experiments of another version."""
    found: list[Path] = []
    for experiment in find_experiments(root):
        if old and not experiment.of_this_version:
            found.append(experiment.directory)
        elif incomplete:
            found += [run.directory for run in experiment.runs if run.problem() is not None]
    if incomplete:
        found += [scratch for scratch in [scratch_directory(root)] if scratch.is_dir()]
        within = set(found)
        found += [path for path in sorted(find_leftovers(root)) if within.isdisjoint(path.parents)]
    return found
