"""Serve the operations of Iceberg's REST API that writers use, with the queue and the service times of a configuration."""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

from endive.arithmetic.costs import BYTES_PER_MIB
from endive.lab.behavior import Behavior, Draws
from endive.lab.exchange import (
    CATALOG,
    COMMIT,
    LOAD,
    Event,
    Exchange,
    Gate,
    Intention,
    Reply,
    Request,
    match_credential,
    pass_through,
    wait_until,
)
from endive.lab.table_catalog import CatalogError, Commit, Identifier, Namespace, TableCatalog, TableState, name_of, parse_commit

REPORT = "report"
_SEPARATOR = "\x1f"
_MOST_KEYS = 10_000
"""Maximum number of stored idempotency keys."""
_ENDPOINTS = (
    "GET namespaces",
    "POST namespaces",
    "GET namespaces/{namespace}",
    "HEAD namespaces/{namespace}",
    "DELETE namespaces/{namespace}",
    "POST namespaces/{namespace}/properties",
    "GET namespaces/{namespace}/tables",
    "POST namespaces/{namespace}/tables",
    "POST namespaces/{namespace}/register",
    "GET namespaces/{namespace}/tables/{table}",
    "HEAD namespaces/{namespace}/tables/{table}",
    "POST namespaces/{namespace}/tables/{table}",
    "DELETE namespaces/{namespace}/tables/{table}",
    "POST namespaces/{namespace}/tables/{table}/metrics",
    "POST tables/rename",
    "POST transactions/commit",
)


@dataclass(frozen=True, slots=True)
class _Served:
    """Response to a request, with the values for the recording."""

    reply: Reply
    operation: str
    target: str = ""
    version: int = 0
    size_bytes: int = 0
    snapshot_id: int | None = None
    detail: str = ""
    change: str = ""


def _error(status: int, code: str, message: str, headers: tuple[tuple[str, str], ...] = ()) -> Reply:
    """Return an error response in the format of Iceberg's REST specification."""
    body = json.dumps({"error": {"message": message, "type": code, "code": status}}).encode()
    return Reply(status, body, (("content-type", "application/json"), *headers))


