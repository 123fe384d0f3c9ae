"""Run writers under 503 errors, lost and slow responses; report duplicate data and commits that were reported as failed."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from endive.lab.behavior import Behavior, LabFailures
from endive.lab.open_lab import Lab, LabSettings, open_lab
from endive.lab.recording import check_history
from verification.clients.jobs import BUCKET, JOBS, TABLE
from verification.clients.processes import run_job, warm_context

FAILURES = LabFailures(request_error=0.05, lost_answer=0.15, slow_response=0.1, slow_response_ms=1_500.0)
COMMITS = 30
WRITERS = 2
_ROWS_PER_COMMIT = 3
_READS = 50


def count_delta_rs() -> int:
    from deltalake import DeltaTable

    return len(DeltaTable(f"{BUCKET}/delta/{TABLE}").to_pyarrow_table())


def count_lance() -> int:
    import lance

    return int(lance.dataset(f"{BUCKET}/lance/{TABLE}").count_rows())


def count_pyiceberg_rest() -> int:
    from pyiceberg.catalog import load_catalog

    catalog = load_catalog("lab", type="rest", uri=os.environ["ENDIVE_LAB_CATALOG"], token=os.environ["ENDIVE_LAB_TOKEN"])
    return int(catalog.load_table(("db", TABLE)).scan().count())


COUNTS: dict[str, Callable[[], int]] = {
    "delta-rs": count_delta_rs,
    "lance": count_lance,
    "pyiceberg-rest": count_pyiceberg_rest,
}


def check_failures(client: str) -> dict[str, Any]:
    """Run writers of a client under failures; return their reports, the content of the table, and the findings of the check."""
    names = [f"writer-{number}" for number in range(WRITERS)]
    context = warm_context([client])
    with open_lab(LabSettings(Behavior(failures=FAILURES, seed=1)), names) as lab:
        _create(client, lab, context)
        start = len(lab.recording.requests())
        done = context.Queue()
        writers = [context.Process(target=commit_often, args=(client, lab.environment(name), done)) for name in names]
        for writer in writers:
            writer.start()
        errors = [error for _ in writers for error in done.get(timeout=900)]
        for writer in writers:
            writer.join()
        requests = lab.recording.requests(start)
        reader = context.Process(target=count_rows, args=(client, lab.environment(), done))
        reader.start()
        rows = done.get(timeout=300)
        reader.join()
    findings = check_history(requests)
    reported = sum(not error for error in errors)
    in_table = rows // _ROWS_PER_COMMIT - 1
    return {
        "commits": len(errors),
        "reported_committed": reported,
        "in_table": in_table,
        "surplus": in_table - reported,
        "named": {problem: sum(each.problem == problem for each in findings) for problem in ("unknown", "repeated")},
        "all_named": 0 <= in_table - reported <= len(findings),
        "responses": {
            outcome: sum(each.event.outcome == outcome for each in requests) for outcome in ("ok", "conflict", "rejected", "lost")
        },
        "errors": sorted({error.partition(":")[0] for error in errors if error}),
        "findings": [asdict(each) for each in findings],
    }


def _create(client: str, lab: Lab, context: Any) -> None:
    """Create the table by one commit that takes effect once."""
    while sum(each.is_commit and each.event.status < 400 for each in lab.recording.requests()) == 0:
        first = context.Process(target=run_job, args=(client, lab.environment()))
        first.start()
        first.join()


def commit_often(client: str, environment: Mapping[str, str], done: Any) -> None:
    """Commit several times; put the error of each commit into a queue, or an empty text."""
    os.environ.update(environment)
    errors = []
    for _ in range(COMMITS // WRITERS):
        try:
            JOBS[client](TABLE)
            errors.append("")
        except Exception as error:
            errors.append(f"{type(error).__name__}: {str(error)[:200]}")
    done.put(errors)


def count_rows(client: str, environment: Mapping[str, str], done: Any) -> None:
    """Put the number of rows of the table into a queue; retry reads that fail."""
    os.environ.update(environment)
    for _ in range(_READS):
        with suppress(Exception):
            done.put(COUNTS[client]())
            return
    done.put(-1)
