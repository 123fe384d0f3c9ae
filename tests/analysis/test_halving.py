"""The search for the best of many settings, on objectives whose best is known."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from endive.analysis.conditions import Verdict
from endive.analysis.halving import Advantage, Cost, Dimension, Measured, Moves, Plan, advantage_of, design, tune

PLAN = Plan()
REFERENCES = (0, 1)


class Synthetic:
    """Costs that are known: that of the candidate, noise of the seed that all share, and noise of its own."""

    def __init__(self, costs: Sequence[float], trial: int, noise: float = 1.0, standing: Sequence[Verdict] | None = None) -> None:
        self.costs = costs
        self.trial = trial
        self.noise = noise
        self.condition_rank = standing
        self.runs: set[tuple[int, int]] = set()

    def __call__(self, candidate: int, seeds: Sequence[int]) -> Measured:
        found = []
        for seed in seeds:
            self.runs.add((candidate, seed))
            common = np.random.default_rng((self.trial, seed)).normal(0.0, 20.0)
            own = np.random.default_rng((self.trial, seed, candidate + 1)).normal(0.0, self.noise)
            found.append(Cost(*[self.costs[candidate] + common + own] * 2))
        verdict: Verdict = "holds" if self.condition_rank is None else self.condition_rank[candidate]
        return Measured(tuple(found), verdict, verdict == "holds")


def planted(best: int, others: float = 5.0, count: int = 26) -> list[float]:
    return [100.0 if candidate == best else 100.0 + others for candidate in range(count)]


def test_a_planted_best_is_found_and_its_advantage_is_reported() -> None:
    """The noise that seeds share is twenty times its own: without pairing nothing could be answer."""
    found = [tune(Synthetic(planted(2 + trial % 24), trial), 26, REFERENCES, PLAN) for trial in range(60)]
    assert all(each.best == 2 + trial % 24 for trial, each in enumerate(found))
    assert all(each.clear_over(0) and each.clear_over(1) for each in found)


def test_the_interval_of_the_advantage_holds_the_truth_in_95_of_100_trials() -> None:
    """The best of many is chosen, and still its advantage is not overstated: it is measured on seeds of its own."""
    inside, trials = 0, 200
    for trial in range(trials):
        costs = [100.0, 100.0, *np.random.default_rng(trial).normal(100.0, 0.3, 24)]
        found = tune(Synthetic(costs, trial), 26, REFERENCES, PLAN)
        assert found.best is not None
        if found.best == 0:
            inside += 1
            continue
        difference = found.advantages[0].difference
        assert difference is not None
        assert difference.half_width is not None
        inside += abs(difference.difference - (100.0 - costs[found.best])) <= difference.half_width
    assert inside >= 0.93 * trials


def test_equal_candidates_have_no_clear_winner() -> None:
    trials = 200
    clear = sum(tune(Synthetic([100.0] * 26, trial), 26, REFERENCES, PLAN).clear_over(0) for trial in range(trials))
    assert clear <= 0.05 * trials


def test_today_may_be_the_best() -> None:
    found = tune(Synthetic(planted(0), 3), 26, REFERENCES, PLAN)
    assert found.best == 0
    assert not found.clear_over(0)
    assert found.clear_over(1)


def test_what_surely_breaks_the_condition_does_not_win() -> None:
    standing: list[Verdict] = ["holds"] * 26
    standing[7] = "fails"
    costs = planted(7)
    costs[9] = 102.0
    assert tune(Synthetic(costs, 1, standing=standing), 26, REFERENCES, PLAN).best == 9
    assert tune(Synthetic(costs, 1, standing=["fails"] * 26), 26, REFERENCES, PLAN).best is None


def test_keeping_a_condition_that_today_breaks_is_a_clear_advantage() -> None:
    """Even where it costs more."""
    standing: list[Verdict] = ["holds"] * 26
    standing[0] = "fails"
    costs = [50.0, *planted(8)]
    found = tune(Synthetic(costs, 2, standing=standing), 26, REFERENCES, PLAN)
    assert found.best == 9
    assert found.clear_over(0)
    assert found.alone_keeps(0)
    assert not found.advantages[0].clear
    assert not found.alone_keeps(1)


def test_what_does_not_meet_the_condition_on_average_is_no_advice() -> None:
    """Even if its interval includes the threshold: no candidate of the grid is known to meet the condition."""
    standing: list[Verdict] = ["open"] * 26
    assert tune(Synthetic(planted(7), 1, standing=standing), 26, REFERENCES, PLAN).best is None
    standing[9] = "holds"
    assert tune(Synthetic(planted(7), 1, standing=standing), 26, REFERENCES, PLAN).best == 9


def test_the_current_settings_stay_if_only_they_meet_the_condition() -> None:
    """Candidates that the rounds kept may violate it with the new seeds of the final comparison."""

    def evaluate(candidate: int, seeds: Sequence[int]) -> Measured:
        is_final = seeds[0] >= PLAN.rounds[-1]
        keeps = not is_final or candidate == 0
        return Measured(tuple(Cost(*[100.0 + 9.0 * (candidate == 0)] * 2) for _ in seeds), "holds" if keeps else "open", keeps)

    assert tune(evaluate, 26, REFERENCES, PLAN).best == 0


def test_the_same_trial_has_the_same_outcome() -> None:
    costs = [100.0 + candidate % 5 for candidate in range(26)]
    assert tune(Synthetic(costs, 5), 26, REFERENCES, PLAN) == tune(Synthetic(costs, 5), 26, REFERENCES, PLAN)


@given(
    costs=st.lists(st.floats(1.0, 1e6), min_size=2, max_size=30),
    rounds=st.sampled_from([(1,), (2,), (2, 4), (2, 4, 8), (3, 9)]),
    kept=st.integers(2, 4),
    final=st.integers(2, 6),
)
def test_there_are_never_more_runs_than_were_announced(costs: list[float], rounds: tuple[int, ...], kept: int, final: int) -> None:
    plan, objective = Plan(rounds, kept, final), Synthetic(costs, 0)
    found = tune(objective, len(costs), REFERENCES, plan)
    assert len(objective.runs) <= plan.most_runs(len(costs), len(REFERENCES))
    assert set(found.finals) >= {*REFERENCES, found.best}
    assert set(found.last_round) == set(range(len(costs)))
    assert not set(plan.fresh(plan.final_seeds)) & set(range(rounds[-1]))


def test_losers_are_dropped_before_their_round_ends() -> None:
    """Surely worse than the leader: they do not get into the next round, although there would be room."""
    objective = Synthetic(planted(4, others=5_000.0, count=9), 0, noise=0.01)
    found = tune(objective, 9, REFERENCES, Plan((3, 6), 3, 4))
    assert {candidate for candidate, number in found.last_round.items() if number == 2} == {4}


class Line:
    """Settings 0 to 40 on a line, of which three are tried at first; the cost has one valley."""

    def __init__(self, valley: int, flat: int = 0) -> None:
        self.settings = [0, 20, 40]
        self.valley = valley
        self.flat = flat

    def evaluate(self, candidate: int, seeds: Sequence[int]) -> Measured:
        cost = 100.0 + max(0, abs(self.settings[candidate] - self.valley) - self.flat)
        return Measured(tuple(Cost(*[cost + seed % 3] * 2) for seed in seeds))

    def neighbours(self, candidate: int) -> list[int]:
        near = [place for step in (-2, 2) if 0 <= (place := self.settings[candidate] + step) <= 40]
        known = len(self.settings)
        self.settings += [place for place in near if place not in self.settings]
        return list(range(known, len(self.settings)))

    def simpler(self, candidate: int) -> list[int]:
        place = self.settings[candidate] - 1
        if place < 0:
            return []
        if place not in self.settings:
            self.settings.append(place)
        return [self.settings.index(place)]


def test_neighbours_lead_into_the_valley() -> None:
    line = Line(8)
    found = tune(line.evaluate, 3, (0,), Plan(refined=30), moves=Moves(line.neighbours, lambda candidate: ()))
    assert found.best is not None
    assert line.settings[found.best] == 8
    assert found.clear_over(0)


def test_a_setting_that_saves_little_is_left_out() -> None:
    line = Line(20, flat=5)
    found = tune(line.evaluate, 3, (0,), Plan(refined=30), moves=Moves(lambda candidate: (), line.simpler))
    assert found.best is not None
    assert line.settings[found.best] == 14, "the flat part, and one step that costs 1%"


@pytest.mark.parametrize("refined", [0, 1, 5, 30])
def test_refining_takes_no_more_runs_than_announced(refined: int) -> None:
    line = Line(8)
    runs: set[tuple[int, int]] = set()

    def evaluate(candidate: int, seeds: Sequence[int]) -> Measured:
        runs.update((candidate, seed) for seed in seeds)
        return line.evaluate(candidate, seeds)

    plan = Plan(refined=refined)
    tune(evaluate, 3, (0,), plan, moves=Moves(line.neighbours, line.simpler))
    assert len(runs) <= plan.most_runs(3, 1)


def test_neighbours_of_a_value() -> None:
    numbers, names = Dimension("x", choices=(1, 2, 5)), Dimension("y", choices=("a", "b", "c"))
    assert [numbers.neighbours(each) for each in (1, 2, 5)] == [[2], [1, 5], [2]]
    assert names.neighbours("b") == ["a", "c"]
    assert all(1.0 <= each <= 100.0 and each != 10.0 for each in Dimension("z", 1.0, 100.0).neighbours(10.0))


def test_a_small_grid_is_tried_as_a_whole() -> None:
    space = [Dimension("x", choices=(1, 2, 5)), Dimension("y", choices=("a", "b"))]
    assert len(design(space, 6, 0)) == 6
    assert {(point["x"], point["y"]) for point in design(space, 24, 0)} == {(x, y) for x in (1, 2, 5) for y in "ab"}


def costs(*values: float) -> Measured:
    return Measured(tuple(Cost(value, value) for value in values))


@pytest.mark.parametrize(
    ("best", "other", "wins", "clear"),
    [
        (costs(*[5.0] * 6), costs(*[math.inf] * 6), 6, True),
        (costs(*[5.0] * 5), costs(*[math.inf] * 5), 5, False),
        (costs(*[math.inf] * 6), costs(*[math.inf] * 6), 0, False),
        (costs(*[math.inf] * 6), costs(*[5.0] * 6), 0, False),
        (Measured((Cost(1.0, math.inf),) * 8), costs(*[5.0] * 8), 0, False),
    ],
)
def test_infinite_costs_are_compared_by_signs(best: Measured, other: Measured, wins: int, clear: bool) -> None:
    found = advantage_of(best, other)
    assert (found.difference, found.wins, found.clear) == (None, wins, clear)


def test_what_is_never_reached_ranks_behind_what_may_be() -> None:
    inf = math.inf
    ranked = [costs(9.0, 8.0), costs(1.0, inf), Measured((Cost(3.0, inf), Cost(2.0, inf))), costs(inf, inf)]
    assert sorted([*ranked[2:], *ranked[:2]], key=lambda each: each.order) == ranked
    assert [each.never for each in ranked] == [0, 1, 0, 2]
    assert [each.mean for each in ranked] == [8.5, None, None, None]


def test_doubt_about_the_costs_widens_the_interval() -> None:
    exact = advantage_of(costs(1.0, 2.0, 3.0), costs(4.0, 5.5, 6.0)).difference
    unsure = Measured(tuple(Cost(value - 0.5, value + 0.5) for value in (1.0, 2.0, 3.0)))
    wider = advantage_of(unsure, costs(4.0, 5.5, 6.0)).difference
    assert exact is not None
    assert wider is not None
    assert exact.half_width is not None
    assert wider.difference == pytest.approx(exact.difference)
    assert wider.half_width == pytest.approx(exact.half_width + 0.5)


def test_an_advantage_is_positive_where_the_best_costs_less() -> None:
    found = advantage_of(costs(1.0, 2.0, 3.1), costs(11.0, 12.0, 13.0))
    assert isinstance(found, Advantage)
    assert found.difference is not None
    assert found.difference.difference == pytest.approx(9.9667, abs=1e-3)
    assert found.clear
    assert not advantage_of(costs(11.0, 12.0, 13.0), costs(1.0, 2.0, 3.1)).clear


@given(low=st.floats(0.0, 1e3), width=st.floats(0.01, 1e4), position=st.floats(0.0, 1.0, exclude_max=True), whole=st.booleans())
def test_values_stay_in_their_range(low: float, width: float, position: float, whole: bool) -> None:
    if whole:
        low, width = float(round(low)), float(math.ceil(width))
    value = Dimension("x", low, low + width, whole).value(position)
    assert low <= value <= low + width
    assert isinstance(value, int) == whole


@given(key=st.integers(0, 2**32), count=st.integers(1, 60))
def test_a_design_depends_on_its_key_alone(key: int, count: int) -> None:
    space = [Dimension("a", 1.0, 100.0), Dimension("b", 0.0, 1.0), Dimension("c", choices=("x", "y", "z"))]
    assert design(space, count, key) == design(space, count, key)
    assert design(space, count, key)[: count // 2] == design(space, count // 2, key)


def test_a_design_is_spread_evenly() -> None:
    space = [Dimension(name, 0.0, 1.0) for name in "abcde"]
    for key in range(20):
        points = design(space, 24, key)
        for name in "abcde":
            counts = np.histogram([point[name] for point in points], bins=4, range=(0.0, 1.0))[0]
            assert counts.min() >= 4
