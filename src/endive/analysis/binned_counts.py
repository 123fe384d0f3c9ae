"""Count and sum rows by group and time bin, chunk by chunk."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from endive.analysis import Flags, Floats, Ints


def time_places(moments_ms: Floats, edges_ms: Floats) -> Ints:
    """Return the number of the time bin of each time, from 1: 0 before the first edge, and the number of edges after the last edge.

    A time on an edge belongs to the later bin, and a time on the last edge to the last bin.
    """
    if not len(moments_ms):
        return np.zeros(0, np.int64)
    least, most = np.searchsorted(edges_ms, (moments_ms.min(), moments_ms.max()), side="right").tolist()
    if least == most < len(edges_ms):  # rows are ordered by time, so that few edges lie between the times of a chunk
        return np.broadcast_to(np.int64(least), len(moments_ms))
    places = least + np.searchsorted(edges_ms[least:most], moments_ms, side="right")
    return np.asarray(places - (moments_ms == edges_ms[-1]) if most == len(edges_ms) else places)


def count_by(groups: Ints, number: int, chosen: Flags | None = None, weights: npt.NDArray[np.generic] | None = None) -> Floats:
    """Count rows, or sum weights of rows, by group. ``chosen`` selects rows."""
    if weights is not None and weights.strides == (0,):
        return count_by(groups, number, chosen) * float(weights[0]) if len(weights) else np.zeros(number)
    chosen = None if chosen is None or chosen.all() else chosen
    if number == 1:
        if weights is None:
            return np.array([float(len(groups) if chosen is None else np.count_nonzero(chosen))])
        return np.array([float(weights.sum() if chosen is None else weights.sum(where=chosen))])
    if chosen is not None:
        groups = groups[chosen]
        weights = None if weights is None else weights[chosen]
    return np.bincount(groups, weights=weights, minlength=number).astype(np.float64)


class TimeCounts:
    """Number of rows, or sum of their weights, by group and time bin."""

    def __init__(self, groups: int, edges_ms: Floats) -> None:
        self.edges_ms = edges_ms
        self._groups = groups
        self._table = np.zeros((groups, len(edges_ms) + 1))

    def add(self, groups: Ints, places: Ints, weights: npt.NDArray[np.generic] | None = None) -> None:
        """Add rows at the positions that ``time_places`` returned."""
        if not len(places):
            return
        if weights is not None and weights.strides == (0,) and np.issubdtype(weights.dtype, np.integer):
            self._table += self._count(groups, places) * float(weights[0])
        elif weights is None and self._groups == 1 and places.strides == (0,):
            self._table[0, places[0]] += len(places)
        else:
            self._table += self._count(groups, places, weights)

    def _count(self, groups: Ints, places: Ints, weights: npt.NDArray[np.generic] | None = None) -> npt.NDArray[Any]:
        keys = places if self._groups == 1 else groups * self._table.shape[1] + places
        return np.bincount(keys, weights=weights, minlength=self._table.size).reshape(self._table.shape)

    @property
    def bins(self) -> Floats:
        """Number of rows of each group in each time bin."""
        return self._table[:, 1:-1]

    @property
    def earlier(self) -> Floats:
        """Number of rows of each group before each time bin."""
        return np.cumsum(self._table[:, :-2], axis=1)


class CommittingCounts:
    """Mean number of committing transactions by group and time bin.

    A transaction counts from the start of its commit to its end. Each start adds the rest of its bin and all later bins, and each
    end subtracts the same.
    """

    def __init__(self, groups: int, edges_ms: Floats) -> None:
        self.edges_ms = edges_ms
        self.starts, self._ends = TimeCounts(groups, edges_ms), TimeCounts(groups, edges_ms)
        self._rest = TimeCounts(groups, edges_ms)
        self._limits = np.concatenate((edges_ms, [0.0]))

    def add(self, groups: Ints, entry_ms: Floats, end_ms: Floats) -> Ints:
        """Add transactions; return the positions of their starts."""
        for sign, moments, counts in ((1.0, entry_ms, self.starts), (-1.0, end_ms, self._ends)):
            places = time_places(moments, self.edges_ms)
            counts.add(groups, places)
            self._rest.add(groups, places, sign * (self._limits[places] - moments))
            if sign > 0.0:
                entered = places
        return entered

    @property
    def mean(self) -> Floats:
        """Mean number of committing transactions of each group in each time bin."""
        widths = np.diff(self.edges_ms)
        whole = (self.starts.earlier - self._ends.earlier) * widths
        return np.asarray(np.maximum(whole + self._rest.bins, 0.0) / widths)


class NumberCounts:
    """Number of rows by group and by the value of an integer column, from 0."""

    def __init__(self, groups: int) -> None:
        self.table = np.zeros((groups, 1), np.int64)

    def add(self, groups: Ints, numbers: Ints) -> None:
        """Add rows."""
        if not len(numbers):
            return
        rows, columns = self.table.shape
        most = int(numbers.max()) + 1
        if most > columns:
            columns = max(most, 2 * columns)
            self.table = np.concatenate((self.table, np.zeros((rows, columns - self.table.shape[1]), np.int64)), axis=1)
        self.table += np.bincount(groups * columns + numbers, minlength=self.table.size).reshape(self.table.shape)
