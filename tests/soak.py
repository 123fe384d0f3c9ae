"""Kill real sweeps on Spark: ``python -m tests.soak --kills 100 [--seed N]``.

A small sweep is run undisturbed; then sweeps of the same file are killed at random moments, the driver alone or all its processes
at once, and started again over the same directory until it is complete; then another directory begins. What must hold: at every
moment what has its final name has the bytes of the undisturbed sweep; a sweep that is let finish completes the set and leaves
nothing behind. At last two sweeps and two reports work on one directory at the same time. The seed that is printed repeats the
choice of moments. The code must not change meanwhile: its version is in the names of directories.
"""

from __future__ import annotations

import argparse
import os
import random
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from tests.pipeline.sweeps import digests, plan_of, problems, sweep_file

_SEEDS, _DURATION_MS = 3, 8_000.0
_MOST_SECONDS = 300.0


class Soak:
    """The sweeps of one file, and what was found wrong."""

    def __init__(self, folder: Path, rng: random.Random) -> None:
        self.folder, self.rng = folder, rng
        self.file = sweep_file(folder, seeds=_SEEDS, duration_ms=_DURATION_MS)
        self.faults: list[str] = []
        began = time.monotonic()
        self.finish(folder / "whole")
        self.seconds = time.monotonic() - began
        self.whole = digests(folder / "whole")
        assert len(self.whole) == plan_of(self.file).runs

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """A command, in a group of processes of its own."""
        command = [sys.executable, "-m", "endive", *arguments, "--master", "local[2,4]", "--json"]
        quiet = subprocess.DEVNULL
        return subprocess.Popen(command, cwd=self.folder, stdout=quiet, stderr=quiet, start_new_session=True)

    def sweep(self, root: Path) -> subprocess.Popen[bytes]:
        """A sweep."""
        return self.start("sweep", str(self.file), "--out", str(root))

    def finish(self, root: Path) -> None:
        """A sweep that nobody disturbs."""
        code = self.sweep(root).wait(_MOST_SECONDS)
        if code != 0:
            self.faults.append(f"{root.name}: a sweep that was let finish ended with {code}")

    def kill(self, root: Path) -> str:
        """Start a sweep and kill it at a random moment; says when and how much was there."""
        process = self.sweep(root)
        moment, alone = self.rng.uniform(0.0, 1.2 * self.seconds), self.rng.random() < 0.5
        with suppress(subprocess.TimeoutExpired):
            process.wait(moment)
        ended = process.poll()
        if alone:
            process.send_signal(signal.SIGKILL)
            time.sleep(self.rng.uniform(0.0, 1.0))
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        self.check_whole(root)
        how = "had ended" if ended is not None else "driver alone" if alone else "all processes"
        return f"{root.name}: after {moment:.1f} s, {how}, {len(digests(root))} of {len(self.whole)} runs there"

    def check_whole(self, root: Path) -> None:
        """What has its final name is whole."""
        if not set(digests(root).items()) <= set(self.whole.items()):
            self.faults.append(f"{root.name}: results that an undisturbed sweep does not have")

    def check_finished(self, root: Path) -> None:
        """The set is complete, and nothing is left."""
        if digests(root) != self.whole:
            self.faults.append(f"{root.name}: not the results of an undisturbed sweep")
        self.faults += [f"{root.name}: {problem}" for problem in problems(root)]

    def at_once(self, root: Path) -> None:
        """Two sweeps at once, then two reports; the tables are those of a report by itself."""
        for process in [self.sweep(root) for _ in range(2)]:
            if process.wait(_MOST_SECONDS) != 0:
                self.faults.append(f"{root.name}: one of two sweeps at once ended with {process.returncode}")
        self.check_finished(root)
        codes = sorted(process.wait(_MOST_SECONDS) for process in [self.start("report", str(root)) for _ in range(2)])
        if codes not in ([0, 0], [0, 1]):  # one may be told that the other is at work
            self.faults.append(f"{root.name}: reports at once ended with {codes}")
        if self.start("report", str(self.folder / "whole")).wait(_MOST_SECONDS) != 0:
            self.faults.append("a report by itself failed")
        for table in sorted((self.folder / "whole" / "metrics").glob("*.csv")):
            if table.read_bytes() != (root / "metrics" / table.name).read_bytes():
                self.faults.append(f"{root.name}: {table.name} differs from that of a report by itself")
        self.check_finished(root)


def soak(kills: int, seed: int, seconds: float) -> list[str]:
    """Kill so many sweeps, or as many as the time allows; returns what was wrong."""
    deadline = time.monotonic() + seconds
    with tempfile.TemporaryDirectory(prefix="endive-soak-") as folder:
        soaked = Soak(Path(folder), random.Random(seed))
        print(f"undisturbed: {len(soaked.whole)} runs in {soaked.seconds:.1f} s", flush=True)
        killed = ended = 0
        roots = 0
        while killed < kills and time.monotonic() < deadline:
            roots += 1
            root = Path(folder) / f"killed{roots}"
            while killed < kills and time.monotonic() < deadline and len(digests(root)) < len(soaked.whole):
                told = soaked.kill(root)
                killed += "had ended" not in told
                ended += "had ended" in told
                print(told, flush=True)
            soaked.finish(root)
            soaked.check_finished(root)
        soaked.at_once(Path(folder) / "shared")
        print(f"{killed} sweeps killed ({ended} had ended before), {roots} directories finished, {len(soaked.faults)} faults")
        return soaked.faults


def main() -> int:
    """Run what was asked for; 1 if anything went wrong."""
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
