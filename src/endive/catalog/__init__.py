"""Catalogs: who holds the versions of tables, and how a commit is installed."""

from endive.catalog.accounts import AccountedCatalog
from endive.catalog.append import AppendCatalog
from endive.catalog.base import Catalog, StoredCatalog, TableChanges
from endive.catalog.cas import CASCatalog, InstantCatalog
from endive.catalog.server import Coalesce, ServiceSettings
from endive.catalog.service import ServiceCatalog
from endive.catalog.types import CatalogCounters, CatalogSnapshot, CommitResult, IntentionRecord, TableMetadata

__all__ = [
    "AccountedCatalog",
    "AppendCatalog",
    "CASCatalog",
    "Catalog",
    "CatalogCounters",
    "CatalogSnapshot",
    "Coalesce",
    "CommitResult",
    "InstantCatalog",
    "IntentionRecord",
    "ServiceCatalog",
    "ServiceSettings",
    "StoredCatalog",
    "TableChanges",
    "TableMetadata",
]
