"""Compute order statistics of many values in bounded memory.

Values are added in chunks to numbered sets. ``KeptValues`` keeps all values and sorts each set once. ``CountedValues`` counts
values in bins, so that its memory does not depend on the number of values. If the counts do not determine a requested value,
another pass over the same values splits the bin or collects the values in the bin. Both classes return the same results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from endive.analysis import Floats, Ints

Codes = npt.NDArray[np.int64]
Members = tuple[int, ...]
"""Numbers of the sets in a requested union."""

MOST_KEPT = 2_000_000
"""Maximum number of rows whose values are kept in memory, about 40 bytes per row."""
_CELLS = 2**18
"""Number of bins of the first pass."""
_MOST_COLLECTED = 2_000_000
"""Maximum number of values that a pass collects."""
_SPLIT_BITS = 12
"""Binary logarithm of the number of cells into which a further pass divides a bin."""
_LEAST_EXPONENT, _OCTAVES = -10, 44
"""Binary exponents of the values that have bins in the first pass: 1 µs to 200 days."""
_MANTISSA_BITS = 52
_ALL_BUT_SIGN = 2**63 - 1


class Ordered(Protocol):
    """Sorted values that can be read by rank."""

    def __len__(self) -> int:
        """Return the number of values."""
        ...

    def at(self, rank: int) -> float:
        """Return the value with a rank, counted from 0. Return NaN if another pass over the values is needed."""
        ...

    def first_equal(self, rank: int) -> int:
        """Return the lowest rank with the value of this rank."""
        ...

    def up_to(self, limits: Floats) -> Ints:
        """Count the values that do not exceed each limit. ``CountedValues`` accepts only the limits given at its creation."""
        ...


class Values(Protocol):
    """Sets of values."""

    def add(self, sets: Ints, values: Floats) -> None:
        """Add each value to the set with the given number."""
        ...

    def finish_pass(self) -> None:
        """End a pass over the values."""
        ...

    def union(self, members: Members) -> Ordered:
        """Return the union of some sets."""
        ...

    def needs_pass(self) -> bool:
        """Return whether a requested value needs another pass, in which all values have to be added again."""
        ...


@dataclass(frozen=True)
class SortedValues:
    """Values in an array in ascending order."""

    values: Floats

    def __len__(self) -> int:
        """Return the number of values."""
        return len(self.values)

    def at(self, rank: int) -> float:
        """Return the value of a rank."""
        return float(self.values[rank])

    def first_equal(self, rank: int) -> int:
        """Return the lowest rank with the value of this rank."""
        return int(np.searchsorted(self.values, self.values[rank], side="left"))

    def up_to(self, limits: Floats) -> Ints:
        """Count the values that do not exceed each limit."""
        return np.searchsorted(self.values, limits, side="right").astype(np.int64)


class KeptValues:
    """Sets of values that stay in memory."""

    def __init__(self, sets: int) -> None:
        self._sets = sets
        self._number_type = np.uint16 if sets <= 2**16 else np.int32  # 16-bit integers are sorted in linear time
        self._numbers: list[npt.NDArray[np.integer[Any]]] = []
        self._values: list[Floats] = []
        self._sorted: list[Floats] = []
        self._unions: dict[Members, SortedValues] = {}

    def add(self, sets: Ints, values: Floats) -> None:
        """Add each value to the set with the given number."""
        self._values.append(values)
        if self._sets > 1:
            self._numbers.append(sets.astype(self._number_type))

    def finish_pass(self) -> None:
        """Sort each set."""
        numbers = np.concatenate([np.zeros(0, self._number_type), *self._numbers])
        values = np.concatenate([np.zeros(0), *self._values])
        self._numbers, self._values = [], []
        if self._sets > 1:
            values = values[np.argsort(numbers, kind="stable")]
        self._sorted = np.split(values, np.cumsum(np.bincount(numbers, minlength=self._sets))[:-1])
        for each in self._sorted:
            each.sort()

    def union(self, members: Members) -> SortedValues:
        """Return the union of some sets. Each combination of sets is merged only once."""
        if members not in self._unions:
            own = [self._sorted[number] for number in members if len(self._sorted[number])]
            merged = own[0] if len(own) == 1 else np.sort(np.concatenate([np.zeros(0), *own]), kind="stable")
            self._unions[members] = SortedValues(merged)
        return self._unions[members]

    def needs_pass(self) -> bool:
        """Return False: all values are in memory."""
        return False


def _to_codes(values: Floats) -> Codes:
    """Return integers that have the same order as the values."""
    codes = (values + 0.0).view(np.int64)  # turns -0.0 into 0.0
    if len(codes) and codes.min() < 0:
        codes = np.where(codes < 0, codes ^ _ALL_BUT_SIGN, codes)
    return np.asarray(codes)


def _to_value(code: int) -> float:
    return float(np.array([code if code >= 0 else code ^ _ALL_BUT_SIGN], np.int64).view(np.float64)[0])


_BASE = int(_to_codes(np.array([2.0**_LEAST_EXPONENT]))[0])


@dataclass
class _Request:
    """Request for the value with a rank in a union of sets.

    Attributes:
        rank: Rank among the values in the cells.
        below: Number of values of the union below the cells.
        cells: Cells of the members that contain the value; all cover the same range of codes.
    """

    members: Members
    rank: int
    below: int
    cells: Ints


class CountedValues:
    """Sets of values that are counted in bins, so that memory does not depend on the number of values.

    Args:
        sets: Number of sets.
        limits: Values for ``up_to``, in ascending order.
        most_collected: Maximum number of values that a pass collects.
    """

    def __init__(self, sets: int, limits: Floats | None = None, most_collected: int = _MOST_COLLECTED) -> None:
        self._sets = sets
        self._most_collected = most_collected
        self.limits = np.zeros(0) if limits is None else limits
        bits = max(0, min(16, (_CELLS // (sets * _OCTAVES)).bit_length() - 1))
        self._shift = _MANTISSA_BITS - bits
        self._base = _BASE >> self._shift
        self._bins = _OCTAVES << bits
        self.counts = np.zeros((sets, self._bins), np.int64)
        self.limit_counts = np.zeros((sets, len(self.limits) + 1), np.int64)
        self._wanted: dict[tuple[Members, int], None] = {}
        self._open: list[_Request] = []
        self._answers: dict[tuple[Members, int], tuple[float, int]] = {}
        self._unions: dict[Members, CountedUnion] = {}
        self._following: list[npt.NDArray[np.int32]] = []
        """For each level, the cell of the next level that each part became; -1 for parts without requests. Bins are the parts of
        level 0.
        """
        self._levels: list[tuple[Codes, npt.NDArray[np.uint64]]] = []
        """First code of each cell, and binary logarithm of the width of its parts, for each level from 1."""
        self._parts: Ints | None = None
        self._extremes = np.zeros((2, 0), np.int64)
        """Least and greatest code of the values of each cell whose parts are counted."""
        self._collected: list[tuple[npt.NDArray[np.int32], Floats]] | None = None

    def add(self, sets: Ints, values: Floats) -> None:
        """Count values or, after the first pass, count or collect the values in the requested cells."""
        if self._following and not self._open:
            return
        codes = _to_codes(values)
        places = codes >> self._shift
        places -= self._base
        np.clip(places, 0, self._bins - 1, out=places)
        if self._sets > 1:
            places += sets * self._bins
        if not self._following:
            _count(self.counts, places)
            if len(self.limits):
                _count(self.limit_counts, sets * self.limit_counts.shape[1] + np.searchsorted(self.limits, values))
            return
        for level, following in enumerate(self._following):
            cells = following[places]
            chosen = np.flatnonzero(cells >= 0)
            cells, codes, values = cells[chosen], codes[chosen], values[chosen]
            if level < len(self._levels):
                first, shift = self._levels[level]
                beyond = (codes - first[cells]).view(np.uint64)  # unsigned: the outer bins are wider than half of the codes
                places = (cells.astype(np.int64) << _SPLIT_BITS) + (beyond >> shift[cells]).astype(np.int64)
        if self._parts is not None:
            _count(self._parts, places)
            np.minimum.at(self._extremes[0], cells, codes)
            np.maximum.at(self._extremes[1], cells, codes)
        if self._collected is not None:
            self._collected.append((cells, values))

    def finish_pass(self) -> None:
        """Determine the requested values from the collected values, or select smaller cells for the next pass."""
        if self._collected is not None:
            self._answer()
        elif self._parts is not None:
            counts, self._parts = self._parts, None
            left = []
            for request in self._open:
                least, greatest = int(self._extremes[0, request.cells].min()), int(self._extremes[1, request.cells].max())
                if least == greatest:
                    self._answers[request.members, request.below + request.rank] = _to_value(least), request.below
                else:
                    self._narrow([request], counts[request.cells], request.cells << _SPLIT_BITS)
                    left.append(request)
            self._open = left
            self._prepare(counts.reshape(-1), self._range_of_part)

    def union(self, members: Members) -> Ordered:
        """Return the union of some sets."""
        if members not in self._unions:
            self._unions[members] = CountedUnion(self, members)
        return self._unions[members]

    def ask(self, members: Members, rank: int) -> tuple[float, int]:
        """Return the value with a rank, and the lowest rank with this value; NaN if another pass over the values is needed."""
        found = self._answers.get((members, rank))
        if found is None:
            self._wanted[members, rank] = None
            return float("nan"), 0
        return found

    def needs_pass(self) -> bool:
        """Return whether another pass is needed; the first call after the first pass registers the requests."""
        if self._wanted and not self._open:
            by_members: dict[Members, list[_Request]] = {}
            for members, rank in self._wanted:
                by_members.setdefault(members, []).append(_Request(members, rank, 0, np.asarray(members)))
            for members, requests in by_members.items():
                cells = np.asarray(members)
                self._narrow(requests, self.counts[cells], cells * self._bins)
                self._open += requests
            self._following, self._levels = [], []
            self._prepare(self.counts.reshape(-1), self._range_of_bin)
        self._wanted = {}
        return bool(self._open)

    def _narrow(self, requests: Sequence[_Request], counts: Ints, starts: Ints) -> None:
        """Replace the cells of requests, which share their cells, by the parts of the cells that contain the requested ranks."""
        reached = np.cumsum(counts.sum(axis=0))
        for request in requests:
            part = int(np.searchsorted(reached, request.rank, side="right"))
            before = int(reached[part - 1]) if part else 0
            request.rank -= before
            request.below += before
            request.cells = starts[counts[:, part] > 0] + part

    def _prepare(self, counts: Ints, range_of: Callable[[int], tuple[int, int]]) -> None:
        """Make the parts with requests the cells of the next pass, which collects the values in them if there are few."""
        self._collected = None
        if not self._open:
            return
        chosen = np.unique(np.concatenate([request.cells for request in self._open]))
        following = np.full(len(counts), -1, np.int32)
        following[chosen] = np.arange(len(chosen))
        for request in self._open:
            request.cells = following[request.cells].astype(np.int64)
        ranges = [range_of(int(part)) for part in chosen]
        self._following.append(following)
        if int(counts[chosen].sum()) <= self._most_collected:
            self._collected = []
            return
        shifts = [max(0, (last - first).bit_length() - _SPLIT_BITS) for first, last in ranges]
        self._levels.append((np.array([first for first, _ in ranges], np.int64), np.array(shifts, np.uint64)))
        self._parts = np.zeros((len(chosen), 1 << _SPLIT_BITS), np.int64)
        limits = np.iinfo(np.int64)
        self._extremes = np.array([[limits.max], [limits.min]]).repeat(len(chosen), axis=1)

    def _range_of_bin(self, place: int) -> tuple[int, int]:
        """Return the first and last code of a bin; the outer bins contain everything beyond the range."""
        number = place % self._bins
        limits = np.iinfo(np.int64)
        first = limits.min if number == 0 else (self._base + number) << self._shift
        last = limits.max if number == self._bins - 1 else ((self._base + number + 1) << self._shift) - 1
        return first, last

    def _range_of_part(self, place: int) -> tuple[int, int]:
        first, shift = self._levels[-1]
        cell, part = place >> _SPLIT_BITS, place & ((1 << _SPLIT_BITS) - 1)
        width = int(shift[cell])
        start = int(first[cell]) + (part << width)
        return start, start + (1 << width) - 1

    def _answer(self) -> None:
        collected = self._collected or []
        cells = np.concatenate([np.zeros(0, np.int32), *(each for each, _ in collected)])
        if cells.max(initial=0) < 2**16:
            cells = cells.astype(np.uint16)  # 16-bit integers are sorted in linear time
        values = np.concatenate([np.zeros(0), *(each for _, each in collected)])[np.argsort(cells, kind="stable")]
        by_cell = np.split(values, np.cumsum(np.bincount(cells))[:-1])
        merged: dict[bytes, Floats] = {}
        for request in self._open:
            key = request.cells.tobytes()
            if key not in merged:
                merged[key] = np.sort(np.concatenate([by_cell[cell] for cell in request.cells]))
            value = merged[key][request.rank]
            first = request.below + int(np.searchsorted(merged[key], value))
            self._answers[request.members, request.below + request.rank] = float(value), first
        self._open, self._collected = [], None


def _count(counts: Ints, places: Ints) -> None:
    np.add.at(counts.reshape(-1), places, 1)


class CountedUnion:
    """Union of sets of ``CountedValues``."""

    def __init__(self, values: CountedValues, members: Members) -> None:
        self._values, self._members = values, members
        self._size = int(values.counts[list(members)].sum())

    def __len__(self) -> int:
        """Return the number of values."""
        return self._size

    def at(self, rank: int) -> float:
        """Return the value with a rank. Return NaN if another pass over the values is needed."""
        return self._values.ask(self._members, rank)[0]

    def first_equal(self, rank: int) -> int:
        """Return the lowest rank with the value of this rank; 0 if another pass is needed to find it."""
        return self._values.ask(self._members, rank)[1]

    def up_to(self, limits: Floats) -> Ints:
        """Count the values that do not exceed each of the limits."""
        reached = np.cumsum(self._values.limit_counts[list(self._members)].sum(axis=0))
        return np.asarray(reached[np.searchsorted(self._values.limits, limits)])
