"""``endive lab`` and ``observe``: real clients against an object store and a REST catalog on this machine."""

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
from endive.cli.options import ForceFlag, SetOption, check_new, output_option, overrides_of
from endive.cli.usage import COMMAND_KEY
from endive.formatting import format_count, format_duration

if TYPE_CHECKING:
    from endive.cli.output import Output
    from endive.config.schema import Document
    from endive.lab.observe import Observation
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
            metavar="CLASS", help="Class that COMMAND replaces, and which gets no concurrent writer.", rich_help_panel=_RIVALS
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

    If COMMAND is given, its environment contains the addresses and credentials (AWS_ENDPOINT_URL, PYICEBERG_CATALOG__LAB__URI,
    ...). The lab prints the conflicts, retries and time to commit of COMMAND, and exits with the exit code of COMMAND. Otherwise,
    the lab prints these variables and runs until Ctrl-C. It records every request in requests.parquet and every commit in
    reports.jsonl.
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
    from endive.lab.client_processes import child_process, exit_code

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
        output.note("the lab is reachable from this machine only; press Ctrl-C to stop the lab")
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
    output.note(f"the concurrent writers will make {format_count(len(plan), 'commit')}, starting when {tables[0]} exists")
    with keep_committing(opened, plan, names, output.note):
        yield


def _show(output: Output, opened: Lab, files: Sequence[Path], code: int, tables: Sequence[str]) -> None:
    """Print the results of clients: commits with their conflicts and times, and requests by operation.

    ``tables`` are those of the rivals, if there are any.
    """
    from endive.lab.exchange import ERROR
    from endive.lab.recording import check_history, summarize_commits
    from endive.lab.rivals import parse_table

    requests = opened.recording.requests()
    own = [each for each in requests if not each.client.startswith("rival:")]
    commits = summarize_commits(own)
    rows = [_commit_row(name, group) for name, group in _groups(commits).items()]
    header = (
        *("commits", "committed", "attempts per commit", "409", "lost"),
        *("p50 time to commit", "p95", "mean", "metadata", "commit requests", "other"),
    )
    if rows:
        output.text("")
        output.table("Commits to the catalog", header, rows)
    output.text("")
    if own:
        output.table("Requests", ("service", "operation", "requests", "conflicts", "rejected", "lost", "mean"), _request_rows(own))
    else:
        output.text("The lab received no requests from clients.")
    rival_commits = len(requests) - len(own)
    findings = check_history(own)
    errors = [f"{each.event.operation} {each.event.target}: {each.event.detail}" for each in own if each.event.outcome == ERROR]
    output.text(*(each.sentence for each in findings))
    if tables:
        none = (
            f"no snapshots: {tables[0]} was not created" if opened.catalog.find(parse_table(tables[0])) is None else "no snapshots"
        )
        output.text("", f"Concurrent writers committed {f'{rival_commits} snapshots' if rival_commits else none}.")
    if errors:
        output.note(
            f"The lab answered {format_count(len(errors), 'request')} with status 500 because of an internal error, so the results "
            f"of this session are incomplete. First error: {errors[0]}"
        )
    output.text(f"wrote {' and '.join(map(str, files))}")
    if opened.recording.left_out:
        output.note(f"{opened.recording.left_out} requests were not recorded because the recording is full")
    output.result(
        {
            "exit_code": code,
            "files": [str(path) for path in files],
            "rival_commits": rival_commits,
            "internal_errors": errors,
            "findings": [asdict(each) for each in findings],
            "commits": [asdict(commit) for commit in commits],
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


@app.command()
def observe(
    context: typer.Context,
    out: Annotated[Path, output_option("Protocol file to write (TOML).", "FILE")] = Path("client.toml"),
    operation: Annotated[str, typer.Option(metavar="NAME", help="Operation that COMMAND commits.")] = "fast_append",
    rivals: Annotated[
        str,
        typer.Option(metavar="N,...", help="Numbers of concurrent commits after COMMAND loads the table and before it commits."),
    ] = "0,1,2,3,5,8",
    check: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=0,
            max=100,
            help="Number of additional commits, with random numbers of concurrent commits, that check the protocol.",
        ),
    ] = 0,
    force: ForceFlag = False,
    json: JsonFlag = False,
) -> None:
    """Run COMMAND, which commits once, several times in the lab, and write its commit protocol to a file for commit_path.

    COMMAND must create its table if it does not exist. Its environment contains the addresses of the lab, as in `endive lab`. The
    lab delays one request of a run while other runs of COMMAND commit. Comments in the file state which parts are exact.
    """
    with command(json) as output:
        from endive.lab.observe import Observer
        from endive.lab.protocol_text import describe, protocol_text
        from endive.output_files import write_text
        from endive.protocols.protocol_file import OPERATIONS

        words: list[str] = context.meta.get(COMMAND_KEY, [])
        if not words:
            refuse("observe", "needs a COMMAND after --, such as `endive observe -- python append.py`")
        if operation not in OPERATIONS:
            refuse("--operation", f"{operation!r} is unknown; allowed: {', '.join(sorted(OPERATIONS))}")
        counts = _counts(rivals)
        check_new(out, force)
        observer = Observer(words, output.note)
        observation, right = observer.observe(counts, check)
        write_text(out, protocol_text(observation, out.stem, words, operation))
        _show_observation(output, observation)
        output.text("", *describe(observation))
        if check:
            output.text(
                f"Check: the protocol predicts the numbers of requests of {right} of {check} additional commits exactly. "
                f"These commits had random numbers of concurrent commits."
            )
        output.text(f"wrote {out}; to simulate this client, add --set transaction.commit_path={out}")
        output.result({"protocol": str(out), "exact": observation.is_exact, "retries": observation.retries, "checked": right})


def _counts(text: str) -> list[int]:
    words = [word.strip() for word in text.split(",")]
    if not all(word.isascii() and word.isdigit() and int(word) <= 100 for word in words) or len({*words}) < 3:
        refuse("--rivals", f"{text!r} must be at least three different numbers from 0 to 100, such as 0,1,3")
    return sorted(map(int, {*words}))


def _show_observation(output: Output, observation: Observation) -> None:
    rows = [
        [
            phase,
            " ".join(part for part in step.token if part),
            f"{step.count:g}",
            f"{step.per_version_behind:g}",
            f"{step.if_behind:g}",
            f"{step.per_log_entry:g}",
            f"{step.per_attempt:g}",
            f"{step.size_bytes}",
            "yes" if step.parallel else "no",
            "yes" if step.is_exact else "no",
        ]
        for phase, steps in observation.steps.items()
        for step in steps
    ]
    header = (
        "phase",
        "request",
        "count",
        "per version behind",
        "if behind",
        "per log entry",
        "per lost attempt",
        "bytes",
        "parallel",
        "exact",
    )
    output.table(f"Commit point: {observation.commit_point}", header, rows)
