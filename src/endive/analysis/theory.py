"""Predict the throughput of a configuration by theory, without simulating it.

``predict`` samples the windows of attempts from the latencies of the configuration, with a fixed key, and applies the renewal
approximation of optimistic retries (``predict_commits``). It covers fast appends of one open class with Poisson arrivals to a
single table, or to tables with one commit pointer each. For other configurations it raises ``NotPredictableError`` with the
reason.

A commit invalidates every attempt that read before it, so only an attempt that read afterwards can make the next commit. Let the
reads of attempts of kind i be a Poisson process with rate ``v_i``, and let the window from read to swap have the distribution
``F_i``. The number of attempts that have swapped after a time t is Poisson with mean ``sum v_i * integral of F_i over [0, t]``, and
the time T to the next commit has

    P(T > t) = exp(-sum_i v_i * integral from 0 to t of F_i)
    throughput = 1 / E[T]
    fraction of attempts of kind i that succeed = integral of F_i P(T > t) dt / E[T]

The rates of attempts are a fixed point that depends on the load, the success probability of attempts and the maximum number of
attempts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq

from endive.analysis import Floats
from endive.catalog import CASCatalog, InstantCatalog, StoredCatalog
from endive.config import Document, build_simulation_config
from endive.randomness import Stream
from endive.simulation import SimulationConfig
from endive.storage import CATALOG, MANIFEST_FILE, MANIFEST_LIST, TABLE_METADATA, ExponentialLatency
from endive.transaction import CommitPolicy, FastAppendTransaction
from endive.workload import OpenArrivals, UniformTableSelector, WorkloadClass

_HORIZON = 40.0
"""The time axis ends where P(T > t) = exp(-40)."""
_POINTS = 6_000
"""Points of the time axis, on a logarithmic scale because windows that include the job can be a million times longer."""
_ROUNDS = 30


@dataclass(frozen=True)
class Attempts:
    """Windows of attempts, from the read on which an attempt is based to the linearization point of its swap, in milliseconds.

    Attributes:
        first_ms: Windows of first attempts.
        retry_ms: Windows of retries.
        unmoved_ms: Windows of first attempts without a concurrent commit during the job, if first attempts refresh the table before
            they swap.
        work_ms: Job durations, if first attempts refresh the table before they swap.
    """

    first_ms: Floats
    retry_ms: Floats
    unmoved_ms: Floats | None = None
    work_ms: Floats | None = None


@dataclass(frozen=True)
class Prediction:
    """Prediction for one commit pointer at a load. ``success`` is the fraction of transactions that commit."""

    throughput_per_s: float
    success: float
    attempts_per_transaction: float


class _Windows:
    """Empirical distribution of windows, and its integral."""

    def __init__(self, windows_ms: Floats) -> None:
        self._sorted = np.sort(np.asarray(windows_ms, np.float64)) / 1000.0
        self._sums = np.concatenate(([0.0], np.cumsum(self._sorted)))
        self.shortest_s = float(self._sorted[0])

    def share(self, t_s: Floats) -> Floats:
        """Return F(t)."""
        return np.asarray(np.searchsorted(self._sorted, t_s, side="right") / len(self._sorted))

    def integral(self, t_s: Floats) -> Floats:
        """Return the integral of F from 0 to t, which is the mean of max(t - window, 0)."""
        below = np.searchsorted(self._sorted, t_s, side="right")
        return np.asarray((below * t_s - self._sums[below]) / len(self._sorted))


@dataclass(frozen=True)
class _Renewal:
    """Distribution of the time between commits, and the fraction of attempts of each kind that succeed."""

    times_s: Floats
    survival: Floats
    mean_s: float
    success: tuple[float, ...]

    def unmoved(self, work_s: Floats) -> float:
        """Return the fraction of jobs without a concurrent commit, by the equilibrium distribution of the time to a commit."""
        steps = np.diff(self.times_s) * (self.survival[1:] + self.survival[:-1]) / 2.0
        beyond = np.concatenate((np.cumsum(steps[::-1])[::-1], [0.0])) / self.mean_s
        return float(np.interp(work_s, self.times_s, np.minimum(beyond, 1.0)).mean())


def _renewal(kinds: tuple[_Windows, ...], rates_per_s: tuple[float, ...]) -> _Renewal:
    def hazard(t_s: Floats) -> Floats:
        return sum((rate * kind.integral(t_s) for kind, rate in zip(kinds, rates_per_s, strict=True)), np.zeros_like(t_s))

    near = max(min(kind.shortest_s for kind in kinds), 1e-6) / 4.0
    far = 8.0 * near
    while hazard(np.array([far]))[0] < _HORIZON:
        far *= 2.0
    times = np.concatenate(([0.0], np.geomspace(near, far, _POINTS)))
    survival = np.exp(-hazard(times))
    mean = float(np.trapezoid(survival, times))
    success = tuple(float(np.trapezoid(kind.share(times) * survival, times)) / mean for kind in kinds)
    return _Renewal(times, survival, mean, success)


def predict_commits(rate_per_s: float, attempts: Attempts, max_retries: int) -> Prediction:
    """Predict the commit rate of one commit pointer for Poisson arrivals.

    Args:
        rate_per_s: Arrival rate of transactions.
        attempts: Windows of attempts.
        max_retries: Maximum number of retries per transaction.

    Raises:
        ValueError: If the rate is not positive, or there are no windows.
    """
    if not rate_per_s > 0.0:
        raise ValueError(f"the rate is {rate_per_s}, but must be greater than 0")
    unmoved = attempts.first_ms if attempts.unmoved_ms is None else attempts.unmoved_ms
    if not (len(attempts.first_ms) and len(attempts.retry_ms) and len(unmoved)):
        raise ValueError("there are no windows to predict from")
    kinds = (_Windows(unmoved), _Windows(attempts.first_ms), _Windows(attempts.retry_ms))
    work_s = None if attempts.work_ms is None else np.asarray(attempts.work_ms, np.float64) / 1000.0

    def at(retries_per_s: float) -> tuple[_Renewal, float]:
        """Return the renewal process for a rate of retries, and the fraction of first attempts that fail."""
        share = 0.0
        found = _renewal(kinds, (0.0, rate_per_s, retries_per_s))
        for _ in range(_ROUNDS if work_s is not None else 0):
            before, share = share, found.unmoved(work_s)  # type: ignore[arg-type]
            found = _renewal(kinds, (share * rate_per_s, (1.0 - share) * rate_per_s, retries_per_s))
            if abs(share - before) < 1e-6:
                break
        return found, 1.0 - share * found.success[0] - (1.0 - share) * found.success[1]

    def missing(retries_per_s: float) -> float:
        found, lost = at(retries_per_s)
        return rate_per_s * lost * _mean_attempts(found.success[2], max_retries) - retries_per_s

    most = rate_per_s * max_retries
    retries = 0.0
    if max_retries > 0 and missing(0.0) > 0.0:
        retries = most if missing(most) >= 0.0 else float(brentq(missing, 0.0, most, xtol=1e-9 * most, rtol=1e-9))
    found, lost = at(retries)
    throughput = min(1.0 / found.mean_s, rate_per_s)
    success = 1.0 - lost * (1.0 - found.success[2]) ** max_retries
    return Prediction(throughput, success, 1.0 + retries / rate_per_s)


def _mean_attempts(success: float, limit: int) -> float:
    """Return the mean number of attempts until the first success or ``limit`` attempts, given the probability of success."""
    return float(limit) if success < 1e-12 else (1.0 - (1.0 - success) ** limit) / success


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
    """Return the number of commit pointers, one per table, over which the load is evenly distributed."""
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
        """Sample windows of the simplified path: read the list, write manifest, list (and metadata), swap the pointer."""
        sizes = self._policy.sizes
        window = self._rest_of_read() + self._reads(MANIFEST_LIST, sizes.manifest_list_bytes)
        window += self._writes(MANIFEST_FILE, sizes.manifest_file_bytes) + self._writes(MANIFEST_LIST, sizes.manifest_list_bytes)
        if self._handles_metadata:
            window += self._writes(TABLE_METADATA, sizes.table_metadata_bytes)
        return window + self._swaps()

    def iceberg_window(self, *, moved: bool, manifest: bool) -> Floats:
        """Sample windows of Iceberg's path: read (metadata and) list, write (manifest,) list (and metadata), swap the pointer."""
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
        """Sample times from the linearization point of a pointer read to its response."""
        if self._catalog.linearization == 1.0:
            return np.zeros(SAMPLES)
        reads = [self._pointer.read_ms(CATALOG, self._catalog.size_bytes) for _ in range(SAMPLES)]
        return np.array(reads) * (1.0 - self._catalog.linearization)
