"""Frontier files: a configuration with a question about the load at which something begins to hold.

[frontier]
vary = "workload.ingest.rate"         # the key that is the load
until = "success(maintenance) < 95%"
from = 10                             # where to begin; default: what the configuration has
to = 500                              # where to give up; default: 1,024 times that
tolerance = 0.05                      # relative width of the interval that is asked for
seeds = 5                             # runs at each load, more where that leaves it open
max_seeds = 40

[base.simulation]                     # a configuration under [base]
...

[quick]                               # what --quick changes
tolerance = 0.3
set = { "simulation.duration_ms" = 600_000 }
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, ValidationError

from endive.config.durations import duration_ms
from endive.config.errors import ConfigError
from endive.config.study import StudySection, check_study
from endive.config.translate import Tree, problems_of

Load = Annotated[float, Field(gt=0), BeforeValidator(duration_ms)]
"""A number, or a duration where the key is a time."""
SeedCount = Annotated[int, Field(ge=2, le=100_000)]


class FrontierSettings(StudySection):
    """``[frontier]``: what can be said of a search, here or on the command line; None is left to the other or to the default."""

    vary: str | None = None
    until: str | None = None
    lowest: Load | None = Field(None, alias="from")
    highest: Load | None = Field(None, alias="to")
    tolerance: Annotated[float, Field(gt=0, lt=10)] | None = None
    seeds: SeedCount | None = None
    max_seeds: SeedCount | None = None

    def over(self, other: FrontierSettings) -> FrontierSettings:
        """Return these settings, and those of the other where these say nothing."""
        given = self.model_fields_set & FrontierSettings.model_fields.keys()
        return other.model_copy(update={name: getattr(self, name) for name in given})


class QuickFrontier(FrontierSettings):
    """``[quick]``: settings that ``--quick`` changes, and keys of the configuration that it sets."""

    set: Tree = Field(default_factory=dict)


class FrontierFile(StudySection):
    """A frontier file."""

    frontier: FrontierSettings
    base: Tree
    quick: QuickFrontier = Field(default_factory=QuickFrontier)


def frontier_options(asked: Mapping[str, Any]) -> FrontierSettings:
    """Return settings by option of the command line; None is not given. Raises ConfigError, which names the options."""
    given = {name: value for name, value in asked.items() if value is not None}
    try:
        return FrontierSettings.model_validate(given)
    except ValidationError as error:
        problems = problems_of(error, given, FrontierSettings)
        named = [replace(problem, key=f"--{problem.key}".replace("_", "-")) for problem in problems]
        raise ConfigError("command line", named) from None


def check_frontier(tree: Tree, source: str, *, quick: bool = False) -> tuple[Tree, FrontierSettings, Tree]:
    """Return the configuration of a frontier file, its settings, and the keys that ``quick`` sets. Raises ConfigError."""
    file = check_study(FrontierFile, tree, source)
    return (file.base, file.quick.over(file.frontier), file.quick.set) if quick else (file.base, file.frontier, {})
