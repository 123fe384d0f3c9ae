"""Tables of metrics on disk."""

from __future__ import annotations

import pyarrow as pa

from endive.runs.tables import for_spreadsheets


def test_no_name_of_a_user_is_a_formula_of_a_spreadsheet() -> None:
    """Scenarios and profiles are called as users like, and tables are given to others."""
    names = ["=1+1", "+20 %", "-x", "@sum(A1)", "plain", "a=b", None, ""]
    table = pa.table({"scenario": names, "n": list(range(8)), "m": [-1.5] * 8})
    made = for_spreadsheets(table)
    assert made.column("scenario").to_pylist() == ["'=1+1", "'+20 %", "'-x", "'@sum(A1)", "plain", "a=b", None, ""]
    assert made.drop(["scenario"]).equals(table.drop(["scenario"]))
