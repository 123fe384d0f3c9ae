"""Observe each client, and check the protocol with further commits at random distances behind."""

from __future__ import annotations

import argparse
import json
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

from endive.lab.observe import RIVAL_COUNTS, Observer, count_kinds, is_predicted, versions_behind
from endive.lab.observed_steps import split_phases
from endive.lab.protocol_text import describe, protocol_text
from endive.protocols.reader import parse_protocol
from verification.clients.jobs import JOBS, PACKAGES

RESULTS = Path(__file__).parents[1] / "results" / "clients.json"


def observe_client(name: str, checks: int) -> dict[str, Any]:
    """Observe a client; return its protocol, and how many further commits it predicts."""
    observer = Observer([sys.executable, "-c", JOBS[name]], lambda text: print(f"{name}: {text}", flush=True))
    with observer.open_lab(10) as lab:
        observation = observer.observe_in(lab, RIVAL_COUNTS)
        further = observer.run_checks(observation, checks)
    text = protocol_text(observation, name, [name], "fast_append")
    protocol = parse_protocol(text, name, name).document.model_dump(mode="json", exclude_defaults=True)
    outcomes = [
        {
            "place": trial.place,
            "rivals": trial.rivals,
            "versions": trial.versions,
            "exact": is_predicted(observation, trial),
            "phases": {
                phase: {
                    "observed": count_kinds(requests, observation.folder),
                    "predicted": observation.predict(phase, versions_behind(trial, phase), trial.versions),
                }
                for phase, requests in split_phases(trial, observation.folder).items()
            },
        }
        for trial in further
    ]
    return {
        "version": version(PACKAGES[name]),
        "protocol": {key: value for key, value in protocol.items() if key not in ("date", "description", "source", "name")},
        "notes": describe(observation),
        "retries": observation.retries,
        "waits_ms": [round(wait, 1) for wait in observation.waits_ms],
        "checked": len(outcomes),
        "exact": sum(outcome["exact"] for outcome in outcomes),
        "further_commits": outcomes,
    }


def main() -> None:
    """Observe the clients of the command line, or all, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("clients", nargs="*", default=list(JOBS), help=f"clients to observe: {', '.join(JOBS)}")
    parser.add_argument("--checks", type=int, default=30, help="further commits per client")
    given = parser.parse_args()
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name in given.clients:
        results[name] = observe_client(name, given.checks)
        RESULTS.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")
        print(f"{name}: {results[name]['exact']} of {results[name]['checked']} further commits are exact")


if __name__ == "__main__":
    main()
