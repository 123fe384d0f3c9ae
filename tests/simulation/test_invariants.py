"""Invariants of every run, checked on the rows and the catalog of random configurations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings

from endive.catalog import StoredCatalog
from endive.simulation import SimulationConfig
from endive.simulation.columns import TIME_COLUMNS
from endive.transaction import OPERATIONS
from tests.configurations import documents
from tests.interleave import group_seq
from tests.simulation.runs import config_of, run_with_catalog

CAN_CONFLICT = {"validated_overwrite", "overwrite", "row_delta", "rewrite_files", "replace_partitions", "delete"}


@dataclass(frozen=True)
class Run:
    """A run that has ended: what was asked for, and what came of it."""

    drained: bool
    catalog_type: str
    config: SimulationConfig
    rows: pd.DataFrame
    counts: Mapping[str, float]
    catalog: StoredCatalog


def written_by(rows: pd.DataFrame) -> Counter[int]:
    return Counter(int(table) for tables in rows["tables_written"] for table in tables)


def every_transaction_ends_in_exactly_one_row(run: Run) -> None:
    rows = run.rows
    assert sorted(rows["txn_id"]) == list(range(len(rows)))
    assert set(rows["status"]) <= {"committed", "aborted", "in_flight"}
    arrived = rows if not run.drained else rows[rows["operation_type"] != "rewrite_files"]  # a job commits on until it ends
    assert (arrived["t_submit"] < run.config.duration_ms).all()
    assert rows.sort_values("txn_id")["t_submit"].is_monotonic_increasing
    if run.drained:
        assert not (rows["status"] == "in_flight").any()


def no_update_is_lost_and_none_is_made_up(run: Run) -> None:
    """A table's version is the number of its commits, a group's sequence number that of the group's; once all have ended."""
    if not run.drained:
        return
    rows, catalog = run.rows, run.catalog
    writers = rows[rows["installs"] > 0]
    commits = written_by(writers)
    assert [table.version for table in catalog.tables] == [commits[table.table_id] for table in catalog.tables]
    groups = run.config.workload.config.groups
    by_group = Counter(groups[tables[0]] for tables in writers["tables_written"])
    assert [group_seq(catalog, group) for group in range(max(groups) + 1)] == [by_group[g] for g in range(max(groups) + 1)]
    assert run.counts["commit_success"] == len(writers) == catalog.seq


def commits_seen_at_the_end_of_a_run_cut_short_are_in_the_catalog(run: Run) -> None:
    """Without draining, a commit may be installed whose answer has not come: versions are at least the commits."""
    commits = written_by(run.rows[(run.rows["status"] != "in_flight") & (run.rows["installs"] > 0)])
    unanswered = written_by(run.rows[run.rows["status"] == "in_flight"])
    for table in run.catalog.tables:
        assert commits[table.table_id] <= table.version <= commits[table.table_id] + unanswered[table.table_id]


def a_commit_that_took_effect_is_not_aborted_unless_its_outcome_is_unknown(run: Run) -> None:
    aborted = run.rows[run.rows["status"] == "aborted"]
    assert (aborted["unknown_outcomes"][aborted["installs"] > 0] > 0).all()


def transactions_never_leave_their_group(run: Run) -> None:
    groups = run.config.workload.config.groups
    assert all(len({groups[table] for table in tables}) <= 1 for tables in run.rows["tables_written"])


def the_parts_of_the_time_add_up(run: Run) -> None:
    rows = run.rows
    parts = rows[list(TIME_COLUMNS)].sum(axis=1)
    finished = rows["status"] != "in_flight"
    np.testing.assert_allclose(parts[finished], rows["total_latency"][finished], rtol=1e-9, atol=1e-6)
    assert (parts[~finished] <= rows["total_latency"][~finished] + 1e-6).all()
    assert (rows["commit_latency"] <= rows["total_latency"] + 1e-6).all()
    commits = rows[rows["status"] == "committed"]
    np.testing.assert_allclose(commits["t_commit"], commits["t_submit"] + commits["total_latency"], rtol=1e-12)
    assert (rows.loc[rows["status"] != "committed", "t_commit"] == -1.0).all()


def only_operations_whose_data_can_conflict_meet_real_conflicts(run: Run) -> None:
    rows = run.rows
    others = rows[~rows["operation_type"].isin(CAN_CONFLICT)]
    assert (others["real_conflicts"] == 0).all()
    assert (others["n_restarts"] == 0).all()
    assert not (others["abort_reason"] == "validation_exception").any()
    assert set(rows["operation_type"]) <= set(OPERATIONS)


def readers_write_nothing(run: Run) -> None:
    readers = run.rows[run.rows["operation_type"] == "read_only"]
    assert (readers["tables_written"].map(len) == 0).all()
    assert (readers["n_retries"] == 0).all()


