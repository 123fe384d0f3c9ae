"""Parse conditions on metrics: ``success(compaction) < 95%``, ``p99 > 2s``, ``throughput < 95% of A``.

A condition consists of a metric, optionally a class (or a class and an operation) in parentheses, a comparison, and a number with
its unit. The metrics are columns of ``by_run``. Suffixes such as ``_rate`` or ``_per_s`` can be omitted.
"""

from __future__ import annotations

import difflib
import math
import operator
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, cast

from endive.analysis.metric import Unit, get_metric
from endive.analysis.run_metrics import RATES
from endive.config import ConfigError, Problem
from endive.config.errors import nearest
from endive.formatting import format_bytes, format_duration, format_money, format_number, format_percent
from endive.workload.classes import ALL_CLASSES as ALL

ALIASES = {
    **{f"p{p}": f"time_to_commit_p{p}_ms" for p in (50, 95, 99)},
    **{f"{kind}_p{p}": f"{kind}_latency_p{p}_ms" for kind in ("commit", "total") for p in (50, 95, 99)},
}
"""Short names of metrics. ``p50``, ``p95`` and ``p99`` are percentiles of the time to commit over the whole cohort."""
_ENDINGS = ("", "_rate", "_per_s", "_ms", "_per_txn")

Kind = Literal["share", "time", "rate", "number", "size", "money"]
_KINDS: dict[Unit, Kind] = {
    "count": "number",
    "share": "share",
    "ms": "time",
    "1/s": "rate",
    "number": "number",
    "bytes": "size",
    "money": "money",
}
_UNITS: dict[Kind, dict[str, Fraction]] = {
    "share": {"": Fraction(1), "%": Fraction(1, 100)},
    "time": {"": Fraction(1), "ms": Fraction(1), "s": Fraction(1_000), "min": Fraction(60_000), "h": Fraction(3_600_000)},
    "rate": {"": Fraction(1), "/s": Fraction(1), "/min": Fraction(1, 60)},
    "number": {"": Fraction(1)},
    "size": {"": Fraction(1), "kB": Fraction(1_000), "MB": Fraction(1_000_000), "GB": Fraction(1_000_000_000)},
    "money": {"": Fraction(1)},
}
"""Units and their factors by kind of metric. The factors are exact fractions, so that 95% equals 0.95."""
_SUBJECT = r"""\s*(?P<metric>[A-Za-z]\w*)\s*
    (?:\(\s*(?P<group>[\w-]+)\s*(?:,\s*(?P<operation>\w+)\s*)?\))?\s*"""
_CONDITION = re.compile(
    _SUBJECT
    + r"""
    (?P<sign><=|>=|<|>)\s*
    (?P<number>\d[\d_]*(?:\.\d+)?(?:[eE][-+]?\d+)?|\.\d+)\s*(?P<unit>%|[a-zA-Z]+|/[a-z]+)?\s*
    (?P<relative>\bof\s+A)?\s*""",
    re.VERBOSE,
)
_MOST_DIGITS, _LEAST, _MOST = 50, 1e-15, 1e15
"""Limits for numbers in conditions. Numbers are parsed exactly, so a huge exponent would take unbounded time."""
FORM = "a condition is METRIC[(CLASS[, OPERATION])] < NUMBER[UNIT], such as 'success(compaction) < 95%' or 'p99 > 2s'"

Sign = Literal["<", "<=", ">", ">="]
_HOLDS: dict[str, Callable[[float, float], bool]] = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
Verdict = Literal["holds", "fails", "open"]
"""Verdict of a condition on an interval: the condition holds for every value in it (``holds``), for no value (``fails``), or for
some values (``open``).
"""


@dataclass(frozen=True)
class Subject:
    """Metric of a workload class and operation."""

    metric: str
    workload_class: str = ALL
    operation: str = ALL

    def __str__(self) -> str:
        """Return the metric with its class and operation: ``success_rate(compaction)``."""
        group = [name for name in (self.workload_class, self.operation) if name != ALL]
        return f"{self.metric}({', '.join(group)})" if group else self.metric


@dataclass(frozen=True)
class Condition:
    """Comparison of a metric with a number.

    The number is in the unit of the metric or, if ``relative`` is set, a multiple of the value of A.
    """

    text: str
    metric: str
    sign: Sign
    value: float
    workload_class: str = ALL
    operation: str = ALL
    relative: bool = False

    @property
    def subject(self) -> Subject:
        """Metric with its class and operation."""
        return Subject(self.metric, self.workload_class, self.operation)

    def holds(self, value: float) -> bool:
        """Return whether the condition holds for a value of the metric."""
        return _HOLDS[self.sign](value, self.value)

    def verdict(self, low: float, high: float) -> Verdict:
        """Return the verdict on an interval."""
        ends = (self.holds(low), self.holds(high))
        return "holds" if all(ends) else "open" if any(ends) else "fails"


