"""The history of a table as the workload itself: each commit a submission of a trace."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from endive.calibrate.assumptions import Assumption
from endive.calibrate.imported import Imported
from endive.calibrate.reports import CommitReport
from endive.workload.arrivals import ARRIVAL_KINDS, TRACE


def as_trace(imported: Imported, out: Path, reports: Sequence[CommitReport] = ()) -> tuple[Imported, dict[Path, str]]:
    """Make a configuration that replays a history, and the files of its traces with their content.

    A submission lies before its commit by the time that the commit took, which its report tells, and by the runtime of its class;
    where there is no report the commit is taken to have been instant.
    """
    took = {report.snapshot_id: report.duration_ms for report in reports}
    usual = float(np.median(list(took.values()))) if took else 0.0
    tree = copy.deepcopy(imported.tree)
    tree["simulation"]["drain"] = True
    files: dict[Path, str] = {}
    last = 0.0
    for cls in imported.classes:
        section = tree["workload"][cls.name]
        for key in ARRIVAL_KINDS:
            section.pop(key, None)
        earlier = float(section["runtime"]["value"])
        times = sorted(
            max(commit.timestamp_ms - imported.start_ms - earlier - took.get(commit.snapshot_id, usual), 0.0)
            for commit in cls.commits
        )
        last = max(last, times[-1])
        path = out.with_name(f"{out.stem}.{cls.name}.csv")
        section[TRACE.key] = path.name
        files[path] = "".join(("time_ms\n", *(f"{time:.3f}\n" for time in times)))
    tree["simulation"]["duration_ms"] = max(tree["simulation"]["duration_ms"], float(int(last) + 1))
    note = "operations that failed are not in a history, and are not replayed"
    kept = tuple(_without_arrivals(each) for each in imported.assumptions if each.about not in ("arrivals", "failed operations"))
    made = replace(imported, tree=tree, assumptions=(*kept, Assumption("failed operations", note)))
    return made, files


def _without_arrivals(assumption: Assumption) -> Assumption:
    """The assumption without ranges of rates: a trace says when operations come."""

    def kept(end: Mapping[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in end.items() if not any(part in ARRIVAL_KINDS for part in key.split("."))}

    return replace(assumption, low=kept(assumption.low), high=kept(assumption.high))
