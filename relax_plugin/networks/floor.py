"""The floor of networks: for ReLU networks, the provably fewest features that have to change, and the least distance.

No method can do better. The fewest changes are proved by branch and bound over sets of features (`subsets.py`), the
least distance with any number of changes by a mixed-integer program (`program.py`); both know a time limit.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from relax_plugin.arrays import Array, Booleans, Floats, Integers, Values
from relax_plugin.base import real_number, whole_number
from relax_plugin.features import FeatureSpace, Rows
from relax_plugin.goal import Goal
from relax_plugin.limits import Limits
from relax_plugin.networks.program import Program
from relax_plugin.networks.question import Asked, Question
from relax_plugin.networks.subsets import Decision, SubsetSearch

OUTWARD = (1.0, 1 + 1e-7, 1 + 1e-5, 1 + 1e-3, 1.01)  # how much farther than the solver says rows are tried
FIRST_SHARE = 0.5  # of the time for sets of few features, before the solver is asked for any number of changes


@dataclass(frozen=True)
class NetworkFloor:
    """What is proved of each query.

    Attributes
    ----------
    changes : int array (queries,)
        The fewest features that have to change; 0 if the query meets its goal already, -1 if none was found.
    distance : array (queries,)
        Of the nearest row found, standardised L1 at the space's prices; NaN where `changes` is -1.
    values : array (queries, features)
        That row; the query itself where `changes` is -1.
    proved : int array (queries,)
        It is proved that no counterfactual changes fewer features than this.
    closest : bool array (queries,)
        Whether it is proved that none with as few changes is nearer (by more than a ten-thousandth).
    at_least : array (queries,)
        It is proved that no counterfactual, whatever it changes, is nearer than this.
    possible : bool array (queries,)
        False where it is proved that no counterfactual exists at all.
    seconds : array (queries,)
    notes : array (queries,) of str
        Why a query was not looked at, or where its proof stopped; "" if it is whole.
    by_solver : bool array (queries,)
        Whether what is proved of fewest changes rests on a solver's word; else every box was bounded here.
    """

    changes: Integers
    distance: Floats
    values: Values
    proved: Integers
    closest: Booleans
    at_least: Floats
    possible: Booleans
    seconds: Floats
    notes: Array
    by_solver: Booleans

    def __len__(self) -> int:
        return len(self.changes)

    def sentences(self) -> list[str]:
        """What is proved for each query, in words."""
        return [self._sentence(row) for row in range(len(self))]

    def _sentence(self, row: int) -> str:
        if self.changes[row] == 0:
            return "the query meets the goal already"
        if not self.possible[row]:
            return "no counterfactual exists within the limits"
        told = []
        if self.proved[row] > 0:
            features = "1 feature" if self.proved[row] == 1 else f"{self.proved[row]} features"
            told.append(f"no counterfactual changes fewer than {features}")
        if self.at_least[row] > 0:
            told.append(f"none is nearer than {self.at_least[row]:.4g}")
        if not told:
            return f"nothing is proved, since {self.notes[row]}"
        return ", and ".join(told)


def floor(
    model: Any,
    space: FeatureSpace,
    rows: Rows,
    goal: Goal | None = None,
    *,
    limits: Limits | None = None,
    most_changes: int = 4,
    seconds_per_row: float = 10.0,
) -> NetworkFloor:
    """The fewest changes that meet the goal, and the nearest counterfactual with so few, for each row.

    Parameters
    ----------
    model : a ReLU network, or a BlackBox of one
        scikit-learn's MLPClassifier and MLPRegressor, also behind steps that only scale or rotate, and a torch
        Sequential of Linear, ReLU, BatchNorm1d and Dropout. Others are refused, *skipped because ...*.
    space : FeatureSpace
        Steps, bounds, directions, immutable features, one-hot groups and rules are kept.
    rows : DataFrame or array
        The queries. Of one with a missing cell nothing is proved.
    goal : Goal, optional
        Another class for a classifier if absent; a regressor needs one.
    limits : Limits, optional
        Of one call, `space.limits(vary, bounds)`; the space's own if absent.
    most_changes : int
        How many changes are tried.
    seconds_per_row : float
        After which a query's proof stops where it is.
    """
    whole_number("most_changes", most_changes, 0)
    return _looked_at(model, space, rows, goal, limits, seconds_per_row, partial(_fewest, most=most_changes))


def least_distance(
    model: Any,
    space: FeatureSpace,
    rows: Rows,
    goal: Goal | None = None,
    *,
    limits: Limits | None = None,
    few_changes: int = 2,
    seconds_per_row: float = 10.0,
) -> NetworkFloor:
    """The least distance at which the goal is met, with any number of changes, and the nearest row found.

    First the nearest row with up to `few_changes` is searched, in half of the time; with that for a radius a
    mixed-integer program is solved. `at_least` is what was proved when the time was over; where it is the distance
    itself, up to a thousandth, the row is the nearest.

    Parameters
    ----------
    model, space, rows, goal, limits, seconds_per_row
        As for `floor`.
    few_changes : int
    """
    whole_number("few_changes", few_changes, 1)
    return _looked_at(model, space, rows, goal, limits, seconds_per_row, partial(_nearest, few=few_changes))


@dataclass
class Found:
    """What is known of one query so far."""

    best: Decision
    proved: int = 1
    at_least: float = 0.0
    possible: bool = True
    note: str = ""
    by_solver: bool = False


Look = Callable[[Question, Asked, float], Found]


def _looked_at(
    model: Any,
    space: FeatureSpace,
    rows: Rows,
    goal: Goal | None,
    limits: Limits | None,
    seconds: float,
    look: Look,
) -> NetworkFloor:
    seconds = real_number("seconds_per_row", seconds, 0.0, 1e9)
    question = Question.of(model, space, rows, goal, limits)
    already, count = question.already, len(question)
    result = NetworkFloor(
        changes=np.where(already, 0, -1),
        distance=np.where(already, 0.0, np.nan),
        values=question.values.copy(),
        proved=np.where(already | (question.notes != ""), 0, 1),
        closest=already.copy(),
        at_least=np.zeros(count),
        possible=~question.hopeless,
        seconds=np.zeros(count),
        notes=question.notes,
        by_solver=np.zeros(count, dtype=bool),
    )
    for asked in question.open():
        started = time.perf_counter()
        found, row = look(question, asked, started + seconds), asked.row
        if found.best.values is not None:
            result.values[row], result.distance[row] = found.best.values, found.best.distance
            result.changes[row] = (found.best.values != question.values[row]).sum()
        result.closest[row] = found.best.closed and found.best.values is not None
        result.proved[row], result.at_least[row] = found.proved, found.at_least
        result.possible[row], result.notes[row] = found.possible, found.note
        result.by_solver[row] = found.by_solver
        result.seconds[row] = time.perf_counter() - started
    return result


def _fewest(question: Question, asked: Asked, deadline: float, most: int) -> Found:
    search = SubsetSearch(question.network, asked.moves, asked.target, partial(question.met, asked))
    movable = len(np.unique(asked.moves.feature))
    found = Found(Decision())
    for k in range(1, min(most, movable) + 1):
        told = search.solve(k, deadline)
        asked_solver = told is None
        if told is None:
            told = _by_solver(question, asked, k, deadline)
        if told.values is not None:
            found.best, found.proved = told, k
            if not told.closed:
                found.note = "the time was over before it was known to be the nearest with so few changes"
            return found
        if not told.closed:
            found.note = "rounding decides" if told.unsure else f"the time was over at {k} changes"
            return found
        found.proved = k + 1
        found.by_solver |= asked_solver
    found.possible = movable > most
    return found


def _by_solver(question: Question, asked: Asked, k: int, deadline: float) -> Decision:
    """The same by a mixed-integer program, where sets of k features are too many to be looked at one by one."""
    left = deadline - time.perf_counter()
    if left <= 0:
        return Decision()
    told = Program(question.network, asked.moves, np.inf, k).solve(asked.target, asked.margin, left, fewest=True)
    if told.amount is None:
        return Decision(closed=bool(np.isinf(told.at_least)))
    return _tried(question, asked, told.amount, Decision())


def _nearest(question: Question, asked: Asked, deadline: float, few: int) -> Found:
    """The nearest row with few changes, then what a solver says about any number of them."""
    search = SubsetSearch(question.network, asked.moves, asked.target, partial(question.met, asked))
    found = Found(Decision())
    started = time.perf_counter()
    half = started + FIRST_SHARE * (deadline - started)
    movable = len(np.unique(asked.moves.feature))
    for k in range(1, min(few, movable) + 1):
        told = search.solve(k, half, found.best)
        if told is None:
            break
        if told.closed and told.values is None and found.proved == k:
            found.proved = k + 1
        found.best = told
    program = Program(question.network, asked.moves, found.best.distance)
    solved = program.solve(asked.target, asked.margin, deadline - time.perf_counter())
    if solved.amount is not None:
        found.best = _tried(question, asked, solved.amount, found.best)
    found.best.closed = False  # as few changes were not what was asked for
    found.possible = not (np.isinf(solved.at_least) and found.best.values is None)
    found.by_solver = not found.possible
    found.at_least = min(solved.at_least, found.best.distance) if found.possible else 0.0
    if found.best.distance > found.at_least * (1 + 1e-3):
        found.note = f"the time was over with {program.switches} switches of rectifiers and steps open"
    return found


def _tried(question: Question, asked: Asked, amount: Floats, known: Decision) -> Decision:
    """What the solver offers, as cells can hold it, if the model's own answer meets the goal and it is nearer."""
    moves = asked.moves
    active = np.flatnonzero(np.abs(amount) > 1e-9 * np.abs(moves.high - moves.low).clip(1e-300))
    if len(active) == 0:
        return known
    amounts = np.array([amount[active] * factor for factor in OUTWARD])
    amounts = np.clip(amounts, moves.low[active], moves.high[active])
    values = moves.values(np.tile(active, (len(OUTWARD), 1)), amounts)
    start = np.broadcast_to(moves.start, values.shape)
    sound = moves.limits.kept(values, start) & question.met(asked, values)
    distance = np.where(sound, question.space.distance(values, start), np.inf)
    best = int(distance.argmin())
    if distance[best] < known.distance:
        return Decision(values[best], float(distance[best]))
    return known
