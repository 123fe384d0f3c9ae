"""Faults: sweeps killed at any moment, a full disk; afterwards a rerun completes the set, with each run there once."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from endive.output_files import remove_leftovers
from endive.runs.execute import complete_run
from endive.runs.plan import remaining_work
from tests.pipeline.kills import run_until_killed
from tests.pipeline.runs import document, run_all
from tests.pipeline.sweeps import digests, plan_of, problems, sweep_file

KILLS = int(os.environ.get("ENDIVE_KILLS", "3"))
"""How often the driver is killed; ``make soak`` asks for more."""

DRIVER = """
import sys
from pathlib import Path
from endive.runs.execute import complete_run
from endive.runs.plan import remaining_work
from endive.output_files import remove_leftovers
from tests.pipeline.sweeps import plan_of

root = Path(sys.argv[2])
remove_leftovers(root)
for run in remaining_work(plan_of(Path(sys.argv[1])), root).todo:
    outcome = complete_run(run.point.document, run.seed, root, run.point.experiment)
    print(outcome.state, outcome.error, flush=True)
"""
"""A sweep without Spark."""


def start(command: list[str]) -> subprocess.Popen[str]:
    folder = Path(__file__).parents[2]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def finish(path: Path, root: Path) -> None:
    remove_leftovers(root)
    for run in remaining_work(plan_of(path), root).todo:
        assert complete_run(run.point.document, run.seed, root, run.point.experiment).state == "done"


def await_results(process: subprocess.Popen[str], root: Path) -> None:
    """Wait until the first run is finished."""
    deadline = time.monotonic() + 240.0
    while not digests(root) and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.1)
    assert digests(root), "nothing was finished"


def test_a_killed_driver_loses_only_the_current_run(tmp_path: Path) -> None:
    path = sweep_file(tmp_path, seeds=2, duration_ms=1_500.0)
    whole = tmp_path / "whole"
    finish(path, whole)
    root = tmp_path / "killed"
    moments = random.Random(5)
    for _ in range(KILLS):
        run_until_killed(DRIVER, moments.randint(1, 12), path, root)
        assert digests(root).items() <= digests(whole).items()
    finish(path, root)
    assert digests(root) == digests(whole)
    assert not problems(root)
    assert not list(root.rglob("*.tmp")), "what killed drivers left is cleared by the next"


def test_two_sweeps_at_once_over_one_directory_do_no_harm(tmp_path: Path) -> None:
    path = sweep_file(tmp_path, seeds=2, duration_ms=1_500.0)
    alone, shared = tmp_path / "alone", tmp_path / "shared"
    finish(path, alone)
    command = [sys.executable, "-c", DRIVER, str(path), str(shared)]
    with start(command) as one, start(command) as other:
        for process in (one, other):
            assert "failed" not in process.communicate(timeout=300)[0]
            assert process.returncode == 0
    assert digests(shared) == digests(alone)
    assert not problems(shared)


@pytest.mark.slow
def test_the_command_itself_killed_and_run_again_completes_the_set(tmp_path: Path) -> None:
    """With Spark and all: killed while it simulates, then run to the end."""
    path = sweep_file(tmp_path, seeds=12, duration_ms=20_000.0)
    root = tmp_path / "out"
    command = [sys.executable, "-m", "endive", "sweep", str(path), "--out", str(root), "--master", "local[2,4]", "--json"]
    with start(command) as process:
        await_results(process, root)
        os.kill(process.pid, signal.SIGKILL)
    done = digests(root)
    runs = plan_of(path).runs
    assert 0 < len(done) < runs
    with start(command) as again:
        assert '"failed": []' in again.communicate(timeout=400)[0]
        assert again.returncode == 0
    after = digests(root)
    assert len(after) == runs
    assert {name: after[name] for name in done} == done


def test_ctrl_c_stops_cleanly(tmp_path: Path) -> None:
    path = sweep_file(tmp_path, seeds=200, duration_ms=20_000.0)  # far more than is done when the first result is there
    root = tmp_path / "out"
    with start([sys.executable, "-m", "endive", "sweep", str(path), "--out", str(root), "--master", "local[2,4]"]) as process:
        await_results(process, root)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=120)
        assert process.returncode == 130
    assert all("incomplete" in problem or problem.endswith(".tmp") for problem in problems(root))
    assert len(digests(root)) < plan_of(path).runs


def test_a_full_disk_fails_the_runs_and_leaves_nothing_half_written(tmp_path: Path) -> None:
    """With a limit on the size of files, as a full disk: no results, an error for each run, and room makes it work."""
    path = sweep_file(tmp_path, seeds=1, duration_ms=3_000.0)
    root = tmp_path / "out"
    limited = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000)); import signal; "
    limited += "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
    with start([sys.executable, "-c", limited + DRIVER, str(path), str(root)]) as process:
        answer = process.communicate(timeout=300)[0]
    assert answer.count("failed") == 6
    assert "File too large" in answer
    assert not digests(root)
    assert not problems(root) or all("incomplete" in problem for problem in problems(root))
    assert not list(root.rglob("*.tmp"))
    finish(path, root)
    assert len(digests(root)) == 6


INTERRUPTED = """
import sys
from py4j.clientserver import ClientServerConnection
from endive.main import cli
send, sent = ClientServerConnection.send_command, []
def interrupted(self, command):
    sent.append(command)
    if len(sent) == {at}:
        raise KeyboardInterrupt
    return send(self, command)
ClientServerConnection.send_command = interrupted
sys.argv = ["endive", "report", {root!r}, "--master", "local[1]"]
cli()
"""


def test_ctrl_c_while_a_report_measures_is_one_line(tmp_path: Path) -> None:
    """It printed some forty lines of Py4J's traceback; the interruption is made to come in the middle of a command."""
    run_all([document()], tmp_path, range(1))
    code = INTERRUPTED.format(at=60, root=str(tmp_path))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stderr == "error: interrupted; no incomplete files were left\n"
    assert (done.returncode, done.stdout) == (130, "")
