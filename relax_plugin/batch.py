"""One batch of a call: what a method offers for its queries, without needless changes, and the verdict."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from relax_plugin.arrays import Booleans, Integers
from relax_plugin.features import Rows
from relax_plugin.plausibility import PlausibleRows
from relax_plugin.problem import Problem, Proposals
from relax_plugin.results import Counterfactuals
from relax_plugin.verdict import Verdict

IMPLAUSIBLE = ", implausible"  # ends the stage of an answer that is not as plausible as was preferred

Offer = Callable[[Problem], Proposals]  # what a method proposes for a problem


class Preference(NamedTuple):
    """What answers to some queries should be, if there is one."""

    condition: PlausibleRows
    queries: Integers


@dataclass(frozen=True)
class Batch:
    """The queries of a batch and what is wished of their answers."""

    problem: Problem
    offer: Offer  # what the method proposes
    preferred: Sequence[Preference] = ()  # looked for in turn, the strictest first, among answers with no more changes
    plausible: PlausibleRows | None = None  # tells which answers are implausible, if such may be delivered
    polished: bool = False  # changes that neither the goal nor a required constraint needs are taken back
    expected: bool = False  # queries' answers are those of the trees, to be confirmed with the answers' own

    @classmethod
    def of(
        cls, problem: Problem, offer: Offer, plausible: PlausibleRows | None, strict: bool, polished: bool
    ) -> "Batch":
        """The batch under what is wished of plausibility: it is required, or only preferred."""
        if plausible is None:
            return cls(problem, offer, polished=polished)
        preferred, ordinary = [], plausible.of_ordinary_rows()
        if ordinary is not None:  # an outlier's answer may be one too; but first it is looked for among ordinary rows
            preferred.append(Preference(*ordinary))
        if strict:
            return cls(problem.under(plausible), offer, preferred, polished=polished)
        preferred.append(Preference(plausible, np.arange(len(problem))))
        return cls(problem, offer, preferred, plausible, polished)

    def answered(self, rows: Rows, n: int, besides_query: bool, started: float) -> Counterfactuals | None:
        """The verdict on what the method offers; `rows` are the queries in the user's dtypes.

        None if the model says something else to a query than was expected: then nothing of this counts.
        """
        verdict, blackbox = Verdict(self.problem, rows, n, besides_query, self.expected), self.problem.blackbox
        problem = self.problem.besides_query() if besides_query else self.problem
        if problem.also and not besides_query:
            problem = problem.still_missed(verdict.already)
        open_ = verdict.open
        missed = verdict.decide(open_, self._offered(problem, open_, n))
        verdict.warn_of_trees(missed)
        if blackbox.labels_apart and not blackbox.strict:
            # Where `predict` and the largest score disagree (ties!), those queries are searched again by `predict`.
            missed = np.union1d(missed, verdict.attempts_that_meet_the_goal(open_))
            with blackbox.asking_strictly():
                missed = verdict.decide(missed, self._offered(problem, missed, n))
        if not verdict.queries_are_as_expected():
            return None
        verdict.say_why_missed(missed)
        return verdict.counterfactuals(time.perf_counter() - started)

    def _offered(self, problem: Problem, pending: Integers, n: int) -> Proposals:
        """What the method offers for some queries; of equally few changes, what is preferred where it finds that."""
        part = problem.part(pending)
        made = self._polished(part, part, n) if len(part) else Proposals.empty(part, n)
        for condition, queries in self.preferred:
            own = condition.take(pending)
            short = np.zeros(len(pending), dtype=bool)
            short[np.nonzero(made.offered & ~_fulfilled(own, made))[0]] = True
            most = np.where(made.offered, (made.values != part.start[:, None]).sum(axis=2), 0).max(axis=1, initial=0)
            for changes in np.unique(most[short]):
                who = np.flatnonzero(short & (most == changes) & np.isin(pending, queries))
                if len(who):
                    some, its = part.part(who), own.take(who)
                    narrow = replace(some.under(its), max_changes=int(changes), preferred=True)
                    _take_better(some, its, made, who, self._polished(narrow, some, n))
        if self.plausible is not None:
            barred = made.offered & ~_fulfilled(self.plausible.take(pending), made)
            made.stage[barred] += IMPLAUSIBLE
        return made

    def _polished(self, problem: Problem, required: Problem, n: int) -> Proposals:
        """What the method offers, without changes that are not needed for what is required.

        Several counterfactuals a query have none when they are searched for, unless more than that is asked for.
        """
        made = self._mended(problem)
        if self.polished and (n == 1 or problem.preferred):
            from relax_plugin.search.polish import undo

            query, slot = np.nonzero(made.offered & ~made.minimal)
            values = made.values[query, slot]
            made.values[query, slot] = undo(required, values, query)
            if made.scores is not None:
                other = (made.values[query, slot] != values).any(axis=1)
                made.scores[query[other], slot[other]] = np.nan
        return made

    def _mended(self, problem: Problem) -> Proposals:
        """What the method offers; where that breaks a rule, another column of the rule goes along."""
        made = self.offer(problem)
        if problem.rules is not None:
            query, slot = np.nonzero(made.offered)
            values = made.values[query, slot]
            mended = problem.mended(values, query)
            made.values[query, slot] = mended
            if made.scores is not None:
                other = (mended != values).any(axis=1)
                made.scores[query[other], slot[other]] = np.nan
        return made


def _fulfilled(condition: PlausibleRows, made: Proposals) -> Booleans:
    """Which offers (queries, slots) fulfil the condition; empty slots do not."""
    fulfilled = np.zeros(made.offered.shape, dtype=bool)
    query, slot = np.nonzero(made.offered)
    fulfilled[query, slot] = condition.holds(made.values[query, slot], query)
    return fulfilled


def _take_better(problem: Problem, condition: PlausibleRows, made: Proposals, who: Integers, other: Proposals) -> None:
    """Of what is offered for some queries and what was found in its place, keep the best: never fewer than before.

    The best have the fewest changes, then fulfil the condition, then are the closest; where the least distance is the
    objective, they fulfil the condition first. None changes all features of another one, and more.
    """
    width, first = made.offered.shape[1], made.of(who)
    both = first.beside(other)
    holds, changed = _fulfilled(condition, both), both.values != problem.start[:, None]
    for row, query in enumerate(who):
        places = np.flatnonzero(both.offered[row])
        count, failed = changed[row, places].sum(axis=1), ~holds[row, places]
        distance = problem.distance(both.values[row, places], np.full(len(places), row))
        keys = (count, distance, failed) if problem.by_distance else (distance, failed, count)
        kept: list[int] = []
        for place in places[np.lexsort(keys)]:
            if len(kept) < width and not any(_alike(both, changed, row, place, one) for one in kept):
                kept.append(int(place))
        if len(kept) >= first.offered[row].sum():
            slots = np.arange(len(kept))
            made.offered[query] = np.arange(width) < len(kept)
            made.values[query, slots], made.stage[query, slots] = both.values[row, kept], both.stage[row, kept]
            if made.scores is not None and both.scores is not None:
                made.scores[query, slots] = both.scores[row, kept]


def _alike(both: Proposals, changed: Booleans, row: int, place: int, other: int) -> bool:
    """Whether one of two answers changes all features of the other; of one search's own the same ones may differ."""
    mine, its = changed[row, place], changed[row, other]
    if (mine == its).all():
        width = both.offered.shape[1] // 2
        equal = bool((both.values[row, place] == both.values[row, other]).all())
        return equal or (place < width) != (other < width)
    return bool((mine <= its).all() or (its <= mine).all())
