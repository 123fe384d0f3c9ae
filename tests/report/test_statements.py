"""Statements about runs: growth of tables, limits, cost."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from endive.report.phrases import (
    describe_drift,
    describe_growth,
    describe_limit,
    describe_month,
    describe_utilization,
    warn_utilization,
)
from endive.studies.request_cost import Cost

DAY_MS = 86_400_000.0


def row(**values: Any) -> dict[str, Any]:
    window = {"duration_ms": 365 * DAY_MS, "warmup_ms": 0.0, "warmup_by": "runtimes", "warmup_settled": True, "needed_ms": None}
    return {**window, "window_ms": 365 * DAY_MS, **values}


def test_growth_is_stated_with_its_rate_and_limit() -> None:
    growing = row(table_metadata_bytes_per_day=32e6)
    assert describe_drift([growing]) == "Table metadata grows by about 32 MB per day. The results hold only for runs of 365 d."
    assert describe_drift([row(table_metadata_bytes_per_day=0.0)]) is None
    assert describe_drift([row()]) is None


def test_no_steady_state_is_stated() -> None:
    lost = row(table_metadata_bytes_per_day=1e6, table_manifests_per_day=1440.0, warmup_by="growth", warmup_settled=False)
    assert describe_drift([lost]) == (
        "There is no steady state. Table metadata grows by about 1 MB per day and the number of manifests grows "
        "by about 1,440 per day. "
        "The results hold only for runs of 365 d."
    )


def test_growth_is_stated_if_it_occurs_in_every_seed() -> None:
    assert describe_growth([row(table_manifests_per_day=5.0), row(table_manifests_per_day=0.0)]) is None
    both = [row(table_manifests_per_day=50.0), row(table_manifests_per_day=70.0)]
    assert describe_growth(both) == "The number of manifests grows by about 60 per day. The results hold only for runs of 365 d."


def test_a_saw_tooth_that_rises_in_one_of_several_seeds_does_not_grow() -> None:
    assert describe_growth([row(table_manifests_per_day=18_199.0, table_manifests_per_day_hw=50_500.0)]) is None
    assert describe_growth([row(table_manifests_per_day=86_400.0, table_manifests_per_day_hw=900.0)]) is not None
    assert describe_growth([row(table_manifests_per_day=86_400.0, table_manifests_per_day_hw=float("nan"))]) is not None


def test_the_day_of_a_limit_is_stated() -> None:
    growing = row(table_metadata_bytes=1e6, table_metadata_bytes_per_day=0.5e6)
    assert describe_limit(growing, 20_000_000) == ("metadata.json reaches the limit of 20 MB on day 221. Expire snapshots earlier.")
    assert describe_limit(growing, 200_000_000) == (
        "metadata.json reaches the limit of 200 MB on day 581 if growth continues as simulated. Expire snapshots earlier."
    )
    assert describe_limit(growing, None) is None


def test_the_cost_of_a_month_names_requests_without_a_price() -> None:
    requests = {"store_reads": 1000.0, "catalog_reads": 1000.0}
    cost = Cost(requests, {"store_reads": 0.02, "catalog_reads": 0.0}, (), 0.0, "USD", 0.5)  # type: ignore[arg-type]
    assert describe_month(cost) == "Cost: 26.28 USD per month at 0.5/s."
    partly = replace(cost, unpriced=("catalog_reads",))
    assert describe_month(partly) == (
        "Cost: 26.28 USD per month at 0.5/s, excluding catalog reads, which have no price. Set prices with --prices FILE."
    )
    assert describe_month(replace(cost, money=None)) is None


def test_the_bottleneck_is_named() -> None:
    busy, idle = [row(catalog_utilization=0.96), row(catalog_utilization=0.98)], [row(catalog_utilization=0.42)]
    text = (
        "Utilization of the catalog's 16 workers is 97%. The catalog is the bottleneck. "
        "Raise catalog.workers, or shorten the service times of the catalog."
    )
    assert describe_utilization(busy, 16) == warn_utilization(busy, 16) == text
    assert describe_utilization(idle, 1) == "Utilization of the catalog's worker is 42%."
    assert warn_utilization(idle, 1) is None
    assert describe_utilization([row(catalog_utilization=None)], 0) is None
