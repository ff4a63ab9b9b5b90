"""Learning a world model: which rows the model is asked about, most of them where a search in imagination goes."""

from dataclasses import replace

import numpy as np

from relax_plugin.arrays import Values
from relax_plugin.blackbox import Answer, BlackBox
from relax_plugin.errors import GoalError
from relax_plugin.goal import BoundGoal, Goal
from relax_plugin.problem import Problem
from relax_plugin.search.greedy import Moves
from relax_plugin.wishes.objective import CLOSEST, SPARSE
from relax_plugin.world_model.belief import expected_improvement
from relax_plugin.world_model.model import LEAST_ERROR, WorldModel
from relax_plugin.world_model.proposals import VALUES, Imagination
from relax_plugin.world_model.sampling import QUANTILES, Mixing, crossings, mixtures, moved

ENOUGH = 0.0  # share of variance explained where a search goes, from which on a world model is good enough
BETTER_THAN_CHANCE = 1.1  # times as many equal labels there as by guessing, in the worst class, from which on it is
CROSSED = 0.5  # share of the others that cross a row of one class with any row
TOLD_LABELS = 0.9  # share of a model's labels that its scores must tell for an agent to be trained in imagination
ACTIVE = 0.6  # share of the rows that are asked where the search goes,
ROUNDS = 2  # in so many rounds, each with what was learned before it
FIRST = 0.4  # share of the effort of fitting that is spent before the first of them
SURE = 0.5  # errors beyond the goal at which a proposal needs no further changes: here many are looked for
CURIOSITY = 0.5  # how far chance decides which proposal is asked about


def imagine(
    blackbox: BlackBox,
    values: Values,
    known: tuple[Values, Answer],
    rows: int,
    goal: Goal,
    max_changes: int,
    mixing: Mixing,
    rng: np.random.Generator,
) -> WorldModel:
    """A world model fitted to what is known of the model and to at most `rows` further model rows.

    The first ones are rows like the training rows, moved as a search moves them. For the others (`ACTIVE`) the search
    is run in imagination from training rows, and the model is asked about what it would propose.
    """
    space = blackbox.space
    assert space is not None
    seen, answer = known
    left = rows // blackbox.rows_per_question
    active = int(left * ACTIVE)
    world = WorldModel(blackbox, values, int(rng.integers(2**31)))
    moves = Moves.quantiles(values, space, QUANTILES)
    crossed = int((left - active) * CROSSED)
    fresh = moved(mixtures(values, space, mixing, rng, left - active - crossed), space, moves, rng)
    seen, answer = np.concatenate([seen, fresh]), Answer.joined(answer, blackbox.ask(fresh))
    between = crossings(seen, answer.output, space, crossed, rng)
    seen, answer = np.concatenate([seen, between]), Answer.joined(answer, blackbox.ask(between))
    world.fit(seen, answer, FIRST)
    within = Moves(moves.feature, np.clip(moves.value, *(end[0][moves.feature] for end in space.limits().ends)))
    world.weigh_features(fresh, within)
    world.error = max(CURIOSITY * float(world.targets.of(answer).std()), LEAST_ERROR)
    for part in np.array_split(np.arange(active), ROUNDS):
        proposed, goals = _proposed(world, values, goal, max_changes, len(part), rng)
        told = blackbox.ask(proposed)
        if len(part):
            world.judge(proposed, told, goals)
        seen, answer = np.concatenate([seen, proposed]), Answer.joined(answer, told)
        world.fit(seen, answer, (1.0 - FIRST) / ROUNDS)
        world.weigh_features(proposed, within)
    return world


def good_enough(world: WorldModel) -> bool:
    """Whether a world model agrees with the model well enough, in its worst class too, to train an agent in it."""
    classes = world.blackbox.classes
    by_chance = 0.0 if classes is None else 1.0 / len(classes)
    return world.agreement.explained >= ENOUGH and not world.agreement.worst < BETTER_THAN_CHANCE * by_chance


