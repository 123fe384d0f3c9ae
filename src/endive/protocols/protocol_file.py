"""Define the schema of a protocol file: the type, default and description of every key, and the constraints between keys."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from endive.config.errors import Problem, nearest
from endive.config.schema import RetryBackoff
from endive.config.values import Count, NonNegativeMs, Section
from endive.table import ICEBERG_OPERATIONS
from endive.transaction.protocol_path import (
    CATALOG_OPERATIONS,
    CONFLICT_LEVELS,
    CommitPoint,
    Scope,
    StepAttempts,
    StepObject,
    StepOperation,
)

OPERATIONS = ICEBERG_OPERATIONS - {"expire_snapshots"}
"""Operations that a protocol can commit. Each commit adds a version to a table."""
Factor = Annotated[float, Field(ge=0, le=1e6)]
STEP_PHASES = ("load", "attempt", "after_loss", "after_success", "after_abort")
_DISCOVERING = ("list", "read", *sorted(CATALOG_OPERATIONS))
_FACTORS = ("per_version_behind", "per_attempt", "per_file", "per_log_entry")


class StepSection(Section):
    """Step of a protocol: requests of one kind. The client executes the steps in the order of the file."""

    operation: StepOperation = Field(
        description="Kind of request. list, read, write and delete: an object. request: the catalog. statement: the database."
    )
    object: StepObject | None = Field(
        None,
        description="Kind of object. metadata: root, pointer or hint file; log: log entry, version manifest or manifest list; "
        "manifest: other metadata; checkpoint; data.",
    )
    bytes: Count = Field(0, description="Size of the object.")
    bytes_per_file: Count = Field(0, description="Additional size per data file of the table.")
    bytes_per_version: Count = Field(0, description="Additional size per version of the table.")
    count: Factor | None = Field(None, description="Number of requests. Default: 1, or 0 with a per_ key.")
    per_version_behind: Factor = Field(
        0.0, description="Number of requests for each new version that the client discovers in this phase."
    )
    per_attempt: Factor = Field(0.0, description="Number of requests for each failed attempt so far.")
    per_file: Factor = Field(0.0, description="Number of requests for each data file of the table.")
    per_log_entry: Factor = Field(0.0, description="Number of requests for each log entry since the last checkpoint.")
    parallel: bool = Field(False, description="Send the requests in batches of storage.max_parallel instead of sequentially.")
    attempts: StepAttempts = Field(
        "each", description="Attempts that run the step: each attempt, only the first attempt, or only the retries."
    )
    discovers: bool = Field(
        False,
        description="The response shows the current version of the table. Default in load and after_loss: the first request "
        "whose response can show the version.",
    )
    checks: bool = Field(False, description="The attempt fails at this step if the version has changed since the attempt began.")
    with_next: bool = Field(False, description="The request runs concurrently with the request of the next step.")
    publishes: bool = Field(False, description="The step publishes all ratified commits (commit.point = ratify).")

    @property
    def number(self) -> float:
        """Number of requests that does not depend on the state of the table."""
        if self.count is not None:
            return self.count
        return 0.0 if any(getattr(self, key) for key in _FACTORS) else 1.0

    @property
    def is_single(self) -> bool:
        """True if the step always sends exactly one request."""
        return self.number == 1.0 and not any(getattr(self, key) for key in _FACTORS)

    @property
    def can_discover(self) -> bool:
        """True if the response can contain the current version of the table."""
        return self.operation in _DISCOVERING and self.object != "data" and self.is_single


class CommitSection(Section):
    """``[commit]``: the request by which a commit takes effect."""

    point: CommitPoint = Field(
        description="put_if_absent: next entry of a log; swap: compare-and-swap of a pointer; insert: row with a unique key in a "
        "database; ratify: a catalog accepts a staged file."
    )
    scope: Scope = Field("table", description="Scope within which commits are ordered: one table, or all tables of the lake.")
    unpublished_limit: Annotated[int, Field(ge=1, le=10**9)] | None = Field(
        None,
        description="Number of unpublished commits at which the catalog rejects further commits, with ratify. Default: no limit.",
    )


Against = dict[str, list[str]]


class ConflictSection(Section):
    """``[conflicts]``: intervening operations that cause an operation to fail if they overlap in a table, partition or file."""

    rebases: bool = Field(True, description="The client commits on top of intervening commits that do not conflict.")
    table: Against = Field(
        default_factory=dict, description="Intervening operations that cause an operation to fail, anywhere in the table."
    )
    partitions: Against = Field(
        default_factory=dict, description="Intervening operations that cause an operation to fail if they overlap in a partition."
    )
    files: Against = Field(
        default_factory=dict,
        description="Intervening operations that cause an operation to fail if they overlap in a partition, with "
        "real_conflict_probability.",
    )


class RetrySection(Section):
    """``[retries]``: defaults of ``transaction.retry``, ``retry_backoff`` and the two timeouts."""

    limit: Count = Field(0, description="Maximum number of retries after the first attempt.")
    total_timeout_ms: NonNegativeMs | None = Field(None, description="Maximum total time, checked after each failed attempt.")
    operation_timeout_ms: NonNegativeMs | None = Field(
        None, description="Time after submission at which the client cancels the operation. The first attempt is never cancelled."
    )
    operation_timeout_for: list[str] = Field(
        default_factory=list, description="Operations that operation_timeout_ms applies to. Default: all."
    )
    backoff: RetryBackoff = Field(
        default_factory=RetryBackoff, description="Backoff before a retry, with the keys of transaction.retry_backoff."
    )


class CheckpointSection(Section):
    """``[checkpoints]``: files that summarize the log."""

    every: Count = Field(0, description="Number of commits per checkpoint; 0 disables checkpoints.")
    by: Literal["writer", "background"] = Field(
        "writer",
        description="writer: the writer of the version runs the steps after its commit. background: no writer "
        "waits for the checkpoint.",
    )
    steps: list[StepSection] = Field(default_factory=list, description="Steps of a checkpoint that a writer runs.")


class ProtocolDocument(Section):
    """Content of a protocol file."""

    name: str | None = Field(None, description="Name of the protocol. Default: the file name.", min_length=1)
    client: str | None = Field(None, description="Name of the client in reports. Default: the name of the protocol.", min_length=1)
    version: str = Field("", description="Version of the client.")
    source: str = Field("", description="Sources of the protocol.")
    date: datetime.date | str = Field("", description="Date of the sources.")
    status: Literal["released", "proposal", "observed", "check"] = Field(
        "released",
        description="Origin of the protocol: a released client, a proposal, observed requests, or a check of the engine.",
    )
    description: str = Field("", description="Limitations of the protocol, and numbers that are assumptions.")
    operations: list[str] = Field(
        default_factory=lambda: sorted(OPERATIONS), description="Operations that the client can commit.", min_length=1
    )
    commit: CommitSection = Field(description="Commit point.")
    load: list[StepSection] = Field(default_factory=list, description="Steps before the job.")
    attempt: list[StepSection] = Field(default_factory=list, description="Steps of each attempt, before its commit.")
    after_loss: list[StepSection] = Field(default_factory=list, description="Steps after a failed attempt and its backoff.")
    after_success: list[StepSection] = Field(default_factory=list, description="Steps after the commit.")
    after_abort: list[StepSection] = Field(default_factory=list, description="Steps after the last failed attempt or a conflict.")
    conflicts: ConflictSection = Field(default_factory=ConflictSection, description="Conflicts.")
    retries: RetrySection = Field(default_factory=RetrySection, description="Retries.")
    checkpoints: CheckpointSection = Field(default_factory=CheckpointSection, description="Checkpoints.")


def contradictions(document: ProtocolDocument) -> list[Problem]:
    """Return a problem for each key of a protocol that contradicts another key or has no effect."""
    return [
        *_check_operations(document),
        *_check_commit(document),
        *_check_discovery(document),
        *_check_retries(document),
        *_check_checkpoints(document),
        *(
            problem
            for phase, steps in phases_of(document).items()
            for place, step in enumerate(steps)
            for problem in _check_step(document, phase, steps, place, step)
        ),
    ]


def phases_of(document: ProtocolDocument) -> dict[str, list[StepSection]]:
    """Return the steps of each phase, by the key of the phase in the file."""
    return {**{phase: getattr(document, phase) for phase in STEP_PHASES}, "checkpoints.steps": document.checkpoints.steps}


def discovering_step(document: ProtocolDocument, phase: str) -> int | None:
    """Return the index of the step of a phase from whose response the client learns the current version.

    This is the first step with ``discovers``. Without such a step, it is the first step of ``load`` or ``after_loss`` whose
    response can contain the version, or None.
    """
    steps = phases_of(document)[phase]
    marked = [place for place, step in enumerate(steps) if step.discovers]
    if marked or phase not in ("load", "after_loss"):
        return marked[0] if marked else None
    return next((place for place, step in enumerate(steps) if step.can_discover and not _is_paired(steps, place)), None)


def _is_paired(steps: list[StepSection], place: int) -> bool:
    return steps[place].with_next or (place > 0 and steps[place - 1].with_next)


def _check_operations(document: ProtocolDocument) -> Iterator[Problem]:
    for place, name in enumerate(document.operations):
        if name not in OPERATIONS:
            yield Problem(f"operations.{place}", f"unknown operation; {nearest(name, OPERATIONS)}", name)
        elif name in document.operations[:place]:
            yield Problem(f"operations.{place}", "is listed twice", name)
    known: set[tuple[str, str]] = set()
    for level in CONFLICT_LEVELS:
        for name, against in getattr(document.conflicts, level).items():
            key = f"conflicts.{level}.{name}"
            if name not in document.operations:
                yield Problem(key, f"is not one of operations; {nearest(name, document.operations)}")
            for place, other in enumerate(against):
                if other not in OPERATIONS:
                    yield Problem(f"{key}.{place}", f"unknown operation; {nearest(other, OPERATIONS)}", other)
                elif (name, other) in known:
                    yield Problem(f"{key}.{place}", f"is listed twice; list {other} for {name} at one level only", other)
                known.add((name, other))


def _check_commit(document: ProtocolDocument) -> Iterator[Problem]:
    commit = document.commit
    steps = [step for phase in phases_of(document).values() for step in phase]
    if commit.unpublished_limit is not None and commit.point != "ratify":
        message = 'has no effect unless commit.point = "ratify": only a catalog has unpublished commits'
        yield Problem("commit.unpublished_limit", message, commit.unpublished_limit)
    elif commit.unpublished_limit is not None and not any(step.publishes for step in steps):
        message = "lets the catalog reject all commits in the end, because no step publishes; set publishes = true in after_success"
        yield Problem("commit.unpublished_limit", message, commit.unpublished_limit)


def _check_discovery(document: ProtocolDocument) -> Iterator[Problem]:
    if discovering_step(document, "load") is None:
        allowed = ", ".join(_DISCOVERING)
        yield Problem("load", f"must contain a single request ({allowed}) that shows the current version of the table")
    again = discovering_step(document, "after_loss") is not None or any(
        step.discovers and step.attempts != "first" for step in document.attempt
    )
    if document.retries.limit > 0 and not again:
        message = "no step shows the current version after a failed attempt, so every retry would fail; set discovers = true"
        yield Problem("after_loss", message)


def _check_retries(document: ProtocolDocument) -> Iterator[Problem]:
    retries = document.retries
    if retries.limit == 0:
        if document.after_loss:
            yield Problem("after_loss", "has no effect with retries.limit = 0")
        for key in sorted(retries.changed_keys - {"limit"}):
            yield Problem(f"retries.{key}", "has no effect with retries.limit = 0")
    elif not document.conflicts.rebases:
        message = "contradicts conflicts.rebases = false: after an intervening commit, the operation fails without a retry"
        yield Problem("retries.limit", message, retries.limit)
    if retries.operation_timeout_for and retries.operation_timeout_ms is None:
        yield Problem("retries.operation_timeout_for", "has no effect unless retries.operation_timeout_ms is set")
    for place, name in enumerate(retries.operation_timeout_for):
        if name not in document.operations:
            message = f"is not one of operations; {nearest(name, document.operations)}"
            yield Problem(f"retries.operation_timeout_for.{place}", message, name)
    if not document.conflicts.rebases:
        message = "has no effect with conflicts.rebases = false: every intervening commit makes the operation fail"
        for level in sorted(document.conflicts.changed_keys - {"rebases"}):
            yield Problem(f"conflicts.{level}", message)


def _check_checkpoints(document: ProtocolDocument) -> Iterator[Problem]:
    checkpoints = document.checkpoints
    if checkpoints.every == 0:
        for key in sorted(checkpoints.changed_keys - {"every"}):
            yield Problem(f"checkpoints.{key}", "has no effect with checkpoints.every = 0")
    elif checkpoints.steps and checkpoints.by == "background":
        yield Problem("checkpoints.steps", 'has no effect with checkpoints.by = "background", because no writer runs these steps')


def _check_step(
    document: ProtocolDocument, phase: str, steps: list[StepSection], place: int, step: StepSection
) -> Iterator[Problem]:
    key, point = f"{phase}.{place}", document.commit.point
    if step.operation in CATALOG_OPERATIONS:
        if point == "put_if_absent":
            message = f'contradicts commit.point = "{point}": a log in the object store has no catalog'
            yield Problem(f"{key}.operation", message, step.operation)
        for name in ("object", "bytes", "bytes_per_file", "bytes_per_version", "parallel"):
            if name in step.changed_keys:
                yield Problem(f"{key}.{name}", f"has no effect with operation = {step.operation!r}", getattr(step, name))
        if phase == "after_abort":
            yield Problem(f"{key}.operation", "is not possible in after_abort, where clients only delete files", step.operation)
    elif step.object is None:
        yield Problem(f"{key}.object", f'is missing; operation = "{step.operation}" needs a kind of object')
    if step.attempts != "each" and phase != "attempt":
        yield Problem(f"{key}.attempts", "is valid only in the steps of attempt", step.attempts)
    if step.per_attempt and phase == "load":
        yield Problem(f"{key}.per_attempt", "has no effect in load, because no attempt has failed yet", step.per_attempt)
    if step.number == 0.0 and not any(getattr(step, name) for name in _FACTORS):
        yield Problem(f"{key}.count", "is 0 and no per_ key is set, so the step sends no request", step.number)
    yield from _check_roles(document, phase, steps, place, step)


def _check_roles(
    document: ProtocolDocument, phase: str, steps: list[StepSection], place: int, step: StepSection
) -> Iterator[Problem]:
    """Check the keys ``discovers``, ``checks``, ``publishes`` and ``with_next`` of a step."""
    key = f"{phase}.{place}"
    if step.discovers and phase not in ("load", "attempt", "after_loss"):
        yield Problem(f"{key}.discovers", f"has no effect in {phase}, because no attempt follows", True)
    if step.discovers and not step.can_discover:
        message = f"needs a single request ({', '.join(_DISCOVERING)}) for an object other than data"
        yield Problem(f"{key}.discovers", message, True)
    if step.checks and phase != "attempt":
        yield Problem(f"{key}.checks", "is valid only in the steps of attempt", True)
    elif step.checks and not any(each.discovers for each in steps[: place + 1]):
        yield Problem(f"{key}.checks", "needs discovers = true in this step or in an earlier step of attempt", True)
    if step.publishes and document.commit.point != "ratify":
        yield Problem(f"{key}.publishes", 'has no effect unless commit.point = "ratify"', True)
    if step.publishes and phase not in ("after_loss", "after_success"):
        yield Problem(f"{key}.publishes", "is valid only in the steps of after_loss and after_success", True)
    if step.with_next:
        pair = steps[place : place + 2]
        if len(pair) < 2:
            yield Problem(f"{key}.with_next", "is set in the last step of the phase; no step follows", True)
        elif pair[1].with_next or any(
            not each.is_single or each.operation in CATALOG_OPERATIONS or each.discovers or each.checks or each.publishes
            for each in pair
        ):
            message = "needs two single requests to the object store without discovers, checks and publishes"
            yield Problem(f"{key}.with_next", message, True)
        elif pair[0].attempts != pair[1].attempts:
            yield Problem(f"{key}.with_next", "needs the same value of attempts in both steps", True)
