"""``endive experiments``: list, check and remove experiments on disk."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from endive.cli.app import EXIT_FAILED, EXIT_USAGE, JsonFlag, app, command, fail, refuse
from endive.cli.options import ROOT, RootArgument
from endive.formatting import format_count, format_duration
from endive.runs.layout import CONFIG, RESULTS, TRACE

if TYPE_CHECKING:
    from endive.cli.output import Output
    from endive.runs.plan import StudyProgress
    from endive.runs.stored import StoredRun

commands = typer.Typer(help="List, show, watch, verify and remove experiments.", no_args_is_help=True)
app.add_typer(commands, name="experiments")

_SHOWN = 20
_EVERY_SECONDS = 2.0
_BYTES_PER_ROW = 8_000
"""Columns of a row that the history check reads."""


@commands.command("list")
def list_(root: RootArgument = ROOT, json: JsonFlag = False) -> None:
    """List the experiments in a directory."""
    with command(json) as output:
        from endive.report.configurations import describe_experiments
        from endive.runs.identity import scenario_of
        from endive.runs.stored import find_experiments

        found = list(find_experiments(root))
        descriptions_by_name = describe_experiments(found)
        rows = [
            {
                "experiment": each.name,
                "scenario": scenario_of(each.directory),
                "what": descriptions_by_name.get(each.name, ""),
                "seeds": [run.seed for run in each.runs],
                "rows": sum(int(run.provenance.get("rows", 0)) for run in each.runs),
                "version": each.code_version,
                "of_this_version": each.of_this_version,
            }
            for each in found
        ]
        output.result(rows)
        shown = [
            (
                each.name,
                descriptions_by_name.get(each.name, ""),
                str(len(each.runs)),
                f"{row['rows']:,}",
                "" if each.of_this_version else "old",
            )
            for each, row in zip(found, rows, strict=True)
        ]
        output.table("", ("experiment", "description", "runs", "rows", ""), shown)
        old = sum(not each.of_this_version for each in found)
        output.text(
            f"{format_count(len(found), 'experiment')} in "
            f"{root}" + (f", {old} of them from a different model version" if old else "")
        )


@commands.command()
def show(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the experiment or a unique prefix.", show_default=False)],
    root: RootArgument = ROOT,
    json: JsonFlag = False,
) -> None:
    """Show the configuration and the runs of an experiment."""
    with command(json) as output:
        from endive.input_files import UnreadableError, read_text
        from endive.runs.stored import find_experiments

        found = [each for each in find_experiments(root) if each.name.startswith(name)]
        if len(found) != 1:
            names = ", ".join(each.name for each in found)
            output.error(f"{root}: no experiment has the prefix {name!r}" if not found else f"{name!r} is ambiguous: {names}")
            raise typer.Exit(EXIT_USAGE)
        (experiment,) = found
        try:
            text = read_text(experiment.directory / CONFIG)
        except UnreadableError as error:
            fail(output, f"{experiment.directory / CONFIG}: {error}", EXIT_FAILED)
        output.result({"experiment": experiment.name, "configuration": text, "runs": [run.provenance for run in experiment.runs]})
        output.verbatim(text)
        rows = [
            (
                str(run.seed),
                f"{run.provenance.get('rows', 0):,}",
                str(run.provenance.get("engine", "?")),
                str(run.provenance.get("started", "?")),
                f"{run.provenance.get('wall_time_s', 0):.1f} s",
            )
            for run in experiment.runs
        ]
        output.table("", ("seed", "rows", "engine", "started", "run time"), rows)


@commands.command()
def verify(root: RootArgument = ROOT, json: JsonFlag = False) -> None:
    """Check that all runs are complete and consistent: checksums of results, invariants of rows, counts in summaries.

    Also check that configurations match the parameters of their runs, studies match their plans, and metrics match their checksums.
    For a study packed by `endive pack`, check the checksums of all files.
    """
    with command(json) as output:
        from endive.runs.contents import configuration_problem, results_problem
        from endive.runs.pack import check_pack
        from endive.runs.plan import find_damaged_studies
        from endive.runs.stored import find_experiments, find_orphans

        problems: list[dict[str, Any]] = []
        problems += [{"experiment": root.name, "seed": None, "problem": problem} for problem in check_pack(root)]
        problems += [
            {"experiment": label, "seed": None, "problem": problem} for label, problem in find_damaged_studies(root, time.time())
        ]
        problems += [{"experiment": name, "seed": None, "problem": problem} for name, problem in _metrics_problems(root)]
        checked = 0
        for experiment in (*find_experiments(root), *find_orphans(root)):
            own = [*experiment.problems(), *filter(None, [configuration_problem(experiment)])]
            problems += [{"experiment": experiment.name, "seed": None, "problem": problem} for problem in own]
            for run in experiment.runs:
                checked += 1
                problem = results_problem(run)
                if problem is not None:
                    problems.append({"experiment": experiment.name, "seed": run.seed, "problem": problem})
        output.result({"checked": checked, "problems": problems})
        for each in problems:
            seed = "" if each["seed"] is None else f" seed {each['seed']}"
            output.error(f"{each['experiment']}{seed}: {each['problem']}")
        output.text(f"{format_count(checked, 'run')} checked, {len(problems)} with problems")
        if problems:
            raise typer.Exit(EXIT_FAILED)


def _metrics_problems(root: Path) -> list[tuple[str, str]]:
    """Return the problems of the metrics of a directory, each with the name of the experiment or directory."""
    from endive.pipeline.metrics import last_options
    from endive.runs.metric_tables import find_damaged_tables
    from endive.runs.stored import take_inventory
    from endive.studies.tables import find_lost_units

    remedy, again = f"; `endive metrics {root}` creates it again", "`endive sweep FILE --rows all` runs it again"
    lost = find_lost_units(root, take_inventory(root), last_options(root))
    return [
        *((root.name, f"{problem}{'' if lost else remedy}") for problem in find_damaged_tables(root)),
        *((name, f"its metrics are missing or damaged, and its rows were not kept; {again}") for name in lost),
    ]


def _history(run: StoredRun) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the rows and events of a run. Raises UnsoundError, which names the file, if the model cannot have produced them."""
    import pyarrow.parquet

    from endive.input_files import UnreadableError, check_rows
    from endive.runs.contents import UnsoundError, read_events, results_problem

    problem = results_problem(run)
    if problem is not None:
        raise UnsoundError(f"{RESULTS}: {problem}")
    try:
        check_rows(run.results, _BYTES_PER_ROW)
        events = read_events(run.directory / TRACE)
    except UnreadableError as error:
        raise UnsoundError(f"{RESULTS}: {error}") from None
    except UnsoundError as error:
        raise UnsoundError(f"{TRACE}: {error}") from None
    return pyarrow.parquet.read_table(run.results).to_pylist(), events.to_pylist()


