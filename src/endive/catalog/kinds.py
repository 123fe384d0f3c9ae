"""The kinds of catalogs, each described once: configuration, checks, words and both engines go by ``CATALOG_KINDS``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from endive.catalog.append import AppendCatalog
from endive.catalog.base import StoredCatalog
from endive.catalog.cas import CASCatalog, InstantCatalog
from endive.catalog.server import ServiceSettings
from endive.catalog.service import ServiceCatalog

_SIZE = {"size_bytes": "size_bytes"}
_LIMIT = {"metadata_limit_bytes": "metadata_limit_bytes"}
_SERVICE = [setting.name for setting in fields(ServiceSettings) if setting.name != "writes_metadata"]
"""Settings of a service, which ``endive.config.build`` puts together."""


@dataclass(frozen=True, slots=True)
class CatalogKind:
    """A kind of catalog: what it is made of, and what it needs of the store that holds it.

    ``settings`` maps keys of ``[catalog]`` to arguments of ``catalog``; with other kinds those keys have no effect. ``needs`` names
    accesses of a storage profile, of which one has to be there, with what to say of a provider that has none of them.
    """

    name: str
    catalog: type[StoredCatalog]
    word: str
    """What reports call it."""
    stored: bool = True
    """False: it needs no store."""
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
                ("append",): "needs a provider that can append; {} cannot",
                ("cas", "compaction"): "compacts its log by compare-and-swap, which {} lacks",
            },
        ),
        CatalogKind("instant", InstantCatalog, "instant catalog", stored=False, settings={"latency_ms": "latency_ms", **_LIMIT}),
        CatalogKind("service", ServiceCatalog, "catalog service", settings={**dict.fromkeys(_SERVICE, "settings"), **_LIMIT}),
    )
}
CATALOG_SETTINGS = frozenset(key for kind in CATALOG_KINDS.values() for key in kind.settings)
"""Keys of ``[catalog]`` that have an effect with some kinds only."""
