"""Read the history of a table from a metadata file, the ``snapshots`` metadata table, or a catalog configured in PyIceberg."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.fs

from endive.calibrate import InputError
from endive.calibrate.delta_log import is_delta_log, read_delta_log
from endive.calibrate.measurements import read_rows
from endive.calibrate.table_history import Commit, History, TableState, parse_metadata
from endive.input_files import UnreadableError, in_short, parse_json

if TYPE_CHECKING:
    from pyiceberg.manifest import ManifestFile

_MOST_BYTES = 1 << 30
_TABLES = (".parquet", ".pq", ".csv", ".tsv")


def open_history(table: str, catalog: str | None = None) -> History:
    """Read the history of a table.

    ``table`` is the path or URL of a metadata.json or of a Delta table, the path of the ``snapshots`` metadata table as Parquet or
    CSV, or a table's name in a PyIceberg catalog (``catalog``, by default the catalog of PyIceberg's configuration). Raises
    InputError.
    """
    name = table.lower()
    if catalog is None and name.endswith(_TABLES):
        return _from_snapshots_table(Path(table))
    if catalog is None and (Path(table).is_dir() or ("://" in name and ".json" not in name)):
        filesystem, path = _open(table)
        if filesystem is not None and is_delta_log(filesystem, path):
            return read_delta_log(filesystem, path, table)
    if catalog is None and (".json" in name or "/" in name or Path(table).exists()):
        return _with_manifests(parse_metadata(read_bytes(table), table), table)
    return _from_catalog(table, catalog)


def read_bytes(location: str) -> bytes:
    """Read a file that pyarrow's filesystems open: a path, file://, s3://, gs://, abfs://, hdfs://. Raises InputError."""
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
    """Return the filesystem and the path of a location, or None if it cannot be opened."""
    try:
        return open_filesystem(location)
    except (OSError, pa.ArrowException, ValueError):
        return None, location


def open_filesystem(location: str) -> tuple[Any, str]:
    """Return the file system of a path or URI, and the path in it."""
    location = _spelled(location)
    if "://" in location:
        return pa.fs.FileSystem.from_uri(location)  # type: ignore[no-any-return]
    return pa.fs.LocalFileSystem(), str(Path(location).resolve())


def _spelled(location: str) -> str:
    """Return a location with pyarrow's schemes: Hadoop uses other schemes for S3 and for local files."""
    scheme, separator, rest = location.partition("://")
    if separator and scheme in ("s3a", "s3n"):
        return f"s3://{rest}"
    return location.removeprefix("file:") if location.startswith("file:/") and not location.startswith("file://") else location


def _store(location: str) -> str:
    """Return the object store of a location: its scheme, bucket or host, and the options of its URL."""
    scheme, separator, rest = _spelled(location).partition("://")
    if not separator:
        return ""
    options = rest.partition("?")[2]
    store = f"{scheme}://{rest.partition('/')[0]}{'?' if options else ''}{options}"
    return "" if store == "file://" else store


def _first_line(error: BaseException) -> str:
    text = str(error).strip()
    return text.splitlines()[0][:300] if text else type(error).__name__


def _with_manifests(history: History, metadata: str) -> History:
    """Return the history with the sizes from the current manifest list, if the list can be read.

    A list in another store than its ``metadata`` is not read, because an untrusted file must not determine which servers are
    contacted.
    """
    if history.manifest_list is None:
        return history
    if _store(history.manifest_list) != _store(metadata):
        place = history.manifest_list.partition("?")[0][:200]
        note = (
            f"the manifest list ({place}) is in another object store and was not read; "
            "import the metadata file from that store to include it"
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
    except Exception:  # an unreadable list leaves a number unknown, which the import reports
        return history
    return replace(history, state=state)


def _manifests(location: str) -> list[ManifestFile]:
    """Return the manifests of a list."""
    from pyiceberg.io.pyarrow import PyArrowFileIO
    from pyiceberg.manifest import read_manifest_list

    return list(read_manifest_list(PyArrowFileIO().new_input(location)))


def _only_partition(manifest: ManifestFile) -> tuple[bytes | None, ...]:
    """Return the values of the only partition of a manifest; empty if it has no partition or several."""
    fields = manifest.partitions or []
    one = all(field.lower_bound == field.upper_bound for field in fields)
    return tuple(field.lower_bound for field in fields) if one else ()


def _from_catalog(table: str, catalog: str | None) -> History:
    """Load a table through PyIceberg; credentials and addresses are from its configuration."""
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
    """Return PyIceberg's properties of a catalog, read again, because the library reads them only when it is imported."""
    from pyiceberg.utils.config import Config

    config = Config()
    return dict(config.get_catalog_config(name or config.get_default_catalog_name()) or {})


def _from_snapshots_table(path: Path) -> History:
    """Read the ``snapshots`` metadata table of an engine: committed_at, snapshot_id, operation, summary."""
    rows = read_rows(path)
    missing = [name for name in ("committed_at", "snapshot_id") if name not in rows.column_names]
    if missing:
        raise InputError(f"{path} lacks the column {missing[0]!r} of the snapshots metadata table")
    commits = sorted((_row(row, path) for row in rows.to_pylist()), key=lambda commit: commit.timestamp_ms)
    state = TableState(snapshots=len(commits), data_files=commits[-1].count("total-data-files") if commits else None)
    note = "the snapshots metadata table contains neither table properties nor metadata sizes, so defaults are used"
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
