"""Rows that must not change: 200 fixed configurations with the SHA-256 of their rows (``golden.jsonl``).

The first line names the columns that are hashed, so that a new column changes no hash. Each further line has a configuration, the
number of its rows and their hash; ``changed`` says why a hash is no longer the first one. The configurations were drawn once from
``tests.configurations``; ``python -m tests.simulation.golden --why "..."`` writes the hashes of those whose rows have changed anew.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa

from endive.simulation.compiled.engine import CompiledEngine
from tests.simulation.runs import Engine, config_of, table_of

PATH = Path(__file__).with_name("golden.jsonl")
Entry = dict[str, Any]


def load() -> tuple[list[str], list[Entry]]:
    """The hashed columns, and the configurations with their hashes."""
    first, *rest = PATH.read_text().splitlines()
    return json.loads(first)["columns"], [json.loads(line) for line in rest]


def rows_hash(rows: pa.Table, columns: list[str]) -> str:
    """The hash of these columns; floats are hashed by nine digits, since the last bits may differ between engines."""
    digest = hashlib.sha256()
    for name in columns:
        values = rows.column(name).to_pylist()
        if pa.types.is_floating(rows.schema.field(name).type):
            values = [f"{value:.9g}" for value in values]
        digest.update(json.dumps([name, values]).encode())
    return digest.hexdigest()


def entry_of(tree: dict[str, Any], columns: list[str], engine: Engine = CompiledEngine) -> Entry:
    """A configuration with its hash, as this code has it."""
    rows, _ = table_of(engine, config_of(tree), shared_kernels=False)
    return {"rows": rows.num_rows, "sha256": rows_hash(rows, columns), "document": tree}


def write(columns: list[str], entries: list[Entry]) -> None:
    """Write the file anew."""
    lines = [json.dumps({"columns": columns}), *(json.dumps(entry, separators=(",", ":")) for entry in entries)]
    PATH.write_text("\n".join(lines) + "\n")


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.golden", description=__doc__)
    parser.add_argument("--why", required=True, help="why rows have changed on purpose")
    why = parser.parse_args().why
    columns, entries = load()
    changed = 0
    for entry in entries:
        new = entry_of(entry["document"], columns)
        if new["sha256"] != entry["sha256"]:
            entry |= {**new, "changed": f"{entry['changed']}; {why}" if "changed" in entry else why}
            changed += 1
    write(columns, entries)
    print(f"{changed} of {len(entries)} have changed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
