"""``endive providers``: the built-in stores and their latencies."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Annotated, Any, Literal

import typer

from endive.cli.app import JsonFlag, app
from endive.cli.output import output_for


@app.command()
def providers(
    profile: Annotated[Literal["2025-06", "2025-12"], typer.Option(help="The set of profiles.")] = "2025-06",
    json: JsonFlag = False,
) -> None:
    """List the built-in storage providers: medians in ms and sigma of each operation."""
    from endive.storage import LognormalLatency, QuantileDistribution, SizeBasedLatency, builtin_profiles

    def brief(distribution: QuantileDistribution | None) -> str:
        if distribution is None:
            return "-"
        if isinstance(distribution, SizeBasedLatency):
            size = distribution
            return f"{size.base_latency_ms:g}+{size.latency_per_mib_ms:g}/MiB, {size.sigma:g}"
        if isinstance(distribution, LognormalLatency):
            return f"{math.exp(distribution.mu):g}, {distribution.sigma:g}"
        return str(distribution)

    output = output_for(json)
    profiles = builtin_profiles(profile).values()
    result: list[dict[str, Any]] = [asdict(item) for item in profiles]
    output.result(result)
    header = ("provider", "CAS", "failed CAS", "append", "failed append", "read", "write", "floor", "what it is")
    rows = [
        (
            item.name,
            *(brief(d) for d in (item.cas, item.failed_cas, item.append, item.failed_append)),
            brief(item.reads["*"]),
            brief(item.writes["*"]),
            f"{item.min_latency_ms:g}",
            item.description,
        )
        for item in profiles
    ]
    output.table(f"Providers of set {profile}: median in ms, sigma", header, rows)
