"""Compare both engines on many random configurations: ``python -m tests.fuzz_engines --examples 10000 [--seed N]``.

``--protocols`` only uses random protocols, ``--shared-kernels`` compiles the few kernels that tests share. Checks the property of
``tests/simulation/test_engines_agree.py`` for any number of examples, and the invariants of rows and history, because comparing the
engines does not detect errors that both share. The printed seed reproduces a run.
"""

from __future__ import annotations

import argparse
import secrets
import sys
import traceback
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import hypothesis
import tomli_w
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.strategies import SearchStrategy

from tests.configurations import all_documents, protocol_documents
from tests.simulation.kernels import sharing_kernels
from tests.simulation.runs import check_run
from tests.simulation.test_engines_agree import assert_engines_agree

_PROGRESS_EVERY = 500

Tree = dict[str, Any]


class Fuzzer:
    """Counter of configurations that stores the last failure; Hypothesis ends with the smallest failure that it finds."""

    def __init__(self, check: Callable[[Tree], None], examples: int) -> None:
        self._check = check
        self._examples = examples
        self._tried = 0
        self.failing: Tree | None = None

    def try_one(self, tree: Tree) -> None:
        """Check one configuration."""
        self._tried += 1
        if self._tried % _PROGRESS_EVERY == 0:
            doing = f"of {self._examples}" if self.failing is None else "tried; making the failing one smaller"
            print(f"{self._tried} {doing}", file=sys.stderr, flush=True)
        try:
            self._check(tree)
        except Exception:
            self.failing = tree
            raise


def check(tree: Tree) -> None:
    """Check that the engines agree on a configuration, and the invariants of its rows and its history."""
    assert_engines_agree(tree)
    check_run(tree)


def fuzz(examples: int, seed: int, check: Callable[[Tree], None] = check, trees: SearchStrategy[Tree] | None = None) -> bool:
    """Check ``examples`` configurations, print one that fails, and return whether all passed."""
    fuzzer = Fuzzer(check, examples)

    @hypothesis.seed(seed)
    @settings(
        max_examples=examples,
        database=None,
        deadline=None,
        phases=(Phase.generate, Phase.shrink),
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    @given(all_documents() if trees is None else trees)
    def search(tree: Tree) -> None:
        fuzzer.try_one(tree)

    try:
        search()
    except Exception:
        if fuzzer.failing is None:
            raise
        traceback.print_exc()
        print(f"# seed {seed}: this file reproduces it\n{tomli_w.dumps(fuzzer.failing)}")
        return False
    return True


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz_engines", description=__doc__)
    parser.add_argument("--examples", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--protocols", action="store_true")
    parser.add_argument("--shared-kernels", action="store_true")
    options = parser.parse_args()
    seed = secrets.randbits(32) if options.seed is None else options.seed
    print(f"seed {seed}, {options.examples} configurations", file=sys.stderr, flush=True)
    with sharing_kernels() if options.shared_kernels else nullcontext():
        if not fuzz(options.examples, seed, trees=protocol_documents() if options.protocols else None):
            return 1
    print("the engines agree, and no invariant is violated")
    return 0


if __name__ == "__main__":
    sys.exit(main())