def scores_tell_labels(world: WorldModel, answer: Answer) -> bool:
    """Whether a world model that knew all scores could know the labels: not if `predict` has a threshold of its own."""
    if world.blackbox.task == "regression":
        return True
    told = world.targets.answer(world.targets.of(answer))
    return float((told.output == answer.output).mean()) >= TOLD_LABELS


def _proposed(
    world: WorldModel, values: Values, goal: Goal, max_changes: int, count: int, rng: np.random.Generator
) -> tuple[Values, BoundGoal]:
    """What a search in imagination would ask first, from random training rows, and for which goals.

    Some chance keeps it curious.
    """
    start = values[rng.integers(0, len(values), count)]
    before = world.targets.answer(world.predict(start))
    goals = random_goals(goal, world.blackbox, before, rng)
    spent, limits = np.zeros(count, dtype=np.int64), world.space.limits(values=start)
    objective = CLOSEST if world.space.has_prices else SPARSE  # as a call without a word about it will have it
    problem = Problem(
        world.space, world.blackbox, start, before, goals, limits, max_changes, spent, objective=objective
    )
    moves = Moves.quantiles(values, world.space, VALUES)
    proposals = Imagination(world, problem, moves, sure=SURE).propose()
    none = np.full(count, np.inf)
    distance, by_distance = proposals.distance(world.space), problem.by_distance
    promise = expected_improvement(
        proposals.gap, world.error, proposals.count, distance, none, none, by_distance=by_distance
    )
    noisy = np.log(promise + 1e-12) + CURIOSITY * rng.gumbel(size=promise.shape)
    return proposals.rows(start, noisy.argmax(axis=1)), goals


def random_goals(goal: Goal, blackbox: BlackBox, answer: Answer, rng: np.random.Generator) -> BoundGoal:
    """A goal for each row: of several classes half are targeted, so that what is learned serves both kinds of goal."""
    if blackbox.task == "regression":
        if goal.rows == 0:
            raise GoalError("Goal.between has no range, and fit needs one to learn with; give it to explain instead.")
        if goal.rows is not None:  # one for each query: what is learned serves any of them
            goal = goal.chunk(rng.integers(0, goal.rows, len(answer)))
        return goal.bind(blackbox, answer)
    if goal.raise_by is not None:
        return _random_rises(goal, goal.raise_by, blackbox, answer, rng)
    untargeted = Goal.flip(min_probability=goal.min_probability).bind(blackbox, answer)
    untargeted = replace(untargeted, avoided=None)
    assert untargeted.wanted is not None
    classes = untargeted.wanted.shape[1]
    if classes <= 2:
        return untargeted
    target = rng.integers(0, classes, len(answer))
    if goal.kind == "to" and not isinstance(goal.label, tuple):
        fixed = goal.bind(blackbox, answer).wanted
        assert fixed is not None
        target = np.where(rng.random(len(answer)) < 0.5, fixed.argmax(axis=1), target)
    targeted = target[:, None] == np.arange(classes)
    pick = (rng.random(len(answer)) < 0.5)[:, None]
    return replace(untargeted, wanted=np.where(pick, targeted, untargeted.wanted))


def _random_rises(
    goal: Goal, raise_by: float, blackbox: BlackBox, answer: Answer, rng: np.random.Generator
) -> BoundGoal:
    """A class to make likelier for each row: half of them the goal's own; another where that is nearly 1."""
    assert answer.scores is not None
    rows, classes = answer.scores.shape
    target = rng.integers(0, classes, rows)
    if not isinstance(goal.label, tuple):
        own = blackbox.positions([goal.label])[0]
        target = np.where(rng.random(rows) < 0.5, own, target)
    possible = answer.scores[np.arange(rows), target] + raise_by <= 1.0
    target = np.where(possible, target, answer.scores.argmin(axis=1))
    return BoundGoal(blackbox, wanted=target[:, None] == np.arange(classes)).risen(answer, raise_by)
