"""The Typer app of all commands, with error handling and progress bars."""

from __future__ import annotations

import atexit
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from endive import __version__
from endive.cli.output import Output, output_for
from endive.cli.usage import CommandsByPurpose

if TYPE_CHECKING:
    from endive.runs.stored import Damage

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_CONDITION = 3
"""Exit code if a condition of ``--fail-if`` is met."""
EXIT_INTERRUPTED = 130
EXIT_TERMINATED = 143

app = typer.Typer(
    name="endive",
    help="Simulate Apache Iceberg's optimistic concurrency control: find out when commit throughput saturates, why commits are "
    "slow, and which changes help.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    cls=CommandsByPurpose,
    context_settings={"help_option_names": ["-h", "--help"]},
)

JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON on stdout.", show_default=False)]


def _version(wanted: bool) -> None:
    if wanted:
        print(f"endive {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")] = False,
) -> None:
    """Define the options of all commands."""


@contextmanager
def command(json: bool) -> Iterator[Output]:
    """Pass the output to a command, and convert exceptions of the command to a message and an exit code."""
    output = output_for(json)
    with exit_codes(output):
        yield output


@contextmanager
def exit_codes(output: Output) -> Iterator[None]:
    """Convert errors to messages and exit codes: 2 for usage and configuration, 1 for other errors, 130 for Ctrl-C."""
    signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    except (typer.Exit, typer.Abort):
        raise
    except KeyboardInterrupt:
        output.error("interrupted; no incomplete files were left")
        output.result({"errors": [{"message": "interrupted"}]})
        raise typer.Exit(EXIT_INTERRUPTED) from None
    except BrokenPipeError:  # such as `endive run FILE | head`
        leave(EXIT_FAILED)
    except OSError as error:
        fail(output, _explained(error), EXIT_FAILED)
    except Exception as error:
        _fail_by(output, error)
        raise


def _fail_by(output: Output, error: Exception) -> None:
    """Exit with the message of a user error; return if the error is of a different kind."""
    from endive.config import ConfigError

    if isinstance(error, ConfigError):
        output.error(*str(error).splitlines())
        problems = [{"key": problem.key, "message": str(problem)} for problem in error.problems]
        output.result({"source": error.source, "errors": problems})
        raise typer.Exit(EXIT_USAGE) from None
    from endive.calibrate import InputError
    from endive.lab import LabError
    from endive.report import ReportError
    from endive.simulation.runner import EngineError
    from endive.storage.profiles import ProfileError

    if isinstance(error, EngineError | InputError | LabError | ProfileError | ReportError):
        fail(output, str(error))
    from endive.pipeline.java import NoJavaError
    from endive.pipeline.session import SessionError
    from endive.runs.stored import PipelineError

    if isinstance(error, PipelineError | SessionError | NoJavaError):
        fail(output, str(error), EXIT_USAGE if isinstance(error, PipelineError) and error.usage else EXIT_FAILED)


def fail(output: Output, message: str, code: int = EXIT_USAGE) -> NoReturn:
    """Exit with an error message, as text or as JSON, and an exit code. Raises ``typer.Exit``."""
    output.error(message)
    output.result({"errors": [{"message": message}]})
    raise typer.Exit(code) from None


def refuse(source: str, message: str, key: str = "") -> NoReturn:
    """Raise a ConfigError that names an option, a file, or a key of a file."""
    from endive.config import ConfigError, Problem

    raise ConfigError(source, [Problem(key, message)]) from None


def tell_damage(output: Output, problems: Sequence[Damage]) -> None:
    """Print each damaged run and experiment, and exit with 1 if there are any."""
    output.error(*(f"{problem.where}: {problem.message}" for problem in problems))
    if problems:
        raise typer.Exit(EXIT_FAILED)


def leave(code: int) -> NoReturn:
    """Run the exit handlers and end this process at once.

    After an interruption, a thread may still be waiting inside a library, and would crash during the shutdown of the interpreter.
    """
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def _terminate(signal_number: int, frame: FrameType | None) -> None:
    """Exit as on Ctrl-C, so that no incomplete files are left."""
    raise SystemExit(EXIT_TERMINATED)


def _explained(error: OSError) -> str:
    """Return a sentence that names the file and the error."""
    from endive.input_files import state

    if isinstance(error, FileExistsError | NotADirectoryError):
        return f"{error.filename} is a file, but must be a directory"
    return state(str(error.filename), error.strerror) if error.filename and error.strerror else str(error)


def on_terminal() -> bool:
    """Return whether stderr is a terminal."""
    return sys.stderr.isatty()


@contextmanager
def progress(output: Output, what: str, total: float | None = None, *, percent: bool = False) -> Iterator[Any]:
    """Show a progress bar and yield the function that updates it; without a terminal, yield None."""
    if not on_terminal():
        yield None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    amount = TextColumn("{task.percentage:>3.0f}%") if percent else MofNCompleteColumn()
    with Progress(TextColumn(what), BarColumn(), amount, TimeRemainingColumn(), console=output.talk, transient=True) as bar:
        task = bar.add_task("", total=total)
        yield lambda done, total=total: bar.update(task, completed=done, total=total)
