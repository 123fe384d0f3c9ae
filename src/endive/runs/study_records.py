"""What a directory of experiments knows of the studies that were run in it: their files, questions, scenarios and plans.

A sweep writes both files of its study before it runs anything (``keep_study``); it is the only writer. They tell what a report is
about, how the study is repeated, and, while it runs, how far it is: a run is done when its results are there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import tomli_w
from pydantic import Field, model_validator

from endive.config.sweep import SCENARIO, Sweep
from endive.input_files import UnreadableError, read_toml
from endive.output_files import this_writer, write_text
from endive.runs.layout import CONFIG, label_of, run_directory, study_file, study_plan, study_plans
from endive.runs.plan import SweepPlan
from endive.runs.records import Count, ExperimentName, Record, RecordError, read_record
from endive.runs.stored import StoredRun


class PlannedExperiment(Record):
    """An experiment of a study: what the axes and the scenario say of it, and the CPU seconds that a run was estimated to take."""

    values: dict[str, Any]
    cpu_seconds: Annotated[float, Field(ge=0, le=1e12)] = 0.0


_MOST_RUNS = 10**7
"""Of a study; whoever watches it looks at each."""
Argument = Annotated[str, Field(pattern=r"^[A-Za-z0-9.,_=-]{1,255}$")]
"""What a shell takes as it is."""


class StudyRecord(Record):
    """What a study plans. ``arguments`` are those with which ``endive sweep`` repeats it from the file beside."""

    label: ExperimentName
    question: str | None = None
    scenarios: list[str] = Field(default_factory=list)
    """Named alternatives, the baseline first."""
    seeds: list[Count]
    experiments: dict[ExperimentName, PlannedExperiment]
    arguments: list[Argument] = Field(default_factory=list)
    started: str = ""
    writer: str = ""
    """The process that runs it, as ``endive.output_files`` names it."""

    @model_validator(mode="after")
    def _limited(self) -> StudyRecord:
        if len(self.seeds) * len(self.experiments) > _MOST_RUNS:
            raise ValueError(f"has more than {_MOST_RUNS:,} runs")
        return self

    def results(self, root: Path) -> dict[Path, float]:
        """Return the results that there will be, with the CPU seconds that each run was estimated to take."""
        return {
            StoredRun(run_directory(root / name, seed)).results: planned.cpu_seconds
            for name, planned in self.experiments.items()
            for seed in self.seeds
        }


def keep_study(root: Path, sweep: Sweep, plan: SweepPlan) -> None:
    """Write what a directory has to know of a study that is about to be run there. Raises OSError if it cannot be written."""
    record = StudyRecord(
        label=plan.name,
        question=sweep.question,
        scenarios=[each.name for each in sweep.scenarios],
        seeds=list(plan.seeds),
        experiments={
            point.directory(root).name: PlannedExperiment(values=dict(point.values), cpu_seconds=point.effort.cpu_seconds)
            for point in plan.points
        },
        arguments=[*(["--quick"] if sweep.quick else []), *_seeds_argument(plan.seeds)],
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        writer=this_writer(),
    )
    write_text(study_file(root, plan.name), tomli_w.dumps(sweep.standalone()))
    write_text(study_plan(root, plan.name), record.model_dump_json(indent=1) + "\n")
    keep_names(root, plan)


def _seeds_argument(seeds: Sequence[int]) -> list[str]:
    """The option by which seeds that follow each other are asked for; others are those of the file."""
    if list(seeds) != list(range(seeds[0], seeds[0] + len(seeds))):
        return []
    return ["--seeds", str(seeds[0]) if len(seeds) == 1 else f"{seeds[0]}-{seeds[-1]}"]


def keep_names(root: Path, plan: SweepPlan) -> None:
    """Give experiments that are there already the names that a plan has for their scenarios."""
    for point in plan.points:
        file = point.directory(root) / CONFIG
        try:
            tree = read_toml(file)
        except UnreadableError:
            continue
        about = tree.setdefault("experiment", {})
        if about.get(SCENARIO) != point.document.experiment.scenario:
            about.pop(SCENARIO, None)
            about |= {} if point.document.experiment.scenario is None else {SCENARIO: point.document.experiment.scenario}
            write_text(file, tomli_w.dumps(tree))


def read_studies(root: Path) -> list[StudyRecord]:
    """Return what is known of the studies of a directory; records that are damaged are passed over."""
    found = []
    for path in study_plans(root):
        try:
            found.append(StudyRecord.model_validate(read_record(path, StudyRecord)))
        except RecordError:
            continue
    return found


def study_of(root: Path, experiments: Iterable[str]) -> StudyRecord | None:
    """Return the one study that all of these experiments, by name, are of; None if there is none, or they are of several."""
    labels = {label_of(root / name) for name in experiments}
    return next((each for each in read_studies(root) if {each.label} == labels), None)
