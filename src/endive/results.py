"""Result objects of the Python API: studies, comparisons, frontiers, tuned settings and charts.

Each result has ``summary()`` (the answer in sentences), ``to_pandas()``, ``to_arrow()`` and ``figure()``, and an HTML display in
notebooks. The tables, sentences and figures are the same as those of the commands.
"""

from __future__ import annotations

import shutil
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import tomli_w

from endive.analysis.run_metrics import ALL
from endive.config.load import check_document, read_toml
from endive.config.schema import Document
from endive.output_files import write_text
from endive.pipeline.jobs import LocalThreads
from endive.pipeline.session import SparkOptions, active_session, spark_session
from endive.report import ReportError
from endive.report.answer import answer_study, describe_windows, warn_study
from endive.report.comparison import Alternatives, Side
from endive.report.figure import Axis, Figure
from endive.report.figures import build_figure, build_report_figures, try_figures
from endive.report.figures.line_charts import build_search_figure
from endive.report.page import render_page
from endive.report.paper import FORMATS, Size, make_vegalite, render_svg, save_figure
from endive.report.phrases import describe_window
from endive.report.search_answer import FrontierAnswer
from endive.report.sections import make_page, warn_configurations
from endive.report.study_data import Study as StudyData
from endive.report.study_data import load_study
from endive.report.tuning_answer import TuningAnswer
from endive.report.verdicts import describe_ranked_side, explain_aborts, name_metric, name_subject, summarize_comparison
from endive.runs.identity import compute_experiment_hash
from endive.runs.layout import REPORT, RESULTS, run_directory
from endive.runs.row_files import ROWS_KEPT, rows_missing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Tree = dict[str, Any]
_OVERVIEW = (
    "n_seeds",
    "offered_per_s",
    "throughput_per_s",
    "success_rate",
    "time_to_commit_p50_ms",
    "time_to_commit_p95_ms",
    "time_to_commit_p99_ms",
    "retries_per_txn",
    "saturated",
)
"""Metrics in the table ``overview``."""
_TRANSACTIONS, _OVERVIEW_TABLE = "transactions", "overview"
STUDY_TABLES = (_OVERVIEW_TABLE, "runs", "experiments", "saturation", "distributions", "over_time", _TRANSACTIONS)
"""Tables of a study."""


class Configuration:
    """A checked configuration of a simulation.

    Example:
        ```python
        config = endive.load("endive.toml")
        faster = config.set({"storage.provider": "s3x", "transaction.retry": 10})
        ```
    """

    def __init__(self, tree: Mapping[str, Any], source: str = "configuration", directory: Path | str = ".") -> None:
        self._tree = plain_tree(tree)
        self._source, self._directory = source, Path(directory)
        self._document = check_document(self._tree, source, self._directory)

    @classmethod
    def read(cls, path: Path | str) -> Configuration:
        """Read and check a TOML file."""
        return cls(read_toml(Path(path)), str(path), Path(path).parent)

    @property
    def source(self) -> str:
        """File of the configuration, or ``configuration`` for a dict."""
        return self._source

    @property
    def directory(self) -> Path:
        """Directory to which paths in the configuration are relative."""
        return self._directory

    @property
    def document(self) -> Document:
        """Sections and keys of the configuration as typed attributes, such as ``document.storage.provider``."""
        return self._document

    @property
    def hash(self) -> str:
        """Hash of the experiment. Configurations with the same hash produce the same rows."""
        return compute_experiment_hash(self._document)

    def set(self, values: Mapping[str, Any]) -> Configuration:
        """Return a copy of the configuration with new values for some keys.

        Args:
            values: New values by dotted key, such as ``{"storage.provider": "s3x"}``.

        Raises:
            ConfigError: If a key does not exist, or a value is invalid.
        """
        from endive.config.load import with_override

        tree = self._tree
        for key, value in plain_tree(values).items():
            tree = with_override(tree, self._source, key, value)
        return Configuration(tree, self._source, self._directory)

    def to_dict(self) -> Tree:
        """Return the configuration as nested dicts, with the keys of the TOML file."""
        return dict(plain_tree(self._tree))

    def to_toml(self) -> str:
        """Return the configuration as the text of a TOML file."""
        return tomli_w.dumps(self._tree)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Configuration) and other._tree == self._tree

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        classes = ", ".join(self._document.workload) or "one class"
        seconds = self._document.simulation.duration_ms / 1000.0
        return f"<endive.Configuration {self._source}: {seconds:g} s, {self._document.storage.provider}, {classes}; {self.hash}>"

    def _repr_html_(self) -> str:
        return f"<p>{escape(repr(self))}</p><pre>{escape(self.to_toml())}</pre>"


