"""Mutations of good files, drawn blindly: other numbers, cells and bytes, lines of other files, what parsers stumble over."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

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
    """A good file with one to four mutations."""
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
    """A number of another size, which most keys still take: what is valid goes further than what is refused."""
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
