"""Random configurations for property tests: whole files with all features.

Durations and loads are small, so that a run takes milliseconds; latencies are often fixed, so that ties are frequent.
"""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path
from typing import Any

import tomli_w
from hypothesis import strategies as st

from endive.table import OPERATION_FACTS

Tree = dict[str, Any]

_CALIBRATED = str(Path(__file__).parent / "storage" / "calibrated.toml")
_FIXED_PROFILES = {"T_CAS": 4.0, "T_APPEND": 3.0, "T_COMPACTION": 8.0}


@st.composite
def distributions(draw: st.DrawFn, scale_ms: float) -> Tree:
    """Draw a distribution with about this mean."""
    kind = draw(st.sampled_from(["fixed", "exponential", "lognormal", "normal", "uniform"]))
    if kind == "fixed":
        return {"distribution": kind, "value": scale_ms}
    if kind == "exponential":
        return {"distribution": kind, "scale": scale_ms}
    if kind == "lognormal":
        return {"distribution": kind, "mean": scale_ms, "sigma": draw(st.sampled_from([0.0, 0.3, 1.0]))}
    if kind == "normal":
        return {"distribution": kind, "mean": scale_ms, "stddev": scale_ms / 3, "min": scale_ms / 10}
    return {"distribution": kind, "min": 0.0, "max": 2 * scale_ms}


@st.composite
def storages(draw: st.DrawFn) -> Tree:
    """Draw a built-in provider that can append, or a provider with fixed or normal latencies (ties)."""
    section: Tree = {"max_parallel": draw(st.integers(1, 5))}
    if draw(st.booleans()):
        section["provider"] = draw(st.sampled_from(["s3x", "azure", "azurex", "instant", _CALIBRATED]))
        if draw(st.booleans()) and section["provider"] != _CALIBRATED:
            section["profile"] = "2025-12"
        return section
    stddev = draw(st.sampled_from([0.0, 0.0, 2.0]))
    for key, mean in _FIXED_PROFILES.items():
        section[key] = {"mean": mean, "stddev": stddev}
    if draw(st.booleans()):
        section["T_LOG_ENTRY_READ"] = {"mean": 0.5, "stddev": 0.0}
    for key in ("T_METADATA_ROOT", "T_TABLE_METADATA", "T_MANIFEST_LIST", "T_MANIFEST_FILE"):
        section[key] = {"read": {"mean": 2.0, "stddev": stddev}, "write": {"mean": 3.0, "stddev": stddev}}
    return section


@st.composite
def catalogs(draw: st.DrawFn) -> Tree:
    """Draw tables, groups and partitions with one of the three catalogs."""
    tables = draw(st.integers(1, 5))
    groups = draw(st.integers(1, tables))
    section: Tree = {
        "type": draw(st.sampled_from(["cas", "append", "instant"])),
        "num_tables": tables,
        "num_groups": groups,
        "linearization": draw(st.sampled_from([1.0, 1.0, 0.0, 0.5])),
        "table_metadata_inlined": draw(st.booleans()),
        "partitions": {"per_table": [draw(st.integers(2, 6)) for _ in range(tables)]},
    }
    if groups > 1:
        section["group_sizes"] = draw(st.sampled_from(["uniform", "longtail"]))
    if section["type"] == "append":
        section["log_entry_size"] = 100
        section["compaction_threshold"] = draw(st.sampled_from([300, 1000, 16_000_000]))
        section["compaction_max_entries"] = draw(st.sampled_from([0, 2, 5]))
    if section["type"] == "instant":
        section["latency_ms"] = draw(st.sampled_from([0.5, 2.0]))
    return section


@st.composite
def selections(draw: st.DrawFn) -> Tree:
    """Draw a selection of tables or partitions."""
    section: Tree = {"write_fraction": draw(st.sampled_from([1.0, 0.5]))}
    if draw(st.booleans()):
        section |= {"distribution": "zipf", "alpha": draw(st.sampled_from([0.5, 1.5]))}
    return section


_JAVA_ONLY = [facts.name for facts in OPERATION_FACTS if facts.java is not None and facts.pyiceberg is None]
_OPERATIONS = [facts.name for facts in OPERATION_FACTS if facts.name not in _JAVA_ONLY]


