"""Serve the operations of the S3 API that clients of table formats use."""

from __future__ import annotations

import asyncio
import re
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from email.utils import formatdate
from typing import Literal
from urllib.parse import quote, unquote
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from endive.lab.behavior import Behavior, Draws, Fate
from endive.lab.exchange import STORE, Event, Exchange, Gate, Intention, Reply, Request, match_credential, pass_through, wait_until
from endive.lab.objects import MOST_PARTS, Condition, Listing, ObjectStore, StoredObject, StoreError, check_key

_CREDENTIAL = re.compile(r"Credential=([^/,\s]{1,128})/")
_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")
_MOST_KEYS = 1000
_MOST_XML_BYTES = 4 * 2**20
_NAMESPACE = "http://s3.amazonaws.com/doc/2006-03-01/"
Kind = Literal["read", "write", "conditional"]


@dataclass(frozen=True, slots=True)
class _Done:
    """Response to a request, with the version and the size of the object for the recording."""

    reply: Reply
    version: int = 0
    size_bytes: int = 0


@dataclass(frozen=True, slots=True)
class _Plan:
    """Parsed request: S3 operation, object, size, and the function that reads or changes the object."""

    operation: str
    bucket: str
    key: str
    kind: Kind
    size_bytes: int
    effect: Callable[[], _Done]
    condition: str = ""


def _xml(body: str, status: int = 200) -> Reply:
    content = f'<?xml version="1.0" encoding="UTF-8"?>\n{body}'.encode("utf-8", "replace")
    return Reply(status, content, (("content-type", "application/xml"),))


def _error(status: int, code: str, message: str) -> Reply:
    """Return an error response in the format of S3."""
    return _xml(f"<Error><Code>{code}</Code><Message>{escape(message)}</Message></Error>", status)


