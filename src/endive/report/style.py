"""Colours and marks, the same for every figure: a configuration has one colour, whatever the figure and whoever draws it.

The palette is that of Okabe and Ito (2008), made to be told apart with any colour vision. Marks and dashes tell series apart where
there is no colour at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")
"""Okabe-Ito; its yellow, which is pale on white, comes last."""
MOST_SERIES = len(PALETTE)
"""More curves than this cannot be told apart."""
MARKS = ("o", "s", "^", "D", "v", "P", "X", "*")
"""As matplotlib names them."""
PART_COLOURS = {
    "catalog reads": "#56B4E9",
    "runtime": "#DDDDDD",
    "I/O of attempts": "#009E73",
    "I/O of conflicts": "#D55E00",
    "backoff": "#F0E442",
    "commits": "#0072B2",
}
"""Where time goes: the runtime, which is no overhead, is pale."""
SEQUENTIAL = "cividis"
"""The colour map of heatmaps, in matplotlib and in Vega; it grows evenly in lightness for every colour vision."""


def colours(labels: Sequence[str]) -> dict[str, str]:
    """A colour for each label, by its place."""
    return {name: PALETTE[place % MOST_SERIES] for place, name in enumerate(labels)}


def colours_for(labels: Sequence[str], of_study: Mapping[str, str]) -> dict[str, str]:
    """The colours of the study for its configurations; other labels get the palette in order."""
    if all(name in of_study for name in labels):
        return {name: of_study[name] for name in labels}
    return colours(labels)