@st.composite
def operation_weights(draw: st.DrawFn, path: str) -> Tree:
    """Draw operation weights, at least one of them positive."""
    known = _OPERATIONS if path == "pyiceberg" else _OPERATIONS + _JAVA_ONLY
    names = draw(st.lists(st.sampled_from(known), min_size=1, max_size=4, unique=True))
    return {name: draw(st.sampled_from([0.2, 1.0, 3.0])) for name in names}


def _table_counts(most: int) -> st.SearchStrategy[int | Tree]:
    """Draw a number of tables, fixed or Zipf-distributed."""
    if most == 1:
        return st.just(1)
    return st.integers(1, most) | st.sampled_from([{"zipf": 0.7}, {"zipf": 2.0}])


@st.composite
def tables(draw: st.DrawFn) -> Tree:
    """Draw a table whose manifests are merged, and whose bins fill up, within a few commits."""
    counts = {
        "manifests": draw(st.integers(0, 8)),
        "delete_manifests": draw(st.integers(0, 4)),
        "snapshots": draw(st.sampled_from([1, 3, 100])),
    }
    given = draw(st.sets(st.sampled_from(sorted(counts))))
    return {
        "start": draw(st.sampled_from(["steady", "steady", "empty"])),
        **{key: count for key, count in counts.items() if key in given},
        "min_count_to_merge": draw(st.sampled_from([2, 5, 100])),
        "target_bytes": draw(st.sampled_from([20_000, 8_000_000])),
        "merge_manifests": draw(st.sampled_from([True, True, True, False])),
    }


@st.composite
def iceberg_settings(draw: st.DrawFn) -> Tree:
    """Draw operation settings of Iceberg's commit paths."""
    section: Tree = {
        "overwrite_by": draw(st.sampled_from(["files", "filter"])),
        "delete_files": draw(st.sampled_from(["position", "equality", "vectors"])),
        "manifests_hit": draw(st.sampled_from([0, 1, 3, "all"])),
        "manifests_missed": draw(st.integers(0, 2)),
    }
    if draw(st.booleans()):
        return section | {"retain_snapshots": draw(st.integers(1, 3))}
    return section | {
        "max_snapshot_age_ms": draw(st.sampled_from([0.0, 5.0, 20.0, 100.0])),
        "min_snapshots_to_keep": draw(st.integers(1, 3)),
    }


@st.composite
def backoffs(draw: st.DrawFn, clients: bool) -> Tree:
    """Draw a backoff: of any kind except those that require a service, or only the default kind."""
    if not clients:
        return {"enabled": True, "base_ms": 5.0, "jitter": draw(st.sampled_from([0.0, 0.5]))}
    kind = draw(st.sampled_from(["exponential", "exponential", "slots", "aimd", "linear"]))
    section: Tree = {"enabled": True, "kind": kind}
    if kind == "slots":
        return section | {"max_ms": draw(st.sampled_from([5.0, 100.0]))}
    words = [] if kind in ("aimd", "linear") else ["full", "equal", "decorrelated"]
    return section | {"base_ms": 5.0, "max_ms": 60.0, "jitter": draw(st.sampled_from([0.0, 0.5, *words]))}


