"""Differences between A and B, and pairs of transactions, in sentences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from endive.analysis.cohort import Pairs
from endive.analysis.conditions import kind_of
from endive.analysis.contrasts import Difference, seeds_to_tell
from endive.formatting import format_number


def verdict(metric: str, found: Difference) -> str:
    """A difference in a sentence."""
    n = min(found.n_a, found.n_b)
    if n < 2:
        return f"{_change(metric, found)} with one seed, which is too few to tell"
    if found.told:
        every = f", in each of {n} seeds" if found.half_width is None else ""
        return f"{_change(metric, found)}{every}"
    if found.difference == 0.0:
        unseen = None if found.half_width is None else replace(found, difference=found.half_width, half_width=None)
        return f"no difference in any of {n} seeds{'' if unseen is None else f'; one of {amount(metric, unseen)} may be unseen'}"
    if found.half_width is None:
        return f"{_change(metric, found)} with {n} seeds, which are too few to tell"
    seeds = seeds_to_tell(found)
    size = amount(metric, replace(found, half_width=None))
    needed = "" if seeds is None else f"; about {seeds:,} seeds would tell a difference of {size}"
    return f"no difference can be told: the interval contains 0{needed}"


def _change(metric: str, found: Difference) -> str:
    more = found.difference >= 0.0
    size = amount(metric, found)
    share = "" if found.ratio is None or kind_of(metric) == "share" else f" ({100.0 * (found.ratio - 1.0):+.3g}%)"
    if metric == "throughput_per_s":
        return f"B commits {size} {'more' if more else 'fewer'} transactions per second{share}"
    if metric == "retries_per_txn":
        return f"B retries {size} times {'more' if more else 'less'} per transaction{share}"
    name = metric_name(metric)
    if kind_of(metric) == "time":
        return f"{name} is {size} {'longer' if more else 'shorter'} in B{share}"
    return f"{name} is {size} {'higher' if more else 'lower'} in B{share}"


def metric_name(metric: str) -> str:
    """A metric as people call it; latencies of the committed are named so."""
    short = metric.removesuffix("_ms").removesuffix("_per_txn").removesuffix("_per_s").replace("_", " ")
    return f"{short} of the committed" if metric.startswith(("commit_latency", "total_latency")) else short


def amount(metric: str, found: Difference) -> str:
    """The size of a difference with its half width, in one unit."""
    size = abs(_difference(found))
    unit, factor = _unit(metric, size)
    width = "" if found.half_width is None else f" ± {format_number(found.half_width * factor, 2)}"
    return f"{format_number(size * factor, 3)}{width}{unit}"


def signed_amount(metric: str, found: Difference | None) -> str:
    """The size of a difference with its sign, in short; nothing if there is none."""
    if found is None:
        return ""
    change = _difference(found)
    sign = "+" if change > 0.0 else "\N{MINUS SIGN}" if change < 0.0 else ""
    return f"{sign}{amount(metric, found)}".replace("percentage points", "pp")


def _difference(found: Difference) -> float:
    """The difference, without what rounding leaves of one that is none."""
    return 0.0 if found.half_width is not None and abs(found.difference) < _ROUNDING * found.half_width else found.difference


_ROUNDING = 1e-9


def _unit(metric: str, size: float) -> tuple[str, float]:
    kind = kind_of(metric)
    if kind == "time" and size >= 1000.0:
        return " s", 0.001
    return {"share": (" percentage points", 100.0), "time": (" ms", 1.0), "rate": ("", 1.0), "number": ("", 1.0)}[kind]


def pairs_in_words(classes: Mapping[str, Pairs | None]) -> list[str]:
    """What became of the same transactions on both sides, of all classes together and of each that cannot be paired."""
    paired = [each for each in classes.values() if each is not None]
    told = [_pairs(sum(paired, Pairs()))] if paired else []
    apart = [name for name, each in classes.items() if each is None]
    if apart:
        told.append(
            f"Transactions of {', '.join(apart)} cannot be paired: they are not submitted at the same moments in A and in B, "
            "as of closed loops or other rates."
        )
    return told


def _pairs(found: Pairs) -> str:
    if not found.pairs:
        return "No transaction entered in the window of both A and B."
    same = found.both - found.faster_b - found.slower_b
    alike = f", {same:,} took as long" if same else ""
    told = (
        f"Transaction by transaction: of {found.both:,} that both committed, {found.faster_b:,} were faster in B and "
        f"{found.slower_b:,} slower{alike}; {found.only_a:,} committed only in A and {found.only_b:,} only in B"
    )
    rest = [f"{found.neither:,} in neither"] if found.neither else []
    rest += [f"{found.unfinished:,} were unfinished in one or both"] if found.unfinished else []
    return f"{told}{''.join(', ' + each for each in rest)}."
