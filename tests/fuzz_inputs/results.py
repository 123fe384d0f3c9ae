"""Files of results in a directory of experiments, half of them with a matching checksum or hash."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path

from endive.runs.execute import run_experiment
from endive.runs.layout import (
    METRICS_FOLDER,
    METRICS_STATE,
    METRICS_TABLES,
    metrics_table,
    study_file,
    study_plan,
)
from endive.runs.plan import PlannedExperiment, StudyRecord
from tests.fuzz_inputs.attempts import Attempt, Kind, chance, command, invoke
from tests.fuzz_inputs.here import commands_here
from tests.mutations import mutated, mutated_rows, mutated_tree
from tests.pipeline.damages import change_record, reseal, seal
from tests.pipeline.runs import document

Call = Callable[[Path], list[str]]


@cache
def _made(rate: float = 6.0) -> Path:
    """Return an experiment of two seeds, run once and never changed."""
    folder = Path(tempfile.mkdtemp(prefix="endive-fuzz-made-"))
    for seed in range(2):
        run_experiment(document(simulation__duration_ms=1_000.0, workload__ingest__rate=rate), root=folder, seed=seed, trace=True)
    experiment = next(folder.iterdir())
    for seed in range(2):  # the same bytes every time
        change_record(experiment / str(seed), started="2026-01-01T00:00:00+00:00", wall_time_s=0.1)
    return experiment


def _root_with(path: Path, *, both: bool) -> Path:
    """Create a directory of experiments next to the file, with the experiment and optionally one of another load."""
    root = path.parent / "root"
    shutil.rmtree(root, ignore_errors=True)
    for experiment in (_made(), _made(12.0))[: 2 if both else 1]:
        shutil.copytree(experiment, root / experiment.name, copy_function=shutil.copyfile)
    return root


def _call(*words: str) -> Call:
    return lambda root: [*words, str(root)]


def _measured(root: Path) -> list[str]:
    invoke(["consolidate", str(root)])
    return ["metrics", str(root)]


def _compared(root: Path) -> list[str]:
    names = sorted(entry.name for entry in root.iterdir() if "-" in entry.name)
    return ["compare", *(f"{root}#{name}" for name in names)]


def _shown(root: Path) -> list[str]:
    return ["experiments", "show", min(entry.name for entry in root.iterdir() if "-" in entry.name), str(root)]


def _drawn(root: Path) -> list[str]:
    return ["plot", str(root), "--figure", "throughput_load", "--format", "svg"]


_CHECK = _call("experiments", "check")
_VERIFY, _LIST, _REPORT = _call("experiments", "verify"), _call("experiments", "list"), _call("report")
_LOOKS: Sequence[Call] = (*[_VERIFY] * 10, *[_LIST] * 2, _shown, _call("consolidate"), _measured, _compared)
"""Commands on results; commands that write are rare, because they cost twenty times more."""
_USES: Sequence[Call] = (*[_LIST] * 8, _shown, _compared, _compared, _measured, _measured, _REPORT, _REPORT, _drawn)


def _in_results(name: str, calls: Sequence[Call], *, fits: Callable[[int], bool]) -> Attempt:
    """Return an attempt on a directory of experiments in which the file replaces another file."""

    def make(path: Path) -> list[str]:
        number = chance(path)
        call = calls[number // 2 % len(calls)]
        root = _root_with(path, both=call not in (_VERIFY, _LIST, _CHECK))
        run = root / _made().name / "0"
        (run / name).write_bytes(path.read_bytes())
        if name == "results.parquet" and fits(number):
            seal(run)
        if name == "provenance.json" and fits(number):
            reseal(run)
        return call(root)

    return command(make)


def _result_kinds() -> Iterator[Kind]:
    for name in ("results.parquet", "provenance.json", "summary.json", "../cfg.toml"):
        good = (_made() / "0" / name).read_bytes()
        attempt = _in_results(name, _LOOKS, fits=lambda number: number % 2 == 1)
        yield Kind(f"results: {Path(name).name}", "any", (good,), attempt, refused=(1, 2))
    good = (_made() / "0" / "provenance.json").read_bytes()
    attempt = _in_results("provenance.json", _USES, fits=lambda number: True)
    rows = (_made() / "0" / "results.parquet").read_bytes()
    attempt_rows = _in_results("results.parquet", _LOOKS, fits=lambda number: True)
    yield Kind("rows that fit", "any", (rows,), attempt_rows, (1, 2), mutated_rows)
    events = (_made() / "0" / "trace.parquet").read_bytes()
    yield Kind("trace of events", "any", (events,), _in_results("trace.parquet", [_CHECK], fits=bool), (1, 2), mutated_rows)
    yield Kind("record that fits", "any", (good,), attempt, (1, 2), mutated_tree, every=8)


@cache
def _measured_root() -> Path:
    """Return two experiments with their study plan, consolidated and measured once."""
    root = Path(tempfile.mkdtemp(prefix="endive-fuzz-measured-")) / "root"
    for experiment in (_made(), _made(12.0)):
        shutil.copytree(experiment, root / experiment.name)
    record = StudyRecord(
        label="mixed",
        question="success(ingest)",
        seeds=[0, 1],
        experiments={
            _made(rate).name: PlannedExperiment(values={"workload.ingest.rate": rate}, cpu_seconds=0.1) for rate in (6.0, 12.0)
        },
        arguments=["--quick", "--seeds", "0-1"],
        started="2026-01-01T00:00:00+00:00",
    )
    study_plan(root, "mixed").parent.mkdir()
    study_plan(root, "mixed").write_text(record.model_dump_json(indent=1) + "\n")
    study_file(root, "mixed").write_text(
        '[sweep]\nseeds = "0-1"\n[base.storage]\nprovider = "s3x"\n[base.workload.a]\nrate = 1.0\n'
    )
    (root / "theory.csv").write_text("x,y\n1,2\n2,3.5\n4,7\n")
    for words in (["consolidate", str(root)], ["metrics", str(root)]):
        ended = invoke(words)
        assert ended.code == 0, ended.said
    return root


def _with_theory(root: Path) -> list[str]:
    return [*_drawn(root), "--theory", str(root / "theory.csv")]


_WATCH: Sequence[Call] = (*[_call("experiments", "watch", "--once")] * 14, _REPORT, _compared)
_AGAIN: Sequence[Call] = (*[_call("metrics")] * 6, _call("consolidate"), _REPORT)


def _about_results(place: Callable[[Path], Path], calls: Sequence[Call]) -> Attempt:
    """Return an attempt on a measured directory in which a file about results, or derived from them, is broken."""

    def make(path: Path) -> list[str]:
        root = path.parent / "root"
        shutil.rmtree(root, ignore_errors=True)
        shutil.copytree(_measured_root(), root)  # with the modification times that identify files
        place(root).write_bytes(path.read_bytes())
        return calls[chance(path) // 2 % len(calls)](root)

    return command(make)


def _kinds_about_results() -> Iterator[Kind]:
    places: dict[str, Callable[[Path], Path]] = {
        "study record": lambda root: study_plan(root, "mixed"),
        "file of a study": lambda root: study_file(root, "mixed"),
        "theory": lambda root: root / "theory.csv",
        "state of metrics": lambda root: root / METRICS_FOLDER / METRICS_STATE,
    } | {f"metrics: {view}": lambda root, name=name: metrics_table(root, name, "parquet") for view, name in METRICS_TABLES.items()}
    with commands_here():
        for name, place in places.items():
            calls = {"study record": _WATCH, "file of a study": (_REPORT,), "theory": (_with_theory,)}.get(name, _AGAIN)
            mutate = mutated_tree if name == "study record" else mutated
            good = (place(_measured_root()).read_bytes(),)
            yield Kind(name, "any", good, _about_results(place, calls), (1, 2), mutate, every=2 if calls is _WATCH else 16)


RESULTS = (*_result_kinds(), *_kinds_about_results())
