"""Simulate random systems, write their tables, import them, and predict the effect of another retry limit.

``python -m tests.calibrate.roundtrip --count 20`` prints the results.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import tomli_w

from endive.calibrate.answers import Answer, answers, measure, simulate
from endive.calibrate.measurements import read_reports
from endive.calibrate.observed_classes import ObservedClass
from endive.calibrate.sources import open_history
from endive.calibrate.table_import import Imported, import_history
from endive.cli.observed_table import write_imported
from tests.calibrate.tables import write_table

Tree = dict[str, Any]
OTHER_RETRIES = 1
DELETE_MANIFESTS = 3
_FEWEST = 6
"""Minimum number of commits for checks of rates and intervals; with fewer, import reports that they are unknown."""
_SECONDS = 2_400.0


@dataclass(frozen=True)
class RoundTrip:
    """System, its imported table, and the true and predicted success with another retry limit by class."""

    tree: Tree
    rows: pd.DataFrame
    manifests: int
    imported: Imported
    truth: dict[str, float]
    predicted: dict[str, Answer]
    without_reports: dict[str, Answer]


def random_system(seed: int) -> tuple[Tree, int]:
    """Return a table with appends and up to two periodic jobs, and its final number of manifests."""
    rng = random.Random(seed)
    fixed = {"distribution": "fixed", "value": 0.0}
    workload: Tree = {"ingest": {"operation": "fast_append", "rate": rng.choice([0.3, 0.8, 1.5]), "runtime": fixed}}
    if rng.random() < 0.7:
        interval = rng.choice([10_000.0, 30_000.0, 60_000.0])
        phase = float(rng.randrange(0, int(interval), 500))
        runtime = {"distribution": "fixed", "value": rng.choice([200.0, 1_000.0])}
        workload["compact"] = {
            "operation": "rewrite_files",
            "periodic": {"interval_ms": interval, "phase_ms": phase},
            "runtime": runtime,
        }
    if rng.random() < 0.5:
        interval = rng.choice([5_000.0, 20_000.0, 45_000.0])
        phase = float(rng.randrange(0, int(interval), 500))
        workload["stream"] = {
            "operation": "fast_append",
            "periodic": {"interval_ms": interval, "phase_ms": phase},
            "runtime": fixed,
        }
    tree = {
        "simulation": {"duration_ms": 1e3 * _SECONDS, "seed": seed},
        "storage": {"provider": rng.choice(["s3", "s3x", "azurex"])},
        "catalog": {"num_tables": 1},
        "table": {"manifests": rng.randrange(1, 60), "snapshots": 100},
        "transaction": {"commit_path": "iceberg", "retry_policy": "iceberg", "retry": rng.choice([2, 4, 6])},
        "workload": workload,
    }
    return tree, rng.randrange(1, 90)


def round_trip(seed: int, folder: Path) -> RoundTrip:
    """Simulate a random system, write its table, and import it."""
    tree, manifests = random_system(seed)
    original = folder / "original.toml"
    original.write_text(tomli_w.dumps(tree))
    rows = simulate(original, {}, (seed,))
    properties = {"commit.retry.num-retries": str(tree["transaction"]["retry"])}
    table = write_table(folder / "table", rows, properties=properties, manifests=manifests, delete_manifests=DELETE_MANIFESTS)
    history, reports = open_history(str(table.metadata)), read_reports(table.reports)
    provider = tree["storage"]["provider"]
    change = {"transaction.retry": OTHER_RETRIES}
    imported = import_history(history, reports=reports, provider=provider)
    mine = folder / "mine.toml"
    write_imported(imported, mine, reports)
    blind = import_history(history, provider=provider)
    other = folder / "blind.toml"
    write_imported(blind, other, [])
    from_now_on = change | {f"table.{key}": value for key, value in imported.tree["table"].items()}
    truth = {name: each.success for name, each in measure(original, from_now_on).items()}
    return RoundTrip(
        tree,
        rows,
        manifests,
        imported,
        truth,
        _by_class(answers(mine, imported.assumptions, change)),
        _by_class(answers(other, blind.assumptions, change)),
    )


def _by_class(made: list[Answer]) -> dict[str, Answer]:
    """Return predictions by the class of the original system, which was written as the application name."""
    return {_original(each.name): each for each in made}


def _original(imported: str) -> str:
    """Return the original class; imported classes of a table with one application per operation do not name it."""
    named = next((name for name in ("ingest", "compact", "stream") if name in imported), None)
    return named or ("compact" if "replace" in imported else "ingest")


def agrees(truth: float, answer: Answer) -> bool:
    """Return whether a prediction is within five percentage points of the true value, or its range contains it."""
    return abs(answer.base.success - truth) <= 0.05 or answer.success[0] <= truth <= answer.success[1]


def wrong_rates(trip: RoundTrip) -> list[str]:
    """Return non-periodic classes whose commit or submission rate is off by more than 5%."""
    wrong = []
    for name, own in trip.rows.groupby("workload_class"):
        cls = _observed(trip, str(name))
        if "periodic" in cls.process.keys or len(cls.commits) < _FEWEST:
            continue
        committed = (own["status"] == "committed").sum() / _SECONDS
        submitted = len(own) / _SECONDS
        section = trip.imported.tree["workload"][cls.name]
        if "closed" in section:
            wrong.append(f"{name}: was taken for writers that wait")
            continue
        modelled = section["rate"] if "rate" in section else 1e3 / section["inter_arrival"]["mean"]
        for what, found, true in (("commits", cls.process.per_s, committed), ("submissions", modelled, submitted)):
            if abs(found / true - 1.0) > 0.05:
                wrong.append(f"{name}: {found:.4g} {what} per second were found, {true:.4g} there are")
    return wrong


def wrong_periods(trip: RoundTrip) -> list[str]:
    """Return periodic classes with a wrong interval or phase; a commit is observed up to a second late."""
    wrong = []
    for name, section in trip.tree["workload"].items():
        if "periodic" not in section or len(_observed(trip, name).commits) < _FEWEST:
            continue
        keys = _observed(trip, name).process.keys.get("periodic")
        true = section["periodic"]
        if keys is None or keys["interval_ms"] != true["interval_ms"]:
            wrong.append(f"{name}: interval {keys and keys['interval_ms']} was found, {true['interval_ms']} it is")
            continue
        late = (keys["phase_ms"] - true["phase_ms"]) % true["interval_ms"]
        if late >= section["runtime"]["value"] + 1_000.0:
            wrong.append(f"{name}: phase {keys['phase_ms']} was found, {true['phase_ms']} it is")
    return wrong


def wrong_state(trip: RoundTrip) -> list[str]:
    """Return the properties of the table state that were not imported exactly."""
    found = trip.imported.tree["table"] | {"retries": trip.imported.tree["transaction"]["commit.retry.num-retries"]}
    true = {
        "manifests": trip.manifests,
        "delete_manifests": DELETE_MANIFESTS,
        "snapshots": int((trip.rows["status"] == "committed").sum()),
        "retries": trip.tree["transaction"]["retry"],
    }
    return [f"{key}: {found[key]} was found, {value} it is" for key, value in true.items() if found[key] != value]


def _observed(trip: RoundTrip, name: str) -> ObservedClass:
    """Return the imported class of an original class."""
    return next(cls for cls in trip.imported.classes if _original(cls.name) == name)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.calibrate.roundtrip", description=__doc__)
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    options = parser.parse_args()
    made = agreed = 0
    for seed in range(options.first, options.first + options.count):
        with tempfile.TemporaryDirectory() as folder:
            trip = round_trip(seed, Path(folder))
        for wrong in (*wrong_rates(trip), *wrong_periods(trip), *wrong_state(trip)):
            print(f"{seed} WRONG {wrong}", flush=True)
        for name, truth in trip.truth.items():
            for kind, found in (("reports", trip.predicted), ("none", trip.without_reports)):
                answer = found[name]
                low, high = answer.success
                good = agrees(truth, answer)
                made, agreed = made + 1, agreed + good
                data = f"truth {truth:.3f}, {answer.base.success:.3f} ({low:.3f} to {high:.3f})"
                print(f"{seed} {name} {kind}: {data} {'agrees' if good else 'OFF'}", flush=True)
    print(f"{agreed} of {made} predictions agree")


if __name__ == "__main__":
    main()
