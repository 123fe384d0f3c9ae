"""Store objects with versions, conditional writes, listings and multipart uploads, independently of HTTP.

Objects are stored in memory or in files of a directory. In both cases, names that could refer to a file outside of the directory
are rejected.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import time
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from endive.lab import LabError

MOST_KEY_BYTES = 1024
"""Maximum length of an object name, as in S3."""
_MOST_PART_BYTES = 255
"""Maximum length of a name between slashes, as in file systems."""
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_MOST_BUCKETS = 100
_MOST_UPLOADS = 1_000
MOST_PARTS = 10_000
_PARTIAL = re.compile(r"\.[0-9a-f]{16}\.part")
"""Names of files that are not yet complete."""
IF_NONE_MATCH, IF_MATCH = "if-none-match", "if-match"
EXISTS = "*"
"""Condition of a write: the object must not exist (``If-None-Match: *``)."""


class StoreError(Exception):
    """Error response of the object store: HTTP status, S3 error code, and message."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


@dataclass(frozen=True, slots=True)
class StoredObject:
    """Properties of an object. ``version`` is the number of writes to its name. ``content`` is None if the object is a file."""

    size: int
    etag: str
    modified_s: float
    version: int
    content: bytes | None = None


@dataclass(frozen=True, slots=True)
class Condition:
    """Condition of a write: the object must not exist (``if_none_match``) or must have a given ETag (``if_match``)."""

    if_none_match: Literal["*"] | None = None
    if_match: str | None = None

    @property
    def name(self) -> str:
        """Name of the condition's HTTP header; empty without a condition."""
        return IF_NONE_MATCH if self.if_none_match is not None else IF_MATCH if self.if_match is not None else ""

    def __bool__(self) -> bool:
        """Return whether there is a condition."""
        return self.if_none_match is not None or self.if_match is not None


@dataclass(frozen=True, slots=True)
class Listing:
    """Page of a listing: objects and common prefixes in order of their names, and the name after which the next page starts."""

    objects: tuple[tuple[str, StoredObject], ...]
    prefixes: tuple[str, ...]
    next_after: str | None


@dataclass(slots=True)
class _Upload:
    bucket: str
    key: str
    parts: dict[int, bytes] = field(default_factory=dict)


@dataclass(slots=True)
class _Bucket:
    objects: dict[str, StoredObject] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)
    versions: dict[str, int] = field(default_factory=dict)


