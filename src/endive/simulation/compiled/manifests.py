"""Making manifests and manifest lists on the path ``endive``, with lists that are written anew or appended to (ML+)."""

from __future__ import annotations

from typing import Any

from endive.arithmetic.costs import failed_answer_ms, moment_of_effect_ms
from endive.simulation.compiled.commits import append_to_list, read_list_end, replace_sealed_list
from endive.simulation.compiled.draws import client_ms, storage_uniform, two_values
from endive.simulation.compiled.features import HAS_CLIENTS, HAS_LIST_APPENDS
from endive.simulation.compiled.heap import await_event as _await_event
from endive.simulation.compiled.jit import inlined, jit
from endive.simulation.compiled.layout import (
    EXPIRE_SNAPSHOTS,
    LIST_APPEND,
    LIST_APPENDS,
    LIST_READ,
    LIST_REWRITE,
    LIST_WRITE,
    LISTS_READ,
    PER_ATTEMPT_IO,
)
from endive.simulation.compiled.memory import class_at, touched_at
from endive.simulation.compiled.sending import begin_commit
from endive.simulation.compiled.steps import access, read_lists, write_manifests, write_metadata


@jit
def make_manifests(run: Any, txn: Any, slot: int) -> None:
    """Make what an attempt commits: read the lists, write manifests, and write or append to the lists."""
    cls = class_at(run, txn.cls)
    if not read_lists(run, txn, cls):
        return
    if HAS_LIST_APPENDS and txn.append_due and txn.operation != EXPIRE_SNAPSHOTS:
        _await_event(run, txn, slot, LISTS_READ, 0.0)
    elif write_manifests(run, txn, cls):
        _made_manifests(run, txn, slot)


@inlined
def _made_manifests(run: Any, txn: Any, slot: int) -> None:
    """Write what is left of an attempt's files, and send its commit."""
    if write_metadata(run, txn, class_at(run, txn.cls)):
        begin_commit(run, txn, slot)


@inlined
def list_event(run: Any, txn: Any, slot: int, event: int) -> None:
    """What an event of a manifest list that is appended to does (ML+)."""
    if event == LISTS_READ:
        _lists_read(run, txn, slot)
    elif event == LIST_APPEND:
        _list_append_effect(run, txn, slot)
    elif event == LIST_REWRITE:
        _list_rewritten(run, txn, slot)


@inlined
def _lists_read(run: Any, txn: Any, slot: int) -> None:
    """The manifest lists as they were read (ML+)."""
    for t in range(txn.written):
        read_list_end(run, touched_at(run, slot, t))
    if write_manifests(run, txn, class_at(run, txn.cls)):
        txn.table_cursor = 0
        _append_entry(run, txn, slot)


@jit
def _append_entry(run: Any, txn: Any, slot: int) -> None:
    """Append to the list of the next table whose manifests are new, rewriting it first if it is sealed; after the last, go on."""
    while txn.table_cursor < txn.written and not touched_at(run, slot, txn.table_cursor).redo:
        txn.table_cursor += 1
    if txn.table_cursor == txn.written:
        _made_manifests(run, txn, slot)
        return
    cls = class_at(run, txn.cls)
    if not touched_at(run, slot, txn.table_cursor).list_sealed:
        _request_list_append(run, txn, slot)
    elif access(run, txn, cls, LIST_READ, 1, PER_ATTEMPT_IO) and access(run, txn, cls, LIST_WRITE, 1, PER_ATTEMPT_IO):
        _await_event(run, txn, slot, LIST_REWRITE, 0.0)


@inlined
def _list_rewritten(run: Any, txn: Any, slot: int) -> None:
    mine = touched_at(run, slot, txn.table_cursor)
    replace_sealed_list(run, mine)
    read_list_end(run, mine)
    _request_list_append(run, txn, slot)


@jit
def _request_list_append(run: Any, txn: Any, slot: int) -> None:
    cls = class_at(run, txn.cls)
    txn.success_ms, txn.failure_ms = two_values(run, cls.list_append, cls.failed_list_append, storage_uniform(txn))
    txn.effect_ms = moment_of_effect_ms(txn.success_ms, cls.linearization)
    _await_event(run, txn, slot, LIST_APPEND, txn.effect_ms)


@inlined
def _list_append_effect(run: Any, txn: Any, slot: int) -> None:
    mine = touched_at(run, slot, txn.table_cursor)
    landed = append_to_list(run, mine, class_at(run, txn.cls).manifest_list_entry_bytes)
    read_list_end(run, mine)
    rest = (txn.success_ms if landed else failed_answer_ms(txn.effect_ms, txn.failure_ms)) - txn.effect_ms
    now, elapsed = txn.now_ms, txn.effect_ms + rest
    if rest > 0.0:
        now += rest
    if HAS_CLIENTS:
        computing = client_ms(run, txn, class_at(run, txn.cls))
        now += computing
        elapsed += computing
    if now >= run.end_ms:
        return
    txn.now_ms = now
    txn.times[PER_ATTEMPT_IO] += elapsed
    txn.event_count += 1
    txn.counts[LIST_APPENDS] += 1
    if landed:
        txn.table_cursor += 1
    _append_entry(run, txn, slot)
