"""Define the JSON records of runs: their schemas, their checksums, and functions that read them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from endive.config.errors import problems_of
from endive.config.sweep_file import KeptRows
from endive.config.values import MOST_MS
from endive.input_files import UnreadableError, in_short, read_json, state


class RecordError(ValueError):
    """Raised if a record is missing or damaged; the message names the file and the problem."""

    def __init__(self, path: Path, message: str, *, missing: bool = False) -> None:
        super().__init__(state(path.name, message))
        self.missing = missing


class Record(BaseModel):
    """Base class of records. A record can contain more entries than its schema."""

    model_config = ConfigDict(extra="allow", strict=True, allow_inf_nan=False)


Count = Annotated[int, Field(ge=0, lt=2**63)]


class SimulationParameters(Record):
    """Parameters of a run on which metrics depend."""

    duration_ms: Annotated[float, Field(gt=0, le=MOST_MS)]


class Parameters(Record):
    """Parameters of a run, by section."""

    simulation: SimulationParameters


class Provenance(Record):
    """Provenance of a run."""

    seed: Count
    rows: Count
    results_sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    parameters: Parameters
    rows_kept: KeptRows = "all"
    kept: Count | None = None
    """Number of kept rows, if not all rows are kept."""
    code_version: str = ""
    experiment_hash: str = ""
    engine: str = "?"
    started: str = "?"
    wall_time_s: float = 0.0
    dependencies: dict[str, str] = {}
    git_commit: Annotated[str, Field(pattern=r"^[0-9a-f]{7,64}(-dirty)?$")] | None = None


class SummaryTotal(Record):
    """Counts of a whole run in its summary."""

    transactions: Count


class ServiceSummary(Record):
    """Load of the catalog service in the summary of a run."""

    busy_workers: float


class SummaryRecord(Record):
    """Summary of a run."""

    total: SummaryTotal
    service: ServiceSummary | None = None
    counters: dict[str, Any] = {}


Model = TypeVar("Model", bound=BaseModel)


def read_record(path: Path, model: type[Model]) -> dict[str, Any]:
    """Read a record that matches its schema. Raises RecordError."""
    try:
        tree = read_json(path)
    except UnreadableError as error:
        raise RecordError(path, str(error), missing=error.missing) from None
    if not isinstance(tree, dict):
        raise RecordError(path, f"should be a table (got {type(tree).__name__})")
    try:
        model.model_validate(tree)
    except ValidationError as error:
        raise RecordError(path, str(problems_of(error, tree, model)[0])) from None
    return tree


def read_provenance(path: Path) -> dict[str, Any]:
    """Read the provenance record of a run.

    Raises:
        RecordError: If the record is missing or damaged, or its checksum does not match its content. Records of older versions have
            no checksum.
    """
    return read_sealed_record(path, Provenance)


def read_sealed_record(path: Path, model: type[Model]) -> dict[str, Any]:
    """Read a record that matches its schema and, if it has one, its checksum. Raises RecordError."""
    tree = read_record(path, model)
    if not is_sealed(tree):
        raise RecordError(path, f"`{CHECKSUM}` is {in_short(tree[CHECKSUM])}, which does not match the content of the record")
    return tree


CHECKSUM = "record_sha256"


def seal_record(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record with the checksum of its other entries."""
    content = {name: value for name, value in tree.items() if name != CHECKSUM}
    return {**content, CHECKSUM: hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()}


def is_sealed(tree: Mapping[str, Any]) -> bool:
    """Return whether the checksum of a record matches its content; True for an older record without a checksum."""
    return CHECKSUM not in tree or tree[CHECKSUM] == seal_record(tree)[CHECKSUM]


ExperimentName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=255)]