class ObjectStore:
    """Object store with buckets, in memory or in a directory.

    Args:
        directory: Directory with a folder for each bucket; None to store objects in memory.
        most_bytes: Maximum total size of objects and unfinished uploads in memory.

    Raises:
        LabError: If the directory cannot be used.
    """

    def __init__(self, directory: Path | None = None, most_bytes: int = 2**30) -> None:
        self._directory = None if directory is None else directory.resolve()
        self._most_bytes = most_bytes
        self._used_bytes = 0
        self._buckets: dict[str, _Bucket] = {}
        self._uploads: dict[str, _Upload] = {}
        if self._directory is not None:
            try:
                self._directory.mkdir(parents=True, exist_ok=True)
                self._scan(self._directory)
            except OSError as error:
                raise LabError(f"{directory} cannot be used for objects: {error}") from None

    @property
    def used_bytes(self) -> int:
        """Total size of the objects and unfinished uploads in memory."""
        return self._used_bytes

    def buckets(self) -> list[str]:
        """Return the names of the buckets."""
        return sorted(self._buckets)

    def create_bucket(self, name: str) -> None:
        """Create a bucket if it does not exist."""
        if not _BUCKET.fullmatch(name) or ".." in name:
            raise StoreError(400, "InvalidBucketName", "The bucket name is not valid.")
        if name not in self._buckets and len(self._buckets) >= _MOST_BUCKETS:
            raise StoreError(400, "TooManyBuckets", f"The lab has at most {_MOST_BUCKETS} buckets.")
        self._buckets.setdefault(name, _Bucket())
        if self._directory is not None:
            (self._directory / name).mkdir(exist_ok=True)

    def bucket_exists(self, name: str) -> bool:
        """Return whether a bucket exists."""
        return name in self._buckets

    def find(self, bucket: str, key: str) -> StoredObject | None:
        """Return the properties of an object, or None if it does not exist."""
        return self._bucket(bucket).objects.get(key)

    def head(self, bucket: str, key: str) -> StoredObject:
        """Return the properties of an object.

        Raises:
            StoreError: If the object does not exist.
        """
        found = self.find(bucket, key)
        if found is None:
            raise StoreError(404, "NoSuchKey", "The object does not exist.")
        return found

    def read(self, bucket: str, key: str, start: int = 0, end: int | None = None) -> bytes:
        """Return the bytes of an object from ``start`` to ``end`` (exclusive)."""
        found = self.head(bucket, key)
        if found.content is not None:
            return found.content[start:end]
        with self._path(bucket, key).open("rb") as file:
            file.seek(start)
            return file.read((found.size if end is None else end) - start)

    def write(self, bucket: str, key: str, content: bytes, condition: Condition = Condition()) -> StoredObject:  # noqa: B008
        """Write an object if the condition holds.

        Raises:
            StoreError: If the condition does not hold, or the object cannot be written.
        """
        return self._put(bucket, key, content, condition, hashlib.md5(content, usedforsecurity=False).hexdigest())

    def _put(self, bucket: str, key: str, content: bytes, condition: Condition, etag: str) -> StoredObject:
        check_key(key)
        held = self._bucket(bucket)
        before = held.objects.get(key)
        _check_condition(before, condition)
        in_memory = self._directory is None or key.endswith("/")
        freed = len(before.content) if before is not None and before.content is not None else 0
        if in_memory:
            self.check_room(len(content) - freed)
        else:
            self._write_file(bucket, key, content)
        version = held.versions.get(key, 0) + 1
        made = StoredObject(len(content), etag, time.time(), version, content if in_memory else None)
        self._used_bytes += (len(content) if in_memory else 0) - freed
        held.versions[key] = version
        held.objects[key] = made
        if before is None:
            insort(held.names, key)
        return made

    def check_room(self, more_bytes: int) -> None:
        """Raise StoreError if ``more_bytes`` do not fit into the memory of the store."""
        if self._used_bytes + more_bytes > self._most_bytes:
            limit = self._most_bytes // 2**20
            raise StoreError(
                507, "InsufficientStorage", f"The objects exceed the limit of {limit} MiB; raise --memory or set --directory."
            )

    def delete(self, bucket: str, key: str) -> bool:
        """Delete an object, and return whether it existed."""
        check_key(key)
        held = self._bucket(bucket)
        found = held.objects.pop(key, None)
        if found is None:
            return False
        del held.names[bisect_left(held.names, key)]
        if found.content is None:
            self._path(bucket, key).unlink(missing_ok=True)
        else:
            self._used_bytes -= len(found.content)
        return True

    def list(self, bucket: str, prefix: str = "", delimiter: str = "", after: str = "", most: int = 1000) -> Listing:
        """Return a page of the objects whose names start with ``prefix`` and sort after ``after``."""
        held = self._bucket(bucket)
        objects: list[tuple[str, StoredObject]] = []
        prefixes: list[str] = []
        place = max(bisect_left(held.names, prefix), bisect_right(held.names, after) if after else 0)
        last = after
        while place < len(held.names) and held.names[place].startswith(prefix):
            name = held.names[place]
            group = _common_prefix(name, prefix, delimiter)
            if group is not None and group <= after:  # the group is on the previous page
                place = bisect_left(held.names, group + chr(0x10FFFF), place)
                continue
            if len(objects) + len(prefixes) >= most:
                return Listing(tuple(objects), tuple(prefixes), last)
            if group is None:
                objects.append((name, held.objects[name]))
                last, place = name, place + 1
            else:
                prefixes.append(group)
                last, place = group, bisect_left(held.names, group + chr(0x10FFFF), place)
        return Listing(tuple(objects), tuple(prefixes), None)

    def start_upload(self, bucket: str, key: str) -> str:
        """Start a multipart upload and return its id."""
        check_key(key)
        self._bucket(bucket)
        if len(self._uploads) >= _MOST_UPLOADS:
            raise StoreError(503, "SlowDown", f"More than {_MOST_UPLOADS} multipart uploads are unfinished.")
        identity = secrets.token_hex(16)
        self._uploads[identity] = _Upload(bucket, key)
        return identity

    def upload_part(self, identity: str, bucket: str, key: str, number: int, content: bytes) -> str:
        """Add a part to a multipart upload, and return the ETag of the part."""
        upload = self._upload(identity, bucket, key)
        if not 1 <= number <= MOST_PARTS:
            raise StoreError(400, "InvalidArgument", f"A part number is between 1 and {MOST_PARTS}.")
        before = len(upload.parts.get(number, b""))
        self.check_room(len(content) - before)
        self._used_bytes += len(content) - before
        upload.parts[number] = content
        return hashlib.md5(content, usedforsecurity=False).hexdigest()

    def complete_upload(
        self,
        identity: str,
        bucket: str,
        key: str,
        numbers: Iterable[int],
        condition: Condition = Condition(),  # noqa: B008
    ) -> StoredObject:
        """Write the object of a multipart upload if the condition holds."""
        upload = self._upload(identity, bucket, key)
        chosen = list(numbers)
        if not chosen or chosen != sorted(set(chosen)) or not upload.parts.keys() >= set(chosen):
            raise StoreError(400, "InvalidPart", "A part is missing or out of order.")
        _check_condition(self.find(bucket, key), condition)
        parts = [upload.parts[number] for number in chosen]
        digest = hashlib.md5(b"".join(hashlib.md5(part, usedforsecurity=False).digest() for part in parts), usedforsecurity=False)
        self.abort_upload(identity, bucket, key)
        return self._put(bucket, key, b"".join(parts), Condition(), f"{digest.hexdigest()}-{len(parts)}")

    def abort_upload(self, identity: str, bucket: str, key: str) -> None:
        """Discard a multipart upload."""
        upload = self._upload(identity, bucket, key)
        self._used_bytes -= sum(map(len, upload.parts.values()))
        del self._uploads[identity]

    def _upload(self, identity: str, bucket: str, key: str) -> _Upload:
        upload = self._uploads.get(identity)
        if upload is None or (upload.bucket, upload.key) != (bucket, key):
            raise StoreError(404, "NoSuchUpload", "The multipart upload does not exist.")
        return upload

    def _bucket(self, name: str) -> _Bucket:
        found = self._buckets.get(name)
        if found is None:
            raise StoreError(404, "NoSuchBucket", "The bucket does not exist.")
        return found

    def _path(self, bucket: str, key: str) -> Path:
        """Return the file of an object. Raise StoreError if a symbolic link points outside of the directory."""
        assert self._directory is not None
        path = self._directory / bucket / key
        if not path.parent.resolve().is_relative_to(self._directory) or path.is_symlink():
            raise StoreError(400, "InvalidArgument", "The object name leads outside of the directory of the lab.")
        return path

    def _write_file(self, bucket: str, key: str, content: bytes) -> None:
        """Write a file atomically."""
        path = self._path(bucket, key)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.is_dir():
                raise IsADirectoryError
            partial = path.with_name(f".{secrets.token_hex(8)}.part")
            partial.write_bytes(content)
            partial.replace(path)
        except (FileExistsError, IsADirectoryError, NotADirectoryError):
            raise StoreError(409, "InvalidRequest", "With --directory, an object and a folder cannot have the same name.") from None

    def _scan(self, root: Path) -> None:
        """Read the names and sizes of existing files. Symbolic links are ignored."""
        for bucket in sorted(root.iterdir()):
            if bucket.is_symlink() or not bucket.is_dir() or not _BUCKET.fullmatch(bucket.name):
                continue
            held = self._buckets[bucket.name] = _Bucket()
            for path in _files(bucket):
                key, status = path.relative_to(bucket).as_posix(), path.stat()
                held.objects[key] = StoredObject(status.st_size, f"{status.st_mtime_ns:032x}", status.st_mtime, 1)
                held.versions[key] = 1
            held.names = sorted(held.objects)


