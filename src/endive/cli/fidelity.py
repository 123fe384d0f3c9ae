"""``endive fidelity``: compare a model with observations."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from endive.cli.app import JsonFlag, app, command
from endive.cli.import_ import CatalogOption
from endive.cli.options import ConfigArgument, SetOption, overrides_of

if TYPE_CHECKING:
    import pandas as pd

    from endive.analysis.estimates import Estimate
    from endive.calibrate.fidelity import Comparison
    from endive.calibrate.reports import CommitReport
    from endive.calibrate.table_history import History

    Source = History | tuple[CommitReport, ...]

_SEEDS = 5


@app.command()
def fidelity(
    config: ConfigArgument,
    against: Annotated[list[str], typer.Option(metavar="SOURCE", help="Commit reports (JSON lines), or a table as for `import`.")],
    set_: SetOption = [],  # noqa: B006
    catalog: CatalogOption = None,
    json: JsonFlag = False,
) -> None:
    """Compare attempts, durations and intervals between commits with observations, with a verdict for each metric."""
    with command(json) as output:
        from endive.calibrate import InputError
        from endive.calibrate.answers import simulate
        from endive.calibrate.fidelity import combine_verdicts, correct_verdicts, explain

        changes = overrides_of(set_)
        sources = [_read(source, catalog) for source in against]
        rows = simulate(config, {**_table_then(config, sources, changes), **changes}, range(1, _SEEDS + 1))
        comparisons = correct_verdicts([each for source in sources for each in _compare(source, rows)])
        if not comparisons:
            raise InputError(f"{', '.join(against)}: no operation has at least 20 commits in both sources")
        verdict, reasons = combine_verdicts(comparisons), explain(comparisons)
        output.table(
            f"{config} compared with {', '.join(against)}",
            ("metric", "observed", "simulated", "ratio", "verdict"),
            [_row(each) for each in comparisons],
        )
        summary = f"The model is {verdict} to the observations." if verdict != "cannot tell" else "Too few commits for a verdict."
        output.text("", summary, *(f"- {reason}" for reason in reasons))
        output.result({"verdict": verdict, "comparisons": [_data(each) for each in comparisons], "explanations": reasons})


def _read(source: str, catalog: str | None) -> Source:
    """Return the commit reports in a file of JSON lines, or the history of a table."""
    from endive.calibrate.reports import read_reports
    from endive.calibrate.sources import open_history

    if source.lower().removesuffix(".gz").endswith((".jsonl", ".ndjson")):
        return read_reports(Path(source))
    return open_history(source, catalog)


def _table_then(config: Path, sources: list[Source], changes: dict[str, Any]) -> dict[str, Any]:
    """Set the initial table of the model to its state at the start of the history."""
    from endive.calibrate.fidelity import list_start_keys
    from endive.calibrate.table_history import History
    from endive.config.load import load_document

    table = load_document(config, changes).table.model_dump()
    return {key: value for each in sources if isinstance(each, History) for key, value in list_start_keys(each, table).items()}


def _compare(source: Source, rows: pd.DataFrame) -> list[Comparison]:
    """Compare the model with commit reports or with a history."""
    from endive.calibrate.fidelity import compare_failures, compare_history, compare_reports
    from endive.calibrate.table_history import History

    if isinstance(source, History):
        return [*compare_history(source, rows), *compare_failures(source, rows)]
    return compare_reports(source, rows)


def _row(each: Comparison) -> tuple[str, ...]:
    from endive.formatting import format_duration, format_number, format_percent, format_percent_range, join_ends

    def show(estimate: Estimate) -> str:
        if "share" in each.measure:
            return f"{format_percent(estimate.mean)} ({format_percent_range(estimate.low, estimate.high)})"
        word = format_number if "attempts" in each.measure or "variation" in each.measure else format_duration
        return f"{word(estimate.mean)} ({join_ends(word(estimate.low), word(estimate.high))})"

    return (
        f"{each.operation}: {each.measure}",
        show(each.observed),
        show(each.simulated),
        "-" if each.ratio != each.ratio else f"{each.ratio:.2f}",
        each.verdict,
    )


def _data(each: Comparison) -> dict[str, Any]:
    def values(estimate: Estimate) -> dict[str, float]:
        return {"value": estimate.mean, "low": estimate.low, "high": estimate.high}

    return {
        "measure": each.measure,
        "operation": each.operation,
        "observed": values(each.observed),
        "simulated": values(each.simulated),
        "ratio": None if each.ratio != each.ratio else each.ratio,
        "verdict": each.verdict,
    }
