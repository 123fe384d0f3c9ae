"""Files that users write: configurations, studies, profiles, prices, custom components, histories, measurements, options."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from endive.config.components import allow_code
from tests.calibrate.tables import START_MS, metadata_document
from tests.fuzz_inputs.attempts import Ended, Kind, beside, chance, command, files, invoke
from tests.fuzz_inputs.here import searches_here

_SMALL = """[simulation]
duration_ms = 1000
engine = "reference"
[storage]
provider = "s3x"
[workload.a]
rate = 5.0
operation = "fast_append"
runtime = { distribution = "fixed", value = 10.0 }
"""
_PROFILED = _SMALL.replace('"s3x"', '"own.toml"')
_TRACE = b"time_ms,operation,runtime_ms,table\n0,fast_append,10,0\n5,merge_append,20,0\n900,fast_append,1,0\n"
_TRACED = '[simulation]\nduration_ms = 1000\n[storage]\nprovider = "instant"\n[workload.a]\ntrace = "own.csv"\n'
_LATENCIES = b"operation,latency_ms,bytes\n" + b"".join(b"read,%d.5,%d\n" % (10 + i % 7, 1000 * i) for i in range(40))
_SCHEDULED = b"""[simulation]
duration_ms = "10min"
[storage]
provider = "s3"
[workload.a]
operation = "fast_append"
[[workload.a.schedule]]
from = 0
rate = 1.5
[[workload.a.schedule]]
from = "2min"
rate = 8.0
[[workload.a.schedule]]
from = 400_000
rate = 0.0
[workload.b]
writers = 3
every_ms = "10s"
operation = "merge_append"
committer = { interval_ms = "1min" }
start_ms = 1_000
end_ms = "9min"
"""
_SCENARIOS = b"""[sweep]
label = "study"
seeds = "0-1"
question = "success(a)"
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
_FRONTIER = b"""[frontier]
vary = "workload.a.rate"
until = "success(a) < 95%"
from = 10
to = 500
tolerance = 0.5
seeds = 3
max_seeds = 6
[base.simulation]
duration_ms = 60_000
[base.storage]
provider = "instant"
[base.workload.a]
rate = 10.0
retry = 4
[quick]
tolerance = 1.0
seeds = 2
set = { "simulation.duration_ms" = 30_000 }
"""
_MARK = "part-was-run"
WITH_PART = b"""[simulation]
duration_ms = 1000
engine = "reference"
[storage]
provider = "s3x"
[workload.w]
rate = 4.0
operation = "fast_append"
[parts.catalog]
code = "own_part.py:Marked"
options = { mark = "x", size = 1.0 }
"""
QUIET_PART = """from endive.catalog import CASCatalog


class Marked(CASCatalog):
    def __init__(self, mark, size, storage, num_tables, partitions_per_table):
        super().__init__(storage, num_tables, partitions_per_table)
        self.mark = mark + "-" * (round(3 * size) % 7)
"""
PART = f'from pathlib import Path\nPath("{_MARK}").write_text("")\n{QUIET_PART}'
"""Custom component that creates a file when it is executed."""
_METADATA = json.dumps(metadata_document([START_MS + 1_000 * i for i in range(12)], properties={}), indent=1).encode()
_LONGER = json.dumps(metadata_document([START_MS + 700 * i + 90 * (i % 3) for i in range(30)]), indent=1).encode()
_SNAPSHOTS = b"committed_at,snapshot_id,parent_id,operation,manifest_list,summary\n" + b"".join(
    b'2026-05-28 20:%02d:%02d.%03d UTC,%d,%d,append,s3://nowhere/%d.avro,"{""added-data-files"": ""1""}"\n'
    % (i // 60, i % 60, 37 * i % 1000, i + 1, i, i)
    for i in range(40)
)
_REPORTS = b"\n".join(
    json.dumps(
        {
            "table-name": "t",
            "snapshot-id": i + 1,
            "operation": "append",
            "metrics": {
                "total-duration": {"count": 1, "time-unit": "nanoseconds", "total-duration": (100 + 7 * (i % 5)) * 10**6},
                "attempts": {"unit": "count", "value": 1 + i % 2},
            },
        }
    ).encode()
    for i in range(30)
)
_MODEL = _SMALL.replace("1000", "60_000")
_TUNE = (
    b"--for\nthroughput(a)\n--subject-to\nsuccess(a) >= 99%\n--vary\nworkload.a.rate=1..10\n--seed\n3\n--set\ncatalog.num_tables=5"
)
_SEARCH = b"--vary\nworkload.a.rate\n--until\np99(a) > 300 ms\n--from\n2\n--to\n400\n--tolerance\n5%\n--seeds\n2\n--warmup\n10"
_ASSIGNED = b'--set\ntransaction.retry=5\n--set\nstorage.provider="s3"\n--set\nworkload.a.commit.retry.num-retries=4\n--json'


def _imported(path: Path) -> list[str]:
    """Import a file, and simulate it in one of eight cases."""
    answer = "--no-answer" if chance(path) % 8 else "--answer"
    return ["import", str(path), "-o", str(path.parent / "imported.toml"), answer]


def _replayed(path: Path) -> list[str]:
    return ["replay", str(path), "-o", str(path.parent / "replayed.toml"), "--set", "storage.provider=s3x"]


def _compared(path: Path) -> list[str]:
    return ["fidelity", beside(path, "model.toml", _MODEL), "--against", str(path)]


def _reported(path: Path) -> list[str]:
    table = beside(path, "seen.metadata.json", _LONGER)
    return ["import", table, "--reports", str(path), "-o", str(path.parent / "imported.toml"), "--no-answer"]


def _priced(path: Path) -> list[str]:
    run = ["run", beside(path, "small.toml", _SMALL), "--out", str(path.parent / "runs")]
    return [*run, "--seed", "1", "--prices", str(path)]


def _searched(path: Path) -> Ended:
    quick = ["--quick"] if chance(path) % 2 else []
    with searches_here():
        return invoke(["frontier", str(path), "-o", str(path.parent / "found"), *quick])


class CodeWasRunError(AssertionError):
    """Code of a configuration was executed without permission."""


@contextmanager
def runs_no_other_part(folder: Path, *, allowed: bool = False) -> Iterator[Callable[[], CodeWasRunError | None]]:
    """Run a context with or without permission to execute code; yield a function that checks whether ``PART`` was executed."""
    mark = folder / _MARK
    mark.unlink(missing_ok=True)
    allow_code(allowed)
    try:
        yield lambda: CodeWasRunError() if mark.exists() else None
    finally:
        allow_code(False)


def _with_part(path: Path, *, allowed: bool = False) -> Ended:
    """Run or check a configuration with custom code; half of the cases permit its execution."""
    given = ["--allow-code"] if allowed else []
    out = ["--out", str(path.parent / "runs"), "--set", "simulation.duration_ms=100"]
    with runs_no_other_part(path.parent) as ran:
        ended = invoke(["validate", str(path)] if chance(path) % 4 == 0 else ["run", str(path), *out, *given])
    return ended if allowed else Ended(ended.code, ended.said, ran() or ended.exception)


def _configuration_with_part(path: Path) -> Ended:
    beside(path, "own_part.py", PART)
    return _with_part(path, allowed=chance(path) // 4 % 2 == 0)


def _source_of_part(path: Path) -> Ended:
    """Read a broken source file without executing it."""
    beside(path, "own_part.py", path.read_bytes())
    other = path.parent / "parts.toml"
    other.write_bytes(WITH_PART)
    return _with_part(other)


def options(path: Path) -> list[str]:
    """Return arguments as passed by a shell, one per line; bytes that are not text are decoded as by Python."""
    return path.read_bytes().decode("utf-8", "surrogateescape").split("\n")


def _with_options(command: Sequence[str]) -> Kind:
    good = {"tune": _TUNE, "frontier": _SEARCH, "validate": _ASSIGNED}[command[0]]

    def attempt(path: Path) -> Ended:
        out = [] if command[0] == "validate" else ["-o", str(path.parent / "found")]
        with searches_here():
            return invoke([command[0], beside(path, "small.toml", _SMALL), *command[1:], *out, *options(path)])

    return Kind(f"options of {command[0]}", "txt", (good,), attempt)


OWN_FILES = (
    Kind("configuration", "toml", files("examples/*.toml"), command(lambda path: ["validate", str(path)])),
    Kind("recipe", "toml", files("examples/recipes/*.toml"), command(lambda path: ["validate", str(path)])),
    Kind("schedule", "toml", (_SCHEDULED,), command(lambda path: ["validate", str(path)])),
    Kind("parts", "toml", (WITH_PART,), _configuration_with_part),
    Kind("code of a part", "txt", (PART.encode(),), _source_of_part),
    Kind("sweep", "toml", files("examples/sweeps/*.toml"), command(lambda path: ["sweep", str(path), "--dry-run", "--quick"])),
    Kind("scenarios", "toml", (_SCENARIOS,), command(lambda path: ["sweep", str(path), "--dry-run"])),
    Kind("frontier", "toml", (_FRONTIER,), _searched),
    _with_options(["tune", "--candidates", "2", "--quick"]),
    _with_options(["frontier"]),
    _with_options(["validate"]),
    Kind(
        "profile",
        "toml",
        files("src/endive/storage/profile_data/2026-01/*.toml"),
        command(lambda path: ["validate", beside(path, "profiled.toml", _PROFILED)]),
    ),
    Kind("prices", "toml", files("src/endive/storage/price_data/*.toml"), command(_priced)),
    Kind("metadata.json", "metadata.json", (_METADATA,), command(_imported), every=2),
    Kind("replay: metadata.json", "metadata.json", (_LONGER,), command(_replayed), every=4),
    Kind("replay: snapshots", "csv", (_SNAPSHOTS,), command(_replayed), every=4),
    Kind("fidelity: snapshots", "csv", (_SNAPSHOTS,), command(_compared), every=4),
    Kind("fidelity: reports", "jsonl", (_REPORTS,), command(_compared), every=4),
    Kind("reports", "jsonl", (_REPORTS,), command(_reported), every=4),
    Kind("trace", "csv", (_TRACE,), command(lambda path: ["validate", beside(path, "traced.toml", _TRACED)])),
    Kind(
        "measurements",
        "csv",
        (_LATENCIES,),
        command(lambda path: ["calibrate", str(path), "-o", str(path.parent / "out.toml"), "--no-figure"]),
    ),
)