class S3Api:
    """Object store with the S3 API and simulated latencies.

    Args:
        store: Objects.
        behavior: Latencies and failures.
        access_keys: Names of the clients by access key.
        gate: Function that can delay a request before the lab processes it.
        most_bytes: Maximum size of a request body.
    """

    service = STORE
    refusal = staticmethod(_error)

    def __init__(
        self,
        store: ObjectStore,
        behavior: Behavior,
        access_keys: Mapping[str, str],
        gate: Gate = pass_through,
        most_bytes: int = 256 * 2**20,
    ) -> None:
        self.most_bytes = most_bytes
        self._store = store
        self._draws = Draws(behavior)
        self._access_keys = access_keys
        self._gate = gate
        self._writes_per_s = behavior.object_writes_per_s
        self._next_write_s: dict[tuple[str, str], float] = {}

    def identify(self, request: Request) -> str | None:
        """Return the name of the client of an access key, or None if the key is invalid. The signature is not checked."""
        given = _CREDENTIAL.search(request.headers.get("authorization", ""))
        key = given.group(1) if given else request.query.get("X-Amz-Credential", "").partition("/")[0]
        return match_credential(key, self._access_keys)

    async def answer(self, request: Request) -> Exchange:
        """Process a request, and return its response when the response is due."""
        try:
            plan = self._plan(request)
        except StoreError as error:
            reply = _error_reply(request, error)
            target = request.path.lstrip("/")[:200]
            return Exchange(reply, Event(STORE, request.method, target, reply.status, "refused", detail=error.code))
        is_commit = plan.kind == "conditional"
        await self._gate(Intention(request.client, STORE, plan.operation, f"{plan.bucket}/{plan.key}", is_commit))
        request = replace(request, arrived_s=max(request.arrived_s, asyncio.get_running_loop().time()))
        fate = self._fate(plan)
        if fate.is_failed:
            await wait_until(request.arrived_s + fate.response_ms(succeeded=False) / 1e3)
            return self._exchange(plan, _Done(_error(403, "AccessDenied", "The request failed permanently.")), "failed", fate)
        if fate.is_rejected or self._is_too_fast(plan, request.arrived_s + fate.effect_ms / 1e3):
            await wait_until(request.arrived_s + fate.response_ms(succeeded=False) / 1e3)
            return self._exchange(plan, _Done(_error(503, "SlowDown", "Reduce the request rate.")), "rejected", fate)
        await wait_until(request.arrived_s + fate.effect_ms / 1e3)
        try:
            done = plan.effect()
        except StoreError as error:
            done = _Done(_error_reply(request, error))
        await wait_until(request.arrived_s + fate.response_ms(succeeded=done.reply.is_success) / 1e3)
        outcome = "ok" if done.reply.is_success else "conflict" if done.reply.status in (409, 412) else "refused"
        return self._exchange(plan, done, outcome, fate)

    def _exchange(self, plan: _Plan, done: _Done, outcome: str, fate: Fate) -> Exchange:
        size = done.size_bytes or (plan.size_bytes if plan.kind != "read" else 0)
        event = Event(
            STORE,
            plan.operation,
            f"{plan.bucket}/{plan.key}".rstrip("/"),
            done.reply.status,
            "lost" if fate.is_lost else outcome,
            done.version,
            size,
            plan.condition,
        )
        return Exchange(done.reply, event, fate.is_lost)

    def _fate(self, plan: _Plan) -> Fate:
        draw = {"read": self._draws.read, "write": self._draws.write, "conditional": self._draws.conditional_write}[plan.kind]
        return draw(plan.key, plan.size_bytes)

    def _is_too_fast(self, plan: _Plan, time_s: float) -> bool:
        """Return whether a write exceeds the maximum write rate of its object."""
        if self._writes_per_s is None or plan.kind == "read" or not plan.key:
            return False
        place = (plan.bucket, plan.key)
        if time_s < self._next_write_s.get(place, 0.0):
            return True
        if len(self._next_write_s) > 100_000:
            self._next_write_s.clear()
        self._next_write_s[place] = time_s + 1.0 / self._writes_per_s
        return False

    def _plan(self, request: Request) -> _Plan:
        bucket, _, key = request.path.lstrip("/" if request.path[:2] != "//" else "").partition("/")
        if request.path.startswith("//"):
            raise StoreError(400, "InvalidBucketName", "The bucket name is empty.")
        if not bucket:
            return _Plan("ListBuckets", "", "", "read", 0, lambda: _Done(self._list_buckets()))
        if not key:
            return self._bucket_plan(request, bucket)
        check_key(key)
        if not self._store.bucket_exists(bucket):
            raise StoreError(404, "NoSuchBucket", "The bucket does not exist.")
        plans = {"GET": self._get, "HEAD": self._head, "PUT": self._put, "DELETE": self._delete, "POST": self._post}
        make = plans.get(request.method)
        if make is None:
            raise _unsupported(request)
        return make(request, bucket, key)

    def _bucket_plan(self, request: Request, bucket: str) -> _Plan:
        query = request.query
        if request.method == "PUT":
            return _Plan("CreateBucket", bucket, "", "write", 0, lambda: self._create_bucket(bucket))
        if not self._store.bucket_exists(bucket):
            raise StoreError(404, "NoSuchBucket", "The bucket does not exist.")
        if request.method == "HEAD":
            return _Plan("HeadBucket", bucket, "", "read", 0, lambda: _Done(Reply(200)))
        if request.method == "POST" and "delete" in query:
            keys = _keys_to_delete(request.body)
            return _Plan("DeleteObjects", bucket, "", "write", 0, lambda: self._delete_objects(bucket, keys))
        if request.method == "GET" and "location" in query:
            body = f'<LocationConstraint xmlns="{_NAMESPACE}">us-east-1</LocationConstraint>'
            return _Plan("GetBucketLocation", bucket, "", "read", 0, lambda: _Done(_xml(body)))
        if request.method == "GET" and "versioning" in query:
            return _Plan("GetBucketVersioning", bucket, "", "read", 0, lambda: _Done(_xml("<VersioningConfiguration/>")))
        if request.method == "GET" and not query.keys() & {"uploads", "versions", "acl", "policy"}:
            name = "ListObjectsV2" if query.get("list-type") == "2" else "ListObjects"
            return _Plan(name, bucket, query.get("prefix", ""), "read", 0, lambda: self._list(bucket, query))
        raise _unsupported(request)

    def _create_bucket(self, bucket: str) -> _Done:
        self._store.create_bucket(bucket)
        return _Done(Reply(200, headers=(("location", f"/{bucket}"),)))

    def _get(self, request: Request, bucket: str, key: str) -> _Plan:
        if request.query.keys() & {"acl", "tagging", "uploadId", "versionId"}:
            raise _unsupported(request)
        found = self._store.find(bucket, key)
        spanned = _span(request.headers.get("range"), found.size) if found is not None else None
        size = 0 if found is None else found.size if spanned is None else max(0, spanned[1] - spanned[0])
        return _Plan("GetObject", bucket, key, "read", size, lambda: self._read(request, bucket, key))

    def _read(self, request: Request, bucket: str, key: str) -> _Done:
        found = self._store.head(bucket, key)
        unchanged = _check_preconditions(request, found)
        if unchanged is not None:
            return _Done(unchanged, found.version)
        span = _span(request.headers.get("range"), found.size)
        if span is None:
            content = self._store.read(bucket, key)
            return _Done(Reply(200, content, _object_headers(found)), found.version, len(content))
        start, end = span
        if start >= found.size:
            raise StoreError(416, "InvalidRange", "The range starts after the end of the object.")
        content = self._store.read(bucket, key, start, end)
        headers = (*_object_headers(found), ("content-range", f"bytes {start}-{end - 1}/{found.size}"))
        return _Done(Reply(206, content, headers), found.version, len(content))

    def _head(self, request: Request, bucket: str, key: str) -> _Plan:
        def effect() -> _Done:
            found = self._store.head(bucket, key)
            unchanged = _check_preconditions(request, found)
            return _Done(unchanged or Reply(200, b"", _object_headers(found), found.size), found.version)

        return _Plan("HeadObject", bucket, key, "read", 0, effect)

    def _put(self, request: Request, bucket: str, key: str) -> _Plan:
        query, headers = request.query, request.headers
        condition = _condition(headers)
        if "x-amz-copy-source" in headers:
            return self._copy(unquote(headers["x-amz-copy-source"]), bucket, key, condition)
        content = _content(request)
        if "uploadId" in query:
            identity, number = query["uploadId"], _number(query.get("partNumber", ""))

            def upload() -> _Done:
                return _Done(_etag_reply(self._store.upload_part(identity, bucket, key, number, content)))

            return _Plan("UploadPart", bucket, key, "write", len(content), upload)
        if query.keys() & {"acl", "tagging"}:
            raise _unsupported(request)
        kind: Kind = "conditional" if condition else "write"
        return _Plan(
            "PutObject", bucket, key, kind, len(content), lambda: self._write(bucket, key, content, condition), condition.name
        )

    def _write(self, bucket: str, key: str, content: bytes, condition: Condition) -> _Done:
        made = self._store.write(bucket, key, content, condition)
        return _Done(_etag_reply(made.etag), made.version, made.size)

    def _copy(self, source: str, bucket: str, key: str, condition: Condition) -> _Plan:
        from_bucket, _, from_key = source.removeprefix("/").partition("/")
        found = self._store.head(from_bucket, from_key)

        def effect() -> _Done:
            made = self._store.write(bucket, key, self._store.read(from_bucket, from_key), condition)
            body = f"<CopyObjectResult><ETag>&quot;{made.etag}&quot;</ETag><LastModified>{_iso(made.modified_s)}</LastModified>"
            return _Done(_xml(body + "</CopyObjectResult>"), made.version, made.size)

        return _Plan("CopyObject", bucket, key, "conditional" if condition else "write", found.size, effect, condition.name)

    def _delete(self, request: Request, bucket: str, key: str) -> _Plan:
        identity = request.query.get("uploadId")

        def effect() -> _Done:
            if identity is None:
                self._store.delete(bucket, key)
            else:
                self._store.abort_upload(identity, bucket, key)
            return _Done(Reply(204))

        return _Plan("DeleteObject" if identity is None else "AbortMultipartUpload", bucket, key, "write", 0, effect)

    def _delete_objects(self, bucket: str, keys: list[str]) -> _Done:
        lines = []
        for key in keys:
            try:
                self._store.delete(bucket, key)
                lines.append(f"<Deleted><Key>{escape(key)}</Key></Deleted>")
            except StoreError as error:
                lines.append(f"<Error><Key>{escape(key)}</Key><Code>{error.code}</Code><Message>{error}</Message></Error>")
        return _Done(_xml(f'<DeleteResult xmlns="{_NAMESPACE}">{"".join(lines)}</DeleteResult>'), size_bytes=len(keys))

    def _post(self, request: Request, bucket: str, key: str) -> _Plan:
        names = f"<Bucket>{escape(bucket)}</Bucket><Key>{escape(key)}</Key>"
        if "uploads" in request.query:

            def start() -> _Done:
                identity = self._store.start_upload(bucket, key)
                tag = "InitiateMultipartUploadResult"
                return _Done(_xml(f'<{tag} xmlns="{_NAMESPACE}">{names}<UploadId>{identity}</UploadId></{tag}>'))

            return _Plan("CreateMultipartUpload", bucket, key, "write", 0, start)
        if "uploadId" not in request.query:
            raise _unsupported(request)
        numbers = _parts(request.body)
        condition = _condition(request.headers)

        def complete() -> _Done:
            made = self._store.complete_upload(request.query["uploadId"], bucket, key, numbers, condition)
            tag = "CompleteMultipartUploadResult"
            body = f'<{tag} xmlns="{_NAMESPACE}">{names}<ETag>&quot;{made.etag}&quot;</ETag></{tag}>'
            return _Done(_xml(body), made.version, made.size)

        return _Plan("CompleteMultipartUpload", bucket, key, "conditional" if condition else "write", 0, complete, condition.name)

    def _list_buckets(self) -> Reply:
        names = "".join(f"<Bucket><Name>{name}</Name></Bucket>" for name in self._store.buckets())
        tag = "ListAllMyBucketsResult"
        return _xml(f'<{tag} xmlns="{_NAMESPACE}"><Buckets>{names}</Buckets></{tag}>')

    def _list(self, bucket: str, query: Mapping[str, str]) -> _Done:
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        token = query.get("continuation-token")
        after = _from_token(token) if token else query.get("start-after", query.get("marker", ""))
        asked = query.get("max-keys", "")
        most = min(_MOST_KEYS, int(asked)) if re.fullmatch("[0-9]{1,9}", asked) else _MOST_KEYS
        page = self._store.list(bucket, prefix, delimiter, after, most) if most else Listing((), (), None)
        named = quote if query.get("encoding-type") == "url" else escape
        lines = [
            f"<Contents><Key>{named(key)}</Key><LastModified>{_iso(each.modified_s)}</LastModified>"
            f"<ETag>&quot;{each.etag}&quot;</ETag><Size>{each.size}</Size><StorageClass>STANDARD</StorageClass></Contents>"
            for key, each in page.objects
        ]
        lines += [f"<CommonPrefixes><Prefix>{named(each)}</Prefix></CommonPrefixes>" for each in page.prefixes]
        if page.next_after is not None:
            token = urlsafe_b64encode(page.next_after.encode()).decode()
            lines.append(f"<NextContinuationToken>{token}</NextContinuationToken>")
            lines.append(f"<NextMarker>{named(page.next_after)}</NextMarker>")
        if "encoding-type" in query:
            lines.append("<EncodingType>url</EncodingType>")
        count = len(page.objects) + len(page.prefixes)
        head = (
            f"<Name>{bucket}</Name><Prefix>{named(prefix)}</Prefix><Delimiter>{named(delimiter)}</Delimiter>"
            f"<MaxKeys>{most}</MaxKeys><KeyCount>{count}</KeyCount>"
            f"<IsTruncated>{'true' if page.next_after is not None else 'false'}</IsTruncated>"
        )
        body = f'<ListBucketResult xmlns="{_NAMESPACE}">{head}{"".join(lines)}</ListBucketResult>'
        return _Done(_xml(body), size_bytes=count)


