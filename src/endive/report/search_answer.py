"""Store the runs and the record of ``endive frontier``, ``tune`` and ``screen``, and describe whether a precision was reached."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from endive.analysis.replication_rule import Reached, Width
from endive.config import Document
from endive.config.study import Precision
from endive.formatting import format_count, format_number
from endive.output_files import check_writable, write_text
from endive.report.phrases import note_compilation
from endive.runs.layout import REPLICATIONS_FOLDER
from endive.studies.frontier import VariedFile
from endive.studies.measure import MetricsOptions
from endive.studies.replicate import Replications

Note = Callable[[str], None]
"""Function that prints a line of progress."""
QuestionT = TypeVar("QuestionT", bound=VariedFile)
ResultT = TypeVar("ResultT")


@dataclass(frozen=True)
class SearchAnswer(Generic[QuestionT, ResultT]):
    """Finished search: question, result, record, and the written files."""

    question: QuestionT
    found: ResultT
    record: dict[str, Any]
    files: tuple[Path, ...]


class SearchDirectory:
    """Directory of a search, with its runs and the record of its result."""

    def __init__(self, folder: Path, options: MetricsOptions, document: Document, note: Note) -> None:
        self._started = time.perf_counter()
        check_writable(folder)
        note_compilation(document, note)
        self.folder, self._options = folder, options
        self.replications = Replications(folder / REPLICATIONS_FOLDER, options)

    def write_record(self, name: str, question: VariedFile, content: Mapping[str, Any]) -> dict[str, Any]:
        """Write the result of a search to a JSON file, with the configuration and code version that reproduce the search."""
        record = {
            **content,
            "warmup_ms": self._options.warmup_ms,
            "cooldown_ms": self._options.cooldown_ms,
            "runs": self.replications.runs,
            "seconds": round(time.perf_counter() - self._started, 3),
            **question.describe_origin(),
        }
        write_text(self.folder / name, json.dumps(record, indent=2) + "\n")
        return record


def describe_precision(precision: Precision, reached: Collection[Reached]) -> str:
    """Return whether all experiments reached the requested precision, with the number of seeds and a remedy."""
    counts = sorted(each.seeds for each in reached)
    several = f" in {format_count(len(counts), 'experiment')}" if len(counts) > 1 else ""
    seeds = format_count(counts[-1], "seed") if counts[0] == counts[-1] else f"{counts[0]} to {counts[-1]} seeds"
    wide = [each for each in reached if each.wide]
    if not wide:
        return f"The precision of {precision} is reached with {seeds}{several}."
    stopped = f" in {len(wide)} of {format_count(len(counts), 'experiment')}" if len(counts) > 1 else ""
    return f"The precision of {precision} is not reached{stopped} with {seeds}. {_explain(precision, wide)}"


def _explain(precision: Precision, wide: Collection[Reached]) -> str:
    """Return a sentence about the metric whose interval is farthest from the precision, with a remedy."""
    widths = [width for each in wide for width in each.wide]
    improvable = [width for width in widths if width.is_improvable]
    if improvable:
        widest = max(improvable, key=_ratio)
        return (
            f"With the maximum number of seeds, the half width of {widest.name} is {_format_reached(precision, widest)}. "
            "Raise --max-seeds or simulation.duration_ms."
        )
    longer = "Raise simulation.duration_ms."
    flying = [width for width in widths if width.half_width is not None]
    if flying:
        return f"{flying[0].name} depends on transactions in flight at the end of the run, so more seeds do not help. {longer}"
    return f"{widths[0].name} is only a bound, or has no value, in some runs, so more seeds do not help. {longer}"


def _ratio(width: Width) -> float:
    return float("inf") if width.half_width is None or width.wanted <= 0.0 else width.half_width / width.wanted


def _format_reached(precision: Precision, width: Width) -> str:
    if width.wanted <= 0.0:
        return format_number(width.half_width or 0.0)
    return f"{format_number(100.0 * precision.value * _ratio(width))}{'pp' if precision.shares_only else '%'}"


def precision_as_data(precision: Precision, reached: Collection[Reached]) -> dict[str, Any]:
    """Return data for JSON: whether the precision was reached, and the number of seeds."""
    counts = [each.seeds for each in reached]
    return {
        "precision": str(precision),
        "reached": not any(each.wide for each in reached),
        "not_reached": sum(bool(each.wide) for each in reached),
        "fewest_seeds": min(counts),
        "most_seeds": max(counts),
    }
