"""``endive import``: create a configuration from a table's history."""

from __future__ import annotations

import math
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from endive.cli.app import JsonFlag, app, command
from endive.cli.options import ForceFlag, check_new, output_option
from endive.cli.output import Output
from endive.formatting import finite

if TYPE_CHECKING:
    from collections.abc import Sequence

    from endive.calibrate.answers import Answer
    from endive.calibrate.reports import CommitReport
    from endive.calibrate.table_import import Imported


def check_client(name: str | None) -> str | None:
    """Return the name of an Iceberg client. Raises BadParameter if no client has this name."""
    from endive.transaction.paths import COMMIT_PATHS

    known = [path.name for path in COMMIT_PATHS.values() if path.is_iceberg]
    if name is not None and name not in known:
        raise typer.BadParameter(f"{name!r} is not one of {', '.join(known)}.")
    return name


ClientOption = Annotated[
    str | None,
    typer.Option(
        metavar="CLIENT",
        callback=check_client,
        help="Client that wrote the table: iceberg (Java) or pyiceberg. Default: detected from snapshot summaries.",
    ),
]
TableArgument = Annotated[
    str,
    typer.Argument(
        metavar="TABLE",
        help="metadata.json or directory of a Delta table (path or URL), the snapshots metadata table (Parquet, CSV), or "
        "NAMESPACE.TABLE of a PyIceberg catalog.",
        show_default=False,
    ),
]
CatalogOption = Annotated[
    str | None, typer.Option(metavar="NAME", help="PyIceberg catalog of the table. Default: PyIceberg's default.")
]
ReportsOption = Annotated[Path | None, typer.Option(metavar="FILE", help="Commit reports of the table, JSON lines.")]


@app.command(name="import")
def import_(
    table: TableArgument,
    out: Annotated[Path, output_option("Configuration to write.", "FILE")] = Path("mine.toml"),
    force: ForceFlag = False,
    catalog: CatalogOption = None,
    reports: ReportsOption = None,
    provider: Annotated[
        str | None, typer.Option(metavar="NAME", help="Object store: a built-in provider or a profile. Default: s3 (assumed).")
    ] = None,
    client: ClientOption = None,
    answer: Annotated[
        bool,
        typer.Option(
            "--answer/--no-answer",
            help="Also simulate the table, and print the range of results that follows from the assumptions.",
        ),
    ] = True,
    json: JsonFlag = False,
) -> None:
    """Read a table's history and write a configuration with its workload classes, rates, table state and properties."""
    with command(json) as output:
        from endive.output_files import check_writable

        check_new(out, force)
        check_writable(out.parent)
        imported, found = read_table(table, catalog, reports, provider, client)
        written, not_fitted = write_imported(imported, out, found)
        notes = [*imported.notes, *not_fitted]
        result: dict[str, Any] = {
            "configuration": str(out),
            "written": [str(path) for path in written],
            "classes": [
                {"name": c.name, "operation": c.operation, "commits": len(c.commits), "arrivals": c.process.words}
                for c in imported.classes
            ],
            "assumptions": [{"about": each.about, "assumed": each.assumed} for each in imported.assumptions],
            "notes": notes,
        }
        rows = [(c.name, c.operation, f"{len(c.commits):,}", c.process.words) for c in imported.classes]
        output.table(f"Classes of {table}", ("class", "operation", "commits", "arrivals"), rows)
        output.note(*notes)
        assumed = [f"- {each.about}: {each.assumed}" for each in imported.assumptions]
        output.text("\nAssumptions (a table's history does not contain these values):", *assumed)
        if answer and not not_fitted:
            _answer(output, out, imported, result)
        output.result(result)
        output.text(f"\nwrote {', '.join(str(path) for path in written)}; next: endive run {out}")


def read_table(
    table: str, catalog: str | None, reports: Path | None, provider: str | None, client: str | None
) -> tuple[Imported, tuple[CommitReport, ...]]:
    """Read a table's history; return it with its commit reports, if there are any."""
    from endive.calibrate.reports import read_reports
    from endive.calibrate.sources import open_history
    from endive.calibrate.table_import import import_history

    found = () if reports is None else read_reports(reports)
    return import_history(open_history(table, catalog), reports=found, provider=provider, client=client), found


