"""Check the history of a run: which transaction read and replaced which version of each table, according to rows and trace.

The check is independent of the engines. The version of a table is the number of its commits so far, so the commits of a table must
be based on versions 0, 1, 2, ..., with one commit on each version.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from endive.config.resolve import resolve_classes
from endive.config.schema import CatalogSection, Document
from endive.simulation.columns import IO_COLUMNS
from endive.table import OperationSettings, traits_of
from endive.table.operations import VALIDATING
from endive.transaction.paths import DEFAULT_PATH
from endive.transaction.types import COMMIT_TIMEOUT, MAX_RETRIES_EXCEEDED

Row = Mapping[str, Any]
_SLACK_MS = 1e-6
_ATTEMPT_FAILED = ("commit_failed", "answer_lost", "check_failed")
_STRICT = frozenset(name for name in VALIDATING if traits_of(name, OperationSettings()).conflicts)
"""Operations that validate by default."""


@dataclass(frozen=True)
class Rules:
    """Rules that the history of a run must follow.

    No two commits of a table are based on the same version, except commits of operations in ``any_base``.

    Attributes:
        any_base: Operations that may be based on any version: appends that a server rebases or coalesces, and snapshot expiration,
            because it does not change the main branch.
        strict: Operations that must not commit if another transaction has committed to their tables since they started.
        refused: Operations that must not commit after a real conflict unless they are restarted.
        at_most_once: True if no transaction takes effect twice, because no client retries blindly after a lost response.
    """

    any_base: frozenset[str] = frozenset()
    strict: frozenset[str] = frozenset()
    refused: frozenset[str] = VALIDATING
    at_most_once: bool = False


_USUAL = Rules()


def rules_of(document: Document) -> Rules:
    """Return the rules for runs of a configuration."""
    catalog, classes = document.catalog, resolve_classes(document)
    merges = any(cls.settings.on_real_conflict == "merge" or cls.settings.conflicting_manifests for cls in classes)
    strict = all(
        cls.path == DEFAULT_PATH
        and cls.settings.conflict_detector == "partition_overlap"
        and cls.settings.partitions_per_txn is None
        and cls.settings.isolation is None
        for cls in classes
    )
    return Rules(
        any_base=_select_any_base(catalog),
        strict=_STRICT if strict and not merges else frozenset(),
        refused=frozenset() if merges else VALIDATING,
        at_most_once=document.failures.on_unknown != "retry",
    )


def _select_any_base(catalog: CatalogSection) -> frozenset[str]:
    rebases = catalog.server_retries > 0 and catalog.server_retry_mode == "rebase"
    rebased = frozenset({"fast_append", "merge_append"}) if rebases or catalog.coalesce else frozenset()
    return rebased | {"expire_snapshots"} if catalog.type == "service" else rebased


@dataclass
class _Story:
    """Reads and commits of one transaction, with versions by table.

    Attributes:
        commits: Commits that the client knows about, with the time and the base versions of each.
        hidden: Commits that took effect, but whose responses were lost.
        lost: Last commit that took effect but whose response was lost; None once the client learns about the commit or retries.
        reads: Request time, response time and versions of each read.
        start: Versions of the first read after the start or the last restart.
        start_ms: Time of the last restart; 0 if there was none.
        real_conflict: True if a real conflict occurred since the last start.
        after_conflict: True if a commit took effect after a real conflict.
        attempt_failed: True if the last attempt failed.
        unfounded_abort: True if the transaction ran out of retries or time without a failed attempt.
    """

    commits: list[tuple[float, dict[int, int]]] = field(default_factory=list)
    hidden: list[tuple[float, dict[int, int]]] = field(default_factory=list)
    lost: tuple[float, dict[int, int]] | None = None
    reads: list[tuple[float, float, dict[int, int]]] = field(default_factory=list)
    start: dict[int, int] | None = None
    start_ms: float = 0.0
    real_conflict: bool = False
    after_conflict: bool = False
    attempt_failed: bool = False
    unfounded_abort: bool = False

    @property
    def installs(self) -> list[tuple[float, dict[int, int]]]:
        """All commits that took effect."""
        return [*self.commits, *self.hidden]

    def forget_lost(self) -> None:
        """Move the commit with a lost response to ``hidden``."""
        if self.lost is not None:
            self.hidden.append(self.lost)
            self.lost = None


def check_history(rows: Iterable[Row], events: Iterable[Row], rules: Rules = _USUAL) -> list[str]:
    """Return the violations of the rules in a history.

    Args:
        rows: Results, with ``txn_id``, ``status``, ``operation_type``, ``tables_written`` and ``installs``.
        events: Events of the trace of the same run, in order.
        rules: Rules to check.
    """
    stories = _stories(events)
    by_id = {row["txn_id"]: row for row in rows}
    problems = _compare_with_trace(by_id, stories)
    problems += _check_base_versions(by_id, stories, rules)
    problems += _check_read_versions(by_id, stories)
    problems += _check_visibility(stories)
    problems += _check_validation(by_id, stories, rules)
    problems += _check_outcomes(stories, rules)
    return problems


def check_counts(rows: Iterable[Row], events: Iterable[Row]) -> list[str]:
    """Return a message for each transaction whose events do not add up to its row, because events are missing or changed.

    Args:
        rows: Results, with all columns.
        events: Events of the trace of the same run, in order.
    """
    requests: Counter[tuple[int, str]] = Counter()
    occurrences: Counter[tuple[int, str]] = Counter()
    previous_ms = 0.0
    for event in events:
        occurrences[event["txn_id"], event["event"]] += 1
        if event["event"] == "io":
            requests[event["txn_id"], event["kind"]] += event["count"]
        if event["time_ms"] < previous_ms - _SLACK_MS:
            return [f"transaction {event['txn_id']}: its event at {event['time_ms']:g} ms is out of order"]
        previous_ms = event["time_ms"]
    problems = []
    for row in rows:
        number = row["txn_id"]
        wanted = {"submit": 1, "abort": int(row["status"] == "aborted")}
        problems += [
            f"transaction {number}: {found} events {name!r} in the trace, not {count}"
            for name, count in wanted.items()
            if (found := occurrences[number, name]) != count
        ]
        problems += [
            f"transaction {number}: {name} is {row[name]} in its row, {requests[number, name]} in the trace"
            for name in IO_COLUMNS
            if requests[number, name] != row[name]
        ]
    return problems


def wrong_outcomes(rows: Iterable[Row]) -> list[str]:
    """Describe the commits that took effect although the client considers them failed, and those that took effect twice or more.

    Such commits are consequences of lost responses. They do not violate the rules.
    """
    outcomes = []
    for row in rows:
        installs = row["installs"]
        if row["status"] == "aborted" and installs:
            outcomes.append(f"transaction {row['txn_id']} ended with {row['abort_reason']}, and its commit took effect")
        if installs > 1:
            outcomes.append(f"transaction {row['txn_id']} took effect {installs} times")
    return outcomes


def _stories(events: Iterable[Row]) -> dict[int, _Story]:
    stories: dict[int, _Story] = defaultdict(_Story)
    for event in events:
        story, name = stories[event["txn_id"]], event["event"]
        if name in _ATTEMPT_FAILED:
            story.attempt_failed = True
        elif name in ("attempt", "restart"):
            story.attempt_failed = False
        elif name == "abort" and event["kind"] in (MAX_RETRIES_EXCEEDED, COMMIT_TIMEOUT):
            story.unfounded_abort = not story.attempt_failed
        if name == "catalog_read":
            versions = _parse_versions(event["kind"])
            story.reads.append((event["time_ms"] - event["duration_ms"], event["time_ms"], versions))
            story.start = story.start or versions
        elif name == "answer_lost":
            story.lost = (event["time_ms"], _parse_versions(event["kind"])) if event["kind"] else story.lost
            story.after_conflict |= story.real_conflict and bool(event["kind"])
        elif name == "commit":
            story.lost = None
            story.commits.append((event["time_ms"], _parse_versions(event["kind"])))
            story.after_conflict |= story.real_conflict
        elif name == "attempt":
            story.forget_lost()
        elif name == "conflict" and event["kind"] == "real":
            story.real_conflict = True
        elif name == "restart":
            story.start, story.start_ms, story.real_conflict = None, event["time_ms"], False
    for story in stories.values():
        story.forget_lost()
    return stories


def _parse_versions(text: str) -> dict[int, int]:
    pairs = (part.split(":") for part in text.split())
    return {int(table): int(version) for table, version in pairs}


def _compare_with_trace(rows: Mapping[int, Row], stories: Mapping[int, _Story]) -> list[str]:
    """Check that the trace has one commit for each committed row and no commit for an aborted row."""
    problems, silent = [], _Story()
    for txn_id, row in rows.items():
        story = stories.get(txn_id, silent)
        commits, installs, writes = story.commits, story.installs, set(row["tables_written"])
        if row["status"] == "committed" and writes and len(commits) != 1:
            problems.append(f"transaction {txn_id} is committed, with {len(commits)} commits in the trace")
        if row["status"] == "aborted" and commits:
            problems.append(f"transaction {txn_id} is aborted, with {len(commits)} commits in the trace")
        if writes and len(installs) != row.get("installs", len(installs)):
            problems.append(
                f"transaction {txn_id} took effect {row['installs']} times by its row, {len(installs)} times by the trace"
            )
        if any(set(based) != writes for _, based in installs):
            problems.append(f"transaction {txn_id} committed to tables other than those that it wrote")
    unknown = [txn_id for txn_id, story in stories.items() if story.installs and txn_id not in rows]
    return problems + [f"transaction {txn_id} committed and has no row" for txn_id in unknown]


def _check_read_versions(rows: Mapping[int, Row], stories: Mapping[int, _Story]) -> list[str]:
    """Check that no transaction read a version above the number of commits, including those of transactions in flight."""
    most = Counter(table for story in stories.values() for _, based in story.installs for table in based)
    for txn_id, row in rows.items():
        if row["status"] == "in_flight" and txn_id in stories and not stories[txn_id].installs:
            most.update(row["tables_written"])
    newest: dict[int, tuple[int, int]] = {}
    for txn_id, story in stories.items():
        for _, _, versions in story.reads:
            for table, version in versions.items():
                newest[table] = max(newest.get(table, (0, -1)), (version, txn_id))
    return [
        f"table {table}: transaction {txn_id} read version {version} of {most[table]} commits: one was applied twice"
        for table, (version, txn_id) in sorted(newest.items())
        if version > most[table]
    ]


def _check_base_versions(rows: Mapping[int, Row], stories: Mapping[int, _Story], rules: Rules) -> list[str]:
    """Check that no two commits of a table are based on the same version, except commits that apply to any version."""
    bases: dict[tuple[int, int], list[int]] = defaultdict(list)
    for txn_id, story in stories.items():
        if txn_id in rows and rows[txn_id]["operation_type"] in rules.any_base:
            continue
        for _, based in story.installs:
            for replaced in based.items():
                bases[replaced].append(txn_id)
    return [
        f"table {table}: version {version} was replaced by transactions {txns}: an update is lost"
        for (table, version), txns in sorted(bases.items())
        if len(txns) > 1
    ]


def _check_visibility(stories: Mapping[int, _Story]) -> list[str]:
    """Check that a read that starts after the response to a commit returns the version of that commit or a later one."""
    answered: dict[int, list[tuple[float, int, int]]] = defaultdict(list)
    for txn_id, story in stories.items():
        for time_ms, based in story.installs:
            for table, version in based.items():
                answered[table].append((time_ms, version + 1, txn_id))
    reads = sorted(
        ((sent, txn_id, versions) for txn_id, story in stories.items() for sent, _, versions in story.reads),
        key=lambda read: read[:2],
    )
    problems = []
    for table, commits in sorted(answered.items()):
        commits.sort()
        newest, by, position = 0, -1, 0
        for sent_ms, txn_id, versions in reads:
            while position < len(commits) and commits[position][0] < sent_ms - _SLACK_MS:
                if commits[position][1] > newest:
                    newest, by = commits[position][1], commits[position][2]
                position += 1
            if table in versions and versions[table] < newest:
                read = f"table {table}: transaction {txn_id} read version {versions[table]}"
                problems.append(f"{read} after transaction {by} had installed {newest}")
    return problems


def _check_validation(rows: Mapping[int, Row], stories: Mapping[int, _Story], rules: Rules) -> list[str]:
    """Check that operations that validate did not commit after a conflict."""
    problems = []
    for txn_id, story in stories.items():
        operation = rows[txn_id]["operation_type"] if txn_id in rows else ""
        if story.after_conflict and operation in rules.refused:
            problems.append(f"transaction {txn_id} committed after a real conflict")
        if operation not in rules.strict or story.start is None:
            continue
        since_start = [based for time_ms, based in story.installs if time_ms >= story.start_ms]
        for table, version in (pair for based in since_start for pair in based.items()):
            if story.start.get(table, version) != version:
                message = f"table {table}: transaction {txn_id} started at version {story.start[table]} and committed on {version}"
                problems.append(f"{message}, but {operation} must not commit after another commit")
    return problems


def _check_outcomes(stories: Mapping[int, _Story], rules: Rules) -> list[str]:
    """Check that only failed attempts exhaust retries or time, and that no transaction takes effect twice without blind retries."""
    problems = [
        f"transaction {txn_id} ran out of retries or time, but its last attempt did not fail"
        for txn_id, story in stories.items()
        if story.unfounded_abort
    ]
    return problems + [
        f"transaction {txn_id} took effect {len(story.installs)} times, though no client retries blindly"
        for txn_id, story in stories.items()
        if rules.at_most_once and len(story.installs) > 1
    ]
