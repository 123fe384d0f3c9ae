"""Insert semantic mistakes into the model and check that an invariant or a known answer detects each: ``make mutate-model``.

Both engines share their arithmetic and their understanding of the model, so equality of the engines and golden rows do not count
here. A mistake is detected by the invariants of rows, histories and catalogs on random configurations, or by tests whose expected
values were derived by hand or from theory (``ANSWERS``). Each mistake is a text patch of a copy of the package, which a separate
process imports. The results are in ``verification/results/model_mutations.json``.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "verification" / "results" / "model_mutations.json"
ANSWERS = (
    "tests/simulation/test_closed_forms.py",
    "tests/transaction/test_worked_examples.py",
    "tests/transaction/test_iceberg_counts.py",
    "tests/transaction/test_decisions.py",
    "tests/transaction/test_failures.py",
    "tests/catalog/test_service.py",
    "tests/studies/test_known_systems.py",
)
"""Tests of known answers, the fastest first."""
CONFIGURATIONS = 15
"""Number of random configurations of each of four kinds."""
_TIMEOUT_S = 300.0

Tree = dict[str, Any]


@dataclass(frozen=True)
class Edit:
    """Replacement of text that occurs once in a file of the package."""

    path: str
    old: str
    new: str


@dataclass(frozen=True)
class Mutation:
    """Mistake in the model."""

    name: str
    edits: tuple[Edit, ...]


def mutation(name: str, path: str, old: str, new: str) -> Mutation:
    """Return a mistake that consists of one replacement."""
    return Mutation(name, (Edit(path, old, new),))


CAS, BASE, LOG, SERVICE = "catalog/cas.py", "catalog/base.py", "catalog/append.py", "catalog/service.py"
LIFECYCLE, ACCOUNT, ICEBERG = "transaction/lifecycle.py", "transaction/account.py", "transaction/iceberg.py"
ENGINE = "simulation/reference.py"

MUTATIONS: tuple[Mutation, ...] = (
    # catalogs
    mutation(
        "a lost compare-and-swap is a success",
        CAS,
        "CommitResult(success, latency, sent, reason)",
        "CommitResult(True, latency, sent)",
    ),
    mutation(
        "the compare-and-swap does not compare",
        CAS,
        "success = not throttled and group.seq == request.expected_seq",
        "success = not throttled",
    ),
    mutation(
        "a commit advances the version twice",
        BASE,
        "TableMetadata(table_id, new_version,",
        "TableMetadata(table_id, new_version + 1,",
    ),
    mutation("a commit advances the sequence number twice", BASE, "        group.seq += 1\n", "        group.seq += 2\n"),
    mutation("table groups share a commit pointer", BASE, "return self.groups[ids.pop()]", "return self.groups[0]"),
    mutation("a commit changes no partition", BASE, "changed[partition_id] += 1", "changed[partition_id] += 0"),
    mutation(
        "a swap takes effect when it is sent",
        CAS,
        "effect = moment_of_effect_ms(swap.success_ms, self.linearization)",
        "effect = moment_of_effect_ms(swap.success_ms, 0.0)",
    ),
    mutation(
        "a read takes effect when it is sent",
        BASE,
        "effect = moment_of_effect_ms(latency, self.linearization)",
        "effect = moment_of_effect_ms(latency, 0.0)",
    ),
    mutation("the log has no physical check", LOG, "landed = group.log_offset == offset", "landed = True"),
    mutation(
        "the log ignores the tables that were read",
        LOG,
        "{**request.intention.tables_read, **{table_id: new - 1 for table_id, new in request.writes.items()}}",
        "{table_id: new - 1 for table_id, new in request.writes.items()}",
    ),
    mutation(
        "a service installs what was overtaken during its service",
        SERVICE,
        "if outcome is None and swapped != self._list_compared(request):",
        "if False:",
    ),
    mutation(
        "a server retries commits that are not appends",
        SERVICE,
        "retries = settings.server_retries if rechecks or request.intention.rebasable else 0",
        "retries = settings.server_retries",
    ),
    mutation(
        "a server that checks requirements again applies an append to a branch that has moved",
        SERVICE,
        "if rechecks and required != self._list_current(request):",
        "if False:",
    ),
    mutation(
        "a serialization failure of the database needs no other table",
        "catalog/service_queue.py",
        "return self._committing.total() - sum(self._committing[table_id] for table_id in tables)",
        "return self._committing.total()",
    ),
    mutation(
        "a request that fails for good is ignored",
        "transaction/account.py",
        "if self._fails(failures.fatal_error):",
        "if False:",
    ),
    mutation(
        "a group commit installs what has lost",
        SERVICE,
        "if each.request.intention.rebasable or ",
        "if True or each.request.intention.rebasable or ",
    ),
    mutation(
        "the queue of a service is last in, first out", "catalog/service_queue.py", "self._queue.popleft()", "self._queue.pop()"
    ),
    # retries, timeouts and backoff
    mutation(
        "one retry more than the budget", LIFECYCLE, "if self.attempt >= self.max_retries:", "if self.attempt > self.max_retries:"
    ),
    mutation("retries are counted twice", LIFECYCLE, 'self.counts["total_retries"] += 1', 'self.counts["total_retries"] += 2'),
    mutation(
        "the timeout is checked before the first failure",
        LIFECYCLE,
        '        self._emit("attempt")\n',
        "        timeout = self.policy.total_timeout_ms\n"
        "        if timeout is not None and self.now_ms - self.commit_started_ms > timeout:\n"
        "            raise AbortError(types.COMMIT_TIMEOUT)\n"
        '        self._emit("attempt")\n',
    ),
    mutation(
        "the timeout counts the runtime",
        LIFECYCLE,
        "self.now_ms - self.commit_started_ms > timeout",
        "self.now_ms - self.txn.submit_time_ms > timeout",
    ),
    mutation(
        "the time limit of an operation cuts its first attempt short",
        LIFECYCLE,
        "            self.status = TransactionStatus.COMMITTING\n",
        "            self.status = TransactionStatus.COMMITTING\n"
        "            self.deadline_ms = self.txn.submit_time_ms + self.policy.time_limit_ms(self.txn.operation_type)\n",
    ),
    mutation(
        "a response after the time limit of an operation counts",
        LIFECYCLE,
        "is_late = self.now_ms > self.deadline_ms",
        "is_late = False",
    ),
    mutation(
        "a failed status check ends the operation",
        LIFECYCLE,
        "if error.reason == types.OPERATION_TIMEOUT:",
        "if True:",
    ),
    mutation(
        "backoff is not part of the latency",
        LIFECYCLE,
        'yield from self._wait(wait, types.BACKOFF, "backoff")',
        "yield wait",
    ),
    mutation(
        "jitter is doubled",
        "arithmetic/backoff.py",
        "(1.0 + jitter * (u if upwards else 2.0 * u - 1.0))",
        "(1.0 + 2.0 * jitter * (u if upwards else 2.0 * u - 1.0))",
    ),
    mutation(
        "backoff grows from the second retry on",
        "arithmetic/backoff.py",
        "multiplier ** float(retry - 1)",
        "multiplier ** float(max(retry - 2, 0))",
    ),
    mutation(
        "the last failure pays for a refresh",
        LIFECYCLE,
        "            raise AbortError(types.MAX_RETRIES_EXCEEDED)",
        "            yield from self._read_catalog()\n            raise AbortError(types.MAX_RETRIES_EXCEEDED)",
    ),
    mutation(
        "one restart more than allowed",
        LIFECYCLE,
        'self.counts["restarts"] < self.policy.max_restarts',
        'self.counts["restarts"] <= self.policy.max_restarts',
    ),
    # validation and conflicts
    mutation(
        "validation ignores appends",
        "table/operations.py",
        'appended = APPEND if isolation == "serializable" else 0',
        "appended = 0",
    ),
    mutation(
        "compaction is validated against appends",
        "table/operations.py",
        "prunes=0, conflicts=_CHANGED, exempt_marks=EQUALITY",
        "prunes=0, conflicts=_CHANGED | APPEND, validates=_CHANGED | APPEND, exempt_marks=EQUALITY",
    ),
    mutation(
        "expired history is validated",
        "arithmetic/manifests.py",
        "return bool(table.length - start >= table.snapshots)",
        "return False",
    ),
    mutation(
        "snapshots behind count other tables",
        "transaction/operation_classes.py",
        "return sum(new_snapshot.get_table(table).version - old_snapshot.get_table(table).version for table in tables)",
        "return sum(new.version - old.version for new, old in zip(new_snapshot.tables, old_snapshot.tables) if tables)",
    ),
    mutation(
        "other partitions of the same table overlap",
        "transaction/operation_classes.py",
        "return any(before[p] != after[p] for p in self.partitions_written.get(table_id, ()))",
        "return before != after",
    ),
    mutation(
        "a real conflict commits after its validation",
        LIFECYCLE,
        "        raise self._end_of_conflict()\n\n    def _is_real",
        "        return False\n\n    def _is_real",
    ),
    mutation(
        "a false conflict appends its entry anew",
        LIFECYCLE,
        "txn.should_abort_on_real_conflict()):\n            return False",
        "txn.should_abort_on_real_conflict()):\n            return True",
    ),
    mutation("a rejected refresh aborts the commit", ICEBERG, "with suppress(RequestFailedError):\n", "with suppress():\n"),
    mutation(
        "manifests of the first attempt are not kept",
        ICEBERG,
        " = version, files.length, True",
        " = version, files.length, False",
    ),
    # times
    mutation(
        "the runtime is paid twice",
        LIFECYCLE,
        'self._wait(self.txn.runtime_ms, types.RUNTIME, "runtime")\n        return snapshot',
        'self._wait(2.0 * self.txn.runtime_ms, types.RUNTIME, "runtime")\n        return snapshot',
    ),
    mutation(
        "the commit is dated at the start of its last step",
        ACCOUNT,
        "commit_time_ms=now_ms if",
        "commit_time_ms=now_ms - self.times[types.CATALOG_COMMIT] if",
    ),
    mutation(
        "a batch costs its fastest access",
        "storage/provider.py",
        "rng.largest_sample(count)",
        "min(rng.random_sample() for _ in range(count))",
    ),
    mutation(
        "a failed request pays success and failure",
        "arithmetic/costs.py",
        "return failed_latency_ms if failed_latency_ms > effect_ms else effect_ms",
        "return failed_latency_ms + effect_ms",
    ),
    mutation(
        "latencies have no floor",
        "arithmetic/draws.py",
        "        value = math.exp(value)\n    return value if value > floor else floor",
        "        value = math.exp(value)\n    return value",
    ),
    mutation(
        "the mean of a lognormal is taken for its median",
        "storage/distributions.py",
        "math.log(mean_ms) - sigma * sigma / 2.0",
        "math.log(mean_ms)",
    ),
    # workload, end of the run, failures
    mutation(
        "arrivals come at half their rate",
        "arithmetic/draws.py",
        "value = -a * math.log1p(-u)",
        "value = -2.0 * a * math.log1p(-u)",
    ),
    mutation(
        "rows in flight at the end are dropped",
        ENGINE,
        "self._results.add(_in_flight_result(txn, config.duration_ms))",
        "_in_flight_result(txn, config.duration_ms)",
    ),
    Mutation(
        "a client of a closed loop does not wait for its transaction",
        (
            Edit(
                ENGINE,
                "        if not source.closed:\n            self.await_arrival(source)\n",
                "        if not source.closed:\n            self.await_arrival(source)\n"
                "        else:\n            self.arrive_after(source, 10.0)\n",
            ),
            Edit(ENGINE, "            elif source.closed:\n                self.await_arrival(source)\n", ""),
        ),
    ),
    mutation(
        "a periodic writer does not wait for its transaction",
        ENGINE,
        "source.running, source.late, source.due = source.paced, False, False",
        "source.running, source.late, source.due = False, False, False",
    ),
    mutation("ties go to the later transaction", ENGINE, "steps, txn.txn_id + 1, finish)", "steps, 2**61 - txn.txn_id, finish)"),
    mutation(
        "a reader commits what it read",
        "workload/workload.py",
        "            written = frozenset()\n        elif given.table",
        "            pass\n        elif given.table",
    ),
    mutation(
        "a lost response is a failed commit",
        LIFECYCLE,
        "                result = replace(result, reason=None)\n",
        "                result = CommitResult(False, elapsed)\n",
    ),
    mutation(
        "a client crashes after its commit",
        LIFECYCLE,
        '            self.counts["event_count"] += result.round_trips\n',
        '            self.counts["event_count"] += result.round_trips\n'
        "            if failures is not None and self._fails(failures.client_crash):\n"
        "                raise RequestFailedError(CLIENT_CRASH)\n",
    ),
)


class ReferenceOnly:
    """Pytest plugin that skips tests of the compiled engine, whose kernels would be compiled again for each mistake."""

    def __init__(self) -> None:
        self.failed: str | None = None

    def pytest_collection_finish(self) -> None:
        """Skip tests that create a compiled engine."""
        from endive.simulation.compiled.engine import CompiledEngine

        setattr(CompiledEngine, "__init__", lambda *_: pytest.skip("compiles a kernel"))  # noqa: B010

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record the name of the first test that fails."""
        if report.failed and self.failed is None:
            self.failed = report.nodeid


