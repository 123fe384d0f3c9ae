"""Observe protocols of clients, and compare them with further commits and with the object counts of the built-in paths."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from endive.lab.observe import RIVAL_COUNTS, Observation, Observer, count_kinds, is_predicted, situation_of
from endive.lab.observed_steps import ObservedPhase, Trial, split_phases
from endive.lab.open_lab import Lab
from endive.lab.protocol_text import describe, protocol_text
from endive.lab.recording import RecordedRequest
from verification.clients.jobs import JOBS, PACKAGES
from verification.clients.processes import warm_command, warm_context
from verification.iceberg.gateway import _folder, iceberg_jar

JAVA = "iceberg-java"
CLIENTS = (*JOBS, JAVA)
_SOURCES = Path(__file__).parent / "java"
_GOLDEN = Path(__file__).parents[1] / "results" / "iceberg.json"
_CASES = {
    "pyiceberg-rest": (
        "pyiceberg fast_append commits=1 late=True",
        ("manifest_file_writes", "manifest_list_reads", "manifest_list_writes"),
    ),
    "pyiceberg-sqlite": (
        "pyiceberg fast_append commits=1 late=True",
        ("manifest_file_writes", "manifest_list_reads", "manifest_list_writes", "metadata_reads"),
    ),
    JAVA: ("java fast_append", ("manifest_file_writes", "manifest_list_reads", "manifest_list_writes")),
}
"""Case of verification/results/iceberg.json in which a client loses once, and the objects that the lab sees of it.

The server of a REST catalog reads and writes metadata files, so that they are left out there.
"""


@contextmanager
def client_commands(name: str) -> Iterator[tuple[list[str], list[str]]]:
    """Return the command that makes one commit of a client, and the command of concurrent commits.

    Concurrent commits to tables of Iceberg's Java library use PyIceberg, because a JVM takes 2 s of CPU time to start.
    """
    if name != JAVA:
        with warm_command(name, warm_context([name])) as command:
            yield command, command
        return
    compiler, java = shutil.which("javac"), shutil.which("java")
    if compiler is None or java is None:
        raise RuntimeError("a JDK (javac) is needed to observe Iceberg's RESTCatalog")
    rival = "pyiceberg-rest"
    with TemporaryDirectory(prefix="endive-java-") as classes, warm_command(rival, warm_context([rival])) as rivals:
        path = f"{iceberg_jar()}:{_folder('pyspark')}/jars/*"
        subprocess.run([compiler, "-d", classes, "-cp", path, *map(str, _SOURCES.glob("*.java"))], check=True)
        options = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dlog4j2.level=OFF"]
        yield [java, *options, "-cp", f"{classes}:{path}", "endive.LabAppend"], rivals


def observe_client(name: str, checks: int) -> dict[str, Any]:
    """Observe a client; return its protocol, the number of predicted further commits, and the comparison of object counts."""
    with client_commands(name) as (command, rivals):
        observer = Observer(command, lambda text: print(f"{name}: {text}", flush=True), rivals)
        with _new_lab(observer) as lab:
            observation = observer.observe_in(lab, RIVAL_COUNTS)
        further = []
        for seed, size in enumerate(_batches(checks)):
            with _new_lab(observer) as lab:
                observer.create_table(lab)
                further += observer.run_checks(observation, size, seed)
    outcomes = [_outcome(observation, trial) for trial in further]
    return {
        "version": version(PACKAGES[name]),
        "protocol": protocol_text(observation, name, [name], "fast_append"),
        "notes": describe(observation),
        "retries": observation.retries,
        "waits_ms": [round(wait, 1) for wait in observation.waits_ms],
        "job_ms": round(_job_ms(observation), 1),
        "job_requests": _data_requests(observation),
        "checked": len(outcomes),
        "exact": sum(outcome["exact"] for outcome in outcomes),
        "further_commits": outcomes,
        "objects": compare_objects(name, observation.trials) if name in _CASES else None,
    }


@contextmanager
def _new_lab(observer: Observer) -> Iterator[Lab]:
    """Open a lab, with a directory for an external catalog."""
    with TemporaryDirectory(prefix="endive-catalog-") as folder, observer.open_lab(10) as lab:
        os.environ["VERIFICATION_DIRECTORY"] = folder
        yield lab


def _batches(checks: int) -> list[int]:
    """Return the number of checks per table: at most 10, before version 100, at which delta-rs writes a checkpoint."""
    return [min(10, checks - start) for start in range(0, checks, 10)]


def _outcome(observation: Observation, trial: Trial) -> dict[str, Any]:
    phases = split_phases(trial, observation.folder)
    return {
        "place": trial.place,
        "rivals": trial.rivals,
        "versions": trial.versions,
        "exact": is_predicted(observation, trial),
        "phases": {
            phase: {
                "observed": count_kinds(requests, observation.folder),
                "predicted": observation.predict(phase, situation_of(trial, phase)),
            }
            for phase, requests in phases.items()
        },
    }


def _undisturbed(observation: Observation) -> Trial:
    return next(trial for trial in observation.trials if trial.rivals == 0)


def _data_requests(observation: Observation) -> int:
    """Return the number of requests of a commit for data files, which are part of the job."""
    trial = _undisturbed(observation)
    return len(trial.requests) - 1 - sum(map(len, split_phases(trial, observation.folder).values()))


def _job_ms(observation: Observation) -> float:
    """Return the time of a commit without a request in progress: client CPU time."""
    idle, end = 0.0, _undisturbed(observation).requests[0].end_ms
    for each in _undisturbed(observation).requests[1:]:
        idle, end = idle + max(0.0, each.time_ms - end), max(end, each.end_ms)
    return idle


def compare_objects(name: str, trials: tuple[Trial, ...]) -> dict[str, Any]:
    """Compare the objects that a client reads and writes per attempt, if it loses once, with the built-in commit path."""
    case, kinds = _CASES[name]
    rows = json.loads(_GOLDEN.read_text())["rows"]
    golden = next(row for row in rows if row["mode"] == "counts" and row["case"] == case)
    trial = next(trial for trial in trials if trial.place == "commit" and trial.rivals == 1)
    phases = split_phases(trial, None)
    own: tuple[ObservedPhase, ...] = ("attempt", "after_loss")
    observed = {kind: [_count_objects(phases[phase], kind) for phase in own] for kind in kinds}
    built_in = {kind: golden["predicted"]["attempts"][kind][:2] for kind in kinds}
    counted = {kind: golden["measured"]["attempts"][kind][:2] for kind in kinds}
    return {"case": case, "observed": observed, "built_in": built_in, "counted": counted, "agrees": observed == built_in == counted}


def _count_objects(requests: list[RecordedRequest], kind: str) -> int:
    """Return how often objects of a kind are read, or completely written."""
    suffixes = {"metadata": ".metadata.json", "manifest": ".avro"}
    operations = ("GetObject",) if kind.endswith("reads") else ("PutObject", "CompleteMultipartUpload")
    found = []
    for each in requests:
        file = each.event.target.rpartition("/")[2]
        is_list = file.startswith("snap-")
        wanted = file.endswith(suffixes[kind.partition("_")[0]]) and is_list == kind.startswith("manifest_list")
        if wanted and each.event.operation in operations:
            found.append(file)
    return len(found)
