"""``endive report``: write a study as one HTML file, and print its findings."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from endive.cli.app import JsonFlag, app, command, on_terminal
from endive.cli.consolidate import tell_damage
from endive.cli.options import (
    CodeVersionOption,
    LoadOption,
    MasterOption,
    OptionalCooldownOption,
    PricesOption,
    RemoteOption,
    ShipOption,
    WarmupOption,
    output_option,
    prices_of,
)
from endive.cli.output import Output
from endive.runs.layout import REPORT

if TYPE_CHECKING:
    from endive.report.study_data import Study


@app.command()
def report(
    path: Annotated[
        Path,
        typer.Argument(
            metavar="DIR",
            help="Directory of experiments, an experiment or a run.",
            show_default=False,
        ),
    ],
    out: Annotated[Path | None, output_option(f"Report file. Default: {REPORT} below DIR.", "FILE")] = None,
    load: LoadOption = None,
    warmup: WarmupOption = None,
    cooldown: OptionalCooldownOption = None,
    prices: PricesOption = None,
    code_version: CodeVersionOption = None,
    master: MasterOption = None,
    remote: RemoteOption = None,
    ship_code: ShipOption = False,
    json: JsonFlag = False,
) -> None:
    """Write a report: one HTML file with the findings, interactive figures, their data and their provenance.

    Runs that are not measured yet are measured first. The file needs no network and no other file.
    """
    with command(json) as output:
        from endive.output_files import check_writable
        from endive.pipeline.session import SparkOptions, spark_session
        from endive.report.study_data import load_study

        if out is not None:
            check_writable(out.parent)
        options = SparkOptions(master, remote, ship_code)
        with _busy(output, "reading and measuring"):
            study = load_study(
                path,
                load=load,
                warmup_ms=warmup,
                cooldown_ms=cooldown,
                code_version=code_version,
                prices=prices_of(prices),
                sessions=lambda: spark_session(options),
            )
        with _busy(output, "drawing"):
            _write(output, study, out)


def _write(output: Output, study: Study, out: Path | None) -> None:
    from endive.output_files import write_text
    from endive.report.answer import describe_windows
    from endive.report.figures import build_report_figures
    from endive.report.page import render_page
    from endive.report.sections import make_page

    page, window = make_page(study, build_report_figures(study)), describe_windows(study)
    file = out or study.figures_folder.parent / REPORT
    write_text(file, render_page(page))
    output.result(
        {
            "report": str(file),
            "answer": list(page.answer),
            "warnings": list(page.warnings),
            "window": window,
            "figures": [figure.name for figure in page.figures],
            "problems": [asdict(problem) for problem in study.problems],
        }
    )
    output.text(*page.answer, window)
    output.note(*page.warnings)
    output.text("", f"wrote {file}: {len(page.figures)} figures with their data and provenance")
    tell_damage(output, study.problems)


def _busy(output: Output, what: str) -> AbstractContextManager[Any]:
    """Return a spinner on a terminal, otherwise a null context."""
    return output.talk.status(what) if on_terminal() else nullcontext()
