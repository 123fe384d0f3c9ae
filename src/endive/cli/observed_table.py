"""``endive import``, ``replay`` and ``fidelity``: configurations from the history of a table, and their comparison with it."""

from __future__ import annotations

import math
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from endive.cli.app import JsonFlag, app, command
from endive.cli.options import ConfigArgument, ForceFlag, SetOption, check_new, output_option, overrides_of
from endive.cli.output import Output
from endive.formatting import finite

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from endive.analysis.estimates import Estimate
    from endive.calibrate.answers import Answer
    from endive.calibrate.fidelity import Comparison
    from endive.calibrate.measurements import CommitReport
    from endive.calibrate.table_history import History
    from endive.calibrate.table_import import Imported

    Source = History | tuple[CommitReport, ...]


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
    from endive.calibrate.measurements import read_reports
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
    """Write the configuration, its assumptions and, if reports contain latencies, the latency profile that was fitted to them.

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
    from endive.config.resolve import storage_profile
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

    header = ("class", "success", "range", "p50 time to commit", "range", "attempts", "commits/s", "main assumption")
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


@app.command()
def replay(
    table: TableArgument,
    out: Annotated[Path, output_option("Configuration to write.", "FILE")] = Path("replay.toml"),
    force: ForceFlag = False,
    set_: Annotated[list[str], typer.Option("--set", metavar="KEY=VALUE", help="Setting to change in the second replay.")] = [],  # noqa: B006
    catalog: CatalogOption = None,
    reports: ReportsOption = None,
    provider: Annotated[str | None, typer.Option(metavar="NAME", help="Object store of the table. Default: s3 (assumed).")] = None,
    client: ClientOption = None,
    json: JsonFlag = False,
) -> None:
    """Replay a table's commits at their original times, once with the original settings and once with changed settings."""
    with command(json) as output:
        from endive.calibrate.answers import answers
        from endive.calibrate.table_import import make_trace
        from endive.config.load import load_document
        from endive.output_files import check_writable, write_text

        changes = overrides_of(set_)
        check_new(out, force)
        check_writable(out.parent)
        imported, found = read_table(table, catalog, reports, provider, client)
        made, traces = make_trace(imported, out, found)
        for path, text in traces.items():
            write_text(path, text)
        written, _ = write_imported(made, out, found)
        load_document(out, changes)
        output.note("Assumptions:", *(f"- {each.about}: {each.assumed}" for each in made.assumptions))
        was = answers(out, made.assumptions)
        show_answers(output, f"{table}, original settings", was)
        result: dict[str, Any] = {
            "configuration": str(out),
            "written": [str(path) for path in (*written, *traces)],
            "as_it_was": [answer_data(each) for each in was],
            "assumptions": [{"about": each.about, "assumed": each.assumed} for each in made.assumptions],
        }
        if changes:
            other = answers(out, made.assumptions, changes)
            show_answers(output, f"\nWith {', '.join(set_)}", other)
            result["changes"] = changes
            result["with_changes"] = [answer_data(each) for each in other]
        output.result(result)
        output.text(f"\nwrote {', '.join(str(path) for path in (*written, *traces))}")


_SEEDS = 5


@app.command()
def fidelity(
    config: ConfigArgument,
    against: Annotated[list[str], typer.Option(metavar="SOURCE", help="Commit reports (JSON lines), or a table as for `import`.")],
    set_: SetOption = [],  # noqa: B006
    catalog: CatalogOption = None,
    json: JsonFlag = False,
) -> None:
    """Compare simulated attempts, durations and intervals between commits with observations; print a verdict for each metric."""
    with command(json) as output:
        from endive.calibrate import InputError
        from endive.calibrate.answers import simulate
        from endive.calibrate.fidelity import combine_verdicts, correct_verdicts, explain

        changes = overrides_of(set_)
        sources = [_read_observations(source, catalog) for source in against]
        rows = simulate(config, {**_table_then(config, sources, changes), **changes}, range(1, _SEEDS + 1))
        comparisons = correct_verdicts([each for source in sources for each in _compare(source, rows)])
        if not comparisons:
            raise InputError(f"{', '.join(against)}: no operation has at least 20 commits in both sources")
        verdict, reasons = combine_verdicts(comparisons), explain(comparisons)
        output.table(
            f"{config} compared with {', '.join(against)}",
            ("metric", "observed", "simulated", "ratio", "verdict"),
            [_comparison_row(each) for each in comparisons],
        )
        summary = f"The model is {verdict} to the observations." if verdict != "cannot tell" else "Too few commits for a verdict."
        output.text("", summary, *(f"- {reason}" for reason in reasons))
        output.result(
            {"verdict": verdict, "comparisons": [_comparison_data(each) for each in comparisons], "explanations": reasons}
        )


def _read_observations(source: str, catalog: str | None) -> Source:
    """Return the commit reports in a file of JSON lines, or the history of a table."""
    from endive.calibrate.measurements import read_reports
    from endive.calibrate.sources import open_history

    if source.lower().removesuffix(".gz").endswith((".jsonl", ".ndjson")):
        return read_reports(Path(source))
    return open_history(source, catalog)


def _table_then(config: Path, sources: list[Source], changes: dict[str, Any]) -> dict[str, Any]:
    """Set the initial table of the model to its state at the start of the history."""
    from endive.calibrate.fidelity import list_start_keys
    from endive.calibrate.table_history import History
    from endive.config.load import load_document

    table = load_document(config, changes).table.model_dump()
    return {key: value for each in sources if isinstance(each, History) for key, value in list_start_keys(each, table).items()}


def _compare(source: Source, rows: pd.DataFrame) -> list[Comparison]:
    """Compare the model with commit reports or with a history."""
    from endive.calibrate.fidelity import compare_failures, compare_history, compare_reports
    from endive.calibrate.table_history import History

    if isinstance(source, History):
        return [*compare_history(source, rows), *compare_failures(source, rows)]
    return compare_reports(source, rows)


def _comparison_row(each: Comparison) -> tuple[str, ...]:
    from endive.formatting import format_duration, format_number, format_percent, format_percent_range, join_ends

    def show(estimate: Estimate) -> str:
        if "fraction" in each.measure:
            return f"{format_percent(estimate.mean)} ({format_percent_range(estimate.low, estimate.high)})"
        word = format_number if "attempts" in each.measure or "variation" in each.measure else format_duration
        return f"{word(estimate.mean)} ({join_ends(word(estimate.low), word(estimate.high))})"

    return (
        f"{each.operation}: {each.measure}",
        show(each.observed),
        show(each.simulated),
        "-" if each.ratio != each.ratio else f"{each.ratio:.2f}",
        each.verdict,
    )


def _comparison_data(each: Comparison) -> dict[str, Any]:
    def values(estimate: Estimate) -> dict[str, float]:
        return {"value": estimate.mean, "low": estimate.low, "high": estimate.high}

    return {
        "measure": each.measure,
        "operation": each.operation,
        "observed": values(each.observed),
        "simulated": values(each.simulated),
        "ratio": None if each.ratio != each.ratio else each.ratio,
        "verdict": each.verdict,
    }
