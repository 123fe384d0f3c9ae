"""Measure what an install takes: time, and size by package, in an empty virtual environment.

    python -m benchmarks.install                            # the plain install
    python -m benchmarks.install probe iceberg screen       # and these extras, each by itself

Writes ``benchmarks/results/install.json``. Downloads count towards the time, so it depends on the network. In each environment, run
`endive init`, `endive run` and a command of each extra, which works if the extra is installed, or else prints the line to type.
"""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks/results/install.json"
MIB = 2**20
_SIZES = """
import importlib.metadata as metadata, json, os
sizes = {}
for each in metadata.distributions():
    files = [each.locate_file(file) for file in each.files or ()]
    sizes[each.name.lower()] = sum(os.path.getsize(file) for file in files if os.path.isfile(file))
print(json.dumps(sizes))
"""
_CATALOG = {"PYICEBERG_CATALOG__LAKE__URI": "sqlite:///catalog.db", "PYICEBERG_CATALOG__LAKE__WAREHOUSE": "file://{folder}"}
COMMANDS = {
    "probe": ["probe", ".", "--yes", "--count", "5", "-o", "store.toml"],
    "iceberg": ["consolidate", "experiments", "--to", "iceberg", "lake.lab.study"],
    "screen": [
        "screen",
        "endive.toml",
        "--for",
        "success",
        "--parameters",
        "transaction.retry=2..8",
        "--trajectories",
        "2",
        "--seeds",
        "1",
    ],
    "lab": ["lab", "endive.toml", "--", sys.executable, "-c", ""],
}
"""A command of each extra, in a directory with ``endive.toml`` and ``experiments``."""


def try_commands(python: Path, folder: Path, env: dict[str, str]) -> dict[str, str]:
    """Return what a command of each extra does: ``works``, or the line that it prints to type. Raises if it does neither."""

    def call(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([python, "-m", "endive", *words], capture_output=True, text=True, env=env, cwd=folder)

    call("init", "endive.toml", "--for", "simple").check_returncode()
    call("run", "endive.toml").check_returncode()
    found = {}
    for extra, words in COMMANDS.items():
        done = call(*words)
        said = " ".join(done.stderr.split())
        line = re.search(r"pip install 'endive\[\w+\]'", said)
        if done.returncode and line is None:
            raise RuntimeError(f"endive {' '.join(words)}: exit code {done.returncode}: {said}")
        found[extra] = "works" if line is None else line[0]
    return found


def measure(extra: str | None) -> dict[str, Any]:
    """Install the checkout, with an extra, into an empty environment; return seconds, and MiB by package."""
    with tempfile.TemporaryDirectory(prefix="endive-install-") as folder:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        python = Path(folder) / "bin/python"
        target = str(ROOT) if extra is None else f"{ROOT}[{extra}]"
        started = time.perf_counter()
        install = [str(python), "-m", "pip", "install", "--quiet", "--no-compile", "-c", str(ROOT / "constraints.txt"), target]
        subprocess.run(install, check=True)
        seconds = time.perf_counter() - started
        plain = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        listed = subprocess.run([python, "-c", _SIZES], check=True, capture_output=True, text=True, env=plain).stdout
        work = Path(folder) / "work"
        work.mkdir()
        catalog = {name: value.format(folder=work) for name, value in _CATALOG.items()}
        commands = try_commands(python, work, {**plain, **catalog})
    sizes = {name: round(size / MIB, 1) for name, size in json.loads(listed).items() if name not in ("pip", "setuptools")}
    ordered = dict(sorted(sizes.items(), key=lambda each: (-each[1], each[0])))
    about = {"seconds": round(seconds, 1), "mib": round(sum(sizes.values())), "packages": len(sizes)}
    return {**about, "commands": commands, "mib_by_package": ordered}


def main() -> None:
    """Measure the plain install and the extras of the command line."""
    extras: list[str | None] = [None, *sys.argv[1:]]
    found = {extra or "plain": measure(extra) for extra in extras}
    plain = found["plain"]["mib_by_package"]
    for name, each in found.items():
        if name != "plain":
            each["mib_by_package"] = {key: size for key, size in each["mib_by_package"].items() if key not in plain}
    about = {"python": platform.python_version(), "platform": platform.platform()}
    RESULTS.write_text(json.dumps({**about, "installs": found}, indent=2) + "\n", encoding="utf-8")
    for name, each in found.items():
        print(f"{name}: {each['mib']} MiB in {each['packages']} packages, {each['seconds']} s; {each['commands']}")


if __name__ == "__main__":
    main()
