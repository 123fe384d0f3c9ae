"""A simulated system, written as a table and imported again, predicts what the system would do (all 20: ``make roundtrip``)."""

from __future__ import annotations

import pytest

from tests.calibrate.roundtrip import DELETE_MANIFESTS, RoundTrip, agrees, round_trip


@pytest.fixture(scope="module", params=[1, 3])
def trip(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> RoundTrip:
    return round_trip(request.param, tmp_path_factory.mktemp("trip"))


def test_rates_are_found(trip: RoundTrip) -> None:
    committed = trip.rows[trip.rows["status"] == "committed"]
    for cls in trip.imported.classes:
        if "periodic" in cls.process.keys:
            continue
        own = committed[committed["workload_class"] == ("ingest" if cls.operation == "fast_append" else "compact")]
        assert cls.process.per_s == pytest.approx(len(own) / 2_400.0, rel=0.05)


def test_intervals_and_phases_of_periodic_classes_are_found(trip: RoundTrip) -> None:
    for name, section in trip.tree["workload"].items():
        if "periodic" not in section:
            continue
        found = next(
            cls
            for cls in trip.imported.classes
            if (cls.operation == "rewrite_files") == (name == "compact") and "periodic" in cls.process.keys
        )
        keys = found.process.keys["periodic"]
        assert keys["interval_ms"] == section["periodic"]["interval_ms"]
        late = (keys["phase_ms"] - section["periodic"]["phase_ms"]) % section["periodic"]["interval_ms"]
        assert late < section["runtime"]["value"] + 1_000.0  # a commit is seen when it is done


def test_the_state_of_the_table_is_found_exactly(trip: RoundTrip) -> None:
    table = trip.imported.tree["table"]
    assert table["manifests"] == trip.manifests
    assert table["delete_manifests"] == DELETE_MANIFESTS
    assert table["snapshots"] == int((trip.rows["status"] == "committed").sum())
    assert trip.imported.tree["transaction"]["commit.retry.num-retries"] == trip.tree["transaction"]["retry"]


def test_predictions_for_another_retry_limit_agree_with_the_truth(trip: RoundTrip) -> None:
    for name, truth in trip.truth.items():
        assert agrees(truth, trip.predicted[name]), (name, truth, trip.predicted[name])
        assert agrees(truth, trip.without_reports[name]), (name, truth, trip.without_reports[name])


def test_without_reports_ranges_are_wider(trip: RoundTrip) -> None:
    for name, answer in trip.without_reports.items():
        known = trip.predicted[name]
        assert answer.p50_ms[1] - answer.p50_ms[0] > known.p50_ms[1] - known.p50_ms[0]
