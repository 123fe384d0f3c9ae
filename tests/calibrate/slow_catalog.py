"""SQLite catalog with slow loads and commits, on a simulated clock."""

from __future__ import annotations

from typing import Any

from pyiceberg.catalog.sql import SqlCatalog

from tests.calibrate.clock import CLOCK

LOAD_S, COMMIT_S = 0.2, 0.3


class SlowCatalog(SqlCatalog):
    """SQLite catalog that waits before each response."""

    def load_table(self, identifier: Any) -> Any:
        """Wait, then load the table."""
        CLOCK.sleep(LOAD_S)
        return super().load_table(identifier)

    def commit_table(self, table: Any, requirements: Any, updates: Any) -> Any:
        """Wait, then commit."""
        CLOCK.sleep(COMMIT_S)
        return super().commit_table(table, requirements, updates)
