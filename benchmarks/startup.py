"""What one waits for before the first run: imports, and compilation on a machine that has never run Endive."""

from __future__ import annotations

import tempfile

from benchmarks.measure import Row, median_of, probe

_MODULES = ("endive", "endive.main", "endive.config", "endive.simulation")
_REPEATS = 5


def measure_startup() -> list[Row]:
    """Rows for a first run with an empty cache, one with a full cache, and imports."""
    with tempfile.TemporaryDirectory(prefix="endive-cache-") as cache:
        environment = {"ENDIVE_CACHE_DIR": cache}
        cold = probe("first-run", environment=environment)
        warm = [probe("first-run", environment=environment) for _ in range(_REPEATS)]
    rows = [
        {"case": "first run, nothing compiled yet", **cold},
        {"case": "first run, compiled before", **{key: median_of(warm, key) for key in warm[0]}},
    ]
    return rows + [_import(module) for module in _MODULES]


def _import(module: str) -> Row:
    return {"case": f"import {module}", "wall_s": median_of([probe("import", module) for _ in range(_REPEATS)], "wall_s")}
