"""Open a lab for clients, with its addresses and credentials and a recording of its requests."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

from endive.catalog import InstantCatalog, ServiceCatalog, ServiceSettings, StoredCatalog
from endive.config.build import build_simulation_config
from endive.config.schema import Document
from endive.lab import LabError
from endive.lab.behavior import Behavior, LabFailures
from endive.lab.client_processes import ClientNames
from endive.lab.exchange import LOOPBACK, Gate, Handler, listen, pass_through, serve_in_thread
from endive.lab.objects import ObjectStore
from endive.lab.recording import Recording
from endive.lab.s3_api import S3Api
from endive.storage import FixedLatency

if TYPE_CHECKING:
    from endive.lab.table_catalog import TableCatalog

BUCKET = "lab"
WAREHOUSE = f"s3://{BUCKET}/warehouse"
CATALOG_NAME = "LAB"
_REGION = "us-east-1"


@dataclass(frozen=True)
class LabSettings:
    """Settings of a lab.

    Attributes:
        behavior: Latencies and failures.
        directory: Directory of the objects; None to store objects in memory.
        memory_bytes: Maximum total size of the objects in memory, and of the bodies of requests in flight.
        request_bytes: Maximum size of a request to the object store.
        store_port: Port of the object store; 0 for any free port.
        catalog_port: Port of the catalog; 0 for any free port.
    """

    behavior: Behavior = field(default_factory=Behavior)
    directory: Path | None = None
    memory_bytes: int = 2**30
    request_bytes: int = 256 * 2**20
    store_port: int = 0
    catalog_port: int = 0


@dataclass(frozen=True)
class Credentials:
    """Access key for the object store and token for the catalog, and the name of the client that uses them."""

    client: str
    access_key: str
    secret_key: str
    token: str


@dataclass(frozen=True)
class Lab:
    """Running lab with its addresses, credentials, objects, tables and recording.

    ``credentials`` contains the credentials of each client by name. Clients without a name share the credentials of the name "".
    The recording identifies these clients by process.
    """

    store_url: str
    catalog_url: str
    credentials: Mapping[str, Credentials]
    store: ObjectStore
    catalog: TableCatalog
    recording: Recording
    loop: asyncio.AbstractEventLoop

    def table_config(self, client: str = "") -> dict[str, str]:
        """Return the properties with which PyIceberg and Iceberg's S3FileIO access the object store."""
        return _table_config(self.store_url, self.credentials[client])

    def catalog_properties(self, client: str = "") -> dict[str, str]:
        """Return the properties with which ``pyiceberg.catalog.load_catalog`` opens the catalog."""
        token = self.credentials[client].token
        return {"type": "rest", "uri": self.catalog_url, "token": token, "warehouse": WAREHOUSE, **self.table_config(client)}

    def environment(self, client: str = "") -> dict[str, str]:
        """Return environment variables with which AWS SDKs, delta-rs, Lance, DuckDB and PyIceberg access the lab."""
        own = self.credentials[client]
        prefix = f"PYICEBERG_CATALOG__{CATALOG_NAME}__"
        properties = {f"{prefix}{_variable(name)}": value for name, value in self.catalog_properties(client).items()}
        return {
            "AWS_ENDPOINT_URL": self.store_url,
            "AWS_ENDPOINT": self.store_url,
            "AWS_ACCESS_KEY_ID": own.access_key,
            "AWS_SECRET_ACCESS_KEY": own.secret_key,
            "AWS_REGION": _REGION,
            "AWS_DEFAULT_REGION": _REGION,
            "AWS_ALLOW_HTTP": "true",
            "AWS_EC2_METADATA_DISABLED": "true",
            "ENDIVE_LAB_STORE": self.store_url,
            "ENDIVE_LAB_CATALOG": self.catalog_url,
            "ENDIVE_LAB_TOKEN": own.token,
            "ENDIVE_LAB_BUCKET": BUCKET,
            "ENDIVE_LAB_WAREHOUSE": WAREHOUSE,
            **properties,
        }


