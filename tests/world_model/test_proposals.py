"""Proposals and their variants: within every limit, no two the same, with the gaps that the world model predicts."""

import tracemalloc
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from reference import tiny
from reference.worlds import problem_of, world_of

from relax_plugin import FeatureSpace, Goal
from relax_plugin.search.greedy import Moves
from relax_plugin.world_model.changes import CATEGORY, nearness
from relax_plugin.world_model.proposals import VALUES, Imagination
from relax_plugin.world_model.variants import variants_of

MIXED = tiny.mixed_rows(300)
SPACE = tiny.mixed_space(MIXED)
VALUES_OF_ROWS = SPACE.values(MIXED)
OUTSIDE = VALUES_OF_ROWS[:12] + np.where(SPACE.is_categorical, 0.0, 30.0 * SPACE.scale)  # most beyond their bounds


@cache
def mixed_world():
    return world_of(tiny.mixed_probabilities, MIXED, space=SPACE, share=0.1)


def limits_of(kind):
    if kind == "bounds of the call":
        return SPACE.limits(bounds={"smooth": (-1.0, 1.0), "tenths": (0.0, None), "colour": ["red"]})
    if kind == "few features":
        return SPACE.limits(vary=["smooth", "grade"])
    if kind == "nothing":
        return SPACE.limits(vary=[])
    return SPACE.limits()


def proposed(start, goal=None, max_changes=3, limits=None, world=None):
    world = world or mixed_world()
    problem = problem_of(world.blackbox, start, goal, max_changes, limits)
    moves = Moves.quantiles(VALUES_OF_ROWS, SPACE, VALUES)
    return problem, Imagination(world, problem, moves).propose()


def check(problem, world, changes):
    """Limits, sizes and gaps of all proposals that are there; returns them as rows with their owners."""
    query, position = np.nonzero(np.isfinite(changes.gap))
    each = changes.of(query)
    rows = each.rows(problem.start[query], position)
    start = problem.start[query]
    assert problem.limits.take(query).kept(rows, start).all()
    count = changes.count[query, position]
    np.testing.assert_array_equal((rows != start).sum(axis=1), count)  # no change that changes nothing, no two of one
    assert ((count >= 1) & (count <= problem.max_changes)).all()
    np.testing.assert_allclose(
        changes.distance(problem.space)[query, position], problem.space.distance(rows, start), rtol=1e-4
    )
    told = world.gap(problem.goal.take(query), rows)
    np.testing.assert_allclose(changes.gap[query, position], told, rtol=1e-3, atol=1e-3)
    assert len(np.unique(np.column_stack([query, rows]), axis=0)) <= len(rows)
    return query, rows


