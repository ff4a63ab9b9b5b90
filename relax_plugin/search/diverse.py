"""Several counterfactuals a query: one solver, asked again under what makes the next answer different."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from relax_plugin.arrays import Integers, Values
from relax_plugin.problem import Problem, Proposals

Solver = Callable[[Problem], Proposals]  # one a query

VARIANTS = 8  # random variants tried for each slot that freezing could not fill
MOST_PICKED = 16  # slots filled one by one, each with the variant that differs most; further ones are filled at once
SCATTERED = 64  # draws, twice, for the queries that still have empty slots: of a few dozen rows there are, most are met
DRAWS_AT_ONCE = 32_768  # bounds the memory


def fill_slots(problem: Problem, n: int, solve: Solver, rng: np.random.Generator) -> Proposals:
    """Up to n distinct counterfactuals a query.

    Each further one must do without the largest change of the one before: what differs is then *which* features
    change, not a digit. Slots left empty are filled with variants of found ones that go further, if those are valid,
    and at last with rows that change the same features, and one more, to anything else.
    """
    made = Proposals.empty(problem, n)
    frozen = np.broadcast_to(problem.limits.frozen, problem.start.shape).copy()
    pending = np.arange(len(problem))
    for slot in range(n):
        part = problem.part(pending)
        part = replace(part, limits=replace(part.limits, frozen=frozen[pending]))
        one = solve(part)
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
        for _ in range(2):
            query = np.flatnonzero(~made.offered.all(axis=1) & made.offered[:, 0])
            draws = max(SCATTERED, 2 * int((~made.offered[query]).sum(axis=1).max(initial=0)))
            chunk = max(DRAWS_AT_ONCE // draws, 1)
            for first in range(0, len(query), chunk):
                _fill_with_scattered(problem, made, query[first : first + chunk], draws, rng)
    return made


def _fill_with_variants(problem: Problem, made: Proposals, rng: np.random.Generator) -> None:
    """Fill empty slots with valid random variants of what was found: few changes first, then the most different."""
    for slot in range(1, min(made.values.shape[1], MOST_PICKED)):
        query = np.flatnonzero(~made.offered[:, slot] & made.offered[:, 0])
        if len(query) == 0:
            continue
        candidates, owner = _variants(problem, made, query, rng)
        candidates, owner = _fresh(problem, made, candidates, owner)
        if len(owner) == 0:
            continue
        met, _ = problem.judge(candidates, owner)
        candidates, owner = candidates[met], owner[met]
        nearest = problem.space.distance(candidates[:, None], made.values[owner, :slot])
        nearest = np.where(made.offered[owner, :slot], nearest, np.inf).min(axis=1)
        changes = (candidates != problem.start[owner]).sum(axis=1)
        order = np.lexsort((-nearest, changes, owner))
        best = order[np.unique(owner[order], return_index=True)[1]]
        made.values[owner[best], slot] = candidates[best]
        made.offered[owner[best], slot] = True
        made.stage[owner[best], slot] = "variant"


def _fill_with_scattered(
    problem: Problem, made: Proposals, query: Integers, draws: int, rng: np.random.Generator
) -> None:
    """Fill all empty slots of the queries at once with rows whose changes are drawn anew: few changes first."""
    owner = np.repeat(query, draws)
    start, span = problem.start[owner], (problem.span[0][owner], problem.span[1][owner])
    redrawn = _some_found(made, owner, rng) != start
    redrawn[np.arange(len(owner)), rng.integers(0, start.shape[1], len(owner))] = True
    candidates = np.where(redrawn, _anywhere(problem, span, rng), start)
    candidates = problem.limits.take(owner).project(candidates, start)
    candidates, owner = _fresh(problem, made, candidates, owner)
    if len(owner) == 0:
        return
    met, _ = problem.judge(candidates, owner)
    candidates, owner = candidates[met], owner[met]
    order = np.lexsort(((candidates != problem.start[owner]).sum(axis=1), owner))
    candidates, owner = candidates[order], owner[order]
    rank = np.arange(len(owner)) - np.searchsorted(owner, owner)
    empty_first = np.argsort(made.offered, axis=1, kind="stable")
    used = rank < (~made.offered).sum(axis=1)[owner]
    slot = empty_first[owner[used], rank[used]]
    made.values[owner[used], slot] = candidates[used]
    made.offered[owner[used], slot] = True
    made.stage[owner[used], slot] = "variant"


def _fresh(problem: Problem, made: Proposals, candidates: Values, owner: Integers) -> tuple[Values, Integers]:
    """The candidates that are allowed, differ from each other and were not found before."""
    few = (candidates != problem.start[owner]).sum(axis=1) <= problem.max_changes
    candidates, owner = candidates[few], owner[few]
    query = np.unique(owner)
    position, slot = np.nonzero(made.offered[query])
    known = np.column_stack([query[position], made.values[query[position], slot]])
    both = np.concatenate([known, np.column_stack([owner, candidates])])
    _, first = np.unique(both, axis=0, return_index=True)  # of equal ones the first: the known one, if there is one
    fresh = first[first >= len(known)] - len(known)
    return candidates[fresh], owner[fresh]


def _some_found(made: Proposals, owner: Integers, rng: np.random.Generator) -> Values:
    """One of its found counterfactuals for each owner."""
    source = np.where(made.offered[owner], rng.random(made.offered[owner].shape), -1.0).argmax(axis=1)
    return np.asarray(made.values[owner, source])


def _anywhere(problem: Problem, span: tuple[Values, Values], rng: np.random.Generator) -> Values:
    """Values drawn evenly from where they may lie; of categories, which are whole numbers, each as often."""
    low, high = span
    drawn = rng.random(low.shape)
    codes = np.floor(low + drawn * (high - low + 1.0))
    return np.asarray(np.where(problem.space.is_categorical, np.minimum(codes, high), low + drawn * (high - low)))


def _variants(problem: Problem, made: Proposals, query: Integers, rng: np.random.Generator) -> tuple[Values, Integers]:
    """Found counterfactuals whose changes go a random part of the rest of their way, half with a further change."""
    owner = np.repeat(query, VARIANTS)
    rows = np.arange(len(owner))
    base, start = _some_found(made, owner, rng), problem.start[owner]
    low, high = problem.span[0][owner], problem.span[1][owner]
    end = np.where(base > start, high, low)
    further = np.where(problem.space.is_categorical, base, base + rng.random(base.shape) * (end - base))
    variant = np.where(base != start, further, start)
    extra = rng.integers(0, base.shape[1], len(base))
    widened = np.flatnonzero((rng.random(len(base)) < 0.5) & (variant[rows, extra] == start[rows, extra]))
    variant[widened, extra[widened]] = _anywhere(problem, (low, high), rng)[widened, extra[widened]]
    return problem.limits.take(owner).project(variant, start), owner
