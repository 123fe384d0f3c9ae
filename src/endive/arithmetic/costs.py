"""Compute request counts, random selections, and latencies of requests.

Functions take and return numbers and have no state. The compiled engine compiles them, so they use the subset of Python that Numba
supports.
"""

from __future__ import annotations

import math
from typing import Any

BYTES_PER_MIB = 1024 * 1024
_ROUNDING = 1e-9
"""Tolerance added before rounding down, so that 10 x 0.1 rounds to 1."""


def scheduled_delay_ms(now_ms: float, unit: float, steps: object, n: int) -> float:
    """Return the time from ``now_ms`` to the next arrival of a Poisson process whose rate changes in ``n`` steps, in ms.

    The time is infinite if there is no further arrival. ``unit`` is an exponential random number with mean 1. The next arrival is
    at the time at which the expected number of arrivals since ``now_ms`` reaches ``unit``. ``steps`` contains the start of each
    step and its rate per ms, alternating.
    """
    i = 0
    while i + 1 < n and steps[2 * (i + 1)] <= now_ms:  # type: ignore[index]
        i += 1
    start = max(now_ms, steps[0])  # type: ignore[index]
    while i + 1 < n:
        end, rate = steps[2 * (i + 1)], steps[2 * i + 1]  # type: ignore[index]
        expected = (end - start) * rate
        if unit < expected:
            return start + unit / rate - now_ms  # type: ignore[no-any-return]
        unit -= expected
        start = end
        i += 1
    rate = steps[2 * i + 1]  # type: ignore[index]
    return start + unit / rate - now_ms if rate > 0.0 else math.inf


def manifests_to_merge(snapshots_behind: int, manifests_per_commit: float) -> int:
    """Return the number of manifests that a merge append reads and rewrites after ``snapshots_behind`` concurrent commits."""
    return int(snapshots_behind * manifests_per_commit)


def whole_count(value: float, low: int, high: int) -> int:
    """Round a random value to a whole number of files within [low, high]."""
    count = math.floor(value + 0.5)
    return min(max(count, low), high)


def written_count(n: int, write_fraction: float) -> int:
    """Return the number of items that a transaction writes if it selects ``n`` items: the rounded fraction, but at least 1."""
    return max(1, int(n * write_fraction + 0.5))


def fractional_count(mean: float, u: float) -> int:
    """Return ``mean``, randomly rounded up or down to a whole number.

    The probability of rounding up is the fractional part of ``mean``, so that the expected value of the result is ``mean``. ``u``
    is a uniform random number.
    """
    whole = int(mean)
    return whole + 1 if u < mean - whole else whole


def moment_of_effect_ms(success_latency_ms: float, linearization: float) -> float:
    """Return the time from sending a request to its linearization point, in ms."""
    return success_latency_ms * linearization


def failed_answer_ms(effect_ms: float, failed_latency_ms: float) -> float:
    """Return the latency of a rejected request, in ms. The client receives the response no earlier than the linearization point."""
    return failed_latency_ms if failed_latency_ms > effect_ms else effect_ms


def sized_median_ms(base_ms: float, per_mib_ms: float, size_bytes: int) -> float:
    """Return the median latency of reading or writing an object of this size, in ms."""
    return base_ms + per_mib_ms * size_bytes / BYTES_PER_MIB


def lower_bound(cumulative: object, n: int, x: float) -> int:
    """Return the first index i in [0, n) with ``cumulative[i + 1] > x``; ``cumulative`` starts with 0."""
    low, high = 0, n - 1
    while low < high:
        middle = (low + high) // 2
        if cumulative[middle + 1] > x:  # type: ignore[index]
            high = middle
        else:
            low = middle + 1
    return low


