"""What a run is made of."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from endive.catalog import Catalog
from endive.storage import StorageProvider
from endive.transaction import Backoff, CommitPolicy, ConflictDetector, ManifestCount, ObjectSizes
from endive.transaction.policy import CommitPath, OnRealConflict
from endive.workload import Workload, WorkloadClass

EngineName = Literal["auto", "reference", "compiled"]
Convoy = Literal["exact", "convolved"]


@dataclass(frozen=True)
class SimulationConfig:
    """A whole run, ready to start. Classes of the workload may override retries, policy and detector for themselves.

    Built-in parts draw from streams keyed by ``seed`` (the workload's own seed, if None), whatever generators they were made
    with; parts of your own draw from what you gave them.
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

    commit_path: CommitPath = "endive"
    total_timeout_ms: float | None = None
    on_real_conflict: OnRealConflict = "abort"
    max_restarts: int = 3
    conflicting_manifests: ManifestCount = field(default_factory=ManifestCount)
    max_parallel: int = 4
    table_metadata_inlined: bool = True
    manifest_list_entry_bytes: int = 50
    manifest_list_seal_threshold_bytes: int = 0
    linearization: float = 1.0
    sizes: ObjectSizes = field(default_factory=ObjectSizes)
    drain: bool = False
    engine: EngineName = "auto"
    convoy: Convoy = "exact"

    @property
    def run_seed(self) -> int:
        """The seed of all streams."""
        return self.workload.seed if self.seed is None else self.seed

    @property
    def policy(self) -> CommitPolicy:
        """How transactions commit, unless their class says otherwise."""
        return CommitPolicy(
            backoff=Backoff(
                self.backoff_enabled,
                self.backoff_base_ms,
                self.backoff_multiplier,
                self.backoff_max_ms,
                self.backoff_jitter,
            ),
            commit_path=self.commit_path,
            total_timeout_ms=self.total_timeout_ms,
            on_real_conflict=self.on_real_conflict,
            max_restarts=self.max_restarts,
            conflicting_manifests=self.conflicting_manifests,
            max_parallel=self.max_parallel,
            table_metadata_inlined=self.table_metadata_inlined,
            manifest_list_entry_bytes=self.manifest_list_entry_bytes,
            linearization=self.linearization,
            sizes=self.sizes,
        )

    def policy_of(self, cls: WorkloadClass) -> CommitPolicy:
        """How transactions of a class commit."""
        return self.policy if cls.policy is None else cls.policy

    def max_retries_of(self, cls: WorkloadClass) -> int:
        """How often transactions of a class try again."""
        return self.max_retries if cls.max_retries is None else cls.max_retries

    def detector_of(self, cls: WorkloadClass) -> ConflictDetector:
        """What tells real conflicts of a class."""
        return self.conflict_detector if cls.conflict_detector is None else cls.conflict_detector
