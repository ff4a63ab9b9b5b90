"""Sets of features of a ReLU network: the proof that no change of just these would do, within a time limit."""

import time

import numpy as np

from relax_plugin.arrays import Booleans, Integers, Values
from relax_plugin.errors import UnsupportedError
from relax_plugin.networks.question import Asked, Question
from relax_plugin.networks.subsets import SubsetSearch
from relax_plugin.problem import Problem

SECONDS = 5.0  # for all sets of a menu together; what is not decided by then stays open


def bounded_sets(problem: Problem, sets: Booleans, open_: Integers) -> tuple[Values, Booleans, Booleans]:
    """A row of each set if there is one, whether one was found, and whether one is possible; True where not decided.

    The problem has one query as often as there are sets (sets, features), all features of which are to change. If the
    model is a network that can be read, those in `open_` are looked at, in this order.
    """
    deadline = time.perf_counter() + SECONDS
    values, found = problem.start.copy(), np.zeros(len(sets), dtype=bool)
    possible = np.ones(len(sets), dtype=bool)
    if len(open_) == 0 or problem.also or problem.itself_misses:
        return values, found, possible
    try:
        question = Question.about(problem.part(open_), problem.limits.keeping(~sets).take(open_))
        for asked in question.open():
            row = int(open_[asked.row])

            def met(rows: Values, asked: Asked = asked, row: int = row) -> Booleans:
                problem.charge(np.full(len(rows), row), 1)
                return question.met(asked, rows)

            search = SubsetSearch(question.network, asked.moves, asked.target, met, closest=False)
            told = search.solve(int(sets[row].sum()), deadline)
            if told is not None and told.values is not None:
                values[row], found[row] = told.values, True
            elif told is not None:
                possible[row] = not told.closed
            if time.perf_counter() > deadline:
                break
    except UnsupportedError:  # another model, or a goal that bounds do not know
        pass
    found[found] = problem.admits(values[found], np.flatnonzero(found))
    return values, found, possible
