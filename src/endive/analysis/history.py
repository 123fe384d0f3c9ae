"""Check a history: from the rows and the trace of a run, who read and wrote which version, and whether that can be.

It knows nothing of the engines: a version of a table is the number of commits before it, so the commits of a table must have been
based on versions 0, 1, 2, ..., each on one of its own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from endive.config.resolve import resolve_classes
from endive.config.schema import Document
from endive.transaction import OPERATIONS

Row = Mapping[str, Any]
_SLACK_MS = 1e-6
CONFLICTING = frozenset(OPERATIONS) - {"fast_append", "merge_append", "read_only", "expire_snapshots"}
"""Operations that a real conflict ends."""


@dataclass(frozen=True)
class Rules:
    """What a run promises.

    ``one_base_each``: no two commits of a table are based on the same version (a server that applies commits again, or several
    at once, does not promise it). ``strict``: operations that must have seen no other commit of their tables between their start
    and their commit. ``refused``: operations that commit nothing after a real conflict, unless they are started again.
    """

    one_base_each: bool = True
    strict: frozenset[str] = frozenset()
    refused: frozenset[str] = CONFLICTING


_USUAL = Rules()


def rules_of(document: Document) -> Rules:
    """What a run of this configuration promises."""
    catalog, classes = document.catalog, resolve_classes(document)
    merges = any(cls.settings.on_real_conflict == "merge" or cls.settings.conflicting_manifests for cls in classes)
    strict = all(
        cls.settings.commit_path == "endive"
        and cls.settings.conflict_detector == "partition_overlap"
        and cls.settings.partitions_per_txn is None
        and cls.settings.isolation is None
        for cls in classes
    )
    return Rules(
        one_base_each=not (catalog.server_retries or catalog.coalesce),
        strict=CONFLICTING if strict and not merges else frozenset(),
        refused=frozenset() if merges else CONFLICTING,
    )


@dataclass
class _Story:
    """What one transaction did."""

    commits: list[tuple[float, dict[int, int]]] = field(default_factory=list)
    reads: list[tuple[float, float, dict[int, int]]] = field(default_factory=list)
    """When each read was sent and answered, and what it saw."""
    start: dict[int, int] | None = None
    """What the first read since the last start saw."""
    real_conflict: bool = False
    """Whether there was one since the last start."""


def check_history(rows: Iterable[Row], events: Iterable[Row], rules: Rules = _USUAL) -> list[str]:
    """Return all that is wrong with a history, empty if nothing is.

    Args:
        rows: Results, with ``txn_id``, ``status``, ``operation_type``, ``tables_written``.
        events: The trace of the same run, in the order in which it was written.
        rules: What the run promises.

    """
    stories = _stories(events)
    by_id = {row["txn_id"]: row for row in rows}
    problems = _rows_against_trace(by_id, stories)
    problems += _versions(stories, rules)
    problems += _reads(stories)
    problems += _strict(by_id, stories, rules)
    return problems


def _stories(events: Iterable[Row]) -> dict[int, _Story]:
    stories: dict[int, _Story] = defaultdict(_Story)
    for event in events:
        story, name = stories[event["txn_id"]], event["event"]
        if name == "catalog_read":
            seen = _parsed(event["kind"])
            story.reads.append((event["time_ms"] - event["duration_ms"], event["time_ms"], seen))
            story.start = story.start or seen
        elif name == "commit":
            story.commits.append((event["time_ms"], _parsed(event["kind"])))
        elif name == "conflict" and event["kind"] == "real":
            story.real_conflict = True
        elif name == "restart":
            story.start, story.real_conflict = None, False
    return stories


def _parsed(text: str) -> dict[int, int]:
    pairs = (part.split(":") for part in text.split())
    return {int(table): int(version) for table, version in pairs}


def _rows_against_trace(rows: Mapping[int, Row], stories: Mapping[int, _Story]) -> list[str]:
    """Each committed row has one commit, and no other row has any (but for one whose answer the end of the run cut off)."""
    problems = []
    for txn_id, row in rows.items():
        commits = stories[txn_id].commits if txn_id in stories else []
        writes = set(row["tables_written"])
        if row["status"] == "committed" and writes and len(commits) != 1:
            problems.append(f"transaction {txn_id} is committed, with {len(commits)} commits in the trace")
        if row["status"] == "aborted" and commits:
            problems.append(f"transaction {txn_id} is aborted, with {len(commits)} commits in the trace")
        if any(set(based) != writes for _, based in commits):
            problems.append(f"transaction {txn_id} says that it wrote other tables than it committed")
    unknown = [txn_id for txn_id, story in stories.items() if story.commits and txn_id not in rows]
    return problems + [f"transaction {txn_id} committed and has no row" for txn_id in unknown]


def _versions(stories: Mapping[int, _Story], rules: Rules) -> list[str]:
    """The commits of a table are based on one version each, and those that nobody reports are at the end (cut off)."""
    bases: dict[int, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for txn_id, story in stories.items():
        for _, based in story.commits:
            for table, version in based.items():
                bases[table][version].append(txn_id)
    problems = []
    for table, by_version in sorted(bases.items()):
        for version, txns in sorted(by_version.items()):
            if len(txns) > 1 and rules.one_base_each:
                problems.append(f"table {table}: version {version} was replaced by transactions {txns}: an update is lost")
    return problems


def _reads(stories: Mapping[int, _Story]) -> list[str]:
    """A read that was sent after a commit was answered sees that commit; nobody reads a version before it can be there."""
    answered: dict[int, list[tuple[float, int, int]]] = defaultdict(list)
    for txn_id, story in stories.items():
        for time_ms, based in story.commits:
            for table, version in based.items():
                answered[table].append((time_ms, version + 1, txn_id))
    reads = sorted((sent, txn_id, seen) for txn_id, story in stories.items() for sent, _, seen in story.reads)
    problems = []
    for table, commits in sorted(answered.items()):
        commits.sort()
        newest, by, position = 0, -1, 0
        for sent_ms, txn_id, seen in reads:
            while position < len(commits) and commits[position][0] < sent_ms - _SLACK_MS:
                if commits[position][1] > newest:
                    newest, by = commits[position][1], commits[position][2]
                position += 1
            if table in seen and seen[table] < newest:
                problems.append(
                    f"table {table}: transaction {txn_id} read version {seen[table]} after transaction {by} had installed {newest}"
                )
    return problems


def _strict(rows: Mapping[int, Row], stories: Mapping[int, _Story], rules: Rules) -> list[str]:
    """Operations that validate have committed nothing that they should have refused."""
    problems = []
    for txn_id, story in stories.items():
        operation = rows[txn_id]["operation_type"] if txn_id in rows else ""
        if story.commits and story.real_conflict and operation in rules.refused:
            problems.append(f"transaction {txn_id} committed after a real conflict")
        if operation not in rules.strict or story.start is None:
            continue
        for table, version in (pair for _, based in story.commits for pair in based.items()):
            if story.start.get(table, version) != version:
                message = f"table {table}: transaction {txn_id} started at version {story.start[table]} and committed on {version}"
                problems.append(f"{message}, though {operation} has to refuse what came between")
    return problems