def _variable(name: str) -> str:
    """Return the environment variable of a PyIceberg property, in which ``__`` replaces a dot and ``_`` a dash."""
    return name.upper().replace(".", "__").replace("-", "_")


def _table_config(store_url: str, own: Credentials) -> dict[str, str]:
    return {
        "s3.endpoint": store_url,
        "s3.access-key-id": own.access_key,
        "s3.secret-access-key": own.secret_key,
        "s3.region": _REGION,
        "client.region": _REGION,
        "s3.path-style-access": "true",
        "s3.force-virtual-addressing": "false",
    }


@contextmanager
def open_lab(settings: LabSettings, clients: Sequence[str] = (), gate: Gate = pass_through) -> Iterator[Lab]:
    """Open a lab, and close it at the end of the block.

    Args:
        settings: Settings of the lab.
        clients: Names of clients that get separate credentials.
        gate: Function that can delay a request before the lab processes it.

    Raises:
        LabError: If PyIceberg is not installed, or the directory cannot be used.
        OSError: If a port is in use.
    """
    try:
        from endive.lab.rest_api import RestApi
        from endive.lab.table_catalog import TableCatalog
    except ImportError:
        raise LabError("the lab needs PyIceberg: `pip install 'endive[lab]'`") from None
    store = ObjectStore(settings.directory, settings.memory_bytes)
    store.create_bucket(BUCKET)
    credentials = {
        client: Credentials(client, f"LAB{secrets.token_hex(16).upper()}", secrets.token_hex(20), secrets.token_urlsafe(32))
        for client in ("", *clients)
    }
    with ExitStack() as stack:
        sockets = [stack.enter_context(listen(port)) for port in (settings.store_port, settings.catalog_port)]
        urls = [f"http://{LOOPBACK}:{each.getsockname()[1]}" for each in sockets]
        names = ClientNames()
        stack.callback(names.close)
        recording = Recording(names.name)
        catalog = TableCatalog(store, WAREHOUSE)
        handlers: tuple[Handler, Handler] = (
            S3Api(
                store, settings.behavior, {own.access_key: own.client for own in credentials.values()}, gate, settings.request_bytes
            ),
            RestApi(
                catalog,
                settings.behavior,
                {own.token: own.client for own in credentials.values()},
                lambda client: _table_config(urls[0], credentials[client]),
                recording.report,
                gate,
            ),
        )
        servers = dict(zip(sockets, handlers, strict=True))
        loop = stack.enter_context(serve_in_thread(servers, recording.record, settings.memory_bytes, names.connection_opened))
        recording.start(loop.time())
        yield Lab(urls[0], urls[1], credentials, store, catalog, recording, loop)


def behavior_of(document: Document, seed: int | None = None) -> Behavior:
    """Return the latencies and failures of a configuration for the lab.

    Args:
        document: Checked configuration.
        seed: Random seed; None to use the seed of the configuration.

    Raises:
        LabError: If the configuration has a custom catalog.
    """
    simulation = build_simulation_config(document, seed_override=seed)
    catalog, failures = simulation.catalog, document.failures
    service, file = ServiceSettings(), None
    if isinstance(catalog, ServiceCatalog):
        service = catalog.settings
    elif isinstance(catalog, InstantCatalog):
        latency = FixedLatency(document.catalog.latency_ms)
        service = _without_network(ServiceSettings(load=latency, commit=latency, check=latency))
    elif isinstance(catalog, StoredCatalog):
        service, file = _without_network(ServiceSettings()), catalog.storage
    else:
        raise LabError("the lab does not support custom catalogs; remove [parts.catalog] from the configuration")
    return Behavior(
        provider=simulation.storage_provider,
        service=service,
        catalog=file if file is None or file.supports_cas else None,
        linearization=document.catalog.linearization,
        failures=LabFailures(**{each.name: getattr(failures, each.name) for each in fields(LabFailures)}),
        seed=simulation.seed or 0,
    )


def _without_network(settings: ServiceSettings) -> ServiceSettings:
    return replace(settings, network=FixedLatency(0.0), transfer_ms_per_mib=0.0)
