"""``endive consolidate`` and ``pack``: all runs of a study as one dataset, as Iceberg tables or as an archive."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from endive.cli.app import EXIT_FAILED, JsonFlag, app, command, progress, refuse
from endive.cli.options import ROOT, MasterOption, RemoteOption, RootArgument, ShipOption, output_option
from endive.cli.output import Output
from endive.runs.layout import FIGURES_FOLDER, REPORT, dataset_folder

if TYPE_CHECKING:
    from endive.pipeline.consolidate import Consolidation
    from endive.pipeline.iceberg_tables import IcebergExport
    from endive.runs.stored import Damage


@app.command()
def consolidate(
    root: RootArgument = ROOT,
    to: Annotated[
        tuple[str, str] | None,
        typer.Option(
            "--to", metavar="iceberg CATALOG.NAMESPACE.TABLE", help="Write Iceberg tables through PyIceberg instead of a dataset."
        ),
    ] = None,
    master: MasterOption = None,
    remote: RemoteOption = None,
    ship_code: ShipOption = False,
    json: JsonFlag = False,
) -> None:
    """Update DIR/consolidated, a dataset of all finished runs, partitioned by experiment and operation.

    With --to iceberg, write the tables TABLE_transactions, TABLE_metrics and TABLE_runs instead. A second call adds only new runs.
    """
    with command(json) as output:
        if to is not None:
            _export(output, root, *to, master, remote, ship_code)
            return
        from endive.pipeline import consolidate as pipeline
        from endive.pipeline.session import SparkOptions, spark_session

        with progress(output, "consolidating") as report:
            done = pipeline.consolidate(root, lambda: spark_session(SparkOptions(master, remote, ship_code)), report=report)
        _report(output, root, done)
        tell_damage(output, done.problems)


def _export(output: Output, root: Path, kind: str, table: str, master: str | None, remote: str | None, ship_code: bool) -> None:
    from endive.pipeline import iceberg_tables
    from endive.pipeline import session as sessions

    known = iceberg_tables.TABLE_FORMAT.lower()
    if kind != known:
        refuse("--to", f"unknown format {kind!r}; the format is {known}")
    target = iceberg_tables.parse_target(table)
    options = sessions.SparkOptions(master, remote, ship_code)
    with progress(output, "writing") as report, iceberg_tables.open_catalog(target) as catalog:
        done = iceberg_tables.export_study(root, target, catalog, lambda: sessions.spark_session(options), report=report)
    _report_export(output, done)
    tell_damage(output, done.problems)


def _report_export(output: Output, done: IcebergExport) -> None:
    output.result(asdict(done))
    if done.unfinished_runs:
        output.note(f"{done.unfinished_runs} unfinished runs are omitted")
    runs = done.runs_added + done.runs_present
    output.text(f"{done.rows:,} rows of {runs:,} runs, {done.runs_added:,} of them new, in {', '.join(done.tables)}")


def tell_damage(output: Output, problems: Sequence[Damage]) -> None:
    """Print each damaged run and experiment, and exit with 1 if there are any."""
    output.error(*(f"{problem.where}: {problem.message}" for problem in problems))
    if problems:
        raise typer.Exit(EXIT_FAILED)


def _report(output: Output, root: Path, done: Consolidation) -> None:
    output.result({"dataset": str(dataset_folder(root)), **asdict(done)})
    if done.unfinished_runs:
        output.note(f"{done.unfinished_runs} unfinished runs are omitted")
    output.text(
        f"{done.rows:,} rows of {done.runs:,} runs of {done.experiments:,} experiments in {done.files:,} files, "
        f"in {dataset_folder(root)}",
        f"{done.parts_written:,} parts written, {done.parts_reused:,} unchanged, {done.files_removed:,} files removed; "
        f"{len(done.problems):,} problems",
    )


@app.command()
def pack(
    study: Annotated[Path, typer.Argument(metavar="DIR", help="Directory of experiments.", show_default=False)],
    out: Annotated[Path, output_option("Archive to write.", "FILE")] = Path("study.zip"),
    master: MasterOption = None,
    remote: RemoteOption = None,
    ship_code: ShipOption = False,
    json: JsonFlag = False,
) -> None:
    """Pack a study into an archive: configurations, rows, provenance, metrics, figures, report and package versions.

    New runs are measured first, and the figures and the report are created. The archive contains the checksum of
    each file; to check them, unpack it and run `endive experiments verify DIR`.
    """
    with command(json) as output:
        from endive.output_files import check_writable, write_text
        from endive.pipeline.session import SparkOptions, spark_session
        from endive.report import ReportError
        from endive.report.figures import build_report_figures
        from endive.report.page import render_page
        from endive.report.paper import save_figure
        from endive.report.sections import make_page
        from endive.report.study_data import load_study
        from endive.runs.pack import pack_study

        check_writable(out.parent)
        options = SparkOptions(master, remote, ship_code)
        loaded = load_study(study, sessions=lambda: spark_session(options))
        if loaded.kind != "sweep":
            raise ReportError(f"{study}: expected a directory of experiments, such as the output of `endive sweep`")
        figures = build_report_figures(loaded)
        for figure in figures:
            save_figure(figure, study / FIGURES_FOLDER, ("svg", "png"))
        write_text(study / REPORT, render_page(make_page(loaded, figures)))
        packed = pack_study(study, out)
        output.result({"archive": str(out), "bytes": out.stat().st_size, "files": sorted(packed)})
        output.text(
            f"{len(packed):,} files in {out}, {out.stat().st_size / 2**20:,.1f} MiB",
            "After unpacking, check it with `endive experiments verify DIR`.",
        )
        tell_damage(output, loaded.problems)
