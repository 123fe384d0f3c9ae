"""A simulated system, written as a table and imported again, predicts what the system would do (all 20: ``make roundtrip``)."""

from __future__ import annotations

import pytest

from tests.calibrate.roundtrip import RoundTrip, agrees, round_trip, wrong_periods, wrong_rates, wrong_state


@pytest.fixture(scope="module", params=[1, 3])
def trip(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> RoundTrip:
    return round_trip(request.param, tmp_path_factory.mktemp("trip"))


def test_rates_periods_and_the_state_of_the_table_are_found(trip: RoundTrip) -> None:
    assert [*wrong_rates(trip), *wrong_periods(trip), *wrong_state(trip)] == []


def test_predictions_for_another_retry_limit_agree_with_the_truth(trip: RoundTrip) -> None:
    for name, truth in trip.truth.items():
        assert agrees(truth, trip.predicted[name]), (name, truth, trip.predicted[name])
        assert agrees(truth, trip.without_reports[name]), (name, truth, trip.without_reports[name])


def test_without_reports_ranges_are_wider(trip: RoundTrip) -> None:
    for name, answer in trip.without_reports.items():
        known = trip.predicted[name]
        assert answer.p50_ms[1] / answer.p50_ms[0] > known.p50_ms[1] / known.p50_ms[0]
