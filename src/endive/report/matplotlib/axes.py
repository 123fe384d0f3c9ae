"""Axes of a panel: titles, scales and ticks that people can read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis as MplAxis
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator

from endive.report.figure import Axis
from endive.report.words import number

_SPAN_OF_ROUND_TICKS = 1000.0
"""Up to this ratio a logarithmic axis gets ticks at 1, 2 and 5; beyond, at powers of ten."""


def set_axis(axes: Axes, which: str, axis: Axis, values: Sequence[float], *, exact: bool = False, scaled: bool = False) -> None:
    """Scale and ticks of a numeric axis. ``exact`` puts a tick at each value rather than at round numbers.

    An axis that is ``scaled`` already, as that of a colour bar is, keeps its scale.
    """
    target: MplAxis = axes.xaxis if which == "x" else axes.yaxis
    if axis.scale == "log":
        if not scaled:
            (axes.set_xscale if which == "x" else axes.set_yscale)("log")
        target.set_minor_formatter(NullFormatter())
        target.set_major_formatter(FuncFormatter(_tick))
        if exact:
            _tick_at(target, values)
        else:
            _round_log_ticks(target, values)
    else:
        target.set_major_locator(MaxNLocator(nbins=6, steps=[1, 2, 2.5, 5, 10]))
        target.set_major_formatter(FuncFormatter(_percent if axis.percent else _tick))
        if exact:
            _tick_at(target, values)


def _tick_at(target: MplAxis, values: Sequence[float]) -> None:
    distinct = sorted(set(values))
    if len(distinct) <= 8:
        target.set_major_locator(FixedLocator(distinct))
        target.set_minor_locator(NullLocator())


def _round_log_ticks(target: MplAxis, values: Sequence[float]) -> None:
    positive = [value for value in values if value > 0.0]
    if not positive:
        return
    ratio = max(positive) / min(positive)
    if ratio <= 1.5:
        target.set_major_locator(MaxNLocator(nbins=5, steps=[1, 2, 5, 10]))
        target.set_minor_locator(NullLocator())
    else:
        subs = (1.0, 1.5, 2.0, 3.0, 5.0, 7.0) if ratio <= 10.0 else (1.0, 2.0, 5.0) if ratio <= _SPAN_OF_ROUND_TICKS else (1.0,)
        target.set_major_locator(LogLocator(subs=subs, numticks=12))


def _tick(value: float, _: Any = None) -> str:
    if value == 0.0:
        return "0"
    return number(value) if 1e-3 <= abs(value) < 1e6 else f"{value:.0e}".replace("e-0", "e-").replace("e+0", "e")


def _percent(value: float, _: Any = None) -> str:
    return f"{100.0 * value:.4g}"


def set_categories(axes: Axes, which: str, labels: Sequence[str]) -> None:
    """Ticks of a category axis; long labels are turned."""
    places = np.arange(len(labels))
    if which == "y":
        axes.set_yticks(places, labels)
        return
    longest = max((len(label) for label in labels), default=0)
    turned = longest * len(labels) > 48
    axes.set_xticks(
        places, labels, rotation=30 if turned else 0, ha="right" if turned else "center", rotation_mode="anchor" if turned else None
    )
    axes.grid(visible=False, axis="x")
