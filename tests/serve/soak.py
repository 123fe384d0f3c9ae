"""Keep a page of the live server busy, and check that it does not grow: ``python -m tests.serve.soak --questions 500``.

Questions follow each other as a moved slider sends them: some are answered to the end, most are replaced by the next one, some
clients leave in the middle. Memory, processes, threads, open files and the directory of runs are sampled; after the first third
none of them may grow by more than its limit.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from endive.cli.examples import examples_folder
from endive.serve.presets import Presets
from endive.serve.server import serving_in_background
from tests.serve.conftest import Client, shorter, small
from tests.serve.test_page import descendants


@dataclass(frozen=True)
class Sample:
    """Resources of the server and its workers."""

    memory_mb: float
    processes: float
    threads: float
    files: float
    runs: float


_LIMITS = Sample(memory_mb=150.0, processes=1.0, threads=4.0, files=10.0, runs=410.0)
"""How much each may grow; 400 experiments are kept, and numbers of processes change while one is replaced."""


def sample() -> Sample:
    """Sample the resources of this process and its descendants."""
    here = os.getpid()
    processes = [here, *descendants(here)]
    memory = sum(_status(process, "VmRSS") for process in processes) / 1024.0
    threads = _status(here, "Threads")
    folders = Path(tempfile.gettempdir()).glob("endive-live-*")
    runs = sum(path.is_dir() for folder in folders for path in folder.iterdir())
    return Sample(memory, len(processes), threads, len(list(Path(f"/proc/{here}/fd").iterdir())), runs)


def _status(process: int, name: str) -> float:
    try:
        lines = Path(f"/proc/{process}/status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return 0.0
    return next((float(line.split()[1]) for line in lines if line.startswith(f"{name}:")), 0.0)


def ask(client: Client, draw: random.Random) -> None:
    """Ask one question, and read all of the answer, some of it, or nothing."""
    tree = small(workload__ingest__rate=round(draw.uniform(0.5, 6.0), 2), transaction__retry=draw.randint(0, 9))
    body = json.dumps({"tab": draw.choice("ab"), "tree": tree, "changed": "workload.ingest.rate"})
    with client.open("POST", "/api/ask", body) as response:
        lines = draw.choice((0, 1, 2, 2, 3, 1_000))
        for _ in range(lines):
            if not response.readline():
                break


def soak(questions: int, seed: int) -> int:
    """Ask many questions; return the number of resources that grew too much."""
    draw = random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with serving_in_background(Presets(shorter(folder), folder, examples_folder()), folder, workers=2) as (address, _):
            client = Client(address, folder)
            before: Sample | None = None
            for number in range(questions):
                ask(client, draw)
                if number == questions // 3:
                    before = sample()
                if number % 50 == 0:
                    print(number, sample(), file=sys.stderr)
            client.ask(small())
            after = sample()
    assert before is not None
    grown = {key: value - asdict(before)[key] for key, value in asdict(after).items()}
    wrong = [key for key, value in grown.items() if value > asdict(_LIMITS)[key]]
    print(f"{questions} questions, seed {seed}; growth since question {questions // 3}: {grown}; too much: {wrong or 'none'}")
    return len(wrong)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--questions", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    sys.exit(1 if soak(options.questions, options.seed) else 0)
