"""Random mutations of valid files: other numbers, cells and bytes, lines of other files, values that break parsers."""

from __future__ import annotations

import copy
import io
import json
import random
import re
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

_NUMBER = re.compile(rb"[0-9]{1,15}(?:\.[0-9]{1,6})?")
_NUMBERS = (
    b"0", b"-1", b"1", b"0.5", b"1e308", b"-1e308", b"1e-308", b"nan", b"inf", b"-inf", b"1e400", b"4611686018427387904",
    b"9223372036854775808", b"1" + b"0" * 30, b"9" * 5_000, b"true", b'""', b'"x"', b"[]", b"{}", b"'a\x00b'", b"1979-05-27",
    b'"' + b"9" * 400 + b's"', b'"10s"', b'"-1min"', b"[[[[[[]]]]]]",
)  # fmt: skip
_TEXTS = (
    b"\x00",
    b"\xff\xfe",
    b"[" * 500,
    b"{" * 500,
    b"a." * 500,
    "²".encode(),
    b"../../",
    b"\n",
    b"=",
    b"#",
    b'"',
    b"]",
    b"workload.all.rate = 1",
)


def mutated(good: Sequence[bytes], rng: random.Random) -> bytes:
    """Return a valid file with one to four mutations."""
    content = rng.choice(good)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 4))):
        content = rng.choice(_MUTATIONS)(content, good, rng)
    return content


def _another_number(content: bytes, _: Sequence[bytes], rng: random.Random) -> bytes:
    lines = content.split(b"\n")
    sign = b'":' if content[:1] in b"{[" else b"="
    places = [place for place, line in enumerate(lines) if sign in line]
    if not places:
        return content
    place = rng.choice(places)
    key = lines[place].split(sign)[0]
    end = b"," if sign != b"=" and lines[place].endswith(b",") else b""
    lines[place] = key + sign + b" " + rng.choice(_NUMBERS) + end
    return b"\n".join(lines)


def _scaled(content: bytes, _: Sequence[bytes], rng: random.Random) -> bytes:
    """Scale a number; most keys accept the result, and valid input is processed further than rejected input."""
    places = list(_NUMBER.finditer(content))
    if not places:
        return content
    place = rng.choice(places)
    number = float(place[0]) * rng.choice((0.0, 1e-9, 1e-3, 0.5, 0.9, 1.1, 2.0, 10.0, 1e3, 1e6, 1e9))
    text = b"%d" % number if place[0].isdigit() and number < 1e15 else b"%.6g" % number
    return content[: place.start()] + text + content[place.end() :]


def _another_cell(content: bytes, _: Sequence[bytes], rng: random.Random) -> bytes:
    cells = content.split(b",")
    cells[rng.randrange(len(cells))] = rng.choice(_NUMBERS)
    return b",".join(cells)


def _inserted(content: bytes, _: Sequence[bytes], rng: random.Random) -> bytes:
    place = rng.randrange(len(content) + 1)
    return content[:place] + rng.choice(_TEXTS) + content[place:]


def _removed(content: bytes, _: Sequence[bytes], rng: random.Random) -> bytes:
    start = rng.randrange(len(content) + 1)
    return content[:start] + content[start + rng.choice((1, 3, 20, 200)) :]


def _flipped(content: bytes, _: Sequence[bytes], rng: random.Random) -> bytes:
    if not content:
        return content
    place = rng.randrange(len(content))
    return content[:place] + bytes((content[place] ^ (1 << rng.randrange(8)),)) + content[place + 1 :]


def _spliced(content: bytes, good: Sequence[bytes], rng: random.Random) -> bytes:
    lines, others = content.split(b"\n"), rng.choice(good).split(b"\n")
    start = rng.randrange(len(others))
    place = rng.randrange(len(lines) + 1)
    return b"\n".join([*lines[:place], *others[start : start + rng.choice((1, 2, 10))], *lines[place:]])


_MUTATIONS = (_another_number, _another_number, _scaled, _scaled, _scaled, _another_cell, _inserted, _removed, _flipped, _spliced)


_VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**40, 2**62, 2**70, 10**400, 0.5, -0.5, 1e-308, 1e308, "", "x", "ingest", "all", "\x00", "\ud800",
    "²",
    "../../x", "=1+1", "<script>alert(1)</script>", "a\nb", "x" * 3_000, "1e5", "nan", [], {}, [[]], [{}], [1, "a", None], {"": 1},
    {"a": {"b": {}}}, {"\ud800": []}, {"x": [1e308, 1e308]}, [{"from_ms": 0, "rate": 1e308}], "success < 5%", "2026-13-45",
)  # fmt: skip
_KEYS = (
    "",
    " ",
    ".",
    "a.b",
    "a-b",
    "a_b",
    "\x00",
    "\ud800",
    "=x",
    "param_x",
    "rate",
    "scenario",
    "provider",
    "x" * 500,
    "Ingest",
    "experiment",
)


def mutated_tree(good: Sequence[bytes], rng: random.Random) -> bytes:
    """Return a valid JSON file with one to four changes of its tree: other values or keys, some at random places."""
    if rng.random() < 0.1:
        return mutated(good, rng)
    tree = json.loads(rng.choice(good))
    for _ in range(rng.choice((1, 1, 1, 2, 3, 4))):
        _change(rng.choice(_tables(tree)), rng)
    return json.dumps(tree).encode()


def _tables(node: Any) -> list[Any]:
    """Return all non-empty tables and lists of a tree, the tree itself first."""
    children = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    return [*([node] if children else []), *(found for child in children for found in _tables(child))] or [{}]


def _value(rng: random.Random) -> Any:
    """Return a new value, so that trees do not share mutable values."""
    return copy.deepcopy(rng.choice(_VALUES))


def _change(table: Any, rng: random.Random) -> None:
    key = rng.choice(list(table)) if isinstance(table, dict) and table else rng.randrange(len(table)) if table else ""
    kind = rng.randrange(6)
    if kind <= 2 and table:
        old = table[key]
        scaled = isinstance(old, int | float) and not isinstance(old, bool) and rng.random() < 0.5 and abs(old) < 1e300
        table[key] = old * rng.choice((0, -1, 0.5, 2, 1e3, 1e9, 1e15)) if scaled else _value(rng)
    elif kind == 3 and table:
        del table[key]
    elif isinstance(table, list):
        table.insert(key if isinstance(key, int) else 0, _value(rng))
    else:
        other = rng.choice((*_KEYS, f"{key}_", f"{key}".upper(), f"{key}".replace("_", "-"), f"{key}.x"))
        table[other] = table.pop(key) if kind == 4 and key in table else _value(rng)


def mutated_rows(good: Sequence[bytes], rng: random.Random) -> bytes:
    """Return a valid Parquet file with one to three changes of its rows: other values, types, columns, row groups."""
    table = pq.read_table(io.BytesIO(rng.choice(good)))
    for _ in range(rng.choice((1, 1, 2, 3))):
        table = _changed_column(table, rng)
    made = io.BytesIO()
    try:
        pq.write_table(table, made, row_group_size=rng.choice((None, None, 1, 7)), store_schema=rng.random() < 0.5)
    except pa.ArrowNotImplementedError:  # a table without keys, as a value: no file holds it
        return mutated_rows(good, rng)
    return made.getvalue()


def _changed_column(table: pa.Table, rng: random.Random) -> pa.Table:
    place, kind = rng.randrange(table.num_columns), rng.randrange(7)
    name, values = table.column_names[place], table.column(place).to_pylist()
    if kind == 0:
        return table.remove_column(place) if table.num_columns > 1 else table
    if kind == 1:
        return table.slice(0, rng.choice((0, 1, table.num_rows // 2)))
    if kind == 2:
        return table.set_column(place, name, pa.nulls(table.num_rows, rng.choice((pa.null(), table.schema.types[place]))))
    if kind == 3:
        return table.rename_columns([*table.column_names[:place], rng.choice(_KEYS[:3]), *table.column_names[place + 1 :]])
    if kind == 4:
        return pa.concat_tables([table, table.slice(0, 3)])
    for row in rng.sample(range(len(values)), min(len(values), rng.choice((1, 3, len(values))))):
        values[row] = rng.choice((*_VALUES, *([values[row]] * 5), -1.0, 7, "0:1 1:x", "commit", "aborted"))
    try:
        return table.set_column(place, name, pa.array(values, table.schema.types[place] if kind == 5 else None))
    except (pa.ArrowException, OverflowError, UnicodeEncodeError, TypeError):
        return table  # no column holds these
