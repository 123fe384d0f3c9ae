"""A catalog on SQLite whose loads and commits take longer, on a clock of their own."""

from __future__ import annotations

from typing import Any

from pyiceberg.catalog.sql import SqlCatalog

from tests.calibrate.clock import CLOCK

LOAD_S, COMMIT_S = 0.2, 0.3


class SlowCatalog(SqlCatalog):
    """SQLite, with a wait before each answer."""

    def load_table(self, identifier: Any) -> Any:
        """Wait, and load."""
        CLOCK.sleep(LOAD_S)
        return super().load_table(identifier)

    def commit_table(self, table: Any, requirements: Any, updates: Any) -> Any:
        """Wait, and commit."""
        CLOCK.sleep(COMMIT_S)
        return super().commit_table(table, requirements, updates)
