"""``endive run``: simulate a configuration and print its metrics."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from endive.cli.app import EXIT_CONDITION, JsonFlag, app, command, progress, refuse
from endive.cli.options import (
    ROOT,
    AllowCodeOption,
    ConfigArgument,
    CooldownOption,
    FailIfOption,
    ForceFlag,
    JunitOption,
    MaxSeedsOption,
    PreciseForOption,
    PrecisionOption,
    PricesOption,
    SetOption,
    WarmupOption,
    check_junit,
    check_new,
    output_option,
    overrides_of,
    precise_subjects,
    prices_of,
)
from endive.cli.output import Output
from endive.formatting import (
    capitalize,
    format_duration,
    format_money,
    format_number,
    format_percent,
    format_percent_range,
    format_rate,
    natural_order,
)

if TYPE_CHECKING:
    from endive.analysis.conditions import Condition, Subject
    from endive.analysis.estimates import Estimate
    from endive.analysis.replication_rule import Reached, Width
    from endive.config import Document
    from endive.config.study import Precision
    from endive.report.judgements import Judgement
    from endive.runs.execute import FinishedRun, PreparedRun
    from endive.storage.prices import Prices
    from endive.studies.measure import MetricsOptions, RunMetrics
    from endive.studies.request_cost import Cost, Kind


_LATENCIES = {
    "Time to commit of all transactions in the window": "time_to_commit",
    "Commit latency of committed transactions": "commit_latency",
    "Total latency of committed transactions (job duration and commit)": "total_latency",
}
"""Latency metrics by title of the table."""
_JOB = "t_runtime"
"""Column of the job duration, which is not part of the time to commit."""


@app.command()
def run(
    config: ConfigArgument,
    seed: Annotated[int | None, typer.Option(metavar="N", help="Override the seed of the file.", min=0, max=2**63 - 1)] = None,
    engine: Annotated[
        Literal["auto", "reference", "compiled"] | None, typer.Option(help="Override the engine of the file.")
    ] = None,
    out: Annotated[Path | None, output_option(f"Directory of experiments. Default: {ROOT}.")] = None,
    set_: SetOption = [],  # noqa: B006
    fail_if: FailIfOption = [],  # noqa: B006
    seeds: Annotated[
        str | None,
        typer.Option(
            metavar="N|A-B", help="Evaluate --fail-if on the mean across several seeds: 5 for seeds 0 to 4, or a range such as 0-4."
        ),
    ] = None,
    precision: PrecisionOption = None,
    max_seeds: MaxSeedsOption = None,
    for_: PreciseForOption = [],  # noqa: B006
    junit: JunitOption = None,
    force: ForceFlag = False,
    warmup: WarmupOption = None,
    cooldown: CooldownOption = 0.0,
    prices: PricesOption = None,
    trace: Annotated[bool, typer.Option("--trace", help="Also write a log of all events (reference engine only).")] = False,
    allow_code: AllowCodeOption = False,
    json: JsonFlag = False,
) -> None:
    """Simulate a configuration once, write its results and print a summary.

    The results are written to DIR/LABEL-HASH/SEED. LABEL is experiment.label or, if it is not set, the file name.

    With --seeds or --precision, the summary describes the first seed. --precision also prints the metrics of --for (default: those
    of --fail-if, or success and p95) with intervals across all seeds. Finished seeds are reused.

    Exit code: 3 if a condition of --fail-if is met, otherwise 0.
    """
    with command(json) as output:
        from endive.analysis.conditions import parse_condition
        from endive.config.load import load_document
        from endive.config.study import choose_precision
        from endive.output_files import check_writable, name_directory
        from endive.report.phrases import describe_compilation
        from endive.runs.execute import execute_run, place_run, prepare_run
        from endive.runs.stored import StoredRun
        from endive.studies.measure import MetricsOptions, check_window

        overrides = overrides_of(set_)
        if engine is not None:
            overrides["simulation.engine"] = engine
        conditions = [parse_condition(text, "--fail-if") for text in fail_if]
        check_junit(junit, fail_if)
        target = choose_precision(precision, seeds, max_seeds, "--")
        if for_ and target is None:
            refuse("--for", "has no effect without --precision")
        if target is not None and seed is not None:
            refuse("--precision", "cannot be combined with --seed, because its seeds are 0, 1, ...")
        first, others = (0, ()) if target is not None else _split_seeds(seed, seeds, fail_if)
        subjects = precise_subjects(for_, [each.subject for each in conditions], target)
        document = with_label(load_document(config, overrides), config)
        options, table = MetricsOptions(warmup, cooldown), prices_of(prices)
        check_window(document, options)
        check_classes(conditions, document)
        root = out or (ROOT if document.experiment.label else Path())
        if document.experiment.label is None:
            check_new(root / document.simulation.output_path, force)
            if others or target is not None:
                option = "--seeds" if target is None else "--precision"
                refuse(option, "needs a directory for each seed; remove simulation.output_path from the file")
        check_writable(root)
        prepared = prepare_run(document, seed=first)
        if not trace:
            output.note(describe_compilation(prepared.simulation.choice))
        with name_directory(root), progress(output, "simulating", document.simulation.duration_ms, percent=True) as report:
            finished = execute_run(prepared, place_run(prepared, root), trace=trace, progress=report)

        def run_seed(each: int) -> Path:
            run = prepare_run(document, seed=each, among_many=True)
            files = place_run(run, root)
            stored = StoredRun(files.results.parent)
            if target is not None and stored.problem() is None and stored.keeps("all"):
                return stored.results
            return execute_run(run, files).files.results

        check = Check(conditions, str(config), run_seed, others, junit, target, subjects)
        show_run(output, prepared, finished, options, {}, prices=table, check=check)


@dataclass(frozen=True)
class Check:
    """Conditions of ``--fail-if``, and the further seeds that are needed to evaluate them.

    Attributes:
        conditions: Conditions to evaluate.
        source: Configuration of the run.
        run_seed: Function that runs a seed and returns the file of results.
        others: Further seeds.
        junit: JUnit XML file to write.
        precision: Precision that determines the further seeds; None if they are given.
        subjects: Metrics that the precision applies to.
    """

    conditions: Sequence[Condition] = ()
    source: str = ""
    run_seed: Callable[[int], Path] | None = None
    others: Sequence[int] = ()
    junit: Path | None = None
    precision: Precision | None = None
    subjects: Sequence[Subject] = ()

    def replicate(self, measured: RunMetrics) -> tuple[list[RunMetrics], Reached | None]:
        """Return the metrics of the given run and of the runs of the other seeds, all measured in one window."""
        from endive.analysis.replication_rule import add_seeds, measure_widths
        from endive.studies.measure import RunFile, RunMetrics, measure_file

        runs = [measured]

        def extend(seeds: Iterable[int]) -> None:
            assert self.run_seed is not None
            files = ((seed, RunFile(seed, self.run_seed(seed))) for seed in seeds)
            runs.extend(RunMetrics(seed, tuple(measure_file("", file, measured.window))) for seed, file in files)

        if self.precision is None:
            if self.others:
                extend(self.others)
            return runs, None
        precision = self.precision

        def measure(seeds: int) -> list[Width]:
            extend(range(len(runs), seeds))
            return measure_widths(lambda *group: [run.select(*group) for run in runs], self.subjects, precision)

        return runs, add_seeds(measure, precision)

    def judge(self, runs: Sequence[RunMetrics]) -> list[Judgement]:
        """Evaluate the conditions on the runs of several seeds."""
        from endive.report.judgements import judge_runs, write_junit

        judgements = [judge_runs(each, runs) for each in self.conditions]
        if self.junit is not None:
            write_junit(self.junit, "endive run", {self.source: judgements})
        return judgements


def _split_seeds(seed: int | None, seeds: str | None, conditions: Sequence[str]) -> tuple[int | None, tuple[int, ...]]:
    """Return the seed of the printed run, and the further seeds on which conditions are evaluated."""
    if seeds is None:
        return seed, ()
    from endive.config.study import parse_seeds

    if seed is not None:
        refuse("--seeds", "cannot be combined with --seed")
    if not conditions:
        refuse("--seeds", "needs a condition (--fail-if); `endive sweep` runs several seeds, `endive metrics` measures them")
    first, *others = parse_seeds(seeds)
    return first, tuple(others)


def with_label(document: Document, config: Path) -> Document:
    """Return the document with a label, which names the directory of its runs: the label in the file, or else the file name.

    A file that sets ``simulation.output_path`` keeps it.
    """
    if document.experiment.label is not None or "output_path" in document.simulation.model_fields_set:
        return document
    label = re.sub(r"[^A-Za-z0-9._-]+", "_", config.stem).lstrip("._-") or "run"
    return document.model_copy(update={"experiment": document.experiment.model_copy(update={"label": label})})


def check_classes(conditions: Sequence[Condition], document: Document) -> None:
    """Raise ConfigError if a condition names a workload class that the configuration does not have."""
    from endive.analysis.run_metrics import ALL
    from endive.config.errors import nearest
    from endive.workload.classes import DEFAULT_CLASS

    classes = list(document.workload) or [DEFAULT_CLASS]
    for each in conditions:
        if each.workload_class not in (ALL, *classes):
            message = f"{each.text!r}: unknown class {each.workload_class!r}; {nearest(each.workload_class, classes)}"
            refuse("--fail-if", message)


def show_run(
    output: Output,
    prepared: PreparedRun,
    finished: FinishedRun,
    options: MetricsOptions,
    about: dict[str, Any],
    *,
    prices: Prices | None = None,
    check: Check | None = None,
) -> None:
    """Measure a run that is on disk and print its metrics and costs; exit with 3 if a condition is met."""
    from endive.analysis.run_metrics import ALL
    from endive.config.warnings import warnings_of
    from endive.report.judgements import describe_judgement, judgement_as_data
    from endive.report.phrases import describe_utilization
    from endive.studies.frontier import estimate_subject
    from endive.studies.measure import RunFile, measure_one
    from endive.studies.request_cost import basis_of_document, cost_of, rows_by_class

    document, classes = prepared.document, prepared.simulation.config.workload.config.workload_classes
    measured = measure_one(RunFile(prepared.seed, finished.files.results), document, classes, options)
    window, warnings = _describe_window(measured, document.catalog.metadata_limit_bytes)
    warnings += [str(each) for each in warnings_of(document)]
    cost = cost_of(rows_by_class(measured.rows), basis_of_document(document), prices or prices_of(None))
    check = check or Check()
    runs, reached = check.replicate(measured)
    judgements = check.judge(runs)
    estimates = [] if reached is None else [(each, estimate_subject(runs, each)) for each in check.subjects]
    output.result(
        {
            **about,
            "results": str(finished.files.results),
            "rows": finished.rows,
            "window": window,
            "warnings": warnings,
            "metrics": [_plain(row) for row in measured.rows],
            "cost": cost_as_data(cost),
            **({"conditions": [judgement_as_data(each, "the run") for each in judgements]} if judgements else {}),
            **_precision_data(check.precision, reached, estimates),
            "summary": finished.summary,
            "provenance": finished.provenance,
        }
    )
    output.text(window)
    show_metrics(output, measured, finished.summary["counters"])
    output.text(describe_utilization([measured.select(ALL, ALL)], document.catalog.workers))
    show_cost(output, cost)
    output.text("", *(f"warning: {each}" for each in warnings), f"{finished.rows:,} rows in {finished.files.results}")
    _show_precision(output, check.precision, reached, estimates)
    output.text(*(describe_judgement(each, "the run") for each in judgements))
    if any(each.holds for each in judgements):
        raise typer.Exit(EXIT_CONDITION)


def _precision_data(
    precision: Precision | None, reached: Reached | None, estimates: Sequence[tuple[Subject, Estimate | None]]
) -> dict[str, Any]:
    """Return the estimates across seeds for JSON; empty without a precision."""
    from endive.report.verdicts import precision_as_data

    if precision is None or reached is None:
        return {}
    shown = {str(subject): None if found is None else found.as_data() for subject, found in estimates}
    return {"precision": {**precision_as_data(precision, [reached]), "estimates": shown}}


def _show_precision(
    output: Output,
    precision: Precision | None,
    reached: Reached | None,
    estimates: Sequence[tuple[Subject, Estimate | None]],
) -> None:
    """Print the estimates across seeds, and whether they are as precise as requested."""
    from endive.analysis.conditions import format_bound, format_metric
    from endive.report.verdicts import describe_precision

    if precision is None or reached is None:
        return
    rows = []
    for subject, found in estimates:
        numbers: tuple[str, ...] = ("-", "-", "-")
        if found is not None and found.kind != "bound":
            numbers = tuple(format_metric(subject.metric, value) for value in (found.mean, found.low, found.high))
        elif found is not None:
            numbers = (format_bound(subject.metric, found.low), "-", "-")
        rows.append((str(subject), *numbers))
    output.table(f"\nMean across {reached.seeds} seeds", ("", "mean", "95% CI lower", "95% CI upper"), rows)
    output.text("", describe_precision(precision, [reached]))


def _describe_window(measured: RunMetrics, limit_bytes: int | None) -> tuple[str, list[str]]:
    """Return the measurement window and the warnings about an overload, a short run or growing tables."""
    from endive.analysis.run_metrics import ALL
    from endive.report.phrases import describe_drift, describe_growth, describe_limit, describe_overload, describe_window
    from endive.studies.experiment_tables import make_load_point

    row = measured.select(ALL, ALL)
    overload = describe_overload({**row, "saturated": make_load_point(0.0, [row]).reason})
    warnings = [capitalize(overload), describe_growth([row])] if overload else [describe_drift([row])]
    warnings.append(describe_limit(row, limit_bytes))
    return describe_window(measured.window), [warning for warning in warnings if warning]


def _plain(row: Any) -> dict[str, Any]:
    """Return the numbers of a row for JSON; infinity (does not commit) is the text ``never``."""
    plain = {name: value for name, value in row.items() if name != "experiment" and isinstance(value, str | int | float | None)}
    return {name: "never" if value == inf else value for name, value in plain.items()}


def show_metrics(output: Output, measured: RunMetrics, counters: dict[str, int]) -> None:
    """Print the metrics of the measurement window, and the counters of the whole run."""
    from endive.analysis.metric import ABORT_REASONS
    from endive.analysis.run_metrics import ALL
    from endive.simulation.columns import IO_COLUMNS, TIME_WORDS

    groups = [row for row in measured.rows if ALL not in (row["workload_class"], row["operation_type"])]
    groups.sort(key=lambda row: (natural_order(row["workload_class"]), row["operation_type"]))
    several = len({group["workload_class"] for group in groups}) > 1
    named = [(f"{g['workload_class']} {g['operation_type']}" if several else g["operation_type"], g) for g in groups]
    total = measured.select(ALL, ALL)
    named.append(("all", total))
    outcome = ("", "started", "commits", "aborts", "in flight", "success", "offered/s", "commits/s", "retries/txn")
    output.table("Outcome", outcome, [(name, *_outcome(group)) for name, group in named])
    for title, metric in _LATENCIES.items():
        output.table(f"\n{title}", ("", "p50", "p95", "p99"), [(name, *_percentiles(group, metric)) for name, group in named])
    _show_writers(output, named)
    times = {label: total[f"mean_{name}"] or 0.0 for name, label in TIME_WORDS.items() if name != _JOB}
    whole = sum(times.values()) or 1.0
    shares = [(label, format_percent(time / whole), format_duration(time)) for label, time in times.items()]
    output.table("\nCommit time breakdown", ("", "share", "mean"), shares)
    _show_counts(output, "File accesses", {name: total[name] for name in IO_COLUMNS})
    _show_counts(output, "Aborts", {reason: total[f"aborted_{reason}"] for reason in ABORT_REASONS})
    handoffs = {name: count for name, count in counters.items() if name.startswith("handovers_")}
    slots = {name: count for name, count in counters.items() if name.startswith("slots_")}
    others = {name: count for name, count in counters.items() if name not in handoffs | slots}
    _show_counts(output, "Catalog operations (whole run)", others)
    renamed = {name.replace("handovers", "handoffs"): count for name, count in handoffs.items()}
    _show_counts(output, "Handoffs to committers (whole run)", renamed)
    _show_counts(output, "Writer slots (whole run)", slots)


def _show_writers(output: Output, named: Sequence[tuple[str, Any]]) -> None:
    """Print tables of fairness among writers, freshness and handoffs, for classes with writers or committers."""
    from endive.analysis.estimates import at_least

    owned = [(name, group) for name, group in named if group["longest_losing_streak"] is not None]
    if owned:
        header = ("", "Jain's index", "writers without commit", "max consecutive failures", "max attempts")
        output.table("\nFairness among writers", header, [(name, *_fairness(group)) for name, group in owned])
    fresh = [(name, group) for name, group in named if group[at_least("freshness_p50_ms")] is not None]
    if fresh:
        rows = [(name, *_percentiles(group, "freshness")) for name, group in fresh]
        output.table("\nFreshness (age of the oldest data when it becomes visible)", ("", "p50", "p95", "p99"), rows)
    batches = [(name, group) for name, group in named if (group["handovers_per_commit"] or 1.0) > 1.0]
    if batches:
        times = ("", "handoffs/s", "per commit", "mean", "oldest p50", "p95", "p99")
        output.table("\nTime from handoff to commit", times, [(name, *_handoffs(group)) for name, group in batches])


def _fairness(group: Any) -> tuple[str, ...]:
    jain = group["jain_index"]
    return (
        "-" if jain is None else f"{jain:.3f}",
        format_percent(group["writers_without_commit"]),
        f"{group['longest_losing_streak']:.0f}",
        "-" if group["most_attempts"] is None else f"{group['most_attempts']:.0f}",
    )


def _handoffs(group: Any) -> tuple[str, ...]:
    mean = "-" if group["handover_mean_ms"] is None else format_duration(group["handover_mean_ms"])
    rate = format_rate(group["handovers_per_s"]).removesuffix("/s")
    return rate, f"{group['handovers_per_commit']:.2f}", mean, *_percentiles(group, "oldest_handover")


_COUNT_NAMES = {
    "service_longest_queue": "maximum queue length",
    "service_busy_ms": "busy time of the workers (ms)",
    "service_waited_ms": "waiting time in the queue (ms)",
}
"""Names of counts of a catalog service; other names are those of the columns."""


def _show_counts(output: Output, title: str, counts: Mapping[str, float]) -> None:
    rows = [(_COUNT_NAMES.get(name, name.replace("_", " ")), f"{int(count):,}") for name, count in counts.items() if count]
    if rows:
        output.table(f"\n{title}", ("", "count"), rows)


def _outcome(group: Any) -> tuple[str, ...]:
    from endive.report.phrases import format_bounded

    retries = group["retries_per_txn"]
    return (
        f"{group['transactions']:,}",
        f"{group['committed']:,}",
        f"{group['aborted']:,}",
        f"{group['in_flight']:,}",
        format_percent_range(group["success_low"], group["success_high"]),
        format_rate(group["offered_per_s"]).removesuffix("/s"),
        format_rate(group["throughput_per_s"]).removesuffix("/s"),
        format_bounded(group, "retries_per_txn") if retries is None else f"{retries:.2f}",
    )


def _percentiles(group: Any, name: str) -> tuple[str, ...]:
    from endive.report.phrases import format_bounded

    return tuple(format_bounded(group, f"{name}_p{percent}_ms") for percent in (50, 95, 99))


def show_cost(output: Output, cost: Cost | None) -> None:
    """Print the requests per 1,000 commits by kind, their cost if all have a price, and orphaned files."""
    from endive.report.phrases import describe_month
    from endive.studies.request_cost import KINDS

    if cost is None:
        return
    each = cost.money
    header = ("", "requests", *(() if each is None else (cost.currency,)))

    def price(kind: Kind) -> tuple[str, ...]:
        return () if each is None else ("no price" if kind in cost.unpriced else format_money(each[kind]),)

    rows = [(word, format_number(cost.requests[kind]), *price(kind)) for kind, word in KINDS.items() if cost.requests[kind]]
    total = cost.total_money
    rows.append(("all", format_number(cost.total_requests), *(() if total is None else (format_money(total),))))
    output.table("\nRequests per 1,000 commits", header, rows)
    output.text(describe_month(cost))
    if cost.orphaned_files:
        output.text(f"{format_number(cost.orphaned_files)} orphaned files per 1,000 commits")


def cost_as_data(cost: Cost | None) -> dict[str, Any] | None:
    """Return the requests and the cost per 1,000 commits for JSON."""
    if cost is None:
        return None
    return {
        "per": "1000 commits",
        "requests": dict(cost.requests),
        "money": None if cost.money is None else dict(cost.money),
        "total_requests": cost.total_requests,
        "total_money": cost.total_money,
        "money_per_month": cost.money_per_month,
        "unpriced": list(cost.unpriced),
        "currency": cost.currency,
        "orphaned_files": cost.orphaned_files,
    }
