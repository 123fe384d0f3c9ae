"""Create a configuration from the history of a table, or a configuration that replays the history with traces of its commits."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

from endive.calibrate import InputError
from endive.calibrate.arrival_fit import recognize_arrivals
from endive.calibrate.measurements import CommitReport
from endive.calibrate.observed_classes import Assumption, ObservedClass, Tree, assume, client_of, observe_classes
from endive.calibrate.table_history import History, moment
from endive.transaction.paths import COMMIT_PATHS, RETRY_POLICY
from endive.workload.arrivals import ARRIVAL_KINDS, RATE, SCHEDULE, TRACE

_MINUTE_MS = 60_000
_MOST_MS = 7 * 24 * 3_600_000
_PROPERTIES: dict[str, tuple[str, type, float, float]] = {
    "commit.retry.num-retries": ("transaction", int, 0, 1e6),
    "commit.retry.min-wait-ms": ("transaction", float, 0, 1e12),
    "commit.retry.max-wait-ms": ("transaction", float, 0, 1e12),
    "commit.retry.total-timeout-ms": ("transaction", float, 0, 1e12),
    "commit.manifest.min-count-to-merge": ("table", int, 2, 1e6),
    "commit.manifest.target-size-bytes": ("table", int, 1, 1e12),
    "commit.manifest-merge.enabled": ("table", bool, 0, 1),
}
"""Table properties that configurations accept under the same names, with section, type, minimum and maximum."""
_ISOLATION = ("write.merge.isolation-level", "write.update.isolation-level", "write.delete.isolation-level")


@dataclass(frozen=True)
class Imported:
    """Configuration that was created from the history of a table.

    Attributes:
        source: File or table.
        tree: Content of the configuration file.
        classes: Workload classes of the history.
        assumptions: Assumptions about information that the history does not contain.
        notes: Remarks on the history, for users.
        start_ms: Timestamp that corresponds to time 0 of the simulation.
        at_start: Configuration keys that set the table to its state at the start of the history.
    """

    source: str
    tree: Tree
    classes: tuple[ObservedClass, ...]
    assumptions: tuple[Assumption, ...]
    notes: tuple[str, ...]
    start_ms: float
    at_start: Mapping[str, int] = field(default_factory=dict)


def import_history(
    history: History, *, reports: Sequence[CommitReport] = (), provider: str | None = None, client: str | None = None
) -> Imported:
    """Create a configuration from the history of a table.

    Args:
        history: History of the table.
        reports: Commit reports of the table.
        provider: Object store of the table. If None, S3 is assumed.
        client: Client that wrote the table. If None, the client is derived from snapshot summaries.

    Raises:
        InputError: If the history has too few commits to estimate a rate.
    """
    if len(history.commits) < 2:
        number = "no snapshot" if not history.commits else "one snapshot"
        raise InputError(f"{history.source} has {number}; at least two are needed to estimate a rate of commits")
    if history.span_ms <= 0:
        raise InputError(
            f"{history.source}: all {len(history.commits)} snapshots have the same time, which gives no rate of commits"
        )
    start = history.commits[0].timestamp_ms // _MINUTE_MS * _MINUTE_MS
    if client and history.client:
        raise InputError(f"{history.source}: --client {client} is an Iceberg client, but the table is a Delta table; omit --client")
    path, why = (client, "given by --client") if client else client_of(history)
    classes = observe_classes(history, start, path, reports, split_clients=client is None)
    assumptions = [Assumption("client", f"commit_path = {path!r}, because {why}")] if client is None else []
    tree: Tree = {
        "simulation": {"duration_ms": float(_duration(history, start)), "seed": 1},
        "storage": {"provider": provider or "s3"},
        "catalog": {"num_tables": 1},
        "table": _table(history, assumptions),
        "transaction": {"commit_path": path, **({} if history.client else {"retry_policy": RETRY_POLICY})},
        "workload": {cls.name: _section(cls, path, _duration(history, start)) for cls in classes},
    }
    _add_expiry(tree, history, start, assumptions, path)
    _add_properties(tree, history, classes)
    assumptions += assume(tree, history, classes, reports, provider)
    notes = [
        *history.notes,
        f"simulated time 0 is {moment(start)}; the last commit of the history is at {moment(history.commits[-1].timestamp_ms)}",
    ]
    notes += [f"class {cls.name}: {note}" for cls in classes for note in (*cls.process.notes, cls.guessed) if note]
    at_start = {f"table.{key}": value for key, value in history.manifests_at_start().items()}
    if history.client and (files := history.commits[0].count("total-data-files")) is not None:
        at_start["table.files"] = files
    return Imported(history.source, tree, tuple(classes), tuple(assumptions), tuple(notes), float(start), at_start)


def _duration(history: History, start: int) -> int:
    span = history.commits[-1].timestamp_ms - start
    return min(max(math.ceil(span / _MINUTE_MS) * _MINUTE_MS, _MINUTE_MS), _MOST_MS)


def _section(cls: ObservedClass, path: str, duration_ms: float) -> Tree:
    section: Tree = {"operation": cls.operation}
    if cls.client != path:
        section["commit_path"] = cls.client
    keys = copy.deepcopy(cls.process.keys)
    hourly = keys.pop("hourly", None)
    if hourly is not None:
        section[SCHEDULE.key] = _repeat_daily(hourly, duration_ms)
    section |= keys
    section["runtime"] = {"distribution": "fixed", "value": 0.0}
    if cls.delete_files:
        section["delete_files"] = cls.delete_files
    if cls.isolation:
        section["isolation"] = cls.isolation
    return section


def _repeat_daily(hourly: Sequence[float], duration_ms: float) -> list[Tree]:
    """Return an arrival schedule that repeats the 24 hourly rates every day."""
    hours = math.ceil(duration_ms / 3_600_000.0)
    return [{"from": hour * 3_600_000.0, "rate": hourly[hour % 24]} for hour in range(hours)]


def _table(history: History, assumptions: list[Assumption]) -> Tree:
    state = history.state
    if history.client:
        if state.data_files is None:
            text = "100, because the log begins without a checkpoint, which would contain the number"
            assumptions.append(Assumption("data files", text, {"table.files": 1}, {"table.files": 10_000}))
        return {"files": 100 if state.data_files is None else state.data_files}
    sizes = ("manifests", "delete_manifests", "metadata_bytes", "metadata_bytes_per_snapshot")
    table: Tree = {key: value for key in sizes if (value := getattr(state, key)) is not None}
    if state.snapshots:
        table["snapshots"] = state.snapshots
    if state.manifest_bytes:
        table["manifest_bytes"] = state.manifest_bytes
        table["manifest_header_bytes"] = min(6_900, int(0.97 * state.manifest_bytes))
    if state.manifest_list_bytes and state.manifests is not None:
        listed = state.manifests + (state.delete_manifests or 0)
        table["manifest_list_bytes"] = max(state.manifest_list_bytes - 42 * listed, 0)
    if state.manifests is None:
        guess = min(max(state.data_files or len(history.commits), 1), 100)
        table["manifests"] = guess
        text = f"{guess}, because the manifest list could not be read"
        assumptions.append(Assumption("manifests", text, {"table.manifests": 1}, {"table.manifests": max(guess, 100)}))
    return table


def _add_expiry(tree: Tree, history: History, start: int, assumptions: list[Assumption], path: str) -> None:
    """Add a workload class that expires snapshots, with the arrivals of metadata changes that created no snapshot."""
    count = len(history.other_changes_ms)
    if not history.expired or count < 2 or "expire_snapshots" not in COMMIT_PATHS[path].operations:
        return
    times = np.array(history.other_changes_ms, np.float64)
    last = float(max(times[-1], history.commits[-1].timestamp_ms))
    first = max(history.commits[0].timestamp_ms, history.log_begins_ms or 0)
    process = recognize_arrivals(times, start, float(first), last)
    keys = {key: value for key, value in process.keys.items() if key != "hourly"} or {RATE.key: process.per_s}
    retained = max(1, sum(commit.timestamp_ms <= history.other_changes_ms[-1] for commit in history.commits))
    section = {"operation": "expire_snapshots", "runtime": {"distribution": "fixed", "value": 0.0}, "retain_snapshots": retained}
    tree["workload"]["metadata_changes"] = {**section, **keys}
    text = (
        f"{count} metadata changes created no snapshot; the model simulates them as snapshot expiry that retains {retained} "
        f"snapshots, {process.words}"
    )
    assumptions.append(Assumption("metadata changes", text))


def _add_properties(tree: Tree, history: History, classes: Sequence[ObservedClass]) -> None:
    """Copy the table properties that the configuration accepts, except those with invalid values."""
    for name, (section, kind, least, most) in _PROPERTIES.items():
        value = _value(history.properties.get(name, ""), kind)
        if value is not None and least <= value <= most:
            tree[section][name] = value
    levels = {history.properties[name] for name in _ISOLATION if name in history.properties}
    if len(levels) == 1 and levels <= {"snapshot", "serializable"}:
        for cls in classes:
            if cls.operation in ("overwrite", "row_delta") and not cls.isolation:
                tree["workload"][cls.name]["isolation"] = next(iter(levels))


def _value(text: str, kind: type) -> Any:
    if kind is bool:
        return {"true": True, "false": False}.get(text.strip().lower())
    try:
        return kind(text)
    except (ValueError, OverflowError):
        return None


_COMMENTS = {
    "storage": "object store",
    "catalog": "one table, whose commits swap a pointer in the object store",
    "table": "state of the table at the end of the history",
    "transaction": "retry settings: table properties, or the defaults of the client",
}


def configuration_text(imported: Imported) -> str:
    """Return the configuration as TOML, with comments on the history and the assumptions."""
    lines = [_comment(f"Written by endive import from {imported.source}.")]
    lines += [_comment(note) for note in imported.notes]
    lines += ["#", "# Assumptions (the history does not contain these values):"]
    lines += [_comment(f"- {each.about}: {each.assumed}") for each in imported.assumptions]
    commits = {f"workload.{cls.name}": f"{len(cls.commits):,} commits, {cls.process.words}" for cls in imported.classes}
    comments = {**_COMMENTS, **commits}
    sections = {section: content for section, content in imported.tree.items() if section != "workload"}
    sections |= {f"workload.{name}": content for name, content in imported.tree["workload"].items()}
    for section, content in sections.items():
        lines += ["", *([f"# {comments[section]}"] if section in comments else []), _dump_section(section, content)]
    return "\n".join(lines) + "\n"


def _comment(text: str) -> str:
    """Return a TOML comment on one line."""
    return "# " + " ".join(text.encode("utf-8", "replace").decode().split())


def _dump_section(section: str, content: dict[str, Any]) -> str:
    """Return a section as TOML. Names of Iceberg's table properties remain dotted keys."""
    plain = {key: value for key, value in content.items() if "." not in key}
    dotted = [f"{key} = {json.dumps(value)}" for key, value in content.items() if "." in key]
    flat = [f"{key} = {_inline(value)}" for key, value in plain.items()]
    return "\n".join([f"[{section}]", *flat, *dotted])


