"""Rows that must not change: fixed configurations with the SHA-256 of their rows.

``golden.jsonl`` has 200 configurations of catalogs in a store, ``golden_services.jsonl`` 64 of services, failures and committers.
The first line of a file names the columns that are hashed, and the counters of the run, so that a new one changes no hash. Each
further line has a configuration, the number of its rows and their hash; ``changed`` says why a hash is no longer the first one. The
configurations were drawn once from ``tests.configurations``; ``python -m tests.simulation.golden --why "..."`` writes the hashes of
those whose rows have changed anew.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from endive.simulation import RunCounters
from endive.simulation.compiled.engine import CompiledEngine
from tests.simulation.runs import Engine, config_of, table_of

STORES = Path(__file__).with_name("golden.jsonl")
SERVICES = Path(__file__).with_name("golden_services.jsonl")
Entry = dict[str, Any]


@dataclass(frozen=True)
class Golden:
    """A file of configurations: the names of what is hashed, and the configurations with their hashes."""

    path: Path
    columns: list[str]
    counters: list[str]
    entries: list[Entry]

    @classmethod
    def load(cls, path: Path) -> Golden:
        """Read a file."""
        first, *rest = path.read_text().splitlines()
        hashed = json.loads(first)
        return cls(path, hashed["columns"], hashed.get("counters", []), [json.loads(line) for line in rest])

    def entry_of(self, tree: dict[str, Any], engine: Engine = CompiledEngine) -> Entry:
        """A configuration with its hash, as this code has it. Those of services take kernels that other tests have as well."""
        rows, counters = table_of(engine, config_of(tree), shared_kernels=self.path == SERVICES)
        return {"rows": rows.num_rows, "sha256": self._hash(rows, counters), "document": tree}

    def changed(self, engine: Engine, part: int = 0, parts: int = 1) -> list[int]:
        """The places of the configurations, or of a part of them, whose hashes this code does not have."""
        return [
            place
            for place in range(part, len(self.entries), parts)
            if self.entry_of(self.entries[place]["document"], engine)["sha256"] != self.entries[place]["sha256"]
        ]

    def _hash(self, rows: pa.Table, counters: RunCounters) -> str:
        """Floats are hashed by nine digits, since the last bits may differ between engines."""
        digest = hashlib.sha256()
        for name in self.columns:
            values = rows.column(name).to_pylist()
            if pa.types.is_floating(rows.schema.field(name).type):
                values = [f"{value:.9g}" for value in values]
            digest.update(json.dumps([name, values]).encode())
        for name in self.counters:
            digest.update(f"{name} {counters.counts[name]:.9g}\n".encode())
        return digest.hexdigest()

    def write(self) -> None:
        """Write the file anew."""
        hashed = {"columns": self.columns} | ({"counters": self.counters} if self.counters else {})
        lines = [json.dumps(hashed), *(json.dumps(entry, separators=(",", ":")) for entry in self.entries)]
        self.path.write_text("\n".join(lines) + "\n")


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.golden", description=__doc__)
    parser.add_argument("--why", required=True, help="why rows have changed on purpose")
    why = parser.parse_args().why
    for path in (STORES, SERVICES):
        golden = Golden.load(path)
        changed = golden.changed(CompiledEngine)
        for place in changed:
            entry = golden.entries[place]
            entry |= golden.entry_of(entry["document"])
            entry["changed"] = f"{entry['changed']}; {why}" if "changed" in entry else why
        golden.write()
        print(f"{path.name}: {len(changed)} of {len(golden.entries)} have changed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
