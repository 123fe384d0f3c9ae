"""What theory says of the configurations of a study: curves to draw behind what was simulated."""

from __future__ import annotations

import pandas as pd

from endive.analysis.theory import NotPredictableError, predict, predicted_load
from endive.config import ConfigError, load_simulation_config
from endive.report.figure import Reference
from endive.report.study import Study
from endive.runs.layout import CONFIG

MOST = 48
"""Predictions of more experiments than this would be waited for."""


def predicted_throughput(study: Study) -> tuple[Reference, ...]:
    """The throughput that the renewal approximation predicts against the offered load, a curve for each configuration.

    Configurations that theory has nothing to say of have none.
    """
    rows = study.totals()
    if study.kind != "sweep" or len(rows) > MOST:
        return ()
    curves = ((series.label, _curve(study, rows[rows["series"] == series.label])) for series in study.drawn)
    only = len(study.drawn) == 1
    return tuple(Reference("theory" if only else f"{label}, theory", curve, label) for label, curve in curves if len(curve) > 1)


def _curve(study: Study, rows: pd.DataFrame) -> pd.DataFrame:
    """The points of a configuration for which there is a prediction, by load."""
    points = []
    for experiment in rows["experiment"]:
        try:
            config = load_simulation_config(study.path / str(experiment) / CONFIG)
            points.append((predicted_load(config), predict(config).throughput_per_s))
        except (ConfigError, NotPredictableError):
            continue
    return pd.DataFrame(sorted(points), columns=["x", "y"])
