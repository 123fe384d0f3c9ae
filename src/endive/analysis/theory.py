"""Predict the throughput of a configuration by theory, without simulating it.

``predict`` samples the windows of attempts from the latencies of the configuration, with a fixed key, and applies the renewal
approximation (``renewal``). It covers fast appends of one open class with Poisson arrivals to a single table, or to tables with one
commit pointer each. For other configurations it raises ``NotPredictableError`` with the reason.
"""

from __future__ import annotations

import numpy as np

from endive.analysis import Floats
from endive.analysis.renewal import Attempts, Prediction, predict_commits
from endive.catalog import CASCatalog, InstantCatalog, StoredCatalog
from endive.config import Document, build_simulation_config
from endive.randomness import Stream
from endive.simulation import SimulationConfig
from endive.storage import CATALOG, MANIFEST_FILE, MANIFEST_LIST, TABLE_METADATA, ExponentialLatency
from endive.transaction import CommitPolicy, FastAppendTransaction
from endive.workload import OpenArrivals, UniformTableSelector, WorkloadClass

SAMPLES = 4_000
"""Number of sampled windows of each kind."""
_KEY = 0x5EED


class NotPredictableError(ValueError):
    """Raised if the theory does not cover the configuration; the message gives the reason."""


def predict(config: SimulationConfig) -> Prediction:
    """Predict throughput, success and attempts of a configuration at its load.

    Raises:
        NotPredictableError: If the theory does not cover the configuration.
    """
    cls = _only_class(config)
    pointers = _pointers(config, cls)
    return _predict(config, cls, pointers, _attempts(config, cls))


class Curve:
    """Predictions for the points of a curve.

    The windows of attempts are sampled once for configurations that differ only in the rate.
    """

    def __init__(self) -> None:
        self._drawn: dict[str, Attempts] = {}

    def point(self, document: Document) -> tuple[float, float]:
        """Return the load of a configuration and its predicted throughput, both per second.

        Raises:
            NotPredictableError: If the theory does not cover the configuration.
        """
        config = build_simulation_config(document, seed_override=0)
        key = document.model_dump_json(exclude={"experiment": True, "workload": {"__all__": {"rate"}}})
        cls = _only_class(config)
        pointers = _pointers(config, cls)
        if key not in self._drawn:
            self._drawn[key] = _attempts(config, cls)
        return rate_of(cls), _predict(config, cls, pointers, self._drawn[key]).throughput_per_s


def _predict(config: SimulationConfig, cls: WorkloadClass, pointers: int, attempts: Attempts) -> Prediction:
    found = predict_commits(rate_of(cls) / pointers, attempts, config.max_retries_of(cls))
    return Prediction(found.throughput_per_s * pointers, found.success, found.attempts_per_transaction)


def rate_of(cls: WorkloadClass) -> float:
    """Return the transactions per second of a class with Poisson arrivals. Raises NotPredictableError for other arrivals."""
    inter_arrival = cls.arrivals.inter_arrival if isinstance(cls.arrivals, OpenArrivals) else None
    if type(inter_arrival) is not ExponentialLatency:
        raise NotPredictableError("arrivals are not a Poisson process")
    return 1000.0 / inter_arrival.scale_ms


def _only_class(config: SimulationConfig) -> WorkloadClass:
    classes = config.workload.config.workload_classes
    if len(classes) != 1:
        raise NotPredictableError("several classes share the load")
    cls = classes[0]
    policy = config.policy_of(cls)
    rate_of(cls)
    if cls.committer is not None:
        raise NotPredictableError("a committer commits the file batches of other writers")
    if set(cls.operations) != {FastAppendTransaction}:
        raise NotPredictableError("there are other operations than fast appends")
    if policy.path.keeps_files and not policy.path.refreshes_first:
        raise NotPredictableError(f"commit path {policy.path.name} has no prediction")
    timeouts_ms = (policy.total_timeout_ms, policy.operation_timeout_ms)
    if config.ml_append_mode or any(timeout_ms is not None and timeout_ms < 600_000.0 for timeout_ms in timeouts_ms):
        raise NotPredictableError("manifest lists are appended to, or time is limited")
    return cls


