"""Lowering of a catalog service: its settings become fields of the run's record."""

from __future__ import annotations

import numpy as np

from endive.catalog import ServiceCatalog
from endive.simulation.compiled import layout
from endive.storage import TABLE_METADATA, ProfiledProvider, SizeBasedLatency
from endive.storage.tables import TableLatency

SERVICE_TIMES = ("network", "load", "commit", "check")
"""Distributions of a service, in the order of ``layout.SERVICE_NETWORK`` and so on."""


def lower_service(run: np.void, catalog: ServiceCatalog) -> None:
    """Fill in what the kernel needs to know of a service."""
    settings = catalog.settings
    run["catalog_kind"] = layout.SERVICE
    run["service"][:] = [getattr(settings, name).parameters for name in SERVICE_TIMES]
    run["own_pointers"] = catalog.own_pointers
    run["workers"] = settings.workers
    run["queue_limit"] = layout.NOBODY if settings.queue_limit is None else settings.queue_limit
    run["retry_after_ms"] = settings.retry_after_ms
    run["max_resends"] = settings.max_resends
    run["locks_tables"] = settings.lock == "table"
    run["server_retries"] = settings.server_retries
    run["transfer_ms_per_mib"] = settings.transfer_ms_per_mib
    run["writes_metadata"] = settings.writes_metadata
    run["fixed_metadata_bytes"] = catalog.metadata_bytes
    if settings.coalesce is not None:
        run["coalesces"] = 1
        run["linger_ms"] = settings.coalesce.linger_ms
        run["max_batch"] = settings.coalesce.max_batch
    run["queue_head"] = run["lock_head"] = layout.NOBODY
    assert isinstance(catalog.storage, ProfiledProvider)
    profile = catalog.storage.profile
    run["metadata_write"] = profile.write_parameters(TABLE_METADATA, catalog.metadata_bytes)
    found = profile.distribution(TABLE_METADATA, write=True)
    if isinstance(found, SizeBasedLatency | TableLatency):
        run["metadata_sized"] = (1.0, found.base_latency_ms, found.latency_per_mib_ms)