def _files(folder: Path) -> Iterator[Path]:
    for at, _, names in os.walk(folder, followlinks=False):
        for name in names:
            path = Path(at) / name
            if not path.is_symlink() and path.is_file() and not _PARTIAL.fullmatch(name):
                yield path


def _common_prefix(name: str, prefix: str, delimiter: str) -> str | None:
    if not delimiter:
        return None
    end = name.find(delimiter, len(prefix))
    return None if end < 0 else name[: end + len(delimiter)]


def _check_condition(before: StoredObject | None, condition: Condition) -> None:
    if condition.if_none_match == EXISTS and before is not None:
        raise StoreError(412, "PreconditionFailed", "The object exists already.")
    if condition.if_match is not None:
        if before is None:
            raise StoreError(404, "NoSuchKey", "The object does not exist.")
        if condition.if_match.strip('"') != before.etag:
            raise StoreError(412, "PreconditionFailed", "The object was changed.")


def check_key(key: str) -> None:
    """Raise StoreError if an object name is too long, contains control characters, or could point outside of a directory."""
    if len(key.encode()) > MOST_KEY_BYTES:
        raise StoreError(400, "KeyTooLongError", f"An object name has at most {MOST_KEY_BYTES} bytes.")
    parts = key.removesuffix("/").split("/")
    if any(part in ("", ".", "..") or len(part.encode()) > _MOST_PART_BYTES for part in parts) or "\\" in key:
        raise StoreError(400, "InvalidArgument", "The object name has an empty, relative or too long part.")
    if any(character < " " or character == "\x7f" for character in key):
        raise StoreError(400, "InvalidArgument", "The object name has a control character.")
