"""Take the inventory of a directory of experiments: the experiments, their parameters, and their finished runs.

The inventory is taken from the directories and the provenance records. No rows are read; checksums are checked when results are
used.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from endive.config.sweep_file import KeptRows
from endive.runs.layout import CONFIG, PROVENANCE, hash_of, label_of
from endive.runs.parameters import Value, flat_parameters
from endive.runs.row_files import rows_missing
from endive.runs.stored import NAME_PROBLEM, find_experiments, find_orphans


class PipelineError(RuntimeError):
    """Raised if a dataset or its metrics cannot be created; the message contains the reason and the remedy.

    Attributes:
        usage: Whether the error is a usage error.
    """

    def __init__(self, message: str, *, usage: bool = False) -> None:
        super().__init__(message)
        self.usage = usage


@dataclass(frozen=True)
class Damage:
    """A run or an experiment that cannot be used, with the reason."""

    where: str
    message: str


@dataclass(frozen=True)
class RecordedRun:
    """A finished run, as recorded in its provenance."""

    seed: int
    rows: int
    results_sha256: str
    rows_kept: KeptRows = "all"


@dataclass(frozen=True)
class Experiment:
    """An experiment and its finished runs, by seed."""

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
    """Experiments by name, damaged runs and experiments, and the number of runs without results."""

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
        """Raise PipelineError if not all rows of some experiments, by default of all experiments, were kept."""
        for name in self.experiments if names is None else names:
            for run in self.experiments[name].runs:
                if run.rows_kept != "all":
                    raise PipelineError(f"{root}: {rows_missing(run.rows_kept)} ({name} seed {run.seed})", usage=True)

    def digest(self) -> str:
        """Return a hash of the results and parameters in the inventory, independent of when and where they were written."""
        listed = {
            name: [dict(each.parameters), [(run.seed, run.results_sha256) for run in each.runs]]
            for name, each in sorted(self.experiments.items())
        }
        return hashlib.sha256(json.dumps(listed, sort_keys=True).encode()).hexdigest()[:16]

    def without(self, damaged: Sequence[tuple[str, int, str]]) -> Inventory:
        """Return the inventory without damaged runs, which become problems, and without experiments whose runs are all damaged.

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
        raise PipelineError(f"{root} contains no finished run of a labelled experiment", usage=True)
    return Inventory(experiments, tuple(problems), unfinished)


def experiment_from_records(label: str, digest: str, records: Sequence[Mapping[str, Any]], directory: Path) -> Experiment:
    """Describe an experiment by the provenance records of its runs.

    Args:
        label: Label of the experiment.
        digest: Hash of the experiment.
        records: Provenance records, at least one.
        directory: Directory of its configuration, which contains the names of the providers.
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
