"""Generate ``docs/reference`` and the table of metrics: configuration keys, commands and options, columns of results, metrics.

Run ``python docs/generate.py`` after a change to ``endive.config.schema``, ``endive.cli``, ``endive.simulation.columns`` or
``endive.analysis.metric``. A test fails if a page is out of date.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import typer
from annotated_types import Ge, Gt, Le, Lt, MaxLen, MinLen
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from endive.analysis.metric import METRIC_RECORDS
from endive.config import arrival_keys, schema
from endive.config.load import ALIASES
from endive.config.values import DURATION
from endive.main import app
from endive.simulation.columns import COLUMNS

PAGE = Path(__file__).parent / "reference" / "configuration.md"
CLI_PAGE = PAGE.with_name("cli.md")
COLUMNS_PAGE = PAGE.with_name("columns.md")
STATISTICS_PAGE = PAGE.parents[1] / "explanation" / "statistics.md"
METRICS_BEGIN, METRICS_END = "<!-- metrics: made by docs/generate.py -->\n", "<!-- end of metrics -->\n"
COLUMNS_BEGIN, COLUMNS_END = "<!-- columns: made by docs/generate.py -->\n", "<!-- end of columns -->\n"

TABLES: tuple[tuple[str, type[BaseModel]], ...] = (
    ("[simulation]", schema.SimulationSection),
    ("[experiment]", schema.Experiment),
    ("[storage]", schema.StorageSection),
    ("[storage.sizes]", schema.Sizes),
    ("[catalog]", schema.CatalogSection),
    ("[catalog.partitions]", schema.Partitions),
    ("[table]", schema.TableSection),
    ("[transaction]", schema.Transactions),
    ("[workload.NAME]", schema.ClassSection),
    ("[failures]", schema.FailuresSection),
)
"""Tables of the file, in the order of the page."""


def _arrival_tables() -> Iterator[tuple[str, type[BaseModel]]]:
    """Yield the tables of the arrival kinds that have one, each with its title."""
    for field in arrival_keys.ArrivalKeys.model_fields.values():
        for model in get_args(field.annotation):
            if isinstance(model, type) and model.__module__ == arrival_keys.__name__:
                yield f"{model.__name__} arrivals", model


VALUES: tuple[tuple[str, type[BaseModel]], ...] = (
    ("Runtime", schema.Runtime),
    ("Interval", schema.Interval),
    ("Latency of a service", schema.Latency),
    ("Group commit", schema.CoalesceSection),
    ("Committer", schema.CommitterSection),
    ("Operation weights", schema.OperationTypes),
    ("Selection", schema.Selection),
    ("Zipf count", schema.ZipfTables),
    ("Retry backoff", schema.RetryBackoff),
    ("Manifest counts", schema.ManifestCounts),
    *_arrival_tables(),
    ("Rate step", arrival_keys.RateStep),
    ("Normal latency", schema.Normal),
    ("Latencies of reads and writes", schema.ReadWrite),
)
"""Values that are tables themselves and occur in several places."""
TITLES = {model: title for title, model in (*TABLES, *VALUES)}

COLUMN_TYPES = {"id": "int64", "count": "int64", "state": "int64", "text": "string", "tables": "list of int64"}

UNBOUNDED = 1e15
"""Limit from which upper bounds only guard against overflow and are not documented."""

HEAD = """\
# Configuration: all keys

<!-- Made by docs/generate.py from endive.config.schema. Do not edit. -->

[The guide to configurations](../guides/configuration.md) explains how to combine keys. Times are numbers in milliseconds, or
durations such as `"250ms"`, `"90s"`, `"4min"`, `"1.5h"`, `"2d"`. Sizes are in bytes. Unknown keys are errors. Every number must
be finite. A key of type number also accepts an integer.
"""

ALIAS_HEAD = """\
## Other spellings

Endive accepts other spellings of some keys. A file must not contain two spellings of one key. The old table `[partition]` sets
`transaction.partitions_per_txn` to 1, unless the file sets another value. `partition.enabled = false` disables this table.

| accepted | canonical |
|---|---|
"""

CLI_HEAD = """\
# Command line: all commands

<!-- Made by docs/generate.py from endive.cli. Do not edit. -->

