"""Fourth mode: import a real table written by real clients, and check that the model matches the observations.

Concurrent writers, a compaction, deletes and expiry write a table; `import` reads its metadata and commit reports; `fidelity`
compares. A model whose latencies are off by 30% must be reported as not close.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from endive.calibrate.answers import simulate
from endive.calibrate.fidelity import (
    Comparison,
    combine_verdicts,
    compare_failures,
    compare_history,
    compare_reports,
    correct_verdicts,
)
from endive.calibrate.measurements import CommitReport, read_reports
from endive.calibrate.observed_classes import STORE_SCALE
from endive.calibrate.sources import open_history
from endive.calibrate.table_history import History
from endive.calibrate.table_import import Imported, import_history
from endive.cli.observed_table import write_imported
from verification.iceberg.accesses import Delays
from verification.iceberg.clients import WORKER_THREADS
from verification.iceberg.real_table import EXPIRY, Job, Written, make_real_table

DETUNED = (0.7, 1.3)
_SEEDS = (1, 2, 3, 4, 5)


@dataclass(frozen=True)
class ImportedCase:
    """Writers of a table and their duration; expiry retains snapshots younger than ``kept_s``."""

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
    """Observed and simulated measure of a table, or the verdict on a model that is ``expected`` to be close or not."""

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
        """True if the result is as expected; a single measure must not be off."""
        return self.verdict == self.expected or (self.expected == "close" and self.verdict == "cannot tell" and self.observed != "")

    def unexplained(self) -> bool:
        """True if the result is not as expected."""
        return not self.within


def measure(gateway: Any, case: ImportedCase) -> Iterator[ImportedRow]:
    """Make a table, import it, and compare."""
    with TemporaryDirectory() as name:
        yield from compare(case, Path(name), make(gateway, case, Path(name)))


def make(gateway: Any, case: ImportedCase, folder: Path) -> Written:
    """Create the table of a case in an empty folder."""
    delays = Delays(case.access_ms, case.access_ms, case.access_ms, case.access_ms)
    return make_real_table(gateway, folder, case.jobs, delays, case.seconds, case.kept_s)


def compare(case: ImportedCase, folder: Path, written: Written) -> Iterator[ImportedRow]:
    """Import a written table and evaluate its model, unchanged and detuned."""
    path, mine = folder / "reports.jsonl", folder / "mine.toml"
    path.write_text(written.reports_text())
    history, reports = open_history(written.metadata_location), read_reports(path)
    imported = import_history(history, reports=reports)
    imported.tree["storage"]["max_parallel"] = WORKER_THREADS  # not recorded in the history, but known to operators of the clients
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
    """Return the result of an import with its warnings, for readers."""
    classes = [f"{c.name}: {c.operation}, {len(c.commits)} commits, {c.process.words}" for c in imported.classes]
    assumptions = [f"{each.about}: {each.assumed}" for each in imported.assumptions]
    return {"classes": classes, "notes": list(imported.notes), "assumptions": assumptions}


def _failed(written: Written) -> dict[str, int]:
    return {name: written.failures.count(name) for name in sorted(set(written.failures))}


def shortened(case: ImportedCase, factor: int) -> ImportedCase:
    """Return a shorter case for a smoke test."""
    return replace(case, seconds=case.seconds / factor, kept_s=case.kept_s / factor)


def document(row: ImportedRow) -> dict[str, Any]:
    """Return the row as plain values."""
    return asdict(row) | {"within": row.within}