@st.composite
def commit_settings(draw: st.DrawFn, most_tables: int, path: str, real_paths: bool, clients: Tree | None = None) -> Tree:
    """Draw settings that are valid for transactions and classes; on Iceberg's paths, without keys that do not exist there."""
    section: Tree = {
        "retry": draw(st.integers(0, 6)),
        "runtime": draw(distributions(draw(st.sampled_from([0.5, 20.0])))),
        "operation_types": draw(operation_weights(path)),
        "tables_per_txn": draw(_table_counts(most_tables)),
        "table_selection": draw(selections()),
    }
    if not real_paths:
        section["manifests_per_concurrent_commit"] = draw(st.sampled_from([0.0, 1.5, 3.0]))
    if path != "endive":
        section |= draw(iceberg_settings())
    if clients is not None and draw(st.booleans()):
        section["client_ms_per_access"] = draw(st.just(1.5) | distributions(2.0))
    if clients is not None and (path != "endive" or not clients["table_metadata_inlined"]):
        section["table_handle"] = draw(st.sampled_from(["loaded", "kept"]))
    if draw(st.booleans()):
        section["isolation"] = draw(st.sampled_from(["none", "snapshot", "serializable"]))
    if draw(st.booleans()):
        section["partitions_per_txn"] = draw(st.sampled_from([1, 2, 1.5]))
        section["partition_selection"] = draw(selections())
    policy = draw(st.sampled_from(["abort", "restart"] if real_paths else ["abort", "merge", "restart"]))
    section["on_real_conflict"] = policy
    if policy == "merge":
        kind = draw(st.sampled_from(["exponential", "uniform", "fixed"]))
        section["conflicting_manifests"] = {"distribution": kind, "min": 1, "max": 6}
        if kind != "uniform":
            section["conflicting_manifests"]["mean"] = 2.5
    if policy == "restart":
        section["max_restarts"] = draw(st.integers(0, 2))
    if draw(st.booleans()):
        section["conflict_detector"] = "partition_overlap"
    else:
        section["conflict_detector"] = "probabilistic"
        section["real_conflict_probability"] = draw(st.sampled_from([0.0, 0.3, 1.0]))
    if draw(st.booleans()):
        section["total_timeout_ms"] = draw(st.sampled_from([10.0, 100.0]))
    if draw(st.integers(0, 3)) == 0:
        section["operation_timeout_ms"] = draw(st.sampled_from([20.0, 50.0, 100.0]))
    if draw(st.booleans()):
        section["retry_backoff"] = draw(backoffs(clients is not None))
        if draw(st.booleans()):
            section["retry_policy"] = "iceberg"
    return section


@st.composite
def _traces(draw: st.DrawFn, catalog: Tree, path: str) -> str:
    """Write a trace with some missing cells to a temporary file, which is kept to reproduce failures."""
    lines = ["time_ms,operation,runtime_ms,table,partitions", "0,,,,"]
    now_ms = 0.0
    operations = ["", *(_OPERATIONS if path == "pyiceberg" else _OPERATIONS + _JAVA_ONLY)]
    for _ in range(draw(st.integers(0, 12))):
        now_ms += draw(st.sampled_from([0.0, 1.0, 7.5, 15.0]))
        table = draw(st.none() | st.integers(0, catalog["num_tables"] - 1))
        partitions = ""
        if table is not None:
            most = catalog["partitions"]["per_table"][table]
            partitions = ";".join(map(str, draw(st.lists(st.integers(0, most - 1), max_size=3, unique=True))))
        runtime = draw(st.sampled_from(["", "0ms", "3.5ms", "20ms"]))
        shown = "" if table is None else str(table)
        lines.append(f"{now_ms},{draw(st.sampled_from(operations))},{runtime},{shown},{partitions}")
    text = "\n".join(lines) + "\n"
    folder = Path(tempfile.gettempdir(), "endive-traces")
    folder.mkdir(exist_ok=True)
    file = folder / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.csv"
    if not file.exists():
        file.write_text(text)
    return str(file)


@st.composite
def arrivals(draw: st.DrawFn, catalog: Tree | None = None, path: str = "endive") -> Tree:
    """Draw one of the arrival kinds, optionally with start and end."""
    kinds = ["open", "rate", "periodic", "closed", "writers", "schedule"]
    kind = draw(st.sampled_from(kinds if catalog is None else [*kinds, "trace"]))
    if catalog is not None and kind == "trace":
        return {"trace": draw(_traces(catalog, path))}
    if kind == "schedule":
        rates = draw(st.lists(st.sampled_from([0.0, 20.0, 100.0]), min_size=1, max_size=3))
        first = draw(st.sampled_from([0.0, 30.0]))
        steps = [{"from": first + 60.0 * step, "rate": rate} for step, rate in enumerate([50.0, *rates])]
        return {"schedule": steps}
    section = draw(_endless(kind))
    if draw(st.integers(0, 3)) == 0:
        section["start_ms"] = draw(st.sampled_from([0.0, 20.0, 33.3]))
    if draw(st.integers(0, 3)) == 0:
        section["end_ms"] = draw(st.sampled_from([100.0, 150.0, 1e9]))
    return section


