"""Queries with missing numbers as a problem: what is missing stays so, unless its feature may be filled in."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from relax_plugin import FeatureSpace, Goal
from relax_plugin.problem import Problem
from relax_plugin.trees.missing import with_gaps_kept


def space_with(rows: Any, fillable: Iterable[str] = (), vanishable: Iterable[str] = (), **options: Any) -> FeatureSpace:
    """The space of rows, some features of which may be filled in, or become missing."""
    features = FeatureSpace.infer(rows, **options).features
    fill, vanish = set(fillable), set(vanishable)
    return FeatureSpace([replace(f, fillable=f.name in fill, vanishable=f.name in vanish) for f in features])


def problem_with_gaps(explainer: Any, rows: Any, goal: Goal | None = None, most: int | None = None) -> Problem:
    """The problem that a fitted explainer has with those of the rows that do not meet the goal yet."""
    space, blackbox = explainer.space_, explainer.blackbox_
    start, before = space.values(rows), blackbox.confirm(rows)
    bound = (goal or Goal.flip()).bind(blackbox, before)
    limits = with_gaps_kept(space, space.limits(), start)
    spent = np.zeros(len(start), dtype=np.int64)
    problem = Problem(space, blackbox, start, before, bound, limits, most or len(space), spent)
    return problem.part(np.flatnonzero(~bound.met(before)))
