"""Fourth mode: a real table made by real clients is imported, and the model is asked whether it is close to what was seen.

A table is written by concurrent writers, a compaction, deletes and expiry; `import` reads its metadata and commit reports;
`fidelity` compares. A model whose latencies are off by 30 % must be called not close.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from endive.calibrate.answers import simulate
from endive.calibrate.assumptions import STORE_SCALE
from endive.calibrate.fidelity import (
    Comparison,
    combine_verdicts,
    compare_failures,
    compare_history,
    compare_reports,
    correct_verdicts,
)
from endive.calibrate.reports import CommitReport, read_reports
from endive.calibrate.sources import open_history
from endive.calibrate.table_history import History
from endive.calibrate.table_import import Imported, import_history
from endive.cli.import_ import write_imported
from verification.iceberg.accesses import Delays
from verification.iceberg.clients import WORKER_THREADS
from verification.iceberg.real_table import EXPIRY, Job, Written, make_real_table

DETUNED = (0.7, 1.3)
_SEEDS = (1, 2, 3, 4, 5)


@dataclass(frozen=True)
class ImportedCase:
    """Who writes a table, and for how long; expiry leaves what is younger than ``kept_s``."""

    name: str
    jobs: tuple[Job, ...]
    access_ms: float = 60.0
    seconds: float = 200.0
    kept_s: float = 170.0


_MAINTENANCE = (
    Job("java", "row_delta_serializable", every_ms=6_000.0, runtime_ms=1_000.0),
    Job("java", "rewrite_files", every_ms=8_000.0, runtime_ms=1_000.0),
    Job("java", EXPIRY, every_ms=20_000.0),
)
CASES = (
    ImportedCase("java", (Job("java", "fast_append", 3, (1_000.0, 3_000.0)), *_MAINTENANCE)),
    ImportedCase(
        "pyiceberg",
        (
            Job("pyiceberg", "fast_append", 2, (500.0, 2_500.0)),
            Job("pyiceberg", "overwrite_serializable", every_ms=8_000.0),
            Job("pyiceberg", EXPIRY, every_ms=20_000.0),
        ),
    ),
    ImportedCase(
        "java and pyiceberg",
        (
            Job("java", "fast_append", 2, (1_500.0, 4_500.0)),
            Job("pyiceberg", "fast_append", 1, (1_000.0, 3_000.0)),
            *_MAINTENANCE,
        ),
    ),
)
WARM_UP = ImportedCase("warm-up", (Job("java", "fast_append", 3), Job("java", "rewrite_files")), 2.0, 4.0, 3.0)


@dataclass(frozen=True)
class ImportedRow:
    """A measure of a table, observed and simulated; or a verdict on a model of it, ``expected`` to be close or not."""

    mode: str
    case: str
    measure: str
    observed: Any
    simulated: Any
    verdict: str
    expected: str = "close"
    remark: str = ""

    @property
    def within(self) -> bool:
        """Whether it came as expected; of single measures, that none is off."""
        return self.verdict == self.expected or (self.expected == "close" and self.verdict == "cannot tell" and self.observed != "")

    def unexplained(self) -> bool:
        """Whether it did not come as expected."""
        return not self.within


def measure(gateway: Any, case: ImportedCase) -> Iterator[ImportedRow]:
    """Make a table, import it, and compare."""
    with TemporaryDirectory() as name:
        yield from compare(case, Path(name), make(gateway, case, Path(name)))


def make(gateway: Any, case: ImportedCase, folder: Path) -> Written:
    """Make the table of a case in an empty folder."""
    delays = Delays(case.access_ms, case.access_ms, case.access_ms, case.access_ms)
    return make_real_table(gateway, folder, case.jobs, delays, case.seconds, case.kept_s)


def compare(case: ImportedCase, folder: Path, written: Written) -> Iterator[ImportedRow]:
    """Import a table that was written and say how close its model is, as it is and detuned."""
    path, mine = folder / "reports.jsonl", folder / "mine.toml"
    path.write_text(written.reports_text())
    history, reports = open_history(written.metadata_location), read_reports(path)
    imported = import_history(history, reports=reports)
    imported.tree["storage"]["max_parallel"] = WORKER_THREADS  # no history tells it, and whoever runs the clients knows it
    write_imported(imported, mine, reports)
    yield ImportedRow("imported", case.name, "what import says", _told(imported), _failed(written), "close")
    comparisons = _compared(mine, history, reports, imported.at_start)
    for each in comparisons:
        measure = f"{each.operation}: {each.measure}"
        yield ImportedRow("imported", case.name, measure, each.observed.mean, each.simulated.mean, each.verdict)
    yield ImportedRow("imported", case.name, "the model", "", "", combine_verdicts(comparisons))
    for scale in DETUNED:
        verdict = combine_verdicts(_compared(mine, history, reports, {**imported.at_start, STORE_SCALE: scale}))
        yield ImportedRow("imported", case.name, f"latencies {scale:g} times as long", "", "", verdict, "not close")


def _compared(mine: Path, history: History, reports: Sequence[CommitReport], changes: Mapping[str, Any]) -> list[Comparison]:
    rows = simulate(mine, changes, _SEEDS)
    return correct_verdicts([*compare_reports(reports, rows), *compare_history(history, rows), *compare_failures(history, rows)])


def _told(imported: Imported) -> dict[str, Any]:
    """What an import found, and all that it warns of, for a reader to judge."""
    classes = [f"{c.name}: {c.operation}, {len(c.commits)} commits, {c.process.words}" for c in imported.classes]
    assumptions = [f"{each.about}: {each.assumed}" for each in imported.assumptions]
    return {"classes": classes, "notes": list(imported.notes), "assumptions": assumptions}


def _failed(written: Written) -> dict[str, int]:
    return {name: written.failures.count(name) for name in sorted(set(written.failures))}


def shortened(case: ImportedCase, factor: int) -> ImportedCase:
    """The same for a smoke test."""
    return replace(case, seconds=case.seconds / factor, kept_s=case.kept_s / factor)


def document(row: ImportedRow) -> dict[str, Any]:
    """The row as plain values."""
    return asdict(row) | {"within": row.within}