def _unsupported(request: Request) -> StoreError:
    asked = ", ".join(sorted(request.query)[:5])
    return StoreError(501, "NotImplemented", f"The lab does not support {request.method} {asked}".rstrip() + ".")


def _error_reply(request: Request, error: StoreError) -> Reply:
    reply = _error(error.status, error.code, str(error))
    return Reply(reply.status) if request.method == "HEAD" else reply


def _etag_reply(etag: str) -> Reply:
    return Reply(200, headers=(("etag", f'"{etag}"'),))


def _object_headers(found: StoredObject) -> tuple[tuple[str, str], ...]:
    return (
        ("etag", f'"{found.etag}"'),
        ("last-modified", formatdate(found.modified_s, usegmt=True)),
        ("accept-ranges", "bytes"),
        ("content-type", "application/octet-stream"),
    )


def _iso(time_s: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(time_s)) + f".{int(time_s % 1 * 1000):03d}Z"


def _from_token(token: str) -> str:
    try:
        return urlsafe_b64decode(token.encode()).decode()
    except ValueError:
        raise StoreError(400, "InvalidArgument", "The continuation token is not valid.") from None


def _span(given: str | None, size: int) -> tuple[int, int] | None:
    """Return the start and the end (exclusive) of the range that a request reads, or None for the whole object."""
    match = _RANGE.fullmatch(given.strip()) if given else None
    if match is None or match.group(0) == "bytes=-":
        return None
    first, last = match.groups()
    if not first:
        return max(0, size - int(last)), size
    if last and int(last) < int(first):
        return None
    return int(first), min(size, int(last) + 1) if last else size