KINDS = ["all", "bounds of the call", "few features", "nothing"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("max_changes", [1, 3, 9])
def test_proposals_keep_every_limit_and_are_what_the_world_model_predicts(kind, max_changes):
    for start in (VALUES_OF_ROWS[:12], OUTSIDE):
        problem, changes = proposed(start, max_changes=max_changes, limits=limits_of(kind))
        query, rows = check(problem, mixed_world(), changes)
        assert len(np.unique(np.column_stack([query, rows]), axis=0)) == len(rows)  # none twice
        assert (kind == "nothing") == (len(rows) == 0)
        assert kind == "nothing" or len(np.unique(query)) == 12


@pytest.mark.parametrize("goal", [Goal.to(0), Goal.to(2, min_probability=0.7), Goal.flip(min_probability=0.9)])
def test_goals_of_all_kinds_are_proposed_for(goal):
    problem, changes = proposed(VALUES_OF_ROWS[:12], goal)
    check(problem, mixed_world(), changes)


def test_bounds_of_every_row_are_its_own():
    rows = tiny.gaussian_rows(200)
    space = FeatureSpace.infer(rows)
    world = world_of(tiny.two_class_probabilities, rows, share=0.1)
    low, high = rows[:40] - 0.3, rows[:40] + np.abs(rows[40:80])
    limits = space.limits()
    every = np.ones((40, 1), dtype=bool)
    limits = replace(limits, low=low, high=high, frozen=limits.frozen & every, choices=limits.choices & every)
    problem = problem_of(world.blackbox, rows[:40], limits=limits)
    changes = Imagination(world, problem, Moves.quantiles(rows, space, VALUES)).propose()
    query, found = check(problem, world, changes)
    assert ((found >= low[query]) & (found <= high[query])).all()


def test_more_changes_are_tried_only_while_none_is_sure(monkeypatch):
    monkeypatch.setattr(mixed_world(), "error", 1e-9)  # so that every valid proposal is sure
    problem = problem_of(mixed_world().blackbox, VALUES_OF_ROWS[:30], max_changes=4)
    imagination = Imagination(mixed_world(), problem, Moves.quantiles(VALUES_OF_ROWS, SPACE, VALUES))
    changes = imagination.propose()
    corrected = changes.gap + imagination.correction[:, None] * nearness((changes.length**2).sum(axis=0))
    deepest = np.where(np.isfinite(corrected), changes.count, 0).max(axis=1)
    fewest = np.where(corrected < -1e-6, changes.count, 4).min(axis=1)
    np.testing.assert_array_equal(deepest, fewest)
    assert set(deepest) >= {1, 2}


def test_a_single_feature_and_a_single_change_are_enough():
    rows = tiny.gaussian_rows(100, 1)
    model = lambda x: tiny.two_class_probabilities(np.column_stack([x, 0 * x]))  # noqa: E731
    world = world_of(model, rows, share=0.1)
    problem = problem_of(world.blackbox, rows[:9], max_changes=1)
    check(problem, world, Imagination(world, problem, Moves.quantiles(rows, world.space, VALUES)).propose())


@pytest.mark.slow
def test_wide_tables_take_bounded_memory():
    rows = tiny.gaussian_rows(100, 300)
    world = world_of(tiny.two_class_probabilities, rows, share=0.02)
    problem = problem_of(world.blackbox, np.repeat(rows, 4, axis=0))
    moves = Moves.quantiles(rows, world.space, VALUES)
    tracemalloc.start()
    Imagination(world, problem, moves).propose()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 400e6


# Variants


def varied(kind="all", start=VALUES_OF_ROWS[:12], max_changes=3):
    problem, changes = proposed(start, max_changes=max_changes, limits=limits_of(kind))
    query, position = np.nonzero(np.isfinite(changes.gap))
    feature, value = (array[:, query, position] for array in (changes.feature, changes.value))
    return problem, query, feature, value, variants_of(mixed_world(), problem, query, feature, value)


@pytest.mark.parametrize("kind", ["all", "bounds of the call"])
@pytest.mark.parametrize("start", [VALUES_OF_ROWS[:12], OUTSIDE], ids=["inside", "outside"])
def test_variants_keep_every_limit_and_are_what_the_world_model_predicts(kind, start):
    problem, query, feature, _, variants = varied(kind, start)
    owned = problem.part(query)
    _, rows = check(owned, mixed_world(), variants)
    assert len(rows) > len(query)
    assert variants.length.dtype == variants.gap.dtype == np.float32
    np.testing.assert_array_less(variants.count.max(axis=1), (feature >= 0).sum(axis=0) + 1)


def test_variants_are_shorter_and_longer_ones_or_lack_a_change():
    _, query, feature, value, variants = varied()
    there, count = np.isfinite(variants.gap), (feature >= 0).sum(axis=0)
    several = count > 1
    assert (there & (variants.count == count[:, None] - 1)).any(axis=1)[several].all()
    changed = np.isin(variants.feature, [-1]) | (variants.feature == feature[:, :, None])
    assert changed.all() and len(query) == len(count)
    categorical = (feature >= 0) & SPACE.is_categorical[feature]
    kept = (variants.feature >= 0) & categorical[:, :, None] & there
    np.testing.assert_array_equal(variants.value[kept], np.broadcast_to(value[:, :, None], kept.shape)[kept])
    assert (variants.length[kept] == CATEGORY).all()


def test_of_one_category_there_are_no_variants():
    world, problem = mixed_world(), problem_of(mixed_world().blackbox, VALUES_OF_ROWS[:1])
    j = SPACE.names.index("member")
    other = 1.0 - VALUES_OF_ROWS[0, j]
    variants = variants_of(world, problem, np.array([0]), np.array([[j]]), np.array([[other]]))
    assert not np.isfinite(variants.gap).any()
