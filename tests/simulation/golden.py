"""Rows that must not change: fixed configurations with the SHA-256 of their rows.

``golden.jsonl`` has 200 configurations of catalogs in an object store, ``golden_more.jsonl`` 80 of services, failures, committers
and busy clients; they were drawn once from ``tests.configurations``. ``golden_tables.jsonl`` has 12 of tables in a steady state,
declarative protocols, partial progress, expiry by age, rounds of committers and time limits of operations.

The first line of a file has the model version, the columns and the counters that are hashed, so that a new column changes no hash.
Each further line has a configuration, the number of its rows, their hash and that of the trace, which only the reference engine
writes; ``changed`` gives the reason for a hash that differs from the first one. ``python -m tests.simulation.golden --why "..."``
writes the hashes of changed rows.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from endive.simulation import RESULT_SCHEMA, RunCounters
from endive.simulation.columns import TRACE_SCHEMA
from endive.simulation.compiled.engine import CompiledEngine
from endive.simulation.reference import ReferenceEngine
from endive.version import MODEL_VERSION
from tests.simulation.runs import config_of, table_of

STORES = Path(__file__).with_name("golden.jsonl")
MORE = Path(__file__).with_name("golden_more.jsonl")
TABLES = Path(__file__).with_name("golden_tables.jsonl")
FILES = (STORES, MORE, TABLES)
Entry = dict[str, Any]


@dataclass(frozen=True)
class Golden:
    """File of configurations: the hashed columns and counters, and the configurations with their hashes."""

    path: Path
    model_version: int
    columns: list[str]
    counters: list[str]
    entries: list[Entry]

    @classmethod
    def load(cls, path: Path) -> Golden:
        """Read a file."""
        first, *rest = path.read_text().splitlines()
        hashed = json.loads(first)
        return cls(
            path, hashed["model_version"], hashed["columns"], hashed.get("counters", []), [json.loads(line) for line in rest]
        )

    def compiled(self, tree: dict[str, Any]) -> Entry:
        """Return the hash of a configuration on the compiled engine."""
        rows, counters = table_of(CompiledEngine, config_of(tree))
        return {"rows": rows.num_rows, "sha256": self._hash(rows, counters)}

    def reference(self, tree: dict[str, Any]) -> Entry:
        """Return the hashes of a configuration on the reference engine."""
        batches: list[pa.RecordBatch] = []
        events: list[pa.RecordBatch] = []
        counters = ReferenceEngine(config_of(tree), batches.append, events.append).run()
        rows = pa.Table.from_batches(batches, schema=RESULT_SCHEMA)
        trace = _hash_columns(pa.Table.from_batches(events, schema=TRACE_SCHEMA), TRACE_SCHEMA.names)
        return {"rows": rows.num_rows, "sha256": self._hash(rows, counters), "trace": trace.hexdigest()}

    def changed(self, hashes: Callable[[dict[str, Any]], Entry], part: int = 0, parts: int = 1) -> list[int]:
        """Return the positions of the configurations, or of a part of them, whose hashes have changed."""
        places = range(part, len(self.entries), parts)
        return [place for place in places if not hashes(self.entries[place]["document"]).items() <= self.entries[place].items()]

    def _hash(self, rows: pa.Table, counters: RunCounters) -> str:
        digest = _hash_columns(rows, self.columns)
        for name in self.counters:
            digest.update(f"{name} {counters.counts[name]:.9g}\n".encode())
        return digest.hexdigest()

    def write(self) -> None:
        """Write the file."""
        hashed = {"model_version": MODEL_VERSION, "columns": self.columns} | ({"counters": self.counters} if self.counters else {})
        lines = [json.dumps(hashed), *(json.dumps(entry, separators=(",", ":")) for entry in self.entries)]
        self.path.write_text("\n".join(lines) + "\n")


def _hash_columns(rows: pa.Table, columns: list[str]) -> hashlib._Hash:
    """Hash columns; floats are rounded to nine digits, because the last bits may differ between engines."""
    digest = hashlib.sha256()
    for name in columns:
        values = rows.column(name).to_pylist()
        if pa.types.is_floating(rows.schema.field(name).type):
            values = [f"{value:.9g}" for value in values]
        digest.update(json.dumps([name, values]).encode())
    return digest


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.golden", description=__doc__)
    parser.add_argument("--why", required=True, help="why rows or traces have changed on purpose")
    why = parser.parse_args().why
    for path in FILES:
        golden = Golden.load(path)
        changed = golden.changed(golden.reference)
        rows = golden.changed(golden.compiled) if changed and golden.model_version == MODEL_VERSION else []
        if rows:
            print(f"{path.name}: rows of {len(rows)} configurations have changed; raise MODEL_VERSION in endive/version.py first")
            return 1
        for place in changed:
            entry = golden.entries[place]
            entry |= golden.reference(entry["document"])
            entry["changed"] = f"{entry['changed']}; {why}" if "changed" in entry else why
        golden.write()
        print(f"{path.name}: {len(changed)} of {len(golden.entries)} have changed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
