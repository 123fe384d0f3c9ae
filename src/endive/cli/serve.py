"""``endive serve``: the live page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from endive.cli.app import JsonFlag, app, command, refuse
from endive.cli.options import AllowCodeOption


@app.command()
def serve(
    config: Annotated[Path | None, typer.Argument(metavar="FILE", help="Initial configuration of the page.")] = None,
    port: Annotated[int, typer.Option(metavar="N", help="Port on 127.0.0.1; 0: any free port.", min=0, max=65535)] = 0,
    open_: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in a browser.")] = True,
    workers: Annotated[
        int | None, typer.Option(metavar="N", help="Worker processes. Default: the number of cores, at most 4.", min=1)
    ] = None,
    allow_code: AllowCodeOption = False,
    json: JsonFlag = False,
) -> None:
    """Serve a live page that simulates while you change settings.

    The server listens on 127.0.0.1 only. Its address contains a token; anyone who has the address can run simulations and save
    studies in this directory. With --allow-code, every change loads and runs the custom code of FILE. Press Ctrl-C to stop
    the server.
    """
    with command(json) as output:
        from endive.cli.examples import examples_folder
        from endive.serve.page_configuration import Presets
        from endive.serve.server import serving

        if allow_code and config is None:
            refuse("--allow-code", "needs a FILE with custom code ([parts])")
        presets = Presets(config, Path.cwd(), examples_folder(), code=allow_code)
        with serving(presets, Path.cwd(), port=port, workers=workers) as (server, address):
            output.result({"address": address.whole, "port": address.port})
            output.text(f"Live page: {address.whole}")
            output.note("reachable from this machine only; press Ctrl-C to stop")
            if open_:
                typer.launch(address.whole)
            server.run()
