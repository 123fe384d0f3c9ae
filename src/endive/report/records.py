"""What the runs of a study say of themselves: the records of provenance beside them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from endive.report.study import Study
from endive.runs.layout import run_directory
from endive.runs.stored import StoredRun

Record = Mapping[str, Any]


def records_of(study: Study, experiment: str) -> Iterator[Record]:
    """Yield the records of the runs of an experiment; runs that say nothing are passed over."""
    if study.single_runs:
        yield from (run.provenance for run in study.single_runs)
        return
    for seed in sorted(seed for part in study.manifest.experiments[experiment].parts for seed in part.seeds):
        told = StoredRun(run_directory(study.path / experiment, seed)).provenance
        if told:
            yield told
