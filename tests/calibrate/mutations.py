"""Import broken metadata files and print the outcomes: ``python -m tests.calibrate.mutations --count 2000``."""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Callable
from typing import Any

from tests.calibrate.tables import START_MS, metadata_document

_VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 2**63, 1e308, "", "x", "append", [], {}, [[]], [None], {"a": 1}, "\ud800", "9" * 400, -(2**70),
)  # fmt: skip


def mutated(seed: int) -> bytes:
    """Return a metadata file with one to four errors."""
    rng = random.Random(seed)
    times = [START_MS + rng.randrange(3_600_000) for _ in range(rng.randrange(2, 30))]
    document: Any = metadata_document(sorted(times), properties={"commit.retry.num-retries": "4"})
    for snapshot in document["snapshots"]:
        snapshot["summary"]["operation"] = rng.choice(["append", "overwrite", "delete", "replace"])
    for _ in range(rng.randrange(1, 5)):
        _break(document, rng)
    content = json.dumps(document, ensure_ascii=True).encode()
    return _torn(content, rng) if rng.random() < 0.2 else content


def _break(node: Any, rng: random.Random) -> None:
    """Replace, remove or duplicate a value at a random place."""
    while True:
        keys: list[Any] = list(node) if isinstance(node, dict) else list(range(len(node)))
        if not keys:
            return
        key = rng.choice(keys)
        if isinstance(node[key], dict | list) and rng.random() < 0.8:
            node = node[key]
            continue
        kind = rng.random()
        if kind < 0.25:
            del node[key]
        elif kind < 0.35 and isinstance(node, list):
            node.append(node[key])
        else:
            node[key] = rng.choice(_VALUES)
        return


def _torn(content: bytes, rng: random.Random) -> bytes:
    place = rng.randrange(len(content))
    made: tuple[Callable[[], bytes], ...] = (
        lambda: content[:place],
        lambda: content[:place] + bytes([rng.randrange(256)]) + content[place + 1 :],
        lambda: content[:place] + content[place + rng.randrange(50) :],
    )
    return rng.choice(made)()


def main() -> None:
    """Run the command line."""
    from tests.calibrate.test_import import try_one

    parser = argparse.ArgumentParser(prog="python -m tests.calibrate.mutations", description=__doc__)
    parser.add_argument("--count", type=int, default=2_000)
    count = parser.parse_args().count
    made = sum(try_one(mutated(seed)) is not None for seed in range(count))
    print(f"{count} broken files: {made} imported all the same, {count - made} refused with a sentence")


if __name__ == "__main__":
    main()
