"""Durations in configurations: a number of milliseconds, or text such as ``"90s"``."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, GetJsonSchemaHandler
from pydantic_core import CoreSchema

MOST_MS = 1e15
"""30,000 years in milliseconds: beyond that, exponentials overflow."""

UNITS_MS = {"ms": 1.0, "s": 1_000.0, "min": 60_000.0, "h": 3_600_000.0, "d": 86_400_000.0}
"""Milliseconds of each unit that a duration may have."""

_SPELLINGS = {
    "ms": ("ms", "", "msec", "msecs", "millis", "millisecond", "milliseconds"),
    "s": ("s", "sec", "secs", "second", "seconds"),
    "min": ("min", "m", "mins", "minute", "minutes"),
    "h": ("h", "hr", "hrs", "hour", "hours"),
    "d": ("d", "day", "days"),
}
_TIMES = {"every", "start", "end", "scale", "mean", "median", "stddev", "value", "min", "max"}
_NUMBER = r"\d+(?:\.\d+)?|\.\d+"
_DURATION = re.compile(rf"({_NUMBER})({'|'.join(UNITS_MS)})")
_NEARLY = re.compile(rf"({_NUMBER})\s*([a-z]*)")
_ALLOWED = 'should be a number of milliseconds or a duration such as "250ms", "90s", "4min", "1h"'


def duration_ms(value: Any) -> Any:
    """Turn text like ``"90s"`` into milliseconds, and hand on anything else. Raises ValueError, which names the nearest form."""
    if not isinstance(value, str):
        return value
    match = _DURATION.fullmatch(value)
    if match is None:
        raise ValueError(_ALLOWED + _nearest_form(value))
    return float(match[1]) * UNITS_MS[match[2]]


def is_time(key: str) -> bool:
    """Tell whether the value of a dotted key is a time, by its name."""
    last = key.rpartition(".")[2]
    return last.endswith("_ms") or last in _TIMES


def plain_value(key: str, value: Any) -> Any:
    """The value of a dotted key as a plain number of milliseconds, where the key is a time and the value a valid duration."""
    if isinstance(value, str) and is_time(key) and _DURATION.fullmatch(value):
        return duration_ms(value)
    return value


def _nearest_form(text: str) -> str:
    match = _NEARLY.fullmatch(text.strip().lower().replace(",", "").replace("_", ""))
    unit = match and next((unit for unit, spellings in _SPELLINGS.items() if match[2] in spellings), None)
    return f'; did you mean "{match[1]}{unit}"?' if match and unit else ""


class _OrText:
    """Lets the JSON schema of a number accept the text of a duration too."""

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"anyOf": [handler(schema), {"type": "string", "pattern": f"^{_DURATION.pattern}$"}]}


DURATION = _OrText()
"""Marks the types below, for those who describe them."""
Ms = Annotated[float, BeforeValidator(duration_ms), DURATION]
NonNegativeMs = Annotated[float, Field(ge=0, le=MOST_MS), BeforeValidator(duration_ms), DURATION]
PositiveMs = Annotated[float, Field(gt=0, le=MOST_MS), BeforeValidator(duration_ms), DURATION]
