"""Kernels shared by tests: compiling takes seconds, and random configurations need more than fifty sets of features.

In pytest, a configuration uses the smallest of these kernels that has the required features. The plain kernels are those of most
user runs; the wide kernels have all features of a path and a catalog. ``make fuzz-engines`` compiles the exact kernel of each
configuration.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

from endive.simulation import pilot
from endive.simulation.compiled import engine
from endive.simulation.compiled import kernel_cache as cache
from endive.simulation.compiled.features import Features

_EXACT = ("endive", "files", "cas", "log", "service", "list_appends")
"""Features that a shared kernel has only if the configuration needs them."""
_PLAIN = ("endive-cas", "iceberg-files-cas", "endive-log", "pyiceberg-files-log", "endive-service", "iceberg-files-service")
_PATHS = "endive-iceberg-pyiceberg-files"
_WIDE = (
    *("endive-cas-limits-failures-clients-committers", "endive-cas-limits-failures-list_appends-clients"),
    *("endive-log-failures-clients", "endive-log-failures-list_appends-clients", "endive-service-limits-failures-clients"),
    *(f"{_PATHS}-cas-limits-failures-clients-committers", f"{_PATHS}-log-failures-clients"),
    f"{_PATHS}-service-limits-failures-clients-committers",
    *("protocol-files-cas-limits-failures-clients-committers", "protocol-files-service-limits-failures-clients-committers"),
)
KERNELS = tuple(Features.named(name) for name in (*_PLAIN, *_WIDE))


def shared(features: Features) -> Features:
    """Return the smallest shared kernel with these features, or the exact kernel if there is none."""
    return next((each for each in KERNELS if _can(each, features)), features)


def _can(kernel: Features, wanted: Features) -> bool:
    several = "files" in kernel.names & wanted.names and "endive" in kernel.names
    exact = {name for name in _EXACT if not (several and name == "endive")}
    return wanted.names <= kernel.names and not (kernel.names - wanted.names) & exact


@contextmanager
def sharing_kernels() -> Iterator[None]:
    """Use shared kernels in this process, for running, caching and background compilation.

    Background compilations that are still running at the end are terminated.
    """
    found, beside = cache.kernel_file, cache.compile_in_background
    with (
        mock.patch.object(cache, "kernel_file", lambda features: found(shared(features))),
        mock.patch.object(cache, "compile_in_background", lambda features: beside(shared(features))),
        mock.patch.object(engine, "load_kernel", lambda features: cache.load_kernel(shared(features))),
        mock.patch.object(pilot, "load_kernel", lambda features: cache.load_kernel(shared(features))),
    ):
        yield
    for process in filter(cache._is_running, cache._background.values()):
        os.kill(process, signal.SIGTERM)
        os.waitpid(process, 0)