def plain_tree(value: Any) -> Any:
    """Return a copy of nested values that contains only types of TOML, such as dicts, lists, strings and numbers."""
    if isinstance(value, Mapping):
        return {str(key): plain_tree(each) for key, each in value.items()}
    if isinstance(value, Path):
        return str(value)
    if hasattr(value, "tolist"):
        value = value.tolist()
    return [plain_tree(each) for each in value] if isinstance(value, list | tuple | range) else value


class Chart:
    """A figure, which notebooks show interactively (Vega-Lite) and ``save`` writes as PNG, SVG or PDF.

    Example:
        ```python
        chart = study.figure("latency_distribution")
        chart.save("latency.pdf", width=3.3)
        ```
    """

    def __init__(self, figure: Figure) -> None:
        self._figure = figure

    @property
    def name(self) -> str:
        """Name of the figure."""
        return self._figure.name

    @property
    def title(self) -> str:
        """Title of the figure."""
        return self._figure.title

    @property
    def definition(self) -> str:
        """Definition of the values that the figure shows."""
        return self._figure.definition

    def to_pandas(self) -> pd.DataFrame:
        """Return the data of the figure as a pandas frame, with one row for each mark."""
        return self._figure.data.copy()

    def to_arrow(self) -> pa.Table:
        """Return the data of the figure as an Arrow table."""
        return pa.Table.from_pandas(self._figure.data, preserve_index=False)

    def to_dict(self) -> Tree:
        """Return the Vega-Lite specification of the figure, including the data."""
        return make_vegalite(self._figure)

    def save(self, path: Path | str, *, width: float | None = None, height: float | None = None, title: bool = True) -> Path:
        """Write the figure to a file and return its path.

        Args:
            path: Path that ends in ``.png``, ``.svg`` or ``.pdf``.
            width: Width in inches; by default the natural width of the figure.
            height: Height in inches; by default the natural height of the figure.
            title: Whether to print the title above the figure.

        Raises:
            ReportError: If the format is unknown, or the size is too small for the figure.
        """
        path = Path(path)
        kind = path.suffix.lstrip(".").lower()
        if kind not in FORMATS:
            raise ReportError(f"{path}: formats are {', '.join(FORMATS)}")
        (written,) = save_figure(self._figure, path.parent, [kind], Size(width, height, title), name=path.stem)
        return written

    def __repr__(self) -> str:
        return f"<endive.Chart {self.name}: {self.title}>"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Tree:
        """Return the chart for notebooks: Vega-Lite, with SVG as a fallback."""
        from endive.report.paper import find_vegalite_version

        major = find_vegalite_version().partition(".")[0].lstrip("v")
        svg = render_svg(self._figure, Size())
        return {f"application/vnd.vegalite.v{major}+json": self.to_dict(), "image/svg+xml": svg, "text/plain": repr(self)}


class _Answer:
    """Base class of results: findings in sentences, a table, and figures."""

    def summary(self) -> str:
        """Return the findings, one sentence on each line."""
        raise NotImplementedError

    def to_pandas(self) -> pd.DataFrame:
        """Return the table of the result as a pandas frame."""
        raise NotImplementedError

    def to_arrow(self) -> pa.Table:
        """Return the table of the result as an Arrow table."""
        return pa.Table.from_pandas(self.to_pandas(), preserve_index=False)

    def _repr_html_(self) -> str:
        lines = "".join(f"<li>{escape(line)}</li>" for line in self.summary().splitlines())
        table = self.to_pandas().to_html(index=False, na_rep="–", float_format=lambda value: f"{value:.4g}", max_rows=20)
        return f"<p>{escape(repr(self))}</p><ul>{lines}</ul>{table}"


Sessions = Callable[[], "AbstractContextManager[SparkSession | LocalThreads]"]


def choose_session(spark: SparkSession | SparkOptions | str | None) -> Sessions:
    """Return a function that opens a Spark session: the given one, the active one, or a new one that is stopped after use.

    Args:
        spark: A session, the URL of a master (``local[4]``, ``spark://HOST:PORT``, ``yarn``) or of a Spark Connect server
            (``sc://HOST:PORT``), options, or None. None selects the active session; if no session is active, a new local session on
            all cores.
    """
    if isinstance(spark, str):
        spark = SparkOptions(remote=spark) if spark.startswith("sc://") else SparkOptions(master=spark)
    given = active_session() if spark is None else spark
    if given is None or isinstance(given, SparkOptions):
        options = given or SparkOptions()
        return lambda: spark_session(options)
    return lambda: nullcontext(given)


