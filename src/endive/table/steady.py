"""Compute the steady state of a table: the manifests and snapshots that remain under merging, rewrites and expiry.

The commit rates determine the steady state. Manifests accumulate between merges, so their number is a saw-tooth function of time. A
table starts at a random time of this cycle. A table with expiry starts with the snapshots that expiry retains. If a number would
grow without bound, the table starts with the number in ``TableModel``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from endive.arithmetic.manifests import ALL_MANIFESTS, NO_SNAPSHOT, merged_size
from endive.randomness import RandomSource
from endive.table.files import TableFiles, TableModel
from endive.table.operations import Traits


@dataclass(frozen=True)
class CommitRate:
    """Rate of commits of one operation to a table.

    ``is_regular`` is True if the intervals between commits are constant. Otherwise the commits are a Poisson process.
    """

    traits: tuple[Traits, ...]
    """Traits of each snapshot of a commit."""
    per_ms: float
    is_regular: bool = False

    @cached_property
    def snapshots(self) -> int:
        """Number of snapshots that a commit creates."""
        return sum(each.kind != NO_SNAPSHOT for each in self.traits)

    @cached_property
    def replaces_all(self) -> bool:
        """True if a commit replaces all manifests of the table."""
        return any(each.hits == ALL_MANIFESTS for each in self.traits)

    def added(self, deletes: bool) -> int:
        """Return the number of data manifests or delete manifests that a commit adds."""
        return self._added[deletes]

    def merges(self, deletes: bool) -> bool:
        """Return whether a commit merges data manifests or delete manifests."""
        return self._merges[deletes]

    @cached_property
    def _added(self) -> tuple[int, int]:
        return sum(each.data for each in self.traits), sum(each.deletes for each in self.traits)

    @cached_property
    def _merges(self) -> tuple[bool, bool]:
        return any(each.merges for each in self.traits), any(each.merges and each.deletes for each in self.traits)


def steady_files(
    model: TableModel,
    commits: Sequence[CommitRate],
    rng: RandomSource,
    *,
    fixed: Collection[str] = (),
    gap_ms: Callable[[int], float] = lambda snapshots: 0.0,
    most_snapshots: float = math.inf,
) -> TableFiles:
    """Return a table in its steady state.

    Args:
        model: Initial numbers of manifests and snapshots.
        commits: Commit rates of the table.
        rng: Source of three uniform random numbers: for data manifests, for delete manifests, and for the time since the last
            expiry.
        fixed: Names among ``manifests``, ``delete_manifests`` and ``snapshots`` that keep their initial numbers.
        gap_ms: Function that returns the minimum time in ms between two commits to a table with this number of snapshots.
        most_snapshots: Number of snapshots at which the catalog rejects further snapshots.
    """
    u_data, u_deletes, u_expiry = rng.random_sample(), rng.random_sample(), rng.random_sample()
    files = TableFiles.initial(model)
    if "manifests" not in fixed:
        data = _manifests(model, commits, u_data, deletes=False)
        files = files if data is None else replace(files, data=data[0], data_bytes=data[1])
    if "delete_manifests" not in fixed:
        deletes = _manifests(model, commits, u_deletes, deletes=True)
        files = files if deletes is None else replace(files, deletes=deletes[0], delete_bytes=deletes[1])
    retained = _retained(commits, u_expiry, gap_ms, most_snapshots)
    if retained is None:
        return files
    snapshots = files.snapshots if "snapshots" in fixed else retained[0]
    return replace(files, snapshots=snapshots, initial_interval_ms=retained[1])


def _manifests(model: TableModel, commits: Sequence[CommitRate], u: float, *, deletes: bool) -> tuple[int, int] | None:
    """Return the number of data or delete manifests and their size in bytes.

    Return None if the number is constant or grows without bound.
    """
    rewrites = [each for each in commits if each.replaces_all]
    added_per_ms = sum(each.per_ms * each.added(deletes) for each in commits if not each.replaces_all)
    merging_per_ms = sum(each.per_ms for each in commits if each.merges(deletes))
    tooth = _tooth(model, added_per_ms / merging_per_ms) if added_per_ms > 0.0 and merging_per_ms > 0.0 else math.inf
    if rewrites:
        added = int(added_per_ms * _age_ms(rewrites, u))
        base, merged = max(each.added(deletes) for each in rewrites), added >= tooth
        count = base + (int(math.fmod(added, tooth)) if merged else added)
    elif tooth < math.inf:
        count, merged = 1 + int(u * tooth), True
    else:
        return None
    oldest = merged_size(model, model.manifest_bytes, 1 + int(tooth)) if merged else model.manifest_bytes
    return count, oldest + (count - 1) * model.manifest_bytes if count else 0


def _tooth(model: TableModel, added_per_merge: float) -> float:
    """Return the number of manifests that commits add between two merges. The number is infinite without merges.

    A merging commit merges if there are ``min_count_to_merge`` manifests, including the new manifest, or if a bin is full.
    """
    per_bin = model.target_bytes // model.manifest_bytes
    if not model.merge_manifests or per_bin < 2:
        return math.inf
    needed = min(model.min_count_to_merge - 1, per_bin)
    return added_per_merge * math.ceil(round(needed / added_per_merge, 9))


def _retained(
    commits: Sequence[CommitRate], u: float, gap_ms: Callable[[int], float], most_snapshots: float
) -> tuple[int, float] | None:
    """Return the number of snapshots that expiry retains, and the interval between them in ms. Return None without expiry."""
    expiries = [each for each in commits if not each.snapshots]
    offered = sum(each.per_ms * each.snapshots for each in commits)
    if not expiries or offered <= 0.0:
        return None
    age_ms = _age_ms(expiries, u)

    def snapshots(per_ms: float) -> int:
        kept = min(max(each.traits[0].min_snapshots, per_ms * each.traits[0].max_age_ms) for each in expiries)
        return int(max(1.0, min(kept + per_ms * age_ms, most_snapshots)))

    per_ms = _sustained(offered, lambda rate: rate * gap_ms(snapshots(rate)) <= 1.0)
    return snapshots(per_ms), 1.0 / per_ms


def _sustained(offered: float, is_possible: Callable[[float], bool]) -> float:
    """Return the commit rate that a table sustains: the offered rate, or the maximum possible rate if it is lower."""
    if is_possible(offered):
        return offered
    low, high = 0.0, offered
    for _ in range(50):
        middle = (low + high) / 2.0
        low, high = (middle, high) if is_possible(middle) else (low, middle)
    return high


def _age_ms(events: Sequence[CommitRate], u: float) -> float:
    """Return the time from the last event to a random time, in ms.

    The time is uniform for regular intervals, and exponential otherwise.
    """
    per_ms = sum(each.per_ms for each in events)
    return (u if all(each.is_regular for each in events) else -math.log1p(-u)) / per_ms
