"""``endive probe``: measure an object store or a catalog."""

from __future__ import annotations

import csv
import io
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from endive.cli.app import JsonFlag, app, command
from endive.cli.calibrate import show_fits
from endive.cli.options import output_option

if TYPE_CHECKING:
    from endive.calibrate.probe import Probe


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
        output.text(f"\nwrote {out} and {raw}; use it with --set storage.provider={out}, or catalog.provider for a catalog")


def _csv(measured: Probe) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("operation", "bytes", "latency_ms"))
    writer.writerows((each.operation, each.size_bytes, f"{each.latency_ms:.4f}") for each in measured.measurements)
    return text.getvalue()
