"""Run a configuration and write its files atomically: results, summary and provenance.

``prepare_run`` builds the model and chooses the engine. ``execute_run`` streams the rows to Parquet and writes the records next to
them. The files of a run suffice to check and reproduce the run. The results are written last, so if they exist, the other files
exist too.
"""

from __future__ import annotations

import dataclasses
import errno
import hashlib
import json
import platform
import time
import traceback
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
import tomli_w

from endive import __version__
from endive.config import Document, build_simulation_config
from endive.config.components import custom_components
from endive.config.sweep_file import KeptRows
from endive.output_files import check_inside, discard, write_text
from endive.runs.identity import compute_experiment_hash, parameters
from endive.runs.layout import RunFiles, named_experiment, run_directory, scratch_directory
from endive.runs.records import seal_record
from endive.runs.row_files import MeasuringSink, ParquetSink, SampleSink
from endive.runs.stored import StoredRun
from endive.simulation import RESULT_SCHEMA, TRACE_SCHEMA, Simulation, Summary
from endive.simulation.columns import Progress
from endive.version import code_version, get_git_sha

_DEPENDENCIES = ("numba", "numpy", "pandas", "pyarrow", "pydantic", "scipy", "simpy")


@dataclass(frozen=True)
class PreparedRun:
    """Run that is ready to be executed: the model, the engine and the seed.

    Attributes:
        experiment: Hash of the experiment.
        simulation: The model, the engine and the seed.
    """

    document: Document
    experiment: str
    simulation: Simulation

    @property
    def seed(self) -> int:
        """Seed of the run."""
        return self.simulation.config.run_seed


@dataclass(frozen=True)
class FinishedRun:
    """Run whose files are on disk."""

    files: RunFiles
    rows: int
    summary: dict[str, Any]
    provenance: dict[str, Any]


def prepare_run(document: Document, *, seed: int | None = None, among_many: bool = False) -> PreparedRun:
    """Build the model of a document.

    Args:
        document: Checked configuration.
        seed: Seed that replaces the one in the document.
        among_many: Whether similar runs follow, so that the run waits for the compilation of a kernel.
    """
    simulation = Simulation(build_simulation_config(document, seed_override=seed), among_many=among_many)
    return PreparedRun(document, compute_experiment_hash(document), simulation)


def run_experiment(
    document: Document,
    *,
    root: Path,
    seed: int | None = None,
    trace: bool = False,
    progress: Progress | None = None,
    among_many: bool = False,
) -> FinishedRun:
    """Run a document and write its results below ``root``.

    Raises:
        PermissionError: If a link below ``root`` points outside of ``root``, or the results would replace a file that is not a
            result.
    """
    prepared = prepare_run(document, seed=seed, among_many=among_many)
    return execute_run(prepared, place_run(prepared, root), trace=trace, progress=progress)


def place_run(prepared: PreparedRun, root: Path) -> RunFiles:
    """Return the files of a run below ``root``: in the experiment's directory or, without a label, next to ``output_path``.

    Raises:
        PermissionError: If a link below ``root`` points outside of ``root``, or the results would replace a file that is not a
            result.
    """
    label = prepared.document.experiment.label
    if label is None:
        results = root / prepared.document.simulation.output_path
        check_inside(results, root)
        files = RunFiles.beside(results)
        _check_replaceable(files)
        return files
    directory = run_directory(named_experiment(root, label, prepared.experiment), prepared.seed)
    check_inside(directory, root)
    return RunFiles.in_directory(directory)


def _check_replaceable(files: RunFiles) -> None:
    """Check that the files that a run would replace belong to an earlier run, of any version."""
    found = [path for path in dataclasses.astuple(files) if path.exists() or path.is_symlink()]
    if found and not _is_result(files.results):
        raise PermissionError(errno.EPERM, "was not written by Endive, so it is not replaced", str(found[0]))


def _is_result(path: Path) -> bool:
    try:
        return RESULT_SCHEMA.names[0] in pq.read_schema(path).names
    except (pa.ArrowException, OSError):
        return False


def execute_run(
    prepared: PreparedRun, files: RunFiles, *, trace: bool = False, progress: Progress | None = None, rows: KeptRows = "all"
) -> FinishedRun:
    """Simulate a prepared run and write its files.

    Args:
        prepared: Run to simulate.
        files: Files to write.
        trace: Whether to also write a log of all events, which requires the reference engine.
        progress: Function that is called with the simulated time.
        rows: Rows to keep. Unless all rows are kept, also write a temporary file from which the run is measured.
    """
    summary = Summary(prepared.simulation.config.duration_ms)
    started, clock = datetime.now(UTC), time.perf_counter()
    with ExitStack() as stack:
        sink_of_results = ParquetSink(files.results, RESULT_SCHEMA) if rows == "all" else SampleSink(files.results, rows)
        results = stack.enter_context(sink_of_results)
        measuring = None if rows == "all" else stack.enter_context(MeasuringSink(files.measuring))
        events = stack.enter_context(ParquetSink(files.trace, TRACE_SCHEMA)) if trace else None

        def sink(batch: pa.RecordBatch) -> None:
            results(batch)
            summary(batch)
            if measuring is not None:
                measuring(batch)

        counters = prepared.simulation.stream(sink, trace=events, progress=progress)
        engine = "reference" if trace else prepared.simulation.engine
        numbers = summary.to_dict(counters)
        summary_text = json.dumps(numbers, indent=2) + "\n"
        checksums = {"results_sha256": results.finish(), "summary_sha256": hashlib.sha256(summary_text.encode()).hexdigest()}
        if events is not None:
            checksums["trace_sha256"] = events.finish()
        total, kept = results.rows, {}
        if measuring is not None:
            total = measuring.rows
            kept = {"rows_kept": rows, "kept": results.rows}
        provenance = seal_record(
            {
                "rows": total,
                **kept,
                **checksums,
                "repeat": _repeat_command(prepared, files),
                **describe_run(prepared, engine, started, time.perf_counter() - clock),
            }
        )
        write_text(files.config, _config_text(prepared.document, files))
        write_text(files.version, f"{provenance['git_commit'] or code_version()}\n")
        write_text(files.summary, summary_text)
        write_text(files.provenance, json.dumps(provenance, indent=2) + "\n")
    return FinishedRun(files, total, numbers, provenance)


