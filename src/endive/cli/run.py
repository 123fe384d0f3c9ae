"""``endive run``: one run, and what it amounts to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from endive.cli.app import JsonFlag, app, exit_codes, on_terminal
from endive.cli.output import Output, output_for

if TYPE_CHECKING:
    from endive.config import Document

_DEFAULT_ROOT = Path("experiments")


@app.command()
def run(
    config: Annotated[Path, typer.Argument(help="Configuration file (TOML).", show_default=False)],
    seed: Annotated[int | None, typer.Option(help="Seed, in place of the file's.", min=0, max=2**63 - 1)] = None,
    engine: Annotated[Literal["auto", "reference", "compiled"] | None, typer.Option(help="Engine, in place of the file's.")] = None,
    out: Annotated[Path | None, typer.Option(help="Directory for results. Default: experiments with a label, . without.")] = None,
    set_: Annotated[list[str], typer.Option("--set", metavar="KEY=VALUE", help="Override a key of the file.")] = [],  # noqa: B006
    trace: Annotated[bool, typer.Option("--trace", help="Also write a log of all events.")] = False,
    json: JsonFlag = False,
) -> None:
    """Run a configuration once, write its results, and print a summary."""
    output = output_for(json)
    with exit_codes(output):
        from endive.config.load import load_document, parse_assignment
        from endive.runs.execute import run_experiment

        overrides = dict(parse_assignment(text) for text in set_)
        if engine is not None:
            overrides["simulation.engine"] = engine
        document = load_document(config, overrides)
        root = out or (_DEFAULT_ROOT if document.experiment.label else Path())
        announce_compilation(output, document, trace)
        with _progress(output, document.simulation.duration_ms) as progress:
            finished = run_experiment(document, root=root, seed=seed, trace=trace, progress=progress)
        output.result(
            {
                "results": str(finished.files.results),
                "rows": finished.rows,
                "summary": finished.summary,
                "provenance": finished.provenance,
            }
        )
        show_summary(output, finished.summary)
        output.text("")
        output.text(f"{finished.rows} rows in {finished.files.results}")


def announce_compilation(output: Output, document: Document, trace: bool = False) -> None:
    """Say so where a kernel has to be compiled first, since nothing is to be seen meanwhile."""
    if trace or document.simulation.engine == "reference":
        return
    from endive.config import build_simulation_config
    from endive.simulation import Simulation

    simulation = Simulation(build_simulation_config(document))
    if simulation.engine == "compiled" and not simulation.is_compiled:
        output.note("compiling the engine for this commit path and catalog; this is done once and takes some ten seconds")


@contextmanager
def _progress(output: Output, duration_ms: float) -> Iterator[Any]:
    """A bar on a terminal, nothing elsewhere."""
    if not on_terminal():
        yield None
        return
    columns = (TextColumn("simulating"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"), TimeRemainingColumn())
    with Progress(*columns, console=output.talk, transient=True) as bar:
        task = bar.add_task("", total=duration_ms)
        yield lambda now_ms: bar.update(task, completed=now_ms)


def show_summary(output: Output, summary: dict[str, Any]) -> None:
    """Tables of what a run amounts to."""
    groups, total = summary["by_class_and_operation"], summary["total"]
    several = len({group["workload_class"] for group in groups}) > 1
    named = [(f"{g['workload_class']} {g['operation_type']}" if several else g["operation_type"], g) for g in groups]
    named.append(("all", total))
    outcome = ("", "txns", "commits", "aborts", "in flight", "success", "commits per s", "retries per txn")
    output.table("Outcome", outcome, [(name, *_outcome(group)) for name, group in named])
    latency = ("", "commit p50", "p95", "p99", "total p50", "p95", "p99")
    output.table("\nLatency of committed transactions", latency, [(name, *_latencies(group)) for name, group in named])
    from endive.simulation.columns import IO_COLUMNS, TIME_WORDS

    all_time = sum(total[name] for name in TIME_WORDS) or 1.0
    shares = [(label, f"{100 * total[name] / all_time:.1f} %", _ms(total[name])) for name, label in TIME_WORDS.items()]
    output.table("\nWhere the time went", ("", "share", "sum"), shares)
    _show_counts(output, "Accesses to files", {name: total[name] for name in IO_COLUMNS})
    _show_counts(output, "Aborts", total["abort_reasons"])
    _show_counts(output, "At the catalog", summary["counters"])


def _show_counts(output: Output, title: str, counts: dict[str, float]) -> None:
    rows = [(name.replace("_", " "), f"{int(count):,}") for name, count in counts.items() if count]
    if rows:
        output.table(f"\n{title}", ("", "count"), rows)


def _outcome(group: dict[str, Any]) -> tuple[str, ...]:
    success, retries = group["success_rate"], group["retries_per_transaction"]
    return (
        f"{group['transactions']:,}",
        f"{group['committed']:,}",
        f"{group['aborted']:,}",
        f"{group['in_flight']:,}",
        "-" if success is None else "100 %" if success == 1.0 else f"{100 * success:.2f} %",
        f"{group['throughput_per_s']:.3f}",
        "-" if retries is None else f"{retries:.2f}",
    )


def _latencies(group: dict[str, Any]) -> tuple[str, ...]:
    return tuple(
        _ms(group[name][percentile]) for name in ("commit_latency_ms", "total_latency_ms") for percentile in ("p50", "p95", "p99")
    )


def _ms(value: float | None) -> str:
    if value is None:
        return "-"
    if value < 1000.0:
        return f"{value:.1f} ms"
    return f"{value / 1000.0:,.2f} s"
