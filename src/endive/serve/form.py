"""Build the form of the page from the JSON schema of configurations (``endive schema``).

Each key has an input control with description, unit, bounds and default. The control of a number, word or duration takes the plain
value. Other values are entered as TOML.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from endive.catalog.kinds import CATALOG_KINDS
from endive.config.schema import CLASS_KEYS, Document, json_schema
from endive.report import phrases
from endive.storage import builtin_profiles
from endive.table import OPERATION_CODES
from endive.transaction.paths import COMMIT_PATHS
from endive.workload.arrivals import ARRIVAL_KINDS

_LEFT_OUT = {"simulation.seed", "simulation.output_path", "simulation.engine", "experiment"}
"""Keys that are not in the form, because the page chooses the seeds and stores the results."""
_TITLES = {
    "simulation": "Run",
    "storage": "Object store",
    "catalog": "Catalog",
    "table": "Table metadata (Iceberg clients)",
    "transaction": "Transactions (all classes)",
    "failures": "Failures",
}
_DEFAULTS: dict[str, Any] = {"simulation": {"duration_ms": "1h"}, "storage": {"provider": "s3"}}

Field = dict[str, Any]


@cache
def form() -> dict[str, Any]:
    """Return the sections of the form for a configuration and for a workload class, with their fields."""
    schema = json_schema()
    defaults = Document.model_validate(_DEFAULTS).model_dump(by_alias=True)
    tables = schema["properties"]
    sections = [
        {"name": name, "title": title, "fields": list(_fields(schema, _resolved(schema, tables[name]), name, "", defaults[name]))}
        for name, title in _TITLES.items()
    ]
    of_class = {key: schema["$defs"]["ClassSection"]["properties"][key] for key in CLASS_KEYS}
    inherited = schema["$defs"]["Transactions"]["properties"]
    for key, property_ in of_class.items():
        if "description" not in property_ and "description" in inherited.get(key, {}):
            of_class[key] = {**property_, "description": inherited[key]["description"]}
    return {
        "sections": sections,
        "class": list(_fields(schema, {"properties": of_class}, "workload", "", {})),
        "arrivals": [
            {
                "key": kind.key,
                "label": kind.label,
                "keys": [kind.key, *kind.companions],
                "example": dict(kind.example),
                "controls": [
                    {"path": each.path, "label": each.label, "quantity": each.quantity} for each in kind.numbers if each.label
                ],
            }
            for kind in ARRIVAL_KINDS.values()
        ],
        "operations": [{"value": name, "label": phrases.name_operation(name)} for name in OPERATION_CODES],
        "clients": [{"value": path.name, "label": path.client.removeprefix("the ")} for path in COMMIT_PATHS.values()],
        "stores": _stores(),
        "catalogs": [{"value": kind.name, "label": _CATALOGS.get(kind.name, kind.word)} for kind in CATALOG_KINDS.values()],
    }


_CATALOGS = {
    "cas": "catalog file (CAS)",
    "append": "catalog log (append)",
    "service": "service (REST, JDBC)",
    "instant": "ideal, fixed latency",
}


def _resolved(schema: dict[str, Any], node: dict[str, Any]) -> dict[str, Any]:
    if "$ref" not in node:
        return node
    found: dict[str, Any] = schema["$defs"][node["$ref"].rpartition("/")[2]]
    return found


def _fields(schema: dict[str, Any], section: dict[str, Any], name: str, prefix: str, defaults: Any) -> Iterator[Field]:
    for key, node in section["properties"].items():
        path = f"{prefix}{key}"
        if f"{name}.{path}" in _LEFT_OUT:
            continue
        default = defaults.get(key) if isinstance(defaults, dict) else None
        branches = [_resolved(schema, branch) for branch in node.get("anyOf", [node]) if branch.get("type") != "null"]
        field = {"path": path, "label": _label(name, path), "description": _plain(node.get("description", ""))}
        tables = [branch for branch in branches if branch.get("type") == "object" and "properties" in branch]
        if tables and len(branches) == 1:
            inside = list(_fields(schema, tables[0], name, f"{path}.", default or {}))
            yield {**field, "kind": "table", "fields": inside}
            continue
        yield {**field, **_control(f"{name}.{path}", branches), "default": _shown(default)}


def _control(key: str, branches: list[dict[str, Any]]) -> Field:
    """Return the input control for a key, with bounds or choices."""
    if key in ("storage.provider", "catalog.provider"):
        return {"kind": "choice", "options": _stores(), "open": True}
    first, bounds = branches[0], _bounds(branches[0])
    kinds = [branch.get("type") for branch in branches]
    choices = first.get("enum") or ([first["const"]] if "const" in first else [])
    if choices and len(branches) == 1:
        return {"kind": "choice", "options": [{"value": value, "label": _option(key, value)} for value in choices]}
    if kinds == ["boolean"]:
        return {"kind": "switch"}
    if kinds in (["integer"], ["number"]):
        return {"kind": "number", "whole": kinds == ["integer"], **bounds, "unit": _unit(key)}
    if len(branches) == 2 and kinds == ["number", "string"] and "pattern" in branches[1]:
        return {"kind": "duration", **bounds, "unit": "ms. Other units are possible: 90s, 4min, 1h"}
    if kinds == ["string"]:
        return {"kind": "text"}
    return {"kind": "toml"}


def _bounds(branch: dict[str, Any]) -> Field:
    names = {"minimum": "min", "maximum": "max", "exclusiveMinimum": "above"}
    return {short: branch[long] for long, short in names.items() if long in branch}


def _stores() -> list[dict[str, str]]:
    return [{"value": name, "label": phrases.name_value("storage_provider", name)} for name in builtin_profiles()]


def _option(key: str, value: Any) -> str:
    if key == "catalog.type":
        return _CATALOGS.get(str(value), str(value))
    return phrases.name_operation(value) if key.endswith(".operation") else str(value).replace("_", " ")


def _label(name: str, path: str) -> str:
    """Return the label of a key, without the name of its section: ``manifest size`` for ``table.manifest_bytes``."""
    last = path.rpartition(".")[2]
    if last.isupper():
        return last
    if "." in path:
        word, unit = last.removesuffix("_ms").removesuffix("_bytes").replace("_", " "), "bytes" if last.endswith("_bytes") else ""
    else:
        section = "transaction" if name == "workload" else name
        word, unit = phrases.name_parameter(f"param_{section}_{path}")
        word = word.removeprefix(f"{section} ")
    return f"{word} size" if unit == "bytes" and "size" not in word else word


def _unit(key: str) -> str:
    for suffix, unit in (("_bytes", "bytes"), ("_ms", "ms"), (".rate", "transactions per second"), ("_ms_per_mib", "ms per MiB")):
        if key.endswith(suffix):
            return unit
    return ""


def _shown(default: Any) -> Any:
    return default if isinstance(default, bool | int | float | str) else None


def _plain(text: str) -> str:
    return text.replace("`", "")
