"""What theory says of the configurations of a study: curves to draw behind what was simulated."""

from __future__ import annotations

import pandas as pd

from endive.analysis.theory import Curve, NotPredictableError
from endive.config import ConfigError, load_document
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
    points, curve = [], Curve()
    for experiment in rows["experiment"]:
        try:
            points.append(curve.point(load_document(study.path / str(experiment) / CONFIG)))
        except (ConfigError, NotPredictableError):
            continue
    return pd.DataFrame(sorted(points), columns=["x", "y"])
