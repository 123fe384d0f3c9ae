"""Define catalogs, which store the versions of tables and install commits."""

from endive.catalog.append import AppendCatalog as AppendCatalog
from endive.catalog.base import AccountedCatalog as AccountedCatalog
from endive.catalog.base import Catalog as Catalog
from endive.catalog.base import StoredCatalog as StoredCatalog
from endive.catalog.base import TableChanges as TableChanges
from endive.catalog.cas import CASCatalog as CASCatalog
from endive.catalog.cas import InstantCatalog as InstantCatalog
from endive.catalog.service import ServiceCatalog as ServiceCatalog
from endive.catalog.service_queue import Coalesce as Coalesce
from endive.catalog.service_queue import ServiceSettings as ServiceSettings
from endive.catalog.snapshots import CatalogCounters as CatalogCounters
from endive.catalog.snapshots import CatalogSnapshot as CatalogSnapshot
from endive.catalog.snapshots import CommitResult as CommitResult
from endive.catalog.snapshots import IntentionRecord as IntentionRecord
from endive.catalog.snapshots import TableHandles as TableHandles
from endive.catalog.snapshots import TableMetadata as TableMetadata
