"""Observation of a client whose protocol is known."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from endive.config.build import build_simulation_config
from endive.config.load import check_document
from endive.lab import LabError
from endive.lab.exchange import STORE, Event
from endive.lab.observe import Observation, Observer
from endive.lab.observed_steps import Run, Situation, commit_folder, fit_steps, group_runs, mark_metadata
from endive.lab.protocol_text import list_step_tables, protocol_text
from endive.lab.recording import RecordedRequest
from endive.protocols.reader import parse_protocol
from endive.simulation import Simulation
from tests.cli import invoke

CLIENT = str(Path(__file__).with_name("log_client.py"))


@pytest.fixture(scope="module")
def observed() -> tuple[Observation, int]:
    return Observer([sys.executable, "-S", CLIENT, "2"]).observe((0, 1, 2, 3), checks=2)


def steps(observation: Observation, phase: str) -> list[tuple[object, ...]]:
    return [
        (*step.token, step.count, step.per_version_behind, step.if_behind)
        for step in observation.steps[phase]  # type: ignore[index]
    ]


class TestObservation:
    def test_counts_requests_by_phase(self, observed: tuple[Observation, int]) -> None:
        observation, _ = observed
        attempt = [("list", "log", 1.0, 0.0, 0), ("read", "checkpoint", 0.0, 0.0, 1), ("read", "log", 0.0, 1.0, 0)]
        assert steps(observation, "load") == [("list", "log", 1.0, 0.0, 0), ("read", "log", 1.0, 0.0, 0)]
        assert steps(observation, "attempt") == attempt
        assert steps(observation, "after_success") == [("write", "manifest", 1.0, 0.0, 0)]
        assert observation.commit_point == "put_if_absent"
        assert observation.is_exact

    def test_counts_retries(self, observed: tuple[Observation, int]) -> None:
        assert observed[0].retries == 2

    def test_predicts_further_commits(self, observed: tuple[Observation, int]) -> None:
        assert observed[1] == 2

    def test_is_a_valid_protocol(self, observed: tuple[Observation, int]) -> None:
        text = protocol_text(observed[0], "log-client", ["python", "job.py"], "fast_append")
        found = parse_protocol(text, "client.toml", "log-client")
        assert found.document.status == "observed"
        assert found.document.retries.limit == 2
        assert found.document.commit.point == "put_if_absent"
        assert found.document.attempt[0].operation == "list"
        assert {step.attempts for step in found.document.attempt} == {"each"}
        assert found.document.after_loss == []
        assert "Exact: the protocol predicts the number of requests of every kind" in text

    def test_can_be_simulated(self, observed: tuple[Observation, int], tmp_path: Path) -> None:
        client = tmp_path / "client.toml"
        client.write_text(protocol_text(observed[0], "log-client", ["python", "job.py"], "fast_append"))
        document = {
            "simulation": {"duration_ms": 20_000, "seed": 1, "engine": "reference", "drain": True},
            "storage": {"provider": "s3"},
            "transaction": {"commit_path": str(client), "runtime": {"mean": 200.0, "sigma": 0.5}},
            "workload": {"appends": {"rate": 2.0, "operation": "fast_append"}},
        }
        rows = Simulation(build_simulation_config(check_document(document, "test"))).run().to_dataframe()
        assert (rows["status"] == "committed").sum() > 10
        assert rows["n_retries"].max() <= 2


def test_a_client_that_does_not_retry() -> None:
    observation, _ = Observer([sys.executable, "-S", CLIENT, "0"]).observe((0, 1, 2))
    assert observation.retries == 0
    found = parse_protocol(protocol_text(observation, "x", ["x"], "delete"), "x.toml", "x")
    assert (found.document.retries.limit, found.document.after_loss) == (0, [])


def test_a_client_that_aborts_whenever_it_is_behind() -> None:
    observation, exact = Observer([sys.executable, "-S", CLIENT, "0", "stale"]).observe((0, 1, 2), checks=2)
    assert (observation.retries, observation.is_exact, exact) == (0, True, 2)
    assert steps(observation, "after_success") == [("write", "manifest", 1.0, 0.0, 0)]


class TestFit:
    def test_counts_that_no_line_explains_are_named(self) -> None:
        runs = [[Run(("read", "log"), count)] for count in (1, 4, 2, 9)]
        (step,) = fit_steps(runs, [Situation(behind) for behind in range(4)])
        assert not step.is_exact
        assert step.counts == (1, 4, 2, 9)

    def test_requests_per_log_entry(self) -> None:
        runs = [[Run(("read", "log"), 2 + 3 * versions)] for versions in (4, 5, 7)]
        (step,) = fit_steps(runs, [Situation(versions=versions) for versions in (4, 5, 7)])
        assert (step.count, step.per_log_entry, step.is_exact) == (2.0, 3.0, True)
        assert step.predict(Situation(1, 10)) == 32

    def test_another_order_of_requests_is_joined(self) -> None:
        one = [Run(("read", "log"), 1), Run(("list", "log"), 1), Run(("read", "log"), 2)]
        other = [Run(("list", "log"), 1), Run(("read", "log"), 3), Run(("delete", "log"), 1)]
        found = fit_steps([one, other], [Situation(versions=1), Situation(versions=2)])
        assert {(step.token[0], step.counts) for step in found} == {("read", (3, 3)), ("list", (1, 1)), ("delete", (0, 1))}

    def test_requests_per_lost_attempt(self) -> None:
        runs = [[Run(("delete", "manifest"), 2 * losses)] for losses in (0, 1, 1, 2)]
        (step,) = fit_steps(runs, [Situation(losses=losses) for losses in (0, 1, 1, 2)])
        assert (step.count, step.per_attempt, step.is_exact) == (0.0, 2.0, True)

    def test_requests_if_behind_at_all(self) -> None:
        runs = [[Run(("read", "log"), 1 if behind == 0 else 4)] for behind in (0, 1, 5)]
        (step,) = fit_steps(runs, [Situation(behind) for behind in (0, 1, 5)])
        assert (step.count, step.if_behind, step.is_exact) == (1.0, 3, True)
        assert step.predict(Situation(9)) == 4

    def test_requests_at_the_same_time_arrive_in_any_order(self) -> None:
        """Two reads run beside three writes: the numbers are exact although the order differs, and the file pairs them."""
        read, write = ("t/snap-1.avro", "GetObject"), ("t/x-m0.avro", "PutObject")
        orders = ((read, write, read, write, write), (write, read, read, write, write))
        times_ms = (0.0, 1.0, 20.0, 21.0, 40.0)
        runs = [
            group_runs([request(time_ms, *each) for time_ms, each in zip(times_ms, order, strict=True)], None) for order in orders
        ]
        found = {step.token: step for step in fit_steps(runs, [Situation(), Situation()])}
        assert {token: (step.count, step.is_exact) for token, step in found.items()} == {
            ("read", "log"): (2.0, True),
            ("write", "manifest"): (3.0, True),
        }
        assert ("write", "manifest") in found["read", "log"].beside
        tables = list_step_tables(list(found.values()))
        assert [(table["operation"], table.get("with_next", False)) for table in tables] == [
            ("read", True),
            ("write", False),
            ("read", True),
            ("write", False),
            ("write", False),
        ]


def request(time_ms: float, target: str, operation: str) -> RecordedRequest:
    return RecordedRequest(time_ms, time_ms + 15.0, "observed", Event(STORE, operation, target, 200, "ok"))


def test_a_metadata_file_stands_for_the_commit_to_a_catalog_of_the_client() -> None:
    names = (("t/x-m0.avro", "PutObject"), ("t/1.metadata.json", "GetObject"), ("t/2.metadata.json", "CompleteMultipartUpload"))
    marked = mark_metadata([request(20.0 * place, *each) for place, each in enumerate(names)])
    assert [each.is_commit for each in marked] == [False, False, True]
    assert commit_folder(marked) is None


class TestErrors:
    def test_a_command_without_a_commit(self) -> None:
        with pytest.raises(LabError, match="observed no commit of the command"):
            Observer([sys.executable, "-S", "-c", "pass"]).observe((0, 1, 2))

    def test_a_command_that_fails(self) -> None:
        with pytest.raises(LabError, match="exited with code 1 in the lab: ValueError: no"):
            Observer([sys.executable, "-S", "-c", "raise ValueError('no')"]).observe((0, 1, 2))

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            ((), "needs a COMMAND"),
            (("--operation", "expire", "--", "true"), "is unknown; allowed: "),
            (("--rivals", "1,1", "--", "true"), "at least three different numbers"),
            (("--rivals", "a,b,c", "--", "true"), "at least three different numbers"),
        ],
    )
    def test_options_are_checked(self, words: tuple[str, ...], message: str) -> None:
        done = invoke("observe", *words)
        assert done.exit_code == 2
        assert message in done.stderr
