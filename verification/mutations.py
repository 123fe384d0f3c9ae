"""Run mutation tests: ``python -m verification.mutations [--share 0.2] [--seed 1]`` changes the code and checks that tests fail.

mutmut generates the mutations (``[tool.mutmut]`` in pyproject.toml selects the modules and tests) and runs the tests that reach the
changed function. All mutations take more than an hour, so a share of them is tested: mutations whose name, hashed with the seed, is
below the share. Equal share and seed select the same mutations. Detected mutations are stored in ``mutants/`` and tested again only
if the code changes; survivors are always tested again. Counts and survivors are written to ``verification/results/mutations.json``;
``verification/mutations.md`` comments on each survivor.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import signal
import sys
from collections import Counter
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).parents[1]
RESULTS = _ROOT / "verification" / "results" / "mutations.json"
_CAUGHT = ("killed", "timeout", "caught by type check", "segfault")
_MOST_CPU_S, _TIMEOUT_EXIT_CODE = 6.0, 36
_EARLY, _EARLY_S = "golden_more", 0.05
"""Tests that run early, after the fastest ones, because most changes of the model change rows."""


class Bounds:
    """Pytest plugin that skips tests of the compiled engine, which mutmut cannot change, and limits the CPU time of a test."""

    def pytest_collection_finish(self) -> None:
        """Skip tests that create a compiled engine."""
        import pytest

        from endive.simulation.compiled.engine import CompiledEngine

        setattr(CompiledEngine, "__init__", lambda *_: pytest.skip("compiles a kernel"))  # noqa: B010

    def pytest_runtest_setup(self) -> None:
        """Start the clock."""
        signal.signal(signal.SIGPROF, lambda *_: os._exit(_TIMEOUT_EXIT_CODE))
        signal.setitimer(signal.ITIMER_PROF, _MOST_CPU_S)

    def pytest_runtest_teardown(self) -> None:
        """Stop the clock."""
        signal.setitimer(signal.ITIMER_PROF, 0.0)


def is_chosen(name: str, share: float, seed: int) -> bool:
    """Return whether a mutation belongs to the tested share."""
    digest = hashlib.sha256(f"{seed} {name}".encode()).digest()
    return int.from_bytes(digest[:8], "big") < share * 2**64


def run(share: float, seed: int, workers: int, only: str = "*") -> list[tuple[str, str, str]]:
    """Test the selected mutations; return module, name and outcome of each."""
    from _pytest.nodes import Node
    from hypothesis import HealthCheck, settings
    from mutmut import __main__ as mutmut
    from mutmut.runners.harness import PytestRunner
    from mutmut.state import state
    from mutmut.stats import status_by_exit_code

    # mutmut runs tests several times in a process, and random values must be the same for all mutations
    settings.register_profile(
        "mutations", derandomize=True, database=None, deadline=None, suppress_health_check=[HealthCheck.differing_executors]
    )
    settings.load_profile("mutations")

    if not hasattr(Node, "_nodeid"):  # required by mutmut 3.8, removed in pytest 9.2
        setattr(Node, "_nodeid", property(lambda node: node.nodeid))  # noqa: B010
    found: list[Any] = []
    collect = mutmut.collect_source_file_mutation_data

    def chosen(*, mutant_names: Any) -> tuple[list[Any], dict[str, Any]]:
        mutants, by_path = collect(mutant_names=mutant_names)
        durations = state().duration_by_test
        durations.update({test: _EARLY_S for test in durations if _EARLY in test})
        found[:] = [
            (data, name, code if status_by_exit_code[code] in _CAUGHT else None)
            for data, name, code in mutants
            if is_chosen(name, share, seed) and fnmatch(name, only)
        ]
        return list(found), by_path

    mutmut.collect_source_file_mutation_data = chosen
    execute = PytestRunner.execute_pytest
    setattr(  # noqa: B010
        PytestRunner, "execute_pytest", lambda self, params, plugins=(): execute(self, params, plugins=[*plugins, Bounds()])
    )
    mutmut._run((), workers)
    return [
        (str(data.path), name, status_by_exit_code[data.exit_code_by_key[name.replace("__init__.", "")]]) for data, name, _ in found
    ]


def summary(answer: list[tuple[str, str, str]], share: float, seed: int) -> dict[str, Any]:
    """Return the outcomes by module."""
    modules = {module: Counter(status in _CAUGHT for where, _, status in answer if where == module) for module, _, _ in answer}
    caught = sum(counts[True] for counts in modules.values())
    return {
        "share": share,
        "seed": seed,
        "changes": len(answer),
        "caught": caught,
        "caught_share": round(caught / len(answer), 4) if answer else None,
        "timeouts": sum(status == "timeout" for _, _, status in answer),
        "modules": {name: {"changes": counts.total(), "caught": counts[True]} for name, counts in sorted(modules.items())},
        "survivors": {name: status for _, name, status in sorted(answer) if status not in _CAUGHT},
    }


def main() -> int:
    """Run the command line; return 1 if less than 90% of the mutations are detected."""
    parser = argparse.ArgumentParser(prog="python -m verification.mutations", description=__doc__)
    parser.add_argument("--share", type=float, default=0.15, help="of all changes, from 0 to 1")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", default="*", help="pattern of names; the results are then only printed")
    options = parser.parse_args()
    with contextlib.chdir(_ROOT):
        result = summary(run(options.share, options.seed, options.workers, options.only), options.share, options.seed)
    if options.only == "*":
        RESULTS.write_text(json.dumps(result, indent=2) + "\n")
    print(f"{result['caught']} of {result['changes']} changes were caught (share {options.share}, seed {options.seed})")
    for name in result["survivors"]:
        print(f"survived: {name}")
    return 0 if result["caught_share"] is not None and result["caught_share"] >= 0.9 else 1


if __name__ == "__main__":
    sys.exit(main())
