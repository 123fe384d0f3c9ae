"""Observe each client, check its protocol with further commits, and compare closed loops of real writers with the simulation."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from verification.clients import ducklake
from verification.clients.advice import compare_scenarios
from verification.clients.contention import compare_loops, mix_loops, summarize_errors
from verification.clients.failures import COUNTS, check_failures
from verification.clients.jobs import JOBS
from verification.clients.observations import CLIENTS, observe_client

RESULTS = Path(__file__).parents[1] / "results" / "clients.json"
OBSERVED, CONTENTION, MIXED, FAILURES = "observed", "contention", "mixed", "failures"
ADVICE = "advice"
MIXABLE = ("pyiceberg-rest",)
"""Clients that commit to the lab's catalog, so that the lab can simulate concurrent commits."""


def main() -> None:
    """Run a mode for the clients on the command line (default: all), and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("mode", choices=["observe", "contend", "mix", "advise", "fail"])
    parser.add_argument("clients", nargs="*", help=f"clients: {', '.join(CLIENTS)}; contend needs their observations")
    parser.add_argument("--checks", type=int, default=30, help="observe: further commits per client")
    parser.add_argument("--repetitions", type=int, default=1, help="contend: runs per number of writers")
    parser.add_argument("--without-think-times", action="store_true", help="contend: writers start again at once")
    parser.add_argument("--seconds", type=float, default=60.0, help="contend, mix, advise: length of a run")
    parser.add_argument("--latency-ms", type=float, default=100.0, help="contend, mix: latency of each access")
    parser.add_argument("--results", type=Path, default=RESULTS, help="file to read observations from and to write to")
    given = parser.parse_args()
    if given.mode == "advise":
        compared = compare_scenarios(given.seconds)
        _store(given.results, lambda results: results.update({ADVICE: compared}))
        return
    usual = {"observe": CLIENTS, "contend": tuple(JOBS), "mix": MIXABLE, "fail": tuple(COUNTS)}
    for name in given.clients or usual[given.mode]:
        if given.mode == "observe":
            found = observe_client(name, given.checks)
            _store(given.results, lambda results, name=name, found=found: results.setdefault(OBSERVED, {}).update({name: found}))
            print(f"{name}: {found['exact']} of {found['checked']} further commits are exact")
        elif given.mode == "contend":
            _contend(name, given)
        elif given.mode == "mix":
            observed = json.loads(given.results.read_text())[OBSERVED][name]
            cells = mix_loops(name, observed, given.seconds, given.latency_ms)
            _store(given.results, lambda results, name=name, cells=cells: results.setdefault(MIXED, {}).update({name: cells}))
        else:
            checked = check_failures(name)
            _store(given.results, lambda results, name=name, found=checked: results.setdefault(FAILURES, {}).update({name: found}))
            print(f"{name}: {checked['in_table']} commits in the table, {checked['reported_committed']} reported")


def _contend(name: str, given: argparse.Namespace) -> None:
    thinks = not given.without_think_times
    measure = given.repetitions, thinks, given.seconds, given.latency_ms
    if name == ducklake.CLIENT:
        cells = ducklake.compare_ducklake(*measure)
    else:
        cells = compare_loops(name, json.loads(given.results.read_text())[OBSERVED][name], *measure)

    def add(results: dict[str, Any]) -> None:
        section = results.setdefault(CONTENTION, {})
        section[name if thinks else f"{name} without think times"] = cells
        everything = [{**cell, "client": key} for key, own in section.items() if key != "summary" for cell in own]
        section["summary"] = summarize_errors([cell for cell in everything if cell["think_ms"]] or everything)

    _store(given.results, add)


def _store(path: Path, change: Any) -> None:
    """Update the stored results, and keep the results of other clients."""
    results = json.loads(path.read_text()) if path.exists() else {}
    change(results)
    path.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
