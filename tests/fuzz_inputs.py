"""Broken files of every kind through the command line: ``python -m tests.fuzz_inputs --examples 20000 [--seed N]``.

Each file is a good one with a few mutations; files of results are put into a directory of experiments, half of them with a checksum
that fits, which is then verified, consolidated and measured. What must hold for all of them: no traceback; exit code 0 or 2 (0 or 1
of results); no file outside of the directory that was asked for, and none that is half-written. The seed that is printed repeats a
run. Mutations are drawn blindly: atheris, which is guided by coverage, has no wheel for each Python that Endive runs on, and what
hypofuzz would guide is not these files but strategies.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import secrets
import shutil
import sys
import tempfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from typer.testing import CliRunner

from endive.main import app
from tests.calibrate.tables import START_MS, metadata_document
from tests.pipeline.damages import seal
from tests.pipeline.runs import document, run_all, run_tasks_here

_ROOT = Path(__file__).parents[1]
_PROGRESS_EVERY = 1_000
_NUMBERS = (
    b"0", b"-1", b"1", b"0.5", b"1e308", b"-1e308", b"1e-308", b"nan", b"inf", b"-inf", b"1e400", b"4611686018427387904",
    b"9223372036854775808", b"1" + b"0" * 30, b"9" * 5_000, b"true", b'""', b'"x"', b"[]", b"{}", b"'a\x00b'", b"1979-05-27",
    b'"' + b"9" * 400 + b's"', b'"10s"', b'"-1min"', b"[[[[[[]]]]]]",
)  # fmt: skip
_TEXTS = (
    b"\x00",
    b"\xff\xfe",
    b"[" * 500,
    b"{" * 500,
    b"a." * 500,
    "²".encode(),
    b"../../",
    b"\n",
    b"=",
    b"#",
    b'"',
    b"]",
    b"workload.all.rate = 1",
)


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
    return next(folder.iterdir())


_RESULT_FILES = ("results.parquet", "provenance.json", "summary.json", "../cfg.toml")
_COMMANDS = (["experiments", "verify"], ["consolidate"], ["metrics"])


def _in_results(name: str) -> Callable[[Path], list[str]]:
    """A command over a directory of experiments in which the file has taken the place of another."""

    def command(path: Path) -> list[str]:
        content = path.read_bytes()
        root = path.parent / "root"
        shutil.rmtree(root, ignore_errors=True)
        shutil.copytree(_made(), root / _made().name)
        shutil.copytree(_made(), root / f"whole-{_made().name.rpartition('-')[2]}")
        run = root / _made().name / "0"
        (run / name).write_bytes(content)
        chance = zlib.crc32(content)
        if name == "results.parquet" and chance % 2:
            seal(run)
        wanted = _COMMANDS[chance % len(_COMMANDS)]
        if wanted == ["metrics"]:
            CliRunner().invoke(app, ["consolidate", str(root)])
        return [*wanted, str(root)]

    return command


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
        lambda path: ["import", str(path), "-o", str(path.parent / "imported.toml")],
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


def mutated(good: Sequence[bytes], rng: random.Random) -> bytes:
    """A good file with one to four mutations."""
    content = rng.choice(good)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 4))):
        content = rng.choice(_MUTATIONS)(content, good, rng)
    return content


def _another_number(content: bytes, _: Sequence[bytes], rng: random.Random) -> bytes:
    lines = content.split(b"\n")
    sign = b'":' if content[:1] in b"{[" else b"="
    places = [place for place, line in enumerate(lines) if sign in line]
    if not places:
        return content
    place = rng.choice(places)
    key = lines[place].split(sign)[0]
    end = b"," if sign != b"=" and lines[place].endswith(b",") else b""
    lines[place] = key + sign + b" " + rng.choice(_NUMBERS) + end
    return b"\n".join(lines)


def _another_cell(content: bytes, _: Sequence[bytes], rng: random.Random) -> bytes:
    cells = content.split(b",")
    cells[rng.randrange(len(cells))] = rng.choice(_NUMBERS)
    return b",".join(cells)


def _inserted(content: bytes, _: Sequence[bytes], rng: random.Random) -> bytes:
    place = rng.randrange(len(content) + 1)
    return content[:place] + rng.choice(_TEXTS) + content[place:]


def _removed(content: bytes, _: Sequence[bytes], rng: random.Random) -> bytes:
    start = rng.randrange(len(content) + 1)
    return content[:start] + content[start + rng.choice((1, 3, 20, 200)) :]


def _flipped(content: bytes, _: Sequence[bytes], rng: random.Random) -> bytes:
    if not content:
        return content
    place = rng.randrange(len(content))
    return content[:place] + bytes((content[place] ^ (1 << rng.randrange(8)),)) + content[place + 1 :]


def _spliced(content: bytes, good: Sequence[bytes], rng: random.Random) -> bytes:
    lines, others = content.split(b"\n"), rng.choice(good).split(b"\n")
    start = rng.randrange(len(others))
    place = rng.randrange(len(lines) + 1)
    return b"\n".join([*lines[:place], *others[start : start + rng.choice((1, 2, 10))], *lines[place:]])


_MUTATIONS = (_another_number, _another_number, _another_cell, _inserted, _removed, _flipped, _spliced)


@dataclass(frozen=True)
class Fault:
    """What a file did that it must not do."""

    kind: str
    what: str
    content: bytes


def try_one(kind: Kind, content: bytes, folder: Path) -> tuple[int, Fault | None]:
    """Give one file to its command; says how it ended and what was wrong, if anything."""
    path = folder / f"own.{kind.ending}"
    path.write_bytes(content)
    before = _outside(folder)
    result = CliRunner().invoke(app, kind.command(path))
    said = result.output
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        return result.exit_code, Fault(kind.name, f"{type(result.exception).__name__}: {result.exception}", content)
    if result.exit_code not in (0, kind.refused) or "Traceback" in said:
        return result.exit_code, Fault(kind.name, f"exit code {result.exit_code}: {said[-300:]}", content)
    if _outside(folder) != before:
        return result.exit_code, Fault(kind.name, "wrote outside of its directory", content)
    if any(folder.rglob(".*.tmp")):
        return result.exit_code, Fault(kind.name, "left something half-written", content)
    return result.exit_code, None


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


def fuzz(examples: int, seed: int) -> list[Fault]:
    """Try so many files, all kinds in turn; returns what went wrong."""
    rng = random.Random(seed)
    faults: list[Fault] = []
    ended: Counter[tuple[str, int]] = Counter()
    with _sandbox() as folder, pytest.MonkeyPatch.context() as patched:
        run_tasks_here(patched)  # without Spark
        patched.setattr("endive.pipeline.session.spark_session", lambda *_: nullcontext(None))
        for number in range(examples):
            kind = KINDS[number % len(KINDS)]
            code, fault = try_one(kind, mutated(kind.good, rng), folder)
            ended[kind.name, code] += 1
            if fault is not None:
                faults.append(fault)
            if (number + 1) % _PROGRESS_EVERY == 0:
                print(f"{number + 1} of {examples}, {len(faults)} faults", file=sys.stderr, flush=True)
    for (name, code), count in sorted(ended.items()):
        print(f"{name}: {count} ended with exit code {code}")
    return faults


def main() -> int:
    """Run what was asked for; 1 if anything went wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz_inputs", description=__doc__)
    parser.add_argument("--examples", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=secrets.randbits(31))
    options = parser.parse_args()
    print(f"{options.examples} files, seed {options.seed}", flush=True)
    faults = fuzz(options.examples, options.seed)
    for fault in faults[:20]:
        print(f"\n{fault.kind}: {fault.what}\n{fault.content[:600]!r}")
    print(f"{options.examples - len(faults)} passed, {len(faults)} failed")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