@commands.command()
def check(root: RootArgument = ROOT, json: JsonFlag = False) -> None:
    """Check the histories of runs with a trace: no lost updates, no duplicate commits, no commits that should have been rejected.

    `endive run --trace` writes a trace. If DIR is a recording of `endive lab`, check the commits of real clients.
    """
    with command(json) as output:
        from endive.lab.recording import REQUESTS

        if (root / REQUESTS).is_file():
            _check_recording(root / REQUESTS, output)
            return
        from endive.analysis.history_check import check_counts, check_history, rules_of, wrong_outcomes
        from endive.config import ConfigError, load_document
        from endive.runs.contents import UnsoundError
        from endive.runs.stored import find_experiments

        problems, wrong, checked, untraced = [], [], 0, 0
        for experiment in find_experiments(root):
            for run in experiment.runs:
                if not (run.directory / TRACE).is_file():
                    untraced += 1
                    continue
                checked += 1
                where = {"experiment": experiment.name, "seed": run.seed}
                try:
                    rows, events = _history(run)
                    rules = rules_of(load_document(experiment.directory / CONFIG))
                    found = [*check_counts(rows, events), *check_history(rows, events, rules)]
                except UnsoundError as error:
                    problems.append({**where, "problem": str(error)})
                    continue
                except ConfigError as error:
                    problems.append({**where, "problem": f"{CONFIG}: {error.problems[0]}"})
                    continue
                problems += [{**where, "problem": problem} for problem in found]
                wrong += [{**where, "outcome": outcome} for outcome in wrong_outcomes(rows)]
        output.result({"checked": checked, "without_trace": untraced, "problems": problems, "reported_wrongly": wrong})
        for each in problems:
            output.error(f"{each['experiment']} seed {each['seed']}: {each['problem']}")
        counted = "1 history" if checked == 1 else f"{checked:,} histories"
        output.text(f"{counted} checked, {format_count(len(problems), 'problem')}; {untraced:,} without a trace")
        if wrong:
            output.text(
                f"{len(wrong)} commits were reported incorrectly or applied twice, because responses were "
                f"lost or requests were rejected:"
            )
            for each in wrong[:_SHOWN]:
                output.text(f"  {each['experiment']} seed {each['seed']}: {each['outcome']}")
            if len(wrong) > _SHOWN:
                output.text(f"  ... and {len(wrong) - _SHOWN} more (--json lists all)")
        if problems:
            raise typer.Exit(EXIT_FAILED)


