"""What theory says of a configuration, against the simulator."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest

from endive.analysis import theory
from endive.analysis.theory import Curve, NotPredictableError, predict
from endive.config import Document, build_simulation_config
from endive.simulation import Simulation, SimulationConfig
from verification.theory.renewal import configuration, simulated_throughput


def document(**sections: Any) -> SimulationConfig:
    return build_simulation_config(checked(**sections))


def checked(**sections: Any) -> Document:
    tree: dict[str, Any] = {
        "simulation": {"duration_ms": 600_000, "seed": 1},
        "storage": {"provider": "s3x", "profile": "2025-06"},
        "transaction": {"retry": 10, "runtime": {"mean": 5_000, "sigma": 0.5}},
        "workload": {"writers": {"rate": 3.0, "operation": "fast_append"}},
    }
    for name, section in sections.items():
        tree[name] = tree.get(name, {}) | section
    return Document.model_validate(tree)


@pytest.mark.parametrize("latencies", ["exponential", "lognormal"])
@pytest.mark.parametrize("rate", [2.0, 6.0, 18.0])
def test_the_renewal_curve_is_within_three_percent_of_the_simulator(latencies: str, rate: float) -> None:
    config = configuration(latencies, rate, transactions=20_000)
    assert predict(config).throughput_per_s == pytest.approx(simulated_throughput(config), rel=0.03)


def test_icebergs_path_is_predicted_too() -> None:
    config = document(
        transaction={"commit_path": "iceberg"}, table={"metadata_bytes_per_snapshot": 0}
    )  # metadata that does not grow
    rows = Simulation(config).run().to_dataframe()
    done = rows[rows["status"] != "in_flight"]
    found = predict(config)
    assert found.success > 0.99
    assert found.attempts_per_transaction == pytest.approx(1.0 + done["n_retries"].mean(), rel=0.05)


@pytest.mark.parametrize(
    ("sections", "reason"),
    [
        ({"workload": {"writers": {"rate": 1.0, "operation": "merge_append"}}}, "other operations"),
        ({"workload": {"writers": {"closed": {"clients": 2}, "operation": "fast_append"}}}, "Poisson"),
        ({"workload": {"others": {"rate": 1.0, "operation": "fast_append"}}}, "several classes"),
        ({"catalog": {"num_tables": 4, "num_groups": 1}}, "share a pointer"),
        ({"catalog": {"type": "append"}}, "does not swap"),
    ],
)
def test_what_has_no_prediction_says_why(sections: dict[str, Any], reason: str) -> None:
    with pytest.raises(NotPredictableError, match=reason):
        predict(document(**sections))


def test_tables_with_pointers_of_their_own_share_the_load() -> None:
    alone = predict(document(workload={"writers": {"rate": 3.0, "operation": "fast_append"}}))
    shared = predict(
        document(workload={"writers": {"rate": 12.0, "operation": "fast_append"}}, catalog={"num_tables": 4, "num_groups": 4})
    )
    assert shared.throughput_per_s == pytest.approx(4.0 * alone.throughput_per_s, rel=1e-9)


def test_points_of_a_curve_are_those_of_their_configurations_and_drawn_once(monkeypatch: pytest.MonkeyPatch) -> None:
    systems = [
        checked(workload={"writers": {"rate": rate, "operation": "fast_append"}}, storage={"provider": store, "profile": "2025-06"})
        for store in ("s3x", "s3")
        for rate in (1.0, 3.0, 9.0)
    ]
    alone = [predict(build_simulation_config(each)).throughput_per_s for each in systems]
    attempts = Mock(wraps=theory._attempts)
    monkeypatch.setattr(theory, "_attempts", attempts)
    curve = Curve()
    assert [curve.point(each) for each in systems] == list(zip([1.0, 3.0, 9.0] * 2, alone, strict=True))
    assert attempts.call_count == 2, "one for each store"