@st.composite
def _endless(draw: st.DrawFn, kind: str) -> Tree:
    """Draw arrivals without an end."""
    if kind == "writers":
        phase = draw(st.sampled_from([None, "random", "aligned", "aligned", "staggered"]))
        section: Tree = {"writers": draw(st.integers(1, 4)), "every_ms": draw(st.sampled_from([20.0, 50.0]))}
        return section if phase is None else section | {"phase": phase}
    if kind == "open":
        return {"inter_arrival": draw(distributions(draw(st.sampled_from([5.0, 20.0]))))}
    if kind == "rate":
        return {"rate": draw(st.sampled_from([20.0, 100.0]))}
    if kind == "periodic":
        return {"periodic": {"interval_ms": 20.0, "phase_ms": draw(st.sampled_from([0.0, 10.0]))}}
    think = draw(st.sampled_from([None, {"distribution": "fixed", "value": 0.0}, {"scale": 10.0}]))
    closed: Tree = {"clients": draw(st.integers(1, 4))}
    if think is not None:
        closed["think_time"] = think
    return {"closed": closed}


def _base(draw: st.DrawFn, catalog: Tree, transaction: Tree) -> Tree:
    """Draw a configuration of one class with this catalog."""
    return {
        "simulation": {
            "duration_ms": draw(st.sampled_from([200.0, 600.0])),
            "seed": draw(st.integers(0, 2**32)),
            "drain": draw(st.booleans()),
        },
        "storage": draw(storages()),
        "catalog": catalog,
        "transaction": transaction,
    }


@st.composite
def documents(draw: st.DrawFn, everything: bool = False) -> Tree:
    """Draw a configuration; ``everything`` includes classes on several commit paths and all kinds of clients."""
    catalog = draw(catalogs())
    largest_group = -(-catalog["num_tables"] // catalog["num_groups"])
    path = draw(st.sampled_from(["endive", "iceberg", "pyiceberg"]))
    mixed = everything or draw(st.booleans())
    real_paths = mixed or path != "endive"
    clients = catalog if everything or draw(st.integers(0, 2)) == 0 else None
    transaction = draw(commit_settings(largest_group, path, real_paths, clients))
    transaction["commit_path"] = path
    if not real_paths and draw(st.booleans()):
        transaction["manifest_list_mode"] = "append"
        transaction["manifest_list_seal_threshold"] = draw(st.sampled_from([0, 100, 400]))
    document = _base(draw, catalog, transaction)
    if everything or draw(st.booleans()):
        names = draw(st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=3, unique=True))
        document["workload"] = {name: draw(_classes(catalog, path, mixed, clients)) for name in names}
        if everything:
            document["workload"] |= {each: _on_path(each) for each in ("iceberg", "pyiceberg")}
        if all(_says_operations(cls) for cls in document["workload"].values()):
            del transaction["operation_types"]
    else:
        transaction["inter_arrival"] = draw(distributions(draw(st.sampled_from([3.0, 10.0, 30.0]))))
    paths = [cls.get("commit_path", path) for cls in document.get("workload", {"": {}}).values()]
    if any(each != "endive" for each in paths):
        document["table"] = draw(tables())
    if all(each != "endive" for each in paths):
        del catalog["table_metadata_inlined"]
    return document


def _on_path(path: str) -> Tree:
    """Return a class on a commit path, with client CPU time."""
    return {
        "rate": 20.0,
        "operation": "fast_append",
        "commit_path": path,
        "on_real_conflict": "abort",
        "client_ms_per_access": 0.5,
    }


def _says_operations(cls: Tree) -> bool:
    return "operation" in cls or "operation_types" in cls