def random_configurations(count: int) -> list[tuple[str, Tree]]:
    """Return the same ``count`` configurations of each kind in every call, with the name of their kind."""
    from tests.configurations import committer_documents, documents, failing_documents, service_documents

    strategies = (documents, failing_documents, service_documents, committer_documents)
    return [(each.__name__, tree) for each in strategies for tree in _examples(each(), count)]


def _examples(strategy: SearchStrategy[Tree], count: int) -> list[Tree]:
    """Return the last ``count`` of ``3 * count`` examples, because the first ones are the simplest."""
    from hypothesis import HealthCheck, Phase, given, seed, settings

    trees: list[Tree] = []

    @seed(1)
    @settings(
        max_examples=3 * count,
        database=None,
        deadline=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def collect(tree: Tree) -> None:
        trees.append(tree)

    collect()
    return trees[-count:]


def violated_invariant(configurations: Sequence[tuple[str, Tree]]) -> str | None:
    """Return the first invariant that a run of the configurations violates, or None."""
    from endive.simulation.row_invariants import RowError
    from tests.simulation.runs import check_run
    from tests.simulation.test_invariants import INVARIANTS, check_catalog

    names = {holds.__name__ for holds in INVARIANTS}
    for kind, tree in configurations:
        try:
            check_run(tree)
        except RowError as error:
            return f"rows: {str(error).partition(': ')[2]}"
        except AssertionError as error:
            return f"history: {error}"
        if kind == "documents":
            try:
                check_catalog(tree)
            except AssertionError as error:
                frames = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
                return f"catalog: {next(name for name in frames if name in names)}"
    return None


def failed_answer(answers: Sequence[str] = ANSWERS) -> str | None:
    """Return the first test of a known answer that fails, or None."""
    plugin = ReferenceOnly()
    pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *answers], plugins=[plugin])
    return plugin.failed


