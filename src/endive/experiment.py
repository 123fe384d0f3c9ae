"""Running a configuration to files: results, summary and provenance, whole or not at all.

What flows in: a checked document, a seed, and where to write. What flows out: a directory (or the files beside ``output_path``)
from which the run can be read, checked and repeated. Results appear last, so where they are, the rest is too.

    label-hash/cfg.toml  version.txt  SEED/results.parquet  SEED/summary.json  SEED/provenance.json  (SEED/trace.parquet)
"""

from __future__ import annotations

import json
import platform
import time
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import tomli_w

from endive import __version__
from endive.config import Document, build_simulation_config, compute_experiment_hash
from endive.config.identity import code_version, experiment_directory, parameters
from endive.simulation import RESULT_SCHEMA, TRACE_SCHEMA, Simulation, Summary
from endive.simulation.output import ParquetSink, write_text
from endive.simulation.rows import Progress
from endive.utils import get_git_sha

_DEPENDENCIES = ("numba", "numpy", "pandas", "pyarrow", "pydantic", "scipy", "simpy")


@dataclass(frozen=True)
class RunFiles:
    """Where a run is written."""

    results: Path
    summary: Path
    provenance: Path
    trace: Path
    config: Path
    version: Path

    @classmethod
    def of(cls, document: Document, seed: int, root: Path) -> RunFiles:
        """In the experiment's directory if it has a label, and otherwise beside ``output_path``."""
        if document.experiment.label is not None:
            experiment = experiment_directory(document, root)
            run = experiment / str(seed)
            return cls(
                run / "results.parquet",
                run / "summary.json",
                run / "provenance.json",
                run / "trace.parquet",
                experiment / "cfg.toml",
                experiment / "version.txt",
            )
        results = root / document.simulation.output_path

        def beside(suffix: str) -> Path:
            return results.with_name(results.stem + suffix)

        return cls(
            results,
            beside(".summary.json"),
            beside(".provenance.json"),
            beside(".trace.parquet"),
            beside(".cfg.toml"),
            beside(".version.txt"),
        )


@dataclass(frozen=True)
class FinishedRun:
    """A run that is on disk."""

    files: RunFiles
    rows: int
    summary: dict[str, Any]
    provenance: dict[str, Any]


def run_experiment(
    document: Document,
    *,
    root: Path,
    seed: int | None = None,
    trace: bool = False,
    progress: Progress | None = None,
) -> FinishedRun:
    """Run a document and write what comes of it under ``root``."""
    config = build_simulation_config(document, seed_override=seed)
    simulation = Simulation(config)
    files = RunFiles.of(document, config.run_seed, root)
    summary = Summary(config.duration_ms)
    started, clock = datetime.now(UTC), time.perf_counter()
    with ExitStack() as stack:
        results = stack.enter_context(ParquetSink(files.results, RESULT_SCHEMA))
        events = stack.enter_context(ParquetSink(files.trace, TRACE_SCHEMA)) if trace else None

        def sink(batch: Any) -> None:
            results(batch)
            summary(batch)

        counters = simulation.stream(sink, trace=events, progress=progress)
        numbers = summary.to_dict(counters)
        provenance = {
            "rows": results.rows,
            "results_sha256": results.finish(),
            "repeat": f"endive run {files.config.name} --seed {config.run_seed}",
            **_provenance(
                document, config.run_seed, "reference" if trace else simulation.engine, started, time.perf_counter() - clock
            ),
        }
        _write_beside(files, document, numbers, provenance)
    return FinishedRun(files, results.rows, numbers, provenance)


def _write_beside(files: RunFiles, document: Document, summary: dict[str, Any], provenance: dict[str, Any]) -> None:
    write_text(files.config, _config_text(document, files.config))
    write_text(files.version, f"{provenance['git_commit'] or code_version()}\n")
    write_text(files.summary, json.dumps(summary, indent=2) + "\n")
    write_text(files.provenance, json.dumps(provenance, indent=2) + "\n")


def _config_text(document: Document, path: Path) -> str:
    """The configuration as it was given, in canonical spelling; profiles of one's own are copied beside it."""
    tree = document.model_dump(mode="json", exclude_unset=True, exclude_none=True)
    tree["simulation"].pop("seed", None)
    for section in ("storage", "catalog"):
        provider = tree.get(section, {}).get("provider", "")
        if provider.endswith(".toml"):
            copy = path.with_name(path.name.removesuffix("cfg.toml") + f"{section}-provider.toml")
            write_text(copy, Path(provider).read_text(encoding="utf-8"))
            tree[section]["provider"] = copy.name
    return tomli_w.dumps(tree)


def _provenance(document: Document, seed: int, engine: str, started: datetime, seconds: float) -> dict[str, Any]:
    return {
        "endive_version": __version__,
        "code_version": code_version(),
        "git_commit": get_git_sha(),
        "experiment_hash": compute_experiment_hash(document),
        "seed": seed,
        "engine": engine,
        "started": started.isoformat(timespec="seconds"),
        "wall_time_s": round(seconds, 3),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "dependencies": {name: metadata.version(name) for name in _DEPENDENCIES},
        "parameters": parameters(document),
    }
