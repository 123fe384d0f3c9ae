"""Consolidation: the runs of many experiments into one dataset, only what is new, by Spark tasks.

Writes ``consolidated/`` in a directory of experiments (``runs.dataset`` has its layout). The driver looks at directories and
manifests; rows go from file to file inside tasks. State is on disk alone, and a lock keeps two consolidations of one directory
apart.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from endive.output_files import check_inside, discard, locked, remove_leftovers
from endive.pipeline.jobs import Report, deal, number_of_tasks, run_tasks, specs_of
from endive.runs import dataset
from endive.runs.dataset import Experiment, Manifest, Part, PartFile, PipelineError, Source
from endive.runs.layout import CONFIG, LOCK, PROVENANCE, dataset_folder, part_files, part_number
from endive.runs.parameters import SCENARIO_COLUMN, scenario_of
from endive.runs.parts import Spec, part_metadata, part_outcome, unfitness
from endive.runs.stored import NAME_PROBLEM, StoredExperiment, StoredRun, find_experiments, find_orphans

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ROWS_PER_TASK = 2_000_000
_ROWS_PER_FILE = 20_000
"""What opening a file costs, in rows."""
_OUTCOME, _OUTCOME_DDL = pa.schema([("outcome", pa.string())]), "outcome string"
Sessions = Callable[[], AbstractContextManager["SparkSession"]]


@dataclass(frozen=True)
class Damage:
    """A run, or a part of the dataset, that could not be consolidated."""

    where: str
    message: str


@dataclass(frozen=True)
class Consolidation:
    """What a consolidation did, and what the dataset holds after it."""

    parts_written: int
    parts_reused: int
    experiments: int
    runs: int
    rows: int
    files: int
    new_runs: int
    removed_runs: int
    unfinished_runs: int
    problems: tuple[Damage, ...]


@dataclass
class ConsolidationPlan:
    """What is to be done: the manifest to be, and the parts that have yet to be written."""

    manifest: Manifest
    specs: list[Spec] = field(default_factory=list)
    weights: list[float] = field(default_factory=list)
    unfinished: int = 0
    problems: list[Damage] = field(default_factory=list)


def consolidate(root: Path, sessions: Sessions, *, tasks: int | None = None, report: Report | None = None) -> Consolidation:
    """Bring the dataset of ``root`` up to date. A session is made only if there is something to write.

    Raises PipelineError if there is nothing to consolidate, or another consolidation is at it.
    """
    old = dataset.load_manifest(root)
    if not root.is_dir() or (old is None and not any(run.results.is_file() for e in find_experiments(root) for run in e.runs)):
        raise PipelineError(f"{root}: there is no finished run of a labelled experiment here", usage=True)
    with _lock(root):
        old = dataset.load_manifest(root)
        before = Manifest() if old is None else old
        plan = make_plan(root, before)
        _remove_leftovers(root, before, plan)
        outcomes = _write(plan, sessions, tasks, report) if plan.specs else []
        _enter(plan, before, outcomes)
        _remove_unlisted(root, plan.manifest)
        if old is None or plan.manifest.to_json() != old.to_json():
            dataset.save_manifest(root, plan.manifest)
    return _result(plan, before, outcomes)


def make_plan(root: Path, old: Manifest) -> ConsolidationPlan:
    """Compare what is on disk with what the manifest knows."""
    plan = ConsolidationPlan(Manifest())
    plan.problems += [Damage(each.name, problem) for each in find_orphans(root) for problem in each.problems()]
    for stored in find_experiments(root):
        problems = stored.problems()
        plan.problems += [Damage(stored.name, problem) for problem in problems]
        if any(problem.startswith((CONFIG, NAME_PROBLEM)) for problem in problems):
            continue
        known = old.experiments.get(stored.name)
        finished = [run for run in stored.runs if run.results.is_file()]
        plan.unfinished += len(stored.runs) - len(finished)
        if not finished:
            continue
        renamed = known is not None and known.parameters.get(SCENARIO_COLUMN) != scenario_of(stored.directory)
        experiment = _describe(stored, finished) if known is None or renamed else known
        if experiment is None:
            plan.problems.append(Damage(stored.name, f"no run of it tells its parameters: {PROVENANCE} is missing or damaged"))
            continue
        found = {run.seed: _source(run, None if known is None else known.sources.get(run.seed)) for run in finished}
        intact = () if known is None or renamed else _intact(root, stored.name, known)
        kept, to_write = dataset.plan_parts(known, found, intact)
        plan.manifest.experiments[stored.name] = replace(experiment, sources=found, parts=kept)
        for part in to_write:
            _plan_part(plan, root, stored, part, experiment, found)
    return plan


def _plan_part(
    plan: ConsolidationPlan, root: Path, stored: StoredExperiment, part: Part, experiment: Experiment, found: dict[int, Source]
) -> None:
    sources = [(seed, found[seed].size, found[seed].mtime_ns) for seed in part.seeds]
    plan.specs.append(
        {
            "experiment": stored.name,
            "number": part.number,
            "seeds": part.seeds,
            "directory": str(stored.directory.resolve()),
            "dataset": str(dataset_folder(root).resolve()),
            "parameters": experiment.parameters,
            "digest": hashlib.sha256(json.dumps([dataset.FORMAT, experiment.parameters, sources]).encode()).hexdigest(),
        }
    )
    plan.weights.append(sum(found[seed].rows + _ROWS_PER_FILE for seed in part.seeds))


def _describe(stored: StoredExperiment, finished: Iterable[StoredRun]) -> Experiment | None:
    """What is the same for all runs of an experiment, from the first that tells."""
    label, _, digest = stored.name.rpartition("-")
    told = next((run.provenance for run in finished if run.provenance), None)
    return None if told is None else dataset.described(label, digest, told, stored.directory)


def _source(run: StoredRun, known: Source | None) -> Source:
    """The file of a run; its provenance is read only if the file is new, or was unfit and no longer is."""
    stat = run.results.stat()
    source = Source(stat.st_size, stat.st_mtime_ns, 0)
    if known is not None and known.same_file(source) and (known.error is None or run.misplaced() or unfitness(run)):
        return known
    return replace(source, rows=run.provenance.get("rows", 0), error=run.misplaced())


def _intact(root: Path, name: str, experiment: Experiment) -> Iterator[int]:
    """The parts whose files are there, with the size that the manifest says."""
    for part in experiment.parts:
        paths = [(part.path(dataset_folder(root), name, operation), file.size) for operation, file in part.files.items()]
        with suppress(OSError):
            if all(path.is_file() and path.stat().st_size == size for path, size in paths):
                yield part.number


def _write(plan: ConsolidationPlan, sessions: Sessions, tasks: int | None, report: Report | None) -> list[dict[str, Any]]:
    """Write the parts on Spark: one row comes back for each."""
    with sessions() as spark:
        wanted = tasks or number_of_tasks(spark, sum(plan.weights), _ROWS_PER_TASK)
        told = run_tasks(spark, deal(plan.specs, plan.weights, wanted), write_parts, _OUTCOME_DDL, report)
    outcomes = [json.loads(text) for text in told.column("outcome").to_pylist()]
    return sorted(outcomes, key=lambda outcome: (outcome["experiment"], outcome["number"]))


def write_parts(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Write the parts that the rows describe; runs on executors."""
    for spec in specs_of(batches):
        yield pa.RecordBatch.from_pylist([{"outcome": json.dumps(part_outcome(spec))}], schema=_OUTCOME)


