"""Tables of curves over seeds: how latencies are distributed, and how commits come over time.

Makes of the rows of runs with their lists a row for each experiment, class, operation and point of the curve, with the mean over
seeds and the half width of its 95 % interval (``_hw``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from endive.analysis.estimates import half_widths
from endive.analysis.run_metrics import COMMITS_OVER_TIME, CURVES, SLOWER, TIME_BINS

_KEY = ("experiment", "workload_class", "operation_type")
_KEYS = [(name, pa.string()) for name in _KEY]
_DISTRIBUTIONS = pa.schema(
    [
        *_KEYS,
        ("n_seeds", pa.int64()),
        ("committed", pa.float64()),
        ("slower_share", pa.float64()),
        *((f"{latency}_ms{suffix}", pa.float64()) for latency in CURVES for suffix in ("", "_hw")),
    ]
)
_OVER_TIME = pa.schema(
    [
        *_KEYS,
        ("n_seeds", pa.int64()),
        ("from_ms", pa.float64()),
        ("to_ms", pa.float64()),
        ("commits_per_s", pa.float64()),
        ("commits_per_s_hw", pa.float64()),
    ]
)
Floats = npt.NDArray[np.float64]


def distributions_table(rows: pa.Table) -> pa.Table:
    """For each share of transactions the latency that they exceed. Seeds in which nothing was committed are left out of it."""
    parts = []
    for key, group in _groups(rows.select([*_KEY, "committed", *CURVES.values()])):
        lists = {latency: [each for each in group.column(column).to_pylist() if each] for latency, column in CURVES.items()}
        seeds = len(lists["commit_latency"])
        if not seeds:
            continue
        committed = [count for count in group.column("committed").to_pylist() if count]
        columns: dict[str, Any] = {"n_seeds": seeds, "committed": sum(committed) / seeds, "slower_share": np.array(SLOWER)}
        for latency, values in lists.items():
            columns[f"{latency}_ms"], columns[f"{latency}_ms_hw"] = _over_seeds(np.array(values))
        parts.append(_block(_DISTRIBUTIONS, len(SLOWER), {**key, **columns}))
    return pa.concat_tables([_DISTRIBUTIONS.empty_table(), *parts]).combine_chunks()


def over_time_table(rows: pa.Table) -> pa.Table:
    """Commits per second in equal bins of the whole run, warm-up included."""
    parts = []
    for key, group in _groups(rows.select([*_KEY, "duration_ms", COMMITS_OVER_TIME])):
        edges = np.linspace(0.0, group.column("duration_ms")[0].as_py(), TIME_BINS + 1)
        counts = np.array(group.column(COMMITS_OVER_TIME).to_pylist(), np.float64)
        rate, width = _over_seeds(counts / (np.diff(edges) / 1000.0))
        columns = {
            "n_seeds": len(counts),
            "from_ms": edges[:-1],
            "to_ms": edges[1:],
            "commits_per_s": rate,
            "commits_per_s_hw": width,
        }
        parts.append(_block(_OVER_TIME, TIME_BINS, {**key, **columns}))
    return pa.concat_tables([_OVER_TIME.empty_table(), *parts]).combine_chunks()


def _groups(rows: pa.Table) -> Iterator[tuple[dict[str, str], pa.Table]]:
    """The rows of each class and operation of an experiment, seeds in order."""
    keys = list(zip(*(rows.column(name).to_pylist() for name in _KEY), strict=True))
    places: dict[tuple[str, ...], list[int]] = {}
    for place, key in enumerate(keys):
        places.setdefault(key, []).append(place)
    for key in sorted(places):
        yield dict(zip(_KEY, key, strict=True)), rows.take(places[key])


def _over_seeds(values: Floats) -> tuple[Floats, Floats]:
    """Means over the first axis and their half widths."""
    count = len(values)
    deviations = values.std(axis=0, ddof=1) if count > 1 else np.full(values.shape[1], np.nan)
    return values.mean(axis=0), half_widths(deviations, np.full(values.shape[1], count))


def _block(schema: pa.Schema, length: int, columns: dict[str, Any]) -> pa.Table:
    """Rows of one curve; single values are repeated. What is not a number is null."""
    arrays = []
    for field in schema:
        value = columns[field.name]
        repeated = value if isinstance(value, np.ndarray) else pa.repeat(pa.scalar(value, field.type), length)
        arrays.append(pa.array(repeated, field.type, from_pandas=True) if isinstance(value, np.ndarray) else repeated)
    return pa.table(arrays, schema=schema)
