"""Kill real sweeps and reports on Spark: ``python -m tests.soak --kills 100 [--seed N]``.

A small sweep runs and is reported undisturbed. Then, in several directories, sweeps of the same file are killed until all runs
exist, and then its reports; finally both run to their end. A kill ends the driver alone or all its processes, at a random time
of the undisturbed duration. Requirements: files with their final name always have the content of the undisturbed sweep; a command
that runs to its end completes the study, produces the tables of the undisturbed report, and leaves no temporary files. Two sweeps
and two reports also run in one directory concurrently. The printed seed reproduces the times. Do not change the code meanwhile: its
version is part of directory names.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from tests.pipeline.sweeps import digests, plan_of, problems, sweep_file

_SEEDS, _DURATION_MS = 4, 12_000.0
_MOST_SECONDS = 900.0
_KILLS_OF_REPORTS = 4
"""Number of killed reports per directory, after all runs exist."""


class Soak:
    """Sweeps and reports of one file, and the violations."""

    def __init__(self, folder: Path, rng: random.Random) -> None:
        self.folder, self.rng = folder, rng
        self.file = sweep_file(folder, seeds=_SEEDS, duration_ms=_DURATION_MS)
        self.faults: list[str] = []
        self.killed = 0
        self.seconds = {command: self.finish(command, folder / "whole") for command in ("sweep", "report")}
        self.whole = digests(folder / "whole")
        assert len(self.whole) == plan_of(self.file).runs, "the undisturbed sweep failed"

    def start(self, command: str, root: Path) -> subprocess.Popen[bytes]:
        """Start a sweep into a directory, or a report of it, in a separate process group."""
        place = [str(self.file), "--out", str(root)] if command == "sweep" else [str(root)]
        called = [sys.executable, "-m", "endive", command, *place, "--master", "local[2,4]", "--json"]
        with (self.folder / "said").open("wb") as said:
            return subprocess.Popen(
                called, cwd=Path(__file__).parents[1], stdout=subprocess.DEVNULL, stderr=said, start_new_session=True
            )

    def finish(self, command: str, root: Path) -> float:
        """Run a command undisturbed; return its duration in seconds."""
        started = time.monotonic()
        code = self.start(command, root).wait(_MOST_SECONDS)
        if code != 0:
            said = (self.folder / "said").read_text(errors="replace")[-300:]
            self.faults.append(f"{root.name}: a {command} that was let finish ended with {code}: {said}")
        return time.monotonic() - started

    def kill(self, command: str, root: Path) -> str:
        """Start a command and kill it at a random time; return how, and the number of files."""
        process = self.start(command, root)
        moment, alone = self.rng.uniform(0.0, self.seconds[command]), self.rng.random() < 0.5
        with suppress(subprocess.TimeoutExpired):
            process.wait(moment)
        self.killed += process.poll() is None
        if alone:
            process.send_signal(signal.SIGKILL)
            time.sleep(self.rng.uniform(0.0, 1.0))
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        self.check_whole(root)
        how = "driver alone" if alone else "all processes"
        return f"{self.killed} {root.name}: {command} after {moment:.1f} s, {how}, {len(digests(root))} of {len(self.whole)} runs"

    def check_whole(self, root: Path) -> None:
        """Check that files with their final name are complete."""
        if not set(digests(root).items()) <= set(self.whole.items()):
            self.faults.append(f"{root.name}: results that an undisturbed sweep does not have")

    def check_finished(self, root: Path) -> None:
        """Check that the study is complete and that no temporary files remain."""
        if digests(root) != self.whole:
            self.faults.append(f"{root.name}: not the results of an undisturbed sweep")
        self.faults += [f"{root.name}: {problem}" for problem in problems(root)]

    def check_reported(self, root: Path) -> None:
        """Check that the tables of metrics equal the undisturbed report and that no temporary files remain."""
        tables = sorted((self.folder / "whole" / "metrics").glob("*.csv"))
        assert tables
        for table in tables:
            other = root / "metrics" / table.name
            if not other.is_file() or table.read_bytes() != other.read_bytes():
                self.faults.append(f"{root.name}: {table.name} differs from that of an undisturbed report")
        if not (root / "report.html").is_file():
            self.faults.append(f"{root.name}: there is no report")
        self.check_finished(root)

    def at_once(self, root: Path) -> None:
        """Run two sweeps concurrently, then two reports."""
        for process in [self.start("sweep", root) for _ in range(2)]:
            if process.wait(_MOST_SECONDS) != 0:
                self.faults.append(f"{root.name}: one of two sweeps at once ended with {process.returncode}")
        self.check_finished(root)
        codes = sorted(process.wait(_MOST_SECONDS) for process in [self.start("report", root) for _ in range(2)])
        if codes not in ([0, 0], [0, 1]):  # one may report that the other is running
            self.faults.append(f"{root.name}: reports at once ended with {codes}")
        self.check_reported(root)


def soak(kills: int, seed: int, seconds: float) -> list[str]:
    """Kill commands for this number of times or seconds; return the violations."""
    deadline = time.monotonic() + seconds
    with tempfile.TemporaryDirectory(prefix="endive-soak-") as folder:
        soaked = Soak(Path(folder), random.Random(seed))
        print(f"undisturbed: {len(soaked.whole)} runs", flush=True)
        soaked.at_once(Path(folder) / "shared")
        print(f"two at once: {len(soaked.faults)} faults", flush=True)
        roots = 0
        while soaked.killed < kills and time.monotonic() < deadline:
            roots += 1
            root = Path(folder) / f"killed{roots}"
            while soaked.killed < kills and time.monotonic() < deadline and len(digests(root)) < len(soaked.whole):
                print(soaked.kill("sweep", root), flush=True)
            soaked.finish("sweep", root)
            soaked.check_finished(root)
            for _ in range(_KILLS_OF_REPORTS):
                if soaked.killed < kills and time.monotonic() < deadline:
                    print(soaked.kill("report", root), flush=True)
            soaked.finish("report", root)
            soaked.check_reported(root)
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        print(f"{soaked.killed} kills, {roots} directories finished, {len(soaked.faults)} faults")
        print(f"{used.ru_utime + used.ru_stime:.0f} s of CPU, without what was killed before its parent had waited for it")
        return soaked.faults


def main() -> int:
    """Run the command line; return 1 if there is a violation."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=secrets.randbits(31))
    parser.add_argument("--seconds", type=float, default=7_200.0, help="begin no further kill after so long")
    options = parser.parse_args()
    print(f"{options.kills} kills, seed {options.seed}", flush=True)
    faults = soak(options.kills, options.seed, options.seconds)
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