class RestApi:
    """REST catalog with simulated network latency, queue and service times.

    Args:
        catalog: Namespaces and tables.
        behavior: Latencies, queue and failures.
        tokens: Names of the clients by bearer token.
        table_config: Function that returns the properties of a table for a client.
        report: Function that receives the metrics reports of clients.
        gate: Function that can delay a request before the lab processes it.
    """

    service = CATALOG
    most_bytes = 16 * 2**20
    refusal = staticmethod(_error)

    def __init__(
        self,
        catalog: TableCatalog,
        behavior: Behavior,
        tokens: Mapping[str, str],
        table_config: Callable[[str], Mapping[str, str]],
        report: Callable[[dict[str, Any]], None],
        gate: Gate = pass_through,
    ) -> None:
        self._catalog = catalog
        self._settings = behavior.service
        self._linearization = behavior.linearization if behavior.catalog is not None else 1.0
        self._draws = Draws(behavior)
        self._tokens = {f"Bearer {token}": client for token, client in tokens.items()}
        self._config = table_config
        self._gate = gate
        self._report = report
        self._busy = 0
        self._waiting: list[asyncio.Future[None]] = []
        self._locks: dict[Identifier, asyncio.Lock] = {}
        self._keys: OrderedDict[str, asyncio.Future[_Served]] = OrderedDict()

    def identify(self, request: Request) -> str | None:
        """Return the name of the client of a bearer token, or None if the token is invalid."""
        return match_credential(request.headers.get("authorization", ""), self._tokens)

    async def answer(self, request: Request) -> Exchange:
        """Process a request, and return its response when the response is due."""
        operation = _name(request)
        await self._gate(Intention(request.client, CATALOG, operation, request.path, operation == COMMIT))
        request = replace(request, arrived_s=max(request.arrived_s, asyncio.get_running_loop().time()))
        is_commit = request.method == "POST" and not request.path.endswith("/metrics") and "/tables" in request.path
        fate = self._draws.failures(is_commit=is_commit or request.path.endswith("/transactions/commit"))
        there_ms, back_ms = self._draws.network_ms(), self._draws.network_ms()
        await wait_until(request.arrived_s + there_ms / 1e3)
        if fate.is_failed:
            served, outcome = _Served(_error(403, "ForbiddenException", "The request failed permanently."), operation), "failed"
        elif fate.is_rejected:
            served, outcome = _Served(_error(503, "ServiceUnavailableException", "Try again."), operation), "rejected"
        elif self._is_full():
            wait_s = max(1, round(self._settings.retry_after_ms / 1e3))
            reply = _error(429, "TooManyRequestsException", "The queue is full.", (("retry-after", str(wait_s)),))
            served, outcome = _Served(reply, operation), "rejected"
        else:
            served = await self._serve_once(request)
            status = served.reply.status
            outcome = "ok" if status < 400 else "conflict" if status == 409 else "refused"
        await asyncio.sleep((back_ms + self._transfer_ms(served) + fate.success_ms) / 1e3)
        event = Event(
            CATALOG,
            served.operation,
            served.target or request.path[:200],
            served.reply.status,
            "lost" if fate.is_lost else outcome,
            served.version,
            served.size_bytes,
            served.detail,
            served.snapshot_id,
            served.change,
        )
        return Exchange(served.reply, event, fate.is_lost)

    def _transfer_ms(self, served: _Served) -> float:
        """Return the time that the response to a load takes to transfer the table metadata, in ms."""
        return self._settings.transfer_ms_per_mib * served.size_bytes / BYTES_PER_MIB if served.operation == LOAD else 0.0

    async def _serve_once(self, request: Request) -> _Served:
        """Process a request only once: a further request with the same idempotency key gets the first response."""
        key = request.headers.get("idempotency-key")
        if not key or request.method not in ("POST", "DELETE"):
            return await self._serve(request)
        known = self._keys.get(key)
        if known is not None:
            served = await asyncio.shield(known)
            async with self._worker():
                await asyncio.sleep(self._draws.commit_ms()[1] / 1e3)
            return served
        self._keys[key] = asyncio.get_running_loop().create_future()
        while len(self._keys) > _MOST_KEYS:
            self._keys.popitem(last=False)
        first = self._keys[key]
        try:
            served = await self._serve(request)
        except BaseException:
            self._keys.pop(key, None)
            first.cancel()
            raise
        first.set_result(served)
        return served

    async def _serve(self, request: Request) -> _Served:
        try:
            return await self._route(request)
        except CatalogError as error:
            return _Served(_error(error.status, error.kind, str(error)), _name(request))

    async def _route(self, request: Request) -> _Served:
        head, *parts = request.path.strip("/").split("/")
        if head != "v1" or not parts:
            raise _not_found(request)
        method = request.method
        match (method, *parts):
            case ("GET", "config"):
                return _Served(_json(self._configuration()), "config")
            case ("POST", "transactions", "commit"):
                return await self._commit(_commits(_object(request)), is_transaction=True)
            case ("POST", "namespaces", namespace, "tables", table):
                identifier = (_namespace(namespace), table)
                return await self._commit([parse_commit(_object(request), identifier)], is_transaction=False)
            case ("POST", "namespaces", namespace, "tables", table, "metrics"):
                self._report(_object(request))
                return _Served(Reply(204), REPORT, name_of((_namespace(namespace), table)))
            case ("GET" | "HEAD", *_):
                async with self._worker():
                    await asyncio.sleep(self._draws.load_ms() / 1e3)
                    return self._read(request, parts)
            case _:
                async with self._worker():
                    await asyncio.sleep(self._draws.commit_ms()[0] / 1e3)
                    return self._change(request, parts)

    def _read(self, request: Request, parts: Sequence[str]) -> _Served:
        catalog, is_head = self._catalog, request.method == "HEAD"
        match parts:
            case ["namespaces"]:
                parent = request.query.get("parent")
                return _Served(_json({"namespaces": catalog.namespaces(_namespace(parent) if parent else ())}), "list")
            case ["namespaces", given]:
                name = _namespace(given)
                properties = catalog.namespace(name)
                reply = Reply(204) if is_head else _json({"namespace": name, "properties": properties})
                return _Served(reply, "namespace", ".".join(name))
            case ["namespaces", given, "tables"]:
                name = _namespace(given)
                tables = [{"namespace": name, "name": table} for table in catalog.tables(name)]
                return _Served(_json({"identifiers": tables}), "list", ".".join(name))
            case ["namespaces", given, "tables", table]:
                identifier = (_namespace(given), table)
                state = catalog.table(identifier)
                if is_head:
                    return _Served(Reply(204), "exists", name_of(identifier), state.version)
                reply = self._table_reply(state, request)
                return _Served(reply, LOAD, name_of(identifier), state.version, len(state.content))
        raise _not_found(request)

    def _change(self, request: Request, parts: Sequence[str]) -> _Served:
        catalog = self._catalog
        match (request.method, *parts):
            case ("POST", "namespaces"):
                given = _object(request)
                name, properties = tuple(_texts(given, "namespace")), _properties(given, "properties")
                catalog.create_namespace(name, properties)
                return _Served(_json({"namespace": name, "properties": properties}), "create_namespace", ".".join(name))
            case ("DELETE", "namespaces", given_name):
                catalog.drop_namespace(_namespace(given_name))
                return _Served(Reply(204), "drop_namespace")
            case ("POST", "namespaces", given_name, "properties"):
                given = _object(request)
                changed = catalog.update_namespace(_namespace(given_name), _texts(given, "removals"), _properties(given, "updates"))
                return _Served(_json(changed), "update_namespace")
            case ("POST", "namespaces", given_name, "tables"):
                state, staged = catalog.create_table(_namespace(given_name), _object(request))
                return _Served(self._table_reply(state, request), "stage" if staged else "create", state.metadata.location)
            case ("POST", "namespaces", given_name, "register"):
                state = catalog.register_table(_namespace(given_name), _object(request))
                return _Served(self._table_reply(state, request), "register", state.metadata.location)
            case ("DELETE", "namespaces", given_name, "tables", table):
                identifier = (_namespace(given_name), table)
                catalog.drop_table(identifier, purge=request.query.get("purgeRequested", "").lower() == "true")
                return _Served(Reply(204), "drop", name_of(identifier))
            case ("POST", "tables", "rename"):
                given = _object(request)
                catalog.rename_table(_identifier(given.get("source")), _identifier(given.get("destination")))
                return _Served(Reply(204), "rename")
        raise _not_found(request)

    async def _commit(self, commits: Sequence[Commit], *, is_transaction: bool) -> _Served:
        """Commit to tables. Check the requirements at the start of the service and when the commit takes effect."""
        first = commits[0]
        target = ",".join(name_of(commit.identifier) for commit in commits)
        try:
            async with self._worker(), self._lock([commit.identifier for commit in commits]):
                commit_ms, check_ms = self._draws.commit_ms()
                started_s = asyncio.get_running_loop().time()
                try:
                    self._catalog.check(commits)
                except CatalogError:
                    await wait_until(started_s + check_ms / 1e3)
                    raise
                if self._settings.writes_metadata:
                    commit_ms += sum(self._draws.metadata_write_ms(self._size(commit.identifier)) for commit in commits)
                await wait_until(started_s + commit_ms * self._linearization / 1e3)
                states = self._catalog.commit(commits)
                await wait_until(started_s + commit_ms / 1e3)
        except CatalogError as error:
            reply = _error(error.status, error.kind, str(error))
            return _Served(reply, COMMIT, target, snapshot_id=first.snapshot_id, detail=first.operation, change=first.change)
        state = states[first.identifier]
        reply = Reply(204) if is_transaction else _json_bytes(_table_body(state))
        return _Served(reply, COMMIT, target, state.version, len(state.content), first.snapshot_id, first.operation, first.change)

    def _size(self, identifier: Identifier) -> int:
        found = self._catalog.find(identifier)
        return 0 if found is None else len(found.content)

    def _is_full(self) -> bool:
        limit = self._settings.queue_limit
        return limit is not None and 0 < self._settings.workers <= self._busy and len(self._waiting) >= limit

    @asynccontextmanager
    async def _worker(self) -> AsyncIterator[None]:
        """Hold a worker of the catalog while the block runs. Requests get workers in order of arrival."""
        if 0 < self._settings.workers <= self._busy:
            turn = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                if turn in self._waiting:
                    self._waiting.remove(turn)
                else:
                    self._leave()
                raise
        else:
            self._busy += 1
        try:
            yield
        finally:
            self._leave()

    def _leave(self) -> None:
        """Pass the worker on to the request that has waited longest."""
        if self._waiting:
            self._waiting.pop(0).set_result(None)
        else:
            self._busy -= 1

    @asynccontextmanager
    async def _lock(self, identifiers: Sequence[Identifier]) -> AsyncIterator[None]:
        """Hold the locks of the tables while the block runs, if the catalog locks tables."""
        if self._settings.lock != "table":
            yield
            return
        locks = [self._locks.setdefault(identifier, asyncio.Lock()) for identifier in sorted(identifiers)]
        for lock in locks:
            await lock.acquire()
        try:
            yield
        finally:
            for lock in locks:
                lock.release()

    def _table_reply(self, state: TableState, request: Request) -> Reply:
        return _json_bytes(_table_body(state, self._config(request.client)))

    def _configuration(self) -> dict[str, Any]:
        endpoints = [f"{method} /v1/{{prefix}}/{path}" for method, _, path in (each.partition(" ") for each in _ENDPOINTS)]
        return {"defaults": {}, "overrides": {}, "endpoints": endpoints, "idempotency-key-lifetime": "PT30M"}


