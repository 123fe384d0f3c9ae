"""``endive run``: results, summary, and files that are whole or not there."""

from __future__ import annotations

import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from xml.etree import ElementTree

import pyarrow.parquet as pq
import pytest

from endive.simulation import RESULT_SCHEMA, TRACE_SCHEMA
from tests.cli import ENDIVE, call, environment, files, invoke, start, strict
from tests.config import BASE

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory of its own with a configuration in it."""
    (tmp_path / "run.toml").write_text(BASE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COLUMNS", raising=False)
    return tmp_path


def only_results(folder: Path) -> Path:
    (found,) = folder.rglob("results.parquet")
    return found


def test_as_a_user_calls_it(here: Path) -> None:
    done = call("run", "run.toml", cwd=here)
    assert (done.returncode, done.stderr) == (0, "")
    lines = [line.rstrip() for line in done.stdout.splitlines()]
    results = only_results(here)
    assert lines[-1] == f"{pq.read_table(results).num_rows} rows in {results.relative_to(here)}"
    for title in (
        "Outcome",
        "Time to commit of all transactions in the window",
        "Commit latency of committed transactions",
        "Commit time breakdown",
        "File accesses",
        "Catalog operations (whole run)",
    ):
        assert title in lines
    assert any(line.startswith("fast_append ") for line in lines)


def test_the_installed_command_is_there(here: Path) -> None:
    command = Path(sys.executable).with_name("endive")
    done = subprocess.run([str(command), "validate", "run.toml"], capture_output=True, text=True, env=environment(), check=True)
    assert done.stdout.startswith("run.toml: valid, experiment ")


def test_a_label_makes_an_experiment_directory(here: Path) -> None:
    result = invoke("run", "run.toml", "--set", "experiment.label=exp", "--json")
    data = strict(result.stdout)
    (experiment,) = (here / "experiments").iterdir()
    assert experiment.name == f"exp-{data['provenance']['experiment_hash']}"
    assert data["results"] == f"experiments/{experiment.name}/7/results.parquet"
    assert files(experiment) == {
        "cfg.toml",
        "version.txt",
        "7/results.parquet",
        "7/summary.json",
        "7/provenance.json",
    }


def test_json_is_the_only_output_on_stdout() -> None:
    result = invoke("run", "run.toml", "--json")
    data = strict(result.stdout)
    assert result.exit_code == 0
    assert set(data) == {"results", "rows", "window", "warnings", "metrics", "cost", "summary", "provenance"}
    assert data["rows"] == pq.read_table(data["results"]).num_rows
    assert data["summary"]["total"]["transactions"] == data["rows"]
    assert result.stderr == ""


def test_options_take_the_place_of_keys(here: Path) -> None:
    result = invoke(
        "run", "run.toml", "--seed", "9", "--engine", "reference", "--out", "there", "--json", "--set", "transaction.retry=3"
    )
    data = strict(result.stdout)
    assert data["results"] == f"there/run-{data['provenance']['experiment_hash']}/9/results.parquet"
    assert data["provenance"]["seed"] == 9
    assert data["provenance"]["engine"] == "reference"
    assert data["provenance"]["parameters"]["transaction"]["retry"] == 3
    assert data["results"] in files(here)


def test_the_written_configuration_repeats_the_run(here: Path) -> None:
    data = strict(invoke("run", "run.toml", "--set", "experiment.label=exp", "--seed", "3", "--json").stdout)
    results = here / data["results"]
    command = data["provenance"]["repeat"].split()
    assert command[:2] == ["endive", "run"]
    written = results.parent.parent / command[2]
    again = strict(invoke("run", str(written), *command[3:], "--out", "again", "--json").stdout)
    assert (here / again["results"]).read_bytes() == results.read_bytes()
    assert again["provenance"]["experiment_hash"] == data["provenance"]["experiment_hash"]


def test_the_last_of_two_settings_counts() -> None:
    result = invoke("validate", "run.toml", "--set", "transaction.retry=2", "--set", "transaction.retry=3", "--json")
    assert strict(result.stdout)["parameters"]["transaction"]["retry"] == 3


def test_classes_are_named_where_there_are_several() -> None:
    Path("several.toml").write_text(BASE + '[workload]\na.rate = 5.0\nb.operation = "read_only"\n')
    several = invoke("run", "several.toml").stdout
    assert "a fast_append" in several
    assert "b read_only" in several
    assert "default" not in several
    assert "default" not in invoke("run", "run.toml").stdout


def test_numbers_are_aligned_in_columns() -> None:
    lines = invoke("run", "run.toml").stdout.splitlines()
    start_of_table = lines.index(next(line for line in lines if line.startswith("Outcome")))
    table = lines[start_of_table + 1 : start_of_table + 6]
    assert len({len(line) for line in table}) == 1
    assert table[0].split("  ")[-1].strip() == "retries/txn"
    assert all(line[-1].isdigit() for line in table[1:])


def test_no_name_is_broken_on_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = invoke("run", "run.toml").stdout.splitlines()
    assert max(len(line) for line in lines if not line.endswith(".")) <= 80
    assert sum("validated_overwrite" in line.split() for line in lines) == 5  # one table is split in two


def test_trace_writes_the_events_of_each_transaction(here: Path) -> None:
    invoke("run", "run.toml", "--trace")
    trace = pq.read_table(only_results(here).with_name("trace.parquet")).to_pandas()
    assert list(trace.columns) == TRACE_SCHEMA.names
    rows = pq.read_table(only_results(here)).to_pandas()
    assert set(trace.txn_id) == set(rows.txn_id)
    first = trace[trace.txn_id == 0]
    assert list(first.event[:3]) == ["submit", "catalog_read", "runtime"]
    assert first.time_ms.iloc[0] == rows[rows.txn_id == 0].t_submit.iloc[0]
    io = trace[trace.event == "io"].groupby("kind")["count"].sum()
    assert io["manifest_list_reads"] == rows.manifest_list_reads.sum()
    assert io["manifest_file_writes"] == rows.manifest_file_writes.sum()


def test_a_run_without_arrivals(here: Path) -> None:
    result = invoke("run", "run.toml", "--set", "simulation.duration_ms=0.001", "--json")
    data = strict(result.stdout)
    assert (result.exit_code, data["rows"]) == (0, 0)
    assert pq.read_schema(only_results(here)).equals(RESULT_SCHEMA)
    shown = invoke("run", "run.toml", "--set", "simulation.duration_ms=0.001")
    assert (shown.exit_code, shown.stdout.splitlines()[-1]) == (0, f"0 rows in {data['results']}")


def test_ctrl_c_leaves_no_files(here: Path) -> None:
    """A real process that gets a real signal while it simulates."""
    arguments = ["--set", "simulation.duration_ms=1e12", "--out", "out", "--trace", "--json"]
    process = start("run", "run.toml", *arguments, cwd=here)
    try:
        for _ in range(6_000):
            if len(files(here / "out")) == 2:
                break
            assert process.poll() is None
            time.sleep(0.05)
        assert all(name.endswith(".tmp") for name in files(here / "out"))
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=300)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130
    assert stderr == "error: interrupted; no incomplete files were left\n"
    assert files(here / "out") == set()
    assert strict(stdout) == {"errors": [{"message": "interrupted"}]}


def test_a_full_disk_leaves_no_files(here: Path) -> None:
    """A limit on the size of files has the effect of a full disk."""
    done = call("run", "run.toml", "--out", "out", "--trace", cwd=here, file_limit_bytes=4096)
    assert done.returncode == 1
    assert re.fullmatch(r"error: out/run-[0-9a-f]+/7/results.parquet: File too large\n", done.stderr)
    assert done.stdout == ""
    assert not list((here / "out").rglob("*.parquet"))
    assert not any(file.endswith(".tmp") for file in files(here / "out"))


def test_a_disk_that_is_really_full(here: Path) -> None:
    """A small file system of its own, in a mount namespace that ends with the process."""
    script = 'mount -t tmpfs -o size=16k tmpfs "$0" && { "$@"; code=$?; ls -AR "$0" | sed "s/^/left: /"; exit $code; }'
    (here / "out").mkdir()
    if shutil.which("unshare") is None or shutil.which("mount") is None:
        pytest.skip("no mount namespaces here")
    namespace = ["unshare", "--mount", "sh", "-c"]
    if subprocess.run([*namespace, script, str(here / "out"), "true"], capture_output=True).returncode != 0:
        pytest.skip("may not mount a file system here")
    command = [*ENDIVE, "run", "run.toml", "--out", "out", "--set", "simulation.duration_ms=6000"]
    done = subprocess.run(
        [*namespace, script, str(here / "out"), *command], cwd=here, capture_output=True, text=True, env=environment(), timeout=300
    )
    assert done.returncode == 1
    assert re.fullmatch(r"error: out\S*: No space left on device\n", done.stderr)
    left = {line.removeprefix("left: ") for line in done.stdout.splitlines()}
    assert "results.parquet" not in left
    assert not any(name.endswith(".tmp") for name in left)


def test_runs_with_other_seeds_or_settings_have_their_own_directories(here: Path) -> None:
    for arguments in ([], ["--seed", "8"], ["--set", "transaction.retry=3"]):
        assert invoke("run", "run.toml", *arguments).exit_code == 0
    assert len(list((here / "experiments").rglob("results.parquet"))) == 3


def test_an_output_path_of_the_file_is_not_replaced_silently(here: Path) -> None:
    command = ("run", "run.toml", "--set", "simulation.output_path=mine.parquet")
    assert invoke(*command).exit_code == 0
    before = (here / "mine.parquet").read_bytes()
    refused = invoke(*command, "--seed", "8")
    assert (refused.exit_code, refused.stderr) == (2, "error: mine.parquet already exists; use --force to replace it\n")
    assert (here / "mine.parquet").read_bytes() == before
    assert invoke(*command, "--seed", "8", "--force").exit_code == 0
    assert (here / "mine.parquet").read_bytes() != before


@pytest.mark.parametrize(
    ("condition", "code", "verdict"),
    [
        ("success < 1%", 0, r"PASS: success is [\d.]+% \([\d.–]+%\), not below 1%\."),
        ("success(default) <= 100%", 3, r"FAIL: success\(default\) is [\d.]+% \([\d.–]+%\), at or below 100%\..*"),
        ("p99 > 1ms", 3, r"FAIL: p99 is .+, above 1ms\."),
    ],
)
def test_a_condition_decides_the_exit_code(condition: str, code: int, verdict: str) -> None:
    result = invoke("run", "run.toml", "--fail-if", condition)
    assert result.exit_code == code
    assert re.fullmatch(verdict, result.stdout.splitlines()[-1])
    data = strict(invoke("run", "run.toml", "--fail-if", condition, "--json").stdout)
    assert [each["holds"] for each in data["conditions"]] == [code == 3]


def test_conditions_have_the_interval_of_one_run(here: Path) -> None:
    result = invoke("run", "run.toml", "--fail-if", "success < 1%", "--fail-if", "throughput < 0.001/s")
    share, rate = result.stdout.splitlines()[-2:]
    assert re.fullmatch(r"PASS: success is 90% \([\d.]+–[\d.]+%\), not below 1%\.", share)
    assert re.fullmatch(r"PASS: throughput is [\d.]+/s \(one seed: no interval\), not below 0.001/s\.", rate)


def test_conditions_are_judged_over_seeds(here: Path) -> None:
    command = ("run", "run.toml", "--seeds", "3", "--fail-if", "throughput < 0.001/s", "--json")
    (found,) = strict(invoke(*command).stdout)["conditions"]
    assert found["low"] < found["value"] < found["high"]
    assert {path.parent.name for path in here.rglob("results.parquet")} == {"0", "1", "2"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--seeds", "3"), "--seeds needs a condition (--fail-if)"),
        (("--seeds", "3", "--seed", "1", "--fail-if", "success < 1%"), "--seeds cannot be combined with --seed"),
        (("--junit", "out.xml"), "--junit needs a condition (--fail-if)"),
    ],
)
def test_options_of_conditions_need_a_condition(arguments: tuple[str, ...], message: str, here: Path) -> None:
    result = invoke("run", "run.toml", *arguments)
    assert (result.exit_code, message in result.stderr) == (2, True)
    assert not (here / "experiments").exists()


def test_conditions_are_written_as_junit(here: Path) -> None:
    command = ("run", "run.toml", "--fail-if", "success < 1%", "--fail-if", "p99 > 1ms", "--junit", "ci/out.xml")
    lines = invoke(*command).stdout.splitlines()
    (suite,) = ElementTree.parse(here / "ci/out.xml").getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    passed, failed = suite
    assert (passed.get("name"), failed.get("name")) == ("fail if success < 1%", "fail if p99 > 1ms")
    assert (passed.find("failure"), passed.findtext("system-out")) == (None, lines[-2])
    assert failed.find("failure").get("message") == lines[-1]  # type: ignore[union-attr]


def test_the_workflow_of_the_guide_calls_the_command_as_it_is(here: Path) -> None:
    workflow = (ROOT / "docs/guides/endive_check.yml").read_text()
    (call,) = re.findall(r"run: >-\n((?: {10}.*\n)+)", workflow)
    _, *arguments = shlex.split(call.replace("lakehouse/table.toml", "run.toml").replace("(ingest)", ""))
    assert invoke(*arguments).exit_code in (0, 3)
    assert (here / "endive.xml").is_file()
    assert all(name in workflow for name in ("endive.xml", "experiments/", "if: always()"))


def test_a_condition_on_no_class_is_refused_before_the_run(here: Path) -> None:
    result = invoke("run", "run.toml", "--fail-if", "success(nothing) < 1%")
    assert result.exit_code == 2
    assert "unknown class 'nothing'" in result.stderr
    assert not (here / "experiments").exists()