def _condition(headers: Mapping[str, str]) -> Condition:
    none = headers.get("if-none-match")
    if none is not None and none.strip() != "*":
        raise StoreError(501, "NotImplemented", "A write with If-None-Match needs the value *.")
    return Condition("*" if none is not None else None, headers.get("if-match"))


def _check_preconditions(request: Request, found: StoredObject) -> Reply | None:
    """Return a response with status 304 if the client has the current version. Raise StoreError if If-Match does not hold."""
    match = request.headers.get("if-match")
    if match is not None and match.strip('" ') not in (found.etag, "*"):
        raise StoreError(412, "PreconditionFailed", "The object was changed.")
    none = request.headers.get("if-none-match")
    if none is not None and none.strip('" ') in (found.etag, "*"):
        return Reply(304, headers=(("etag", f'"{found.etag}"'),))
    return None


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0


def _content(request: Request) -> bytes:
    """Return the content of an upload, without the chunk headers of ``aws-chunked``."""
    signed = request.headers.get("x-amz-content-sha256", "")
    if not signed.startswith("STREAMING-") and "aws-chunked" not in request.headers.get("content-encoding", ""):
        return request.body
    parts: list[bytes] = []
    at = 0
    while True:
        end = request.body.find(b"\r\n", at, at + 200)
        try:
            size = int(request.body[at:end].split(b";")[0], 16) if end >= 0 else -1
        except ValueError:
            size = -1
        if size < 0 or end + 2 + size > len(request.body):
            raise StoreError(400, "IncompleteBody", "The chunks of the body are not complete.")
        if size == 0:
            return b"".join(parts)
        parts.append(request.body[end + 2 : end + 2 + size])
        at = end + 2 + size + 2


def _elements(body: bytes, name: str) -> list[str]:
    """Return the texts of all XML elements with a name. Raise StoreError for XML with a document type or entities."""
    if len(body) > _MOST_XML_BYTES or b"<!" in body:
        raise StoreError(400, "MalformedXML", "The XML is too large or has a document type.")
    try:
        root = ElementTree.fromstring(body)
    except ElementTree.ParseError:
        raise StoreError(400, "MalformedXML", "The body is not XML.") from None
    return [element.text or "" for element in root.iter() if element.tag.rpartition("}")[2] == name]


def _keys_to_delete(body: bytes) -> list[str]:
    keys = _elements(body, "Key")
    if not 1 <= len(keys) <= _MOST_KEYS:
        raise StoreError(400, "MalformedXML", f"A request deletes 1 to {_MOST_KEYS} objects.")
    return keys


def _parts(body: bytes) -> list[int]:
    numbers = [_number(text) for text in _elements(body, "PartNumber")]
    if len(numbers) > MOST_PARTS:
        raise StoreError(400, "MalformedXML", f"An upload has at most {MOST_PARTS} parts.")
    return numbers
