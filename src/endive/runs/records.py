"""Records of runs in JSON, read through one place: what they must say is a schema, and everything else is damage."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from endive.config.translate import problems_of
from endive.reading import UnreadableError, read_json
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

    duration_ms: Annotated[float, Field(gt=0)]


class Parameters(Record):
    """The parameters of a run, by section."""

    simulation: SimulationParameters


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


def known_operation(name: str) -> str:
    """Return the name of an operation. Raises ValueError for any other: names of operations become names of folders."""
    if name not in OPERATIONS:
        raise ValueError(f"{name!r} is no operation")
    return name


OperationName = Annotated[str, AfterValidator(known_operation)]
ExperimentName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=255)]
