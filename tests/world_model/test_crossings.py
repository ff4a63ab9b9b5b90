"""Crossings: between queries and near rows of their goals, plausible, with fewer and fewer changes."""

import numpy as np
from reference.worlds import problem_of, world_of

from relax_plugin import FeatureSpace, Goal
from relax_plugin.search.neighbours import AnsweredRows, Neighbours
from relax_plugin.wishes.plausibility import Plausibility, PlausibleRows, TrainingRows
from relax_plugin.world_model.crossings import Crossings, near_rows
from relax_plugin.world_model.model import ImaginedBlackBox

RNG = np.random.default_rng(1)
CLOUDS = np.where(RNG.random(240) < 0.5, -2.0, 2.0)[:, None] * [1, 1, 1, 0, 0, 0]
ROWS = CLOUDS + 0.6 * RNG.normal(size=(240, 6))  # two clouds: half of the features have to go along
SPACE = FeatureSpace.infer(ROWS)


def model(rows):
    positive = 1 / (1 + np.exp(-np.asarray(rows)[:, :3].sum(axis=1)))
    return np.column_stack([1 - positive, positive])


WORLD = world_of(model, ROWS, space=SPACE, share=0.3)
ANSWERED = AnsweredRows(Neighbours.of(ROWS), ImaginedBlackBox(WORLD).ask)


def under_plausibility(max_changes, limits=None):
    problem = problem_of(WORLD.blackbox, ROWS[:10], Goal.flip(), max_changes, limits)
    return problem.under(PlausibleRows.of(TrainingRows.of(SPACE, ROWS).detector(Plausibility()), problem.start))


def crossings_of(problem):
    (condition,) = problem.conditions
    return Crossings.of(WORLD, problem, condition, ANSWERED)


def test_near_rows_are_those_of_the_goal_moved_within_the_limits():
    problem = under_plausibility(6, SPACE.limits(vary=list(SPACE.names[:5]), bounds={SPACE.names[0]: (-1.0, 1.0)}))
    rows = near_rows(problem, ANSWERED, 4)
    assert rows.shape == (10, 4, 6)
    owner = np.repeat(np.arange(10), 4)
    flat = rows.reshape(-1, 6)
    assert problem.limits.kept(flat, problem.start[owner]).all()
    free = near_rows(under_plausibility(6), ANSWERED, 4).reshape(-1, 6)
    assert (np.sign(free[:, 0]) == -np.sign(ROWS[owner, 0])).all()
    known = {row.tobytes() for row in ROWS}
    assert all(row.tobytes() in known for row in free)


def test_what_is_passed_is_plausible_and_has_fewer_changes_than_the_near_rows():
    problem = under_plausibility(6)
    crossings = crossings_of(problem)
    assert problem.conditions[0].holds(crossings.rows, crossings.owner).all()
    assert crossings.count.min() >= 1 and 3 in crossings.count and crossings.count.max() == 6
    np.testing.assert_allclose(crossings.gap, WORLD.gap(problem.goal.take(crossings.owner), crossings.rows), atol=1e-3)
    assert problem.spent.sum() == 0, "all of it is imagined"


def test_proposals_have_no_more_changes_than_allowed_nearest_to_the_goal_first():
    problem = under_plausibility(5)
    crossings = crossings_of(problem)
    changes = crossings.proposals()
    there = np.isfinite(changes.gap)
    assert there.any() and changes.count[there].max() <= 5
    for query in range(len(problem)):
        mine = (crossings.owner == query) & (crossings.count <= 5)
        expected = np.sort(crossings.gap[mine])[: there.shape[1]]
        np.testing.assert_allclose(np.sort(changes.gap[query][there[query]]), expected, atol=1e-4)


def test_a_note_says_how_many_changes_would_do_and_asks_one_row_for_it():
    problem = under_plausibility(2)
    crossings = crossings_of(problem)
    unsolved = np.arange(10) < 6
    notes = crossings.notes(unsolved)
    assert (notes[6:] == "").all() and (problem.spent[6:] == 0).all()
    told = np.flatnonzero(notes != "")
    assert len(told) >= 1 and (problem.spent[told] == 1).all()
    for query in told:
        mine = (crossings.owner == query) & (crossings.count > 2) & (crossings.gap < 0)
        fewest = crossings.count[mine].min()
        assert notes[query] == f"none that is plausible was found within 2 changes; {fewest} would do"
