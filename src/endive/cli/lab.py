"""``endive lab``: an object store and a REST catalog for real clients."""

from __future__ import annotations

import shlex
import signal
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from endive.cli.app import JsonFlag, app, command, refuse
from endive.cli.options import SetOption, output_option, overrides_of
from endive.cli.usage import COMMAND_KEY
from endive.formatting import format_duration

if TYPE_CHECKING:
    from endive.cli.output import Output
    from endive.config.schema import Document
    from endive.lab.open_lab import Lab
    from endive.lab.recording import ObservedCommit, RecordedRequest

_RIVALS = "Concurrent writers"


@app.command()
def lab(
    context: typer.Context,
    config: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE",
            help="Configuration with the latencies, the catalog and the failures. Default: no latencies, no failures.",
        ),
    ] = None,
    out: Annotated[Path, output_option("Directory of the recording.")] = Path("lab"),
    directory: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Store objects as files in this directory instead of in memory.")
    ] = None,
    memory: Annotated[
        int, typer.Option(metavar="MIB", min=1, max=1_000_000, help="Maximum total size of the objects in memory.")
    ] = 1024,
    seed: Annotated[int | None, typer.Option(metavar="N", min=0, help="Random seed of latencies and failures.")] = None,
    store_port: Annotated[int, typer.Option(metavar="N", min=0, max=65535, help="Port of the object store; 0: any free port.")] = 0,
    catalog_port: Annotated[int, typer.Option(metavar="N", min=0, max=65535, help="Port of the catalog; 0: any free port.")] = 0,
    rivals: Annotated[
        bool,
        typer.Option(
            "--rivals",
            help="Start concurrent writers, which commit the snapshots of the classes of FILE at their simulated times.",
            rich_help_panel=_RIVALS,
        ),
    ] = False,
    job: Annotated[
        str | None,
        typer.Option(
            metavar="CLASS", help="Class that COMMAND takes the place of; it gets no concurrent writer.", rich_help_panel=_RIVALS
        ),
    ] = None,
    table: Annotated[
        list[str],
        typer.Option(
            metavar="NAME",
            help="Table that the concurrent writers commit to, such as db.events; may be repeated.",
            rich_help_panel=_RIVALS,
        ),
    ] = [],  # noqa: B006
    set_: SetOption = [],  # noqa: B006
    json: JsonFlag = False,
) -> None:
    """Serve an object store (S3) and an Iceberg REST catalog on 127.0.0.1 with the latencies and failures of FILE.

    With COMMAND, its environment contains the addresses and credentials (AWS_ENDPOINT_URL, PYICEBERG_CATALOG__LAB__URI, ...); the
    lab prints the conflicts, retries and time to commit of COMMAND, and exits with its exit code. Without COMMAND, the lab prints
    the variables and runs until Ctrl-C. The lab records every request in requests.parquet and every commit in reports.jsonl.
    """
    with command(json) as output:
        from endive.config.load import load_document
        from endive.lab.open_lab import LabSettings, behavior_of, open_lab
        from endive.output_files import check_writable

        words: list[str] = context.meta.get(COMMAND_KEY, [])
        if COMMAND_KEY in context.meta and not words:
            refuse("--", "needs a COMMAND after it")
        if rivals and (config is None or not table):
            refuse("--rivals", "needs a FILE with workload classes and the --table to commit to")
        if not rivals and (job or table):
            refuse("--job" if job else "--table", "has no effect without --rivals")
        if config is None and set_:
            refuse("--set", "needs a FILE")
        check_writable(out)
        document = None if config is None else load_document(config, overrides_of(set_))
        settings = LabSettings(directory=directory, memory_bytes=memory * 2**20, store_port=store_port, catalog_port=catalog_port)
        if document is not None:
            settings = replace(settings, behavior=behavior_of(document, seed))
        with open_lab(settings) as opened:
            with _rivals(opened, document if rivals else None, job, table, seed, output):
                code = _run(words, opened, output, json) if words else _wait(opened, output)
            requests, reports = opened.recording.write(out)
        _show(output, opened, [requests, *([reports] if reports else [])], code, table if rivals else ())
    raise typer.Exit(code)


def _run(words: Sequence[str], opened: Lab, output: Output, json: bool) -> int:
    """Run the command; with --json its output goes to stderr, because stdout is one JSON document."""
    from endive.lab.child_process import child_process, exit_code

    with child_process(words, opened.environment(), stdout=sys.stderr if json else None) as child:
        try:
            return exit_code(child)
        except KeyboardInterrupt:  # the command received the signal as well, and may end by itself
            output.note("interrupted; waiting for the command to end")
            return exit_code(child)


