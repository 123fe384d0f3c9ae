"""Send many requests to the live page, and check that no resource grows: ``python -m tests.serve.soak --questions 500``.

Requests follow each other as from a moved slider: some run to the end, most are superseded by the next one, some clients
disconnect. With ``--minutes``, a page also stays open in a browser and is changed continuously. Memory, processes, threads, open
files and runs of the server and its workers are sampled, and memory and nodes of the page. After the first third, none of them may
grow by more than its limit.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from playwright.sync_api import CDPSession, sync_playwright
from playwright.sync_api import TimeoutError as OutOfReach

from endive.cli.examples import examples_folder
from endive.serve.page_configuration import Presets
from endive.serve.server import serving_in_background
from tests.cli import start
from tests.report.test_browser import CHROMIUM, FLAGS
from tests.serve.conftest import Client, shorter, small
from tests.serve.random_settings import PATIENCE_MS, Visit, change_something, check
from tests.serve.test_page import descendants

Sample = Mapping[str, float]
_LIMITS = {"memory_mib": 150.0, "processes": 1.0, "threads": 4.0, "files": 10.0, "runs": 410.0, "heap_mib": 10.0, "nodes": 20_000.0}
"""Maximum growth of each resource; 400 experiments are cached, and numbers of processes vary while one is replaced."""
_REACHABLE_MS = 10_000
_SAMPLES = 60


def sample_server(server: int) -> Sample:
    """Sample the resources of a server and its workers."""
    processes = [server, *descendants(server)]
    folders = Path(tempfile.gettempdir()).glob("endive-live-*")
    return {
        "memory_mib": sum(_status(process, "VmRSS") for process in processes) / 1024.0,
        "processes": len(processes),
        "threads": _status(server, "Threads"),
        "files": len(list(Path(f"/proc/{server}/fd").iterdir())),
        "runs": sum(path.is_dir() for folder in folders for path in folder.iterdir()),
    }


def sample_page(session: CDPSession) -> Sample:
    """Sample the memory and the nodes of a page after garbage collection."""
    session.send("HeapProfiler.collectGarbage")
    found = {each["name"]: each["value"] for each in session.send("Performance.getMetrics")["metrics"]}
    return {"heap_mib": found["JSHeapUsedSize"] / 2**20, "nodes": found["Nodes"]}


def _status(process: int, name: str) -> float:
    try:
        lines = Path(f"/proc/{process}/status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return 0.0
    return next((float(line.split()[1]) for line in lines if line.startswith(f"{name}:")), 0.0)


def ask(client: Client, draw: random.Random) -> None:
    """Send one request, and read all, a part, or nothing of the response."""
    tree = small(workload__ingest__rate=round(draw.uniform(0.5, 6.0), 2), transaction__retry=draw.randint(0, 9))
    body = json.dumps({"tab": draw.choice("ab"), "tree": tree, "changed": "workload.ingest.rate"})
    with client.open("POST", "/api/ask", body) as response:
        lines = draw.choice((0, 1, 2, 2, 3, 1_000))
        for _ in range(lines):
            if not response.readline():
                break


def soak_requests(questions: int, seed: int) -> list[str]:
    """Send many requests; return the resources that grew too much."""
    draw = random.Random(seed)
    samples = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with serving_in_background(Presets(shorter(folder), folder, examples_folder()), folder, workers=2) as (address, _):
            client = Client(address, folder)
            for number in range(questions):
                ask(client, draw)
                if number % max(1, questions // _SAMPLES) == 0:
                    samples.append(sample_server(os.getpid()))
            client.ask(small())
            samples.append(sample_server(os.getpid()))
    return judge(f"{questions} questions", samples)


def soak_page(minutes: float, seed: int) -> list[str]:
    """Change a page in a browser for some minutes; return the resources that grew too much."""
    draw = random.Random(seed)
    samples: list[Sample] = []
    changes = 0
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        folder = Path(name)
        process = start("serve", str(shorter(folder)), "--no-open", "--workers", "2", cwd=folder)
        try:
            assert process.stdout is not None
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
            visit = Visit(browser.new_page()).open(process.stdout.readline().split()[-1])
            session = visit.page.context.new_cdp_session(visit.page)
            session.send("Performance.enable")
            begun = time.monotonic()
            while (elapsed := time.monotonic() - begun) < minutes * 60.0:
                if elapsed >= len(samples) * minutes * 60.0 / _SAMPLES:
                    samples.append({**sample_server(process.pid), **sample_page(session)})
                    print(f"{elapsed:.0f} s, {changes} changes: {_text(samples[-1])}", file=sys.stderr)
                visit.page.set_default_timeout(_REACHABLE_MS)
                with suppress(OutOfReach):  # the form was replaced between selection and click
                    change_something(visit, draw)
                visit.page.set_default_timeout(PATIENCE_MS)
                changes += 1
                if draw.random() < 0.5:  # the others are superseded during simulation
                    visit.record()
                    check(visit)
            visit.answered()
            check(visit)
            samples.append({**sample_server(process.pid), **sample_page(session)})
            browser.close()
        finally:
            process.terminate()
            process.communicate()
    return judge(f"{minutes:g} minutes, {changes} changes", samples)


def judge(what: str, samples: Sequence[Sample]) -> list[str]:
    """Compare the medians of the second and last third of the samples; return the resources that grew too much."""
    third = max(1, len(samples) // 3)
    before, after = (
        {key: statistics.median(each[key] for each in part) for key in samples[0]}
        for part in (samples[third : 2 * third] or samples, samples[-third:])
    )
    wrong = [key for key in before if after[key] - before[key] > _LIMITS[key]]
    print(f"{what}: {_text(before)} before, {_text(after)} after; too much growth: {', '.join(wrong) or 'none'}")
    return wrong


def _text(sample: Sample) -> str:
    return ", ".join(f"{key} {value:.4g}" for key, value in sample.items())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--questions", type=int, default=500)
    parser.add_argument("--minutes", type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    grown = soak_requests(options.questions, options.seed) if options.questions else []
    grown += soak_page(options.minutes, options.seed) if options.minutes else []
    sys.exit(1 if grown else 0)
