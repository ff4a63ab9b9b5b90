"""Learning a surrogate model: which rows the model is asked about, most of them where a search on it goes."""

import numpy as np

from relax_plugin.arrays import Array, Integers, Values
from relax_plugin.blackbox import Answer, BlackBox, answered
from relax_plugin.features import FeatureSpace
from relax_plugin.goal import BoundGoal, Goal
from relax_plugin.problem import Problem
from relax_plugin.search.goals import random_goals
from relax_plugin.search.moves import Moves
from relax_plugin.surrogate.acquisition import CELLS, LEARN_VALUES, SurrogateSearch, predicted_answers
from relax_plugin.surrogate.model import FOREMOST, LEAST_ERROR, SurrogateModel

QUANTILES = 5  # values of each number that are moved to; the outer two are its bounds
TO_A_BOUND = 0.5  # share of moves of numbers that go to a bound, as most of the agent's do
KEPT = (0.3, 0.9)  # from which to which share of its features a row keeps when it is crossed
MOVES = (0.2, 0.4, 0.25, 0.15)  # shares of rows in which 0, 1, 2, 3 features are moved
CROSSED = 0.5  # share of the others that cross a row of one class with any row
ACTIVE = 0.6  # share of the rows that are asked where the search goes,
ROUNDS = 2  # in so many rounds, each with what was learned before it
FIRST = 0.4  # share of the effort of fitting that is spent before the first of them
EACH = 2  # candidates of one start that the model is asked about; more in wide tables, which have fewer starts,
LEAST_STARTS = 8  # but so many
CURIOSITY = 0.5  # how far chance decides which proposal is asked about


def fit_surrogate(
    blackbox: BlackBox,
    values: Values,
    known: tuple[Values, Answer],
    rows: int,
    goal: Goal | None,
    max_changes: int,
    rng: np.random.Generator,
) -> SurrogateModel:
    """A surrogate model fitted to what is known of the model and to at most `rows` further model rows.

    The first ones are training rows, moved as a search moves them or crossed. For the others (`ACTIVE`) the search
    is run on the surrogate model from training rows, and the model is asked about what it would propose.
    """
    space = blackbox.space
    assert space is not None
    seen, answer = known
    left = rows // blackbox.rows_per_question
    active = int(left * ACTIVE)
    world = SurrogateModel(blackbox, values, int(rng.integers(2**31)))
    crossed, moves = int((left - active) * CROSSED), Moves.quantiles(values, space, QUANTILES)
    fresh = moved(values[rng.integers(0, len(values), left - active - crossed)], space, moves, rng)
    fresh, told = answered(blackbox, fresh)
    seen, answer = np.concatenate([seen, fresh]), Answer.joined(answer, told)
    between, told = answered(blackbox, crossings(seen, answer.output, space, crossed, rng))
    seen, answer = np.concatenate([seen, between]), Answer.joined(answer, told)
    world.fit(seen, answer, FIRST)
    world.error = max(CURIOSITY * float(world.targets.of(answer).std()), LEAST_ERROR)
    for part in np.array_split(np.arange(active), ROUNDS):
        proposed, goals = _proposed(world, values, goal, max_changes, len(part), moves, rng)
        told = blackbox.ask(proposed, mark_refused=True)
        if told.refused is not None:
            kept = told.answered
            proposed, goals, told = proposed[kept], goals.take(kept), told.take(kept)
        if len(proposed):
            world.judge(proposed, told, goals)
        seen, answer = np.concatenate([seen, proposed]), Answer.joined(answer, told)
        world.fit(seen, answer, (1.0 - FIRST) / ROUNDS)
    return world


def _proposed(
    surrogate: SurrogateModel,
    values: Values,
    goal: Goal | None,
    max_changes: int,
    count: int,
    moves: Moves,
    rng: np.random.Generator,
) -> tuple[Values, BoundGoal]:
    """What a search on the surrogate would ask first, from random training rows, and for which goals.

    Some chance keeps it curious.
    """
    features = len(surrogate.space)
    compared = min(features, FOREMOST) * LEARN_VALUES * features  # cells of the rows that the search asks of one start
    starts = min(-(-count // EACH), max(LEAST_STARTS, CELLS // compared))
    start = values[rng.integers(0, len(values), starts)]
    before = surrogate.targets.answer(surrogate.predict(start))
    goals = random_goals(goal, surrogate.blackbox, before, rng)
    spent, limits = np.zeros(len(start), dtype=np.int64), surrogate.space.limits(values=start)
    problem = Problem(surrogate.space, surrogate.blackbox, start, before, goals, limits, max_changes, spent)
    search = SurrogateSearch(surrogate, moves, predicted_answers(surrogate, values), 0)
    rows, owner = search.proposals(
        problem,
        -(-count // max(starts, 1)),
        lambda worth: np.log(worth + 1e-12) + CURIOSITY * rng.gumbel(size=len(worth)),
    )
    rows, owner = rows[:count], owner[:count]
    others = rng.integers(0, len(start), count - len(rows))  # few queries have no candidate: they are asked themselves
    return np.concatenate([rows, start[others]]), goals.take(np.concatenate([owner, others]))


def moved(rows: Values, space: FeatureSpace, moves: Moves, rng: np.random.Generator) -> Values:
    """The rows with up to three random features of each at another value, within what is allowed."""
    limits = space.limits(values=rows)
    low, high = limits.span(rows)
    count = rng.choice(len(MOVES), len(rows), p=MOVES)
    order = (rng.random(rows.shape) + limits.frozen).argsort(axis=1)[:, : len(MOVES) - 1]  # what may move comes first
    row, turn = np.nonzero(np.arange(order.shape[1]) < count[:, None])
    feature = order[row, turn]
    able = np.isin(feature, moves.feature)  # a column that is carried has no moves
    row, feature = row[able], feature[able]
    value = moves.value[_random_move(moves, feature, rng)]
    to_bound = ~space.is_categorical[feature] & (rng.random(len(row)) < TO_A_BOUND)
    value = np.where(to_bound, np.where(rng.random(len(row)) < 0.5, -np.inf, np.inf), value)
    result = rows.copy()
    inside = np.clip(value, low[row, feature], high[row, feature])
    result[row, feature] = np.where(value == space.missing_codes[feature], value, inside)
    return limits.project(result, rows)


def _random_move(moves: Moves, feature: Integers, rng: np.random.Generator) -> Integers:
    """For each feature the position of one of its moves; of one that has none, since it never changes, any."""
    first = np.searchsorted(moves.feature, feature, side="left").clip(max=len(moves.feature) - 1)
    last = np.searchsorted(moves.feature, feature, side="right")
    return np.asarray(rng.integers(first, np.maximum(last, first + 1)))


def crossings(rows: Values, output: Array, space: FeatureSpace, count: int, rng: np.random.Generator) -> Values:
    """Rows that take each feature from one row or from another, the first drawn so that all classes are as frequent.

    They tell what makes a rare class, which hardly any other row would show. Of a regressor every row is a class.
    """
    _, code, frequency = np.unique(output, return_inverse=True, return_counts=True)
    weight = 1.0 / frequency[code]
    one = rng.choice(len(rows), count, p=weight / weight.sum())
    other = rng.integers(0, len(rows), count)
    kept = rng.random((count, rows.shape[1])) < rng.uniform(*KEPT, (count, 1))
    return space.limits(values=rows[other]).project(np.where(kept, rows[one], rows[other]), rows[other])
