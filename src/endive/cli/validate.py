"""``endive validate``: check a configuration."""

from __future__ import annotations

from endive.cli.app import JsonFlag, app, command
from endive.cli.options import ConfigArgument, SetOption, overrides_of


@app.command()
def validate(
    config: ConfigArgument,
    set_: SetOption = [],  # noqa: B006
    json: JsonFlag = False,
) -> None:
    """Check a configuration without running it, and report all problems at once."""
    with command(json) as output:
        from dataclasses import asdict

        from endive.config import compute_experiment_hash
        from endive.config.load import load_document
        from endive.config.warnings import warnings_of
        from endive.runs.identity import parameters

        document = load_document(config, overrides_of(set_))
        experiment, warnings = compute_experiment_hash(document), warnings_of(document)
        result = {"valid": True, "experiment_hash": experiment, "parameters": parameters(document)}
        output.result({**result, "warnings": [asdict(each) for each in warnings]})
        output.text(f"{config}: valid, experiment {experiment}")
        output.text(*(f"warning: {warning}" for warning in warnings))
