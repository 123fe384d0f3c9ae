"""What lies at a path: a directory of experiments, one experiment, or one run.

Finds the runs at a path that a user gave (a ``Place``). Runs without a label lie beside each other under names of their own; they
are told by their provenance.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from endive.report.errors import ReportError
from endive.runs.contents import results_problem
from endive.runs.inventory import Experiment, experiment_from_records
from endive.runs.layout import CONFIG, PROVENANCE, RESULTS, RunFiles, is_experiment, is_seed, label_of
from endive.runs.records import RecordError, read_provenance
from endive.runs.stored import StoredRun, find_experiments
from endive.studies.measure import ExperimentRuns, RunFile, stored_entry_warmup_ms

PlaceKind = Literal["sweep", "experiment", "run"]
_RUN_THIS = "`endive run CONFIG` or `endive sweep SWEEP` makes some"


@dataclass(frozen=True)
class RunPlace:
    """Files of one run, its provenance record, and its label."""

    seed: int
    results: Path
    provenance: Path
    config: Path
    record: dict[str, Any]
    label: str


@dataclass(frozen=True)
class Place:
    """What was found. The runs of a sweep are for the pipeline to find.

    ``damaged`` are the runs of an experiment that were left out, and what is wrong with each.
    """

    kind: PlaceKind
    path: Path
    name: str
    runs: tuple[RunPlace, ...] = ()
    damaged: tuple[tuple[str, str], ...] = ()

    def experiment(self, label: str) -> Experiment:
        """Describe the configuration of the runs."""
        records = [run.record for run in self.runs]
        return experiment_from_records(label, str(records[0].get("experiment_hash", "")), records, self.runs[0].config.parent)

    def experiment_runs(self, name: str) -> ExperimentRuns:
        """Return the runs as measuring takes them."""
        duration = float(self.runs[0].record["parameters"]["simulation"]["duration_ms"])
        files = tuple(RunFile(run.seed, run.results) for run in self.runs)
        return ExperimentRuns(name, duration, stored_entry_warmup_ms(self.runs[0].config), files)


def find_place(path: Path) -> Place:
    """What lies at a path. Raises ReportError if there is no finished run."""
    if not path.exists():
        raise ReportError(f"{path}: there is no such file or directory")
    if path.is_file():
        return _of_file(path)
    if is_experiment(path):
        return _of_experiment(path)
    if (path / RESULTS).is_file():
        return _of_file(path / RESULTS)
    stored = list(find_experiments(path))
    if not stored:
        raise ReportError(f"{path}: there is no finished run here; {_RUN_THIS}")
    if not any(run.results.is_file() for each in stored for run in each.runs):
        raise ReportError(f"{path}: none of its {len(stored)} experiments has a finished run; `endive sweep` completes them")
    return Place("sweep", path, path.resolve().name)


def _of_file(path: Path) -> Place:
    if path.suffix != ".parquet":
        raise ReportError(f"{path}: results are a .parquet file, or the directory that they lie in")
    run = _labelled(path) if (path.parent / PROVENANCE).is_file() else _unlabelled(path)
    return Place("run", path, f"{run.label}, seed {run.seed}", (run,))


def _of_experiment(path: Path) -> Place:
    seeds = [entry for entry in path.iterdir() if is_seed(entry.name) and (entry / RESULTS).is_file()]
    if not seeds:
        raise ReportError(f"{path}: this experiment has no finished run; `endive run {path / CONFIG} --seed 0` makes one")
    runs: list[RunPlace] = []
    damaged: list[tuple[str, str]] = []
    for entry in sorted(seeds, key=lambda entry: int(entry.name)):
        problem = (
            results_problem(StoredRun(entry)) if len(seeds) > 1 else None
        )  # of the only one, who measures it says what is wrong
        if problem is None:
            runs.append(_labelled(entry / RESULTS))
        else:
            damaged.append((f"{path.resolve().name} seed {entry.name}", problem))
    if not runs:
        raise ReportError(f"{path}: none of its runs can be used ({damaged[0][0]}: {damaged[0][1]}); `endive sweep` runs them anew")
    return Place("experiment", path, path.resolve().name, tuple(runs), tuple(damaged))


def _labelled(results: Path) -> RunPlace:
    files = RunFiles.in_directory(results.resolve().parent)
    return _run(results, results.with_name(PROVENANCE), files.config, label_of(files.config.parent))


def _unlabelled(results: Path) -> RunPlace:
    files = RunFiles.beside(results)
    return _run(results, files.provenance, files.config, results.stem)


def _run(results: Path, provenance: Path, config: Path, label: str) -> RunPlace:
    try:
        record = read_provenance(provenance)
    except RecordError as error:
        raise ReportError(f"{results}: these results do not tell what they are of: {error}") from None
    return RunPlace(int(record["seed"]), results, provenance, config, record, label)
