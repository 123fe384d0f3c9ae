"""Measure the latencies of an object store or a catalog with the requests of commits.

A probe writes objects with unique names and removes them at its end, also after an error or Ctrl-C. It records each name before it
writes the object. obstore and PyIceberg read the credentials from the environment. The probe never writes credentials.
"""

from __future__ import annotations

import os
import re
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from endive.calibrate import InputError
from endive.calibrate.measurements import Sample

SIZES_BYTES = (4_096, 65_536, 1_048_576)
"""Sizes of a manifest, of a manifest list or small table metadata, and of the table metadata with many snapshots."""
_PREFIX = "endive-probe-"
_MEANINGS = {
    "the credentials have expired": "expiredtoken|token has expired|credentials have expired",
    "the bucket or container does not exist": "nosuchbucket|bucket does not exist|container not found|containernotfound",
    "the credentials were rejected": (
        "invalidaccesskeyid|signaturedoesnotmatch|unauthenticated|code: 401|password authentication failed"
    ),
    "no write permission": "permissiondenied|accessdenied|forbidden|permission denied",
    "no credentials were found in the environment": r"metadata service|credential provider|missing credentials|169\.254",
    "no response from the endpoint": "connection refused|connecterror|failed to resolve|name or service not known",
}
"""Explanations of library errors, each with a pattern. The first match is printed."""


@dataclass(frozen=True)
class Measurement:
    """Measured latency of one request."""

    operation: str
    size_bytes: int
    latency_ms: float


@dataclass
class Probe:
    """Measurements of an object store or a catalog. ``stopped`` is the reason if the time limit ended the probe."""

    measurements: list[Measurement] = field(default_factory=list)
    stopped: str = ""
    clock: Callable[[], float] = time.perf_counter

    def time_request(self, operation: str, size_bytes: int, request: Callable[[], Any]) -> Any:
        """Send a request, record its latency and return its response."""
        begin = self.clock()
        response = request()
        self.measurements.append(Measurement(operation, size_bytes, 1e3 * (self.clock() - begin)))
        return response

    def time_rejection(self, size_bytes: int, request: Callable[[], Any], refusal: type[Exception], otherwise: str) -> None:
        """Send a conditional request that must be rejected, and record its latency.

        Args:
            size_bytes: Size of the object.
            request: Function that sends the request.
            refusal: Exception that the library raises if the request is rejected as expected.
            otherwise: Error message if the request succeeds.

        Raises:
            InputError: If the request succeeds.
        """

        def rejected() -> None:
            with suppress(refusal):
                request()
                raise InputError(otherwise)

        self.time_request("failed_cas", size_bytes, rejected)

    def samples(self) -> list[Sample]:
        """Return the measured latencies of each operation."""
        found = []
        for name in sorted({each.operation for each in self.measurements}):
            own = [each for each in self.measurements if each.operation == name]
            sizes = np.array([each.size_bytes for each in own], np.float64)
            found.append(Sample(name, np.array([each.latency_ms for each in own]), sizes))
        return found


class Target(ABC):
    """Object store or catalog that a probe measures."""

    name: str

    @abstractmethod
    def plan(self, count: int) -> list[str]:
        """Describe the requests of a probe with ``count`` rounds, so that the user can confirm them."""

    @abstractmethod
    def prepare(self) -> None:
        """Create the objects or tables that all rounds use."""

    @abstractmethod
    def round(self, probe: Probe) -> None:
        """Send one request of each kind, and record the latencies."""

    @abstractmethod
    def clean(self) -> list[str]:
        """Remove everything that the probe has created, and return the names of what could not be removed."""


def run_probe(target: Target, count: int, seconds: float, clock: Callable[[], float] = time.perf_counter) -> Probe:
    """Measure an object store or a catalog, and remove all test objects.

    Args:
        target: Object store or catalog.
        count: Number of rounds.
        seconds: Time limit.
        clock: Function that returns the time in seconds.

    Raises:
        InputError: If a request fails, or test objects cannot be removed.
    """
    probe = Probe(clock=clock)
    deadline = clock() + seconds
    with _clean_after(target):
        target.prepare()
        for done in range(count):
            if clock() > deadline:
                probe.stopped = f"stopped after {seconds:g} s and {done} of {count} rounds"
                break
            target.round(probe)
    return probe


@contextmanager
def _clean_after(target: Target) -> Iterator[None]:
    """Remove all test objects at the end of the block, and convert exceptions of libraries to InputError."""
    try:
        try:
            yield
        finally:
            left = target.clean()
            if left:
                raise InputError(f"{target.name}: the test objects could not be deleted; please delete {', '.join(left)}")
    except InputError:
        raise
    except Exception as error:  # libraries raise exceptions of many types
        raise InputError(f"{target.name}: {explained(error)}") from None