@st.composite
def _classes(draw: st.DrawFn, catalog: Tree, path: str, mixed: bool, clients: Tree | None) -> Tree:
    own = draw(st.sampled_from(["endive", "iceberg", "pyiceberg"])) if mixed else path
    section: Tree = draw(arrivals(catalog, "pyiceberg" if "pyiceberg" in (own, path) else own))
    if draw(st.booleans()):
        section |= draw(commit_settings(1, own, mixed or own != "endive", clients))
        section["commit_path"] = own
        if own == "iceberg" and section["on_real_conflict"] == "abort" and draw(st.booleans()):
            section["operation_types"]["rewrite_files"] = 1.0
            section["commits_per_job"] = draw(st.integers(2, 4))
            if draw(st.booleans()):
                section["max_failed_commits"] = draw(st.integers(0, 2))
    if "operation_types" not in section and draw(st.booleans()):
        section["operation"] = draw(st.sampled_from(["fast_append", "validated_overwrite", "merge_append"]))
    if draw(st.booleans()) and "tables_per_txn" in section:
        section["tables"] = draw(
            st.lists(st.integers(0, catalog["num_tables"] - 1), min_size=1, max_size=catalog["num_tables"], unique=True)
        )
    if "partitions_per_txn" in section and draw(st.booleans()):
        section["partition_range"] = [0, 2]
    return section


@st.composite
def services(draw: st.DrawFn, catalog: Tree) -> Tree:
    """Draw a service with the tables of ``catalog``; times are often fixed, so that ties are frequent."""
    section: Tree = {key: catalog[key] for key in ("num_tables", "partitions")}
    section["type"] = "service"
    section["writes_metadata"] = catalog.get("table_metadata_inlined", draw(st.booleans()))
    if draw(st.booleans()):
        section |= {key: catalog[key] for key in ("num_groups", "group_sizes") if key in catalog}
    for key, scale_ms in (("network", 1.0), ("load", 2.0), ("commit", 5.0), ("check", 1.0)):
        section[key] = draw(distributions(scale_ms))
    section["workers"] = draw(st.sampled_from([0, 1, 2, 3]))
    if section["workers"] and draw(st.booleans()):
        section["queue_limit"] = draw(st.integers(0, 3))
        section["retry_after_ms"] = draw(st.sampled_from([5.0, 20.0]))
        section["max_resends"] = draw(st.integers(0, 3))
    kind = draw(st.sampled_from(["none", "lock", "retries", "both", "coalesce"]))
    if kind in ("lock", "both"):
        section["lock"] = "table"
    if kind in ("retries", "both"):
        section["server_retries"] = draw(st.integers(1, 3))
        section["server_retry_mode"] = draw(st.sampled_from(["recheck", "rebase"]))
        section["server_backoff_ms"] = draw(st.sampled_from([0.0, 4.0]))
    if draw(st.integers(0, 2)) == 0:
        section["database_conflict"] = draw(st.sampled_from([0.1, 0.5]))
    if kind == "coalesce":
        section["coalesce"] = {"linger_ms": draw(st.sampled_from([0.0, 3.0])), "max_batch": draw(st.sampled_from([0, 1, 3]))}
    if section["writes_metadata"]:
        section["transfer_ms_per_mib"] = draw(st.sampled_from([0.0, 50.0]))
    if draw(st.booleans()):
        section["metadata_limit_bytes"] = draw(st.sampled_from([5_000, 80_000]))
    return section


@st.composite
def failures(draw: st.DrawFn, service: bool) -> Tree:
    """Draw failures that are frequent enough for a short run."""
    section: Tree = {
        "request_error": draw(st.sampled_from([0.0, 0.0, 0.1])),
        "fatal_error": draw(st.sampled_from([0.0, 0.0, 0.03])),
        "client_crash": draw(st.sampled_from([0.0, 0.1])),
        "lost_answer": draw(st.sampled_from([0.1, 0.5])),
        "on_unknown": draw(st.sampled_from(["check", "check", "retry", "idempotency_key"] if service else ["check", "retry"])),
    }
    if section["on_unknown"] == "check":
        section |= {"status_checks": draw(st.integers(0, 3)), "min_wait_ms": 3.0, "max_wait_ms": 10.0}
    return section


@st.composite
def failing_documents(draw: st.DrawFn) -> Tree:
    """Draw a configuration with failures, in which metadata may become too large."""
    document = draw(documents())
    document["failures"] = draw(failures(False))
    if document["catalog"]["type"] != "append" and draw(st.booleans()):
        document["catalog"]["metadata_limit_bytes"] = draw(st.sampled_from([5_000, 80_000]))
    return document