def _answer(output: Output, out: Path, imported: Imported, result: dict[str, Any]) -> None:
    """Print the prediction and add it to the result, or the reason why it was not simulated."""
    from endive.calibrate import TooMuchWorkError
    from endive.calibrate.answers import answers

    try:
        made = answers(out, imported.assumptions)
    except TooMuchWorkError as error:
        result["notes"].append(f"not simulated: {error}")
        output.note(result["notes"][-1])
        return
    result["answers"] = [answer_data(each) for each in made]
    show_answers(output, "\nPredicted results (range: results with each assumption at its bounds)", made)


def write_imported(imported: Imported, out: Path, reports: Sequence[CommitReport]) -> tuple[list[Path], list[str]]:
    """Write the configuration, its assumptions and, if reports contain latencies, the fitted store.

    Returns the files, and notes on skipped fits that would take too long.
    """
    from endive.calibrate import TooMuchWorkError
    from endive.calibrate.table_import import assumptions_path, assumptions_text, configuration_text
    from endive.config.load import check_document
    from endive.output_files import write_text

    text = configuration_text(imported)
    check_document(tomllib.loads(text), str(out), out.parent)
    write_text(out, text)
    beside = assumptions_path(out)
    write_text(beside, assumptions_text(imported))
    written = [out, beside]
    single_attempts_ms = [report.duration_ms for report in reports if report.attempts == 1]
    try:
        if single_attempts_ms:
            written.append(_fit_latencies(imported, out, single_attempts_ms))
        _fit_loops(imported, out)
    except TooMuchWorkError as error:
        return written, [f"not simulated: {error}"]
    return written, []


def _fit_latencies(imported: Imported, out: Path, single_attempts_ms: list[float]) -> Path:
    """Fit the store latencies to the observed duration of commits with one attempt; write the profile and the configuration."""
    from endive.calibrate.answers import fit_store
    from endive.calibrate.profile import scaled_profile_text
    from endive.calibrate.table_import import configuration_text
    from endive.config.load import load_document
    from endive.config.store_profiles import storage_profile
    from endive.output_files import write_text

    factor = fit_store(out, single_attempts_ms, imported.at_start)
    store = out.with_suffix(".store.toml")
    write_text(store, scaled_profile_text(storage_profile(load_document(out).storage), factor))
    imported.tree["storage"]["provider"] = store.name
    write_text(out, configuration_text(imported))
    return store


def _fit_loops(imported: Imported, out: Path) -> None:
    """Fit the think times of closed-loop writers to their observed commit rates; write the configuration again."""
    from endive.calibrate.answers import fit_think
    from endive.calibrate.table_import import configuration_text
    from endive.output_files import write_text
    from endive.workload.arrivals import CLOSED_LOOP

    workload = imported.tree["workload"]
    waiting = {cls.name: cls.process.per_s for cls in imported.classes if CLOSED_LOOP.key in workload[cls.name]}
    if waiting:
        for name, closed in fit_think(out, waiting, imported.at_start).items():
            workload[name][CLOSED_LOOP.key] = closed
        write_text(out, configuration_text(imported))


def answer_data(answer: Answer) -> dict[str, Any]:
    """Return a prediction for JSON; unknown values are null."""
    return {
        "class": answer.name,
        "success": finite(answer.base.success),
        "success_range": [finite(end) for end in answer.success],
        "p50_ms": finite(answer.base.p50_ms),
        "p50_ms_range": [finite(end) for end in answer.p50_ms],
        "p95_ms": finite(answer.base.p95_ms),
        "attempts": finite(answer.base.attempts),
        "attempts_range": [finite(end) for end in answer.attempts],
        "commits_per_s": answer.base.commits_per_s,
        "widest_assumption": answer.widest or None,
    }


def show_answers(output: Output, title: str, made: list[Answer]) -> None:
    """Print predictions with their ranges."""
    from endive.formatting import format_duration, format_number, format_percent, join_ends

    def percent(value: float) -> str:
        return "-" if math.isnan(value) else format_percent(value)

    def ms(value: float) -> str:
        return "-" if math.isnan(value) else "aborted" if math.isinf(value) else format_duration(value)

    header = ("class", "success", "range", "time to commit p50", "range", "attempts", "commits/s", "main assumption")
    rows = [
        (
            each.name,
            percent(each.base.success),
            join_ends(*map(percent, each.success)),
            ms(each.base.p50_ms),
            join_ends(*map(ms, each.p50_ms)),
            "-" if math.isnan(each.base.attempts) else format_number(each.base.attempts),
            format_number(each.base.commits_per_s),
            each.widest or "-",
        )
        for each in made
    ]
    output.table(title, header, rows)
