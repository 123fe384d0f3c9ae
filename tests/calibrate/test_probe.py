"""Probes of a real S3 interface on loopback, a directory and a catalog: medians follow delays, and nothing is left behind."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import boto3
import pytest
from moto.server import ThreadedMotoServer
from typer.testing import CliRunner

from endive.calibrate import InputError
from endive.calibrate.probe import CatalogTarget, Probe, StoreTarget, Target, open_target, run_probe, without_secrets
from endive.main import app
from endive.storage import load_profile
from tests.calibrate.clock import CLOCK, Clock
from tests.calibrate.proxy import proxy
from tests.calibrate.slow_catalog import COMMIT_S, LOAD_S
from tests.cli import assert_fits, narrow_invoke

RUN = CliRunner()
SECRET = "wJalrXUtnFEMI-not-a-real-secret"


@pytest.fixture(scope="module")
def server() -> Iterator[int]:
    moto = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    moto.start()
    _, port = moto.get_host_and_port()
    yield port
    moto.stop()


@pytest.fixture
def s3(server: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    use(monkeypatch, f"http://127.0.0.1:{server}")
    client = boto3.client("s3", endpoint_url=f"http://127.0.0.1:{server}", region_name="us-east-1")
    client.create_bucket(Bucket="mine")
    yield server
    client.close()


def use(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", url)


def objects(port: int) -> list[str]:
    client = boto3.client("s3", endpoint_url=f"http://127.0.0.1:{port}", region_name="us-east-1")
    found = [item["Key"] for item in client.list_objects_v2(Bucket="mine").get("Contents", [])]
    client.close()
    return found


def medians(probe: Probe) -> dict[str, float]:
    names = {each.operation for each in probe.measurements}
    return {name: median(each.latency_ms for each in probe.measurements if each.operation == name) for name in names}


DELAYS_MS = {"read": 300.0, "write": 400.0, "cas": 500.0, "failed_cas": 500.0}


def delay(method: str, headers: dict[str, str]) -> float:
    if method == "PUT":
        return DELAYS_MS["cas" if "if-match" in headers else "write"] / 1e3
    return DELAYS_MS["read"] / 1e3 if method == "GET" else 0.0


class TestS3:
    def test_medians_follow_the_delays_of_a_proxy(self, s3: int, monkeypatch: pytest.MonkeyPatch) -> None:
        clock = Clock()
        with proxy(s3, delay, sleep=clock.sleep) as url:
            use(monkeypatch, url)
            slowed = medians(run_probe(StoreTarget("s3://mine/p", [4096]), 5, 60.0, clock))
        assert slowed == pytest.approx(DELAYS_MS)
        assert objects(s3) == []

    def test_a_profile_is_written_without_credentials(self, s3: int, tmp_path: Path) -> None:
        out = tmp_path / "mine.toml"
        done = narrow_invoke("probe", "s3://mine/x", "-o", str(out), "--count", "6", "--yes")
        assert done.exit_code == 0, done.output
        assert_fits(done.output.splitlines())
        assert load_profile(out).cas is not None
        assert len((tmp_path / "mine.measurements.csv").read_text().splitlines()) == 1 + 6 * 8
        everything = done.output + "".join(path.read_text() for path in tmp_path.iterdir())
        assert SECRET not in everything
        assert "AKIAIOSFODNN7EXAMPLE" not in everything
        assert objects(s3) == []

    def test_nothing_is_written_unasked(self, s3: int, tmp_path: Path) -> None:
        done = RUN.invoke(app, ["probe", "s3://mine/x", "-o", str(tmp_path / "mine.toml")])
        assert done.exit_code == 2
        assert "--yes" in done.output
        assert "it deletes at the end" in done.output
        assert (objects(s3), list(tmp_path.iterdir())) == ([], [])

    def test_a_missing_bucket_is_reported(self, s3: int) -> None:
        with pytest.raises(InputError, match="bucket or container does not exist"):
            run_probe(StoreTarget("s3://nobodys-bucket/x"), 3, 10.0)

    @pytest.mark.parametrize(
        ("status", "code", "hint"),
        [
            (403, "AccessDenied", "no write permission"),
            (400, "ExpiredToken", "have expired"),
            (403, "InvalidAccessKeyId", "credentials were rejected"),
        ],
    )
    def test_refusals_are_one_sentence(self, s3: int, monkeypatch: pytest.MonkeyPatch, status: int, code: str, hint: str) -> None:
        with proxy(s3, refusal=(status, code)) as url:
            use(monkeypatch, url)
            with pytest.raises(InputError, match=hint) as raised:
                run_probe(StoreTarget("s3://mine/x"), 3, 10.0)
        assert "\n" not in str(raised.value)
        assert SECRET not in str(raised.value)
        assert objects(s3) == []

    def test_an_interruption_leaves_nothing(self, s3: int) -> None:
        with pytest.raises(KeyboardInterrupt):
            run_probe(Interrupted("s3://mine/x", [4096]), 10, 60.0)
        assert objects(s3) == []

    def test_expired_credentials_are_reported_with_the_remaining_files(self, s3: int, monkeypatch: pytest.MonkeyPatch) -> None:
        with proxy(s3, refusal=(400, "ExpiredToken"), refused_after=6) as url:
            use(monkeypatch, url)
            with pytest.raises(InputError, match=r"please delete endive-probe-[^ ]+/pointer") as raised:
                run_probe(StoreTarget("s3://mine/x", [4096]), 3, 10.0)
        assert "\n" not in str(raised.value)
        assert SECRET not in str(raised.value)
        left = objects(s3)
        assert left
        assert all(key.removeprefix("x/") in str(raised.value) for key in left)
        client = boto3.client("s3", endpoint_url=f"http://127.0.0.1:{s3}", region_name="us-east-1")
        for key in left:
            client.delete_object(Bucket="mine", Key=key)
        client.close()

    def test_the_command_refuses_in_a_sentence_and_writes_nothing(self, s3: int, tmp_path: Path) -> None:
        done = RUN.invoke(app, ["probe", "s3://nobodys-bucket/x", "-o", str(tmp_path / "mine.toml"), "--yes"])
        assert done.exit_code == 2
        assert "the bucket or container does not exist" in " ".join(done.output.split())
        assert "Traceback" not in done.output
        assert list(tmp_path.iterdir()) == []


class Interrupted(StoreTarget):
    """A store at which Ctrl-C is pressed in the third round."""

    def round(self, probe: Probe) -> None:
        super().round(probe)
        if self._round == 3:
            raise KeyboardInterrupt


class TestDirectory:
    def test_all_requests_are_measured_and_files_removed(self, tmp_path: Path) -> None:
        probe = run_probe(open_target(str(tmp_path)), 5, 60.0)
        counts = {name: sum(each.operation == name for each in probe.measurements) for name in medians(probe)}
        assert counts == {"read": 15, "write": 15, "cas": 5, "failed_cas": 5}
        assert list(tmp_path.iterdir()) == []

    def test_it_ends_in_time(self, tmp_path: Path) -> None:
        probe = run_probe(open_target(str(tmp_path)), 10_000_000, 0.2)
        assert "stopped after 0.2 s" in probe.stopped
        assert list(tmp_path.iterdir()) == []

    def test_an_interruption_leaves_nothing(self, tmp_path: Path) -> None:
        with pytest.raises(KeyboardInterrupt):
            run_probe(Interrupted(str(tmp_path)), 10, 60.0)
        assert list(tmp_path.iterdir()) == []

    def test_ctrl_c_leaves_nothing(self, tmp_path: Path) -> None:
        store = tmp_path / "store"
        store.mkdir()
        command = [sys.executable, "-m", "endive", "probe", str(store), "-o", str(tmp_path / "x.toml"), "--yes"]
        running = subprocess.Popen([*command, "--count", "100000", "--seconds", "120"], stderr=subprocess.PIPE, text=True)
        deadline = time.monotonic() + 300.0
        while not list(store.rglob("*-2")) and time.monotonic() < deadline:
            time.sleep(0.01)
        running.send_signal(signal.SIGINT)
        _, talk = running.communicate(timeout=300)
        assert running.returncode == 130
        assert "Traceback" not in talk
        assert list(store.iterdir()) == []
        assert not (tmp_path / "x.toml").exists()

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
    def test_no_permission_is_one_sentence(self, tmp_path: Path) -> None:
        tmp_path.chmod(0o500)
        with pytest.raises(InputError, match="no write permission"):
            run_probe(open_target(str(tmp_path)), 3, 10.0)

    def test_a_file_is_rejected_as_a_directory(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="no such directory"):
            open_target(str(tmp_path / "none"))


@pytest.fixture
def catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, extra in (("PLAIN", {}), ("SLOW", {"PY_CATALOG_IMPL": "tests.calibrate.slow_catalog.SlowCatalog"})):
        settings = {"URI": f"sqlite:///{tmp_path}/c.db", "WAREHOUSE": f"file://{tmp_path}/w", **extra}
        if not extra:
            settings["TYPE"] = "sql"
        for key, value in settings.items():
            monkeypatch.setenv(f"PYICEBERG_CATALOG__{name}__{key}", value)
    return tmp_path


def left_in(folder: Path) -> tuple[int, list[Path]]:
    """Tables in the catalog, and files in its warehouse."""
    with sqlite3.connect(folder / "c.db") as connection:
        tables = connection.execute("select count(*) from iceberg_tables").fetchone()[0]
    connection.close()
    return tables, [path for path in (folder / "w").rglob("*") if path.is_file()]


class TestCatalog:
    def test_medians_follow_the_delays_and_the_table_is_dropped(self, catalog: Path) -> None:
        slowed = medians(run_probe(CatalogTarget("slow"), 5, 60.0, CLOCK))
        commit_ms = 1e3 * (COMMIT_S + LOAD_S)
        assert slowed == pytest.approx({"read": 1e3 * LOAD_S, "failed_cas": commit_ms, "cas": commit_ms})
        assert left_in(catalog) == (0, [])

    def test_an_interruption_leaves_nothing(self, catalog: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def pressed(probe: Probe) -> None:
            raise KeyboardInterrupt

        target = CatalogTarget("plain")
        monkeypatch.setattr(target, "round", pressed)
        with pytest.raises(KeyboardInterrupt):
            run_probe(target, 3, 60.0)
        assert left_in(catalog) == (0, [])

    def test_the_profile_serves_a_catalog(self, catalog: Path, tmp_path: Path) -> None:
        out = tmp_path / "catalog.toml"
        done = RUN.invoke(app, ["probe", "plain", "-o", str(out), "--count", "5", "--yes", "--json"])
        assert done.exit_code == 0, done.output
        answer = json.loads(done.stdout)
        assert {fit["operation"] for fit in answer["fits"]} == {"read", "cas", "failed_cas"}
        assert "write" in answer["assumed"]
        assert load_profile(out).cas is not None

    def test_a_catalog_that_is_not_configured_is_one_sentence(self) -> None:
        with pytest.raises(InputError, match="catalog 'nobodys'"):
            open_target("nobodys")


class Stubborn(StoreTarget):
    """A store that deletes nothing."""

    def clean(self) -> list[str]:
        return list(self._made)


def test_files_that_could_not_be_removed_are_reported(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="please delete endive-probe-"):
        run_probe(Stubborn(str(tmp_path)), 1, 10.0)


class Failing(Target):
    """A target whose library fails with a secret in its message."""

    name = "it"

    def plan(self, count: int) -> list[str]:
        return []

    def prepare(self) -> None:
        raise RuntimeError(f"could not sign with {os.environ['AWS_SECRET_ACCESS_KEY']}\nDebug source: {{...}}")

    def round(self, probe: Probe) -> None: ...

    def clean(self) -> list[str]:
        return []


def test_errors_contain_no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    with pytest.raises(InputError) as raised:
        run_probe(Failing(), 1, 1.0)
    assert str(raised.value) == "it: the probe failed (RuntimeError: could not sign with ***)"
    assert without_secrets("postgresql://ann:pa55word@host/db?sig=abc") == "postgresql://***@host/db?sig=***"
