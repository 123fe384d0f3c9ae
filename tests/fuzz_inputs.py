"""Broken files of every kind through the command line: ``python -m tests.fuzz_inputs --examples 20000 [--seed N]``.

Each file is a good one with a few mutations; files of results are put into a directory of experiments, half of them with a checksum
or a hash that fits, which is then verified, consolidated or measured. What must hold for all of them: no traceback; exit code 0 or
2 (0 or 1 of results); no file outside of the directory that was asked for, and none that is half-written; no more than some seconds
of CPU.

A file follows from the seed that is printed and from its number: ``--only NUMBER`` tries it alone. A file that holds the process up
without computing (waiting for a network, a pipe) ends the run after some minutes with the place in the code; it lies in the
directory that is printed first. Mutations are drawn blindly: atheris, which is guided by coverage, has no wheel for each Python
that Endive runs on, and what hypofuzz would guide is not these files but strategies.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import random
import secrets
import shutil
import signal
import sys
import tempfile
import time
import traceback
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from endive.main import app
from tests.calibrate.tables import START_MS, metadata_document
from tests.mutations import mutated
from tests.pipeline.damages import change_record, name_by_parameters, seal
from tests.pipeline.runs import document, run_all, run_tasks_here

_ROOT = Path(__file__).parents[1]
_PROGRESS_EVERY = 1_000
_MOST_CPU_SECONDS = 4.0
"""What a file may cost: a second was asked for, on a machine that has nothing else to do."""
_MOST_SECONDS = 300.0


@dataclass(frozen=True)
class Kind:
    """A kind of file: its ending, good examples, the command that reads one, and how it may end beside well."""

    name: str
    ending: str
    good: tuple[bytes, ...]
    command: Callable[[Path], list[str]]
    refused: int = 2


def _files(pattern: str) -> tuple[bytes, ...]:
    found = tuple(path.read_bytes() for path in sorted(_ROOT.glob(pattern)))
    assert found, pattern
    return found


_PROFILED = b'[simulation]\nduration_ms = 1000\n[storage]\nprovider = "own.toml"\n[transaction]\ninter_arrival.scale = 50.0\n'
_TRACE = b"time_ms,operation,runtime_ms,table\n0,fast_append,10,0\n5,merge_append,20,0\n900,fast_append,1,0\n"
_TRACED = b'[simulation]\nduration_ms = 1000\n[storage]\nprovider = "instant"\n[workload.a]\ntrace = "own.csv"\n'
_LATENCIES = b"operation,latency_ms,bytes\n" + b"".join(b"read,%d.5,%d\n" % (10 + i % 7, 1000 * i) for i in range(40))


def _beside(text: bytes, name: str) -> Callable[[Path], list[str]]:
    """A command that reads a configuration which names the file."""

    def command(path: Path) -> list[str]:
        (path.parent / name).write_bytes(text)
        return ["validate", str(path.parent / name)]

    return command


_SCENARIOS = b"""[sweep]
label = "study"
seeds = "0-1"
[base.simulation]
duration_ms = 1000
[base.storage]
provider = "instant"
[base.workload.a]
rate = 5.0
[scenario.baseline]
[scenario.busy]
set = { "workload.a.rate" = 50.0 }
[scenario.two]
set = { "catalog.num_tables" = 2 }
"""
_METADATA = json.dumps(metadata_document([START_MS + 1_000 * i for i in range(12)], properties={}), indent=1).encode()


@cache
def _made() -> Path:
    """An experiment of two seeds, run once, and never changed."""
    folder = Path(tempfile.mkdtemp(prefix="endive-fuzz-made-"))
    run_all([document(simulation__duration_ms=1_000.0)], folder, range(2))
    experiment = next(folder.iterdir())
    for seed in range(2):  # the same bytes every time
        change_record(experiment / str(seed), started="2026-01-01T00:00:00+00:00", wall_time_s=0.1)
    return experiment


_RESULT_FILES = ("results.parquet", "provenance.json", "summary.json", "../cfg.toml")
_COMMANDS = (*[["experiments", "verify"]] * 14, ["consolidate"], ["metrics"])
"""What is done with results; those that write cost twenty times as much."""


def _in_results(name: str) -> Callable[[Path], list[str]]:
    """A command over a directory of experiments in which the file has taken the place of another."""

    def command(path: Path) -> list[str]:
        content = path.read_bytes()
        chance = zlib.crc32(content)
        root = path.parent / "root"
        shutil.rmtree(root, ignore_errors=True)
        shutil.copytree(_made(), root / _made().name, copy_function=shutil.copyfile)
        run = root / _made().name / "0"
        (run / name).write_bytes(content)
        if name == "results.parquet" and chance % 2:
            seal(run)
        if name == "provenance.json" and chance % 2:
            name_by_parameters(run)
        wanted = _COMMANDS[chance // 2 % len(_COMMANDS)]
        if wanted != _COMMANDS[0]:
            shutil.copytree(_made(), root / f"whole-{_made().name.rpartition('-')[2]}")
        if wanted == ["metrics"]:
            CliRunner().invoke(app, ["consolidate", str(root)])
        return [*wanted, str(root)]

    return command


def _imported(path: Path) -> list[str]:
    """An import, which is also simulated one time in eight."""
    answer = "--no-answer" if zlib.crc32(path.read_bytes()) % 8 else "--answer"
    return ["import", str(path), "-o", str(path.parent / "imported.toml"), answer]


def _result_kinds() -> Iterator[Kind]:
    for name in _RESULT_FILES:
        good = (_made() / "0" / name).read_bytes()
        yield Kind(f"results: {Path(name).name}", "any", (good,), _in_results(name), refused=1)


KINDS = (
    Kind("configuration", "toml", _files("examples/*.toml"), lambda path: ["validate", str(path)]),
    Kind("sweep", "toml", _files("examples/sweeps/*.toml"), lambda path: ["sweep", str(path), "--dry-run", "--quick"]),
    Kind("profile", "toml", _files("src/endive/storage/profile_data/2026-01/*.toml"), _beside(_PROFILED, "profiled.toml")),
    Kind("scenarios", "toml", (_SCENARIOS,), lambda path: ["sweep", str(path), "--dry-run"]),
    Kind(
        "metadata.json",
        "metadata.json",
        (_METADATA,),
        _imported,
    ),
    Kind("trace", "csv", (_TRACE,), _beside(_TRACED, "traced.toml")),
    Kind(
        "measurements",
        "csv",
        (_LATENCIES,),
        lambda path: ["calibrate", str(path), "-o", str(path.parent / "out.toml"), "--no-figure"],
    ),
    *_result_kinds(),
)


@dataclass(frozen=True)
class Fault:
    """What a file did that it must not do."""

    kind: str
    what: str
    content: bytes


class _TooLongError(BaseException):
    """Raised within a command that has computed for too long; no ``except Exception`` of the command catches it."""


@contextmanager
def _bounded() -> Iterator[None]:
    """Raise _TooLongError after so much CPU; end the process, with the place in the code, if it does not go on at all."""

    def too_long(*_: object) -> None:
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
    """Give one file to its command; says how it ended and what was wrong, if anything."""
    path = folder / f"own.{kind.ending}"
    path.write_bytes(content)
    before = _outside(folder)
    try:
        with _bounded():
            result = CliRunner().invoke(app, kind.command(path))
    except _TooLongError as error:
        return -1, Fault(kind.name, f"took more than {_MOST_CPU_SECONDS:g} s of CPU{_place(error)}", content)
    said = result.output
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        what = f"{type(result.exception).__name__}: {result.exception}{_place(result.exception)}"
        return result.exit_code, Fault(kind.name, what, content)
    if result.exit_code not in (0, kind.refused) or "Traceback" in said:
        return result.exit_code, Fault(kind.name, f"exit code {result.exit_code}: {said[-300:]}", content)
    if _outside(folder) != before:
        return result.exit_code, Fault(kind.name, "wrote outside of its directory", content)
    if any(folder.rglob(".*.tmp")):
        return result.exit_code, Fault(kind.name, "left something half-written", content)
    return result.exit_code, None


def _place(error: BaseException) -> str:
    """Where in Endive an exception came from."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "endive" in Path(frame.filename).parts]
    return f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""


