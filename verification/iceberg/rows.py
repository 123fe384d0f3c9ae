"""Rows of measured and predicted values, which `make verify` writes."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from scipy.stats import binomtest

from verification.iceberg.counts import Counts
from verification.iceberg.golden import Case, case_name
from verification.iceberg.java_cases import JavaCase
from verification.iceberg.postgres import Database
from verification.iceberg.predict import left_out, predict_counts
from verification.iceberg.rest_server import Calibration, RestCase, RestResult, predict
from verification.iceberg.simulated import predict_victim, predict_writers
from verification.iceberg.victims import VictimCase, VictimResult
from verification.iceberg.writers import WritersCase, WritersResult

ATTEMPTS_BAR = 0.15
REST_BAR = 0.10
SUCCESS_BAR = 0.10
CONFIDENCE = 0.95
ERRORS = {"ValidationException": "validation_exception", "CommitFailedException": "max_retries_exceeded"}
"""Abort reasons of the simulator, by error of the client libraries."""
ONE_LOOK_MORE = "after the success, release 1.10 looks at the pointer once more than the code that was modelled"


@dataclass(frozen=True)
class Row:
    """Measured and predicted values of a case."""

    mode: str
    client: str
    operation: str
    case: str
    measured: dict[str, Any]
    predicted: dict[str, Any]
    difference: dict[str, Any]
    within: bool
    remark: str = ""

    def unexplained(self) -> bool:
        """True if the values differ without an explanation."""
        return not self.within and not self.remark


def in_the_simulators_words(counts: dict[str, Any]) -> dict[str, Any]:
    """Return counts of a real client in the terms of the simulator: one kind of deletes, no data files."""
    attempts = {kind: numbers for kind, numbers in counts["attempts"].items() if not kind.startswith("other_")}
    after = {kind: number for kind, number in counts["after"].items() if not kind.endswith("_deletes")}
    deletes = sum(number for kind, number in counts["after"].items() if kind in ("manifest_file_deletes", "manifest_list_deletes"))
    return {"attempts": attempts, "after": after | ({"file_deletes": deletes} if deletes else {})}


def counts_row(case: Case, counts: Counts) -> Row:
    """Return the row of the first mode: accesses per attempt and afterwards, or the failure of the operation."""
    charged = predict_counts(case)
    real: dict[str, Any] = {"error": None if counts.error is None else counts.error.partition(":")[0]}
    simulated: dict[str, Any] = {"error": charged.result.abort_reason}
    if real["error"] is None and simulated["error"] is None:
        real |= in_the_simulators_words(counts.document())
        attempts = Counts(charged.start, charged.attempts, charged.after).document()["attempts"]
        simulated |= {"attempts": attempts, "after": charged.after}
        difference = _difference(real, simulated)
    else:
        same = ERRORS.get(real["error"]) == simulated["error"]
        difference = {} if same else {"error": [real["error"], simulated["error"]]}
    looks_more = difference.pop("after.catalog_reads", None) == [2, 1]
    remark = left_out(case) or (ONE_LOOK_MORE if looks_more else "")
    client = "java" if isinstance(case, JavaCase) else "pyiceberg"
    return Row("counts", client, case.operation, case_name(case), real, simulated, difference, not difference, remark)


def _difference(real: dict[str, Any], simulated: dict[str, Any]) -> dict[str, Any]:
    different = {}
    for part in ("attempts", "after"):
        for kind in sorted(real[part].keys() | simulated[part].keys()):
            pair = [real[part].get(kind, 0), simulated[part].get(kind, 0)]
            if pair[0] != pair[1]:
                different[f"{part}.{kind}"] = pair
    return different


def writers_row(case: WritersCase, result: WritersResult, mode: str = "writers", database: Database | None = None) -> Row:
    """Return the row of the second mode: attempts per commit within 15%, success within 10 percentage points."""
    predicted = predict_writers(case, database)
    difference = {
        "attempts_per_commit": predicted.attempts_per_commit / result.attempts_per_commit - 1.0,
        "success": predicted.success - result.success,
        "commits_per_second": predicted.commits_per_second / result.commits_per_second - 1.0,
    }
    measured = {
        "operations": result.operations,
        "commits": result.commits,
        "attempts_per_commit": result.attempts_per_commit,
        "success": result.success,
        "commits_per_second": result.commits_per_second,
    }
    within = abs(difference["attempts_per_commit"]) <= ATTEMPTS_BAR and abs(difference["success"]) <= SUCCESS_BAR
    return Row(
        mode,
        case.client,
        case.operation,
        f"{case.writers} writers, {case.access_ms:g} ms for each access" + (" to a file" if case.on_postgres else ""),
        measured,
        {key: getattr(predicted, key) for key in difference},
        difference,
        within,
    )


def rest_row(case: RestCase, result: RestResult, times: Calibration) -> Row:
    """Return the row of writers on Iceberg's REST server: attempts per commit within 10%, success within 10 percentage points.

    ``times`` are those of one writer.
    """
    predicted = predict(case, times)
    measured = {
        "operations": result.commits + result.failures,
        "commits": result.commits,
        "attempts_per_commit": result.attempts_per_commit,
        "loads_per_operation": result.loads_per_operation,
        "success": result.success,
        "operation_ms": result.operation_ms,
    }
    difference = {
        "attempts_per_commit": predicted["attempts_per_commit"] / result.attempts_per_commit - 1.0,
        "success": predicted["success"] - result.success,
        "operation_ms": predicted["operation_ms"] / result.operation_ms - 1.0,
    }
    within = abs(difference["attempts_per_commit"]) <= REST_BAR and abs(difference["success"]) <= SUCCESS_BAR
    handle, workers = "kept" if case.keeps_handle else "loaded", case.workers or "any number of"
    setup = f"{case.writers} writers, {handle} handles, {workers} workers"
    return Row("rest", case.client, "fast_append", setup, measured, predicted | {"times": asdict(times)}, difference, within)


def victim_row(case: VictimCase, result: VictimResult) -> Row:
    """Return the row of the third mode: the predicted success must be within the confidence interval of the repetitions."""
    predicted = predict_victim(case)
    interval = binomtest(result.commits, result.repetitions).proportion_ci(CONFIDENCE)
    measured = {
        "repetitions": result.repetitions,
        "success": result.success,
        "success_interval": [float(interval.low), float(interval.high)],
        "attempts_per_operation": result.attempts_per_operation,
    }
    difference = {
        "success": predicted.success - result.success,
        "attempts_per_operation": predicted.attempts_per_operation / result.attempts_per_operation - 1.0,
    }
    return Row(
        "victims",
        "java",
        case.operation,
        f"{case.appends_per_second:g} appends/s, {case.access_ms:g} ms for each access",
        measured,
        {key: getattr(predicted, key) for key in difference},
        difference,
        bool(interval.low <= predicted.success <= interval.high),
    )
