"""Programs that kill themselves just before a file takes its place."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

_KILL = """
import os, signal
from pathlib import Path

replace, files = Path.replace, []

def replace_or_die(path, target):
    files.append(target)
    if len(files) == {moment}:
        os.kill(os.getpid(), signal.SIGKILL)
    return replace(path, target)

Path.replace = replace_or_die
"""


def run_until_killed(program: str, moment: int, *arguments: Path) -> bool:
    """Run Python code that kills itself before its n-th file takes its place; return whether it came so far."""
    command = [sys.executable, "-c", _KILL.format(moment=moment) + program, *map(str, arguments)]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, timeout=300)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr.decode()
    return done.returncode != 0
