"""Measure what an install takes: time, and size by package, in an empty virtual environment.

    python -m benchmarks.install                       # the plain install
    python -m benchmarks.install probe notebook        # and these extras, each by itself

Writes ``benchmarks/results/install.json``. Downloads count towards the time, so it depends on the network.
"""

from __future__ import annotations

import json
import os
import platform
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
        subprocess.run([python, "-m", "endive", "--help"], check=True, capture_output=True, env=plain, cwd=folder)
    sizes = {name: round(size / MIB, 1) for name, size in json.loads(listed).items() if name not in ("pip", "setuptools")}
    ordered = dict(sorted(sizes.items(), key=lambda each: (-each[1], each[0])))
    return {"seconds": round(seconds, 1), "mib": round(sum(sizes.values())), "packages": len(sizes), "mib_by_package": ordered}


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
        print(f"{name}: {each['mib']} MiB in {each['packages']} packages, {each['seconds']} s")


if __name__ == "__main__":
    main()