@st.composite
def service_documents(draw: st.DrawFn, everything: bool = False) -> Tree:
    """Draw a configuration with a catalog service and possible failures; ``everything`` includes all of them."""
    document = draw(documents(everything))
    if everything or draw(st.booleans()):
        document["failures"] = draw(failures(True))
    catalog = document["catalog"] = draw(services(document["catalog"]))
    if everything:
        catalog.setdefault("metadata_limit_bytes", 80_000)
    transaction = document["transaction"]
    for key in ("manifest_list_mode", "manifest_list_seal_threshold"):
        transaction.pop(key, None)
    for section in (transaction, *document.get("workload", {}).values()):
        if "kind" in section.get("retry_backoff", {}) and draw(st.integers(0, 2)) == 0:
            section["retry_backoff"] = {"enabled": True, "kind": "retry_after", "jitter": draw(st.sampled_from([0.0, 0.5]))}
        if "coalesce" in catalog:
            section.pop("tables_per_txn", None)
        elif "num_groups" not in catalog and "tables_per_txn" in section:
            most = len(section.get("tables", range(catalog["num_tables"])))
            section["tables_per_txn"] = draw(_table_counts(most))
    if "num_groups" not in catalog and "tables_per_txn" in transaction:
        fewest = min((len(cls["tables"]) for cls in document.get("workload", {}).values() if "tables" in cls), default=99)
        if isinstance(transaction["tables_per_txn"], int):
            transaction["tables_per_txn"] = min(transaction["tables_per_txn"], fewest)
        elif fewest == 1:
            transaction["tables_per_txn"] = 1
    return document


@st.composite
def _committers(draw: st.DrawFn, cls: Tree) -> Tree:
    """Draw a committer for a class with these arrivals."""
    if cls.get("phase") == "aligned" and draw(st.booleans()):
        limit: Tree = draw(st.sampled_from([{}, {}, {"max_in_flight": 1}, {"max_in_flight": 2}]))
        return {"round": "all_writers", "timeout_ms": draw(st.sampled_from([1.0, 5.0, 20.0, 70.0])), **limit}
    section: Tree = {"interval_ms": draw(st.sampled_from([0.0, 0.0, 10.0, 33.0])), "max_batch": draw(st.sampled_from([0, 1, 3]))}
    if "closed" in cls or "writers" in cls:
        most = draw(st.sampled_from([None, 1, 2]))
        if most is not None:
            section["max_in_flight"] = most
    return {key: value for key, value in section.items() if draw(st.integers(0, 4))}


@st.composite
def with_committers(draw: st.DrawFn, document: Tree, some: bool = False) -> Tree:
    """Return the configuration with a committer for each class that can have one, or for some of them."""
    transaction, classes = document["transaction"], document.get("workload", {})
    for cls in classes.values():
        if some and draw(st.booleans()):
            continue
        for section in (transaction, cls):
            weights = section.get("operation_types", {})
            if "read_only" in weights:
                section["operation_types"] = {name: w for name, w in weights.items() if name != "read_only"} or {"fast_append": 1.0}
        for key in ("commits_per_job", "max_failed_commits"):
            cls.pop(key, None)
        if "trace" in cls:
            cls["trace"] = _times_only(cls["trace"])
        cls["committer"] = draw(_committers(cls))
    if len(classes) == 1 and "committer" in next(iter(classes.values())):
        document["catalog"].pop("coalesce", None)
        if document["catalog"].get("workers") == 0:
            for key in ("queue_limit", "retry_after_ms", "max_resends"):
                document["catalog"].pop(key, None)
    return document


def _times_only(path: str) -> str:
    """Return the trace without values that a committer does not support."""
    lines = Path(path).read_text().splitlines()
    columns = [line.split(",") for line in lines]
    file = Path(path).with_suffix(".times.csv")
    file.write_text("".join(f"{row[0]},{row[2]}\n" for row in columns))
    return str(file)


@st.composite
def committer_documents(draw: st.DrawFn) -> Tree:
    """Draw a configuration with committers and all features of a service, so that one kernel can run all of them."""
    return draw(with_committers(draw(service_documents(everything=True))))


@st.composite
def all_documents(draw: st.DrawFn) -> Tree:
    """Draw a configuration of any kind, for fuzzing, which may compile kernels for all combinations of features."""
    document = draw(documents() | failing_documents() | service_documents() | protocol_documents())
    if "retry_policy" not in document["transaction"] and document["transaction"]["commit_path"].endswith(".toml"):
        return document
    return draw(with_committers(document, some=True)) if draw(st.booleans()) else document