Every command accepts `-h/--help` and `--json`. Commands write results to stdout and all other output to stderr. `--out` is an old
spelling of `--output`.

| exit code | meaning |
|---|---|
| 0 | success |
| 1 | any other failure |
| 2 | invalid usage or input |
| 3 | a condition of `--fail-if` is met |
| 130 | interrupted |
| 143 | terminated |
"""


def page() -> str:
    """Return the page of configuration keys."""
    parts = [HEAD]
    for title, model in TABLES:
        parts.append(_section(f"`{title}`", model))
    parts.append("## Values\n\nThe value of some keys is a table, such as `runtime = { mean = 30_000, sigma = 1.0 }`.\n")
    for title, model in VALUES:
        parts.append(_section(title, model, level=3))
    parts.append(ALIAS_HEAD + "".join(f"| `{old}` | `{new}` |\n" for old, new in ALIASES.items()))
    return "\n".join(parts)


def columns_page() -> str:
    """Return the page of columns with its table of the columns of results."""
    rows = [f"| `{each.name}` | {COLUMN_TYPES.get(each.kind, each.kind)} | {each.meaning} |\n" for each in COLUMNS]
    table = "".join(["| column | type | meaning |\n", "|---|---|---|\n", *rows])
    return _replace_block(COLUMNS_PAGE, COLUMNS_BEGIN, table, COLUMNS_END)


def statistics_page() -> str:
    """Return the page of definitions with its table of metrics."""
    rows = [f"| `{each.name}` | {each.unit} | {each.better or '-'} | {each.definition} |\n" for each in METRIC_RECORDS.values()]
    table = "".join(["| metric | unit | better | definition |\n", "|---|---|---|---|\n", *rows])
    return _replace_block(STATISTICS_PAGE, METRICS_BEGIN, table, METRICS_END)


def _replace_block(page: Path, begin: str, block: str, end: str) -> str:
    before, _, rest = page.read_text(encoding="utf-8").partition(begin)
    return before + begin + block + end + rest.partition(end)[2]


def _section(title: str, model: type[BaseModel], level: int = 2) -> str:
    lines = [f"{'#' * level} {title}", "", _introduction(model), "", "| key | type | default | meaning |", "|---|---|---|---|"]
    hints = get_type_hints(model, include_extras=True)
    for name, field in model.model_fields.items():
        cells = (f"`{field.alias or name}`", type_text(hints[name]), default_text(field), meaning(model, name, field))
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join(lines) + "\n"


def _introduction(model: type[BaseModel]) -> str:
    text = inspect.cleandoc(model.__doc__ or "").replace("``", "`")
    before, colon, after = text.partition("`: ")
    if before.startswith("`[") and colon:  # the heading names the table
        text = after[:1].upper() + after[1:]
    return text


def meaning(model: type[BaseModel], name: str, field: FieldInfo) -> str:
    """Return the description of a key. Raises KeyError if it has none."""
    if field.description:
        return field.description
    if model is schema.ClassSection and name in schema.Transactions.model_fields:
        return f"Overrides `transaction.{name}`."
    raise KeyError(f"{model.__name__}.{name} has no description; add one to the schema")


def default_text(field: FieldInfo) -> str:
    """Return the default as TOML, or a dash for an optional key without a default."""
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if value is None:
        return "-"
    if isinstance(value, BaseModel):
        given = value.model_dump(exclude_unset=True)
        return f"`{_toml(given)}`" if given else "as below"
    return f"`{_toml(value)}`"


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml(item)}" for key, item in value.items()) + " }"
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, int) or float(value).is_integer():
        return f"{int(value):_}" if abs(value) >= 10_000 else str(int(value))
    return repr(value)


def type_text(hint: Any) -> str:
    """Describe a type with its bounds."""
    bounds: list[Any] = []
    while get_origin(hint) is Annotated:
        hint, *extras = get_args(hint)
        bounds += _constraints(extras)
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return " or ".join(dict.fromkeys(type_text(item) for item in get_args(hint) if item is not type(None)))
    if origin is Literal:
        return ", ".join(f'`"{item}"`' for item in get_args(hint))
    if origin is list:
        return f"list of {type_text(get_args(hint)[0]).replace('integer', 'integers')}{_length(bounds)}"
    if isinstance(hint, type) and issubclass(hint, BaseModel):
        title = TITLES[hint]
        return f"[{title.strip('[]') if title.startswith('[') else title.lower()}](#{_anchor(title)})"
    words = {bool: "true or false", int: "integer", float: "number", str: "string"}
    return words[hint] + _range(bounds) + (" or duration" if DURATION in bounds else "")


def _constraints(extras: list[Any]) -> Iterator[Any]:
    for extra in extras:
        yield from extra.metadata if isinstance(extra, FieldInfo) else [extra]


def _range(bounds: list[Any]) -> str:
    low = next((f">= {b.ge:g}" if isinstance(b, Ge) else f"> {b.gt:g}" for b in bounds if isinstance(b, Ge | Gt)), "")
    high: list[Any] = [b.le if isinstance(b, Le) else b.lt for b in bounds if isinstance(b, Le | Lt)]
    upper = f"<= {high[0]:g}" if high and high[0] < UNBOUNDED else ""
    both = ", ".join(text for text in (low, upper) if text)
    return f" {both}" if both else ""


def _length(bounds: list[Any]) -> str:
    low = [b.min_length for b in bounds if isinstance(b, MinLen)]
    high = [b.max_length for b in bounds if isinstance(b, MaxLen)]
    return f", {low[0]} of them" if low and low == high else ""


def _anchor(title: str) -> str:
    """Return the anchor of a heading on GitHub."""
    return "".join(c for c in title.lower().replace(" ", "-") if c.isalnum() or c in "-_")


def cli_page() -> str:
    """Return the page of commands."""
    found = sorted(_commands("endive", typer.main.get_command(app)))
    index = ["| command | |", "|---|---|"]
    index += [f"| [`{name}`](#{_anchor(name)}) | {_paragraphs(command.help)[0]} |" for name, command in found]
    return "\n".join([CLI_HEAD, *index, "", *(_command(name, command) for name, command in found)])


def _commands(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    """Yield the commands by full name."""
    within = getattr(command, "commands", {})
    if not within or command.invoke_without_command:
        yield name, command
    for each, subcommand in within.items():
        yield from _commands(f"{name} {each}", subcommand)


def _command(name: str, command: Any) -> str:
    shown = [each for each in command.params if not each.hidden and each.name not in ("json", "help")]
    arguments = [each for each in shown if each.param_type_name == "argument"]
    options = [each for each in shown if each not in arguments]
    usage = " ".join([name, *(_placeholder(each) if each.required else f"[{_placeholder(each)}]" for each in arguments)])
    lines = [f"## `{name}`", "", "```console", f"$ {usage}{' [OPTIONS]' if options else ''}", "```", ""]
    lines += [line for text in _paragraphs(command.help) for line in (text, "")]
    for title, given in (("argument", arguments), ("option", options)):
        if given:
            lines += [f"| {title} | meaning | default |", "|---|---|---|", *(_row(each) for each in given), ""]
    return "\n".join(lines)


def _paragraphs(text: str | None) -> list[str]:
    """Return the paragraphs of a help text, each as one line."""
    return [" ".join(part.split()) for part in inspect.cleandoc(text or "").split("\n\n")]


def _placeholder(parameter: Any) -> str:
    return str(parameter.metavar or parameter.name.rstrip("_").upper())


def _row(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        names = f"`{_placeholder(parameter)}`"
    else:
        given = [*parameter.opts, *parameter.secondary_opts]
        names = ", ".join(f"`{each}`" for each in given) + ("" if parameter.is_flag else f" `{_placeholder(parameter)}`")
    text, stated, default = (parameter.help or "").partition(" Default: ")
    if not stated and parameter.default is not False and parameter.default not in (None, [], ()):
        default = f"`{parameter.default}`"
    again = " May be repeated." if parameter.multiple and "may be" not in text else ""
    cells = (names, text + again, default.removesuffix("."))
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |".replace("|  |", "| |")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    CLI_PAGE.write_text(cli_page(), encoding="utf-8")
    COLUMNS_PAGE.write_text(columns_page(), encoding="utf-8")
    STATISTICS_PAGE.write_text(statistics_page(), encoding="utf-8")
