"""A probe of PyIceberg's catalog on a real PostgreSQL server, behind a proxy that holds up what is sent to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.engine import make_url

from endive.calibrate import InputError
from endive.calibrate.probe import CatalogTarget, Probe, run_probe
from tests.calibrate.clock import Clock
from tests.calibrate.proxy import Wire, tcp_proxy
from verification.iceberg.postgres import NoPostgresError, postgres_binaries, postgres_server

DELAY_S = 0.1
ROUNDS = 3


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    try:
        postgres_binaries()
    except NoPostgresError as missing:
        pytest.skip(str(missing))
    with postgres_server() as uri:
        yield uri


@pytest.fixture
def configure(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Make the catalog `pg` of PyIceberg's configuration one on the server, through a port; 0 is its own."""

    def use(port: int, password: str | None = None) -> None:
        url = make_url(server)
        uri = url.set(port=port or url.port, password=password or url.password).render_as_string(hide_password=False)
        for key, value in {"TYPE": "sql", "URI": uri, "WAREHOUSE": tmp_path.as_uri()}.items():
            monkeypatch.setenv(f"PYICEBERG_CATALOG__PG__{key}", value)

    use(0)
    return use


class CountedProbe(Probe):
    """Also notes how many messages the proxy held up for each request."""

    def __init__(self, wire: Wire, clock: Clock) -> None:
        super().__init__(clock=clock)
        self._wire = wire
        self.held_up: dict[str, list[int]] = {}

    def time_request(self, operation: str, size_bytes: int, request: Callable[[], Any]) -> Any:
        before = self._wire.held_up
        answer = super().time_request(operation, size_bytes, request)
        self.held_up.setdefault(operation, []).append(self._wire.held_up - before)
        return answer


def medians(probe: Probe) -> dict[str, float]:
    return {sample.operation: float(median(sample.latencies_ms)) for sample in probe.samples()}


def tables(server: str) -> int:
    engine = create_engine(server)
    with engine.connect() as connection:
        count = connection.execute(text("SELECT count(*) FROM iceberg_tables")).scalar()
    engine.dispose()
    return int(count or 0)


def test_medians_follow_the_delays_of_a_proxy(server: str, configure: Callable[..., None]) -> None:
    clock = Clock()
    with tcp_proxy(make_url(server).port or 0, DELAY_S, clock.sleep) as wire:
        configure(wire.port)
        target, probe = CatalogTarget("pg"), CountedProbe(wire, clock)
        target.prepare()
        for _ in range(ROUNDS):
            target.round(probe)
        assert target.clean() == []
    found = medians(probe)
    assert set(found) == {"read", "cas", "failed_cas"}
    for operation, counts in probe.held_up.items():
        assert median(counts) > 0
        assert found[operation] == pytest.approx(1e3 * DELAY_S * median(counts), rel=0.1), operation
    assert tables(server) == 0


@pytest.mark.parametrize(("port", "hint"), [(1, "no response from the endpoint"), (0, "credentials were rejected")])
def test_a_server_that_does_not_let_one_in_is_one_sentence(
    server: str, configure: Callable[..., None], port: int, hint: str
) -> None:
    configure(port, "another-pa55word")
    with pytest.raises(InputError, match=hint) as raised:
        run_probe(CatalogTarget("pg"), 1, 10.0)
    assert "\n" not in str(raised.value)
    assert "pa55word" not in str(raised.value)