class Study(_Answer):
    """Measured runs: those of a directory of experiments, of one experiment, or a single run.

    ``endive.run`` and ``endive.sweep`` return a study. ``Study(path)`` opens results that a command wrote, and measures the runs
    that have no metrics yet. In a directory of experiments, Spark measures the runs.

    Args:
        path: Directory of experiments, of one experiment, or of one run.
        spark: Spark session that measures the runs, or URL of a master or Spark Connect server. By default, the active session; if
            no session is active, local mode.
        load: Key of the parameter on the load axis of figures; by default the arrival rate that varies.
        warmup_ms: Length of the warm-up, which is excluded from all metrics; by default determined from the runs.
        cooldown_ms: Length of the cool-down at the end of the run, which is excluded from all metrics.

    Raises:
        ReportError: If there are no results at the path.

    Example:
        ```python
        study = endive.Study("experiments/load_by_provider")
        print(study.summary())
        study.to_pandas()
        study.figure("throughput_load")
        ```
    """

    def __init__(
        self,
        path: Path | str,
        *,
        spark: SparkSession | str | None = None,
        load: str | None = None,
        warmup_ms: float | None = None,
        cooldown_ms: float | None = None,
        _sessions: Sessions | None = None,
    ) -> None:
        self._data = load_study(
            path, load=load, warmup_ms=warmup_ms, cooldown_ms=cooldown_ms, sessions=_sessions or choose_session(spark)
        )

    def _remove_at_end(self, directory: Path) -> None:
        """Remove a temporary directory when the study is garbage-collected."""
        weakref.finalize(self, shutil.rmtree, directory, ignore_errors=True)

    @property
    def path(self) -> Path:
        """Directory of the runs."""
        return self._data.path

    @property
    def data(self) -> StudyData:
        """Tables and metadata of the study, as used by figures and reports."""
        return self._data

    @property
    def figures(self) -> dict[str, str]:
        """Titles of the figures that can be drawn for the study, by name."""
        return {name: figure.title for name, figure, _ in try_figures(self._data) if figure is not None}

    def summary(self) -> str:
        """Return the findings, the measurement window and warnings."""
        warnings = [*warn_study(self._data), *warn_configurations(self._data)]
        return "\n".join([*answer_study(self._data), describe_windows(self._data), *warnings])

    def to_pandas(self, table: str = _OVERVIEW_TABLE) -> pd.DataFrame:
        """Return a table of the study as a pandas frame.

        Args:
            table: ``overview`` (the main metrics of each configuration and class), ``experiments`` (all metrics with intervals),
                ``runs`` (all metrics of each seed), ``saturation``, ``distributions``, ``over_time``, or ``transactions`` (the rows
                of all runs; this can be large).

        Raises:
            ValueError: If there is no such table.
        """
        if table == _OVERVIEW_TABLE:
            return self._make_overview()
        if table == _TRANSACTIONS:
            frame: pd.DataFrame = self._read_transactions().to_pandas()
            return frame
        if table not in STUDY_TABLES:
            raise ValueError(f"unknown table {table!r}; tables are {', '.join(STUDY_TABLES)}")
        found: pd.DataFrame = getattr(self._data, table)
        return found.copy()

    def to_arrow(self, table: str = _OVERVIEW_TABLE) -> pa.Table:
        """Return a table of the study as an Arrow table. ``to_pandas`` lists the names."""
        if table == _TRANSACTIONS:
            return self._read_transactions()
        return pa.Table.from_pandas(self.to_pandas(table), preserve_index=False)

    def figure(self, name: str | None = None) -> Chart:
        """Return a figure by name, by default the most informative figure.

        Raises:
            ReportError: If no figure has this name, or the study has no data for the figure. ``figures`` lists the available names.
        """
        if name is not None:
            return Chart(build_figure(self._data, name))
        found = build_report_figures(self._data)
        if not found:
            raise ReportError(f"{self.path}: the study has no data for any figure")
        return Chart(found[0])

    def report(self, path: Path | str | None = None) -> Path:
        """Write the report of the study as a self-contained HTML file, by default next to the runs, and return the path."""
        file = self._data.figures_folder.parent / REPORT if path is None else Path(path)
        write_text(file, render_page(make_page(self._data, build_report_figures(self._data))))
        return file

    def _make_overview(self) -> pd.DataFrame:
        table = self._data.experiments
        several = len(self._data.classes) > 1
        chosen = table[(table["operation_type"] == ALL) & ((table["workload_class"] == ALL) | several)]
        order = {each.label: place for place, each in enumerate(self._data.series)}
        chosen = chosen.sort_values(["series", "x"], key=lambda c: c.map(order) if c.name == "series" else c, kind="stable")
        axis = self._data.axis
        columns: dict[str, Any] = {"configuration": chosen["series"].fillna(self._data.name)}
        if axis is not None:
            columns[axis.column.removeprefix("param_")] = chosen["x"]
        if several:
            columns["workload_class"] = chosen["workload_class"]
        return pd.DataFrame({**columns, **{name: chosen[name] for name in _OVERVIEW}}).reset_index(drop=True)

    def _read_transactions(self) -> pa.Table:
        """Return the rows of all runs, with additional columns for the experiment and the seed."""
        tables = []
        for experiment, seed, file in self._list_results():
            rows = pq.read_table(file)
            if ROWS_KEPT in (rows.schema.metadata or {}):
                raise ReportError(f"{file}: {rows_missing('sample' if len(rows) else 'none')}")
            own = {"experiment": pa.array([experiment] * len(rows), pa.string()), "seed": pa.array([seed] * len(rows), pa.int64())}
            tables.append(pa.table({**own, **{name: rows.column(name) for name in rows.column_names}}))
        return pa.concat_tables(tables)

    def _list_results(self) -> Iterator[tuple[str, int, Path]]:
        if self._data.single_runs:
            (name,) = self._data.manifest.experiments
            yield from ((name, run.seed, run.results) for run in self._data.single_runs)
            return
        for name, experiment in self._data.manifest.experiments.items():
            for seed in experiment.seeds:
                yield name, seed, run_directory(self.path / name, seed) / RESULTS

    def __repr__(self) -> str:
        about = self._data.provenance()
        return (
            f"<endive.Study {self._data.name}: {about['experiments']} configurations, {len(about['seeds'])} seeds, "
            f"{about['transactions']:,} transactions>"
        )


