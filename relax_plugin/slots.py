"""Several counterfactuals a query: one solver, asked again under what makes the next answer different."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from relax_plugin.features import Values
from relax_plugin.problem import Integers, Problem, Proposals

Solver = Callable[[Problem, np.random.Generator], Proposals]

VARIANTS = 8  # random variants tried for each slot that freezing could not fill


def fill_slots(problem: Problem, n: int, solve: Solver, rng: np.random.Generator) -> Proposals:
    """Up to n distinct counterfactuals a query.

    Each further one must do without the largest change of the one before: what differs is then *which* features
    change, not a digit. Slots left empty are filled with variants of found ones that go further, if those are valid.
    """
    made = Proposals.empty(problem, n)
    frozen = np.broadcast_to(problem.limits.frozen, problem.start.shape).copy()
    pending = np.arange(len(problem))
    for slot in range(n):
        part = problem.part(pending)
        part = replace(part, limits=replace(part.limits, frozen=frozen[pending]))
        one = solve(part, rng)
        problem.rows[pending] += part.rows
        made.values[pending, slot] = one.values[:, 0]
        made.offered[pending, slot] = one.offered[:, 0]
        made.stage[pending, slot] = one.stage[:, 0]
        if slot == 0:
            made.note[pending] = one.note
        if slot == n - 1:
            break
        pending = pending[one.offered[:, 0]]
        if len(pending) == 0:
            break
        moved = problem.space.distances(made.values[pending, slot], problem.start[pending])
        frozen[pending, moved.argmax(axis=1)] = True
    if n > 1:
        _fill_with_variants(problem, made, rng)
    return made


def _fill_with_variants(problem: Problem, made: Proposals, rng: np.random.Generator) -> None:
    """Fill empty slots with valid random variants of what was found: few changes first, then the most different."""
    for slot in range(1, made.values.shape[1]):
        query = np.flatnonzero(~made.offered[:, slot] & made.offered[:, 0])
        if len(query) == 0:
            continue
        candidates, owner = _variants(problem, made, query, rng)
        new = ~(candidates[:, None] == made.values[owner]).all(axis=2)
        fresh = (new | ~made.offered[owner]).all(axis=1)
        fresh &= (candidates != problem.start[owner]).sum(axis=1) <= problem.max_changes
        candidates, owner = candidates[fresh], owner[fresh]
        if len(owner) == 0:
            continue
        met, _ = problem.judge(candidates, owner)
        candidates, owner = candidates[met], owner[met]
        nearest = problem.space.distance(candidates[:, None], made.values[owner])
        nearest = np.where(made.offered[owner], nearest, np.inf).min(axis=1)
        changes = (candidates != problem.start[owner]).sum(axis=1)
        order = np.lexsort((-nearest, changes, owner))
        best = order[np.unique(owner[order], return_index=True)[1]]
        made.values[owner[best], slot] = candidates[best]
        made.offered[owner[best], slot] = True
        made.stage[owner[best], slot] = "variant"


def _variants(problem: Problem, made: Proposals, query: Integers, rng: np.random.Generator) -> tuple[Values, Integers]:
    """Found counterfactuals whose changes go a random part of the rest of their way, half with a further change."""
    owner = np.repeat(query, VARIANTS)
    rows = np.arange(len(owner))
    source = np.where(made.offered[owner], rng.random(made.offered[owner].shape), -1.0).argmax(axis=1)
    base, start = made.values[owner, source], problem.start[owner]
    low, high = problem.span[0][owner], problem.span[1][owner]
    end = np.where(base > start, high, low)
    further = np.where(problem.space.is_categorical, base, base + rng.random(base.shape) * (end - base))
    variant = np.where(base != start, further, start)
    extra = rng.integers(0, base.shape[1], len(base))
    widened = np.flatnonzero((rng.random(len(base)) < 0.5) & (variant[rows, extra] == start[rows, extra]))
    anywhere = low + rng.random(base.shape) * (high - low)
    variant[widened, extra[widened]] = anywhere[widened, extra[widened]]
    variant = np.where(problem.space.is_categorical, np.round(variant), variant)
    return problem.limits.rows(owner).project(variant, start), owner
