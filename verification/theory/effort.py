"""Compare the estimated with the actual CPU time of the example studies in their quick form."""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from endive.config import Document, build_simulation_config
from endive.config.sweep_file import Sweep
from endive.runs.effort import Effort
from endive.runs.execute import run_experiment
from endive.runs.plan import plan_sweep
from endive.simulation import Simulation
from verification.theory.rows import TheoryRow

_STUDIES = Path(__file__).parents[2] / "examples" / "sweeps"
_FACTOR = 2.0


def compare(quick: bool) -> Iterator[TheoryRow]:
    """Return for each study the logarithm of actual over estimated time, to the base of the accepted factor."""
    for path in sorted(_STUDIES.glob("*.toml")):
        plan = plan_sweep(Sweep(path, quick=True))
        points = plan.points[::4] if quick else plan.points
        estimated, taken_s = Effort(), 0.0
        for point in points:
            _compile(point.document)
            for seed in plan.seeds:
                estimated += point.effort
                with tempfile.TemporaryDirectory() as folder:
                    began = time.process_time()
                    run_experiment(point.document, root=Path(folder), seed=seed)
                    taken_s += time.process_time() - began
        case = f"{path.stem}: {estimated.cpu_seconds:.2f} s estimated, {taken_s:.2f} s taken"
        yield TheoryRow("effort", case, "log2(taken/estimated)", 0.0, math.log(taken_s / estimated.cpu_seconds, _FACTOR), 1.0)


def _compile(document: Document) -> None:
    """Compile the kernel, because compilation is not part of the effort of a run."""
    config = build_simulation_config(document, seed_override=0)
    Simulation(replace(config, duration_ms=1.0, engine="compiled")).run()
