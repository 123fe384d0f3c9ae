"""``endive consolidate``: the runs of many experiments into one dataset."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from endive.cli.app import EXIT_FAILED, JsonFlag, app, command, progress
from endive.cli.options import ROOT, MasterOption, RemoteOption, RootArgument, ShipOption
from endive.cli.output import Output
from endive.runs.layout import dataset_folder

if TYPE_CHECKING:
    from endive.pipeline.consolidate import Consolidation
    from endive.runs.inventory import Damage


@app.command()
def consolidate(
    root: RootArgument = ROOT,
    master: MasterOption = None,
    remote: RemoteOption = None,
    ship_code: ShipOption = False,
    json: JsonFlag = False,
) -> None:
    """Update DIR/consolidated: one dataset of all finished runs, by experiment and operation."""
    with command(json) as output:
        from endive.pipeline import consolidate as pipeline
        from endive.pipeline.session import SparkOptions, spark_session

        with progress(output, "consolidating") as report:
            done = pipeline.consolidate(root, lambda: spark_session(SparkOptions(master, remote, ship_code)), report=report)
        _report(output, root, done)
        tell_damage(output, done.problems)


def tell_damage(output: Output, problems: Sequence[Damage]) -> None:
    """Print each damaged run and experiment, and exit with 1 if there are any."""
    output.error(*(f"{problem.where}: {problem.message}" for problem in problems))
    if problems:
        raise typer.Exit(EXIT_FAILED)


def _report(output: Output, root: Path, done: Consolidation) -> None:
    output.result({"dataset": str(dataset_folder(root)), **asdict(done)})
    if done.unfinished_runs:
        output.note(f"{done.unfinished_runs} runs are not finished and were left out")
    output.text(
        f"{done.rows:,} rows of {done.runs:,} runs of {done.experiments:,} experiments in {done.files:,} files, "
        f"in {dataset_folder(root)}",
        f"{done.parts_written:,} parts written, {done.parts_reused:,} unchanged, {done.files_removed:,} files removed; "
        f"{len(done.problems):,} problems",
    )
