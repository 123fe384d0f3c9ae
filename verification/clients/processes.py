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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from multiprocessing.context import ForkServerContext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

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


Call = tuple[Callable[..., None], tuple[Any, ...]]
"""Function and its arguments."""


def run_writers(context: ForkServerContext, first: Call, writers: Sequence[Call], timeout_s: float) -> list[Any]:
    """Make the first commit, then start a process for each writer, and return one result of each.

    A writer takes two further arguments: the barrier at which all writers start, and the queue of its result.
    """
    maker = context.Process(target=first[0], args=first[1])
    maker.start()
    maker.join()
    start, done = context.Barrier(len(writers)), context.Queue()
    processes = [context.Process(target=target, args=(*arguments, start, done)) for target, arguments in writers]
    for process in processes:
        process.start()
    made = [done.get(timeout=timeout_s) for _ in processes]
    for process in processes:
        process.join()
    return made


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
