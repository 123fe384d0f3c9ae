"""List the kinds of catalogs. Configuration, checks, reports and both engines use ``CATALOG_KINDS``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from endive.catalog.append import AppendCatalog
from endive.catalog.base import StoredCatalog
from endive.catalog.cas import CASCatalog, InstantCatalog
from endive.catalog.service import ServiceCatalog
from endive.catalog.service_queue import ServiceSettings

_SIZE = {"size_bytes": "size_bytes"}
_LIMIT = {"metadata_limit_bytes": "metadata_limit_bytes"}
_SERVICE = [setting.name for setting in fields(ServiceSettings)]
"""Settings of a catalog service. ``endive.config.build`` passes them as one argument."""


@dataclass(frozen=True, slots=True)
class CatalogKind:
    """Kind of catalog, with its settings and its requirements for the object store.

    ``settings`` maps keys of ``[catalog]`` to arguments of ``catalog``. These keys have no effect with other kinds. ``needs`` maps
    groups of operations to error messages. An error message is printed if the latency profile supports no operation of its group.
    """

    name: str
    catalog: type[StoredCatalog]
    word: str
    """Label of the kind in reports."""
    stored: bool = True
    """True if the catalog is in an object store, or uses one."""
    settings: Mapping[str, str] = field(default_factory=dict)
    needs: Mapping[tuple[str, ...], str] = field(default_factory=dict)


CATALOG_KINDS: Mapping[str, CatalogKind] = {
    kind.name: kind
    for kind in (
        CatalogKind(
            "cas",
            CASCatalog,
            "CAS",
            settings={**_SIZE, **_LIMIT},
            needs={("cas",): "needs a provider with compare-and-swap; {} has none"},
        ),
        CatalogKind(
            "append",
            AppendCatalog,
            "append log",
            settings={
                **_SIZE,
                "log_entry_size": "log_entry_bytes",
                "compaction_threshold": "compaction_threshold_bytes",
                "compaction_max_entries": "compaction_max_entries",
            },
            needs={
                ("append",): "needs a provider with append support; {} has none",
                ("cas", "compaction"): "needs compare-and-swap to compact its log; {} has none",
            },
        ),
        CatalogKind("instant", InstantCatalog, "instant catalog", stored=False, settings={"latency_ms": "latency_ms", **_LIMIT}),
        CatalogKind("service", ServiceCatalog, "catalog service", settings={**dict.fromkeys(_SERVICE, "settings"), **_LIMIT}),
    )
}
CATALOG_SETTINGS = frozenset(key for kind in CATALOG_KINDS.values() for key in kind.settings)
"""Keys of ``[catalog]`` that have an effect only with some kinds of catalogs."""
