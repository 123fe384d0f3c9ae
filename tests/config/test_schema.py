"""The JSON Schema of configuration files: well-formed, complete, and in agreement with what loads."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel

from endive.config import json_schema
from endive.config.schema import Document

TYPES = {"string", "number", "integer", "boolean", "array", "object", "null"}
OBVIOUS = {"mean", "stddev", "read", "write", "clients", "interval_ms", "phase_ms", "think_time"}
KEYWORDS = {
    "$defs",
    "$ref",
    "$schema",
    "additionalProperties",
    "anyOf",
    "const",
    "default",
    "description",
    "enum",
    "exclusiveMinimum",
    "items",
    "maxItems",
    "maximum",
    "minItems",
    "minLength",
    "minimum",
    "pattern",
    "patternProperties",
    "properties",
    "propertyNames",
    "required",
    "title",
    "type",
}


def subschemas(node: Any) -> Iterator[dict[str, Any]]:
    """The schema and all schemas in it."""
    assert isinstance(node, dict)
    yield node
    for keyword in ("properties", "$defs", "patternProperties"):
        for child in node.get(keyword, {}).values():
            yield from subschemas(child)
    for keyword in ("items", "additionalProperties", "propertyNames"):
        if isinstance(node.get(keyword), dict):
            yield from subschemas(node[keyword])
    for child in node.get("anyOf", ()):
        yield from subschemas(child)


def test_it_is_json() -> None:
    assert json.loads(json.dumps(json_schema(), allow_nan=False)) == json_schema()


def test_it_is_a_schema_of_draft_2020_12() -> None:
    schema = json_schema()
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    for node in subschemas(schema):
        assert set(node) <= KEYWORDS
        assert node.get("type", "object") in TYPES
        assert isinstance(node.get("title", ""), str)
        assert isinstance(node.get("description", ""), str)
        assert set(node.get("required", ())) <= set(node.get("properties", {}))
        assert all(isinstance(node[key], int | float) for key in ("minimum", "maximum", "exclusiveMinimum") if key in node)
        if "enum" in node:
            assert len(node["enum"]) == len(set(node["enum"])) > 0
        if "pattern" in node:
            re.compile(node["pattern"])


def test_every_reference_leads_somewhere() -> None:
    schema = json_schema()
    references = [node["$ref"] for node in subschemas(schema) if "$ref" in node]
    assert references
    for reference in references:
        assert reference.removeprefix("#/$defs/") in schema["$defs"]


def test_it_has_every_section() -> None:
    schema = json_schema()
    assert set(schema["properties"]) == {
        "simulation",
        "experiment",
        "storage",
        "catalog",
        "table",
        "transaction",
        "failures",
        "parts",
        "workload",
    }
    assert set(schema["required"]) == {"simulation", "storage"}
    assert list(schema["properties"]["workload"]["patternProperties"].values()) == [{"$ref": "#/$defs/ClassSection"}]


def test_it_refuses_unknown_keys_as_loading_does() -> None:
    schema = json_schema()
    sections = [node for node in subschemas(schema) if "properties" in node]
    assert len(sections) > 15
    assert all(node["additionalProperties"] is False for node in sections)


@pytest.mark.parametrize("name", sorted(json_schema()["$defs"]))
def test_keys_that_do_not_explain_themselves_are_described(name: str) -> None:
    section = json_schema()["$defs"][name]
    assert section["description"]
    if name in ("ClassSection", "Sizes"):
        return  # its keys are those of [transaction]; names of sizes say all there is to say
    bare = [key for key, node in section["properties"].items() if "description" not in node]
    assert set(bare) <= OBVIOUS


def test_defaults_are_those_of_loading() -> None:
    schema = json_schema()

    def defaults(model: type[BaseModel]) -> dict[str, Any]:
        return {name: field.default for name, field in model.model_fields.items() if not field.is_required()}

    for name, field in Document.model_fields.items():
        model = field.annotation
        if isinstance(model, type) and issubclass(model, BaseModel):
            properties = schema["$defs"][model.__name__]["properties"]
            for key, default in defaults(model).items():
                if "default" in properties[key]:
                    assert properties[key]["default"] == default, f"{name}.{key}"
    assert schema["$defs"]["Transactions"]["properties"]["retry"]["default"] == 10
