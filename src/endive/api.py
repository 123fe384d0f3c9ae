"""Functions of the Python API: load, run, sweep, compare, frontier and tune.

Each function corresponds to the command of the same name. ``run`` simulates in threads of the calling process, ``sweep`` in Spark
tasks; both write the same files. A configuration is the path of a TOML file, a dict, or a ``Configuration``.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from endive.analysis.conditions import find_metric, parse_question
from endive.analysis.halving import Plan
from endive.analysis.replication_rule import Reached, is_share
from endive.analysis.replication_rule import choose_subjects as choose_precise
from endive.config.components import allow_code as permit_code
from endive.config.components import code_is_allowed
from endive.config.errors import ConfigError, Problem
from endive.config.load import read_toml
from endive.config.study import Precision, choose_precision, frontier_options, parse_seeds
from endive.config.sweep_file import Sweep, parse_rows
from endive.pipeline.jobs import LocalThreads
from endive.pipeline.sweep import Progress, ProgressMonitor, plan_more_seeds, run_sweep
from endive.report.comparison import compare_all
from endive.report.search_answer import answer_frontier
from endive.report.sides import Selection, find_question, make_sides, name_sources, select_scenarios
from endive.report.tuning_answer import answer_tuning
from endive.report.verdicts import describe_precision
from endive.results import Comparison, Configuration, Frontier, Sessions, Study, Tree, Tuning, choose_session, plain_tree
from endive.runs.plan import SweepPlan, keep_study, plan_sweep, remaining_work
from endive.runs.stored import PipelineError
from endive.studies.frontier import read_question
from endive.studies.measure import MetricsOptions
from endive.studies.tuning import check_precision, read_tuning

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    Config = Configuration | Mapping[str, Any] | str | Path
    Seeds = int | str | Sequence[int]

_TEMPORARY = "endive-"
_LABEL = "study"


def load(config: Config, overrides: Mapping[str, Any] | None = None) -> Configuration:
    """Load and check a configuration.

    Args:
        config: Path of a TOML file, or its content as a dict. Paths in a dict are relative to the working directory.
        overrides: Values that replace or complete those of ``config``, by dotted key, such as ``{"storage.provider": "s3x"}``.

    Returns:
        The checked configuration.

    Raises:
        ConfigError: If the configuration is invalid; the message lists every problem.

    Example:
        ```python
        config = endive.load({
            "simulation": {"duration_ms": 60_000},
            "storage": {"provider": "s3"},
            "transaction": {"commit_path": "iceberg", "inter_arrival": {"scale": 500.0}},
        })
        ```
    """
    if not isinstance(config, Configuration):
        config = Configuration.read(config) if isinstance(config, str | Path) else Configuration(config)
    return config.set(overrides) if overrides else config


def run(
    config: Config,
    *,
    seeds: Seeds | None = None,
    precision: str | None = None,
    max_seeds: int | None = None,
    scenarios: Mapping[str, Mapping[str, Any]] | None = None,
    question: str | None = None,
    warmup_ms: float | None = None,
    cooldown_ms: float = 0.0,
    directory: Path | str | None = None,
    workers: int | None = None,
    progress: bool | None = None,
) -> Study:
    """Run a configuration or its scenarios on this machine, with one or more seeds, and measure the runs.

    Runs are simulated in threads of the calling process, so scripts do not need an ``if __name__ == "__main__"`` guard. The threads
    use all cores, because the compiled engine releases Python's global interpreter lock. The reference engine, which runs custom
    components, holds the lock. To run custom components on all cores, use ``sweep``, which simulates in separate processes.

    Args:
        config: Path of a TOML file, a dict, or a ``Configuration``.
        seeds: Number of seeds (5 means seeds 0 to 4), a range such as ``"0-4"``, or a list of seeds; by default 1.
        precision: Maximum half width of the 95% intervals, as an alternative to ``seeds``: ``"1%"`` of the mean (for proportions, 1
            percentage point), or ``"0.5pp"`` (only for proportions). Endive adds seeds until the interval of ``question`` is this
            narrow. Without ``question``, the precision applies to success and p95.
        max_seeds: Maximum number of seeds if ``precision`` is set; by default 100.
        scenarios: Variants of the configuration by name, each a dict of values by dotted key. A variant with an empty dict is the
            baseline.
        question: Metric to report first, such as ``success(compaction)``.
        warmup_ms: Length of the warm-up, which is excluded from all metrics; by default determined from the runs.
        cooldown_ms: Length of the cool-down at the end of the run, which is excluded from all metrics.
        directory: Directory for the runs. Endive reuses finished runs in this directory. By default, a temporary directory that is
            removed when the study is garbage-collected.
        workers: Number of concurrent runs; by default the number of cores.
        progress: Whether to show a progress bar; by default on terminals and in notebooks.

    Returns:
        The measured runs.

    Raises:
        ConfigError: If the configuration is invalid.
        PipelineError: If a run fails.

    Example:
        ```python
        study = endive.run(config, seeds=5, scenarios={"today": {}, "S3 Express": {"storage.provider": "s3x"}})
        print(study.summary())
        ```
    """
    content, path = _sweep_content(config, {}, _count_of(seeds, precision, 1), scenarios, question)
    threads = LocalThreads() if workers is None else LocalThreads(workers)
    options = MetricsOptions(warmup_ms, cooldown_ms)
    reader = Sweep(path, content=content, precision=precision, max_seeds=max_seeds)
    return _run_study(reader, lambda: nullcontext(threads), options, directory, progress)


def sweep(
    config: Config,
    axes: Mapping[str, Any] | None = None,
    *,
    seeds: Seeds | None = None,
    precision: str | None = None,
    max_seeds: int | None = None,
    scenarios: Mapping[str, Mapping[str, Any]] | None = None,
    question: str | None = None,
    rows: str | None = None,
    spark: SparkSession | str | None = None,
    warmup_ms: float | None = None,
    cooldown_ms: float = 0.0,
    directory: Path | str | None = None,
    progress: bool | None = None,
) -> Study:
    """Run all combinations of the values of some keys on Spark, each with several seeds, and measure the runs.

    Args:
        config: Path of a TOML file, a dict, or a ``Configuration``. If ``axes`` is not given, this can also be the path of a sweep
            file.
        axes: Values of each key to vary: a list, or a range such as ``{"from": 1, "to": 100, "points": 9, "scale": "log"}``.
        seeds: Number of seeds, a range such as ``"0-4"``, or a list of seeds; by default the seeds of the sweep file, or 3 seeds if
            the file sets none.
        precision: Maximum half width of the 95% intervals, as an alternative to ``seeds``: ``"1%"`` of the mean (for proportions, 1
            percentage point), or ``"0.5pp"`` (only for proportions). Endive adds seeds to a combination until the interval of
            ``question`` is this narrow. Without ``question``, the precision applies to success and p95.
        max_seeds: Maximum number of seeds of a combination if ``precision`` is set; by default 100.
        scenarios: Variants of the configuration by name, each a dict of values by dotted key. A variant with an empty dict is the
            baseline.
        question: Metric to report first, such as ``success(compaction)``.
        rows: Which rows to keep: ``all``, ``sample`` or ``none``. By default, all rows up to 20 GiB, and a sample above that.
        spark: Spark session, or URL of a master or Spark Connect server. By default, the active session; if no session is active,
            local mode.
        warmup_ms: Length of the warm-up, which is excluded from all metrics; by default determined from the runs.
        cooldown_ms: Length of the cool-down at the end of the run, which is excluded from all metrics.
        directory: Directory for the runs. Endive reuses finished runs in this directory. On a cluster, all executors must have
            access to the directory. By default, a temporary directory that is removed when the study is garbage-collected.
        progress: Whether to show a progress bar; by default on terminals and in notebooks.

    Returns:
        The measured runs.

    Raises:
        ConfigError: If the configuration or an axis is invalid.
        SessionError: If Spark cannot be started.
        PipelineError: If a run fails.

    Example:
        ```python
        study = endive.sweep(config, {"storage.provider": ["s3", "s3x"], "transaction.retry": [2, 4, 8]}, seeds=3)
        study.to_pandas("saturation")
        ```
    """
    options = MetricsOptions(warmup_ms, cooldown_ms)
    if axes is None and isinstance(config, str | Path) and "sweep" in read_toml(Path(config)):
        text = None if seeds is None else _seeds_text(seeds)
        reader = Sweep(Path(config), seeds=text, precision=precision, max_seeds=max_seeds, rows=parse_rows(rows))
    else:
        content, path = _sweep_content(config, axes or {}, _count_of(seeds, precision, 3), scenarios, question)
        reader = Sweep(path, content=content, precision=precision, max_seeds=max_seeds, rows=parse_rows(rows))
    return _run_study(reader, choose_session(spark), options, directory, progress)


def compare(
    *configs: Config | Study | Mapping[str, Config | Study],
    seeds: Seeds | None = None,
    precision: str | None = None,
    max_seeds: int | None = None,
    metrics: Sequence[str] = (),
    question: str | None = None,
    warmup_ms: float | None = None,
    cooldown_ms: float = 0.0,
    directory: Path | str | None = None,
    progress: bool | None = None,
) -> Comparison:
    """Compare configurations with a baseline, the first one, and compute 95% intervals of the differences from paired seeds.

    Args:
        configs: Two or more configurations (paths, dicts or ``Configuration`` objects), directories of experiments, or studies of a
            single configuration. Alternatively, a dict of these by name, or one study with scenarios.
        seeds: Number of seeds, a range such as ``"0-4"``, or a list of seeds. By default, the seeds of the study in ``configs``;
            without a study, 10 seeds.
        precision: Maximum half width of the intervals of the differences, as an alternative to ``seeds``: ``"1%"`` of the baseline
            (for proportions, 1 percentage point), or ``"0.5pp"`` (only for proportions). The precision applies to ``question`` and
            ``metrics``; without them, to success and p95.
        max_seeds: Maximum number of seeds if ``precision`` is set; by default 100.
        metrics: Metrics to compare, such as ``success`` and ``time_to_commit_p99``.
        question: Metric by which to rank the configurations, such as ``success(compaction)``.
        warmup_ms: Length of the warm-up, which is excluded from all metrics; by default determined from the runs.
        cooldown_ms: Length of the cool-down at the end of the run, which is excluded from all metrics.
        directory: Directory for the runs. Endive reuses finished runs in this directory. By default, a temporary directory.
        progress: Whether to print progress; by default on terminals and in notebooks.

    Returns:
        The comparison.

    Raises:
        ConfigError: If a configuration or a metric is invalid.

    Example:
        ```python
        endive.compare({"S3": config, "S3 Express": config.set({"storage.provider": "s3x"})}, seeds=10)
        ```
    """
    chosen = _select_sides(configs)
    wanted = None if seeds is None else parse_seeds(_seeds_value(seeds))
    names = [find_metric(name, "metrics") for name in metrics]
    options = MetricsOptions(warmup_ms, cooldown_ms)
    target = choose_precision(precision, seeds, max_seeds, "")
    text = question or chosen.question
    with _directory(directory) as folder, _notes(progress) as note:
        sides, reached = make_sides(chosen, wanted, target, names, text, options, folder, note)
        if target is not None and reached is not None:
            _warn_if_wide(target, [reached])
    return Comparison(compare_all(sides, find_question(text, sides, "question"), names), sides)


def frontier(
    config: Config,
    vary: str | None = None,
    until: str | None = None,
    *,
    low: float | str | None = None,
    high: float | str | None = None,
    tolerance: float | None = None,
    seeds: int | None = None,
    max_seeds: int | None = None,
    precision: str | None = None,
    warmup_ms: float | None = None,
    cooldown_ms: float = 0.0,
    directory: Path | str | None = None,
    progress: bool | None = None,
) -> Frontier:
    """Find the lowest load at which a condition is met, by a bisection that runs several seeds at each load.

    Args:
        config: Path of a TOML file, a dict, or a ``Configuration``. A table ``[frontier]`` in the file can set the other arguments.
        vary: Configuration key that sets the load, such as ``workload.ingest.rate`` or ``transaction.rate``.
        until: Condition to search for, such as ``success(compaction) < 95%``.
        low: First load of the search; by default the load of the configuration.
        high: Highest load of the search; by default 1,024 times the first load.
        tolerance: Relative width of the load interval at which the search stops; by default 0.05.
        seeds: Number of seeds at each load; by default 5.
        max_seeds: Maximum number of seeds at a load where the interval of the metric contains the threshold; by default 40, or 100
            if ``precision`` is set.
        precision: Half width of the load interval at which the search stops, such as ``"5%"``; replaces ``tolerance`` and
            ``seeds``.
        warmup_ms: Length of the warm-up, which is excluded from all metrics; by default determined from the runs.
        cooldown_ms: Length of the cool-down at the end of the run, which is excluded from all metrics.
        directory: Directory for the result and the runs. Endive reuses finished runs in this directory. By default, a temporary
            directory.
        progress: Whether to print progress; by default on terminals and in notebooks.

    Returns:
        The load with its 95% interval.

    Raises:
        ConfigError: If the configuration, the key or the condition is invalid.

    Example:
        ```python
        endive.frontier(config, vary="transaction.rate", until="success < 99%", tolerance=0.1)
        ```
    """
    asked = {
        "vary": vary,
        "until": until,
        "from": low,
        "to": high,
        "tolerance": tolerance,
        "seeds": seeds,
        "max_seeds": max_seeds,
        "precision": precision,
    }
    path, content = _content(config)
    question = read_question(path, frontier_options(asked), {}, content=content)
    with _directory(directory) as folder, _notes(progress) as note:
        return Frontier(answer_frontier(question, folder, MetricsOptions(warmup_ms, cooldown_ms), note))


def tune(
    config: Config,
    metric: str,
    *,
    subject_to: str | Sequence[str] = (),
    search: Sequence[str] = (),
    vary: Mapping[str, Any] | None = None,
    candidates: int = 24,
    rounds: Sequence[int] = (2, 4, 8),
    seeds: int | None = None,
    precision: str | None = None,
    max_seeds: int | None = None,
    seed: int = 0,
    warmup_ms: float | None = None,
    cooldown_ms: float = 0.0,
    directory: Path | str | None = None,
    progress: bool | None = None,
) -> Tuning:
    """Find the retry settings and the values of other keys that optimize a metric.

    Args:
        config: Path of a TOML file, a dict, or a ``Configuration``.
        metric: Metric to optimize, such as ``time_to_commit_p99(ingest)``.
        subject_to: Condition that the settings must meet, such as ``success(compaction) >= 95%``, or several conditions.
        search: Groups of settings to search, such as ``retries``; by default all groups that apply to the configuration.
        vary: Further keys to search, each with a pair ``(low, high)`` or a list of values.
        candidates: Number of initial candidates. The search then tries neighbors of the best candidates, at most this number.
        rounds: Number of seeds in each round. The best candidates of a round advance to the next round.
        seeds: Number of seeds of the final comparison, which uses new seeds; by default 10.
        precision: Maximum half width of the interval of the improvement over the current settings, as an alternative to ``seeds``:
            ``"1%"`` of the metric (for proportions, 1 percentage point), or ``"0.5pp"`` (only for proportions).
        max_seeds: Maximum number of seeds of the final comparison if ``precision`` is set; by default 100.
        seed: Random seed with which candidates are chosen.
        warmup_ms: Length of the warm-up, which is excluded from all metrics; by default determined from the runs.
        cooldown_ms: Length of the cool-down at the end of the run, which is excluded from all metrics.
        directory: Directory for the result and the runs. Endive reuses finished runs in this directory. By default, a temporary
            directory.
        progress: Whether to print progress; by default on terminals and in notebooks.

    Returns:
        The best settings, compared with the current ones and with Iceberg's defaults.

    Raises:
        ConfigError: If the configuration, the metric or a condition is invalid.

    Example:
        ```python
        tuned = endive.tune(config, "time_to_commit_p99", subject_to="success >= 99%", candidates=8)
        ```
    """
    path, content = _content(config)
    keys = [_dimension_text(key, values) for key, values in (vary or {}).items()]
    tree = read_toml(path) if content is None else content
    conditions = [subject_to] if isinstance(subject_to, str) else list(subject_to)
    question = read_tuning(path, metric, conditions, keys, {}, candidates, seed, search=search, content=tree)
    target = choose_precision(precision, seeds, max_seeds, "")
    shares = is_share(question.objective.metric)
    plan = Plan(tuple(rounds), final_seeds=seeds or 10, refined=candidates, precision=target, is_share=shares)
    check_precision(question, target, "precision")
    with _directory(directory) as folder, _notes(progress) as note:
        done = answer_tuning(question, plan, MetricsOptions(warmup_ms, cooldown_ms), folder, note)
        if target is not None and done.found.reached is not None:
            _warn_if_wide(target, [done.found.reached])
        return Tuning(done)


@contextmanager
def allow_code() -> Iterator[None]:
    """Allow custom components (``[parts]`` of a configuration) inside a ``with`` block. Their code runs with your permissions.

    Example:
        ```python
        own = config.to_dict() | {"parts": {"catalog": {"code": "two_phase.py:TwoPhaseCatalog"}}}
        with endive.allow_code():
            study = endive.run(own, seeds=3)
        ```
    """
    before = code_is_allowed()
    permit_code()
    try:
        yield
    finally:
        permit_code(before)


def _run_study(
    reader: Sweep, sessions: Sessions, options: MetricsOptions, directory: Path | str | None, progress: bool | None
) -> Study:
    """Run the unfinished runs of a sweep, measure them and return the study."""
    plan = plan_sweep(reader)
    asked = []
    if reader.question is not None:
        classes = {name for point in plan.points for name in point.document.workload}
        asked = [parse_question(reader.question, classes, "question")]
    subjects = () if plan.precision is None else choose_precise(asked, plan.precision, "precision")
    root = Path(tempfile.mkdtemp(prefix=_TEMPORARY)) / plan.name if directory is None else Path(directory)
    root.mkdir(parents=True, exist_ok=True)
    with sessions() as executor:
        while True:
            keep_study(root, reader, plan)
            _run_remaining(executor, plan, root, progress)
            more, reached = plan_more_seeds(lambda: nullcontext(executor), plan, root, subjects, options)
            if more.runs == plan.runs:
                break
            plan = more
        if plan.precision is not None:
            _warn_if_wide(plan.precision, list(reached.values()))
        study = Study(
            root,
            warmup_ms=options.warmup_ms,
            cooldown_ms=options.cooldown_ms,
            _sessions=lambda: nullcontext(executor),
        )
    if directory is None:
        study._remove_at_end(root.parent)
    return study


def _run_remaining(executor: SparkSession | LocalThreads, plan: SweepPlan, root: Path, progress: bool | None) -> None:
    """Execute the unfinished runs of a plan. Raises PipelineError if a run fails."""
    work = remaining_work(plan, root)
    if not work.todo:
        return
    tasks = len(work.todo) if isinstance(executor, LocalThreads) else None
    with _bar(progress, len(work.todo)) as show:
        outcomes = run_sweep(executor, work, root, tasks=tasks, monitor=ProgressMonitor(work, root, show))
    failed = [outcome for outcome in outcomes if outcome.state == "failed"]
    if failed:
        first = failed[0]
        raise PipelineError(f"{len(failed)} of {len(outcomes)} runs failed; {first.experiment} seed {first.seed}: {first.error}")


def _warn_if_wide(precision: Precision, reached: Sequence[Reached]) -> None:
    """Warn if an interval is wider than the requested precision."""
    if any(each.wide for each in reached):
        warnings.warn(describe_precision(precision, reached), stacklevel=3)


def _count_of(seeds: Seeds | None, precision: str | None, default: int) -> Seeds | None:
    """Return the requested seeds; None if ``precision`` determines them. Raises ConfigError if both are given."""
    if precision is None:
        return default if seeds is None else seeds
    choose_precision(precision, seeds, None, "")
    return None


def _sweep_content(
    config: Config,
    axes: Mapping[str, Any],
    seeds: Seeds | None,
    scenarios: Mapping[str, Mapping[str, Any]] | None,
    question: str | None,
) -> tuple[Tree, Path]:
    """Return a configuration as the content of a sweep file, and the path to name in messages."""
    loaded = load(config)
    about: Tree = {"label": loaded.document.experiment.label or _LABEL}
    about |= {} if seeds is None else {"seeds": _seeds_value(seeds)}
    content: Tree = {"sweep": about | ({} if question is None else {"question": question}), "base": loaded.to_dict()}
    if axes:
        content["axes"] = plain_tree(axes)
    if scenarios:
        content["scenario"] = {str(name): {"set": plain_tree(values)} for name, values in scenarios.items()}
    return content, loaded.directory / Path(loaded.source).name


def _content(config: Config) -> tuple[Path, Tree | None]:
    """Return the path of a file to read, or the content of a configuration and the path to name in messages."""
    if isinstance(config, str | Path):
        return Path(config), None
    loaded = load(config)
    return loaded.directory / Path(loaded.source).name, loaded.to_dict()


def _select_sides(configs: Sequence[Any]) -> Selection:
    """Return the configurations or stored results to compare, by name; the first is the baseline."""
    if len(configs) == 1 and isinstance(configs[0], Study):
        return select_scenarios(str(configs[0].path), {}, quick=False)
    named = len(configs) == 1 and isinstance(configs[0], Mapping)
    items = list(configs[0].items()) if named else [(None, each) for each in configs]
    if len(items) < 2:
        raise ConfigError("compare", [Problem("", "needs two or more configurations")])
    stored = [_stored_path(each) for _, each in items]
    loaded = [load(each) if path is None else None for path, (_, each) in zip(stored, items, strict=True)]
    sources = [path if each is None else each.source for path, each in zip(stored, loaded, strict=True)]
    documents = [None if each is None else each.document for each in loaded]
    return name_sources([(name, source or "") for (name, _), source in zip(items, sources, strict=True)], documents)


def _stored_path(config: Any) -> str | None:
    """Return the path of stored results; None for a configuration."""
    if isinstance(config, Study):
        return str(config.path)
    return str(config) if isinstance(config, str | Path) and not str(config).endswith(".toml") else None


def _seeds_value(seeds: Seeds) -> str | list[int]:
    if isinstance(seeds, str):
        return seeds
    return str(int(seeds)) if isinstance(seeds, int) else [int(seed) for seed in seeds]


def _seeds_text(seeds: Seeds) -> str:
    value = _seeds_value(seeds)
    if isinstance(value, str):
        return value
    if value != list(range(value[0], value[0] + len(value))):
        raise ConfigError("seeds", [Problem("", "of a sweep file should be consecutive, such as '0-4'", value)])
    return f"{value[0]}-{value[-1]}"


def _dimension_text(key: str, values: Any) -> str:
    """Return a dimension of a search in the syntax of ``--vary``."""
    if isinstance(values, tuple):
        low, high = values
        return f"{key}={low}..{high}"
    return f"{key}={','.join(str(value) for value in values)}"


@contextmanager
def _directory(directory: Path | str | None) -> Iterator[Path]:
    """Yield the given directory, or a temporary one that is removed at the end of the block."""
    if directory is not None:
        yield Path(directory)
        return
    with tempfile.TemporaryDirectory(prefix=_TEMPORARY) as folder:
        yield Path(folder)


def _is_shown(progress: bool | None) -> bool:
    """Return whether to show progress: as requested, or by default on a terminal and in a notebook with widgets."""
    if progress is not None:
        return progress
    from importlib.util import find_spec

    from rich.console import Console

    console = Console(stderr=True)
    return console.is_terminal or (console.is_jupyter and find_spec("ipywidgets") is not None)


@contextmanager
def _bar(progress: bool | None, total: int) -> Iterator[Callable[[Progress], None]]:
    """Yield a function that shows the number of finished runs."""
    if not _is_shown(progress):
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import Progress as Bar

    with Bar(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("runs", total=total)
        yield lambda now: bar.update(task, completed=now.done)


@contextmanager
def _notes(progress: bool | None) -> Iterator[Callable[[str], None]]:
    """Yield a function that shows the status of a search; each status replaces the previous one."""
    if not _is_shown(progress):
        yield lambda _: None
        return
    from rich.console import Console

    with Console(stderr=True).status("starting") as status:
        yield status.update
