"""Print results as tables on the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.bars import Bar
from benchmarks.measure import Row

_MARKS = {True: "[green]yes[/]", False: "[red]no[/]", None: ""}
_COLUMNS: dict[str, tuple[str, ...]] = {
    "engines": ("case", "transactions", "reference_txn_per_s", "compiled_txn_per_s", "ratio", "ns_per_draw", "peak_mib"),
    "growth": ("case", "transactions", "us_per_txn", "us_per_event", "relative", "bar_us", "cpu_s", "estimated_cpu_s"),
    "estimates": ("case", "within_3", "median_error", "largest_error", "mean_estimation_s", "us_per_event"),
    "one_pass": ("case", "cpu_s", "ratio", "measure_again_cpu_s", "duckdb_cpu_s", "disk_mib", "largest_worker_mib"),
    "precision": (
        "case",
        "points",
        "precision",
        "runs",
        "precise_cpu_s",
        "fixed_seeds",
        "fixed_cpu_s",
        "ratio",
        "default_runs",
        "typical_runs",
    ),
    "searches": ("case", "cpu_s", "runs", "transactions", "before_cpu_s", "before_runs", "before_transactions", "ratio"),
    "memory": ("case", "transactions", "peak_mib", "peak_rss_mib", "cpu_s"),
    "startup": ("case", "wall_s", "cpu_s"),
    "simpy": ("case", "events", "reference_us_per_event", "simpy_us_per_event", "ratio"),
    "streaming": ("transactions", "peak_mib", "cpu_s"),
    "pipeline": ("case", "rows", "wall_s", "engine_s", "spark_startup_s", "ratio"),
    "suite": ("case", "rows", "engine_s", "sweep_minutes", "report_minutes", "suite_minutes"),
    "scale": ("case", "sweep_s", "consolidate_s", "metrics_s", "consolidate_driver_mib", "metrics_driver_mib"),
    "report": ("case", "rows", "figures", "with_measuring_s", "report_s", "mib"),
    "live": ("case", "first_s", "first_cpu_s", "refined_s", "refined_cpu_s", "all_s", "all_cpu_s"),
    "snapshots": ("ns_per_read_1x1", "ns_per_read_1000x1000", "ratio"),
}


def print_part(console: Console, name: str, result: Any) -> None:
    """Print one part of the results."""
    if name == "reference":
        _print_rows(console, "simpy", [result["simpy"]])
        _print_rows(console, "streaming", [result["streaming"]["once"], result["streaming"]["four_times"]])
    else:
        _print_rows(console, name, result if isinstance(result, list) else [result])


def _print_rows(console: Console, title: str, rows: Sequence[Row]) -> None:
    table = Table(title=title, title_justify="left")
    for name in _COLUMNS[title]:
        table.add_column(name.replace("_", " "), justify="left" if name == "case" else "right")
    for row in rows:
        table.add_row(*(_text(row.get(name)) for name in _COLUMNS[title]))
    console.print(table)


def print_bars(console: Console, bars: Iterable[Bar]) -> None:
    """Print targets and measured values."""
    table = Table(title="bars", title_justify="left")
    for name in ("figure", "bar", "seen", "cleared"):
        table.add_column(name, justify="left" if name == "figure" else "right")
    for bar in bars:
        table.add_row(bar.what, bar.wanted, f"{_text(bar.seen)}{bar.unit}", _MARKS[bar.cleared])
    console.print(table)


def _text(value: Any) -> str:
    if value is None:
        return ""
    if not isinstance(value, float):
        return f"{value:,}" if isinstance(value, int) else str(value)
    if abs(value) >= 100.0:
        return f"{value:,.0f}"
    return f"{value:.2f}" if abs(value) >= 1.0 else f"{value:.3g}"
