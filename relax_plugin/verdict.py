"""Verdict: the one place where validity is decided. Methods propose, the model's own `predict` disposes."""

import logging
from typing import Any

import numpy as np

from relax_plugin.arrays import Array, Booleans, Floats, Integers, Values
from relax_plugin.blackbox import Answer
from relax_plugin.features import Rows
from relax_plugin.problem import FROM_TREES, Problem, Proposals
from relax_plugin.results import Counterfactuals, taken

logger = logging.getLogger(__name__)

ISSUES = "https://github.com/relax-plugin/relax-plugin/issues"
NO_FURTHER = "no further one was found that changes other features, or the same ones clearly otherwise"


class Verdict:
    """Keeps, for the queries of a batch, what was proposed, what the model says to it, and whether it counts.

    A proposal is *found* if the model's answer to the delivered row, after rounding and casting, meets the goal, the
    row keeps every constraint, and it differs from those found before it. What is judged are the cells as the user
    gets them: they are read back from the delivered rows. A query that meets its goal already is its own answer,
    unless others are wanted `besides_query`. What the model says to the queries may be no more than `expected`: then
    its own labels are asked for with those of the proposals.
    """

    def __init__(
        self, problem: Problem, rows: Rows, n: int, besides_query: bool = False, expected: bool = False
    ) -> None:
        self.problem, self.rows = problem, rows
        self.by_trees, self.mistaken = expected, False
        self.unconfirmed = np.arange(len(problem) if expected else 0)
        self.already = problem.goal.met(problem.before) & (not besides_query)
        if problem.also and self.already.any():
            asked = np.flatnonzero(self.already)
            self.already[asked] = problem.holds_for_all(taken(rows, asked), asked)
        self.impossible = problem.goal.impossible(problem.before)
        self.refused = np.flatnonzero(~problem.before.answered)
        for query in self.refused:
            assert problem.before.refused is not None
            self.impossible[query] = f"the model refuses this query: {problem.before.refused[query]}"
        self.proposals = Proposals.empty(problem, n)
        self.found = np.zeros((len(problem), n), dtype=bool)
        self.found[self.already, 0] = True
        self.output = np.repeat(problem.before.output[:, None], n, axis=1)
        scores = problem.before.scores
        self.scores = None if scores is None else np.repeat(scores[:, None], n, axis=1)

    @property
    def open(self) -> Integers:
        """The queries that are worth a search: no answer yet, and a goal that may be met."""
        return np.flatnonzero(~self.already & (self.impossible == ""))

    def decide(self, pending: Integers, made: Proposals) -> Integers:
        """Confirm what was proposed for some queries; returns those whose confirmed answer misses the goal."""
        kept, before = self.proposals, self.problem.before
        finite = np.isfinite(made.values)  # what is no number cannot be delivered, nor shown as the closest attempt
        made.offered &= finite.all(axis=2)
        made.values = np.where(finite, made.values, self.problem.start[pending, None])
        kept.values[pending], kept.offered[pending] = made.values, made.offered
        kept.stage[pending], kept.note[pending] = made.stage, made.note
        if kept.scores is not None:
            known = np.nan if made.scores is None else made.scores
            kept.scores[pending] = np.where(finite.all(axis=2, keepdims=True), known, np.nan)
        self.found[pending], self.output[pending] = False, before.output[pending, None]
        if self.scores is not None and before.scores is not None:
            self.scores[pending] = before.scores[pending, None]
        position, slot = np.nonzero(made.offered)
        query = pending[position]
        if len(query) == 0:
            return query
        values, answer, held = self._confirmed(query, slot)
        kept.values[query, slot], start = values, self.problem.start[query]
        self.output[query, slot] = answer.output
        if self.scores is not None and answer.scores is not None:
            self.scores[query, slot] = answer.scores
        met = self.problem.goal.take(query).met(answer)
        changes = (values != start).sum(axis=1)
        few = (changes > 0) & (changes <= self.problem.max_changes)  # the query itself is no counterfactual of it
        sound = met & few & self.problem.limits.take(query).kept(values, start)
        admitted = self.problem.admits(values, query) & held
        self.problem.bar(query[sound & ~admitted])
        self.found[query, slot] = sound & admitted
        self.found &= self._distinct()
        return np.unique(query[~met])

    def attempts_that_meet_the_goal(self, pending: Integers) -> Integers:
        """Of queries for which nothing was offered, those whose closest attempt does meet the goal by `predict`."""
        attempts, start = self.proposals.values[pending, 0], self.problem.start[pending]
        pending = pending[~self.proposals.offered[pending].any(axis=1) & (attempts != start).any(axis=1)]
        if len(pending) == 0:
            return pending
        _, answer, held = self._confirmed(pending, np.zeros_like(pending))
        return pending[self.problem.goal.take(pending).met(answer) & held]

    def _confirmed(self, query: Integers, slot: Integers) -> tuple[Values, Answer, Booleans]:
        """The delivered cells of proposals, read back, the model's answer to them, and whether further models agree.

        Scores that the method has handed on hold for the cells it proposed, and are asked for where others came back.
        """
        blackbox, space, values = self.problem.blackbox, self.problem.space, self.proposals.values[query, slot]
        asked, start, number = np.concatenate([query, self.unconfirmed]), self.problem.start, len(query)
        both = np.concatenate([values, start[self.unconfirmed]])
        every: Any = space.restore(both, taken(self.rows, asked), start[asked])
        delivered = every[:number]
        read = space.values(delivered)
        known = np.full((number, 1), np.nan)
        if self.proposals.scores is not None and (self.by_trees or blackbox.trees is None):
            known = np.where((read == values).all(axis=1)[:, None], self.proposals.scores[query, slot], np.nan)
        unknown = np.isnan(known).any(axis=1)
        self.problem.charge(query, 1 + (blackbox.labels_apart & unknown))
        if self.by_trees and unknown.any():
            told = blackbox.expected(read[unknown])
            if told is not None and told.scores is not None:
                known[unknown] = told.scores
        answer = blackbox.confirm(every, self._with_scores_of_queries(known), mark_refused=True)
        self._compare(answer.take(slice(number, None)))
        return read, answer.take(slice(number)), self.problem.holds_for_all(delivered, query)

    def queries_are_as_expected(self) -> bool:
        """Whether the model's own labels of all queries are those that were expected of its trees."""
        if len(self.unconfirmed):
            rows = taken(self.rows, self.unconfirmed)
            known = self._with_scores_of_queries(np.zeros((0, 1)))
            self._compare(self.problem.blackbox.confirm(rows, known, mark_refused=True))
        return not self.mistaken

    def _with_scores_of_queries(self, known: Floats) -> Floats:
        """The known scores of proposals, and behind them those of the queries that are still to be confirmed."""
        scores = self.problem.before.scores
        if len(self.unconfirmed) == 0 or scores is None:
            return known
        return np.concatenate([np.broadcast_to(known, (len(known), scores.shape[1])), scores[self.unconfirmed]])

    def _compare(self, answer: Answer) -> None:
        differs = answer.output != self.problem.before.output[self.unconfirmed]
        self.mistaken |= bool((differs | ~answer.answered).any())
        self.problem.charge(self.unconfirmed, 1)
        self.unconfirmed = self.unconfirmed[:0]

    def warn_of_trees(self, missed: Integers) -> None:
        """Ask for a report where the model does not confirm what was found in its trees."""
        count = int((self.proposals.stage[missed] == FROM_TREES).any(axis=1).sum())
        if count:
            logger.warning(
                "the model does not confirm %d counterfactuals that were found in its trees. Unless the model was "
                "changed after fit, please report this at %s.",
                count,
                ISSUES,
            )

    def say_why_missed(self, queries: Integers) -> None:
        """Note that what was proposed for these queries does not meet the goal: the model may have changed its mind."""
        self.proposals.note[queries] = "the model's own answer to the row that was proposed misses the goal"

    def counterfactuals(self, seconds: float) -> Counterfactuals:
        """The verdict as the user sees it, found ones first."""
        blackbox, before = self.problem.blackbox, self.problem.before
        order = np.argsort(~self.found, axis=1, kind="stable")
        rows = np.arange(len(order))[:, None]
        self.found, self.output = self.found[rows, order], self.output[rows, order]
        self.scores = None if self.scores is None else self.scores[rows, order]
        labels, after = blackbox.labels(before.output), blackbox.labels(self.output.ravel()).reshape(self.output.shape)
        scores = before.scores
        if len(self.refused):
            labels, after = labels.copy(), after.copy()
            labels[self.refused] = after[self.refused] = None  # NaN of a regressor
            if scores is not None and self.scores is not None:
                scores = scores.copy()
                scores[self.refused] = self.scores[self.refused] = np.nan
        self.proposals.values, self.proposals.stage = (
            self.proposals.values[rows, order],
            self.proposals.stage[rows, order],
        )
        return Counterfactuals(
            space=self.problem.space,
            queries=self.rows,
            values=self.proposals.values,
            found=self.found,
            status=self._status(),
            stage=np.where(self.found, np.where(self.already[:, None], "query", self.proposals.stage), ""),
            before=labels,
            after=after,
            scores_before=scores,
            scores_after=self.scores,
            rows_queried=self.problem.spent,
            rows_also=self.problem.spent_also,
            seconds=seconds,
            blackbox=blackbox,
        )

    def _distinct(self) -> Booleans:
        """Whether each found slot differs from every found slot before it."""
        query, slot = np.nonzero(self.found)
        rows = np.column_stack([query, self.proposals.values[query, slot]])
        _, first = np.unique(rows, axis=0, return_index=True)
        distinct = np.zeros_like(self.found)
        distinct[query[first], slot[first]] = True
        return distinct

    def _status(self) -> Array:
        movable = self.problem.limits.movable(self.problem.start)
        status = np.full(self.found.shape, NO_FURTHER, dtype=object)
        none = np.where(self.problem.barred, self.problem.none, "none").astype(object)
        nothing = none + f" was found within {self.problem.max_changes} changes"
        status[:, 0] = np.where(self.proposals.note != "", self.proposals.note, nothing)
        if self.problem.rules is not None:
            status[:, 0] += self.problem.rules.told_of_queries()
        impossible = self.impossible != ""
        status[impossible] = self.impossible[impossible, None]
        status[~movable & self.problem.before.answered] = "no feature of it may change"
        status[self.found] = "found"
        status[self.already] = "the query meets the goal already"
        return status
