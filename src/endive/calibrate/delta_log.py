"""Read the history of a Delta table from the entries of its ``_delta_log``."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq

from endive.calibrate import InputError
from endive.calibrate.table_history import Commit, History, TableState
from endive.input_files import in_short

LOG = "_delta_log"
DELTA_RS, DELTA_SPARK = "delta-rs", "delta-spark"
"""Protocols of the clients that write Delta tables."""
_ENTRY = re.compile(r"(\d{20})\.json")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\.parquet")
_MOST_ENTRIES = 500_000
_MOST_BYTES = 1 << 30
_MOST_MS = 253_402_300_799_999  # the year 9999
_FILE_ACTIONS = ("add", "remove")

Action = Mapping[str, Any]


def is_delta_log(filesystem: pa.fs.FileSystem, path: str) -> bool:
    """Return whether a directory is the log of a Delta table, or contains it."""
    return _log_directory(filesystem, path) is not None


def read_delta_log(filesystem: pa.fs.FileSystem, path: str, source: str) -> History:
    """Read the history of a Delta table from its directory or the directory of its log. Raises InputError."""
    directory = _log_directory(filesystem, path)
    assert directory is not None
    entries, checkpoints = _list_log(filesystem, directory, source)
    if not entries:
        raise InputError(f"{source}: {LOG} has no entries (NNNNNNNNNNNNNNNNNNNN.json)")
    first = min(entries)
    files = 0 if first == 0 else _files_before(filesystem, checkpoints, first)
    commits: list[Commit] = []
    changes_ms: list[int] = []
    properties: dict[str, str] = {}
    partitioned, without_time, out_of_order, last_ms, size = False, 0, 0, 0, 0
    for version in sorted(entries):
        info = entries[version]
        content = _read(filesystem, info.path, source)
        size += len(content)
        if size > _MOST_BYTES:
            raise InputError(f"{source}: the log has more than 1 GiB; import a copy of its latest entries")
        actions = list(_actions(content, f"{source}: version {version}"))
        for metadata in _all(actions, "metaData"):
            properties |= {str(key): str(value) for key, value in (metadata.get("configuration") or {}).items()}
            partitioned = bool(metadata.get("partitionColumns"))
        time_ms = _time_ms(actions)
        without_time += time_ms is None
        time_ms = int(info.mtime_ns // 1_000_000) if time_ms is None else time_ms
        out_of_order += time_ms < last_ms
        last_ms = time_ms = max(time_ms, last_ms)
        if files is not None:
            files += len(_all(actions, "add")) - len(_all(actions, "remove"))
        commit = _commit(version, time_ms, actions, files)
        if commit is None:
            changes_ms.append(time_ms)
        else:
            commits.append(commit)
    notes = [
        f"versions {first} to {max(entries)} of the Delta log; times are those of the writers' clocks when they prepared the commit"
    ]
    if without_time:
        notes.append(f"{without_time} entries have no timestamp; the time of the file is used")
    if out_of_order:
        notes.append(f"{out_of_order} entries are older than their predecessors (clocks of writers differ); the later time is used")
    if changes_ms:
        notes.append(f"{len(changes_ms)} entries change no data (creation, properties, VACUUM) and are not simulated")
    if "delta.checkpointInterval" in properties:
        interval = properties["delta.checkpointInterval"]
        notes.append(f"delta.checkpointInterval is {interval}; to simulate it, set checkpoints.every in a copy of the protocol")
    return History(
        source,
        tuple(commits),
        properties,
        partitioned,
        TableState(snapshots=None, data_files=files),
        notes=tuple(notes),
        client=_client(commits),
    )


def path_of_engine(engine: str) -> str:
    """Return the protocol of a writer by its ``engineInfo``."""
    return DELTA_RS if DELTA_RS in engine else DELTA_SPARK


def _log_directory(filesystem: pa.fs.FileSystem, path: str) -> str | None:
    path = path.rstrip("/")
    for directory in (path, f"{path}/{LOG}"):
        if directory.rpartition("/")[2] == LOG and filesystem.get_file_info(directory).type == pa.fs.FileType.Directory:
            return directory
    return None


def _list_log(
    filesystem: pa.fs.FileSystem, directory: str, source: str
) -> tuple[dict[int, pa.fs.FileInfo], dict[int, pa.fs.FileInfo]]:
    """Return the entries of a log after its last gap, and its checkpoints, by version."""
    entries: dict[int, pa.fs.FileInfo] = {}
    checkpoints: dict[int, pa.fs.FileInfo] = {}
    for info in filesystem.get_file_info(pa.fs.FileSelector(directory)):
        for pattern, found in ((_ENTRY, entries), (_CHECKPOINT, checkpoints)):
            match = pattern.fullmatch(Path(info.path).name)
            if match is not None:
                found[int(match[1])] = info
    if len(entries) > _MOST_ENTRIES:
        raise InputError(f"{source}: the log has {len(entries):,} entries; at most {_MOST_ENTRIES:,} are read")
    gaps = [version for version in entries if version - 1 not in entries]
    return {version: info for version, info in entries.items() if version >= max(gaps, default=0)}, checkpoints


def _files_before(filesystem: pa.fs.FileSystem, checkpoints: Mapping[int, pa.fs.FileInfo], first: int) -> int | None:
    """Return the number of data files before a version, from the checkpoint of the preceding version; None without a checkpoint."""
    info = checkpoints.get(first - 1)
    if info is None:
        return None
    try:
        with filesystem.open_input_file(info.path) as file:
            paths = pq.ParquetFile(file).read(columns=["add.path"]).column("add")
    except (OSError, pa.ArrowException, KeyError):
        return None
    return int(sum(row is not None and row.get("path") is not None for row in paths.to_pylist()))


def _read(filesystem: pa.fs.FileSystem, path: str, source: str) -> bytes:
    try:
        with filesystem.open_input_stream(path) as file:
            return bytes(file.read(_MOST_BYTES))
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{source}: {Path(path).name}: cannot be read: {str(error).splitlines()[0][:200]}") from None


def _actions(content: bytes, where: str) -> Iterator[Action]:
    for number, line in enumerate(content.splitlines(), 1):
        if not line.strip():
            continue
        try:
            action = json.loads(line)
        except (ValueError, RecursionError):
            raise InputError(f"{where}: line {number} is not JSON") from None
        if not isinstance(action, dict) or not all(isinstance(value, dict) for value in action.values()):
            raise InputError(f"{where}: line {number} is not an action of Delta: {in_short(str(action))}")
        yield action


def _all(actions: Iterable[Action], kind: str) -> list[Action]:
    return [action[kind] for action in actions if kind in action]


def _info(actions: Iterable[Action]) -> Action:
    """Return the commitInfo of an entry; empty if the entry has none."""
    return next(iter(_all(actions, "commitInfo")), {})


def _time_ms(actions: Iterable[Action]) -> int | None:
    info = _info(actions)
    for key in ("inCommitTimestamp", "timestamp"):
        value = info.get(key)
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST_MS:
            return value
    return None


def _commit(version: int, time_ms: int, actions: list[Action], files: int | None) -> Commit | None:
    """Return an entry as a commit in Iceberg's terms; None if it changes no data."""
    added, removed = _all(actions, "add"), _all(actions, "remove")
    if not added and not removed:
        return None
    info = _info(actions)
    if all(each.get("dataChange") is False for each in (*added, *removed)):
        operation = "replace"
    elif not removed:
        operation = "append"
    else:
        operation = "overwrite" if added else "delete"
    partitions = {json.dumps(each.get("partitionValues"), sort_keys=True) for each in (*added, *removed)}
    vectors = sum(1 for each in added if each.get("deletionVector"))
    application = next((each.get("appId") for each in _all(actions, "txn")), None) or info.get("clusterId") or info.get("userName")
    summary = {
        "engine-name": _engine(str(info.get("engineInfo") or "")),
        "added-data-files": str(len(added)),
        "changed-partition-count": str(len(partitions)),
        **({"total-data-files": str(files)} if files is not None else {}),
        **({"added-dvs": str(vectors)} if vectors else {}),
        **({"application": str(application)[:200]} if application else {}),
    }
    return Commit(version, time_ms, operation, summary)


def _engine(info: str) -> str:
    """Return the name of a writer without its version, from its ``engineInfo``."""
    known = (name for name in (DELTA_RS, "spark") if name in info.lower())
    return next(known, re.split(r"[/:\s]", info.strip())[0][:24].lower() or "unknown")


def _client(commits: Iterable[Commit]) -> str:
    """Return the protocol that wrote most commits."""
    paths = [path_of_engine(commit.engine) for commit in commits]
    return DELTA_RS if paths.count(DELTA_RS) * 2 >= len(paths) and DELTA_RS in paths else DELTA_SPARK