def _check_recording(path: Path, output: Output) -> None:
    """Print the commits of a lab recording whose outcome the client cannot know, and duplicate commits."""
    from endive.lab.recording import check_history, read_requests

    requests = [each for each in read_requests(path) if not each.client.startswith("rival:")]
    found = check_history(requests)
    output.result({"commits": sum(each.is_commit for each in requests), "reported_wrongly": [asdict(each) for each in found]})
    output.text(*(each.sentence for each in found))
    commits = sum(each.is_commit for each in requests)
    output.text(
        f"{commits} commit requests; {len(found)} commits with a lost response were repeated, or the client does not know their "
        "outcome"
    )


@commands.command()
def remove(
    root: RootArgument = ROOT,
    incomplete: Annotated[
        bool, typer.Option("--incomplete", help="Select incomplete runs, and files that killed processes left behind.")
    ] = False,
    old: Annotated[bool, typer.Option("--old", help="Select experiments of other model versions.")] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="Remove the selected runs and files. Without this option, they are only listed.")
    ] = False,
    json: JsonFlag = False,
) -> None:
    """Remove incomplete runs, or experiments of an old model version."""
    with command(json) as output:
        from endive.runs.stored import removable

        if not (incomplete or old):
            output.error("nothing is selected; pass --incomplete, --old, or both")
            raise typer.Exit(EXIT_USAGE)
        found = removable(root, incomplete=incomplete, old=old)
        folders = [path for path in found if path.is_dir()]
        files = [path for path in found if path not in folders]
        removed = {"removed": yes, "directories": [str(path) for path in folders], "files": [str(path) for path in files]}
        output.result(removed)
        output.text(*(f"{'removed' if yes else 'would remove'} {path}" for path in found))
        if yes:
            from endive.output_files import discard

            for path in found:
                discard(path)
        count = f"{len(folders)} directories, {len(files)} files" + ("" if yes else "; pass --yes to remove them")
        output.text(count if found else "nothing to remove")


@commands.command()
def watch(
    root: RootArgument = ROOT,
    once: Annotated[bool, typer.Option("--once", help="Print the progress once and exit.")] = False,
    every: Annotated[float, typer.Option(metavar="SECONDS", help="Interval between updates.", min=0.1)] = _EVERY_SECONDS,
    json: Annotated[bool, typer.Option("--json", help="Print a line of JSON on stdout for each update.")] = False,
) -> None:
    """Watch the sweeps of a directory: finished runs and estimated remaining time.

    The command only reads files, so it also works from another terminal or machine. It exits when all runs are finished.

    Exit code: 1 if a sweep was stopped before its end, otherwise 0.
    """
    with command(json) as output:
        report = (
            (lambda each: print(dumps(asdict(each)), flush=True)) if json else (lambda each: output.text(describe_progress(each)))
        )
        if "stopped" in follow(root, report, once=once, every=every):
            raise typer.Exit(EXIT_FAILED)


def follow(root: Path, report: Callable[[StudyProgress], None], *, once: bool, every: float) -> set[str]:
    """Report the progress of every study until none is running; return the final progress of each study."""
    from endive.runs.plan import progress_of, read_studies

    reported: dict[str, tuple[int, str]] = {}
    while True:
        found = [progress_of(root, record, time.time()) for record in read_studies(root)]
        if not found:
            refuse(str(root), "contains no sweep; `endive sweep FILE -o DIR` runs one")
        for each in found:
            if reported.get(each.label) != (each.done, each.state):
                reported[each.label] = (each.done, each.state)
                report(each)
        if once or all(each.state != "running" for each in found):
            return {each.state for each in found}
        wait(every)


def wait(seconds: float) -> None:
    """Wait until the next update."""
    time.sleep(seconds)


def describe_progress(each: StudyProgress) -> str:
    """Return the progress of a study in one line."""
    runs = f"{each.label}: {each.done:,} of {each.total:,} runs"
    if each.state == "finished":
        return f"{runs}, finished"
    if each.state == "stopped":
        return f"{runs}, stopped; run the same command to resume"
    left = "" if each.seconds_left is None else f", about {format_duration(round(each.seconds_left) * 1000.0)} left"
    return f"{runs} after {format_duration(round(each.elapsed_seconds) * 1000.0)}{left}"
