"""Commit snapshots of simulated writers while a real job runs, so that the job loses as many races as in production.

A simulation of the configuration determines the times of the commits. The snapshot of a simulated writer reuses the manifest list
of its parent snapshot and adds no data.
"""

from __future__ import annotations

import asyncio
import io
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from pyiceberg.io import OutputFile, OutputStream
from pyiceberg.manifest import write_manifest_list
from pyiceberg.table.metadata import TableMetadataV1

from endive.calibrate.fidelity import SNAPSHOT_OPERATIONS
from endive.config.build import build_simulation_config
from endive.config.schema import Document
from endive.lab import LabError
from endive.lab.exchange import CATALOG, COMMIT, Event, Request
from endive.lab.objects import StoreError
from endive.lab.open_lab import Lab
from endive.lab.table_catalog import CatalogError, Commit, Identifier, TableState, name_of, parse_commit, split_location
from endive.simulation import Simulation

_MAIN = "main"
_POLL_S = 0.02
_END_S = 5.0


@dataclass(frozen=True)
class RivalCommit:
    """Commit of a simulated writer: time in ms, number of the table, workload class, and snapshot operation."""

    time_ms: float
    table: int
    rival: str
    operation: str


def plan_rivals(document: Document, job: str | None = None, seed: int | None = None) -> list[RivalCommit]:
    """Simulate a configuration, and return the commits of all classes except that of the real job, in chronological order.

    The simulation includes the real job, so that the simulated writers lose as many races as in production.

    Raises:
        LabError: If the class does not exist, or is the only class.
    """
    if job is not None and job not in document.workload:
        raise LabError(f"--job {job}: unknown workload class; the classes of the file are {', '.join(document.workload) or 'none'}")
    if not document.workload.keys() - {job}:
        raise LabError("the file has no workload class except the job, so no writer is concurrent; add a section [workload.NAME]")
    simulation = build_simulation_config(document, seed_override=seed)
    rows = Simulation(replace(simulation, drain=True)).run().to_table()
    names = ["t_commit", "status", "operation_type", "tables_written", "workload_class"]
    made = []
    for row in rows.select(names).to_pylist():
        operation = SNAPSHOT_OPERATIONS.get(row["operation_type"])
        if row["status"] == "committed" and row["workload_class"] != job and operation is not None:
            made += [RivalCommit(row["t_commit"], table, row["workload_class"], operation) for table in row["tables_written"]]
    return sorted(made, key=lambda rival: rival.time_ms)


def parse_table(name: str) -> Identifier:
    """Return the identifier of a table, such as ``db.events``.

    Raises:
        LabError: If the name has no namespace.
    """
    *namespace, table = name.split(".")
    if not namespace or not all((*namespace, table)):
        raise LabError(f"--table {name} must have the form NAMESPACE.TABLE")
    return tuple(namespace), table


async def run_rivals(lab: Lab, plan: Sequence[RivalCommit], tables: Sequence[Identifier]) -> int:
    """Commit the snapshots of simulated writers at their times, which are counted from the creation of the first table.

    Args:
        lab: Running lab.
        plan: Commits in chronological order.
        tables: Tables of the lab, in the order of the tables in the configuration. Commits to other tables are omitted.

    Returns:
        Number of commits.
    """
    while lab.catalog.find(tables[0]) is None:
        await asyncio.sleep(_POLL_S)
    loop, done = asyncio.get_running_loop(), 0
    start_s = loop.time()
    for rival in plan:
        if rival.table >= len(tables):
            continue
        delay_s = start_s + rival.time_ms / 1e3 - loop.time()
        if delay_s > 0.0:
            await asyncio.sleep(delay_s)
        done += commit_rival(lab, tables[rival.table], rival.rival, rival.operation)
    return done


@contextmanager
def keep_committing(
    lab: Lab, plan: Sequence[RivalCommit], tables: Sequence[Identifier], note: Callable[[str], None]
) -> Iterator[Future[int]]:
    """Commit the snapshots of simulated writers while the block runs. If they end early, pass the reason to ``note``."""
    running = asyncio.run_coroutine_threadsafe(run_rivals(lab, plan, tables), lab.loop)
    try:
        yield running
    finally:
        running.cancel()
        try:
            running.result(timeout=_END_S)
        except (CatalogError, StoreError) as error:
            note(f"the concurrent writers stopped early: {error}")
        except (CancelledError, TimeoutError):
            pass


def commit_rival(lab: Lab, identifier: Identifier, rival: str, operation: str) -> bool:
    """Commit a snapshot to a table, in the thread of the lab's servers. Return False if the table does not exist."""
    found = lab.catalog.find(identifier)
    if found is None:
        return False
    commit = _snapshot_commit(lab, identifier, found, rival, operation)
    now_s = asyncio.get_running_loop().time()
    state = lab.catalog.commit([commit])[identifier]
    event = Event(
        CATALOG, COMMIT, name_of(identifier), 200, "ok", state.version, len(state.content), commit.operation, commit.snapshot_id
    )
    request = Request("POST", "", {}, {}, b"", now_s, (0, 0), f"rival:{rival}")
    lab.recording.record(request, event, asyncio.get_running_loop().time())
    return True


def _snapshot_commit(lab: Lab, identifier: Identifier, found: TableState, rival: str, operation: str) -> Commit:
    metadata = found.metadata
    parent = metadata.current_snapshot()
    snapshot_id = secrets.randbits(62)
    sequence = 0 if isinstance(metadata, TableMetadataV1) else metadata.last_sequence_number + 1
    location = parent.manifest_list if parent is not None else _write_empty_list(lab, found, snapshot_id, sequence)
    snapshot = {
        "snapshot-id": snapshot_id,
        "sequence-number": sequence,
        "timestamp-ms": max(int(time.time() * 1000), metadata.last_updated_ms),
        "manifest-list": location,
        "summary": {"operation": operation, "endive-rival": rival},
        "schema-id": metadata.current_schema_id,
        **({} if parent is None else {"parent-snapshot-id": parent.snapshot_id}),
    }
    ref = {"action": "set-snapshot-ref", "ref-name": _MAIN, "type": "branch", "snapshot-id": snapshot_id}
    return parse_commit({"requirements": [], "updates": [{"action": "add-snapshot", "snapshot": snapshot}, ref]}, identifier)


def _write_empty_list(lab: Lab, found: TableState, snapshot_id: int, sequence: int) -> str:
    """Write a manifest list without manifests for the first snapshot of a table, and return its location."""
    location = f"{found.metadata.location}/metadata/snap-{snapshot_id}-0-rival.avro"
    output = _Output(location)
    with write_manifest_list(2 if found.metadata.format_version > 1 else 1, output, snapshot_id, None, sequence, "null"):
        pass
    lab.store.write(*split_location(location), output.content)
    return location


class _Buffer(io.BytesIO):
    """Buffer whose content remains available after the buffer is closed."""

    def __init__(self, output: _Output) -> None:
        super().__init__()
        self._output = output

    def close(self) -> None:
        """Save the content, and close the buffer."""
        if not self.closed:
            self._output.content = self.getvalue()
        super().close()


class _Output(OutputFile):
    """File in memory that PyIceberg's writer of manifest lists uses."""

    content = b""

    def __len__(self) -> int:
        return len(self.content)

    def exists(self) -> bool:
        """Return False, because each file is written once."""
        return False

    def to_input_file(self) -> Any:
        """Raise NotImplementedError, because the file is not read."""
        raise NotImplementedError

    def create(self, overwrite: bool = False) -> OutputStream:
        """Return the buffer of the file."""
        return _Buffer(self)
