"""What commands share that take files, tables and stores of the user's own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from endive.cli.app import fail
from endive.cli.output import Output


@contextmanager
def input_errors(output: Output) -> Iterator[None]:
    """Turn an input that cannot be used into its sentence and exit code 2."""
    from endive.calibrate.errors import InputError
    from endive.storage.profiles import ProfileError

    try:
        yield
    except (InputError, ProfileError) as error:
        fail(output, str(error))
