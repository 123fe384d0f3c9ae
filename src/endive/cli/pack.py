"""``endive pack``: pack a study into one archive with checksums."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from endive.cli.app import JsonFlag, app, command
from endive.cli.consolidate import tell_damage
from endive.cli.options import MasterOption, RemoteOption, ShipOption, output_option
from endive.runs.layout import FIGURES_FOLDER, REPORT


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
