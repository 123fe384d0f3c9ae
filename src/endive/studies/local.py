"""Metrics of a few runs without Spark: the code of its tasks, called here.

Measures runs of one configuration, by seed, and returns the same tables that ``endive metrics`` writes.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import pyarrow as pa

from endive.analysis.warmup import Window, find_window, given_window
from endive.config import Document
from endive.runs.dataset import Experiment, Manifest, Part, PartFile, PipelineError, Source, described
from endive.runs.layout import CONFIG, PROVENANCE, RESULTS, own_profiles, run_directory
from endive.runs.parts import Spec, write_part
from endive.runs.stored import StoredExperiment
from endive.studies.measure import RunRows, committing_over_time, measure_sources, measured_batch, series_batch
from endive.studies.replications import RunMetrics, check_window
from endive.studies.tables import Metrics, check_options, part_specs, tables_of, with_windows
from endive.studies.windows import MetricsOptions, document_entry_warmup_ms, find_windows


@dataclass(frozen=True)
class LocalRun:
    """The files of a run, wherever they are."""

    seed: int
    results: Path
    provenance: Path
    config: Path


def measure_here(
    name: str, label: str, runs: Sequence[LocalRun], options: MetricsOptions, window: Window | None = None
) -> tuple[Metrics, Manifest]:
    """The tables of runs of one configuration, and the manifest that a dataset of them would have.

    ``window`` takes the place of the one that the options and the runs come to. Raises PipelineError if a run is damaged.
    """
    with tempfile.TemporaryDirectory(prefix="endive-") as folder:
        stored = _linked(Path(folder) / name, runs)
        manifest = Manifest({name: _experiment(label, stored)})
        check_options(manifest, options)
        part = _part(Path(folder), stored)
        manifest.experiments[name].parts.append(part)
        parts = part_specs(Path(folder), manifest, options)
        windows = {name: window} if window else find_windows(Path(folder), manifest, options, parts, _series)
        rows = [measured_batch(spec) for spec in with_windows(parts, windows)]
    return tables_of(pa.Table.from_batches(rows), manifest, options), manifest


def measure_run(results: Path, seed: int, document: Document, options: MetricsOptions) -> RunMetrics:
    """The metrics of one run from the file of its rows. Raises ConfigError if warm-up and cool-down leave nothing of it."""
    check_window(document, options)
    duration, cooldown = document.simulation.duration_ms, options.cooldown_ms
    if options.warmup_ms is not None:
        window = given_window(duration, options.warmup_ms, cooldown)
    else:
        series = committing_over_time({"duration_ms": duration, "cooldown_ms": cooldown}, [RunRows(results, seed)])
        window = find_window(duration, cooldown, document_entry_warmup_ms(document), series)
    spec: Spec = {"experiment": "", "seeds": [seed], "window": asdict(window)}
    return RunMetrics(seed, tuple(measure_sources(spec, [RunRows(results, seed)])))


def _series(parts: Sequence[Spec]) -> pa.Table:
    return pa.Table.from_batches([series_batch(spec) for spec in parts])


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
    experiment = described(label, str(provenance.get("experiment_hash", "")), provenance, stored.directory)
    files = {run.seed: run.results.stat() for run in stored.runs}
    return replace(experiment, sources={seed: Source(stat.st_size, stat.st_mtime_ns, 0) for seed, stat in files.items()})


def _part(dataset: Path, stored: StoredExperiment) -> Part:
    """All runs as one part of a dataset."""
    seeds = [run.seed for run in stored.runs]
    spec: Spec = {"dataset": str(dataset), "directory": str(stored.directory), "experiment": stored.name}
    written = write_part({**spec, "number": 0, "seeds": seeds, "parameters": {}, "digest": ""})
    if written["unfit"]:
        seed, problem = next(iter(written["unfit"].items()))
        raise PipelineError(f"{stored.name}, seed {seed}: {problem}", usage=True)
    return Part(0, seeds, {operation: PartFile(**file) for operation, file in written["files"].items()})