_PROTOCOL_OPERATIONS = ["fast_append", "overwrite", "delete", "rewrite_files"]


@st.composite
def _steps(draw: st.DrawFn, phase: str, point: str) -> list[Tree]:
    """Draw consistent steps of a phase."""
    operations = ["list", "read", "write", "delete"]
    if point != "put_if_absent" and phase != "after_abort":
        operations.append("request" if point != "insert" else "statement")
    steps: list[Tree] = []
    for _ in range(draw(st.integers(0, 3))):
        step: Tree = {"operation": draw(st.sampled_from(operations))}
        if step["operation"] not in ("request", "statement"):
            step["object"] = draw(st.sampled_from(["metadata", "log", "manifest", "checkpoint", "data"]))
            step["bytes"] = draw(st.sampled_from([0, 1000, 2_000_000]))
            step["bytes_per_file"] = draw(st.sampled_from([0, 0, 100_000]))
            step["bytes_per_version"] = draw(st.sampled_from([0, 0, 100_000]))
            step["parallel"] = draw(st.booleans())
        if draw(st.booleans()):
            factor = draw(st.sampled_from(["per_version_behind", "per_attempt", "per_file", "per_log_entry"]))
            if not (factor == "per_attempt" and phase == "load"):
                step[factor] = draw(st.sampled_from([0.1, 1, 2]))
        else:
            step["count"] = draw(st.sampled_from([1, 1, 2, 0.5]))
        if phase == "attempt":
            step["attempts"] = draw(st.sampled_from(["each", "each", "first", "retries"]))
        if point == "ratify" and phase in ("after_loss", "after_success"):
            step["publishes"] = draw(st.booleans())
        steps.append(step)
    if draw(st.integers(0, 3)) == 0:
        one: Tree = {"operation": "read", "object": "log", "bytes": 500, "with_next": True}
        steps += [one, {"operation": "write", "object": "manifest", "bytes": 2000}]
    return steps


def _discovery(draw: st.DrawFn, point: str) -> Tree:
    kinds: list[Tree] = [{"operation": "list", "object": "log"}, {"operation": "read", "object": "metadata", "bytes": 100_000}]
    if point != "put_if_absent":
        kinds.append({"operation": "request"})
    return {**draw(st.sampled_from(kinds)), "discovers": True}


@st.composite
def protocols(draw: st.DrawFn) -> Tree:
    """Draw a protocol with steps of all kinds in all phases."""
    point = draw(st.sampled_from(["put_if_absent", "swap", "insert", "ratify"]))
    rebases = draw(st.integers(0, 4)) > 0
    limit = draw(st.integers(1, 6)) if rebases else 0
    tree: Tree = {
        "operations": _PROTOCOL_OPERATIONS,
        "commit": {"point": point, "scope": draw(st.sampled_from(["table", "lake"]))},
        "load": [*draw(_steps("load", point)), _discovery(draw, point), *draw(_steps("load", point))],
        "attempt": draw(_steps("attempt", point)),
        "after_success": draw(_steps("after_success", point)),
        "after_abort": draw(_steps("after_abort", point)),
        "conflicts": {"rebases": rebases},
        "retries": {"limit": limit},
    }
    if draw(st.booleans()):
        found = _discovery(draw, point)
        found["checks"] = limit > 0 and draw(st.booleans())
        tree["attempt"].insert(draw(st.sampled_from([0, len(tree["attempt"])])), found)
    if rebases and draw(st.booleans()):
        tree["retries"]["operation_timeout_ms"] = draw(st.sampled_from([20.0, 50.0, 100.0]))
        tree["retries"]["operation_timeout_for"] = draw(st.sampled_from([[], ["overwrite", "delete"]]))
    if rebases:
        tree["after_loss"] = [_discovery(draw, point), *draw(_steps("after_loss", point))]
        names = st.sampled_from(_PROTOCOL_OPERATIONS)
        levels = st.sampled_from(["table", "partitions", "files"])
        for name, against in draw(st.dictionaries(names, st.dictionaries(names, levels))).items():
            for other, level in against.items():
                tree["conflicts"].setdefault(level, {}).setdefault(name, []).append(other)
    if draw(st.booleans()):
        tree["checkpoints"] = {"every": draw(st.sampled_from([1, 2, 5])), "steps": draw(_steps("checkpoints", point))}
    if point == "ratify" and any(step.get("publishes") for step in tree["after_success"]):
        tree["commit"]["unpublished_limit"] = draw(st.integers(1, 3))
    return tree


