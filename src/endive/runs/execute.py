"""Run a configuration to files: results, summary and provenance, whole or not at all.

From the files a run can be read, checked and repeated. Results appear last, so where they are, the rest is too.
"""

from __future__ import annotations

import json
import time
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import tomli_w

from endive.config import Document, build_simulation_config
from endive.config.parts import own_parts
from endive.output_files import check_inside, write_text
from endive.runs.identity import code_version
from endive.runs.layout import RunFiles
from endive.runs.provenance import describe_run
from endive.runs.records import seal_record
from endive.runs.results import ParquetSink
from endive.simulation import RESULT_SCHEMA, TRACE_SCHEMA, Simulation, Summary
from endive.simulation.rows import Progress


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
    among_many: bool = False,
) -> FinishedRun:
    """Run a document and write what comes of it under ``root``. Raises PermissionError if a link there leads out of it."""
    config = build_simulation_config(document, seed_override=seed)
    simulation = Simulation(config, among_many=among_many)
    files = RunFiles.of(document, config.run_seed, root)
    if document.experiment.label is not None:
        check_inside(files.results.parent, root)
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
        provenance = seal_record(
            {
                "rows": results.rows,
                "results_sha256": results.finish(),
                "repeat": f"endive run {files.config.name} --seed {config.run_seed}"
                + (" --allow-code" if own_parts(document) else ""),
                **describe_run(
                    document, config.run_seed, "reference" if trace else simulation.engine, started, time.perf_counter() - clock
                ),
            }
        )
        write_text(files.config, _config_text(document, files))
        write_text(files.version, f"{provenance['git_commit'] or code_version()}\n")
        write_text(files.summary, json.dumps(numbers, indent=2) + "\n")
        write_text(files.provenance, json.dumps(provenance, indent=2) + "\n")
    return FinishedRun(files, results.rows, numbers, provenance)


def _config_text(document: Document, files: RunFiles) -> str:
    """The configuration as it was given, in canonical spelling; profiles and parts of one's own are copied beside it."""
    tree = document.model_dump(mode="json", exclude_unset=True, exclude_none=True)
    tree["simulation"].pop("seed", None)
    for section in ("storage", "catalog"):
        provider = tree.get(section, {}).get("provider", "")
        if provider.endswith(".toml"):
            copy = files.own_profile(section)
            write_text(copy, Path(provider).read_text(encoding="utf-8"))
            tree[section]["provider"] = copy.name
    for kind, part in own_parts(document).items():
        copy = files.own_part(kind)
        write_text(copy, part.source or "")
        tree["parts"][kind].pop("source")
        tree["parts"][kind]["code"] = f"{copy.name}:{part.code.rpartition(':')[2]}"
    return tomli_w.dumps(tree)