def apply(change: Mutation, package: Path) -> None:
    """Apply a mistake to a copy of the package.

    Raises:
        ValueError: The text of an edit does not occur once.
    """
    for edit in change.edits:
        path = package / edit.path
        text = path.read_text()
        if text.count(edit.old) != 1:
            raise ValueError(f"{change.name}: {edit.path} has {text.count(edit.old)} times {edit.old!r}")
        path.write_text(text.replace(edit.old, edit.new))


@dataclass(frozen=True)
class Outcome:
    """Result of the checks of a mistake."""

    name: str
    invariant: str | None
    """First violated invariant."""
    answer: str | None
    """First failed test of a known answer."""
    error: str | None = None
    """Reason why the checks could not be completed."""

    @property
    def is_caught(self) -> bool:
        """True if an invariant or a known answer detected the mistake."""
        return self.invariant is not None or self.answer is not None


def try_mutation(change: Mutation | None, configurations: Path, answers: Sequence[str] = ANSWERS) -> Outcome:
    """Check a copy of the package with a mistake, or without one."""
    name = "unmutated" if change is None else change.name
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder, "endive")
        shutil.copytree(ROOT / "src" / "endive", package, ignore=shutil.ignore_patterns("__pycache__"))
        if change is not None:
            apply(change, package)
        environment = os.environ | {"PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"}
        found: list[str | None] = []
        errors: list[str] = []
        for checks in (["--invariants", str(configurations)], ["--answers", *answers]):
            output = Path(folder, "output.json")
            command = [sys.executable, "-m", "verification.model_mutations", "--output", str(output), *checks]
            try:
                done = subprocess.run(
                    command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
                )
            except subprocess.TimeoutExpired:
                errors.append(f"{checks[0]}: no end after {_TIMEOUT_S:.0f} s")
                found.append(None)
                continue
            if done.returncode != 0:
                errors.append(f"{checks[0]}: {done.stderr.strip().splitlines()[-1]}")
                found.append(None)
                continue
            content = json.loads(output.read_text())
            assert Path(content["package"]).is_relative_to(folder)
            found.append(content["found"])
    return Outcome(name, found[0], found[1], "; ".join(errors) or None)


