"""``endive probe`` and ``calibrate``: measure latencies and fit a profile to measurements."""

from __future__ import annotations

import csv
import io
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from endive.cli.app import JsonFlag, app, command
from endive.cli.options import output_option
from endive.cli.output import Output

if TYPE_CHECKING:
    from collections.abc import Sequence

    from endive.calibrate.fit import Fit
    from endive.calibrate.probe import Probe
    from endive.storage import StorageProfile


@app.command()
def calibrate(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE", help="Files of measured latencies (CSV, Parquet or JSON lines).", show_default=False),
    ],
    out: Annotated[Path, output_option("Latency profile to write (TOML).", "FILE")] = Path("store.toml"),
    operation: Annotated[
        str | None, typer.Option(metavar="NAME", help="Operation of all rows, for files without an operation column.")
    ] = None,
    operation_column: Annotated[str | None, typer.Option(metavar="NAME", help="Operation column. Default: inferred.")] = None,
    latency: Annotated[str | None, typer.Option(metavar="NAME", help="Latency column. Default: inferred.")] = None,
    bytes_: Annotated[str | None, typer.Option("--bytes", metavar="NAME", help="Size column, in bytes. Default: inferred.")] = None,
    status: Annotated[
        str | None, typer.Option(metavar="NAME", help="Status column; status 412 is a rejected write. Default: inferred.")
    ] = None,
    unit: Annotated[
        str | None, typer.Option(metavar="UNIT", help="Unit of latencies: ns, us, ms, s. Default: from the column's name.")
    ] = None,
    rename: Annotated[list[str], typer.Option(metavar="NAME=OPERATION", help="Map a name in the files to an operation.")] = [],  # noqa: B006
    base: Annotated[
        str | None,
        typer.Option(metavar="PROVIDER", help="Provider whose latencies are used for operations without measurements."),
    ] = None,
    figure: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="File for the figure of the fit (.svg or .png). Default: in the directory of the profile."
        ),
    ] = None,
    no_figure: Annotated[bool, typer.Option("--no-figure", help="Do not draw the figure.")] = False,
    json: JsonFlag = False,
) -> None:
    """Fit latency distributions to measurements and write a profile for `storage.provider`, with a figure of the fit."""
    with command(json) as output:
        from endive.calibrate.fit import fit_sample
        from endive.calibrate.measurements import read_measurements
        from endive.calibrate.profile import profile_text
        from endive.output_files import write_text

        given = {"operation": operation_column, "latency": latency, "size": bytes_, "status": status, "unit": unit}
        measured = read_measurements(files, columns=given, operation=operation, renamed=_renamed(rename))
        output.note(*measured.notes)
        fits = [fit_sample(sample) for sample in measured.samples]
        stand_in = _base(base)
        source = f"fitted by endive calibrate to {', '.join(path.name for path in files)}"
        text = profile_text(fits, out.stem, base=stand_in, source=source, notes=measured.notes)
        write_text(out, text)
        drawn = None if no_figure else figure or out.with_suffix(".svg")
        if drawn is not None:
            from endive.report.charts import save_fit_chart

            save_fit_chart(fits, drawn)
        written = {"profile": str(out), "figure": None if drawn is None else str(drawn)}
        output.result({**written, **show_fits(output, fits, stand_in), "notes": list(measured.notes)})
        output.text(
            f"\nwrote {out}{'' if drawn is None else f' and {drawn}'}; to use the profile, add --set storage.provider={out}"
        )