def describe_run(prepared: PreparedRun, engine: str, started: datetime, seconds: float) -> dict[str, Any]:
    """Return the versions, parameters and machine for the provenance of a run that took ``seconds`` of wall time."""
    return {
        "endive_version": __version__,
        "code_version": code_version(),
        "git_commit": get_git_sha(),
        "experiment_hash": prepared.experiment,
        "seed": prepared.seed,
        "engine": engine,
        "started": started.isoformat(timespec="seconds"),
        "wall_time_s": round(seconds, 3),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "dependencies": dict(_dependency_versions()),
        "parameters": parameters(prepared.document),
    }


@cache
def _dependency_versions() -> dict[str, str]:
    return {name: metadata.version(name) for name in _DEPENDENCIES}


def _repeat_command(prepared: PreparedRun, files: RunFiles) -> str:
    allow = " --allow-code" if custom_components(prepared.document) else ""
    return f"endive run {files.config.name} --seed {prepared.seed}{allow}"


def _config_text(document: Document, files: RunFiles) -> str:
    """Return the configuration with canonical keys as TOML, and copy custom profiles and components to its directory."""
    tree = document.model_dump(mode="json", exclude_unset=True, exclude_none=True)
    tree["simulation"].pop("seed", None)
    for section in ("storage", "catalog"):
        provider = tree.get(section, {}).get("provider", "")
        if provider.endswith(".toml"):
            copy = files.own_profile(section)
            write_text(copy, Path(provider).read_text(encoding="utf-8"))
            tree[section]["provider"] = copy.name
    for name, table in (("transaction", tree.get("transaction", {})), *tree.get("workload", {}).items()):
        protocol = table.get("commit_path", "")
        if protocol.endswith(".toml"):
            copy = files.own_protocol(name)
            write_text(copy, Path(protocol).read_text(encoding="utf-8"))
            table["commit_path"] = copy.name
    for kind, part in custom_components(document).items():
        copy = files.own_part(kind)
        write_text(copy, part.source or "")
        tree["parts"][kind].pop("source")
        tree["parts"][kind]["code"] = f"{copy.name}:{part.code.rpartition(':')[2]}"
    return tomli_w.dumps(tree)


@dataclass(frozen=True)
class Outcome:
    """Outcome of one planned run."""

    experiment: str
    seed: int
    state: Literal["done", "found", "failed"]
    rows: int = 0
    seconds: float = 0.0
    error: str | None = None


def complete_run(document: Document, seed: int, root: Path, experiment: str, rows: KeptRows = "all") -> Outcome:
    """Simulate a configuration with a seed, unless the results exist. Return a failed outcome for an exception.

    Args:
        document: Configuration.
        seed: Seed of the run.
        root: Directory of experiments.
        experiment: Hash in the plan. If this process computes a different hash, it has a different version of the model.
        rows: Rows to keep. Unless all rows are kept, the files are written to the scratch directory of ``root``.
    """
    started = time.perf_counter()
    try:
        prepared = prepare_run(document, seed=seed, among_many=True)
        if prepared.experiment != experiment:
            error = f"the executor has a different version of Endive ({code_version()}); --ship-code sends the code of the driver"
            return Outcome(experiment, seed, "failed", error=error)
        files = place_run(prepared, root if rows == "all" else scratch_directory(root))
        stored = StoredRun(files.results.parent)
        if stored.problem() is None and stored.rows_kept == rows and (rows == "all" or files.measuring.is_file()):
            return Outcome(experiment, seed, "found", stored.provenance["rows"])
        finished = execute_run(prepared, files, rows=rows)
    except Exception as error:
        text = "".join(traceback.format_exception_only(error)).strip()
        return Outcome(experiment, seed, "failed", 0, time.perf_counter() - started, text)
    return Outcome(experiment, seed, "done", finished.rows, time.perf_counter() - started)


def transfer_run(root: Path, experiment: str, seed: int, rows: KeptRows) -> None:
    """Move a measured run from the scratch directory to the study, unless the study already has the run with these rows."""
    source = StoredRun(run_directory(scratch_directory(root) / experiment, seed))
    target = StoredRun(run_directory(root / experiment, seed))
    if target.problem() is not None or not target.keeps(rows):
        files, place = RunFiles.in_directory(source.directory), RunFiles.in_directory(target.directory)
        check_inside(place.results, root)
        for file in source.directory.parent.iterdir():
            if file.is_file():
                write_text(place.config.parent / file.name, file.read_text(encoding="utf-8"))
        target.directory.mkdir(parents=True, exist_ok=True)
        for own, other in ((files.summary, place.summary), (files.provenance, place.provenance), (files.results, place.results)):
            own.replace(other)
    discard(source.directory)


def discard_scratch(root: Path) -> None:
    """Remove the scratch directory, unless it contains runs."""
    scratch = scratch_directory(root)
    if scratch.is_dir() and not any(scratch.glob("*/*/")):
        with suppress(OSError):
            discard(scratch)
