"""Metrics of a few runs without Spark: the code of its tasks, called here.

What flows in: runs of one configuration, by seed. What flows out: the same tables that ``endive metrics`` writes, in memory.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from endive.pipeline.jobs import Spec
from endive.pipeline.measure import measured_batch
from endive.pipeline.metrics import Metrics, MetricsOptions, check_options, specs, tables_of
from endive.runs.dataset import Experiment, Manifest, Part, PartFile, PipelineError, Source
from endive.runs.layout import CONFIG, PROVENANCE, RESULTS, own_profiles, run_directory
from endive.runs.parameters import flat_parameters
from endive.runs.parts import write_part
from endive.runs.stored import StoredExperiment


@dataclass(frozen=True)
class LocalRun:
    """The files of a run, wherever they are."""

    seed: int
    results: Path
    provenance: Path
    config: Path


def measure_here(name: str, label: str, runs: Sequence[LocalRun], options: MetricsOptions) -> tuple[Metrics, Manifest]:
    """The tables of runs of one configuration, and the manifest that a dataset of them would have.

    Raises PipelineError if a run is damaged.
    """
    with tempfile.TemporaryDirectory(prefix="endive-") as folder:
        stored = _linked(Path(folder) / name, runs)
        manifest = Manifest({name: _experiment(label, stored)})
        check_options(manifest, options)
        part = _part(Path(folder), stored)
        manifest.experiments[name].parts.append(part)
        rows = [measured_batch(spec) for spec in specs(Path(folder), manifest, options)]
    return tables_of(pa.Table.from_batches(rows), manifest, options), manifest


def _linked(directory: Path, runs: Sequence[LocalRun]) -> StoredExperiment:
    """The directory that an experiment of these runs has, by links."""
    config = runs[0].config
    for run in runs:
        run_directory(directory, run.seed).mkdir(parents=True)
        (run_directory(directory, run.seed) / RESULTS).symlink_to(run.results.resolve())
        (run_directory(directory, run.seed) / PROVENANCE).symlink_to(run.provenance.resolve())
    for own in own_profiles(config.parent):
        (directory / own.name).symlink_to(own.resolve())
    if config.is_file():
        (directory / CONFIG).symlink_to(config.resolve())
    return StoredExperiment(directory)


def _experiment(label: str, stored: StoredExperiment) -> Experiment:
    provenance = stored.runs[0].provenance
    parameters = provenance["parameters"]
    files = {run.seed: run.results.stat() for run in stored.runs}
    return Experiment(
        label=label,
        hash=str(provenance.get("experiment_hash", "")),
        code_version=str(provenance.get("code_version", "")),
        duration_ms=float(parameters["simulation"]["duration_ms"]),
        parameters=flat_parameters(parameters, stored.directory),
        sources={seed: Source(stat.st_size, stat.st_mtime_ns, 0) for seed, stat in files.items()},
    )


def _part(dataset: Path, stored: StoredExperiment) -> Part:
    """All runs as one part of a dataset."""
    seeds = [run.seed for run in stored.runs]
    spec: Spec = {"dataset": str(dataset), "directory": str(stored.directory), "experiment": stored.name}
    written = write_part({**spec, "number": 0, "seeds": seeds, "parameters": {}, "digest": ""})
    if written["unfit"]:
        seed, problem = next(iter(written["unfit"].items()))
        raise PipelineError(f"{stored.name}, seed {seed}: {problem}", usage=True)
    return Part(0, seeds, {operation: PartFile(**file) for operation, file in written["files"].items()})
