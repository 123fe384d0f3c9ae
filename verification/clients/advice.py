"""Run the advice of ``endive tune`` and its runner-up with real writers: PyIceberg on the lab's REST catalog, scaled.

``tune`` sees the latencies of the lab and nothing of the real runs. The order of the two settings must be the same in both.
"""

from __future__ import annotations

import json
import math
import random
import time
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np

import endive
from endive.analysis.conditions import find_metric
from endive.analysis.metric import more_is_better
from endive.lab.open_lab import Lab, open_lab
from verification.clients.contention import describe_service, lab_settings
from verification.clients.jobs import TABLE, append_rows
from verification.clients.processes import run_writers, warm_context

CLIENT = "pyiceberg-rest"
FLEET = "fleet"
LATENCY_MS = 100.0
_NO_OTHERS = ("expiry",)
"""Setting group that these writers do not have, so that only the given keys are searched."""
CPU_MS = 10.0
"""Assumed client CPU time per access; the lab and the clients share two cores."""


@dataclass(frozen=True)
class Scenario:
    """Fleet of periodic writers, the objective of ``tune``, its condition, and the values to search by key."""

    name: str
    writers: int
    every_s: float
    phase: str
    objective: str
    vary: Mapping[str, tuple[Any, ...]]
    condition: str = ""


SCENARIOS = (
    Scenario("aligned writers", 6, 12.0, "aligned", "p95", {"phase": ("aligned", "staggered")}),
    Scenario("few retries", 6, 4.0, "random", "success", {"retry": (1, 4, 16)}),
    Scenario("frequent commits", 6, 4.0, "random", "p95", {"every_ms": (4_000, 12_000)}, "throughput(fleet) >= 0.4/s"),
)


def describe(scenario: Scenario) -> dict[str, Any]:
    """Return the configuration of a scenario: PyIceberg on a REST catalog, with the latencies of the lab."""
    access = {"mean": LATENCY_MS, "stddev": 0.0}
    both = {"read": access, "write": access}
    service = {"median": LATENCY_MS, "sigma": 0.0}
    return {
        "simulation": {"duration_ms": 600_000.0},
        "storage": {"T_CAS": access, **dict.fromkeys(("T_TABLE_METADATA", "T_MANIFEST_LIST", "T_MANIFEST_FILE"), both)},
        "catalog": describe_service(service, service),
        "transaction": {
            "commit_path": "pyiceberg",
            "retry_policy": "iceberg",
            "client_ms_per_access": CPU_MS,
            "runtime": {"distribution": "fixed", "value": LATENCY_MS},
        },
        "workload": {
            FLEET: {
                "operation": "fast_append",
                "writers": scenario.writers,
                "every_ms": 1e3 * scenario.every_s,
                "phase": scenario.phase,
            }
        },
    }


def compare_advice(scenario: Scenario, seconds: float) -> dict[str, Any]:
    """Tune a scenario, run the advice and the runner-up with real writers, and return both results.

    The runner-up is the unchanged file: with few values to search, it is the other candidate of the last comparison.
    """
    tree = describe(scenario)
    keys = {f"workload.{FLEET}.{key}": list(values) for key, values in scenario.vary.items()}
    tuned = endive.tune(tree, f"{scenario.objective}({FLEET})", subject_to=scenario.condition or (), search=_NO_OTHERS, vary=keys)
    advice, final = tuned.best or {}, tuned.to_pandas()
    real = {name: run_fleet(apply(tree, settings), seconds) for name, settings in (("advice", advice), ("runner_up", {}))}
    metric = find_metric(scenario.objective, scenario.name)
    first, second = (real[name][scenario.objective] for name in ("advice", "runner_up"))
    return {
        "scenario": scenario.name,
        "objective": scenario.objective,
        "advice": advice,
        "simulated": {each["settings"]: None if math.isnan(each["value"]) else each["value"] for each in final.to_dict("records")},
        "real": real,
        "order_holds": _is_better(first, second, more=more_is_better(metric) is True),
    }


def apply(tree: dict[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the class of the writers with the settings of ``tune``."""
    changed = deepcopy(tree["workload"][FLEET])
    changed.update({key.removeprefix(f"workload.{FLEET}."): value for key, value in settings.items()})
    return dict(changed)


def run_fleet(fleet: Mapping[str, Any], seconds: float) -> dict[str, float | None]:
    """Run the writers of a class; return success, p95 of the time to commit (infinite for aborts) and commits per second."""
    names = [f"writer-{number}" for number in range(fleet["writers"])]
    with open_lab(lab_settings(LATENCY_MS), names) as lab:
        done = _run_writers(fleet, lab, names, seconds)
    times = [math.inf if error else end - start for start, end, error in done]
    committed = sum(not error for *_, error in done)
    return {
        "operations": len(done),
        "success": committed / max(1, len(done)),
        "p95": _finite(float(np.quantile(times, 0.95, method="higher"))),
        "throughput": committed / seconds,
    }


def _is_better(one: float | None, other: float | None, *, more: bool) -> bool:
    """Return whether a value is at least as good as another value; None is worse than every number."""
    if one is None or other is None:
        return other is None
    return one >= other if more else one <= other


def _finite(seconds: float) -> float | None:
    """Return a time, or None for an abort."""
    return seconds if math.isfinite(seconds) else None


def _run_writers(fleet: Mapping[str, Any], lab: Lab, names: list[str], seconds: float) -> list[tuple[float, float, str]]:
    context = warm_context([CLIENT])
    properties = {"commit.retry.num-retries": str(fleet.get("retry", 4))}
    first = (append_rows, (lab.environment(), TABLE, properties))
    writers = [(run_periodic, (number, fleet, seconds, lab.environment(name))) for number, name in enumerate(names)]
    return [each for made in run_writers(context, first, writers, seconds + 300.0) for each in made]


def run_periodic(
    number: int, fleet: Mapping[str, Any], seconds: float, environment: Mapping[str, str], start: Any, done: Any
) -> None:
    """Append at every scheduled time of a writer until the end of the run; a busy writer misses its scheduled time."""
    every_s = fleet["every_ms"] / 1e3
    offsets = {
        "aligned": 0.0,
        "staggered": number * every_s / fleet["writers"],
        "random": random.Random(number).uniform(0.0, every_s),
    }
    append_rows(environment, f"warm_up_{number}")
    start.wait()
    began = time.monotonic()
    slot, made = began + offsets[fleet["phase"]], []
    while slot < began + seconds:
        time.sleep(max(0.0, slot - time.monotonic()))
        begin, error = time.monotonic(), ""
        try:
            append_rows(environment, TABLE)
        except Exception as lost:
            error = type(lost).__name__
        made.append((begin, time.monotonic(), error))
        slot += every_s * max(1, math.ceil((time.monotonic() - slot) / every_s))
    done.put(made)


def compare_scenarios(seconds: float) -> list[dict[str, Any]]:
    """Compare all scenarios."""
    found = []
    for scenario in SCENARIOS:
        found.append(compare_advice(scenario, seconds))
        print(json.dumps(found[-1]), flush=True)
    return found
