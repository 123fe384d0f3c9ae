"""The window of each configuration of a dataset: what was asked for, or what its runtimes and its runs come to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from endive.analysis.warmup import SERIES_BINS, Window, common_window, entry_warmup_ms, find_window, given_window
from endive.config import ConfigError, Document, build_simulation_config
from endive.config.load import load_document
from endive.runs.dataset import Experiment, Manifest
from endive.runs.layout import CONFIG
from endive.runs.parameters import SCENARIO_COLUMN, varying_within_scenarios
from endive.runs.parts import Spec

SeriesOf = Callable[[Sequence[Spec]], pa.Table]
"""Reduces parts to rows of the number of committing transactions over time."""


@dataclass(frozen=True)
class MetricsOptions:
    """What to measure: ``warmup_ms`` None lets runtimes and MSER-5 decide; ``load`` None takes the rate that varies."""

    warmup_ms: float | None = None
    cooldown_ms: float = 0.0
    load: str | None = None

    def problem_with(self, duration_ms: float) -> str | None:
        """Tell that warm-up and cool-down leave nothing of a run, which is to be named after it; None if they leave something."""
        warmup_ms = self.warmup_ms or 0.0
        if warmup_ms + self.cooldown_ms >= duration_ms:
            return f"a warm-up of {warmup_ms:g} ms and a cool-down of {self.cooldown_ms:g} ms leave nothing of"
        return None


def document_entry_warmup_ms(document: Document) -> float | None:
    """When 95 % of the stationary entry rate is reached; None if the workload changes by plan."""
    return entry_warmup_ms(build_simulation_config(document, seed_override=0).workload.config.workload_classes)


def stored_entry_warmup_ms(config: Path) -> float | None:
    """The same of a configuration on disk; 0 if it cannot be read, so that MSER-5 alone decides."""
    try:
        return document_entry_warmup_ms(load_document(config))
    except (ConfigError, OSError):
        return 0.0


def find_windows(
    root: Path, manifest: Manifest, options: MetricsOptions, parts: Sequence[Spec], series: SeriesOf
) -> dict[str, Window]:
    """The window of each experiment of ``root``. ``series`` is called only where the runs themselves have to be looked at."""
    durations = {name: each.duration_ms for name, each in manifest.experiments.items() if each.parts}
    if options.warmup_ms is not None:
        return {name: given_window(duration, options.warmup_ms, options.cooldown_ms) for name, duration in durations.items()}
    entry = {name: stored_entry_warmup_ms(root / name / CONFIG) for name in durations}
    open_ = {name for name, at in entry.items() if at is not None and at <= (durations[name] - options.cooldown_ms) / 2.0}
    committing = {name: np.zeros(SERIES_BINS) for name in durations}
    wanted = [spec for spec in parts if spec["experiment"] in open_]
    rows = series(wanted).to_pylist() if wanted else []
    for row in sorted(rows, key=lambda row: (row["experiment"], row["part"])):
        committing[row["experiment"]] += np.array(row["committing"])
    own = {name: find_window(duration, options.cooldown_ms, entry[name], committing[name]) for name, duration in durations.items()}
    return one_for_all_scenarios(own, manifest.experiments)


def one_for_all_scenarios(own: Mapping[str, Window], experiments: Mapping[str, Experiment]) -> dict[str, Window]:
    """Give the scenarios of a study, which are compared, one window wherever their axes and their durations are the same."""
    scenarios = {name: experiments[name] for name in own if SCENARIO_COLUMN in experiments[name].parameters}
    axes = varying_within_scenarios({name: each.parameters for name, each in scenarios.items()})
    compared: dict[tuple[object, ...], list[str]] = {}
    for name, each in scenarios.items():
        point = (each.label, each.duration_ms, *(each.parameters.get(axis) for axis in axes))
        compared.setdefault(point, []).append(name)
    shared = {name: common_window([own[each] for each in names]) for names in compared.values() for name in names}
    return {**own, **shared}
