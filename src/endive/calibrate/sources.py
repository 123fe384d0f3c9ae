"""Read the history of a table from an Iceberg metadata file, the ``snapshots`` metadata table, a catalog, or a Delta log.

PyIceberg loads tables from catalogs. The log of a Delta table is the directory ``_delta_log``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq

from endive.calibrate import InputError
from endive.calibrate.measurements import read_rows
from endive.calibrate.table_history import Commit, History, TableState, parse_metadata
from endive.input_files import UnreadableError, in_short, parse_json

if TYPE_CHECKING:
    from pyiceberg.manifest import ManifestFile

_MOST_BYTES = 1 << 30
_TABLES = (".parquet", ".pq", ".csv", ".tsv")


def open_history(table: str, catalog: str | None = None) -> History:
    """Read the history of a table.

    Args:
        table: Path or URL of a ``metadata.json`` or of a Delta table, path of the ``snapshots`` metadata table (Parquet or CSV), or
            name of a table in a catalog.
        catalog: Catalog in PyIceberg's configuration; None for its default catalog.

    Raises:
        InputError: If the history cannot be read.
    """
    name = table.lower()
    if catalog is None and name.endswith(_TABLES):
        return _from_snapshots_table(Path(table))
    if catalog is None and (Path(table).is_dir() or ("://" in name and ".json" not in name)):
        filesystem, path = _open(table)
        directory = None if filesystem is None else _log_directory(filesystem, path)
        if directory is not None:
            return _read_delta_log(filesystem, directory, table)
    if catalog is None and (".json" in name or "/" in name or Path(table).exists()):
        return _with_manifests(parse_metadata(read_bytes(table), table), table)
    return _from_catalog(table, catalog)


def read_bytes(location: str) -> bytes:
    """Read a file from a path or from a URL of a file system that PyArrow supports, such as ``s3://``.

    Raises:
        InputError: If the file cannot be read, or is larger than 1 GiB.
    """
    try:
        filesystem, path = open_filesystem(location)
        info = filesystem.get_file_info(path)
        if info.type == pa.fs.FileType.NotFound:
            raise InputError(f"{location}: no such file")
        if info.type == pa.fs.FileType.Directory:
            raise InputError(f"{location} is a directory; pass one of its *.metadata.json files, or the directory of a Delta table")
        if info.type == pa.fs.FileType.Unknown and not path.startswith("/dev/fd/"):  # process substitution of a shell
            raise InputError(f"{location} is not a file")
        if info.size is not None and info.size > _MOST_BYTES:
            raise InputError(f"{location} has {info.size:,} bytes; the limit for a metadata file is 1 GiB")
        with filesystem.open_input_stream(path) as file:
            return bytes(file.read(_MOST_BYTES))
    except InputError:
        raise
    except (OSError, pa.ArrowException, ValueError) as error:
        raise InputError(f"{location} cannot be read: {_first_line(error)}") from None


def _open(location: str) -> tuple[Any, str]:
    """Return the file system of a path or URL (None if it cannot be opened), and the path within that file system."""
    try:
        return open_filesystem(location)
    except (OSError, pa.ArrowException, ValueError):
        return None, location


def open_filesystem(location: str) -> tuple[Any, str]:
    """Return the file system of a path or URL, and the path within that file system."""
    location = _normalize_scheme(location)
    if "://" in location:
        return pa.fs.FileSystem.from_uri(location)  # type: ignore[no-any-return]
    return pa.fs.LocalFileSystem(), str(Path(location).resolve())


def _normalize_scheme(location: str) -> str:
    """Return a URL with PyArrow's schemes instead of Hadoop's ``s3a://``, ``s3n://`` and ``file:/``."""
    scheme, separator, rest = location.partition("://")
    if separator and scheme in ("s3a", "s3n"):
        return f"s3://{rest}"
    return location.removeprefix("file:") if location.startswith("file:/") and not location.startswith("file://") else location


