"""Define Iceberg tables: their snapshots and manifests, and the effects of operations on tables."""

from endive.arithmetic.manifests import ALL_MANIFESTS as ALL_MANIFESTS
from endive.arithmetic.manifests import NO_SNAPSHOT as NO_SNAPSHOT
from endive.table.files import TableChange as TableChange
from endive.table.files import TableFiles as TableFiles
from endive.table.files import TableModel as TableModel
from endive.table.operations import APPEND as APPEND
from endive.table.operations import ICEBERG_OPERATIONS as ICEBERG_OPERATIONS
from endive.table.operations import OPERATION_CODES as OPERATION_CODES
from endive.table.operations import OPERATION_FACTS as OPERATION_FACTS
from endive.table.operations import OPERATION_WORDS as OPERATION_WORDS
from endive.table.operations import PYICEBERG_OPERATIONS as PYICEBERG_OPERATIONS
from endive.table.operations import OperationSettings as OperationSettings
from endive.table.operations import Traits as Traits
from endive.table.operations import pyiceberg_traits_of as pyiceberg_traits_of
from endive.table.operations import traits_of as traits_of
