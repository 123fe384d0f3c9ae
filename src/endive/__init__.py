"""Endive: a simulator of Apache Iceberg's optimistic concurrency control.

Example:
    ```python
    import endive

    config = endive.load("endive.toml")  # written by `endive init`
    study = endive.run(config, seeds=5, scenarios={"today": {}, "S3 Express": {"storage.provider": "s3x"}})
    print(study.summary())
    study.figure()
    ```

Functions: ``load`` a configuration, ``run`` it with several seeds on this machine, ``sweep`` it over the values of keys on Spark,
``compare`` configurations, find the load at which a condition is met (``frontier``), and ``tune`` settings. Results have
``summary()``, ``to_pandas()``, ``to_arrow()`` and ``figure()``. Each name is imported at its first use, so ``import endive`` is
fast.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from endive.api import allow_code, compare, frontier, load, run, sweep, tune
    from endive.config.errors import ConfigError
    from endive.results import Chart, Comparison, Configuration, Frontier, Study, Tuning

__version__ = "0.2.0.dev0"

__all__ = [
    "Chart",
    "Comparison",
    "ConfigError",
    "Configuration",
    "Frontier",
    "Study",
    "Tuning",
    "allow_code",
    "compare",
    "frontier",
    "load",
    "run",
    "sweep",
    "tune",
]

UNSUPPORTED = "Endive runs on Linux and macOS. On Windows, install it in the Windows Subsystem for Linux: `wsl --install`."
"""Error message on Windows, which lacks the file locks and Unix sockets that Endive needs."""
_MODULES = {
    "endive.api": ("allow_code", "compare", "frontier", "load", "run", "sweep", "tune"),
    "endive.config.errors": ("ConfigError",),
    "endive.results": ("Chart", "Comparison", "Configuration", "Frontier", "Study", "Tuning"),
}
_PLACES = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import a public name on first use."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if sys.platform == "win32":
        raise ImportError(UNSUPPORTED)
    globals()[name] = found = getattr(import_module(_PLACES[name]), name)
    return found


def __dir__() -> list[str]:
    """Return all public names, imported or not."""
    return sorted({*globals(), *__all__})
