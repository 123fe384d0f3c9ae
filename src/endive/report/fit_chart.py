"""Draw the figures of a calibration: measured versus fitted quantiles, and the tail."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import altair as alt
import numpy as np
import pandas as pd
import vl_convert

from endive.calibrate.fit import Fit
from endive.report.style import PALETTE

_MOST_POINTS = 200
_SIZE = 240


def draw_fit(fits: Sequence[Fit]) -> alt.VConcatChart:
    """Draw measured versus fitted quantiles (QQ) and the tail (1 − CDF) of each operation, on log axes."""
    rows = pd.concat([_compare_quantiles(fit) for fit in fits], ignore_index=True)
    operations = alt.Column("operation:N", title=None, sort=[fit.sample.operation for fit in fits])
    log = alt.Scale(type="log", nice=False)
    base = alt.Chart(rows).properties(width=_SIZE, height=_SIZE)
    line = base.mark_line(color="#888888", strokeDash=[4, 3]).encode(
        x=alt.X("fitted_ms:Q", scale=log), y=alt.Y("fitted_ms:Q", scale=log)
    )
    points = base.mark_point(filled=True, size=18, color=PALETTE[0]).encode(
        x=alt.X("fitted_ms:Q", scale=log, title="fitted quantile (ms)"),
        y=alt.Y("measured_ms:Q", scale=log, title="measured quantile (ms)"),
    )
    tails = rows.melt(["operation", "slower"], ["measured_ms", "fitted_ms"], var_name="which", value_name="latency_ms")
    tails["which"] = tails["which"].map({"measured_ms": "measured", "fitted_ms": "fitted"})
    tail = (
        alt.Chart(tails)
        .mark_line()
        .encode(
            x=alt.X("latency_ms:Q", scale=log, title="latency (ms)"),
            y=alt.Y("slower:Q", scale=log, title="fraction of slower requests (1 − CDF)"),
            color=alt.Color("which:N", title=None, scale=alt.Scale(domain=["measured", "fitted"], range=list(PALETTE[:2]))),
            column=operations,
        )
        .properties(width=_SIZE, height=_SIZE)
        .resolve_scale(x="independent")
    )
    quantiles = alt.layer(line, points).facet(column=operations).resolve_scale(x="independent", y="independent")
    return alt.vconcat(quantiles, tail)


def save_fit_chart(fits: Sequence[Fit], path: Path) -> Path:
    """Write the figure as SVG or PNG, depending on the suffix."""
    spec = draw_fit(fits).to_dict()
    if path.suffix == ".svg":
        path.write_text(vl_convert.vegalite_to_svg(spec), encoding="utf-8")
    else:
        path.write_bytes(vl_convert.vegalite_to_png(spec, scale=2))
    return path


def _compare_quantiles(fit: Fit) -> pd.DataFrame:
    ordered = np.sort(fit.at_no_size)
    places = np.unique(np.linspace(0, len(ordered) - 1, _MOST_POINTS).astype(int))
    places = np.unique(np.concatenate([places, np.arange(max(len(ordered) - 30, 0), len(ordered))]))
    p = (places + 0.5) / len(ordered)
    return pd.DataFrame(
        {
            "operation": fit.sample.operation,
            "slower": 1.0 - p,
            "measured_ms": ordered[places],
            "fitted_ms": fit.family.quantile(p),
        }
    )
