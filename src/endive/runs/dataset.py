"""The consolidated dataset: its parts, its manifest, and the plan of what has to be written.

A part holds whole seeds of one experiment, up to about a million rows; a seed stays in its part for good, so a part that is written
anew takes the place of the old one and no reader ever sees a row twice. The manifest says which sources are in which part. It is
published last: what it does not list is left over from an interruption and is taken over or removed by the next consolidation.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from pydantic import TypeAdapter, ValidationError

from endive.input_files import UnreadableError, parse_json, read_text
from endive.output_files import check_inside, write_text
from endive.runs.layout import MANIFEST, dataset_folder, part_file
from endive.runs.parameters import Value, flat_parameters
from endive.runs.records import Count, ExperimentName, OperationName
from endive.simulation.rows import RESULT_SCHEMA

FORMAT = 1
_MOST_BYTES = 2**30
"""A manifest is some kilobytes for each experiment."""
PART_ROWS = 1_000_000
"""A part takes further seeds until it has so many rows."""
ROW_SCHEMA = pa.schema([pa.field("seed", pa.int64()), *(field for field in RESULT_SCHEMA if field.name != "operation_type")])
"""Columns of a file before the parameters; experiment and operation are in its path."""


class PipelineError(RuntimeError):
    """Consolidation or metrics cannot go on; the message says why and what to do. ``usage`` is true where the call was wrong."""

    def __init__(self, message: str, *, usage: bool = False) -> None:
        super().__init__(message)
        self.usage = usage


@dataclass(frozen=True)
class Source:
    """A run as it was when it was consolidated. ``error`` says why it was left out."""

    size: int
    mtime_ns: int
    rows: int
    error: str | None = None

    def same_file(self, other: Source | None) -> bool:
        """Whether the file has not been touched."""
        return other is not None and (self.size, self.mtime_ns) == (other.size, other.mtime_ns)


@dataclass(frozen=True)
class PartFile:
    """The file of one operation of a part."""

    rows: int
    size: int


@dataclass
class Part:
    """Whole seeds of one experiment, in one file for each operation."""

    number: Count
    seeds: list[Count]
    files: dict[OperationName, PartFile] = field(default_factory=dict)

    def path(self, dataset: Path, experiment: str, operation: str) -> Path:
        """Where the rows of an operation are."""
        return part_file(dataset, experiment, operation, self.number)


@dataclass
class Experiment:
    """What the dataset holds of an experiment."""

    label: str
    hash: str
    code_version: str
    duration_ms: float
    parameters: dict[str, Value]
    sources: dict[int, Source] = field(default_factory=dict)
    parts: list[Part] = field(default_factory=list)

    @property
    def rows(self) -> int:
        """Its rows in the dataset."""
        return sum(file.rows for part in self.parts for file in part.files.values())


def described(label: str, digest: str, provenance: Mapping[str, Any], directory: Path) -> Experiment:
    """What the provenance of a run tells of its experiment, which lies in ``directory``."""
    parameters = provenance["parameters"]
    duration_ms = float(parameters["simulation"]["duration_ms"])
    return Experiment(label, digest, str(provenance.get("code_version", "")), duration_ms, flat_parameters(parameters, directory))


@dataclass
class Manifest:
    """What the dataset holds, by experiment."""

    experiments: dict[str, Experiment] = field(default_factory=dict)

    def files(self, dataset: Path) -> Iterator[tuple[Path, PartFile]]:
        """All files."""
        for name, experiment in self.experiments.items():
            for part in experiment.parts:
                for operation, file in part.files.items():
                    yield part.path(dataset, name, operation), file

    @property
    def parameters(self) -> dict[str, dict[str, Value]]:
        """Parameters by experiment."""
        return {name: experiment.parameters for name, experiment in self.experiments.items()}

    def digest(self) -> str:
        """Names what the dataset holds."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()[:16]

    def to_json(self) -> str:
        """As it is written."""
        return json.dumps({"format": FORMAT, "experiments": {name: asdict(each) for name, each in self.experiments.items()}})


def load_manifest(root: Path) -> Manifest | None:
    """The manifest of a dataset; None if there is none that can be used. A damaged one is none: the dataset is made again."""
    try:
        tree = parse_json(read_text(dataset_folder(root) / MANIFEST, _MOST_BYTES))
        return Manifest(_EXPERIMENTS.validate_python(tree["experiments"])) if tree["format"] == FORMAT else None
    except (UnreadableError, ValidationError, KeyError, TypeError, IndexError):
        return None


_EXPERIMENTS = TypeAdapter(dict[ExperimentName, Experiment])


def save_manifest(root: Path, manifest: Manifest) -> None:
    """Publish a manifest."""
    path = dataset_folder(root) / MANIFEST
    check_inside(path, root)
    write_text(path, manifest.to_json() + "\n")


def plan_parts(old: Experiment | None, found: Mapping[int, Source], intact: Iterable[int]) -> tuple[list[Part], list[Part]]:
    """The parts of an experiment that stay as they are, and those to write, for the sources that were found on disk.

    ``intact`` are the numbers of the old parts whose files are as the manifest says. Sources with an
    error are in no part.
    """
    old_parts = [] if old is None else old.parts
    old_sources = {} if old is None else old.sources
    unfit = {seed for seed, source in found.items() if source.error is not None}
    whole = set(intact)
    kept, to_write = [], []
    placed: set[int] = set()
    for part in old_parts:
        seeds = [seed for seed in part.seeds if seed in found and seed not in unfit]
        placed.update(seeds)
        same = all(found[seed].same_file(old_sources.get(seed)) for seed in seeds)
        if seeds == part.seeds and same and part.number in whole:
            kept.append(part)
        elif seeds:
            to_write.append(Part(part.number, seeds))
    new = [seed for seed in sorted(found) if seed not in placed and seed not in unfit]
    return _with_new_seeds(kept, to_write, new, found)


def _with_new_seeds(
    kept: list[Part], to_write: list[Part], new: list[int], found: Mapping[int, Source]
) -> tuple[list[Part], list[Part]]:
    """The last part takes new seeds while it has room, then further parts are opened."""
    if not new:
        return kept, to_write
    number = max((part.number for part in (*kept, *to_write)), default=-1)
    last = next((part for part in to_write if part.number == number), None)
    if last is None and kept and kept[-1].number == number and _rows(kept[-1].seeds, found) < PART_ROWS:
        last = Part(number, list(kept.pop().seeds))
        to_write.append(last)
    for seed in new:
        if last is None or _rows(last.seeds, found) >= PART_ROWS:
            number += 1
            last = Part(number, [])
            to_write.append(last)
        last.seeds.append(seed)
    return kept, to_write


def _rows(seeds: Iterable[int], found: Mapping[int, Source]) -> int:
    return sum(found[seed].rows for seed in seeds)
