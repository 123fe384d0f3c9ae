"""The mutation run of the model: its mistakes fit the code, one is caught, and the model as it is is not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from verification.model_mutations import MUTATIONS, RESULTS, ROOT, random_configurations, try_mutation

ANSWER = "tests/transaction/test_worked_examples.py::test_with_cas_the_second_fails_once_and_retries_without_manifest_io"


def test_every_mistake_is_an_edit_of_text_that_occurs_once() -> None:
    for mutation in MUTATIONS:
        for edit in mutation.edits:
            assert (ROOT / "src" / "endive" / edit.path).read_text().count(edit.old) == 1, mutation.name
            assert edit.old != edit.new, mutation.name
    assert len({mutation.name for mutation in MUTATIONS}) == len(MUTATIONS) >= 30


@pytest.fixture
def configurations(tmp_path: Path) -> Path:
    path = tmp_path / "configurations.json"
    path.write_text(json.dumps(random_configurations(2)))
    return path


def test_a_mistake_is_caught_by_invariants_and_by_known_answers(configurations: Path) -> None:
    lost_swap = next(mutation for mutation in MUTATIONS if mutation.name == "a lost compare-and-swap is a success")
    outcome = try_mutation(lost_swap, configurations, [ANSWER])
    assert (outcome.answer, outcome.error) == (ANSWER, None)
    assert "an update is lost" in (outcome.invariant or "")


@pytest.mark.slow
def test_the_model_as_it_is_violates_nothing(configurations: Path) -> None:
    outcome = try_mutation(None, configurations, [ANSWER])
    assert (outcome.invariant, outcome.answer, outcome.error) == (None, None, None)


def test_results_are_those_of_the_mistakes_as_they_are() -> None:
    stored = json.loads(RESULTS.read_text())
    assert [outcome["name"] for outcome in stored["outcomes"]] == [mutation.name for mutation in MUTATIONS]
    assert stored["caught"] >= 0.9 * stored["mutations"] >= 27
