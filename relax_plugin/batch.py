"""One batch of a call: what a method offers for its queries, as far as it is plausible and mended, and the verdict."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from relax_plugin.arrays import Integers
from relax_plugin.features import Rows
from relax_plugin.problem import Problem, Proposals
from relax_plugin.results import Counterfactuals
from relax_plugin.verdict import Verdict
from relax_plugin.wishes.plausibility import PlausibleRows

IMPLAUSIBLE = ", implausible"  # ends the stage of an answer that is not as plausible as was preferred

Offer = Callable[[Problem], Proposals]  # what a method proposes for a problem


class Preference(NamedTuple):
    """What answers to some queries should be, if there is one."""

    condition: PlausibleRows
    queries: Integers


@dataclass(frozen=True)
class Batch:
    """The queries of a batch and what is wished of their answers.

    Attributes
    ----------
    problem : Problem
    offer : callable
        What the method proposes.
    preferred : sequence of Preference
        Tried in turn, before whatever the problem allows.
    plausible : PlausibleRows, optional
        By which answers are told to be implausible, if implausible ones may be delivered.
    expected : bool
        Whether what the model says to the queries is only expected of its trees: their labels are confirmed with those
        of the answers, in one call.
    """

    problem: Problem
    offer: Offer
    preferred: Sequence[Preference] = ()
    plausible: PlausibleRows | None = None
    expected: bool = False

    @classmethod
    def of(cls, problem: Problem, offer: Offer, plausible: PlausibleRows | None, strict: bool) -> "Batch":
        """The batch under what is wished of plausibility: it is required, or only preferred."""
        if plausible is None:
            return cls(problem, offer)
        preferred, ordinary = [], plausible.of_ordinary_rows()
        if ordinary is not None:  # an outlier's answer may be one too; but first it is looked for among ordinary rows
            preferred.append(Preference(*ordinary))
        if strict:
            return cls(problem.under(plausible), offer, preferred)
        return cls(problem, offer, [*preferred, Preference(plausible, np.arange(len(problem)))], plausible)

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
        """What the method offers for some queries; where none that is preferred is found, whatever it finds."""
        part = problem.part(pending)
        made, left = Proposals.empty(part, n), np.arange(len(pending))
        for condition, queries in self.preferred:
            who = left[np.isin(pending[left], queries)]
            if len(who):
                own = condition.take(pending[who])
                offers = self._mended(part.part(who).under(own))
                query, slot = np.nonzero(offers.offered)
                offers.offered[query, slot] = own.holds(offers.values[query, slot], query)  # not every method looks
                made.put(who, offers)
                left = np.setdiff1d(left, who[offers.offered.any(axis=1)])
        if len(left):
            others = self._mended(part if len(left) == len(part) else part.part(left))
            if self.plausible is not None:
                query, slot = np.nonzero(others.offered)
                barred = ~self.plausible.holds(others.values[query, slot], pending[left[query]])
                others.stage[query[barred], slot[barred]] += IMPLAUSIBLE
            made.put(left, others)
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
        if problem.blackbox.accelerate == "polish" and len(problem):
            from relax_plugin.trees.polish import polish

            polish(problem, made)
        return made