def _table_body(state: TableState, config: Mapping[str, str] | None = None) -> bytes:
    parts = [] if not state.location else [b'"metadata-location":' + json.dumps(state.location).encode()]
    parts.append(b'"metadata":' + state.content)
    if config is not None:
        parts.append(b'"config":' + json.dumps(config).encode())
    return b"{" + b",".join(parts) + b"}"


def _name(request: Request) -> str:
    """Return the operation of a request for the recording, determined by its method and path."""
    parts = request.path.strip("/").split("/")
    is_table = len(parts) == 5 and parts[3] == "tables"
    if (is_table and request.method == "POST") or parts[-2:] == ["transactions", "commit"]:
        return COMMIT
    return LOAD if is_table and request.method == "GET" else request.method.lower()


def _namespace(text: str) -> Namespace:
    return tuple(text.split(_SEPARATOR))


def _identifier(given: Any) -> Identifier:
    if not isinstance(given, dict) or not isinstance(given.get("name"), str) or not given.get("namespace"):
        raise CatalogError(400, "BadRequestException", "A table has a namespace and a name.")
    return tuple(_texts(given, "namespace")), given["name"]


def _texts(given: Mapping[str, Any], key: str) -> list[str]:
    found = given.get(key) or []
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise CatalogError(400, "BadRequestException", f"{key} must be a list of strings.")
    return found


def _properties(given: Mapping[str, Any], key: str) -> dict[str, str]:
    found = given.get(key) or {}
    if not isinstance(found, dict) or not all(isinstance(each, str) for each in found.values()):
        raise CatalogError(400, "BadRequestException", f"{key} must be an object of strings.")
    return found


def _object(request: Request) -> dict[str, Any]:
    try:
        given = json.loads(request.body)
    except (ValueError, RecursionError):
        raise CatalogError(400, "BadRequestException", "The body is not JSON.") from None
    if not isinstance(given, dict):
        raise CatalogError(400, "BadRequestException", "The body is not a JSON object.")
    return given


def _commits(given: dict[str, Any]) -> list[Commit]:
    changes = given.get("table-changes")
    if not isinstance(changes, list) or not changes:
        raise CatalogError(400, "BadRequestException", "A transaction has table-changes.")
    return [parse_commit(change) for change in changes]


def _not_found(request: Request) -> CatalogError:
    return CatalogError(404, "NotFoundException", f"The lab does not support {request.method} {request.path[:200]}.")


def _json(content: Any) -> Reply:
    return _json_bytes(json.dumps(content).encode())


def _json_bytes(content: bytes) -> Reply:
    return Reply(200, content, (("content-type", "application/json"),))
