"""Theory behind simulated points, where it has something to say."""

from __future__ import annotations

from pathlib import Path

import pytest

from endive.report.figures.line_charts import IDEAL, build_throughput_load
from tests.pipeline.runs import document, run_all
from tests.report.studies import measured, mixed_sweep

RATES = (0.5, 1.0, 2.0)


@pytest.fixture(scope="module")
def appends(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("appends")
    writers = {"writers": {"rate": 1.0, "operation": "fast_append"}}
    points = [document("appends", catalog__num_tables=1, workload=writers, workload__writers__rate=rate) for rate in RATES]
    run_all(points, root, range(2))
    return root


def test_the_curve_of_theory_is_drawn_and_named(appends: Path) -> None:
    figure = build_throughput_load(measured(appends))
    everything, theory = figure.references
    assert everything.label == IDEAL
    assert theory.label == "theory"
    assert list(theory.data["x"]) == list(RATES)
    assert (theory.data["y"] <= theory.data["x"]).all()
    assert (theory.data["y"] > 0.8 * theory.data["x"]).all()
    assert "Lines labelled theory" in figure.definition


def test_no_theory_is_drawn_without_a_prediction(tmp_path: Path) -> None:
    figure = build_throughput_load(measured(mixed_sweep(tmp_path)))
    assert [reference.label for reference in figure.references] == [IDEAL]
    assert "theory" not in figure.definition
