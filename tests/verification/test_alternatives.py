"""The comparison of many alternatives on small runs: a trial without a false alarm, and one in which a difference is found.

``make verify`` makes two hundred of each; a cheap form on drawn numbers is in ``tests/analysis/test_multiple.py``.
"""

from __future__ import annotations

from verification.statistics.alternatives import METRICS, answer, trial


def test_equal_alternatives_are_not_distinguished_and_a_planted_one_is() -> None:
    assert answer(trial(0, METRICS, planted=False, alternatives=3)) == set()
    found = trial(0, METRICS[:1], planted=True, alternatives=3)
    assert answer(found) == {"1"}
    assert found.rankings[0].sides[0].name == "1"
