"""What the attempts of commits that succeeded tell of those that did not."""

from __future__ import annotations

import numpy as np
import pytest

from endive.calibrate.observed_classes import estimate_failing_share

MOST = 5


def attempts_of_successes(lost: float, operations: int, seed: int = 1) -> list[int]:
    """The attempts of those of so many operations that were done within the most."""
    needed = np.random.default_rng(seed).geometric(1.0 - lost, operations)
    return [int(each) for each in needed if each <= MOST]


@pytest.mark.parametrize("lost", [0.05, 0.3, 0.6, 0.8])
def test_many_reports_give_the_share_of_failures(lost: float) -> None:
    assert estimate_failing_share(attempts_of_successes(lost, 50_000), MOST) == pytest.approx(lost**MOST, rel=0.06, abs=1e-4)


def test_a_dozen_reports_do_not_prove_a_high_share_of_failures() -> None:
    """The likeliest probability of losing is 1 here; three of fifteen that failed would leave such a dozen, too."""
    share = estimate_failing_share([1, 2, 2, 3, 3, 3, 3, 3, 4, 4, 5, 5], MOST)
    assert 0.2 < share < 0.7


def test_on_average_the_share_is_right_when_any_probability_is_as_likely() -> None:
    generator = np.random.default_rng(7)
    chances = generator.uniform(0.0, 1.0, 4_000)
    needed = [generator.geometric(1.0 - lost, 400) for lost in chances]
    answer = [estimate_failing_share([int(n) for n in each if n <= MOST][:12], MOST) for each in needed]
    assert np.mean(answer) == pytest.approx(np.mean(chances**MOST), abs=0.01)


def test_no_reports_give_no_share() -> None:
    assert estimate_failing_share([], MOST) == 0.0
