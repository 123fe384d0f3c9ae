"""``endive providers``: latency profiles of the built-in object stores."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Literal

import typer

from endive.cli.app import JsonFlag, app, command


@app.command()
def providers(
    profile: Annotated[Literal["2025-06", "2025-12", "2026-01"], typer.Option(help="Version of the latency profiles.")] = "2026-01",
    json: JsonFlag = False,
) -> None:
    """List the built-in object stores: latency of each kind of access, commit rate of one writer, and source.

    Latencies are p50 and p99 in ms, for objects of 8 KiB.
    """
    from endive.formatting import format_number
    from endive.storage import builtin_profiles
    from endive.storage.profiles import Drawn, cas_rate_per_s, drawn_latencies

    def brief(drawn: Drawn | None) -> str:
        return "-" if drawn is None else f"{format_number(drawn.median_ms)} / {format_number(drawn.p99_ms)}"

    result, rows = [], []
    for item in builtin_profiles(profile).values():
        latencies, rate = drawn_latencies(item), cas_rate_per_s(item)
        drawn = {access: None if each is None else asdict(each) for access, each in latencies.items()}
        result.append({**asdict(item), "drawn": drawn, "cas_rate_per_s": rate})
        rows.append((item.name, *map(brief, latencies.values()), "-" if rate is None else format_number(rate), item.description))
    with command(json) as output:
        output.result(result)
        header = ("provider", "read", "write", "CAS", "failed CAS", "append", "failed append", "CAS/s", "object store")
        title = f"Latency profiles {profile}: p50 / p99 in ms; CAS/s is the rate of one writer"
        output.table(title, header, rows)
        output.table("\nSources", ("provider", "source"), [(each["name"], each["source"]) for each in result])
