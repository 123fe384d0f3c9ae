"""Format the settings that ``endive tune`` recommends in the syntax of each client."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from endive.config.resolve import ResolvedClass, resolve_classes
from endive.studies.settings import CLASS_SETTINGS, ICEBERG_RETRY_SETTINGS, Scope, Setting, Snippet, current_value
from endive.studies.tuning import TODAY, TuningQuestion


def list_snippets(question: TuningQuestion, candidate: int) -> list[Snippet]:
    """Return the changed settings of a candidate, each with where to set it."""
    chosen = question.candidates[candidate]
    if not chosen.settings or candidate == TODAY:
        return []
    found: list[Snippet] = []
    for writers, properties in _group_properties(question, candidate):
        found += _paste_properties(writers, properties)
    for resolved in resolve_classes(chosen.document):
        scope = Scope(chosen.document, resolved)
        for setting in CLASS_SETTINGS:
            if f"{scope.section}.{setting.key}" in chosen.settings:
                found += [Snippet(f"{each.where}, {resolved.name}", each.text) for each in setting.paste(scope)]
    return [*dict.fromkeys(found), Snippet("Check", _compare_command(question, chosen.settings))]


def _group_properties(question: TuningQuestion, candidate: int) -> list[tuple[list[ResolvedClass], dict[str, Any]]]:
    """Return the table properties of a candidate with the classes of their tables."""
    chosen, space = question.candidates[candidate], question.space
    scopes = [Scope(chosen.document, each) for each in resolve_classes(chosen.document)]
    groups = []
    shared = [each for each in scopes if each.section in space.tuned and each.resolved.path.is_iceberg]
    properties = _read_properties(ICEBERG_RETRY_SETTINGS, shared[0].resolved, chosen.point) if shared else {}
    if properties:
        groups.append(([each.resolved for each in shared], properties))
    for scope in scopes:
        prefix = f"{scope.section}."
        own = {name.removeprefix(prefix): value for name, value in chosen.point.items() if name.startswith(prefix)}
        properties = _read_properties(CLASS_SETTINGS, scope.resolved, own)
        if properties:
            groups.append(([scope.resolved], properties))
    return groups


def _read_properties(settings: Sequence[Setting], resolved: ResolvedClass, changed: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of changed settings that are table properties, by property."""
    return {
        each.property: current_value(each.key, resolved) for each in settings if each.property is not None and each.key in changed
    }


def _paste_properties(writers: Sequence[ResolvedClass], properties: Mapping[str, Any]) -> list[Snippet]:
    """Return table properties for Spark SQL and for PyIceberg."""
    tables = sorted({table for each in writers if each.own is not None for table in each.own.tables or ()})
    where = f"tables {', '.join(map(str, tables))}" if tables else f"each table of {', '.join(each.name for each in writers)}"
    sql = ", ".join(f"'{name}' = '{value:.0f}'" for name, value in properties.items())
    python = ", ".join(f'"{name}": "{value:.0f}"' for name, value in properties.items())
    return [
        Snippet(f"Spark SQL, {where}", f"ALTER TABLE db.table SET TBLPROPERTIES ({sql});"),
        Snippet(f"PyIceberg, {where}", f"with table.transaction() as tx: tx.set_properties({{{python}}})"),
    ]


def _compare_command(question: TuningQuestion, settings: Mapping[str, Any]) -> str:
    """Return the command that compares the candidate with the file."""
    given = [f"--set {_quote(key, value)}" for key, value in question.overrides.items()]
    flat = dict(pair for key, value in settings.items() for pair in _flatten(key, value))
    changed = [f"--set-b {_quote(key, value)}" for key, value in flat.items()]
    return " ".join(["endive compare", question.source, question.source, *given, *changed])


def _flatten(key: str, value: Any) -> list[tuple[str, Any]]:
    """Return the keys of a nested table with their values."""
    return [(f"{key}.{name}", each) for name, each in value.items()] if isinstance(value, dict) else [(key, value)]


def _quote(key: str, value: Any) -> str:
    text = str(value).lower() if isinstance(value, bool) else f"{value:.12g}" if isinstance(value, float) else str(value)
    return f"{key}={text}"