def parse_condition(text: str, source: str, *, relative: bool = False) -> Condition:
    """Parse a condition.

    Args:
        text: Condition as entered by the user.
        source: Source of the text, for error messages.
        relative: Whether ``of A`` is allowed.

    Raises:
        ConfigError: If the condition is invalid.
    """
    found = _CONDITION.fullmatch(text)
    if found is None:
        raise ConfigError(source, [Problem("", f"{text!r} is not a condition; {FORM}")])
    metric = find_metric(found["metric"], source)
    if found["relative"] and not relative:
        raise ConfigError(source, [Problem("", f"{text!r}: there is no baseline A to compare with")])
    kind: Kind = "share" if found["relative"] else kind_of(metric)
    unit, units = found["unit"] or "", _UNITS[kind]
    if unit not in units:
        allowed = ", ".join(unit for unit in units if unit) or "plain numbers"
        raise ConfigError(source, [Problem("", f"{text!r}: {metric} cannot have the unit {unit!r}; allowed: {allowed}")])
    number = found["number"].replace("_", "")
    if len(number) > _MOST_DIGITS or (not _LEAST <= float(number) <= _MOST and float(number) != 0.0):
        short = f"{text[:60]}…" if len(text) > 60 else text
        raise ConfigError(source, [Problem("", f"{short!r}: the number must be 0, or between {_LEAST:g} and {_MOST:g}")])
    value = float(Fraction(number) * units[unit]) if float(number) else 0.0
    if kind == "share" and not found["relative"] and value > 1.0:
        raise ConfigError(
            source, [Problem("", f"{text!r}: {metric} is a proportion and cannot exceed 1; add a % sign to the threshold")]
        )
    sign = cast("Sign", found["sign"])
    return Condition(text.strip(), metric, sign, value, found["group"] or ALL, found["operation"] or ALL, bool(found["relative"]))


def parse_subject(text: str, source: str) -> Subject:
    """Parse a metric, optionally with a class or with a class and an operation.

    Raises:
        ConfigError: If the text is invalid; the error names ``source``.
    """
    found = re.fullmatch(_SUBJECT, text, re.VERBOSE)
    if found is None:
        form = "METRIC[(CLASS[, OPERATION])], such as 'time_to_commit_p99(ingest)' or 'success'"
        raise ConfigError(source, [Problem("", f"{text!r} is not a metric; expected {form}")])
    return Subject(find_metric(found["metric"], source), found["group"] or ALL, found["operation"] or ALL)


def parse_question(text: str, classes: Collection[str], source: str) -> Subject:
    """Parse a question such as ``success(compaction)``.

    Raises:
        ConfigError: If the metric does not exist, or ``classes`` does not include the class; the error names ``source``.
    """
    subject = parse_subject(text, source)
    if subject.workload_class not in (*classes, ALL):
        message = f"unknown class {subject.workload_class!r}; {nearest(subject.workload_class, classes)}"
        raise ConfigError(source, [Problem("", message, text)])
    return subject


def find_metric(name: str, source: str) -> str:
    """Return the full name of a metric. Raises ConfigError if no metric has this name."""
    for full in (ALIASES.get(name, name), *(name + ending for ending in _ENDINGS)):
        if full in RATES:
            return full
    short = [*ALIASES, *RATES, *(_without_ending(metric) for metric in RATES)]
    close = difflib.get_close_matches(name, short, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"metrics include success, throughput, {', '.join(ALIASES)}."
    raise ConfigError(source, [Problem("", f"unknown metric {name!r}; {hint} See docs/explanation/statistics.md for all metrics")])


def _without_ending(metric: str) -> str:
    return next((metric.removesuffix(ending) for ending in _ENDINGS if ending and metric.endswith(ending)), metric)


def kind_of(metric: str) -> Kind:
    """Return the kind of a metric, such as ``share`` or ``time``. Raises ValueError if the metric has no record."""
    return _KINDS[get_metric(metric).unit]


def format_bound(metric: str, low: float) -> str:
    """Format a lower bound of a metric: ``> 12 s``, ``≥ 1.7``; ``aborted`` if it is infinite."""
    text = format_metric(metric, low)
    return text if math.isinf(low) else f"{'>' if kind_of(metric) == 'time' else '≥'} {text}"


def format_metric(metric: str, value: float | None) -> str:
    """Format a value of a metric with its unit: ``aborted`` for an infinite time, ``-`` for no value."""
    kind = kind_of(metric)
    if value == math.inf and kind == "time":
        return "aborted"
    if value is None or not math.isfinite(value):
        return "-"
    if kind == "share":
        return format_percent(value)
    if kind == "time":
        return format_duration(value)
    if kind == "size":
        return format_bytes(value)
    if kind == "money":
        return format_money(value)
    return f"{format_number(value)}/s" if kind == "rate" else format_number(value)
