"""Arguments and options that several commands share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from endive.cli.app import refuse

if TYPE_CHECKING:
    from endive.analysis.conditions import Subject
    from endive.config.study import Precision
    from endive.storage.prices import Prices

WINDOW, SPARK = "Measurement window", "Spark"
"""Headings of options in the help."""
ROOT = Path("experiments")


def output_option(help: str, metavar: str = "DIR") -> Any:
    """Return the option ``-o/--output``; ``--out`` is a hidden alias."""
    return typer.Option("--output", "-o", "--out", metavar=metavar, help=help)


def _allow(allowed: bool) -> bool:
    if allowed:
        from endive.config.components import allow_code

        allow_code()
    return allowed


AllowCodeOption = Annotated[
    bool,
    typer.Option("--allow-code", callback=_allow, help="Allow custom code ([parts]), which runs with your permissions."),
]
ConfigArgument = Annotated[Path, typer.Argument(metavar="FILE", help="Configuration (TOML).", show_default=False)]
SetOption = Annotated[list[str], typer.Option("--set", metavar="KEY=VALUE", help="Override a key of the file.")]
RootArgument = Annotated[Path, typer.Argument(metavar="DIR", help="Directory of experiments.")]
SeedsOption = Annotated[str | None, typer.Option("--seeds", metavar="N|A-B", help="Seeds: 5 for 0 to 4, or a range such as 0-4.")]
PrecisionOption = Annotated[
    str | None,
    typer.Option(
        "--precision",
        metavar="1%|0.5pp",
        help="Add seeds until the half width of the 95% intervals is at most this value, such as 1% (of the "
        "mean; 1 pp for proportions) or 0.5pp. Replaces --seeds.",
    ),
]
MaxSeedsOption = Annotated[
    int | None,
    typer.Option("--max-seeds", metavar="N", help="Maximum number of seeds with --precision. Default: 100.", min=2, max=100_000),
]
PreciseForOption = Annotated[
    list[str],
    typer.Option(
        "--for", metavar="METRIC", help='Metric of --precision, such as "p99(ingest)"; may be repeated. Default: success and p95.'
    ),
]
RowsOption = Annotated[
    str | None,
    typer.Option(
        "--rows",
        metavar="all|sample|none",
        help="Rows to keep. Default: the value of rows under [sweep]; otherwise all rows if they take at most 20 GiB, and a sample "
        "if they take more.",
    ),
]
FailIfOption = Annotated[
    list[str],
    typer.Option("--fail-if", metavar="CONDITION", help='Exit with 3 if the condition is met, such as "success < 99%".'),
]
JunitOption = Annotated[
    Path | None, typer.Option("--junit", metavar="FILE", help="Write the outcomes of the --fail-if conditions as JUnit XML.")
]
PricesOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Prices of requests (TOML) instead of list prices; see docs/explanation/cost.md."),
]
LoadOption = Annotated[
    str | None, typer.Option(metavar="KEY", help="Parameter on the load axis. Default: the arrival rate that varies.")
]

WarmupOption = Annotated[
    float | None,
    typer.Option(
        metavar="MS",
        help="Warm-up period, excluded from all metrics. Default: at least until commits start at 95% of the arrival rate, and "
        "then determined by MSER-5.",
        min=0.0,
        rich_help_panel=WINDOW,
    ),
]
_COOLDOWN = typer.Option(
    metavar="MS", help="Cool-down period at the end of the run, excluded from all metrics.", min=0.0, rich_help_panel=WINDOW
)
CooldownOption = Annotated[float, _COOLDOWN]
OptionalCooldownOption = Annotated[float | None, _COOLDOWN]

MasterOption = Annotated[
    str | None,
    typer.Option(
        "--master",
        metavar="URL",
        help="Spark master: local[N], spark://HOST:PORT, yarn, k8s://... Default: all cores of this machine.",
        rich_help_panel=SPARK,
    ),
]
RemoteOption = Annotated[
    str | None, typer.Option("--remote", metavar="URL", help="Spark Connect server: sc://HOST:PORT.", rich_help_panel=SPARK)
]
ShipOption = Annotated[
    bool, typer.Option("--ship-code", help="Send the code of Endive to executors that do not have it.", rich_help_panel=SPARK)
]
CodeVersionOption = Annotated[
    str | None,
    typer.Option(
        "--code-version", metavar="VERSION", help="Code version whose results are used, if there are results of several versions."
    ),
]
DryRunFlag = Annotated[bool, typer.Option("--dry-run", help="Print the plan and its estimated cost without running it.")]
ForceFlag = Annotated[bool, typer.Option("--force", help="Replace an existing file.")]


def check_new(path: Path, force: bool) -> None:
    """Raise ConfigError if a file exists and must not be replaced."""
    if path.is_file() and not force:
        refuse(str(path), "already exists; use --force to replace it")


def check_junit(path: Path | None, conditions: Sequence[str]) -> None:
    """Raise ConfigError if there is nothing to report as JUnit XML."""
    if path is not None and not conditions:
        refuse("--junit", "needs a condition (--fail-if)")


def overrides_of(assignments: Iterable[str]) -> dict[str, Any]:
    """Return the values of ``--set`` by key. Raises ConfigError if one is not an assignment."""
    from endive.config.load import parse_assignment

    return dict(parse_assignment(text) for text in assignments)


def prices_of(path: Path | None) -> Prices:
    """Return the list prices, or those of a file. Raises ConfigError if the file is invalid."""
    from endive.storage.prices import PriceError, load_prices

    try:
        return load_prices(path)
    except PriceError as error:
        refuse("--prices", str(error))


def seed_count(seeds: str | None) -> int | None:
    """Return the number of seeds of a search, at least 2, which start at 0. Raises ConfigError."""
    if seeds is None:
        return None
    from endive.config.study import parse_seeds

    parsed = parse_seeds(seeds)
    if parsed[0] != 0 or len(parsed) < 2:
        refuse("--seeds", f"{seeds!r} is not a range from 0 of at least 2 seeds, such as 2 or 0-1")
    return len(parsed)


def precise_subjects(metrics: Sequence[str], others: Sequence[Subject], precision: Precision | None) -> tuple[Subject, ...]:
    """Return the metrics of ``--for``; by default the given metrics, or else success and p95. Raises ConfigError."""
    from endive.analysis.conditions import parse_subject
    from endive.analysis.replication_rule import choose_subjects

    asked = [parse_subject(text, "--for") for text in metrics]
    return () if precision is None else choose_subjects(asked or others, precision, "--precision")
