"""``endive observe``: derive the commit protocol of a client."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from endive.cli.app import JsonFlag, app, command, refuse
from endive.cli.options import ForceFlag, check_new, output_option
from endive.cli.usage import COMMAND_KEY

if TYPE_CHECKING:
    from endive.cli.output import Output
    from endive.lab.observe import Observation


@app.command()
def observe(
    context: typer.Context,
    out: Annotated[Path, output_option("Protocol file to write (TOML).", "FILE")] = Path("client.toml"),
    operation: Annotated[str, typer.Option(metavar="NAME", help="Operation that COMMAND commits.")] = "fast_append",
    rivals: Annotated[
        str, typer.Option(metavar="N,...", help="Numbers of concurrent commits between load and commit.")
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
    """Run COMMAND, which makes one commit, several times in the lab, and write its commit protocol as a file for commit_path.

    COMMAND must create its table if it does not exist. Its environment contains the addresses of the lab, as with `endive lab`. The
    lab delays one of its requests while other runs of COMMAND commit. Comments in the file state which parts are exact.
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
        _show(output, observation)
        output.text("", *describe(observation))
        if check:
            output.text(
                f"Check: {right} of {check} additional commits with random numbers of concurrent commits have "
                f"exactly these numbers of requests."
            )
        output.text(f"wrote {out}; use it with --set transaction.commit_path={out}")
        output.result({"protocol": str(out), "exact": observation.is_exact, "retries": observation.retries, "checked": right})


def _counts(text: str) -> list[int]:
    words = [word.strip() for word in text.split(",")]
    if not all(word.isascii() and word.isdigit() and int(word) <= 100 for word in words) or len({*words}) < 3:
        refuse("--rivals", f"{text!r} must be at least three different numbers from 0 to 100, such as 0,1,3")
    return sorted(map(int, {*words}))


def _show(output: Output, observation: Observation) -> None:
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