def _pointers(config: SimulationConfig, cls: WorkloadClass) -> int:
    """Return the number of commit pointers, each for one table, over which the load is evenly distributed."""
    catalog, workload = config.catalog, config.workload.config
    if type(catalog) not in (CASCatalog, InstantCatalog):
        raise NotPredictableError("the catalog does not swap a commit pointer")
    tables = workload.num_tables if cls.tables is None else len(cls.tables)
    if tables == 1:
        return 1
    if len(set(workload.groups)) != workload.num_tables or type(cls.table_selector) is not UniformTableSelector:
        raise NotPredictableError("tables share a pointer, or are not chosen evenly")
    if cls.tables_per_txn != 1:
        raise NotPredictableError("transactions write to several tables")
    return tables


def _attempts(config: SimulationConfig, cls: WorkloadClass) -> Attempts:
    if cls.partitions_per_txn is not None and not config.policy_of(cls).path.keeps_files:
        raise NotPredictableError("partitions make some retries free")
    draw = _Draws(config, cls)
    work = draw.runtimes()
    if not config.policy_of(cls).path.keeps_files:
        return Attempts(first_ms=work + draw.endive_window(), retry_ms=draw.endive_window())
    first = draw.iceberg_window(moved=True, manifest=True)
    unmoved = draw.iceberg_window(moved=False, manifest=True)
    return Attempts(first, draw.iceberg_window(moved=True, manifest=False), unmoved, work)


class _Draws:
    """Samples of the durations of the steps of an attempt, in milliseconds."""

    def __init__(self, config: SimulationConfig, cls: WorkloadClass) -> None:
        stream = Stream(_KEY)
        self._stream = stream
        self._store = config.storage_provider.bind(stream)
        self._cls = cls
        self._policy: CommitPolicy = config.policy_of(cls)
        assert isinstance(config.catalog, StoredCatalog)
        self._catalog = config.catalog
        self._handles_metadata = self._policy.handles_metadata(server_writes=config.catalog.takes_requirements)
        self._pointer = config.catalog.storage.bind(stream)

    def runtimes(self) -> Floats:
        return np.array([self._cls.runtime.sample(self._stream) for _ in range(SAMPLES)])

    def endive_window(self) -> Floats:
        """Sample windows of the simplified path: read the manifest list, write manifest, list (and metadata), swap the pointer."""
        sizes = self._policy.sizes
        window = self._rest_of_read() + self._reads(MANIFEST_LIST, sizes.manifest_list_bytes)
        window += self._writes(MANIFEST_FILE, sizes.manifest_file_bytes) + self._writes(MANIFEST_LIST, sizes.manifest_list_bytes)
        if self._handles_metadata:
            window += self._writes(TABLE_METADATA, sizes.table_metadata_bytes)
        return window + self._swaps()

    def iceberg_window(self, *, moved: bool, manifest: bool) -> Floats:
        """Sample windows of Iceberg's path: read (metadata and) list, write (manifest,) list and metadata, swap the pointer."""
        model = self._catalog.table_model
        if model is None:
            raise NotPredictableError("the catalog does not track metadata files")
        files = self._catalog.initial_files[0]
        window = self._rest_of_read() + self._reads(MANIFEST_LIST, files.list_size)
        window += self._writes(MANIFEST_LIST, files.list_size)
        if manifest:
            window += self._writes(MANIFEST_FILE, model.manifest_bytes)
        if self._handles_metadata:
            window += self._writes(TABLE_METADATA, files.metadata_size)
            if moved:
                window += self._reads(TABLE_METADATA, files.metadata_size)
        return window + self._swaps()

    def _reads(self, kind: str, size: int) -> Floats:
        return np.array([self._store.read_ms(kind, size) for _ in range(SAMPLES)])

    def _writes(self, kind: str, size: int) -> Floats:
        return np.array([self._store.write_ms(kind, size) for _ in range(SAMPLES)])

    def _swaps(self) -> Floats:
        """Sample times from the request of a swap to its linearization point."""
        swaps = [self._pointer.cas_ms(CATALOG, 0, self._catalog.size_bytes).success_ms for _ in range(SAMPLES)]
        return np.array(swaps) * self._catalog.linearization

    def _rest_of_read(self) -> Floats:
        """Sample times from the linearization point of a read of the pointer to the response."""
        if self._catalog.linearization == 1.0:
            return np.zeros(SAMPLES)
        reads = [self._pointer.read_ms(CATALOG, self._catalog.size_bytes) for _ in range(SAMPLES)]
        return np.array(reads) * (1.0 - self._catalog.linearization)
