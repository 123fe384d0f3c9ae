"""Transaction by transaction: what became of the same transactions in A and in B."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from endive.analysis.arrays import Flags, Floats, Ints
from endive.analysis.cohort import Transactions
from endive.analysis.windows import Window


@dataclass(frozen=True)
class Submitted:
    """The transactions of one class of one run, in the order of their submission, and when that was."""

    submit_ms: Floats
    transactions: Transactions

    @classmethod
    def in_order(cls, txn_id: Ints, submit_ms: Floats, transactions: Transactions) -> Submitted:
        """From rows in any order."""
        order = np.argsort(txn_id, kind="stable")
        return cls(submit_ms[order], transactions.take(order))


@dataclass(frozen=True)
class Pairs:
    """Pairs of the same transaction that entered in the window on both sides.

    ``faster_b`` and ``slower_b`` count those that both committed, in different times. ``unfinished`` pairs are still committing on
    a side and might yet become something else.
    """

    pairs: int = 0
    both: int = 0
    faster_b: int = 0
    slower_b: int = 0
    only_a: int = 0
    only_b: int = 0
    neither: int = 0
    unfinished: int = 0

    def __add__(self, other: Pairs) -> Pairs:
        """Both together."""
        return Pairs(*(mine + theirs for mine, theirs in zip(vars(self).values(), vars(other).values(), strict=True)))


def pair_run(a: Mapping[str, Submitted], b: Mapping[str, Submitted], window: Window) -> dict[str, Pairs | None]:
    """Pairs by class of a run of A and one of B under the same seed; None of a class that cannot be paired."""
    return {name: pair_class(a[name], b[name], window) for name in sorted(set(a) & set(b))}


def pair_class(a: Submitted, b: Submitted, window: Window) -> Pairs | None:
    """Pairs of one class; None if its n-th transactions are not the same on both sides: submitted at the same moment.

    Clients of a closed class submit when their last transaction ends, so theirs are not.
    """
    n = min(len(a.submit_ms), len(b.submit_ms))
    if not np.array_equal(a.submit_ms[:n], b.submit_ms[:n]):
        return None
    first, second = a.transactions.take(np.arange(n)), b.transactions.take(np.arange(n))
    return _count(first, second, first.cohort(window) & second.cohort(window))


def _count(a: Transactions, b: Transactions, inside: Flags) -> Pairs:
    both = inside & a.committed & b.committed
    gain = ((b.end_ms - b.entry_ms) - (a.end_ms - a.entry_ms))[both]
    same = np.abs(gain) <= 1e-9 * np.maximum((a.end_ms - a.entry_ms)[both], 1.0)
    return Pairs(
        pairs=int(inside.sum()),
        both=int(both.sum()),
        faster_b=int(np.sum((gain < 0.0) & ~same)),
        slower_b=int(np.sum((gain > 0.0) & ~same)),
        only_a=int(np.sum(inside & a.committed & b.aborted)),
        only_b=int(np.sum(inside & b.committed & a.aborted)),
        neither=int(np.sum(inside & a.aborted & b.aborted)),
        unfinished=int(np.sum(inside & ~((a.committed | a.aborted) & (b.committed | b.aborted)))),
    )