def _store(location: str) -> str:
    """Return the part of a URL that identifies the object store: scheme, bucket or host, and options."""
    scheme, separator, rest = _normalize_scheme(location).partition("://")
    if not separator:
        return ""
    options = rest.partition("?")[2]
    store = f"{scheme}://{rest.partition('/')[0]}{'?' if options else ''}{options}"
    return "" if store == "file://" else store


def _first_line(error: BaseException) -> str:
    text = str(error).strip()
    return text.splitlines()[0][:300] if text else type(error).__name__


def _with_manifests(history: History, metadata: str) -> History:
    """Add the numbers and sizes of manifests from the current manifest list, if it can be read.

    A manifest list in a different object store from the metadata file is not read, because an untrusted file must not determine
    which servers are contacted.
    """
    if history.manifest_list is None:
        return history
    if _store(history.manifest_list) != _store(metadata):
        place = history.manifest_list.partition("?")[0][:200]
        note = (
            f"the manifest list ({place}) was not read, because it is in a different object store from the metadata file; to read "
            "it, import the metadata file from that object store"
        )
        return replace(history, notes=(*history.notes, note))
    try:
        size = len(read_bytes(history.manifest_list))
        manifests = _manifests(history.manifest_list)
        deletes = sum(int(each.content) == 1 for each in manifests)
        state = replace(
            history.state,
            manifests=len(manifests) - deletes,
            delete_manifests=deletes,
            manifest_bytes=sum(each.manifest_length for each in manifests) // len(manifests) if manifests else None,
            manifest_list_bytes=size,
            partitions=len({values for each in manifests if (values := _only_partition(each))}) or None,
        )
    except Exception:  # if the list is unreadable, the numbers are unknown, which the import reports
        return history
    return replace(history, state=state)


def _manifests(location: str) -> list[ManifestFile]:
    """Return the manifests in a manifest list."""
    from pyiceberg.io.pyarrow import PyArrowFileIO
    from pyiceberg.manifest import read_manifest_list

    return list(read_manifest_list(PyArrowFileIO().new_input(location)))


def _only_partition(manifest: ManifestFile) -> tuple[bytes | None, ...]:
    """Return the partition values of a manifest that contains a single partition, or an empty tuple for other manifests."""
    fields = manifest.partitions or []
    one = all(field.lower_bound == field.upper_bound for field in fields)
    return tuple(field.lower_bound for field in fields) if one else ()


def _from_catalog(table: str, catalog: str | None) -> History:
    """Load the history of a table from a catalog in PyIceberg's configuration."""
    try:
        from pyiceberg.catalog import load_catalog
    except ImportError:
        raise InputError(f"{table}: reading a table from a catalog needs PyIceberg: `pip install 'endive[iceberg]'`") from None
    if "." not in table:
        raise InputError(f"{table} is neither a file nor a table of a catalog (NAMESPACE.TABLE, such as db.events)")
    try:
        with load_catalog(catalog, **catalog_properties(catalog)) as opened:
            loaded = opened.load_table(table)
        content = loaded.metadata.model_dump_json(by_alias=True).encode()
    except Exception as error:  # catalogs raise exceptions of many types
        name = catalog or "default"
        raise InputError(f"{table} cannot be loaded from catalog {name!r}: {type(error).__name__}: {_first_line(error)}") from None
    return _with_manifests(parse_metadata(content, table), loaded.metadata_location)


def catalog_properties(name: str | None) -> dict[str, Any]:
    """Return the current properties of a catalog in PyIceberg's configuration, which PyIceberg itself reads only on import."""
    from pyiceberg.utils.config import Config

    config = Config()
    return dict(config.get_catalog_config(name or config.get_default_catalog_name()) or {})


def _from_snapshots_table(path: Path) -> History:
    """Read a history from the ``snapshots`` metadata table: committed_at, snapshot_id, operation, summary."""
    rows = read_rows(path)
    missing = [name for name in ("committed_at", "snapshot_id") if name not in rows.column_names]
    if missing:
        raise InputError(f"{path} lacks the column {missing[0]!r} of the snapshots metadata table")
    commits = sorted((_row(row, path) for row in rows.to_pylist()), key=lambda commit: commit.timestamp_ms)
    state = TableState(snapshots=len(commits), data_files=commits[-1].count("total-data-files") if commits else None)
    note = "the snapshots metadata table contains neither table properties nor metadata sizes, so the model uses defaults"
    return History(str(path), tuple(commits), state=state, notes=(note,))