def explained(error: BaseException) -> str:
    """Return a sentence that explains a library's exception, without credentials."""
    kind = type(error).__name__
    text = without_secrets(str(error).strip().splitlines()[0] if str(error).strip() else kind)[:300]
    lowered = f"{kind} {error}".lower()
    meaning = next((meaning for meaning, marks in _MEANINGS.items() if re.search(marks, lowered)), "the probe failed")
    return f"{meaning} ({kind}: {text})"


class StoreTarget(Target):
    """Object store or local directory, which the probe accesses with obstore."""

    def __init__(self, url: str, sizes_bytes: Sequence[int] = SIZES_BYTES) -> None:
        self.name = without_secrets(url)
        self._sizes = tuple(sizes_bytes)
        self._folder = f"{_PREFIX}{uuid.uuid4().hex[:12]}"
        self._made: list[str] = []
        self._written: set[str] = set()
        self._local = "://" not in url
        self._store = _open_store(url)
        self._pointer: Any = None
        self._round = 0

    def plan(self, count: int) -> list[str]:
        """Describe the objects that the probe writes, reads and deletes."""
        total = count * (2 * len(self._sizes) + 2)
        conditional = "created if absent" if self._local else "swapped by etag"
        sizes = ", ".join(f"{size // 1024} KiB" for size in self._sizes)
        return [
            f"writes objects of {sizes} to {self.name.rstrip('/')}/{self._folder}, and reads these objects",
            f"makes conditional writes ({conditional}), including writes that the object store must reject",
            f"sends at most {total:,} requests, and creates at most {count * len(self._sizes) + count + 1:,} "
            f"objects, which it deletes at the end",
        ]

    def prepare(self) -> None:
        """Write the object for compare-and-swap."""
        if not self._local:
            key = self._key("pointer")
            self._pointer = self._store.put(key, b"-" * 256)
            self._written.add(key)

    def round(self, probe: Probe) -> None:
        """Write and read an object of each size, then make one successful and one rejected conditional write."""
        self._round += 1
        for size in self._sizes:
            key = self._key(f"{size}-{self._round}")
            content = b"e" * size
            probe.time_request("write", size, partial(self._store.put, key, content))
            self._written.add(key)
            probe.time_request("read", size, partial(self._read, key))
        if self._local:
            self._create(probe)
        else:
            self._swap(probe)

    def _read(self, key: str) -> Any:
        return self._store.get(key).bytes()

    def _swap(self, probe: Probe) -> None:
        """Replace an object on condition that its ETag is unchanged, then send a second write with the outdated ETag."""
        from obstore.exceptions import PreconditionError

        put = partial(self._store.put, f"{self._folder}/pointer", mode={"e_tag": self._pointer["e_tag"]})
        content = f"{self._round:0256d}".encode()  # unique content, because equal contents have equal ETags
        self._pointer = probe.time_request("cas", 256, partial(put, content))
        otherwise = f"{self.name}: the store overwrote an object whose ETag had changed, so it does not support conditional writes"
        probe.time_rejection(256, partial(put, b"x" * 256), PreconditionError, otherwise)

    def _create(self, probe: Probe) -> None:
        """Create an object on condition that it does not exist, then send a second write with the same condition."""
        from obstore.exceptions import AlreadyExistsError

        key = self._key(f"pointer-{self._round}")
        put = partial(self._store.put, key, mode="create")
        probe.time_request("cas", 256, partial(put, b"1" * 256))
        self._written.add(key)
        otherwise = f"{self.name}: the store overwrote an existing file, so it does not support conditional writes"
        probe.time_rejection(256, partial(put, b"2" * 256), AlreadyExistsError, otherwise)

    def _key(self, name: str) -> str:
        """Record the name of a test object, and return its key."""
        key = f"{self._folder}/{name}"
        self._made.append(key)
        return key

    def clean(self) -> list[str]:
        """Delete all test objects, and return the keys of the objects that could not be deleted."""
        left = []
        for key in self._made:
            try:
                self._store.delete(key)
            except FileNotFoundError:
                continue
            except Exception:
                if key in self._written:
                    left.append(key)
        if self._local:
            with suppress(OSError):
                (Path(self._store.prefix or ".") / self._folder).rmdir()
        return left


def _open_store(url: str) -> Any:
    try:
        from obstore.store import LocalStore, from_url
    except ImportError:
        raise InputError(f"{url}: probing a store needs obstore: `pip install 'endive[probe]'`") from None
    if "://" not in url:
        path = Path(url)
        if not path.is_dir():
            raise InputError(f"{url}: no such directory; pass s3://, gs://, az:// or an existing directory")
        return LocalStore(path.resolve())
    limits: Any = {"timeout": "30s", "connect_timeout": "5s"}
    if any(os.environ.get(f"{cloud}_ALLOW_HTTP", "").lower() in ("1", "true") for cloud in ("AWS", "AZURE", "GOOGLE")):
        limits["allow_http"] = True  # options take precedence over environment variables
    try:
        return from_url(url, client_options=limits, retry_config={"max_retries": 0})
    except Exception as error:
        raise InputError(f"{without_secrets(url)}: {explained(error)}") from None


