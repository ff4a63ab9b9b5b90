"""Problems and their parts: what a part spends stands in the books of the whole."""

import numpy as np
from reference.problems import problem_of

from relax_plugin.problem import Problem


def four_queries() -> Problem:
    return problem_of(lambda rows: rows.sum(axis=1), np.zeros((4, 3)))


def test_candidates_are_charged_to_their_owners_however_many_an_owner_has() -> None:
    problem = four_queries()
    problem.ask(np.ones((3, 3)), np.array([1, 1, 3]))
    assert problem.spent.tolist() == [0, 2, 0, 1]


def test_a_part_of_a_part_charges_both() -> None:
    whole = four_queries()
    part = whole.part(np.array([3, 1, 0]))
    smaller = part.part(np.array([1, 2]))
    smaller.ask(np.ones((3, 3)), np.array([0, 0, 1]))
    part.charge(np.array([0]), 5)
    assert smaller.spent.tolist() == [2, 1]
    assert part.spent.tolist() == [5, 2, 1]
    assert whole.spent.tolist() == [1, 2, 0, 5]


def test_pieces_hold_every_query_once_and_in_order() -> None:
    problem = four_queries()
    pieces = list(problem.parts(3))
    assert [index.tolist() for index, _ in pieces] == [[0, 1, 2], [3]]
    for index, part in pieces:
        part.charge(np.arange(len(part)), index + 1)
    assert problem.spent.tolist() == [1, 2, 3, 4]
