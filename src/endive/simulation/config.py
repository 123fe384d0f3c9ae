"""Define the configuration of a run as objects of the model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from endive.catalog import Catalog, StoredCatalog
from endive.storage import StorageProvider
from endive.transaction import Backoff, CommitPolicy, ConflictDetector
from endive.workload import Workload, WorkloadClass

EngineName = Literal["auto", "reference", "compiled"]
BACKOFF_FIELDS = ("enabled", "base_ms", "multiplier", "max_ms", "jitter")
"""Fields of ``Backoff`` that also exist in ``SimulationConfig``, with the prefix ``backoff_``."""


@dataclass(frozen=True)
class SimulationConfig:
    """Complete configuration of a run.

    A workload class can override ``max_retries``, ``policy`` and ``conflict_detector``. ``seed`` determines the random streams of
    all built-in components. If ``seed`` is None, the seed of the workload is used. Custom components use the random generators with
    which they were created.
    """

    duration_ms: float
    seed: int | None

    storage_provider: StorageProvider
    catalog: Catalog
    workload: Workload
    conflict_detector: ConflictDetector

    max_retries: int = 10
    ml_append_mode: bool = False

    backoff_enabled: bool = False
    backoff_base_ms: float = 10.0
    backoff_multiplier: float = 2.0
    backoff_max_ms: float = 5000.0
    backoff_jitter: float = 0.1

    policy: CommitPolicy | None = None
    """Commit policy. If None, the defaults of ``CommitPolicy`` and the backoff fields above apply."""
    manifest_list_seal_threshold_bytes: int = 0
    drain: bool = False
    engine: EngineName = "auto"

    def __post_init__(self) -> None:
        """Check that the components are compatible.

        Raises:
            ValueError: If two components contradict each other.
        """
        given = self._backoff
        if self.policy is not None and given != Backoff():
            own = {name: getattr(self.policy.backoff, name) for name in BACKOFF_FIELDS}
            if given != Backoff(**own):
                raise ValueError(
                    f"the backoff fields ({given}) contradict policy.backoff ({self.policy.backoff}); set only one of them"
                )
        if self.ml_append_mode and not self.storage_provider.supports_append:
            name = type(self.storage_provider).__name__
            raise ValueError(f"ml_append_mode needs an object store with append support; {name} has none. Use s3x, azure or azurex")
        tables = self.workload.config.num_tables
        if isinstance(self.catalog, StoredCatalog) and len(self.catalog.tables) < tables:
            raise ValueError(f"the workload has {tables} tables, but the catalog has only {len(self.catalog.tables)}")

    @property
    def run_seed(self) -> int:
        """Seed of all random streams of the run."""
        return self.workload.seed if self.seed is None else self.seed

    @property
    def _backoff(self) -> Backoff:
        return Backoff(**{name: getattr(self, f"backoff_{name}") for name in BACKOFF_FIELDS})

    @property
    def commit_policy(self) -> CommitPolicy:
        """Commit policy of all workload classes that have no policy of their own."""
        return CommitPolicy(backoff=self._backoff) if self.policy is None else self.policy

    def policy_of(self, cls: WorkloadClass) -> CommitPolicy:
        """Return the commit policy of a workload class."""
        return self.commit_policy if cls.policy is None else cls.policy

    def max_retries_of(self, cls: WorkloadClass) -> int:
        """Return the maximum number of retries of a workload class."""
        return self.max_retries if cls.max_retries is None else cls.max_retries

    def detector_of(self, cls: WorkloadClass) -> ConflictDetector:
        """Return the conflict detector of a workload class."""
        return self.conflict_detector if cls.conflict_detector is None else cls.conflict_detector
