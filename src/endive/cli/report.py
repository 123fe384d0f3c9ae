"""``endive report``, ``plot`` and ``pack``: the HTML report of a study, its figures as files, and the study as an archive."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from endive.cli.app import JsonFlag, app, command, on_terminal, tell_damage
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
from endive.runs.layout import FIGURES_FOLDER, REPORT

if TYPE_CHECKING:
    from endive.report.figure import Figure
    from endive.report.paper import Size
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

    Runs without metrics are measured first. The file works offline and needs no other file.
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
            _write_report(output, study, out)


def _write_report(output: Output, study: Study, out: Path | None) -> None:
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


_TIMELINE, _TIMELINE_TITLE = "timeline", "Timeline of one run"


@app.command()
def plot(
    study: Annotated[
        Path, typer.Argument(metavar="DIR", help="Directory of experiments, an experiment or a run.", show_default=False)
    ],
    figure: Annotated[
        list[str], typer.Option("--figure", metavar="NAME", help="Figure to draw; may be repeated. Default: all.")
    ] = [],  # noqa: B006
    out: Annotated[Path | None, output_option("Directory of the files. Default: DIR/figures.")] = None,
    formats: Annotated[str, typer.Option("--format", metavar="LIST", help="Output formats, separated by commas.")] = "png,svg,pdf",
    width: Annotated[str | None, typer.Option(metavar="SIZE", help="Width, such as 3.3in, 84mm or 8.4cm.")] = None,
    height: Annotated[str | None, typer.Option(metavar="SIZE", help="Height. Default: depends on the figure.")] = None,
    title: Annotated[bool, typer.Option(help="Print the title above each figure.")] = True,
    theory: Annotated[
        list[Path],
        typer.Option(
            metavar="CSV",
            help="Reference curve (CSV with columns x and y), labeled with its file name. Requires exactly one --figure.",
        ),
    ] = [],  # noqa: B006
    at: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Time at the center, such as 12.5s, 300ms or 2min.", rich_help_panel=_TIMELINE_TITLE),
    ] = None,
    span: Annotated[str, typer.Option(metavar="TIME", help="Duration of the timeline.", rich_help_panel=_TIMELINE_TITLE)] = "1s",
    txn: Annotated[
        int | None, typer.Option(metavar="N", help="Number of the transaction to show.", rich_help_panel=_TIMELINE_TITLE)
    ] = None,
    load: LoadOption = None,
    warmup: WarmupOption = None,
    cooldown: OptionalCooldownOption = None,
    code_version: CodeVersionOption = None,
    master: MasterOption = None,
    remote: RemoteOption = None,
    ship_code: ShipOption = False,
    list_: Annotated[bool, typer.Option("--list", help="List the available figures without writing files.")] = False,
    json: JsonFlag = False,
) -> None:
    """Draw the figures of a sweep or a run as PNG, SVG and PDF. Runs without metrics are measured first."""
    with command(json) as output:
        from endive.output_files import check_inside
        from endive.pipeline.session import SparkOptions, spark_session
        from endive.report.study_data import load_study

        wanted, size = _formats(formats), _size(width, height, titled=title)
        options = SparkOptions(master, remote, ship_code)
        loaded = load_study(
            study,
            load=load,
            warmup_ms=warmup,
            cooldown_ms=cooldown,
            code_version=code_version,
            sessions=lambda: spark_session(options),
        )
        if list_:
            _list(output, loaded)
            return
        if out is None:
            check_inside(loaded.figures_folder, loaded.figures_folder.parent)
        timeline = at is not None or txn is not None or _TIMELINE in figure
        names = [name for name in dict.fromkeys(figure) if name != _TIMELINE]
        figures = _figures(loaded, names, only_timeline=timeline and not names)
        figures = _with_theory(figures, theory)
        if timeline:
            figures.append(_timeline(loaded, at, span, txn))
        _write_figures(output, loaded, figures, out or loaded.figures_folder, wanted, size)
        tell_damage(output, loaded.problems)


def _formats(text: str) -> list[str]:
    from endive.report import ReportError
    from endive.report.paper import FORMATS

    wanted = list(dict.fromkeys(each.strip().lower() for each in text.split(",") if each.strip()))
    wrong = [each for each in wanted if each not in FORMATS]
    if wrong or not wanted:
        raise ReportError(f"--format {text}: formats are {', '.join(FORMATS)}")
    return wanted


def _size(width: str | None, height: str | None, *, titled: bool) -> Size:
    from endive.report.paper import Size, parse_length

    wide = None if width is None else parse_length(width, "--width")
    return Size(wide, None if height is None else parse_length(height, "--height"), titled)


def _with_theory(figures: list[Figure], files: list[Path]) -> list[Figure]:
    """Return the figures with reference curves."""
    from endive.report import ReportError
    from endive.report.figure import read_reference

    if not files:
        return figures
    if len(figures) != 1 or figures[0].kind != "line":
        raise ReportError("--theory needs exactly one figure with curves, such as --figure throughput_load")
    return [replace(figures[0], references=(*figures[0].references, *(read_reference(file) for file in files)))]


def _figures(study: Study, names: list[str], *, only_timeline: bool) -> list[Figure]:
    from endive.report import ReportError
    from endive.report.figures import build_figure, build_figures

    if only_timeline:
        return []
    found = [build_figure(study, name) for name in names] if names else build_figures(study)
    if not found:
        raise ReportError(f"{study.path}: there is nothing to draw; `endive plot {study.path} --list` shows the reasons")
    return found


def _timeline(study: Study, at: str | None, span: str, txn: int | None) -> Figure:
    from endive.report.timeline import build_timeline, parse_time

    return build_timeline(study, at_ms=None if at is None else parse_time(at, "--at"), span_ms=parse_time(span, "--span"), txn=txn)


def _list(output: Output, study: Study) -> None:
    from endive.report.figures import try_figures

    rows = [(name, None if found is None else found.title, why) for name, found, why in try_figures(study)]
    single = bool(study.single_runs)
    why = "" if single else "it shows a single run; pass the results of a run or an experiment"
    rows.append((_TIMELINE, "Contention, transaction by transaction (--at, --span, --txn)" if single else None, why))
    output.result([{"figure": name, "title": title, "missing": why or None} for name, title, why in rows])
    output.table("", ("figure", "title"), [(name, title or f"not in this study: {why}") for name, title, why in rows])


def _write_figures(output: Output, study: Study, figures: list[Figure], folder: Path, formats: list[str], size: Size) -> None:
    from endive.report.answer import describe_windows
    from endive.report.paper import save_figure

    written = [(figure, save_figure(figure, folder, formats, size)) for figure in figures]
    window = describe_windows(study)
    output.result(
        {
            "study": str(study.path),
            "code_version": study.code_version,
            "window": window,
            "figures": [
                {
                    "figure": figure.name,
                    "title": figure.title,
                    "definition": figure.definition,
                    "notes": list(figure.notes),
                    "files": [str(path) for path in paths],
                }
                for figure, paths in written
            ],
        }
    )
    output.text(*(str(path) for _, paths in written for path in paths))
    output.note(window, *dict.fromkeys(note for figure, _ in written for note in figure.notes))


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

    Runs without metrics are measured first, and the figures and the report are created. The archive contains the checksum of each
    file; to verify the checksums, unpack the archive and run `endive experiments verify DIR`.
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
