"""Options that the commands of the pipeline share."""

from __future__ import annotations

from typing import Annotated

import typer

MasterOption = Annotated[
    str | None, typer.Option("--master", help="Spark master: local[N], spark://HOST:PORT, yarn, k8s://... Default: all cores here.")
]
RemoteOption = Annotated[str | None, typer.Option("--remote", help="Spark Connect server: sc://HOST:PORT.")]
ShipOption = Annotated[bool, typer.Option("--ship-code", help="Send the package to executors that do not have it.")]
