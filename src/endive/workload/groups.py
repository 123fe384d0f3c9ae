"""Table groups: sets of tables that share one commit pointer or one log of the catalog."""

from __future__ import annotations

from typing import Literal

from endive.arithmetic.draws import derive
from endive.randomness import Purpose, Stream, run_key

GroupSizes = Literal["uniform", "longtail"]
_LONG_TAIL_ALPHA = 1.0


def assign_groups(num_tables: int, num_groups: int, sizes: GroupSizes, seed: int) -> tuple[int, ...]:
    """Assign each table to a group; ``sizes`` determines the group sizes, ``seed`` the members.

    Sizes of ``uniform`` groups differ by at most one table; sizes of ``longtail`` groups are proportional to 1/rank, at least 1.
    """
    if not 1 <= num_groups <= num_tables:
        raise ValueError(f"num_groups is {num_groups}, but must be from 1 to {num_tables}, the number of tables")
    if num_groups == num_tables:
        return tuple(range(num_tables))
    tables = list(range(num_tables))
    Stream(derive(run_key(seed), Purpose.GROUPS)).shuffle(tables)
    groups = [0] * num_tables
    position = 0
    for group, size in enumerate(group_sizes(num_tables, num_groups, sizes)):
        for table in tables[position : position + size]:
            groups[table] = group
        position += size
    return tuple(groups)


def group_sizes(num_tables: int, num_groups: int, sizes: GroupSizes) -> list[int]:
    """Return the number of tables of each group, the largest first."""
    weights = [1.0 if sizes == "uniform" else 1.0 / rank**_LONG_TAIL_ALPHA for rank in range(1, num_groups + 1)]
    spare = num_tables - num_groups
    total = sum(weights)
    exact = [spare * weight / total for weight in weights]
    result = [1 + int(share) for share in exact]
    by_remainder = sorted(range(num_groups), key=lambda g: (int(exact[g]) - exact[g], g))
    for group in by_remainder[: num_tables - sum(result)]:
        result[group] += 1
    return result
