"""Records of runs in JSON, read through one place: what they must say is a schema, and everything else is damage."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from endive.config.errors import problems_of
from endive.config.schema import CommitPathName
from endive.config.values import MOST_MS
from endive.input_files import UnreadableError, in_short, read_json
from endive.transaction import OPERATIONS


class RecordError(ValueError):
    """A record that is missing or damaged; the message names the file and what is wrong. ``missing`` tells which."""

    def __init__(self, path: Path, message: str, *, missing: bool = False) -> None:
        super().__init__(f"{path.name}: {message}")
        self.missing = missing


class Record(BaseModel):
    """A record may say more than its schema, but nothing else than it."""

    model_config = ConfigDict(extra="allow", strict=True, allow_inf_nan=False)


Count = Annotated[int, Field(ge=0, lt=2**63)]


class SimulationParameters(Record):
    """The part of a run's parameters that is relied on."""

    duration_ms: Annotated[float, Field(gt=0, le=MOST_MS)]


Time = Annotated[float, Field(ge=0, le=MOST_MS)]
Weight = Annotated[float, Field(ge=0)]


class PolicyParameters(Record):
    """The part of the parameters of transactions that is relied on."""

    commit_path: CommitPathName | None = None
    operation_types: dict[str, Weight] | None = None


class StepParameters(Record):
    """A step of a schedule."""

    from_ms: Time
    rate: Weight


class ClassParameters(PolicyParameters):
    """The part of the parameters of a class that is relied on."""

    operation: str | None = None
    schedule: list[StepParameters] | None = None
    start_ms: Time | None = None
    end_ms: Time | None = None


class Parameters(Record):
    """The parameters of a run, by section."""

    simulation: SimulationParameters
    transaction: PolicyParameters = PolicyParameters()
    workload: dict[str, ClassParameters] = {}


class Provenance(Record):
    """What a run records of itself."""

    seed: Count
    rows: Count
    results_sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    parameters: Parameters
    code_version: str = ""
    experiment_hash: str = ""
    engine: str = "?"
    started: str = "?"
    wall_time_s: float = 0.0
    dependencies: dict[str, str] = {}
    git_commit: Annotated[str, Field(pattern=r"^[0-9a-f]{7,64}(-dirty)?$")] | None = None
    """A report has a command with it."""


class SummaryTotal(Record):
    """The counts of a whole run that are relied on."""

    transactions: Count


class SummaryRecord(Record):
    """The summary of a run."""

    total: SummaryTotal


Model = TypeVar("Model", bound=BaseModel)


def read_record(path: Path, model: type[Model]) -> dict[str, Any]:
    """Read a record as it is written, if it is as its model wants it. Raises RecordError."""
    try:
        tree = read_json(path)
    except UnreadableError as error:
        raise RecordError(path, str(error), missing=error.missing) from None
    if not isinstance(tree, dict):
        raise RecordError(path, f"should be a table (is {type(tree).__name__})")
    try:
        model.model_validate(tree)
    except ValidationError as error:
        raise RecordError(path, str(problems_of(error, tree, model)[0])) from None
    return tree


def read_provenance(path: Path) -> dict[str, Any]:
    """Read the provenance record of a run.

    Raises:
        RecordError: The record is missing or damaged, or its checksum does not match its content. Records of older versions have no
            checksum.
    """
    tree = read_record(path, Provenance)
    for number, problem in enumerate(_leaf_problems(tree["parameters"], "parameters")):
        if problem is not None:
            raise RecordError(path, problem)
        if number >= _MOST_PARAMETERS:
            raise RecordError(path, f"parameters: has more than {_MOST_PARAMETERS:,} values")
    recorded = tree.get(CHECKSUM)
    if recorded is not None and recorded != seal_record(tree)[CHECKSUM]:
        raise RecordError(path, f"{CHECKSUM}: is {in_short(recorded)}, which does not match the content of the record")
    return tree


CHECKSUM = "record_sha256"


def seal_record(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record with the checksum of its other entries."""
    content = {name: value for name, value in tree.items() if name != CHECKSUM}
    return {**content, CHECKSUM: hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()}


_MOST_PARAMETERS = 20_000
_MOST_NUMBER = 1e100
"""No parameter of the model comes near it, and what reports compute of such numbers is still a number."""


def _leaf_problems(node: Any, key: str) -> Iterator[str | None]:
    """For each value of a tree what is wrong with it, or None."""
    if isinstance(node, Mapping):
        for name, child in node.items():
            yield from _leaf_problems(child, f"{key}.{name}")
    elif isinstance(node, list):
        for child in node:
            yield from _leaf_problems(child, key) if child is not None else (f"{key}: a list should have no null",)
    else:
        wrong = _wrong_value(node)
        yield None if wrong is None else f"{key}: {wrong}"


def _wrong_value(value: Any) -> str | None:
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return "should be a whole number of 64 bits"
    if isinstance(value, float) and not abs(value) <= _MOST_NUMBER:
        return f"should be a number up to {_MOST_NUMBER:g} (is {value})"
    return None


def known_operation(name: str) -> str:
    """Return the name of an operation. Raises ValueError for any other: names of operations become names of folders."""
    if name not in OPERATIONS:
        raise ValueError(f"{name!r} is no operation")
    return name


OperationName = Annotated[str, AfterValidator(known_operation)]
ExperimentName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=255)]
