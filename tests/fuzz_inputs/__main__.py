"""Command line of the input fuzzer: ``python -m tests.fuzz_inputs``."""

from __future__ import annotations

import argparse
import secrets
import sys
import time

from tests import fuzz_inputs
from tests.fuzz_inputs import fuzz


def main() -> int:
    """Run the selected inputs; return 1 if there is a violation."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz_inputs", description=fuzz_inputs.__doc__)
    parser.add_argument("--examples", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=secrets.randbits(31))
    parser.add_argument("--only", type=int, help="the number of the one file that is tried")
    options = parser.parse_args()
    numbers = range(options.examples) if options.only is None else range(options.only, options.only + 1)
    print(f"{len(numbers)} files, seed {options.seed}", flush=True)
    faults = fuzz(numbers, options.seed)
    for fault in faults[:20]:
        print(f"\n{fault.kind}: {fault.what}\n{fault.content[:600]!r}")
    print(f"{len(numbers) - len(faults)} passed, {len(faults)} failed, {time.process_time():.0f} s of CPU")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
