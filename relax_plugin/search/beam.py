"""Generation by search: a small beam guided by a ranking of actions, then refinement of the best candidates.

The ranking is the trained agent's for ReLAX, in turn with a world model's where there is one; controls and baselines
bring their own, so that all are compared in the very same search. The beam always contains the path of the actions
ranked first: a beam without the policy's own is worse than the policy.
"""

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from relax_plugin.arrays import Booleans, Floats, Integers, Values
from relax_plugin.blackbox import Answer
from relax_plugin.problem import Problem
from relax_plugin.search.refine import bisect
from relax_plugin.search.state import Episodes, Observer

HALVINGS = 7  # of each change, while the budget lasts
ROWS_PER_CHANGE = 4  # refinement rows below which a change is not shortened well
MOST_CANDIDATES = 6  # valid candidates refined for one query
NEAR = 0.5  # share of a query's gap within which its first children must come for more of them to be tried


class Ranker(Protocol):
    """Says how promising each action is in each state, and how far to go with it.

    Attributes
    ----------
    exact : bool
        Whether every action goes as far as the ranking says, and not only the one ranked first.
    """

    exact: bool

    def rank(self, episodes: Episodes) -> tuple[Floats, Floats]:
        """Values (rows, actions), -inf where an action is not allowed, and magnitudes (rows, actions)."""


