"""Catalogs, which own the versions of tables and install commits."""

from endive.catalog.accounts import AccountedCatalog as AccountedCatalog
from endive.catalog.append import AppendCatalog as AppendCatalog
from endive.catalog.base import Catalog as Catalog
from endive.catalog.base import StoredCatalog as StoredCatalog
from endive.catalog.base import TableChanges as TableChanges
from endive.catalog.cas import CASCatalog as CASCatalog
from endive.catalog.cas import InstantCatalog as InstantCatalog
from endive.catalog.server import Coalesce as Coalesce
from endive.catalog.server import ServiceSettings as ServiceSettings
from endive.catalog.service import ServiceCatalog as ServiceCatalog
from endive.catalog.types import CatalogCounters as CatalogCounters
from endive.catalog.types import CatalogSnapshot as CatalogSnapshot
from endive.catalog.types import CommitResult as CommitResult
from endive.catalog.types import IntentionRecord as IntentionRecord
from endive.catalog.types import TableHandles as TableHandles
from endive.catalog.types import TableMetadata as TableMetadata