class CatalogTarget(Target):
    """Iceberg catalog, in which the probe loads and changes a temporary table with PyIceberg."""

    def __init__(self, name: str) -> None:
        self.name = f"catalog {name!r}"
        self._catalog = _open_catalog(name)
        self._namespace = f"endive_probe_{uuid.uuid4().hex[:12]}"
        self._identifier = f"{self._namespace}.t"
        self._made: list[str] = []
        self._round = 0

    def plan(self, count: int) -> list[str]:
        """Describe the table that the probe creates, changes and drops."""
        return [
            f"creates the namespace {self._namespace} with an empty table, loads the table, and commits table properties",
            "makes commits that the catalog must reject",
            f"sends at most {3 * count:,} requests, and drops the table and the namespace at the end",
        ]

    def prepare(self) -> None:
        """Create a temporary namespace with a table."""
        from pyiceberg.schema import Schema
        from pyiceberg.types import LongType, NestedField

        self._made.append(self._namespace)
        self._catalog.create_namespace(self._namespace)
        self._made.append(self._identifier)
        self._catalog.create_table(self._identifier, Schema(NestedField(1, "id", LongType(), required=False)))

    def round(self, probe: Probe) -> None:
        """Load the table, commit a property, and make a commit that the catalog must reject."""
        from pyiceberg.exceptions import CommitFailedException
        from pyiceberg.table.update import AssertRefSnapshotId, AssertTableUUID, SetPropertiesUpdate

        self._round += 1
        table = probe.time_request("read", 0, lambda: self._catalog.load_table(self._identifier))
        update = SetPropertiesUpdate(updates={"round": str(self._round)})
        is_same = AssertTableUUID(uuid=table.metadata.table_uuid)
        probe.time_request("cas", 0, lambda: self._catalog.commit_table(table, (is_same,), (update,)))
        moved = AssertRefSnapshotId.model_validate({"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 1})
        commit = partial(self._catalog.commit_table, table, (moved,), (update,))
        probe.time_rejection(
            0, commit, CommitFailedException, f"{self.name}: the catalog accepted a commit whose requirement was not met"
        )

    def clean(self) -> list[str]:
        """Drop the table, its metadata files and the namespace, and return the names of what could not be dropped."""
        from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

        left = []
        for name in reversed(self._made):
            try:
                if name == self._identifier:
                    self._drop_table()
                else:
                    self._catalog.drop_namespace(name)
            except (NoSuchTableError, NoSuchNamespaceError):
                continue
            except Exception:
                left.append(name)
        with suppress(Exception):
            self._catalog.close()
        return left

    def _drop_table(self) -> None:
        """Drop the table, and delete the metadata files that the catalog did not purge."""
        table = self._catalog.load_table(self._identifier)
        files = [table.metadata_location, *(entry.metadata_file for entry in table.metadata.metadata_log)]
        try:
            self._catalog.purge_table(self._identifier)
        except Exception:
            self._catalog.drop_table(self._identifier)
        for location in files:
            with suppress(Exception):
                table.io.delete(location)


def _open_catalog(name: str) -> Any:
    try:
        from pyiceberg.catalog import load_catalog
    except ImportError:
        raise InputError(f"{name}: probing a catalog needs PyIceberg: `pip install 'endive[probe]'`") from None
    from endive.calibrate.sources import catalog_properties

    try:
        return load_catalog(name, **catalog_properties(name))
    except Exception as error:
        raise InputError(f"catalog {name!r}: {explained(error)}") from None


def open_target(target: str) -> Target:
    """Return the object store at a URL or directory, or the catalog with this name in PyIceberg's configuration."""
    if "://" in target or "/" in target or Path(target).exists():
        return StoreTarget(target)
    return CatalogTarget(target)


_NAMES = re.compile(r"SECRET|TOKEN|PASSWORD|PASSWD|CREDENTIAL|ACCESS_KEY|ACCOUNT_KEY|SAS|PRIVATE|_URI$|_URL$", re.IGNORECASE)
_USERINFO = re.compile(r"(?<=://)[^/@\s]+@")
_SIGNED = re.compile(r"(?i)((?:x-amz-[a-z-]+|sig|signature|authorization|awsaccesskeyid)=)[^&\s\"']+")
_SHORTEST = 6


def without_secrets(text: str) -> str:
    """Replace credentials in a text by ``***``: secret environment variables, user names in URLs, and signatures."""
    text = _SIGNED.sub(r"\1***", _USERINFO.sub("***@", text))
    for name, value in os.environ.items():
        if len(value) >= _SHORTEST and _NAMES.search(name) and value in text and not _is_plain_address(name, value):
            text = text.replace(value, "***")
    return text


def _is_plain_address(name: str, value: str) -> bool:
    """Return whether an environment variable contains a URL without a user name."""
    return bool(re.search(r"_UR[IL]$|ENDPOINT", name)) and "@" not in value
