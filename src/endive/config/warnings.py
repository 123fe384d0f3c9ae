"""Warn about configurations that are valid but rarely intended.

Each warning has a code, the key to which it refers, and a message. A warning that several configurations share is reported once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from endive.config.arrival_keys import build_arrivals
from endive.config.resolve import ResolvedClass, catalog_profile, resolve_classes, storage_profile
from endive.config.schema import Document
from endive.formatting import format_duration, format_minimum_duration
from endive.input_files import state
from endive.storage import FixedLatency
from endive.storage.profiles import ProfileError
from endive.table.operations import VALIDATING
from endive.transaction.paths import DEFAULT_PATH, ICEBERG, PYICEBERG, RETRY_POLICY
from endive.workload.arrivals import INTER_ARRIVAL, mean_ms

FEWEST = 20
"""Minimum number of transactions for a success rate. With this number, each transaction changes the rate by 5%."""


@dataclass(frozen=True)
class ConfigWarning:
    """Warning about a valid setting that is rarely intended. ``key`` is dotted."""

    code: str
    key: str
    message: str

    def __str__(self) -> str:
        return state(self.key, self.message, is_key=True)


def warnings_of(document: Document) -> list[ConfigWarning]:
    """Return the warnings of a checked document."""
    found: list[ConfigWarning] = []
    for check in (
        _overlaps,
        _locked_phases,
        _too_few,
        _never_conflicts,
        _commit_path,
        _client_retries,
        _one_pointer,
        _failed_cas,
        _slow_responses,
    ):
        found += check(document)
    return found


def each_once(warnings: Iterable[ConfigWarning]) -> list[ConfigWarning]:
    """Return the warnings of several configurations without repetition: the first one for each code and key."""
    return list({(each.code, each.key): each for each in reversed(list(warnings))}.values())[::-1]


def _overlaps(document: Document) -> Iterator[ConfigWarning]:
    for cls in resolve_classes(document):
        arrivals = build_arrivals(cls.arrivals)
        every = arrivals.period_ms
        takes = mean_ms(cls.settings.runtime.to_distribution())
        if every is not None and takes > every:
            effect = (
                "writers miss slots and start late"
                if arrivals.paced
                else f"{takes / every:.3g} of them run at the same time and compete"
            )
            yield ConfigWarning(
                "overlaps_itself",
                cls.key("runtime"),
                f"{_each(cls)} takes {format_duration(takes)} on average and one starts every "
                f"{format_duration(every)}, so {effect}. Use a longer interval or a shorter runtime.",
            )


def _locked_phases(document: Document) -> Iterator[ConfigWarning]:
    """Warn about periodic classes whose commits always have the same distance in time, so that results depend on the phase."""
    fixed = [(cls, build_arrivals(cls.arrivals)) for cls in resolve_classes(document) if _has_fixed_phase(cls)]
    for cls, arrivals in fixed:
        validates = any(weight > 0.0 and name in VALIDATING for name, weight in cls.settings.operation_types)
        others = [other for other, rival in fixed if other is not cls and _are_commensurate(arrivals.period_ms, rival.period_ms)]
        if validates and others:
            yield ConfigWarning(
                "locked_phases",
                cls.key("runtime"),
                f"is fixed, as in class {others[0].name}. Both classes are periodic, so each commit of {cls.name} coincides with "
                f"the same commits of {others[0].name}, and the phase alone decides whether success is 0% or 100%. Use a rate "
                "instead of periodic arrivals, or a runtime with a spread (sigma).",
            )


def _has_fixed_phase(cls: ResolvedClass) -> bool:
    """Return whether all transactions of a class start and end their jobs at fixed times."""
    runtime = cls.settings.runtime.to_distribution()
    is_fixed = isinstance(runtime, FixedLatency) or getattr(runtime, "sigma", None) == 0.0
    arrivals = build_arrivals(cls.arrivals)
    return is_fixed and arrivals.period_ms is not None and getattr(arrivals, "phase", None) != "random"


def _are_commensurate(a_ms: float | None, b_ms: float | None) -> bool:
    """Return whether one of two periods is a multiple of the other period."""
    if not a_ms or not b_ms:
        return False
    ratio = max(a_ms, b_ms) / min(a_ms, b_ms)
    return abs(ratio - round(ratio)) < 1e-9


def _too_few(document: Document) -> Iterator[ConfigWarning]:
    for cls in resolve_classes(document):
        arrivals = build_arrivals(cls.arrivals)
        length = min(cls.end_ms, document.simulation.duration_ms) - cls.start_ms
        if arrivals.waits or length <= 0.0:
            continue
        expected = arrivals.expected_submissions(length)
        if expected < FEWEST:
            longer = document.simulation.duration_ms * FEWEST / expected if expected > 0.0 else None
            needed = "" if longer is None else f"set simulation.duration_ms to {format_minimum_duration(longer)}, or run more seeds"
            hint = f" For at least {FEWEST} transactions, {needed}." if needed else ""
            message = f"{_about(expected, _class_prefix(cls))} submitted per run, which is too few to estimate success.{hint}"
            key = f"transaction.{INTER_ARRIVAL.key}" if cls.own is None else f"workload.{cls.name}"
            yield ConfigWarning("too_few", key, message)


def _about(expected: float, prefix: str) -> str:
    """Return a phrase for the expected number of transactions."""
    number = round(expected)
    if number == 0:
        return f"fewer than one {prefix}transaction is"
    return f"about {number} {prefix}transaction is" if number == 1 else f"about {number} {prefix}transactions are"


def _class_prefix(cls: ResolvedClass) -> str:
    """Return ``CLASS ``, or an empty string if there are no classes."""
    return "" if cls.own is None else f"{cls.name} "


def _each(cls: ResolvedClass) -> str:
    """Return ``each CLASS transaction``, or ``each transaction`` if there are no classes."""
    return f"each {_class_prefix(cls)}transaction"


def _never_conflicts(document: Document) -> Iterator[ConfigWarning]:
    for cls in resolve_classes(document):
        settings = cls.settings
        if settings.conflict_detector != "probabilistic" or settings.real_conflict_probability > 0.0:
            continue
        conflicting = [name for name, weight in settings.operation_types if weight > 0.0 and name in VALIDATING]
        if conflicting and "real_conflict_probability" not in settings.model_fields_set:
            yield ConfigWarning(
                "never_conflicts",
                cls.key("real_conflict_probability"),
                "is not set, so overlapping changes never count as real conflicts. Set it to 0 if that is intended.",
            )


def _commit_path(document: Document) -> Iterator[ConfigWarning]:
    given = [document.transaction, *document.workload.values()]
    writing = [
        cls for cls in resolve_classes(document) if any(n != "read_only" and w > 0.0 for n, w in cls.settings.operation_types)
    ]
    if writing and not any("commit_path" in section.model_fields_set for section in given):
        yield ConfigWarning(
            "not_icebergs_path",
            "transaction.commit_path",
            f"is not set, so clients use the simplified commit path. Set it to {ICEBERG.name!r} for {ICEBERG.client}, or to "
            f"{DEFAULT_PATH.name!r} if that is intended.",
        )


def _client_retries(document: Document) -> Iterator[ConfigWarning]:
    """Warn about PyIceberg if retries are not set, because its defaults depend on the release."""
    for cls in resolve_classes(document):
        given = cls.settings.model_fields_set | (cls.own.model_fields_set if cls.own is not None else set())
        if cls.path is PYICEBERG and not {"retry", "retry_policy"} & given:
            yield ConfigWarning(
                "pyiceberg_retries",
                cls.key("retry"),
                f"is not set, so {_each(cls)} retries {cls.settings.retry} times. {PYICEBERG.client} retries "
                f"commits since 0.12: set retry_policy = {RETRY_POLICY!r} for it (4 retries), or retry = 0 for older releases.",
            )


def _one_pointer(document: Document) -> Iterator[ConfigWarning]:
    catalog = document.catalog
    if document.parts.catalog is not None:
        return
    if catalog.type in (None, "cas", "instant") and catalog.num_tables > 1 and catalog.num_groups is None:
        yield ConfigWarning(
            "one_pointer",
            "catalog.num_groups",
            f"is not set, so all {catalog.num_tables} tables share one commit pointer, and a commit to one table invalidates "
            f"concurrent commits to all. Set it to {catalog.num_tables} for one pointer per table, or to 1 if that is intended.",
        )


def _failed_cas(document: Document) -> Iterator[ConfigWarning]:
    """Warn about a ``failed_cas`` latency in a custom profile that has no effect because it is below the latency of ``cas``."""
    name = document.catalog.provider or document.storage.provider or ""
    if not name.endswith(".toml") or document.catalog.linearization < 1.0 or document.catalog.type not in (None, "cas"):
        return
    try:
        profile = catalog_profile(document, storage_profile(document.storage))
    except (ProfileError, OSError):
        return
    if profile is None or profile.cas is None or profile.failed_cas is None:
        return
    success, refusal = mean_ms(profile.cas), mean_ms(profile.failed_cas)
    if refusal < success:
        yield ConfigWarning(
            "failed_cas_unused",
            "catalog.linearization",
            f"is 1, so a commit takes effect only at the end of its {format_duration(success)} and is not rejected earlier. The "
            f"failed_cas of {name}, {format_duration(refusal)}, has no effect. To use it, set linearization below 1.",
        )


def _slow_responses(document: Document) -> Iterator[ConfigWarning]:
    if document.failures.slow_response > 0.0:
        yield ConfigWarning(
            "lab_only",
            "failures.slow_response",
            "has no effect in a simulation, because simulated clients have no request timeout. "
            "`endive lab` delays responses to real clients.",
        )
