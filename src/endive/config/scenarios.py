"""Scenarios of a study: named alternatives, of which one is the baseline that the others are compared with.

[sweep]
baseline = "today"                    # a scenario, or a name for the base as it is; default: a scenario without `set`

[scenario.more_retries]               # the name is kept as it is written, also "more retries"
set = { "transaction.retry" = 10 }

[scenario.fewer_writers.set]
workload.ingest.rate = 2

The name is carried in ``experiment.scenario`` of each configuration, which its identity does not depend on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import Field

from endive.config.errors import Problem, closest
from endive.config.schema import ScenarioName
from endive.config.study import StudySection
from endive.config.translate import Tree

BASELINE = "baseline"
"""What the base as it is is called, if nobody gave it a name."""
SCENARIO = "scenario"
"""The dimension that the names of scenarios are the values of."""


class ScenarioSection(StudySection):
    """``[scenario.NAME]``: what this alternative changes in the base."""

    set: Tree = Field(default_factory=dict)


Scenarios = dict[ScenarioName, ScenarioSection]


@dataclass(frozen=True)
class Scenario:
    """A named alternative and the dotted keys that it sets."""

    name: str
    set: Mapping[str, Any]


def scenarios_of(sections: Scenarios, baseline: str | None) -> tuple[Scenario, ...]:
    """Return the scenarios of a study, the baseline first and the others as in the file; none if the file has none.

    The baseline is the scenario that ``baseline`` names, or else one that sets nothing, or else the base as it is, under that name.
    """
    if not sections:
        return ()
    found = {name: Scenario(name, flat_keys(section.set)) for name, section in sections.items()}
    first = baseline if baseline is not None else next((each.name for each in found.values() if not each.set), BASELINE)
    return (found.pop(first, Scenario(first, {})), *found.values())


def check_scenarios(sections: Scenarios, baseline: str | None, varied: Mapping[str, str]) -> Iterator[Problem]:
    """Yield what is wrong with scenarios: a baseline without any, a near miss, keys that ``varied`` (by key: where) varies too."""
    if baseline is not None and not sections:
        yield Problem("sweep.baseline", "has an effect only with scenarios: [scenario.NAME] describes one", baseline)
    elif baseline is not None and baseline not in sections and (hint := closest(baseline, sections)):
        yield Problem("sweep.baseline", f"names no scenario{hint}", baseline)
    for name, section in sections.items():
        for key in flat_keys(section.set):
            if key in varied:
                yield Problem(f"scenario.{name}.set.{key}", f"is varied by {varied[key]} too")


def flat_keys(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a ``set`` sets by dotted key, whether the file writes them in quotes or as TOML's own dotted keys.

    A value of a key in quotes is taken as it is, also if it is a table.
    """
    return {key: value for name, below in tree.items() for key, value in ([(name, below)] if "." in name else _leaves(name, below))}


def _leaves(key: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and value:
        for name, below in value.items():
            yield from _leaves(f"{key}.{name}", below)
    else:
        yield key, value