def _wait(opened: Lab, output: Output) -> int:
    """Print the variables and wait for Ctrl-C."""
    with suppress(KeyboardInterrupt):
        output.text(f"Object store: {opened.store_url}", f"REST catalog: {opened.catalog_url}", "")
        output.verbatim("\n".join(f"export {name}={shlex.quote(value)}" for name, value in opened.environment().items()))
        output.note("reachable from this machine only; press Ctrl-C to stop")
        signal.pause()
    return 0


@contextmanager
def _rivals(
    opened: Lab, document: Document | None, job: str | None, tables: Sequence[str], seed: int | None, output: Output
) -> Iterator[None]:
    """Commit the snapshots of concurrent writers while the block runs."""
    if document is None:
        yield
        return
    from endive.lab.rivals import keep_committing, parse_table, plan_rivals

    names = [parse_table(name) for name in tables]
    plan = plan_rivals(document, job, seed)
    output.note(f"{len(plan)} commits of concurrent writers are planned; they start when {tables[0]} exists")
    with keep_committing(opened, plan, names, output.note):
        yield


def _show(output: Output, opened: Lab, files: Sequence[Path], code: int, tables: Sequence[str]) -> None:
    """Print the results of clients: commits with their conflicts and times, and requests by operation.

    ``tables`` are those of the rivals, if there are any.
    """
    from endive.lab.history import check_history
    from endive.lab.recording import as_data, summarize_commits
    from endive.lab.rivals import parse_table

    requests = opened.recording.requests()
    own = [each for each in requests if not each.client.startswith("rival:")]
    commits = summarize_commits(own)
    rows = [_commit_row(name, group) for name, group in _groups(commits).items()]
    header = (
        *("commits", "committed", "attempts per commit", "409", "lost"),
        *("time to commit, p50", "p95", "mean", "metadata", "commit requests", "other"),
    )
    if rows:
        output.text("")
        output.table("Commits to the catalog", header, rows)
    output.text("")
    output.table("Requests", ("service", "operation", "requests", "conflicts", "rejected", "lost", "mean"), _request_rows(own))
    rival_commits = len(requests) - len(own)
    findings = check_history(own)
    output.text(*(each.sentence for each in findings))
    if tables:
        none = (
            f"no snapshots: {tables[0]} was not created" if opened.catalog.find(parse_table(tables[0])) is None else "no snapshots"
        )
        output.text("", f"Concurrent writers committed {f'{rival_commits} snapshots' if rival_commits else none}.")
    output.text(f"wrote {' and '.join(map(str, files))}")
    if opened.recording.left_out:
        output.note(f"{opened.recording.left_out} requests were not recorded because the recording is full")
    output.result(
        {
            "exit_code": code,
            "files": [str(path) for path in files],
            "rival_commits": rival_commits,
            "findings": [asdict(each) for each in findings],
            "commits": [as_data(commit) for commit in commits],
            "requests": [
                dict(zip(("service", "operation", "outcome", "requests"), (*key, count), strict=True))
                for key, count in sorted(
                    Counter((each.event.service, each.event.operation, each.event.outcome) for each in own).items()
                )
            ],
        }
    )


def _groups(commits: Sequence[ObservedCommit]) -> dict[str, list[ObservedCommit]]:
    groups: dict[str, list[ObservedCommit]] = {}
    for commit in commits:
        groups.setdefault(f"{commit.table} {commit.operation}".strip(), []).append(commit)
    return groups


def _commit_row(name: str, commits: Sequence[ObservedCommit]) -> list[str]:
    import numpy as np

    def mean(values: list[float]) -> str:
        return format_duration(sum(values) / len(values))

    def percentile(q: float) -> str:
        """Return a percentile, unless there are fewer than 5 / (1 - q) commits."""
        return format_duration(float(np.quantile(durations, q))) if len(durations) * (1.0 - q) >= 5.0 else "-"

    durations = [commit.duration_ms for commit in commits if commit.is_committed]
    return [
        name,
        f"{sum(commit.is_committed for commit in commits)} of {len(commits)}",
        f"{sum(commit.attempts for commit in commits) / len(commits):.2f}",
        str(sum(commit.conflicts for commit in commits)),
        str(sum(commit.lost for commit in commits)),
        percentile(0.5),
        percentile(0.95),
        mean(durations) if durations else "-",
        mean([commit.metadata_ms for commit in commits]),
        mean([commit.commit_ms for commit in commits]),
        mean([commit.other_ms for commit in commits]),
    ]


def _request_rows(requests: Sequence[RecordedRequest]) -> list[list[str]]:
    groups: dict[tuple[str, str], list[RecordedRequest]] = {}
    for each in requests:
        groups.setdefault((each.event.service, each.event.operation), []).append(each)
    return [
        [
            *key,
            str(len(group)),
            *(str(sum(each.event.outcome == outcome for each in group)) for outcome in ("conflict", "rejected", "lost")),
            format_duration(sum(each.end_ms - each.time_ms for each in group) / len(group)),
        ]
        for key, group in sorted(groups.items())
    ]
