"""Find, check and clean up experiments on disk, and take the inventory of a directory.

A run is complete if its results have the checksum that its provenance records; an incomplete run is executed again. The inventory
lists the experiments, parameters and finished runs in a directory. It is taken from directory names and provenance records, without
reading rows, because checksums are compared when results are used.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from endive.config.sweep_file import KEPT_ROWS, KeptRows
from endive.input_files import UnreadableError, read_toml, state
from endive.output_files import checksum, find_leftovers
from endive.runs.identity import Value, flat_parameters
from endive.runs.layout import CONFIG, PROVENANCE, RESULTS, hash_of, is_experiment, is_seed, label_of, scratch_directory
from endive.runs.records import ExperimentName, RecordError, read_provenance
from endive.runs.row_files import rows_missing
from endive.version import code_version


@dataclass(frozen=True)
class StoredRun:
    """Directory of one seed of an experiment. ``experiment_hash`` is the hash in the name of the experiment, or None."""

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
        """Return whether the study stores at least these rows of the run."""
        return KEPT_ROWS.index(self.rows_kept) <= KEPT_ROWS.index(rows)

    def problem(self) -> str | None:
        """Return the problem of the run, or None if it is complete. The check reads the results to compare their checksum."""
        problem = self.record_problem()
        if problem is not None:
            return problem
        try:
            found = checksum(self.results)
        except OSError as error:
            return f"results cannot be read: {error.strerror}"
        return None if found == self.provenance["results_sha256"] else "corrupt: the checksum of its results does not match"

    def record_problem(self) -> str | None:
        """Return the problem of the provenance record, or a message that results are missing; None if there is no problem."""
        if not self.results.is_file():
            return "incomplete: it has no results"
        if isinstance(self._provenance, RecordError):
            return "incomplete: it has no provenance" if self._provenance.missing else f"damaged: {self._provenance}"
        return self.misplaced()

    def misplaced(self) -> str | None:
        """Return a message if the record belongs to a different seed or experiment, otherwise None."""
        seed, experiment = self.provenance.get("seed", self.seed), self.provenance.get("experiment_hash")
        if seed != self.seed:
            return f"damaged: {PROVENANCE}: seed: is {seed}, but it is in the directory of seed {self.seed}"
        if experiment and self.experiment_hash and experiment != self.experiment_hash:
            return f"damaged: {PROVENANCE}: experiment_hash: is {experiment[:40]!r}, not {self.experiment_hash!r}"
        return None


NAME_PROBLEM = "its directory does not have the name of an experiment"
_NAME = TypeAdapter(ExperimentName)


def is_name(name: str) -> bool:
    """Return whether a name is valid for an experiment and its directory."""
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
        """Return the problems of the directory, without those of its runs."""
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
        """Model version of the runs; None if no record contains it."""
        return next((run.provenance["code_version"] for run in self.runs if run.provenance.get("code_version")), None)

    @property
    def of_this_version(self) -> bool:
        """True if the experiment has the current model version."""
        return self.code_version in (None, code_version())


def find_experiments(root: Path) -> Iterator[StoredExperiment]:
    """Yield the experiments in a directory, by name."""
    if root.is_dir():
        for entry in sorted(root.iterdir()):
            if is_experiment(entry):
                yield StoredExperiment(entry)


def find_orphans(root: Path) -> Iterator[StoredExperiment]:
    """Yield the directories that contain runs but no configuration, which are remains of damaged experiments."""
    if root.is_dir():
        for entry in sorted(root.iterdir()):
            if entry.is_dir() and not is_experiment(entry):
                stored = StoredExperiment(entry)
                if any(run.results.is_file() or (run.directory / PROVENANCE).is_file() for run in stored.runs):
                    yield stored


def removable(root: Path, *, incomplete: bool, old: bool) -> list[Path]:
    """Return the directories of incomplete runs, files that killed processes left behind, and experiments of other versions."""
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


class PipelineError(RuntimeError):
    """Raised if a dataset or its metrics cannot be created. The message states the reason and the remedy.

    Attributes:
        usage: Whether the error is a usage error.
    """

    def __init__(self, message: str, *, usage: bool = False) -> None:
        super().__init__(message)
        self.usage = usage


@dataclass(frozen=True)
class Damage:
    """Run or experiment that cannot be used, with the reason."""

    where: str
    message: str


@dataclass(frozen=True)
class RecordedRun:
    """Finished run, as recorded in its provenance."""

    seed: int
    rows: int
    results_sha256: str
    rows_kept: KeptRows = "all"


@dataclass(frozen=True)
class Experiment:
    """Experiment with its finished runs by seed."""

    label: str
    hash: str
    code_version: str
    duration_ms: float
    parameters: Mapping[str, Value]
    runs: tuple[RecordedRun, ...] = ()

    @property
    def seeds(self) -> tuple[int, ...]:
        """Seeds of the runs."""
        return tuple(run.seed for run in self.runs)

    @property
    def rows(self) -> int:
        """Number of transactions of all runs."""
        return sum(run.rows for run in self.runs)


@dataclass(frozen=True)
class Inventory:
    """Experiments of a directory by name, damaged runs and experiments, and the number of runs without results."""

    experiments: Mapping[str, Experiment] = field(default_factory=dict)
    problems: tuple[Damage, ...] = ()
    unfinished: int = 0

    @property
    def parameters(self) -> dict[str, Mapping[str, Value]]:
        """Parameters by experiment."""
        return {name: experiment.parameters for name, experiment in self.experiments.items()}

    @property
    def runs(self) -> int:
        """Number of finished runs."""
        return sum(len(experiment.runs) for experiment in self.experiments.values())

    def require_rows(self, root: Path, names: Iterable[str] | None = None) -> None:
        """Raise PipelineError if rows of the named experiments (by default, of any experiment) were not kept."""
        for name in self.experiments if names is None else names:
            for run in self.experiments[name].runs:
                if run.rows_kept != "all":
                    raise PipelineError(f"{root}: {rows_missing(run.rows_kept)} ({name} seed {run.seed})", usage=True)

    def digest(self) -> str:
        """Return a hash of the results and parameters in the inventory, independent of the time and place of their creation."""
        listed = {
            name: [dict(each.parameters), [(run.seed, run.results_sha256) for run in each.runs]]
            for name, each in sorted(self.experiments.items())
        }
        return hashlib.sha256(json.dumps(listed, sort_keys=True).encode()).hexdigest()[:16]

    def without(self, damaged: Sequence[tuple[str, int, str]]) -> Inventory:
        """Return the inventory with damaged runs listed as problems instead. Experiments without other runs are removed.

        Args:
            damaged: Experiment, seed and reason of each damaged run.
        """
        left_out = {(name, seed) for name, seed, _ in damaged}
        kept = {}
        for name, each in self.experiments.items():
            runs = tuple(run for run in each.runs if (name, run.seed) not in left_out)
            if runs:
                kept[name] = replace(each, runs=runs)
        problems = (Damage(f"{name} seed {seed}", message) for name, seed, message in damaged)
        return Inventory(kept, (*self.problems, *problems), self.unfinished)


def take_inventory(root: Path) -> Inventory:
    """Take the inventory of a directory of experiments.

    Raises:
        PipelineError: If the directory has no finished run of a labelled experiment.
    """
    problems = [Damage(each.name, problem) for each in find_orphans(root) for problem in each.problems()]
    experiments: dict[str, Experiment] = {}
    unfinished = 0
    for stored in find_experiments(root):
        found = stored.problems()
        problems += [Damage(stored.name, problem) for problem in found]
        if any(problem.startswith((CONFIG, NAME_PROBLEM)) for problem in found):
            continue
        finished = [run for run in stored.runs if run.results.is_file()]
        unfinished += len(stored.runs) - len(finished)
        usable = []
        for run in finished:
            problem = run.record_problem()
            if problem is None:
                usable.append(run)
            else:
                problems.append(Damage(f"{stored.name} seed {run.seed}", problem))
        if usable:
            label, digest, records = label_of(stored.directory), hash_of(stored.name) or "", [run.provenance for run in usable]
            experiments[stored.name] = experiment_from_records(label, digest, records, stored.directory)
        elif finished:
            problems.append(Damage(stored.name, f"no run has usable parameters: {PROVENANCE} is missing or damaged"))
    if not experiments and not problems:
        if not root.is_dir():
            raise PipelineError(f"{root}: no such directory", usage=True)
        raise PipelineError(f"{root} contains no finished run of an experiment with a label", usage=True)
    return Inventory(experiments, tuple(problems), unfinished)


def experiment_from_records(label: str, digest: str, records: Sequence[Mapping[str, Any]], directory: Path) -> Experiment:
    """Create the inventory entry of an experiment from the provenance records of its runs.

    Args:
        label: Label of the experiment.
        digest: Hash of the experiment.
        records: Provenance records, at least one.
        directory: Directory of the configuration, which contains the names of the providers.
    """
    parameters = records[0]["parameters"]
    runs = sorted((_recorded_run(each) for each in records), key=lambda run: run.seed)
    return Experiment(
        label,
        digest,
        str(records[0].get("code_version", "")),
        float(parameters["simulation"]["duration_ms"]),
        flat_parameters(parameters, directory),
        tuple(runs),
    )


def _recorded_run(record: Mapping[str, Any]) -> RecordedRun:
    kept: KeptRows = record.get("rows_kept", "all")
    return RecordedRun(int(record["seed"]), int(record["rows"]), str(record["results_sha256"]), kept)