def _write_found(check: Callable[[], str | None], output: Path) -> None:
    import endive

    found = check()
    output.write_text(json.dumps({"package": endive.__file__, "found": found}))


def run(changes: Sequence[Mutation | None], workers: int) -> list[Outcome]:
    """Check all mistakes."""
    with tempfile.TemporaryDirectory() as folder:
        configurations = Path(folder, "configurations.json")
        configurations.write_text(json.dumps(random_configurations(CONFIGURATIONS)))
        with ThreadPoolExecutor(workers) as pool:
            outcomes = []
            for outcome in pool.map(lambda change: try_mutation(change, configurations), changes):
                print(f"{outcome.name}: {outcome.invariant or '-'} | {outcome.answer or '-'} | {outcome.error or ''}", flush=True)
                outcomes.append(outcome)
    return outcomes


def summarize(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Return the counts and the outcomes."""
    return {
        "mutations": len(outcomes),
        "caught": sum(outcome.is_caught for outcome in outcomes),
        "caught_by_invariant": sum(outcome.invariant is not None for outcome in outcomes),
        "caught_by_answer": sum(outcome.answer is not None for outcome in outcomes),
        "survivors": [outcome.name for outcome in outcomes if not outcome.is_caught],
        "outcomes": [asdict(outcome) for outcome in outcomes],
    }


def main() -> int:
    """Run the command line; return 1 if less than 90% of the mistakes are detected, or the unchanged model fails."""
    parser = argparse.ArgumentParser(prog="python -m verification.model_mutations", description=__doc__)
    parser.add_argument(
        "--only", action="append", default=[], help="try mistakes with this text in their name, and keep the results of the others"
    )
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--invariants", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--answers", nargs="+", help=argparse.SUPPRESS)
    parser.add_argument("--output", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.invariants is not None:
        _write_found(lambda: violated_invariant(json.loads(options.invariants.read_text())), options.output)
        return 0
    if options.answers is not None:
        _write_found(lambda: failed_answer(options.answers), options.output)
        return 0
    chosen = [change for change in MUTATIONS if not options.only or any(text in change.name for text in options.only)]
    (unmutated,) = run([None], 1)
    if unmutated.is_caught or unmutated.error is not None:
        print("the checks fail without a mistake, so they cannot tell a mistake: nothing was tried")
        return 1
    outcomes = run(chosen, options.workers)
    kept = json.loads(RESULTS.read_text())["outcomes"] if options.only and RESULTS.exists() else []
    by_name = {each["name"]: Outcome(**each) for each in kept} | {outcome.name: outcome for outcome in outcomes}
    result = summarize([by_name[change.name] for change in MUTATIONS if change.name in by_name])
    RESULTS.write_text(json.dumps(result, indent=2) + "\n")
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(
        f"{result['caught']} of {result['mutations']} mistakes were caught, in {usage.ru_utime + usage.ru_stime:.0f} s of CPU time"
    )
    for name in result["survivors"]:
        print(f"survived: {name}")
    return 0 if result["caught"] >= 0.9 * result["mutations"] else 1


if __name__ == "__main__":
    sys.exit(main())