def _enter(plan: ConsolidationPlan, old: Manifest, outcomes: list[dict[str, Any]]) -> None:
    """Enter what was written in the manifest to be. A part that failed is in it as it was before, if it was."""
    seeds = {(spec["experiment"], spec["number"]): spec["seeds"] for spec in plan.specs}
    for outcome in outcomes:
        name, number = outcome["experiment"], outcome["number"]
        experiment = plan.manifest.experiments[name]
        if outcome["error"] is not None:
            plan.problems.append(Damage(name, outcome["error"]))
            _restore(experiment, old.experiments.get(name), number, seeds[name, number])
            continue
        for seed, message in outcome["unfit"].items():
            experiment.sources[int(seed)] = replace(experiment.sources[int(seed)], error=message)
        fit = [seed for seed in seeds[name, number] if str(seed) not in outcome["unfit"]]
        if fit:
            files = {operation: PartFile(**file) for operation, file in outcome["files"].items()}
            experiment.parts.append(Part(number, fit, files))
    for experiment in plan.manifest.experiments.values():
        experiment.parts.sort(key=lambda part: part.number)
    plan.problems += _unfit_sources(plan.manifest)


def _restore(experiment: Experiment, old: Experiment | None, number: int, seeds: Iterable[int]) -> None:
    """Leave a part and its sources as they were; seeds that were in none are new next time."""
    for seed in seeds:
        del experiment.sources[seed]
    part = next((part for part in (old.parts if old else ()) if part.number == number), None)
    if old is not None and part is not None:
        experiment.parts.append(part)
        experiment.sources.update({seed: old.sources[seed] for seed in part.seeds})


