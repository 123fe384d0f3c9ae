"""Start client processes with loaded libraries, by forking a server that has imported them.

Loading its libraries takes a client 1 to 2 s of CPU time, and one observation starts 250 processes.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import socketserver
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from multiprocessing.context import ForkServerContext
from pathlib import Path
from tempfile import TemporaryDirectory

from verification.clients.jobs import JOBS, LIBRARIES, TABLE

_ASK = """
import json, os, socket, sys
connection = socket.socket(socket.AF_UNIX)
connection.connect(sys.argv[1])
connection.sendall(json.dumps(dict(os.environ)).encode())
connection.shutdown(socket.SHUT_WR)
sys.exit(int(connection.makefile().read()))
"""


def warm_context(clients: Sequence[str]) -> ForkServerContext:
    """Return the context of processes that start with the libraries of these clients."""
    context = multiprocessing.get_context("forkserver")
    libraries = [library for client in clients for library in LIBRARIES.get(client, ())]
    context.set_forkserver_preload(["verification.clients.jobs", "verification.clients.writer", *libraries])
    return context


def run_job(client: str, environment: Mapping[str, str]) -> None:
    """Make one commit in this process."""
    os.environ.update(environment)
    JOBS[client](TABLE)


@contextmanager
def warm_command(client: str, context: ForkServerContext) -> Iterator[list[str]]:
    """Return a command that makes one commit in a process with loaded libraries."""

    class Asked(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            process = context.Process(target=run_job, args=(client, json.loads(self.rfile.read())))
            process.start()
            process.join()
            self.wfile.write(str(abs(process.exitcode or 0)).encode())

    with TemporaryDirectory(prefix="endive-jobs-") as folder:
        path = str(Path(folder) / "socket")
        with socketserver.ThreadingUnixStreamServer(path, Asked) as server:
            thread = threading.Thread(target=server.serve_forever, daemon=True)
            thread.start()
            try:
                yield [sys.executable, "-I", "-S", "-c", _ASK, path]
            finally:
                server.shutdown()
                thread.join()