def show_fits(output: Output, fits: Sequence[Fit], base: StorageProfile | None) -> dict[str, Any]:
    """Print fits, warnings and assumptions, and return them as data."""
    from endive.calibrate.profile import assumptions, describe
    from endive.formatting import format_duration, join_ends

    def interval(each: dict[str, Any]) -> str:
        found = each["interval_95"]["p99_ms"]
        return join_ends(*map(format_duration, found)) if found else "too few values"

    summaries = [describe(fit) for fit in fits]
    assumed = assumptions([fit.sample.operation for fit in fits], base)
    header = ("operation", "values", "distribution", "p50", "fitted", "p99", "fitted", "95% CI of p99", "slowest", "per MiB")
    rows = [
        (
            each["operation"],
            f"{each['values']:,}",
            each["family"],
            *(
                format_duration(each[source][percentile])
                for percentile in ("p50_ms", "p99_ms")
                for source in ("measured", "fitted")
            ),
            interval(each),
            format_duration(each["measured"]["max_ms"]),
            format_duration(each["per_mib_ms"]) if each["per_mib_ms"] else "-",
        )
        for each in summaries
    ]
    output.table("Fitted latencies (of an empty object if the latency depends on the size)", header, rows)
    output.text(*(f"uncertain: {each['operation']}: {warning}" for each in summaries for warning in each["warnings"]))
    output.text(*(f"assumed: {name}: {why}" for name, why in assumed.items()))
    return {"fits": summaries, "assumed": assumed}


def _renamed(texts: list[str]) -> dict[str, str]:
    from endive.calibrate import InputError

    pairs = [text.partition("=") for text in texts]
    for name, sign, operation in pairs:
        if not sign or not name or not operation:
            raise InputError(f"--rename {name} must be NAME=OPERATION, such as GetObject=read")
    return {name: operation for name, _, operation in pairs}


def _base(name: str | None) -> StorageProfile | None:
    from endive.calibrate import InputError
    from endive.storage import builtin_profiles, load_profile

    if name is None:
        return None
    if name.endswith(".toml"):
        return load_profile(Path(name))
    if name not in builtin_profiles():
        raise InputError(f"--base {name}: unknown provider; allowed: {', '.join(builtin_profiles())}")
    return builtin_profiles()[name]


@app.command()
def probe(
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET", help="Object store (s3://, gs://, az:// or a directory) or PyIceberg catalog.", show_default=False
        ),
    ],
    out: Annotated[Path, output_option("Latency profile to write (TOML).", "FILE")] = Path("store.toml"),
    count: Annotated[
        int, typer.Option(metavar="N", min=1, max=100_000, help="Number of rounds. Each round sends one request of each kind.")
    ] = 100,
    seconds: Annotated[float, typer.Option(metavar="S", min=1.0, max=3600.0, help="Time limit.")] = 60.0,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Write without confirmation.")] = False,
    json: JsonFlag = False,
) -> None:
    """Measure an object store or a catalog, write a latency profile and the measurements, and delete all test objects."""
    with command(json) as output:
        from endive.calibrate import InputError
        from endive.calibrate.fit import fit_sample
        from endive.calibrate.probe import open_target, run_probe
        from endive.calibrate.profile import profile_text
        from endive.output_files import write_text

        opened = open_target(target)
        output.note(f"endive probe {opened.name}:", *(f"- {line}" for line in opened.plan(count)))
        output.note(f"- stops after at most {seconds:g} s")
        if not yes:
            if json or not sys.stdin.isatty():
                raise InputError(f"{opened.name}: nothing was written; pass --yes to measure without confirmation")
            typer.confirm("Continue?", abort=True)
        measured = run_probe(opened, count, seconds)
        if not measured.measurements:
            raise InputError(f"{opened.name}: no request completed within {seconds:g} s")
        fits = [fit_sample(sample) for sample in measured.samples()]
        raw = out.with_suffix(".measurements.csv")
        write_text(raw, _csv(measured))
        source = f"measured by endive probe of {opened.name}"
        write_text(out, profile_text(fits, out.stem, source=source, notes=[measured.stopped] if measured.stopped else []))
        output.note(measured.stopped or None)
        fitted = show_fits(output, fits, None)
        output.result({"profile": str(out), "measurements": str(raw), **fitted, "stopped": measured.stopped})
        output.text(f"\nwrote {out} and {raw}; use the profile with --set storage.provider={out} or catalog.provider")


def _csv(measured: Probe) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("operation", "bytes", "latency_ms"))
    writer.writerows((each.operation, each.size_bytes, f"{each.latency_ms:.4f}") for each in measured.measurements)
    return text.getvalue()
