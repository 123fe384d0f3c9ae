"""``endive replay``: replay a table's history with the original and with changed settings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from endive.cli import import_
from endive.cli.app import JsonFlag, app, command
from endive.cli.import_ import CatalogOption, ClientOption, ReportsOption, TableArgument, answer_data
from endive.cli.options import ForceFlag, check_new, output_option, overrides_of


@app.command()
def replay(
    table: TableArgument,
    out: Annotated[Path, output_option("Configuration to write.", "FILE")] = Path("replay.toml"),
    force: ForceFlag = False,
    set_: Annotated[list[str], typer.Option("--set", metavar="KEY=VALUE", help="Setting to change in the second replay.")] = [],  # noqa: B006
    catalog: CatalogOption = None,
    reports: ReportsOption = None,
    provider: Annotated[str | None, typer.Option(metavar="NAME", help="Object store of the table. Default: s3 (assumed).")] = None,
    client: ClientOption = None,
    json: JsonFlag = False,
) -> None:
    """Replay a table's commits at their original times, with the original settings and with changed settings."""
    with command(json) as output:
        from endive.calibrate.answers import answers
        from endive.calibrate.table_import import make_trace
        from endive.config.load import load_document
        from endive.output_files import check_writable, write_text

        changes = overrides_of(set_)
        check_new(out, force)
        check_writable(out.parent)
        imported, found = import_.read_table(table, catalog, reports, provider, client)
        made, traces = make_trace(imported, out, found)
        for path, text in traces.items():
            write_text(path, text)
        written, _ = import_.write_imported(made, out, found)
        load_document(out, changes)
        output.note(*(f"{each.about}: {each.assumed}" for each in made.assumptions))
        was = answers(out, made.assumptions)
        import_.show_answers(output, f"{table}, original settings", was)
        result: dict[str, Any] = {
            "configuration": str(out),
            "written": [str(path) for path in (*written, *traces)],
            "as_it_was": [answer_data(each) for each in was],
            "assumptions": [{"about": each.about, "assumed": each.assumed} for each in made.assumptions],
        }
        if changes:
            other = answers(out, made.assumptions, changes)
            import_.show_answers(output, f"\nWith {', '.join(set_)}", other)
            result["changes"] = changes
            result["with_changes"] = [answer_data(each) for each in other]
        output.result(result)
        output.text(f"\nwrote {', '.join(str(path) for path in (*written, *traces))}")