@st.composite
def protocol_documents(draw: st.DrawFn, everything: bool = False) -> Tree:
    """Draw a configuration whose clients follow a random protocol, written to a temporary file."""
    protocol = draw(protocols())
    text = tomli_w.dumps(protocol)
    folder = Path(tempfile.gettempdir(), "endive-protocols")
    folder.mkdir(exist_ok=True)
    file = folder / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.toml"
    if not file.exists():
        file.write_text(text)
    catalog = draw(catalogs())
    for key in ("table_metadata_inlined", "num_groups", "group_sizes", *(key for key in catalog if key.startswith("compaction"))):
        catalog.pop(key, None)
    on_service = protocol["commit"]["point"] in ("insert", "ratify") or (
        protocol["commit"]["point"] == "swap" and draw(st.booleans())
    )
    if on_service:
        catalog = draw(services(catalog))
        others = ("server_retries", "server_retry_mode", "server_backoff_ms", "coalesce")
        for key in ("writes_metadata", "transfer_ms_per_mib", "metadata_limit_bytes", *others):
            catalog.pop(key, None)
        if catalog["workers"] == 0:
            for key in ("queue_limit", "retry_after_ms", "max_resends"):
                catalog.pop(key, None)
    else:
        catalog["type"] = draw(st.sampled_from(["cas", "instant"]))
        for key in ("log_entry_size", *(["latency_ms"] if catalog["type"] == "cas" else [])):
            catalog.pop(key, None)
    most_tables = catalog["num_tables"] if protocol["commit"]["scope"] == "lake" else 1
    clients = catalog if everything or draw(st.integers(0, 2)) == 0 else None
    transaction: Tree = {
        "commit_path": str(file),
        "runtime": draw(distributions(draw(st.sampled_from([0.5, 20.0])))),
        "operation_types": {name: draw(st.sampled_from([0.0, 0.2, 1.0])) for name in _PROTOCOL_OPERATIONS} | {"fast_append": 1.0},
        "tables_per_txn": draw(_table_counts(most_tables)),
        "table_selection": draw(selections()),
        "on_real_conflict": draw(st.sampled_from(["abort", "restart"])),
        "manifests_hit": draw(st.sampled_from([1, "all"])),
        "inter_arrival": draw(distributions(draw(st.sampled_from([3.0, 10.0, 30.0])))),
    }
    if draw(st.booleans()):
        transaction["conflict_detector"] = "partition_overlap"
    else:
        transaction["real_conflict_probability"] = draw(st.sampled_from([0.0, 0.3, 1.0]))
    if draw(st.booleans()):
        transaction["partitions_per_txn"] = draw(st.sampled_from([1, 2, 1.5]))
        transaction["partition_selection"] = draw(selections())
    if protocol["conflicts"]["rebases"] and draw(st.booleans()):
        transaction["retry_backoff"] = draw(backoffs(clients is not None))
    if draw(st.booleans()):
        transaction["total_timeout_ms"] = draw(st.sampled_from([10.0, 100.0]))
    if clients is not None and draw(st.booleans()):
        transaction["client_ms_per_access"] = draw(st.just(1.5) | distributions(2.0))
    document = _base(draw, catalog, transaction) | {"table": {"files": draw(st.sampled_from([0, 1, 7]))}}
    if draw(st.booleans()):
        document["failures"] = draw(failures(on_service))
    if draw(st.booleans()):
        del transaction["inter_arrival"]
        document["workload"] = {name: draw(arrivals()) for name in draw(st.sampled_from([["a"], ["a", "b"]]))}
        if draw(st.booleans()):
            document["workload"]["a"]["committer"] = draw(_committers(document["workload"]["a"]))
    return document