def reasons_retries_and_budgets_agree(run: Run) -> None:
    config, rows = run.config, run.rows
    assert (rows["abort_reason"].notna() == (rows["status"] == "aborted")).all()
    for cls in config.workload.config.workload_classes:
        mine = rows[rows["workload_class"] == cls.name]
        budget, restarts = config.max_retries_of(cls), mine["n_restarts"]
        assert (mine["n_retries"] <= budget * (1 + restarts)).all()
        assert (restarts <= config.policy_of(cls).max_restarts).all()
        exhausted = mine[(mine["abort_reason"] == "max_retries_exceeded") & (restarts == 0)]
        assert (exhausted["n_retries"] == budget).all()
        if config.policy_of(cls).total_timeout_ms is None:
            assert not (mine["abort_reason"] == "commit_timeout").any()
        else:
            timed_out = mine[(mine["abort_reason"] == "commit_timeout") & (restarts == 0)]
            assert (timed_out["commit_latency"] > config.policy_of(cls).total_timeout_ms).all()
        cancelled = mine[mine["abort_reason"] == "operation_timeout"]
        limits_ms = cancelled["operation_type"].map(config.policy_of(cls).time_limit_ms).astype(float)
        assert (cancelled["total_latency"] > limits_ms - 1e-6).all()
        if config.policy_of(cls).commit_path == "endive":
            late = mine[(mine["n_retries"] > 0) & (mine["status"] == "committed")]
            limits_ms = late["operation_type"].map(config.policy_of(cls).time_limit_ms).astype(float)
            assert (late["total_latency"] <= limits_ms + 1e-6).all()
        if not config.policy_of(cls).backoff.enabled:
            assert (mine["t_backoff"] == 0.0).all()


def a_conflict_is_told_for_each_retry_that_overlaps_and_no_more(run: Run) -> None:
    config, rows = run.config, run.rows
    conflicts = rows["false_conflicts"] + rows["real_conflicts"]
    paths = {cls.name: config.policy_of(cls).commit_path for cls in config.workload.config.workload_classes}
    path = rows["workload_class"].map(paths)
    assert (conflicts <= rows["n_retries"])[path == "endive"].all()
    attempts = rows["n_retries"] + rows["n_restarts"] + 1  # where the first attempt validates too, table by table
    assert (conflicts <= attempts * rows["tables_written"].map(len)).all()
    appends = rows[rows["operation_type"] == "fast_append"]
    assert (appends["manifest_file_reads"] == 0).all()
    assert (appends["conflict_io_ms"] == 0.0).all()


def counters_of_the_log_agree_with_each_other(run: Run) -> None:
    counts = run.counts
    assert counts["append_physical_success"] == counts["append_logical_success"] + counts["append_logical_conflict"]
    assert counts["append_compactions_completed"] <= counts["append_compactions_triggered"]
    if run.catalog_type == "append":
        assert counts["commit_success"] == counts["append_logical_success"]
    else:
        assert counts["append_physical_success"] == 0


INVARIANTS: tuple[Callable[[Run], None], ...] = (
    every_transaction_ends_in_exactly_one_row,
    no_update_is_lost_and_none_is_made_up,
    commits_seen_at_the_end_of_a_run_cut_short_are_in_the_catalog,
    a_commit_that_took_effect_is_not_aborted_unless_its_outcome_is_unknown,
    transactions_never_leave_their_group,
    the_parts_of_the_time_add_up,
    only_operations_whose_data_can_conflict_meet_real_conflicts,
    readers_write_nothing,
    reasons_retries_and_budgets_agree,
    a_conflict_is_told_for_each_retry_that_overlaps_and_no_more,
    counters_of_the_log_agree_with_each_other,
)


def check_catalog(tree: dict[str, Any]) -> None:
    """Run a configuration on the reference engine and check all invariants of its rows and its catalog."""
    config = config_of(tree)
    rows, counters, catalog = run_with_catalog(config)
    run = Run(tree["simulation"]["drain"], tree["catalog"]["type"], config, rows, counters.counts, catalog)
    for holds in INVARIANTS:
        holds(run)


@settings(max_examples=120)
@given(documents())
def test_all_invariants_hold_in_every_run(tree: dict[str, Any]) -> None:
    check_catalog(tree)


def overwrites(rate: float = 20.0, **transaction: Any) -> dict[str, Any]:
    return {
        "simulation": {"duration_ms": 5_000.0, "seed": 3, "drain": True},
        "storage": {"provider": "s3x"},
        "catalog": {"num_tables": 1},
        "transaction": {"retry": 6, "runtime": {"mean": 300.0, "sigma": 0.5}, **transaction},
        "workload": {"every": {"rate": rate, "operation": "validated_overwrite"}},
    }


def ordered_effects(config: SimulationConfig) -> tuple[list[int], pd.DataFrame]:
    """The transactions in the order in which the catalog installed them."""
    from endive.catalog.base import CatalogState

    order: list[int] = []
    install = CatalogState.install

    def watching(self: CatalogState, *arguments: Any) -> None:
        order.append(self.tables[0].version)
        install(self, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CatalogState, "install", watching)
        rows, _, _ = run_with_catalog(config)
    return order, rows


def test_versions_of_a_table_are_installed_one_by_one_in_the_order_of_commits() -> None:
    order, rows = ordered_effects(config_of(overwrites()))
    commits = rows[rows["status"] == "committed"]
    assert order == list(range(len(commits)))
    # With effects at the end of the latency, the order of rows is that of the effects.
    assert commits["t_commit"].is_monotonic_increasing
    assert len(commits) > 20


def test_the_first_committer_wins_and_the_others_try_again() -> None:
    """Two that start together and commit at the same moment: the lower number is first, the other pays a retry."""
    tree = overwrites()
    tree["storage"] = {"T_CAS": {"mean": 4.0}, "T_METADATA_ROOT": {"read": {"mean": 1.0}, "write": {"mean": 1.0}}}
    tree["transaction"]["runtime"] = {"distribution": "fixed", "value": 100.0}
    tree["simulation"]["duration_ms"] = 10.0
    tree["workload"] = {"every": {"closed": {"clients": 2}, "operation": "validated_overwrite"}}
    config = config_of(tree)
    rows, _, _ = run_with_catalog(config)
    assert list(rows["txn_id"]) == [0, 1]
    assert list(rows["n_retries"]) == [0, 1]
    assert rows["t_commit"].iloc[0] < rows["t_commit"].iloc[1]