@dataclass(frozen=True)
class Budget:
    """How a number of model rows a query is spent: widening first, what is left on refinement."""

    spendable: int  # model rows
    first: int  # actions tried from the start
    more: int  # further ones, if the first came near the goal
    beam: int  # states kept at each depth
    branch: int  # actions tried from each of them

    @classmethod
    def of(cls, rows: int) -> "Budget":
        beam = max(1, round(0.4 * rows**0.5))
        branch = max(2, round(0.15 * rows / beam))
        return cls(rows, first=max(3, rows // 5), more=rows // 5, beam=beam, branch=branch)


@dataclass
class Beam:
    """States reached: whose they are, whether on the policy's own path, their rank among their siblings, the summed
    values of the way there, and gap and distance of the state they came from."""

    episodes: Episodes
    owner: Integers
    on_policy: Booleans
    rank: Integers
    value: Floats
    gap_before: Floats
    distance_before: Floats
    worth: Floats  # (states, features): how much of the gap each change closed, per unit of distance
    feature: Integers  # the feature changed last

    def take(self, index: Integers) -> "Beam":
        return Beam(
            self.episodes.take(index),
            self.owner[index],
            self.on_policy[index],
            self.rank[index],
            self.value[index],
            self.gap_before[index],
            self.distance_before[index],
            self.worth[index],
            self.feature[index],
        )

    @property
    def gap(self) -> Floats:
        return self.episodes.goal.gap(self.episodes.answer)


def guided_search(problem: Problem, ranker: Ranker, observer: Observer, budget: Budget) -> tuple[Values, Booleans]:
    """The best candidate of each query, and whether it meets the goal.

    Depth by depth, each query's beam is widened by the actions ranked highest, all queries in one model call. A query
    stops at the first depth with a valid candidate: fewer changes come first. The rest is decided by distance. Where
    that is what counts, a query goes on from states that are closer than its best answer, while rows are left.
    """
    best, met, closest = problem.start.copy(), np.zeros(len(problem), dtype=bool), problem.gap.copy()
    zeros = np.zeros(len(problem))
    episodes = Episodes.begin(problem.start, problem.before, problem.goal, problem.limits, problem.max_changes)
    everyone = np.arange(len(problem))
    nodes = Beam(
        episodes,
        everyone,
        np.ones(len(problem), dtype=bool),
        everyone * 0,
        zeros,
        zeros,
        zeros,
        problem.start * 0.0,
        everyone * 0,
    )
    for depth in range(problem.max_changes):
        if depth == 0:
            children = expand(problem, nodes, ranker, observer, budget.first + budget.more)
            children = _ask_first_then_more(problem, children, budget.first)
        else:
            children = expand(problem, nodes, ranker, observer, budget.branch)
            children = _asked(problem, children, np.arange(len(children.owner)))
        if len(children.owner) == 0:
            break
        reached = children.episodes.goal.met(children.episodes.answer)
        solved = np.unique(children.owner[reached])
        if len(solved):
            chosen = shortlist(problem, children.take(np.flatnonzero(reached)), budget)
            rows = finish(problem, chosen, budget)
            better = ~met[solved] | (problem.distance(rows, solved) < problem.distance(best[solved], solved))
            best[solved[better]], met[solved] = rows[better], True
        open_ = ~met[children.owner]
        _keep_closest(best, closest, children.take(np.flatnonzero(open_)))
        if problem.by_distance:
            bar = problem.distance(best, everyone)[children.owner]
            closer = problem.distance(children.episodes.values, children.owner) < bar
            open_ |= ~reached & closer & (problem.spent < budget.spendable)[children.owner]
        children = children.take(np.flatnonzero(open_))
        nodes = children.take(strongest(children, budget.beam, problem.blackbox.has_scores))
    return best, met


def expand(problem: Problem, nodes: Beam, ranker: Ranker, observer: Observer, branch: int) -> Beam:
    """The children of all states by their highest ranked actions, each set of changes once; not asked about yet.

    The policy's own child takes the magnitude the ranking says; the others go all the way to the bound, which tells
    whether the feature can help at all (refinement takes back what was too much), unless the ranking is exact or the
    goal has two sides, so that the whole way may lead beyond it.
    """
    value, magnitude = ranker.rank(nodes.episodes)
    top = np.argsort(-value, axis=1, kind="stable")[:, :branch]
    parent, rank = np.nonzero(np.isfinite(np.take_along_axis(value, top, axis=1)))
    taken = top[parent, rank]
    on_policy = nodes.on_policy[parent] & (rank == 0)
    as_ranked = on_policy | (observer.actions.style == "signed") | ranker.exact
    as_ranked = as_ranked | nodes.episodes.goal.two_sided[parent]
    extent = np.where(as_ranked, magnitude[parent, taken], 1.0)
    episodes = observer.change(nodes.episodes.take(parent), taken, extent)
    owner = nodes.owner[parent]
    distance = problem.distance(nodes.episodes.values, nodes.owner)[parent]
    total = nodes.value[parent] + value[parent, taken]
    feature = observer.actions.feature[taken]
    children = Beam(episodes, owner, on_policy, rank, total, nodes.gap[parent], distance, nodes.worth[parent], feature)
    return children.take(_first_of_each(owner, problem.space.standardise(episodes.values), on_policy))


def shortlist(problem: Problem, valid: Beam, budget: Budget) -> Beam:
    """Of each owner's valid candidates, the few that promise the least distance once what is too much is taken back."""
    full = problem.distance(valid.episodes.values, valid.owner)
    share = np.full(len(full), 0.5)
    if problem.blackbox.has_scores:  # if the gap closes evenly along the last move, this share of it is enough
        share = np.clip(valid.gap_before / np.maximum(valid.gap_before - valid.gap, 1e-12), 0.0, 1.0)
    promised = valid.distance_before + share * (full - valid.distance_before)
    changes = problem.changed(valid.episodes.values, valid.owner).sum(axis=1)
    left = budget.spendable - problem.spent[valid.owner]
    few = np.clip(left // (ROWS_PER_CHANGE * np.maximum(changes, 1)), 1, MOST_CANDIDATES)
    order = np.lexsort((promised, valid.owner))
    return valid.take(order[_rank_within(valid.owner[order]) < few[order]])


def finish(problem: Problem, chosen: Beam, budget: Budget) -> Values:
    """Shorten the shortlisted candidates and keep each owner's best; rows in the order of owners."""
    most_rows = np.full(len(problem), budget.spendable)
    values = bisect(problem, chosen.episodes.values, chosen.owner, chosen.worth, HALVINGS, most_rows)
    order = np.lexsort((*problem.ranks(values, chosen.owner), chosen.owner))
    return values[order[np.unique(chosen.owner[order], return_index=True)[1]]]


def strongest(children: Beam, beam: int, has_scores: bool) -> Integers:
    """Positions of each owner's `beam` best states, and of its policy path."""
    order = np.lexsort((children.gap if has_scores else -children.value, children.owner))
    return order[(_rank_within(children.owner[order]) < beam) | children.on_policy[order]]


def _ask_first_then_more(problem: Problem, children: Beam, first: int) -> Beam:
    """Ask about each query's first children; about the others only if the first came near the goal."""
    early = np.flatnonzero(children.rank < first)
    asked = _asked(problem, children, early)
    nearest = np.full(len(problem), np.inf)
    np.minimum.at(nearest, asked.owner, asked.gap)
    promising = nearest <= NEAR * problem.gap if problem.blackbox.has_scores else np.ones(len(problem), dtype=bool)
    late = np.flatnonzero((children.rank >= first) & promising[children.owner])
    if len(late) == 0:
        return asked
    more = _asked(problem, children, late)
    both = children.take(np.concatenate([early, late]))
    answer = Answer.joined(asked.episodes.answer, more.episodes.answer)
    return replace(
        both, episodes=replace(both.episodes, answer=answer), worth=np.concatenate([asked.worth, more.worth])
    )


def _asked(problem: Problem, children: Beam, index: Integers) -> Beam:
    children = children.take(index)
    answer = problem.ask(children.episodes.values, children.owner)
    children = replace(children, episodes=replace(children.episodes, answer=answer))
    length = problem.distance(children.episodes.values, children.owner) - children.distance_before
    children.worth[np.arange(len(length)), children.feature] = (children.gap_before - children.gap) / np.maximum(
        length, 1e-12
    )
    return children


def _keep_closest(best: Values, closest: Floats, children: Beam) -> None:
    """For queries still unsolved remember the attempt that came closest."""
    gap = children.gap
    order = np.lexsort((gap, children.owner))
    first = order[np.unique(children.owner[order], return_index=True)[1]]
    nearer = first[gap[first] < closest[children.owner[first]]]
    best[children.owner[nearer]] = children.episodes.values[nearer]
    closest[children.owner[nearer]] = gap[nearer]


def _rank_within(sorted_owner: Integers) -> Integers:
    """0, 1, 2, ... within each run of equal owners."""
    position = np.arange(len(sorted_owner))
    first = np.append(True, sorted_owner[1:] != sorted_owner[:-1])[: len(sorted_owner)]
    return position - np.maximum.accumulate(np.where(first, position, 0))


def _first_of_each(owner: Integers, values: Values, preferred: Booleans) -> Integers:
    """Positions of distinct (owner, values), the preferred ones where there is a choice."""
    key = values @ np.random.default_rng(0).standard_normal(values.shape[1])  # equal rows have equal sums
    order = np.lexsort((~preferred, key, owner))
    same = (np.diff(key[order]) == 0) & (np.diff(owner[order]) == 0)
    return np.sort(order[np.append(True, ~same)[: len(order)]])
