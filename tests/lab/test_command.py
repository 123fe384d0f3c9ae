"""``endive lab``: a command in the lab, its exit code, and the end of both."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from endive.calibrate.measurements import read_reports
from tests.cli import invoke
from tests.lab.labs import PATIENCE_S

JOB = """
    import os, sys
    import pyarrow as pa
    from pyiceberg.catalog import load_catalog

    catalog = load_catalog("lab")
    catalog.create_namespace_if_not_exists("db")
    rows = pa.table({"id": [1, 2, 3]})
    table = catalog.create_table_if_not_exists("db.events", rows.schema, properties={"commit.retry.min-wait-ms": "1"})
    stale = load_catalog("lab").load_table("db.events")
    for _ in range(2):
        table.append(rows)
    stale.append(rows)
    print("rows", table.refresh().scan().to_arrow().num_rows)
    sys.exit(7)
"""


def script(folder: Path, text: str) -> list[str]:
    path = folder / "job.py"
    path.write_text(textwrap.dedent(text))
    return [sys.executable, str(path)]


def lab(folder: Path, *words: str, command: list[str], timeout: float = PATIENCE_S) -> subprocess.CompletedProcess[str]:
    """Run ``endive lab`` in a process of its own."""
    call = [sys.executable, "-m", "endive", "lab", *words, "-o", str(folder / "lab"), "--", *command]
    return subprocess.run(call, capture_output=True, text=True, timeout=timeout, cwd=folder, check=False)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[subprocess.CompletedProcess[str], Path]:
    folder = tmp_path_factory.mktemp("lab")
    return lab(folder, "--json", command=script(folder, JOB)), folder / "lab"


def test_a_command_without_requests_is_reported(tmp_path: Path) -> None:
    done = lab(tmp_path, command=["true"])
    assert "The lab received no requests from clients." in done.stdout
    assert "Requests\n" not in done.stdout


class TestCommand:
    def test_the_exit_code_is_that_of_the_command(self, finished: tuple[subprocess.CompletedProcess[str], Path]) -> None:
        done, _ = finished
        assert (done.returncode, json.loads(done.stdout)["exit_code"]) == (7, 7)
        assert "rows 9" in done.stderr

    def test_the_result_contains_conflicts_and_attempts(self, finished: tuple[subprocess.CompletedProcess[str], Path]) -> None:
        commits = json.loads(finished[0].stdout)["commits"]
        assert [(each["attempts"], each["conflicts"], each["is_committed"]) for each in commits] == [
            *((1, 0, True), (1, 0, True)),
            (2, 1, True),
        ]
        for each in commits:
            parts = each["metadata_ms"] + each["commit_ms"] + each["other_ms"]
            assert parts == pytest.approx(each["duration_ms"], rel=0.01)

    def test_every_request_is_recorded(self, finished: tuple[subprocess.CompletedProcess[str], Path]) -> None:
        rows = pq.read_table(finished[1] / "requests.parquet").to_pandas()
        commits = rows[(rows["service"] == "catalog") & (rows["operation"] == "commit")]
        assert list(commits["status"]) == [200, 200, 409, 200]
        assert list(commits["version"]) == [1, 2, 0, 3]
        assert (rows["end_ms"] >= rows["time_ms"]).all()
        written = rows[rows["operation"] == "UploadPart"]
        assert (written["size_bytes"] > 0).all()

    def test_reports_can_be_imported(self, finished: tuple[subprocess.CompletedProcess[str], Path]) -> None:
        reports = read_reports(finished[1] / "reports.jsonl")
        assert [(report.operation, report.attempts) for report in reports] == [("append", 1), ("append", 1), ("append", 2)]
        assert all(report.duration_ms > 0.0 for report in reports)

    def test_a_command_that_a_signal_ends(self, tmp_path: Path) -> None:
        killed = script(tmp_path, "import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
        assert invoke("lab", "-o", str(tmp_path / "lab"), "--", *killed).exit_code == 128 + signal.SIGKILL

    def test_a_command_that_does_not_exist(self, tmp_path: Path) -> None:
        done = invoke("lab", "-o", str(tmp_path / "lab"), "--", "./no-such-program")
        assert done.exit_code == 2
        assert "cannot be started: No such file or directory" in done.stderr


class TestEnd:
    def test_ctrl_c_without_a_command(self, tmp_path: Path) -> None:
        call = [sys.executable, "-m", "endive", "lab", "-o", str(tmp_path / "lab")]
        running = subprocess.Popen(call, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert running.stdout is not None
        lines = [running.stdout.readline() for _ in range(5)]
        assert any(line.startswith("export AWS_ENDPOINT_URL=http://127.0.0.1:") for line in lines)
        running.send_signal(signal.SIGINT)
        _, errors = running.communicate(timeout=PATIENCE_S)
        assert (running.returncode, "Traceback" in errors) == (0, False)
        assert (tmp_path / "lab" / "requests.parquet").is_file()

    @pytest.mark.parametrize("shell", [False, True])
    def test_the_command_ends_with_the_lab(self, tmp_path: Path, shell: bool) -> None:
        """Also what the command has started: a shell that runs the job left it behind."""
        command = script(tmp_path, "import os, time; open('pid', 'w').write(str(os.getpid())); time.sleep(60)")
        if shell:
            command = ["sh", "-c", f"{shlex.join(command)}; true"]
        call = [sys.executable, "-m", "endive", "lab", "-o", str(tmp_path / "lab"), "--", *command]
        running = subprocess.Popen(call, stderr=subprocess.PIPE, cwd=tmp_path)
        file = tmp_path / "pid"
        for _ in range(2_400):
            if file.exists() and file.read_text():
                break
            time.sleep(0.05)
        running.terminate()
        running.communicate(timeout=PATIENCE_S)
        status = Path("/proc", file.read_text(), "stat")
        assert not status.exists() or ") Z " in status.read_text()


class TestRivals:
    PRODUCTION = """
        [simulation]
        duration_ms = 60_000
        [storage]
        provider = "instant"
        [catalog]
        type = "service"
        [transaction]
        commit_path = "iceberg"
        [workload.job]
        rate = 0.1
        [workload.other]
        rate = 20.0
    """

    def run(self, folder: Path, job: str, *words: str) -> subprocess.CompletedProcess[str]:
        (folder / "production.toml").write_text(textwrap.dedent(self.PRODUCTION))
        rivals = ("production.toml", "--rivals", "--job", "job", "--table", "db.events", *words)
        return lab(folder, *rivals, command=script(folder, job))

    def test_that_never_start_are_reported(self, tmp_path: Path) -> None:
        done = self.run(tmp_path, "pass")
        assert "Concurrent writers committed no snapshots: db.events was not created." in done.stdout


class TestErrors:
    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (("--",), "needs a COMMAND"),
            (("--rivals", "--", "true"), "--rivals needs a FILE"),
            (("--table", "db.t", "--", "true"), "has no effect without --rivals"),
            (("--set", "a=1", "--", "true"), "needs a FILE"),
            (("missing.toml", "--", "true"), "missing.toml"),
        ],
    )
    def test_are_explained(self, words: tuple[str, ...], message: str) -> None:
        done = invoke("lab", *words)
        assert done.exit_code == 2
        assert message in done.stderr

    def test_the_recording_can_be_written_before_the_command_runs(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        done = invoke("lab", "-o", str(tmp_path / "file" / "lab"), "--", "touch", str(tmp_path / "ran"))
        assert done.exit_code != 0
        assert not (tmp_path / "ran").exists()

    def test_the_help_shows_the_command(self) -> None:
        assert "[-- COMMAND...]" in invoke("lab", "--help").stdout
