"""``endive schema``: the JSON Schema of configuration files."""

from __future__ import annotations

import json as json_module

from endive.cli.app import JsonFlag, app


@app.command()
def schema(json: JsonFlag = True) -> None:
    """Print the JSON Schema of configuration files, for editors that validate and complete TOML."""
    from endive.config import json_schema

    print(json_module.dumps(json_schema(), indent=2))