def _row(row: dict[str, Any], path: Path) -> Commit:
    summary = row.get("summary")
    if isinstance(summary, str) and summary.strip():
        try:
            summary = parse_json(summary)
        except UnreadableError:
            raise InputError(f"{path}: summary {summary[:60]!r} is not JSON") from None
    pairs = summary.items() if isinstance(summary, dict) else [] if isinstance(summary, str) else summary or []
    try:
        texts = {str(key): str(value) for key, value in pairs if value is not None}
        identity = int(row["snapshot_id"])
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{path}: row {str(row)[:120]} is not a row of a snapshots metadata table") from None
    operation = row.get("operation") or texts.get("operation", "")
    return Commit(identity, _milliseconds(row["committed_at"], path), str(operation), texts)


def _milliseconds(value: Any, path: Path) -> int:
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value.strip().replace(" UTC", "+00:00"))
        except ValueError:
            raise InputError(f"{path}: committed_at {in_short(repr(value))} is not a time") from None
    if isinstance(value, datetime):
        return int((value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp() * 1000)
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value if value > 10**11 else value * 1000
    raise InputError(f"{path}: committed_at {in_short(repr(value))} is not a time")


LOG = "_delta_log"
DELTA_RS, DELTA_SPARK = "delta-rs", "delta-spark"
"""Protocols of the clients that write Delta tables."""
_ENTRY = re.compile(r"(\d{20})\.json")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\.parquet")
_MOST_ENTRIES = 500_000
_MOST_MS = 253_402_300_799_999  # the year 9999

Action = Mapping[str, Any]


def _read_delta_log(filesystem: pa.fs.FileSystem, directory: str, source: str) -> History:
    """Read a history from the log of a Delta table."""
    entries, checkpoints = _list_log(filesystem, directory, source)
    if not entries:
        raise InputError(f"{source}: {LOG} has no entries (files named NNNNNNNNNNNNNNNNNNNN.json)")
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
        f"the history contains versions {first} to {max(entries)} of the Delta log; commit times are from the clocks of the writers"
    ]
    if without_time:
        notes.append(f"log entries without a timestamp: {without_time}; the import uses the modification time of their files")
    if out_of_order:
        notes.append(f"log entries older than the previous version: {out_of_order}; the import uses the later timestamp")
    if changes_ms:
        notes.append(f"log entries that change no data (creation, properties, VACUUM): {len(changes_ms)}; the model omits them")
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
    """Return the commit protocol of a Delta writer by its ``engineInfo``."""
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
    """Return the entries of a Delta log after its last gap, and the checkpoints, by version."""
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
    """Return the number of data files before a version according to the previous checkpoint; None without a checkpoint."""
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
    """Return the ``commitInfo`` action of a log entry, or an empty one."""
    return next(iter(_all(actions, "commitInfo")), {})


def _time_ms(actions: Iterable[Action]) -> int | None:
    info = _info(actions)
    for key in ("inCommitTimestamp", "timestamp"):
        value = info.get(key)
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST_MS:
            return value
    return None


def _commit(version: int, time_ms: int, actions: list[Action], files: int | None) -> Commit | None:
    """Return a log entry as a commit with Iceberg's operation and summary; None if it changes no data."""
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
    """Return the name of a writer from its ``engineInfo``, without the version."""
    known = (name for name in (DELTA_RS, "spark") if name in info.lower())
    return next(known, re.split(r"[/:\s]", info.strip())[0][:24].lower() or "unknown")


def _client(commits: Iterable[Commit]) -> str:
    """Return the commit protocol of the writers with most commits."""
    paths = [path_of_engine(commit.engine) for commit in commits]
    return DELTA_RS if paths.count(DELTA_RS) * 2 >= len(paths) and DELTA_RS in paths else DELTA_SPARK
