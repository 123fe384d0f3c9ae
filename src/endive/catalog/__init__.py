"""Catalogs: who holds the versions of tables, and how a commit is installed."""

from endive.catalog.accounts import AccountedCatalog
from endive.catalog.append import AppendCatalog
from endive.catalog.base import Catalog, StoredCatalog, TableChanges
from endive.catalog.cas import CASCatalog, InstantCatalog
from endive.catalog.types import CatalogCounters, CatalogSnapshot, CommitResult, IntentionRecord, TableMetadata

__all__ = [
    "AccountedCatalog",
    "AppendCatalog",
    "CASCatalog",
    "Catalog",
    "CatalogCounters",
    "CatalogSnapshot",
    "CommitResult",
    "InstantCatalog",
    "IntentionRecord",
    "StoredCatalog",
    "TableChanges",
    "TableMetadata",
]
