"""Measure what an install takes: time, and size by package, in an empty virtual environment.

    python -m benchmarks.install                            # the plain install, and each extra by itself
    python -m benchmarks.install probe screen               # the plain install and these extras

Writes ``benchmarks/results/install.json``. Downloads count towards the time, so it depends on the network. In each environment, run
`endive init`, `endive run` and the commands of all extras: a command works, or prints the line to type.
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
import tomllib
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
_SCREEN = "endive.toml --for success --parameters transaction.retry=2..8 --trajectories 2 --seeds 1"
_KERNEL = """
from jupyter_client.manager import run_kernel
with run_kernel(kernel_name="python3") as client:
    reply = client.execute_interactive("import endive, ipywidgets; endive.run('endive.toml')", timeout=300)
assert reply["content"]["status"] == "ok", reply["content"]
"""
COMMANDS: dict[str, tuple[str, list[str]]] = {
    "probe DIRECTORY": ("probe", ["probe", ".", "--yes", "--count", "5", "-o", "store.toml"]),
    "probe CATALOG": ("iceberg", ["probe", "lake", "--yes", "--count", "5", "-o", "catalog.toml"]),
    "consolidate --to iceberg": ("iceberg", ["consolidate", "experiments", "--to", "iceberg", "lake.lab.study"]),
    "import TABLE": ("iceberg", ["import", "lab.study_transactions", "--catalog", "lake", "--no-answer"]),
    "screen": ("screen", ["screen", *_SCREEN.split()]),
    "lab": ("lab", ["lab", "endive.toml", "--", sys.executable, "-c", ""]),
}
"""Endive commands and the extras that they need, for a directory with ``endive.toml`` and ``experiments``."""
MODULES: dict[str, tuple[Path | None, list[str]]] = {
    "notebook": (None, ["-c", _KERNEL]),
    "docs": (ROOT, ["-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", "{folder}/site"]),
    "clients": (
        ROOT,
        ["-m", "verification.clients", "observe", "delta-rs", "--checks", "1", "--results", "{folder}/c.json"],
    ),
}
"""Python calls that work with an extra, and the directory to run them in. They run only with their extra."""
INCLUDES = {"probe": ("iceberg",), "clients": ("iceberg", "lab")}
"""Extras whose commands an extra enables as well."""


def try_commands(python: Path, folder: Path, env: dict[str, str], extra: str | None) -> dict[str, str]:
    """Return the results of the commands of extras: ``works``, or the printed install command.

    Raises:
        RuntimeError: A command does neither, or does not work with its extra.
    """

    def call(*words: str, cwd: Path = folder) -> subprocess.CompletedProcess[str]:
        return subprocess.run([python, *words], capture_output=True, text=True, env=env, cwd=cwd)

    call("-m", "endive", "init", "endive.toml", "--for", "simple").check_returncode()
    call("-m", "endive", "run", "endive.toml").check_returncode()
    call("-m", "endive", *COMMANDS["consolidate --to iceberg"][1])  # `import` needs two snapshots
    call("-m", "endive", "run", "endive.toml", "--seed", "1").check_returncode()
    found = {}
    for name, (needed, words) in COMMANDS.items():
        done = call("-m", "endive", *words)
        printed = " ".join(done.stderr.split())
        line = re.search(r"pip install '\w+\[[\w-]+\]'", printed)
        must_work = extra is not None and needed in (extra, *INCLUDES.get(extra, ()))
        if done.returncode and (line is None or must_work):
            raise RuntimeError(f"endive {' '.join(words)} with {extra}: exit code {done.returncode}: {printed}")
        found[name] = line[0] if done.returncode and line else "works"
    if extra in MODULES:
        where, words = MODULES[extra]
        done = call(*(word.replace("{folder}", str(folder)) for word in words), cwd=where or folder)
        if done.returncode:
            raise RuntimeError(f"python {' '.join(words)} with {extra}: exit code {done.returncode}: {done.stderr}")
        found[f"python {words[0]} {words[1]}" if words[0] == "-m" else "a Jupyter kernel"] = "works"
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
        commands = try_commands(python, work, {**plain, **catalog}, extra)
    sizes = {name: round(size / MIB, 1) for name, size in json.loads(listed).items() if name not in ("pip", "setuptools")}
    ordered = dict(sorted(sizes.items(), key=lambda each: (-each[1], each[0])))
    about = {"seconds": round(seconds, 1), "mib": round(sum(sizes.values())), "packages": len(sizes)}
    return {**about, "commands": commands, "mib_by_package": ordered}


def main() -> None:
    """Measure the plain install, and the given extras or all but ``dev``."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    extras: list[str | None] = [None, *(sys.argv[1:] or (name for name in declared if name != "dev"))]
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