def _inline(value: Any) -> str:
    """Return a TOML value on one line."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_inline(item)}" for key, item in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(_inline(item) for item in value) + "]"
    return tomli_w.dumps({"x": value}).partition(" = ")[2].rstrip()


def assumptions_path(configuration: Path) -> Path:
    """Return the path of the JSON file with the assumptions of a configuration."""
    return configuration.with_suffix(".assumptions.json")


def assumptions_text(imported: Imported) -> str:
    """Return the assumptions and their ranges as JSON."""
    made = {"source": imported.source, "start_ms": imported.start_ms, "assumptions": [asdict(a) for a in imported.assumptions]}
    return json.dumps(made, indent=2) + "\n"


def make_trace(imported: Imported, out: Path, reports: Sequence[CommitReport] = ()) -> tuple[Imported, dict[Path, str]]:
    """Create a configuration that replays the history of a table, and the content of its trace files.

    The trace contains the submission time of each transaction: the time of its commit, minus the duration of the commit in its
    report, minus the runtime of its class. A commit without a report is assumed to have the median duration of all reports, or 0 if
    there are no reports.
    """
    took = {report.snapshot_id: report.duration_ms for report in reports}
    usual = float(np.median(list(took.values()))) if took else 0.0
    tree = copy.deepcopy(imported.tree)
    tree["simulation"]["drain"] = True
    files: dict[Path, str] = {}
    last = 0.0
    for cls in imported.classes:
        section = tree["workload"][cls.name]
        for key in ARRIVAL_KINDS:
            section.pop(key, None)
        earlier = float(section["runtime"]["value"])
        times = sorted(
            max(commit.timestamp_ms - imported.start_ms - earlier - took.get(commit.snapshot_id, usual), 0.0)
            for commit in cls.commits
        )
        last = max(last, times[-1])
        path = out.with_name(f"{out.stem}.{cls.name}.csv")
        section[TRACE.key] = path.name
        files[path] = "".join(("time_ms\n", *(f"{time:.3f}\n" for time in times)))
    tree["simulation"]["duration_ms"] = max(tree["simulation"]["duration_ms"], float(int(last) + 1))
    note = "not replayed"
    kept = tuple(_without_arrivals(each) for each in imported.assumptions if each.about not in ("arrivals", "failed operations"))
    made = replace(imported, tree=tree, assumptions=(*kept, Assumption("failed operations", note)))
    return made, files


def _without_arrivals(assumption: Assumption) -> Assumption:
    """Return an assumption without the configuration keys of arrivals, which the trace determines."""

    def kept(end: Mapping[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in end.items() if not any(part in ARRIVAL_KINDS for part in key.split("."))}

    return replace(assumption, low=kept(assumption.low), high=kept(assumption.high))
