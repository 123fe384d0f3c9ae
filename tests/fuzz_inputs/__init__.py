"""Pass broken files of every kind to the command line: ``python -m tests.fuzz_inputs --examples 20000 [--seed N]``.

Each input is a valid file with a few mutations: files that users write, including options (``own_files``), and requests to the live
page (``requests``). Files of results are put into a directory of experiments, half of them with a matching checksum or hash, which
is then verified, consolidated, measured, compared or reported (``results``). For all inputs: no traceback; exit code 0 or 2 (also 1
for results), and for requests a documented status with a sentence; JSON if requested; no execution of code that is not allowed; no
partial file, and no file outside the requested directory; at most some seconds of CPU time.

An input is determined by the printed seed and its number: ``--only NUMBER`` runs one input. If an input blocks the process without
using CPU time (network, pipe), the run ends after some minutes and prints the position in the code; the input is in the directory
that is printed first. Mutations are random: atheris, which is guided by coverage, has no wheel for each supported Python, and
hypofuzz guides strategies, not files.
"""

from __future__ import annotations

import faulthandler
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from endive.simulation.compiled.compilation import compile_object_code
from tests.fuzz_inputs.attempts import Ended, Kind
from tests.fuzz_inputs.here import commands_here
from tests.fuzz_inputs.own_files import OWN_FILES
from tests.fuzz_inputs.requests import REQUESTS
from tests.fuzz_inputs.results import RESULTS

_PROGRESS_EVERY = 1_000
_MOST_CPU_SECONDS = 4.0
"""Maximum CPU time per input. The requirement is a second on an idle machine."""
_MOST_SECONDS = 300.0


KINDS = (*OWN_FILES, *RESULTS, *REQUESTS)
_ROUNDS = 16
TURNS = tuple(kind for number in range(_ROUNDS) for kind in KINDS if number % kind.every == 0)


@dataclass(frozen=True)
class Fault:
    """Violation of a requirement by an input."""

    kind: str
    what: str
    content: bytes


class _TooLongError(BaseException):
    """Exception in a command that exceeds its CPU time; the command's ``except Exception`` does not catch it."""


@contextmanager
def _bounded() -> Iterator[None]:
    """Raise _TooLongError at the CPU time limit; end the process with the position in the code if it blocks.

    The limit does not apply to the compilation of a kernel, which happens once for each kernel.
    """

    def too_long(_: int, frame: FrameType | None) -> None:
        while frame is not None:
            if frame.f_code is compile_object_code.__code__:
                signal.setitimer(signal.ITIMER_PROF, _MOST_CPU_SECONDS)
                return
            frame = frame.f_back
        raise _TooLongError

    before = signal.signal(signal.SIGPROF, too_long)
    faulthandler.dump_traceback_later(_MOST_SECONDS, exit=True)
    signal.setitimer(signal.ITIMER_PROF, _MOST_CPU_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        faulthandler.cancel_dump_traceback_later()
        signal.signal(signal.SIGPROF, before)


def try_one(kind: Kind, content: bytes, folder: Path) -> tuple[int, Fault | None]:
    """Pass one input to its command; return the outcome and the violation, if any."""
    path = folder / f"own.{kind.ending}"
    path.write_bytes(content)
    before = _outside(folder)
    try:
        with _bounded():
            ended = kind.attempt(path)
    except _TooLongError as error:
        return -1, Fault(kind.name, f"took more than {_MOST_CPU_SECONDS:g} s of CPU{_place(error)}", content)
    what = _wrong(kind, ended, folder, before)
    return ended.code, None if what is None else Fault(kind.name, what, content)


def _wrong(kind: Kind, ended: Ended, folder: Path, before: list[str]) -> str | None:
    """Return the violation of an attempt, or None."""
    if ended.exception is not None:
        return f"{type(ended.exception).__name__}: {str(ended.exception)[:300]}{_place(ended.exception)}"
    if ended.code not in (0, *kind.refused) or "Traceback" in ended.said:
        return f"exit code {ended.code}: {ended.said[-300:]}"
    if _outside(folder) != before:
        return "wrote outside of its directory"
    return "left something half-written" if any(folder.rglob(".*.tmp")) else None


def _place(error: BaseException) -> str:
    """Return the position in Endive at which an exception was raised."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "endive" in Path(frame.filename).parts]
    return f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""


def _outside(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.parent.iterdir())


@contextmanager
def _sandbox() -> Iterator[Path]:
    """Create a nested temporary directory, which is the working directory within the context."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory(prefix="endive-fuzz-") as outer:
        folder = Path(outer) / "inner" / "work"
        folder.mkdir(parents=True)
        os.chdir(folder)
        try:
            yield folder
        finally:
            os.chdir(before)


def example(seed: int, number: int) -> tuple[Kind, bytes]:
    """Return the kind and the content of an input, by the seed of a run and its number."""
    kind = TURNS[number % len(TURNS)]
    return kind, kind.mutate(kind.good, random.Random(f"{seed}-{number}"))


def fuzz(numbers: Sequence[int], seed: int) -> list[Fault]:
    """Run these inputs, all kinds in turn; return the violations."""
    faults: list[Fault] = []
    ended: Counter[tuple[str, int]] = Counter()
    costliest: dict[str, tuple[float, int]] = {}
    with _sandbox() as folder, commands_here():
        print(f"the file at work is in {folder}", file=sys.stderr, flush=True)
        for done, number in enumerate(numbers, 1):
            kind, content = example(seed, number)
            began = time.process_time()
            code, fault = try_one(kind, content, folder)
            costliest[kind.name] = max(costliest.get(kind.name, (0.0, 0)), (time.process_time() - began, number))
            ended[kind.name, code] += 1
            if fault is not None:
                faults.append(fault)
                print(f"file {number}: {fault.kind}: {fault.what}", file=sys.stderr, flush=True)
            if done % _PROGRESS_EVERY == 0:
                print(f"{done} of {len(numbers)}, {len(faults)} faults", file=sys.stderr, flush=True)
    for (name, code), count in sorted(ended.items()):
        print(f"{name}: {count} ended with exit code {code}")
    for name, (seconds, number) in costliest.items():
        print(f"{name}: file {number} cost the most, {seconds:.2f} s of CPU")
    return faults
