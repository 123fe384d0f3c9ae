"""Print verification rows as tables on the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from verification.iceberg.imported import ImportedRow
from verification.iceberg.rows import Row
from verification.statistics.coverage import CoverageRow
from verification.statistics.levers import LeverRow
from verification.theory.rows import TheoryRow

_MARKS = {True: "[green]yes[/]", False: "[red]no[/]"}


def print_rows(console: Console, mode: str, rows: Sequence[Row]) -> None:
    """Print the predicted and measured values of a mode; for counts, only differences."""
    within = sum(row.within for row in rows)
    title = f"{mode}: {within} of {len(rows)} within their bars"
    console.print(_counts_table(title, rows) if mode == "counts" else _figures_table(title, rows))


def _counts_table(title: str, rows: Sequence[Row]) -> Table:
    table = Table("case", "differs (measured, predicted)", "remark", title=title, title_justify="left")
    for row in rows:
        if row.difference:
            differences = "\n".join(f"{kind} {pair[0]} {pair[1]}" for kind, pair in row.difference.items())
            table.add_row(row.case, differences, row.remark)
    return table


def _figures_table(title: str, rows: Sequence[Row]) -> Table:
    figures = list(rows[0].difference)
    table = Table("client", "operation", "case", *figures, "within", "remark", title=title, title_justify="left")
    for row in rows:
        pairs = [f"{row.measured[figure]:.3g} / {row.predicted[figure]:.3g}" for figure in figures]
        table.add_row(row.client, row.operation, row.case, *pairs, _MARKS[row.within], row.remark)
    table.caption = "measured / predicted"
    return table


def print_imported(console: Console, rows: Sequence[ImportedRow]) -> None:
    """Print observed and simulated values of imported tables, and the verdicts on the models."""
    title = f"imported: {sum(row.within for row in rows)} of {len(rows)} as expected"
    table = Table(
        "table", "measure", "observed", "simulated", "verdict", "expected", "as expected", title=title, title_justify="left"
    )
    for row in rows:
        figures = [f"{each:.4g}" if isinstance(each, float) else "" for each in (row.observed, row.simulated)]
        if isinstance(row.observed, dict):
            lines = [*row.observed["classes"], *row.observed["notes"], *row.observed["assumptions"]]
            console.print(f"import of the table of {row.case}:", *(f"- {line}" for line in lines), sep="\n")
            continue
        table.add_row(row.case, row.measure, *figures, row.verdict, row.expected, _MARKS[row.within])
    console.print(table)


def print_theory(console: Console, mode: str, rows: Sequence[TheoryRow]) -> None:
    """Print the values of theory and of the simulator."""
    title = f"{mode}: {sum(row.within for row in rows)} of {len(rows)} within their bars"
    table = Table("case", "quantity", "theory", "simulated", "difference", "bar", "within", title=title, title_justify="left")
    for row in rows:
        figures = (f"{row.theory:.4g}", f"{row.simulated:.4g}", f"{100.0 * row.difference:+.2f} %", f"{100.0 * row.bar:.2g} %")
        table.add_row(row.case, row.quantity, *figures, _MARKS[row.within])
    console.print(table)


def print_levers(console: Console, rows: Sequence[LeverRow]) -> None:
    """Each made-up system: the lever that mends it, and the one that was found."""
    title = f"levers: {sum(row.within for row in rows)} of {len(rows)} as planted"
    table = Table("system", "planted", "found", "what the page says", "within", title=title, title_justify="left")
    for row in rows:
        table.add_row(row.case, row.planted or "none", row.found or "none", row.sentence, _MARKS[row.within])
    console.print(table)


def print_coverage(console: Console, rows: Sequence[CoverageRow]) -> None:
    """Print the coverage of each kind of interval."""
    title = f"coverage of 95 % intervals: {sum(row.within for row in rows)} of {len(rows)} within their bars"
    table = Table("interval", "of", "truth", "studies", "held", "bar", "within", title=title, title_justify="left")
    for row in rows:
        bar = f"{100.0 * row.low:g} to {100.0 * row.high:g} %"
        figures = (f"{row.truth:.4g}", str(row.studies), f"{100.0 * row.held:.1f} %", bar)
        table.add_row(row.interval, row.case, *figures, _MARKS[row.within])
    console.print(table)