def _outside(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.parent.iterdir())


@contextmanager
def _sandbox() -> Iterator[Path]:
    """A directory in a directory of its own, which is the working directory meanwhile."""
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
    """The kind and the content of a file, by the seed of a run and its number in it."""
    kind = KINDS[number % len(KINDS)]
    return kind, mutated(kind.good, random.Random(f"{seed}-{number}"))


@contextmanager
def commands_here() -> Iterator[None]:
    """Let commands consolidate and measure in this process, without Spark."""
    with pytest.MonkeyPatch.context() as patched:
        run_tasks_here(patched)
        patched.setattr("endive.pipeline.session.spark_session", lambda *_: nullcontext(None))
        patched.setattr("typer.testing._get_command", cache(get_command))  # 60 ms each time
        yield


def fuzz(numbers: Sequence[int], seed: int) -> list[Fault]:
    """Try these files, all kinds in turn; returns what went wrong."""
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


def main() -> int:
    """Run what was asked for; 1 if anything went wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz_inputs", description=__doc__)
    parser.add_argument("--examples", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=secrets.randbits(31))
    parser.add_argument("--only", type=int, help="the number of the one file that is tried")
    options = parser.parse_args()
    numbers = range(options.examples) if options.only is None else range(options.only, options.only + 1)
    print(f"{len(numbers)} files, seed {options.seed}", flush=True)
    faults = fuzz(numbers, options.seed)
    for fault in faults[:20]:
        print(f"\n{fault.kind}: {fault.what}\n{fault.content[:600]!r}")
    print(f"{len(numbers) - len(faults)} passed, {len(faults)} failed, {time.process_time():.0f} s of CPU")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
