"""``endive examples``: list example studies, and run one from end to end."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from endive.cli.app import EXIT_FAILED, JsonFlag, app, command
from endive.cli.options import MasterOption, output_option
from endive.cli.output import Output
from endive.input_files import first_sentence, leading_comment
from endive.runs.layout import FIGURES_FOLDER, REPORT

if TYPE_CHECKING:
    from endive.pipeline.session import StartingSession
    from endive.report.study_data import Study
    from endive.runs.plan import SweepPlan

commands = typer.Typer(help="List, show or run the example studies.", invoke_without_command=True)
app.add_typer(commands, name="examples")

Kind = Literal["sweep", "frontier", "run"]
_KINDS: dict[str, Kind] = {"sweeps": "sweep", "frontier": "frontier", ".": "run"}
"""Kinds of files by folder, in the order of the list."""
_OUT = Path("gallery")


@dataclass(frozen=True)
class Example:
    """An example file, whose leading comment states its question."""

    name: str
    kind: Kind
    path: Path

    @property
    def comment(self) -> str:
        """The leading comment."""
        return leading_comment(self.path)

    @property
    def question(self) -> str:
        """The first sentence of the comment."""
        return first_sentence(self.comment)

    @property
    def has_quick_form(self) -> bool:
        """Return whether the file has a [quick] form."""
        return "quick" in tomllib.loads(self.path.read_text(encoding="utf-8"))


def examples_folder() -> Path:
    """Return the directory of examples: in an installed package, or at the top of a checkout."""
    import endive

    package = Path(endive.__file__).resolve().parent
    return next(folder for folder in (package / "examples", package.parents[1] / "examples") if folder.is_dir())


def find_examples() -> Iterator[Example]:
    """Yield all examples, studies first."""
    for folder, kind in _KINDS.items():
        for path in sorted((examples_folder() / folder).glob("*.toml")):
            yield Example(path.stem, kind, path)


def find_example(name: str) -> Example:
    """Return the example with a name. Raises ConfigError if there is none."""
    known = {example.name: example for example in find_examples()}
    if name not in known:
        from endive.config import ConfigError, Problem
        from endive.config.errors import nearest

        raise ConfigError("examples", [Problem("", f"unknown example {name!r}; {nearest(name, known)}")])
    return known[name]


@commands.callback()
def list_(context: typer.Context, json: JsonFlag = False) -> None:
    """List the example studies, each with its question."""
    if context.invoked_subcommand is not None:
        return
    with command(json) as output:
        found = list(find_examples())
        output.result([{"name": each.name, "kind": each.kind, "question": each.question, "path": str(each.path)} for each in found])
        output.table("", ("name", "kind", "question"), [(each.name, each.kind, each.question) for each in found])
        output.text("")
        output.text(f"The files are in {examples_folder()}. Run an example with `endive examples run NAME`.")


@commands.command()
def show(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the example.", show_default=False)], json: JsonFlag = False
) -> None:
    """Print the file of an example, as a template for your own study."""
    with command(json) as output:
        example = find_example(name)
        text = example.path.read_text(encoding="utf-8")
        output.result({"name": example.name, "kind": example.kind, "path": str(example.path), "text": text})
        output.verbatim(text.rstrip("\n"))


@commands.command()
def run(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the example.", show_default=False)],
    full: Annotated[
        bool, typer.Option("--full/--quick", help="Run the full study, or its short form, which takes less than a minute.")
    ] = False,
    out: Annotated[Path | None, output_option(f"Directory of results. Default: {_OUT}/NAME, or NAME-full.")] = None,
    master: MasterOption = None,
    json: JsonFlag = False,
) -> None:
    """Run an example end to end: simulate, measure, draw the figures and print the findings."""
    with command(json) as output:
        example = find_example(name)
        quick = example.has_quick_form and not full
        folder = out or _OUT / (f"{example.name}-full" if example.has_quick_form and full else example.name)
        output.note(f"{example.question} ({example.path})")
        if example.kind == "sweep":
            _run_sweep(output, example, folder, quick, master)
        elif example.kind == "frontier":
            _run_frontier(output, example, folder, quick)
        else:
            _run_once(output, example, folder)


def _run_sweep(output: Output, example: Example, folder: Path, quick: bool, master: str | None) -> None:
    from endive.pipeline.session import SparkOptions, starting_session

    with starting_session(SparkOptions(master)) as starting:
        if not folder.exists():
            starting.begin()  # before anything else is loaded
        from endive.config.sweep_file import Sweep
        from endive.runs.plan import keep_study, plan_sweep

        reader = Sweep(example.path, quick=quick)
        plan = plan_sweep(reader)
        output.note(f"{plan.runs} runs: {len(plan.points)} configurations with {len(plan.seeds)} seeds each")
        keep_study(folder, reader, plan)
        study = _studied(output, plan, folder, starting)
        starting.stop()
    answer, files = _drawn(study, folder)
    output.result({"example": example.name, "runs": plan.runs, "answer": answer, "files": [str(file) for file in files]})
    output.text(*answer, "")
    output.text(f"Report: {files[0]}; {len(files) - 1} figures: {files[-1].parent}")


def _studied(output: Output, plan: SweepPlan, folder: Path, starting: StartingSession) -> Study:
    """Run and measure the missing runs in one Spark session."""
    from contextlib import nullcontext

    from endive.cli.sweep import watching
    from endive.pipeline.sweep import run_sweep
    from endive.report.study_data import load_study
    from endive.runs.plan import remaining_work
    from endive.version import code_version

    work = remaining_work(plan, folder)
    with watching(output, work, folder) as watch:
        outcomes = run_sweep(starting.get(), work, folder, monitor=watch) if work.todo else ()
    failed = [outcome for outcome in outcomes if outcome.state == "failed"]
    for outcome in failed:
        output.error(f"{outcome.experiment} seed {outcome.seed}: {outcome.error}")
    if failed:
        raise typer.Exit(EXIT_FAILED)
    return load_study(folder, code_version=code_version(), sessions=lambda: nullcontext(starting.get()))


def _drawn(study: Study, folder: Path) -> tuple[list[str], list[Path]]:
    """Write the report and its figures; return the findings and the files."""
    from endive.output_files import write_text
    from endive.report.figures import build_report_figures
    from endive.report.page import render_page
    from endive.report.paper import save_figure
    from endive.report.sections import make_page

    figures = build_report_figures(study)
    page = make_page(study, figures)
    report = folder / REPORT
    write_text(report, render_page(page))
    return list(page.answer), [
        report,
        *(file for figure in figures for file in save_figure(figure, folder / FIGURES_FOLDER, ("svg",))),
    ]


def _run_frontier(output: Output, example: Example, folder: Path, quick: bool) -> None:
    from endive.cli.searches import answer
    from endive.config.study import frontier_options
    from endive.studies.frontier import read_question

    answer(output, read_question(example.path, frontier_options({}), {}, quick=quick), folder)


def _run_once(output: Output, example: Example, folder: Path) -> None:
    from endive.cli.run import show_run, with_label
    from endive.config.load import load_document
    from endive.runs.execute import execute_run, place_run, prepare_run
    from endive.studies.measure import MetricsOptions

    prepared = prepare_run(with_label(load_document(example.path), example.path))
    finished = execute_run(prepared, place_run(prepared, folder))
    about = {"example": example.name, "runs": 1, "files": [str(finished.files.results)]}
    show_run(output, prepared, finished, MetricsOptions(), about)
