"""What makes two runs the same experiment: a hash over all that changes results, and the directory that bears it.

The hash covers the parameters with their defaults, the latencies of the providers and the code of the model. It does not cover
the seed, where results go, or the label.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from endive import __version__
from endive.config.parts import parts_identity
from endive.config.schema import Document
from endive.config.storage import catalog_profile, storage_profile
from endive.config.traces import trace_hash
from endive.storage import StorageProfile
from endive.utils import fingerprint

HASH_LENGTH = 12


def code_version() -> str:
    """The version, and a fingerprint of the code that results depend on: other code may change without making new experiments."""
    return f"{__version__}+{fingerprint()}"


def parameters(document: Document) -> dict[str, Any]:
    """All that a run depends on but the code and the seed, in plain values."""
    tree = document.model_dump(mode="json")
    del tree["experiment"]
    for key in ("seed", "output_path", "engine"):
        del tree["simulation"][key]
    storage = storage_profile(document.storage)
    held = catalog_profile(document, storage)
    assert held is not None
    tree["storage"]["provider"] = _described(storage)
    for cls in tree["workload"].values():
        if cls["trace"] is not None:
            cls["trace"] = trace_hash(Path(cls["trace"]))
    tree["catalog"]["provider"] = _described(held)
    del tree["parts"]
    parts = parts_identity(document)
    if parts:
        tree["parts"] = parts
    return tree


def _described(profile: StorageProfile) -> dict[str, Any]:
    """A profile by its latencies, whatever its name and the file they came from."""
    described: dict[str, Any] = {"min_latency_ms": profile.min_latency_ms}
    for field in dataclasses.fields(profile):
        value = getattr(profile, field.name)
        if isinstance(value, dict):
            described[field.name] = {kind: repr(distribution) for kind, distribution in sorted(value.items())}
        elif dataclasses.is_dataclass(value):
            described[field.name] = repr(value)
    if profile.object_writes_per_s is not None:
        described["object_writes_per_s"] = profile.object_writes_per_s
    return described


def compute_experiment_hash(document: Document) -> str:
    """The name of the experiment: the same for the same parameters and code, whatever the seed."""
    return hash_parameters(parameters(document), code_version())


def hash_parameters(tree: Mapping[str, Any], code: str) -> str:
    """The name of the experiment with these parameters, run by the code of that version."""
    payload = json.dumps({"parameters": tree, "code": code}, sort_keys=True)
    return hashlib.sha256(payload.encode()).hexdigest()[:HASH_LENGTH]