def _remove_leftovers(root: Path, old: Manifest, plan: ConsolidationPlan) -> None:
    """Remove what an interrupted consolidation has left and this one will not use, before anything new is written.

    Otherwise a seed that is now planned for another part would for a while be in two.
    """
    place = dataset_folder(root)
    listed = {path for path, _ in old.files(place)}
    digests = {(spec["experiment"], spec["number"]): spec["digest"] for spec in plan.specs}
    for path in part_files(place):
        if path in listed and path.is_file():
            continue
        key = (path.parent.parent.name.partition("=")[2], part_number(path))
        told = part_metadata(path)
        if told is None or told["digest"] != digests.get(key):
            discard(path)
    remove_leftovers(place)


def _remove_unlisted(root: Path, manifest: Manifest) -> None:
    """Remove files that the manifest to be does not list: of removed runs, and of operations that are no more."""
    place = dataset_folder(root)
    listed = {path for path, _ in manifest.files(place)}
    for path in part_files(place):
        if path not in listed:
            discard(path)
    for folder in (*place.glob("experiment=*/operation_type=*"), *place.glob("experiment=*")):
        with suppress(OSError):
            folder.rmdir()  # fails unless it is empty


@contextmanager
def _lock(root: Path) -> Iterator[None]:
    """One consolidation at a time; the lock goes with the process, however that ends."""
    place = dataset_folder(root)
    check_inside(place, root)
    place.mkdir(exist_ok=True)
    with ExitStack() as held:
        try:
            held.enter_context(locked(place / LOCK, fcntl.LOCK_EX | fcntl.LOCK_NB))
        except BlockingIOError:
            raise PipelineError(f"{root}: another consolidation is at work here") from None
        yield


def _result(plan: ConsolidationPlan, old: Manifest, outcomes: list[dict[str, Any]]) -> Consolidation:
    runs, before = _runs(plan.manifest), _runs(old)
    return Consolidation(
        parts_written=sum(not outcome["reused"] and outcome["error"] is None for outcome in outcomes),
        parts_reused=sum(outcome["reused"] for outcome in outcomes),
        experiments=len(plan.manifest.experiments),
        runs=len(runs),
        rows=sum(experiment.rows for experiment in plan.manifest.experiments.values()),
        files=sum(1 for _ in plan.manifest.files(Path())),
        new_runs=len(runs - before),
        removed_runs=len(before - runs),
        unfinished_runs=plan.unfinished,
        problems=tuple(plan.problems),
    )


def _runs(manifest: Manifest) -> set[tuple[str, int]]:
    return {(name, seed) for name, each in manifest.experiments.items() for part in each.parts for seed in part.seeds}


@dataclass(frozen=True)
class Standing:
    """How a dataset stands to what is on disk: finished runs and parts that it does not hold as they are, and what is damaged."""

    new_runs: int
    parts_to_write: int
    problems: tuple[Damage, ...]


def standing(root: Path, manifest: Manifest) -> Standing:
    """Compare a dataset with what is on disk, without writing anything.

    Runs are new also where their scenario has another name now.
    """
    plan = make_plan(root, manifest)
    named = {name: each.parameters.get(SCENARIO_COLUMN) for name, each in plan.manifest.experiments.items()}
    held = {
        (name, part.number): part.seeds
        for name, each in manifest.experiments.items()
        if named.get(name) == each.parameters.get(SCENARIO_COLUMN)
        for part in each.parts
    }
    new = sum(len(set(spec["seeds"]) - set(held.get((spec["experiment"], spec["number"]), ()))) for spec in plan.specs)
    return Standing(new, len(plan.specs), (*plan.problems, *_unfit_sources(plan.manifest)))


def _unfit_sources(manifest: Manifest) -> Iterator[Damage]:
    """The runs that were left out, and why."""
    for name, experiment in manifest.experiments.items():
        for seed, source in sorted(experiment.sources.items()):
            if source.error is not None:
                yield Damage(f"{name} seed {seed}", source.error)
