"""Compare the answers of ``endive frontier`` for runs of 10, 30 and 120 minutes.

Usage:

    python -m verification.frontier_length [--write]

A merging table reaches its hundredth manifest minutes after an empty start, so its answer depends on the duration of the run. With
``start = "steady"``, the answers have to overlap, or the growth of the table has to be reported. ``--write`` updates
``verification/results/frontier_length.json``. Takes a few minutes of one core.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import endive

RESULTS = Path(__file__).parent / "results" / "frontier_length.json"
MINUTES = (10, 30, 120)
CONDITION = "p99(ingest) > 3s"
_EXPIRY = {
    "operation": "expire_snapshots",
    "rate": 0.2,
    "max_snapshot_age_ms": "10min",
    "runtime": {"distribution": "fixed", "value": 1_000},
}


def load_system(minutes: int, *, expires: bool) -> endive.Configuration:
    """Return twenty tables with merge appends on S3 Express, with or without expiry of snapshots."""
    maintenance = {"expire": _EXPIRY} if expires else {}
    return endive.load(
        {
            "simulation": {"duration_ms": f"{minutes}min"},
            "storage": {"provider": "s3x"},
            "catalog": {"num_tables": 20, "num_groups": 20},
            "transaction": {
                "commit_path": "iceberg",
                "retry_policy": "iceberg",
                "real_conflict_probability": 0,
                "runtime": {"mean": 1_000, "sigma": 0.5},
            },
            "workload": {"ingest": {"operation": "merge_append", "rate": 10}, **maintenance},
        }
    )


def find_frontier(minutes: int, *, expires: bool) -> dict[str, Any]:
    """Return the answer for one duration, with its interval and whether growth is reported."""
    found = endive.frontier(load_system(minutes, expires=expires), vary="workload.ingest.rate", until=CONDITION, tolerance=0.2)
    return {
        "minutes": minutes,
        "expires": expires,
        "load": found.load,
        "low": found.low,
        "high": found.high,
        "reports_growth": "metadata grows" in found.summary(),
    }


def find_problems(rows: list[dict[str, Any]]) -> list[str]:
    """Return the systems whose answers neither overlap nor are reported as without a steady state."""
    problems = []
    for expires in (True, False):
        own = [row for row in rows if row["expires"] is expires]
        overlap = max(row["low"] for row in own) <= min(row["high"] for row in own)
        if not overlap and not all(row["reports_growth"] for row in own):
            problems.append(f"{'with' if expires else 'without'} expiry, the answers of {MINUTES} minutes do not overlap")
    return problems


def main() -> int:
    """Run all durations, print the answers, and return 1 if they contradict each other."""
    parser = argparse.ArgumentParser(prog="python -m verification.frontier_length", description=__doc__)
    parser.add_argument("--write", action="store_true", help="update the stored results")
    options = parser.parse_args()
    rows = []
    for expires in (True, False):
        for minutes in MINUTES:
            rows.append(find_frontier(minutes, expires=expires))
            print(rows[-1], flush=True)
    problems = find_problems(rows)
    if options.write and not problems:
        RESULTS.write_text(json.dumps({"condition": CONDITION, "answers": rows}, indent=2) + "\n", encoding="utf-8")
    print("\n".join(problems) or "the answers overlap, or growth is reported")
    return bool(problems)


if __name__ == "__main__":
    raise SystemExit(main())