class Comparison(_Answer):
    """Comparison of configurations with a baseline, with 95% intervals of the differences from paired seeds.

    Example:
        ```python
        found = endive.compare({"S3": config, "S3 Express": config.set({"storage.provider": "s3x"})}, seeds=10)
        print(found.summary())
        found.to_pandas()
        ```
    """

    def __init__(self, found: Alternatives, sides: Sequence[Side]) -> None:
        self._found, self._sides = found, tuple(sides)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the configurations, the baseline first."""
        return tuple(side.name for side in self._sides)

    def summary(self) -> str:
        """Return the findings, the abort reasons, the measurement window and warnings."""
        found = [*summarize_comparison(self._found), *explain_aborts(self._sides), describe_window(self._sides[0].window)]
        return "\n".join([*found, *self._found.warnings])

    def to_pandas(self) -> pd.DataFrame:
        """Return each difference from the baseline, by metric, workload class and configuration, and whether it is significant."""
        return pd.DataFrame(list(self._list_rows()))

    def figure(self, metric: str = "success_rate") -> Chart:
        """Return a bar chart that compares a metric of all transactions between the configurations, with 95% intervals.

        Args:
            metric: Metric of the comparison, such as ``throughput_per_s``.

        Raises:
            ReportError: If the metric is not part of the comparison.
        """
        table = self.to_pandas()
        chosen = table[(table["metric"] == metric) & (table["workload_class"] == ALL)]
        if chosen.empty:
            known = dict.fromkeys(table.loc[table["workload_class"] == ALL, "metric"])
            raise ReportError(f"{metric} is not compared; metrics are {', '.join(known)}")
        return Chart(_draw_bars(chosen, metric, f"{name_metric(metric).capitalize()} by configuration"))

    def _list_rows(self) -> Iterator[Tree]:
        for ranking in self._found.rankings:
            subject = ranking.subject
            for each in ranking.sides:
                difference = None if each.comparison is None else each.comparison.difference
                yield {
                    "metric": subject.metric,
                    "workload_class": subject.workload_class,
                    "operation_type": subject.operation,
                    "configuration": each.name,
                    "value": each.estimate.mean,
                    "low": each.estimate.low,
                    "high": each.estimate.high,
                    "difference": None if difference is None else difference.difference,
                    "half_width": None if difference is None else difference.half_width,
                    "significant": None if each.comparison is None else each.comparison.is_significant,
                    "better": None if each.comparison is None else each.comparison.better,
                    "verdict": describe_ranked_side(each),
                }

    def __repr__(self) -> str:
        return f"<endive.Comparison of {', '.join(self.names)}: {len(self._sides[0].runs)} seeds>"


def _draw_bars(table: pd.DataFrame, metric: str, title: str) -> Figure:
    data = table[["configuration", "value", "low", "high"]].reset_index(drop=True)
    share = metric.endswith("_rate")
    unit = " (ms)" if metric.endswith("_ms") else " (1/s)" if metric.endswith("_per_s") else ""
    return Figure(
        name=metric,
        title=title,
        definition=f"{title}: mean across seeds with its 95% interval.",
        kind="bars",
        data=data,
        x=Axis("configuration", "configuration", "category"),
        y=Axis("value", f"{name_metric(metric)}{unit}", percent=share),
        low="low",
        high="high",
    )


class Frontier(_Answer):
    """Lowest load at which a condition is met, with its 95% interval.

    Example:
        ```python
        limit = endive.frontier(config, vary="workload.ingest.rate", until="success < 99%")
        limit.load, limit.low, limit.high
        ```
    """

    def __init__(self, answer: FrontierAnswer) -> None:
        self._answer = answer

    @property
    def load(self) -> float | None:
        """Lowest load at which the condition is met; None if no load in the searched range meets it."""
        return self._answer.found.load

    @property
    def low(self) -> float | None:
        """Lower end of the 95% interval of the load; None if the interval has no lower end."""
        return self._answer.found.low

    @property
    def high(self) -> float | None:
        """Upper end of the 95% interval of the load; None if the interval has no upper end."""
        return self._answer.found.high

    def summary(self) -> str:
        """Return the findings and the measurement windows."""
        return "\n".join([*self._answer.record["answer"], *self._answer.record["window"]])

    def to_pandas(self) -> pd.DataFrame:
        """Return the metric at each load of the search, with its 95% interval, the number of seeds, and whether the condition is
        met.
        """
        rows = []
        for point in self._answer.found.points:
            each = point.estimate
            numbers = {"value": None, "low": None, "high": None} if each is None else _interval(each.mean, each.low, each.high)
            rows.append({"load": point.load, **numbers, "seeds": point.seeds, "verdict": point.verdict})
        return pd.DataFrame(rows)

    def figure(self, name: str = "frontier") -> Chart:
        """Return a figure of the metric versus the load."""
        question = self._answer.question
        return Chart(build_search_figure(self._answer.found, question.vary, question.condition, name))

    def __repr__(self) -> str:
        found, question = self._answer.found, self._answer.question
        load = "not found" if found.load is None else f"{found.load:.4g}"
        return f"<endive.Frontier {question.condition.text} over {question.vary}: {load}>"


def _interval(value: float, low: float, high: float) -> Tree:
    return {"value": value, "low": low, "high": high}


class Tuning(_Answer):
    """Settings that optimize a metric, compared with the current settings and with Iceberg's defaults.

    Example:
        ```python
        tuned = endive.tune(config, "time_to_commit_p99", subject_to="success >= 99%")
        config.set(tuned.best)
        ```
    """

    def __init__(self, answer: TuningAnswer) -> None:
        self._answer = answer

    @property
    def best(self) -> Tree | None:
        """Best settings, as values by dotted key; None if no candidate meets the conditions."""
        found: Tree | None = self._answer.record["settings"]
        return found

    def summary(self) -> str:
        """Return the findings and the measurement window."""
        return "\n".join([*self._answer.record["answer"], *self._answer.record["window"]])

    def to_pandas(self) -> pd.DataFrame:
        """Return the metric of each candidate in the final comparison, with its 95% interval."""
        rows = [
            {"configuration": each["name"], **_interval(each["mean"], each["low"], each["high"]), "settings": each["settings"]}
            for each in self._answer.record["last_comparison"]
        ]
        return pd.DataFrame(rows)

    def figure(self, name: str = "tuning") -> Chart:
        """Return a bar chart of the metric of each candidate in the final comparison, with 95% intervals."""
        metric = self._answer.question.objective.metric
        title = f"{name_subject(self._answer.question.objective)} by settings"
        return Chart(_draw_bars(self.to_pandas(), metric, f"{title[:1].upper()}{title[1:]}"))

    def __repr__(self) -> str:
        return f"<endive.Tuning for {self._answer.record['for']}: {self._answer.record['best'] or 'no settings found'}>"