def pick(cumulative: object, n: int, chosen: object, before: object, n_chosen: int, u: float) -> int:
    """Return one of the first ``n`` items, selected by weight. Items in ``chosen`` are excluded.

    ``cumulative[i]`` is the sum of the weights of the items before i. ``chosen`` contains the ``n_chosen`` excluded items in
    ascending order, and ``before[j]`` is the total weight of the excluded items before ``chosen[j]``. ``insert_pick`` maintains
    both. The uniform random number ``u`` is scaled to the weight of the other items, and a binary search shifts the result past the
    excluded items.
    """
    if n_chosen == 0:
        return lower_bound(cumulative, n, u * cumulative[n])  # type: ignore[index]
    last = chosen[n_chosen - 1]  # type: ignore[index]
    x = u * (cumulative[n] - (before[n_chosen - 1] + (cumulative[last + 1] - cumulative[last])))  # type: ignore[index]
    low, high = 0, n_chosen
    while low < high:
        middle = (low + high) // 2
        if x >= cumulative[chosen[middle]] - before[middle]:  # type: ignore[index]
            low = middle + 1
        else:
            high = middle
    if low > 0:
        c = chosen[low - 1]  # type: ignore[index]
        x += before[low - 1] + (cumulative[c + 1] - cumulative[c])  # type: ignore[index]
    item = lower_bound(cumulative, n, x)
    i = low - 1 if low > 0 else 0
    while i < n_chosen and chosen[i] <= item:  # type: ignore[index]
        if chosen[i] == item:  # type: ignore[index]
            item += 1  # rounding can return an excluded item; use the next one instead
        i += 1
    if item < n:
        return item
    item = n - 1
    for i in range(n_chosen - 1, -1, -1):
        if chosen[i] == item:  # type: ignore[index]
            item -= 1
    return item


def insert_pick(cumulative: object, chosen: object, before: object, n_chosen: int, item: int) -> None:
    """Insert an item into the ``n_chosen`` items in ``chosen``, and update ``before``, for ``pick``."""
    weight = cumulative[item + 1] - cumulative[item]  # type: ignore[index]
    j = n_chosen
    while j > 0 and chosen[j - 1] > item:  # type: ignore[index]
        chosen[j] = chosen[j - 1]  # type: ignore[index]
        before[j] = before[j - 1] + weight  # type: ignore[index]
        j -= 1
    chosen[j] = item  # type: ignore[index]
    before[j] = 0.0  # type: ignore[index]
    if j > 0:
        previous = chosen[j - 1]  # type: ignore[index]
        before[j] = before[j - 1] + (cumulative[previous + 1] - cumulative[previous])  # type: ignore[index]


def store_resend_wait_ms(refusals: int, u: float) -> float:
    """Return the wait of a client after an object store rejected a write, in ms.

    The wait is uniform between 0 and a limit. The limit is 1 s after the first rejection and doubles with each rejection, up to 32
    s (Google Cloud Storage).
    """
    return u * min(1000.0 * 2.0 ** min(refusals - 1, 5), 32_000.0)


def sdk_resend_wait_ms(errors: int, u: float) -> float:
    """Return the wait of the SDK after a request failed, in ms.

    The wait is uniform between 0 and a limit. The limit is 100 ms after the first error and doubles with each error, up to 20 s
    (AWS SDK, standard mode).
    """
    return u * min(100.0 * 2.0 ** min(errors - 1, 8), 20_000.0)


def any_error_probability(request_error: float, requests: int) -> float:
    """Return the probability that at least one of ``requests`` parallel requests fails."""
    return request_error if requests == 1 else 1.0 - (1.0 - request_error) ** float(requests)


def status_check_wait_ms(checks: int, min_wait_ms: float, max_wait_ms: float) -> float:
    """Return the wait after ``checks`` status checks without a response, in ms."""
    return min(min_wait_ms * 2.0 ** min(checks - 1, 60), max_wait_ms)


def orphaned_files(ended_unclean: bool, installs: int, writes: int, deletes: int) -> int:
    """Return the number of files that an operation leaves behind; 0 if the operation cleaned up or its commit took effect."""
    return max(writes - deletes, 0) if ended_unclean and installs == 0 else 0


def step_count(step: Any, behind: int, lost: int, files: int, entries: int) -> int:
    """Return the number of requests of a step of a declarative protocol.

    Args:
        step: Object with the fields of ``ProtocolStep``.
        behind: Number of versions that the client learned about in this phase.
        lost: Number of failed attempts so far.
        files: Number of data files of the tables.
        entries: Number of log entries since the last checkpoint.
    """
    number = step.count + step.per_version_behind * behind + step.per_attempt * lost
    number += step.per_file * files + step.per_log_entry * entries
    return int(number + _ROUNDING)  # the number is not negative, so ``int`` rounds down


def step_size(step: Any, files: int, version: int) -> int:
    """Return the size in bytes of the object that a step accesses, for a table with ``files`` files at version ``version``."""
    return int(step.size_bytes + step.bytes_per_file * files + step.bytes_per_version * version)


def entries_since_checkpoint(version: int, every: int) -> int:
    """Return the number of log entries since the last checkpoint, or the number of all entries if there are no checkpoints."""
    return version % every if every > 0 else version
