"""Figures as values: every number in them is one of the tables of metrics, and every axis says its unit."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from endive.analysis.conditions import Subject
from endive.analysis.run_metrics import ALL
from endive.config.load import check_document
from endive.report import ReportError
from endive.report.figure import Axis, Figure, read_reference
from endive.report.figures import FIGURES, build_figure, build_figures, build_report_figures, try_figures
from endive.report.study_data import Study
from endive.report.style import PALETTE, PART_COLOURS
from endive.simulation.columns import TIME_WORDS
from endive.storage.prices import Prices
from tests.pipeline.runs import document, run_all
from tests.report.studies import measured, one_experiment
from tests.report.synthetic import Point, synthetic_study

UNITLESS = {
    "configuration",
    "operation",
    "workload class",
    "object store",
    "transaction",
    "catalog",
    "manifest lists",
    "tables",
    "retries/txn",
}
"""Titles of axes that show names or counts."""


@pytest.fixture(params=["mixed", "designs", "single"])
def study(request: pytest.FixtureRequest) -> Study:
    found: Study = request.getfixturevalue(request.param)
    return found


def same(left: Any, right: Any) -> bool:
    return (pd.isna(left) and pd.isna(right)) or math.isclose(left, right, rel_tol=1e-12, abs_tol=1e-12)


def row_of(study: Study, drawn: pd.Series[Any]) -> Any:
    """The row of the table of experiments that a mark is of."""
    table = study.experiments
    found = table[
        (table["experiment"] == drawn["experiment"])
        & (table["workload_class"] == drawn["workload_class"])
        & (table["operation_type"] == drawn["operation_type"])
    ]
    assert len(found) == 1
    return found.iloc[0]


METRIC = {
    "throughput_load": "throughput_per_s",
    "success_load": "success_rate",
    "success_latency": "success_rate",
    "frontier": "success_rate",
    "overhead": "overhead",
    "retries": "retries_per_txn",
    "catalogs_throughput": "throughput_per_s",
    "catalogs_latency": "time_to_commit_p95_ms",
    "success_by_operation": "success_rate",
    "success_by_class": "success_rate",
    "latency_by_operation": "time_to_commit_p95_ms",
    "latency_by_class": "time_to_commit_p95_ms",
}


OVER_TIME = {
    "commit_rate_time": "commits_per_s",
    "committing_time": "committing",
    "success_time": "success_rate",
    "latency_time": "time_to_commit_p50_ms",
    "retries_time": "retries_per_txn",
}
"""Columns of the table over time."""


def metric_of(figure: Figure, drawn: pd.Series[Any]) -> str:
    if figure.name == "latency_throughput":
        return f"time_to_commit_{drawn['percentile']}_ms"
    if figure.kind == "stacked":
        return f"mean_{next(name for name, word in TIME_WORDS.items() if word == drawn['part'])}"
    if figure.kind == "heatmap":
        assert figure.value is not None
        return figure.value.column
    return METRIC[figure.name]


def test_numbers_are_those_of_the_table_of_experiments(study: Study) -> None:
    checked = 0
    for figure in build_figures(study):
        if figure.name in ("latency_distribution", "sustainable_throughput", "cost") or figure.name in (
            *OVER_TIME,
            "metadata_time",
            "manifests_time",
        ):
            continue
        column = figure.value.column if figure.value is not None else figure.y.column
        for _, drawn in figure.data.iterrows():
            row, metric = row_of(study, drawn), metric_of(figure, drawn)
            assert same(drawn[column], row[metric]), (figure.name, metric)
            if figure.high is not None:
                width = row[f"{metric}_hw"]
                most = 1.0 if figure.y.percent else math.inf
                ends = (max(0.0, row[metric] - width), min(most, row[metric] + width)) if pd.notna(width) else (math.nan, math.nan)
                low, high = (row.get(f"{metric}_{end}", usual) for end, usual in zip(("low", "high"), ends, strict=True))
                assert same(drawn["low"], low)
                assert same(drawn["high"], high)
            if figure.name == "latency_throughput":
                assert same(drawn["throughput"], row["throughput_per_s"])
            if figure.name == "throughput_load":
                assert same(drawn["offered"], row["offered_per_s"])
            checked += 1
    assert checked > 5


def test_sustainable_throughput_is_the_table_of_saturation(mixed: Study) -> None:
    data = build_figure(mixed, "sustainable_throughput").data.set_index("series")
    table = mixed.saturation.set_index("series")
    assert set(data.index) == {"S3", "S3 Express"}
    for name in data.index:
        for column, source in (("y", "saturation_load"), ("low", "saturation_low"), ("high", "saturation_high")):
            assert same(data.loc[name, column], table.loc[name, source])


def test_distributions_are_the_table_of_distributions(mixed: Study) -> None:
    data = build_figure(mixed, "latency_distribution").data
    table = mixed.distributions
    table = table[(table["workload_class"] == "all") & (table["operation_type"] == "all")]
    by_place = {(row["experiment"], row["slower_share"]): row for row in table.to_dict("records")}
    for _, drawn in data.iterrows():
        row = by_place[drawn["experiment"], drawn["slower_share"]]
        assert same(drawn["latency"], row["commit_latency_ms"])
        assert same(drawn["latency_high"], row["commit_latency_ms"] + row["commit_latency_ms_hw"])
        assert drawn["slower_share"] in (1.0,) or drawn["slower_share"] * row["committed"] >= 1.0
    assert set(data["series"]) == {"S3", "S3 Express"}


@pytest.mark.parametrize(("name", "column"), OVER_TIME.items())
def test_figures_over_time_equal_the_table_over_time(busy: Study, name: str, column: str) -> None:
    data = build_figure(busy, name).data
    data = data[data["panel"] == "all classes"]
    table = busy.over_time[(busy.over_time["workload_class"] == "all") & (busy.over_time["operation_type"] == "all")]
    table = table.assign(time_s=(table["from_ms"] + table["to_ms"]) / 2000.0).dropna(subset=[column])
    merged = data.merge(table, on=["experiment", "time_s"])
    assert len(merged) == len(data) == len(table) > 0
    assert (merged["y"] == merged[column]).all()
    if name in ("commit_rate_time", "committing_time"):
        assert len(data) == 60


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Study:
    """Enough transactions for a median in each sixtieth of the run."""
    root = tmp_path_factory.mktemp("busy")
    one_experiment(root, seeds=2, workload__ingest__rate=60.0)
    return measured(next(root.glob("mixed-*")))


def scheduled(root: Path) -> Study:
    """A run in which the rate of one class changes twice."""
    tree = document().model_dump(mode="json", exclude_unset=True, exclude_none=True)
    del tree["workload"]["ingest"]["rate"]
    tree["workload"]["ingest"]["schedule"] = [{"from": 1e3 * at, "rate": rate} for at, rate in ((0, 2.0), (5, 8.0), (15, 2.0))]
    run_all([check_document(tree, "test")], root, range(3))
    return measured(next(root.glob("mixed-*")))


def test_the_schedule_is_marked_and_comes_first(tmp_path: Path) -> None:
    study = scheduled(tmp_path)
    figure = build_figure(study, "success_time")
    assert [(mark.value, mark.label, mark.along) for mark in figure.thresholds] == [
        (5.0, "ingest 8/s", "x"),
        (15.0, "ingest 2/s", "x"),
    ]
    assert set(figure.data["panel"]) == {"all classes", "ingest", "upkeep"}
    assert [figure.name for figure in build_report_figures(study)][:3] == ["success_time", "committing_time", "commit_rate_time"]
    with pytest.raises(ReportError, match="latency_time cannot be drawn: too few transactions start committing in each interval"):
        build_figure(study, "latency_time")
    rate = build_figure(study, "commit_rate_time").data
    ingest = rate[rate["panel"] == "ingest"]
    busy = ingest[(ingest["time_s"] > 6.0) & (ingest["time_s"] < 15.0)]["y"].mean()
    assert busy > 1.5 * ingest[ingest["time_s"] < 5.0]["y"].mean()


def test_a_steady_load_has_no_marks(mixed: Study) -> None:
    assert build_figure(mixed, "success_time").thresholds == ()
    assert "success_time" not in [figure.name for figure in build_report_figures(mixed)]


def test_parts_of_time_add_up_to_the_latency(mixed: Study) -> None:
    sums = build_figure(mixed, "time_parts").data.groupby("experiment")["y"].sum()
    totals = mixed.totals().set_index("experiment")["total_latency_mean_ms"]
    assert len(sums) == len(totals) == 6
    assert sums.to_dict() == pytest.approx(totals.to_dict(), rel=1e-9)


def test_axes_have_units(study: Study) -> None:
    for figure in build_figures(study):
        axes: list[Axis] = [figure.x, figure.y, *([figure.value] if figure.value else [])]
        for axis in axes:
            assert re.search(r"\(.+\)$", axis.title) or axis.title in UNITLESS, (figure.name, axis.title)
            assert axis.column in figure.data.columns
            assert "_" not in axis.title


def test_every_figure_is_defined_in_words(study: Study) -> None:
    for figure in build_figures(study):
        assert figure.definition.endswith(".")
        assert figure.title
        assert set(figure.filters) <= set(figure.data.columns)
        assert len(figure.data) > 0


def test_intervals_are_there_where_there_are_seeds(mixed: Study) -> None:
    for figure in build_figures(mixed):
        if figure.kind == "heatmap":
            continue
        ends = [name for name in (figure.low, figure.high, figure.x_low, figure.x_high) if name is not None]
        assert len(ends) >= 2, figure.name
        assert figure.data[ends].notna().to_numpy().any(), figure.name


def test_the_cost_of_requests_is_computed_from_runs(mixed: Study) -> None:
    """Writes of metadata files on S3, 0.005 USD per 1,000: by hand from the rows of each class, run by run."""
    data = build_figure(mixed, "cost").data
    drawn = data[(data["series"] == "S3") & (data["part"] == "metadata file writes")].iloc[0]
    rows = mixed.runs[(mixed.runs["experiment"] == drawn["experiment"]) & (mixed.runs["operation_type"] == "all")]
    rows = rows[rows["workload_class"] != "all"]
    writes = rows[["metadata_writes", "manifest_list_writes", "manifest_file_writes", "manifest_list_appends"]].sum(axis=1)
    by_seed = 0.005 * writes.groupby(rows["seed"]).sum() / rows["committed"].groupby(rows["seed"]).sum()
    assert drawn["y"] == pytest.approx(by_seed.mean())
    assert drawn["low"] < drawn["y"] < drawn["high"]
    bar = data[data["experiment"] == drawn["experiment"]]
    assert bar["y"].sum() == pytest.approx(bar["total"].iloc[0])
    assert [text for text in bar["text"] if text] == [f"{bar['total'].iloc[0]:#.3g}"]


def test_without_a_price_requests_are_drawn(mixed: Study) -> None:
    figure = build_figure(replace(mixed, prices=Prices("USD")), "cost")
    assert figure.y.title == "requests for 1,000 commits"
    assert "--prices FILE" in figure.definition


def test_one_seed_has_an_interval_of_its_shares_only_and_a_note(single: Study) -> None:
    """30 of 30 were drawn without an error bar."""
    figure = build_figure(single, "success_by_class")
    assert (figure.data["low"] < figure.data["high"]).all()
    assert build_figure(single, "time_parts").data["low"].isna().all()
    assert any("single seed have no interval" in note for note in figure.notes)


def test_a_configuration_has_one_colour_everywhere(study: Study) -> None:
    colours: dict[str, set[str]] = {}
    for figure in build_figures(study):
        if figure.series is not None:
            for label in figure.data[figure.series]:
                colours.setdefault(label, set()).add(figure.colours[label])
        elif figure.part is not None:
            assert figure.name == "cost" or figure.colours == PART_COLOURS
    assert colours
    assert all(len(found) == 1 for found in colours.values())
    assert {next(iter(found)) for found in colours.values()} <= set(PALETTE)


def test_all_figures_of_a_mixed_sweep_are_there_but_designs(mixed: Study) -> None:
    """No p95 of a class: fewer than a hundred of each entered."""
    absent = {name for name in FIGURES if name.startswith("catalogs")}
    absent |= {
        "latency_by_class",
        "latency_time",
        "manifests_time",
        "metadata_time",
        "question",
        "success_latency",
    }
    assert [figure.name for figure in build_figures(mixed)] == [name for name in FIGURES if name not in absent]


def test_designs_are_compared_side_by_side(designs: Study) -> None:
    figure = build_figure(designs, "catalogs_throughput")
    lists = ("lists rewritten", "ML+")
    inlining = ("inlined metadata", "metadata in files")
    labels = [f"{kind}, {each}, {where}" for kind in ("CAS", "append log") for each in lists for where in inlining]
    assert list(dict.fromkeys(figure.data["series"])) == labels
    assert len(set(figure.data["where"])) == 2
    assert figure.facet is None
    assert "catalog, manifest lists and table metadata" in figure.definition


def test_the_frontier_is_that_of_the_other_classes(mixed: Study) -> None:
    figure = build_figure(mixed, "frontier")
    assert set(figure.data["workload_class"]) == {"upkeep"}
    assert figure.x.title == "ingest rate (transactions/s)"
    assert sum("95%" in note for note in figure.notes) == 2


def test_heatmaps_are_hatched_where_transactions_fail(mixed: Study) -> None:
    data = build_figure(mixed, "heatmap_latency").data
    for _, cell in data.iterrows():
        success = cell["success_rate"]
        assert cell["hatch"] == ("" if success >= 0.95 else "/" if success >= 0.80 else "x")
    assert set(data["hatch"]) != {""}
    assert set(data["down"]) == {"S3", "S3 Express"}


def test_without_a_load_there_are_bars_and_no_curves(single: Study) -> None:
    figures = {figure.name: figure for figure in build_figures(single)}
    assert figures["success_by_operation"].kind == "bars"
    assert set(figures["success_by_operation"].data["member"]) == {"fast append", "merge append", "validated overwrite"}
    assert set(figures["latency_distribution"].data["panel"]) == {"all classes", "ingest", "upkeep"}
    assert "success_load" not in figures
    missing = {name: why for name, figure, why in try_figures(single) if figure is None}
    assert "no numeric parameter" in missing["success_load"]


def test_a_figure_that_cannot_be_drawn_reports_the_reason(single: Study, mixed: Study) -> None:
    with pytest.raises(ReportError, match="success_load cannot be drawn: no numeric parameter varies"):
        build_figure(single, "success_load")
    with pytest.raises(ReportError, match="neither catalog type"):
        build_figure(mixed, "catalogs_latency")
    with pytest.raises(ReportError, match="unknown figure 'succes'; figures are question, frontier, throughput_load"):
        build_figure(mixed, "succes")


def test_a_run_in_which_nothing_happened(tmp_path: Path) -> None:
    one_experiment(tmp_path, seeds=1, simulation__duration_ms=1.0)
    study = measured(next(tmp_path.glob("mixed-*")))
    assert build_figures(study) == []
    assert all(why for _, _, why in try_figures(study))


def loads(count: int) -> Study:
    """A study of two stores at so many loads, made up; at 4 and 12 as at all others, and Google far slower."""
    points: list[Point] = []
    for store, slow in (("S3", 1.0), ("Google Cloud", 100.0)):
        for load in range(1, count + 1):
            at = {f"mean_{part}": 10.0 * slow for part in TIME_WORDS} | {f"mean_{part}_hw": 1.0 for part in TIME_WORDS}
            more = {"retries_per_txn_hw": 0.1, "overhead": 0.5, "overhead_hw": 0.1}
            more |= {f"time_to_commit_p{p}_ms": 100.0 * slow for p in (50, 95, 99)}
            more |= {f"time_to_commit_p{p}_ms_hw": 10.0 for p in (50, 95, 99)}
            points.append({"experiment": f"{store}-{load}", "series": store, "x": float(load), **at, **more})
    study = synthetic_study(points)
    keys = study.experiments[["experiment", "series", "x", "workload_class", "operation_type", "n_seeds"]]
    rates = {f"{column}{end}": 0.9 for column in OVER_TIME.values() for end in ("", "_hw", "_low", "_high")}
    over_time = [keys.assign(from_ms=k * 1e3, to_ms=(k + 1) * 1e3, **rates) for k in range(3)]
    shares = [keys.assign(committed=100.0, slower_share=s, commit_latency_ms=9.0, commit_latency_ms_hw=1.0) for s in (1.0, 0.5)]
    return replace(study, over_time=pd.concat(over_time), distributions=pd.concat(shares))


@pytest.mark.parametrize("count", [2, 8, 13])
def test_all_loads_are_in_all_figures(count: int) -> None:
    study = loads(count)
    seen = {figure.name for figure in build_figures(study)}
    assert {"throughput_load", "success_load", "commit_parts", "time_parts", "latency_distribution", "commit_rate_time"} <= seen
    for figure in build_figures(study):
        if figure.name != "sustainable_throughput":
            assert set(figure.data["x"]) == {float(load) for load in range(1, count + 1)}, figure.name


def test_many_loads_are_colours_and_configurations_are_panels() -> None:
    figure = build_figure(loads(13), "latency_distribution")
    assert (figure.series, figure.facet) == ("load", "panel")
    assert list(figure.colours) == [str(load) for load in range(1, 14)]
    assert set(figure.data["panel"]) == {"S3", "Google Cloud"}


def test_bars_of_parts_are_shares_where_one_would_hide_the_others() -> None:
    points: list[Point] = [
        {"x": float(load), **{f"mean_{part}": mean for part in TIME_WORDS}, **{f"mean_{part}_hw": 1.0 for part in TIME_WORDS}}
        for load, mean in ((1, 10.0), (2, 12.0), (3, 900.0))
    ]
    figure = build_figure(synthetic_study(points), "time_parts")
    assert figure.y.percent
    assert figure.data.groupby("x")["y"].sum().tolist() == pytest.approx([1.0, 1.0, 1.0])
    assert [text for text in figure.data["text"] if text] == ["60 ms", "72 ms", "5.4 s"]
    alike = build_figure(synthetic_study(points[:2]), "time_parts")
    assert alike.y.title == "mean time per transaction (ms)"


def test_the_question_of_a_single_class_is_drawn_once(mixed: Study) -> None:
    def only(table: pd.DataFrame) -> pd.DataFrame:
        return table[table["workload_class"] != "upkeep"]

    tables: dict[str, Any] = {name: only(getattr(mixed, name)) for name in ("runs", "experiments", "distributions", "over_time")}
    alone = replace(mixed, **tables, question=Subject("success_rate", "ingest"))
    names = [figure.name for figure in build_report_figures(alone)]
    assert names[0] == "success_load"
    assert "question" not in names
    of_one = replace(alone, question=Subject("success_rate", "ingest", "fast_append"))
    assert build_report_figures(of_one)[0].name == "question"


def test_a_report_shows_nothing_three_times(mixed: Study, designs: Study) -> None:
    names = [figure.name for figure in build_report_figures(mixed)]
    assert names[:4] == ["frontier", "throughput_load", "latency_throughput", "commit_parts"]
    assert names[-1] == "success_by_class"  # half of it is the frontier
    assert "success_load" not in names  # of two classes together: both are shown apart
    assert not any(name.startswith("heatmap") for name in names)  # two stores: the curves tell it
    assert "heatmap_latency" in [figure.name for figure in build_report_figures(designs)]


def test_the_frontier_has_its_interval() -> None:
    points: list[Point] = [
        {"workload_class": name, "x": load, "success_rate": success if name == "upkeep" else 1.0, "success_rate_hw": 0.02}
        for name in (ALL, "ingest", "upkeep")
        for load, success in ((1.0, 1.0), (2.0, 0.97), (3.0, 0.93), (4.0, 0.80))
    ]
    figure = build_figure(synthetic_study(points), "frontier")
    where = next(line for line in figure.thresholds if line.along == "x")
    assert (where.low, where.value, where.high) == pytest.approx((2.0, 6.0**0.5, 3.0))
    assert "falls below 95% at ingest rate 2.45/s (95% interval: 2–3)" in figure.notes[-1]


def test_orphaned_files_are_noted_in_the_cost_figure(mixed: Study) -> None:
    assert not any("orphaned files" in note for note in build_figure(mixed, "cost").notes)
    runs = mixed.runs.assign(orphaned_files=0)
    left = (runs["series"] == "S3") & (runs["x"] == 6.0) & (runs["workload_class"] == "ingest") & (runs["operation_type"] == ALL)
    runs.loc[left, "orphaned_files"] = 7
    note = next(note for note in build_figure(replace(mixed, runs=runs), "cost").notes if "orphaned files" in note)
    assert re.search(
        r"Maximum number of orphaned files per 1,000 commits: [\d,.]+ with S3 with ingest rate 6/s and 0 with S3 Express with ",
        note,
    ), note


def falling(store: str, *shares: float) -> list[Point]:
    """Success of two classes of a store at the loads 1, 2, ...; that of ingest is whole."""
    return [
        {"experiment": f"{store}-{k}", "series": store, "workload_class": name, "x": k + 1.0}
        | {"success_rate": share if name == "upkeep" else 1.0, "success_rate_hw": 0.02}
        for name in (ALL, "ingest", "upkeep")
        for k, share in enumerate(shares)
    ]


def test_each_of_several_curves_has_its_frontier_marked_with_its_interval() -> None:
    study = synthetic_study([*falling("S3", 1.0, 0.97, 0.93, 0.8), *falling("S3 Express", 1.0, 1.0, 1.0, 1.0)])
    figure = build_figure(study, "frontier")
    (mark,) = figure.crossings
    assert (mark.series, mark.y) == ("S3", 0.95)
    assert (mark.low, mark.x, mark.high) == pytest.approx((2.0, 6.0**0.5, 3.0))
    assert "ticks mark the crossing" in figure.definition
    assert "tick" not in build_figure(synthetic_study(falling("S3", 1.0, 0.97, 0.93, 0.8)), "frontier").definition


def test_missing_percentiles_are_noted_with_the_reason() -> None:
    points = [
        {"experiment": f"{store}-{name}", "series": store, "workload_class": name, "time_to_commit_p95_ms_hw": 1.0}
        | {"time_to_commit_p95_ms": 100.0 if (store, name) == ("S3 Express", "ingest") else None}
        | {"time_to_commit_p95_at_least_ms": math.inf if name == "ingest" else None}
        for store in ("S3", "S3 Express")
        for name in (ALL, "ingest", "upkeep")
    ]
    figure = build_figure(synthetic_study(points), "latency_by_class")
    assert figure.notes[-2:] == (
        "Not shown because transactions abort, so the percentile is infinite: ingest with S3.",
        "Not shown because there are too few transactions: upkeep.",
    )


def test_the_heatmap_comes_first_if_curves_omit_configurations(designs: Study) -> None:
    assert len(designs.visible_series) == len(designs.series)
    hidden = replace(designs, series=(*designs.series[:-1], replace(designs.series[-1], colour=None)))
    assert build_report_figures(hidden)[0].name == "heatmap_throughput"
    assert build_report_figures(designs)[0].name != "heatmap_throughput"
    panels = list(dict.fromkeys(build_figure(designs, "heatmap_throughput").data["panel"]))
    assert panels == [
        f"{lists}, {place}" for lists in ("lists rewritten", "ML+") for place in ("inlined metadata", "metadata in files")
    ]


@pytest.mark.parametrize(("minutes", "unit", "last"), [(10, "s", 595.0), (60, "min", 59.5), (600, "h", 9.9167)])
def test_time_is_in_the_unit_that_its_length_asks_for(minutes: int, unit: str, last: float) -> None:
    study = loads(2)
    part = minutes * 1e3
    study = replace(study, over_time=study.over_time.assign(from_ms=59 * part, to_ms=60 * part))
    figure = build_figure(study, "commit_rate_time")
    assert figure.x == Axis(f"time_{unit}", f"time ({unit})")
    assert figure.data[figure.x.column].max() == pytest.approx(last, rel=1e-4)


def test_a_curve_of_theory_is_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "M_D_1.csv"
    file.write_text("x,y\n1,1\n2,1.9\n")
    curve = read_reference(file)
    assert (curve.label, curve.data["y"].tolist()) == ("M D 1", [1.0, 1.9])
    for text in ("a,b\n1,2\n", "x,y\n1,one\n", "x,y\n1,1\n"):
        file.write_text(text)
        with pytest.raises(ReportError, match=r"M_D_1\.csv: (a curve|expected a CSV file)"):
            read_reference(file)
    with pytest.raises(ReportError, match=r"none\.csv"):
        read_reference(tmp_path / "none.csv")


def test_success_against_p99_has_a_point_for_each_configuration(mixed: Study) -> None:
    study = synthetic_study(
        [{"series": name, "time_to_commit_p99_ms": ms} for name, ms in (("a", 400.0), ("b", 900.0))], by_load=False
    )
    rows = study.experiments.assign(time_to_commit_p99_ms_hw=5.0, success_rate_low=0.99, success_rate_high=1.0)
    figure = build_figure(replace(study, experiments=rows), "success_latency")
    assert figure.data[["series", "latency", "y"]].to_numpy().tolist() == [["a", 400.0, 1.0], ["b", 900.0, 1.0]]
    assert (figure.x.title, figure.y.title) == ("p99 time to commit (ms)", "success (%)")
    with pytest.raises(ReportError, match="needs two or more configurations without a numeric axis"):
        build_figure(mixed, "success_latency")


def test_the_state_of_tables_over_time_is_the_table_over_time_with_the_limit(tmp_path: Path) -> None:
    limit = 10_000_000
    one_experiment(tmp_path, seeds=2, transaction__commit_path="iceberg", catalog__metadata_limit_bytes=limit)
    study = measured(next(tmp_path.glob("mixed-*")))
    table = study.over_time[(study.over_time["workload_class"] == "all") & (study.over_time["operation_type"] == "all")]
    for name, column, unit in (("metadata_time", "table_metadata_bytes", 1e6), ("manifests_time", "table_manifests", 1.0)):
        data = build_figure(study, name).data
        drawn = data[data["panel"] == "all classes"]["y"].to_numpy()
        assert drawn == pytest.approx(table[column].dropna().to_numpy() / unit)
        assert len(drawn) > 30
    (mark,) = build_figure(study, "metadata_time").thresholds
    assert (mark.value, mark.along) == (10.0, "y")
    row = study.totals().iloc[0]
    days = (limit - row["table_metadata_bytes"]) / row["table_metadata_bytes_per_day"]
    assert days > 0.0
    assert mark.label == f"limit of 10 MB, reached on day {math.ceil(days)} by linear growth"


def test_the_state_of_tables_is_not_drawn_where_it_is_not_tracked(busy: Study) -> None:
    with pytest.raises(ReportError, match="metadata_time cannot be drawn: table state is tracked only on Iceberg"):
        build_figure(busy, "metadata_time")
