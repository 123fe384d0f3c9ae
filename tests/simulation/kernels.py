"""Kernels that tests share: compiling takes seconds, and random configurations ask for more than fifty combinations of features.

Within pytest, a configuration is run by the narrowest of these kernels that can do what it needs. The plain ones are those that
most runs of users have; the wide ones can do everything that may be added to a path and a catalog. ``make fuzz-engines``
compiles for each configuration the very kernel that it needs.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

from endive.simulation.compiled import engine
from endive.simulation.compiled.features import Features
from endive.simulation.compiled.native import kernel_cache as cache

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
    """The narrowest kernel of the list that can do this, or the one of exactly these features if none can."""
    return next((each for each in KERNELS if _can(each, features)), features)


def _can(kernel: Features, wanted: Features) -> bool:
    several = "files" in kernel.names & wanted.names and "endive" in kernel.names
    exact = {name for name in _EXACT if not (several and name == "endive")}
    return wanted.names <= kernel.names and not (kernel.names - wanted.names) & exact


@contextmanager
def sharing_kernels() -> Iterator[None]:
    """Let this process take kernels of the list: where it runs them, where it looks for them, and where it compiles them beside.

    Those that are still being compiled beside at the end are ended.
    """
    found, beside = cache.kernel_file, cache.compile_in_background
    with (
        mock.patch.object(cache, "kernel_file", lambda features: found(shared(features))),
        mock.patch.object(cache, "compile_in_background", lambda features: beside(shared(features))),
        mock.patch.object(engine, "load_kernel", lambda features: cache.load_kernel(shared(features))),
    ):
        yield
    for process in filter(cache._is_running, cache._background.values()):
        os.kill(process, signal.SIGTERM)
        os.waitpid(process, 0)
