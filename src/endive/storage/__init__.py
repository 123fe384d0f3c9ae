"""Object stores: latency distributions, providers, and the profiles that describe them."""

from endive.storage.distributions import (
    ExponentialLatency,
    FixedLatency,
    LatencyDistribution,
    LognormalLatency,
    NormalLatency,
    QuantileDistribution,
    SizeBasedLatency,
    UniformLatency,
)
from endive.storage.profiles import DEFAULT_PROFILE_SET, PROFILE_SETS, builtin_profiles, create_provider, load_profile
from endive.storage.provider import (
    CATALOG,
    MANIFEST_FILE,
    MANIFEST_LIST,
    OBJECT_KINDS,
    TABLE_METADATA,
    ConditionalLatency,
    ProfiledProvider,
    StorageProfile,
    StorageProvider,
    StorageResult,
    UnsupportedOperationError,
)
from endive.storage.tables import EmpiricalLatency, GammaLatency, MixtureLatency, ShiftedLognormalLatency, TableLatency

__all__ = [
    "CATALOG",
    "DEFAULT_PROFILE_SET",
    "MANIFEST_FILE",
    "MANIFEST_LIST",
    "OBJECT_KINDS",
    "PROFILE_SETS",
    "TABLE_METADATA",
    "ConditionalLatency",
    "EmpiricalLatency",
    "ExponentialLatency",
    "FixedLatency",
    "GammaLatency",
    "LatencyDistribution",
    "LognormalLatency",
    "MixtureLatency",
    "NormalLatency",
    "ProfiledProvider",
    "QuantileDistribution",
    "ShiftedLognormalLatency",
    "SizeBasedLatency",
    "StorageProfile",
    "StorageProvider",
    "StorageResult",
    "TableLatency",
    "UniformLatency",
    "UnsupportedOperationError",
    "builtin_profiles",
    "create_provider",
    "load_profile",
]
