"""Imagined search: complete answers are found in imagination, and the model is asked about the most promising one.

Its answer corrects what is believed of the others, and so on. Before each question, variants of what looks best join.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from relax_plugin.arrays import Values
from relax_plugin.problem import Problem, Proposals
from relax_plugin.search.greedy import Moves
from relax_plugin.search.neighbours import Neighbours
from relax_plugin.search.rescue import Rescue
from relax_plugin.wishes.objective import SPARSE
from relax_plugin.world_model.hunt import Hunt
from relax_plugin.world_model.model import WorldModel
from relax_plugin.world_model.plausible_proposals import PlausibleSource, plausible_rows
from relax_plugin.world_model.proposals import VALUES, Imagination

CELLS = 1_000_000  # queries times features worked on side by side
MOST_QUERIES = 512  # worked on side by side
LONGER = 3  # times the questions are asked for queries that found nothing by then,
WIDER_BEAM = 12  # of proposals from so many states
BEYOND = 4  # questions that tell whether it is the conditions that leave a query without an answer


@dataclass(frozen=True)
class ImaginedSearch:
    """Finds one counterfactual a query with a few questions to the model.

    Attributes
    ----------
    world : WorldModel
    moves : Moves
        Values of each feature; a few of them are looked at.
    rows_per_instance : int
        Model rows the search may spend on one query, the query itself and the confirmation of its answer included.
    rescue : Rescue, optional
        What queries still unsolved get after a longer search; without it, one search is all.
    also : callable, optional
        Further complete answers to a batch of queries, such as an agent's: each (queries, features).
    neighbours : Neighbours, optional
        The training rows, whose cells join where answers shall be plausible.
    """

    world: WorldModel
    moves: Moves
    rows_per_instance: int
    rescue: Rescue | None
    also: Callable[[Problem], list[Values]] | None = None
    neighbours: Neighbours | None = None

    def search(self, problem: Problem) -> Proposals:
        """One counterfactual a query: search, a longer search for what is left, and the rescue for what is still."""
        made = self.ordinary_search(problem)
        if self.rescue is not None and plausible_rows(problem) is None:  # else it was, in imagination
            self.rescue.save(problem, made)
        return made

    def ordinary_search(self, problem: Problem) -> Proposals:
        """One counterfactual a query without the rescue, which is too dear for what may be done without."""
        made, few = Proposals.empty(problem, 1), self.moves.thinned(VALUES, problem.space)
        # The query itself is asked for scores and `predict`; when its answer is confirmed, the scores are known.
        apart = problem.blackbox.reader.labels_apart and problem.blackbox.task == "classification"
        overhead = 3 if apart else 2
        questions = max((self.rows_per_instance - overhead) // problem.blackbox.rows_per_question, 1)
        size = max(min(MOST_QUERIES, CELLS // problem.start.shape[1]), 1)
        plausible = PlausibleSource.of(self.world, problem, self.moves, self.neighbours)
        for index, part in problem.parts(size):
            hunt = Hunt.begin(self.world, part, few)
            for rows in self.also(part) if self.also else ():
                hunt.watch(hunt.changes_to(rows))
            if plausible is not None:
                hunt.watch(plausible.propose(part))
            if part.rules is None:
                hunt.ask(questions)
            else:  # what fewer changes would do is worth more once there is an answer: half of the questions are for it
                hunt.ask((questions + 1) // 2)
                hunt.imagine(few)
                hunt.ask(questions, (questions + 1) // 2)
                if not part.by_distance:
                    hunt.insist(questions)
                hunt.ask(questions, questions)
            hunt.shorten(questions)
            stage = np.where(np.isfinite(hunt.count), "search", "").astype(object)
            open_ = np.flatnonzero(np.isinf(hunt.count))
            if len(open_) and self.rescue is not None:
                more = hunt.of(open_)
                more.watch(Imagination(self.world, more.problem, few, WIDER_BEAM).propose())
                crossings = None if plausible is None else plausible.cross(more.problem)
                if crossings is not None:
                    more.watch(crossings.proposals())
                if problem.by_distance:  # anything valid will do now, and what has few changes is the surest
                    sparse = replace(more.problem, objective=SPARSE)
                    more.watch(Imagination(self.world, sparse, few, WIDER_BEAM).propose())
                more.ask(LONGER * questions)
                more.shorten(LONGER * questions)
                hunt.put(open_, more)
                stage[open_] = np.where(np.isfinite(more.count), "long search", "")
                unsolved = np.isinf(more.count)
                if part.conditions:
                    self._look_beyond(more.problem.part(np.flatnonzero(unsolved)), few)
                if crossings is not None:
                    made.note[index[open_]] = crossings.notes(unsolved)
            made.values[index, 0], made.offered[index, 0], made.stage[index, 0] = hunt.rows, stage != "", stage
            if made.scores is not None:
                made.scores[index, 0] = hunt.scores
        return made

    def _look_beyond(self, problem: Problem, moves: Moves) -> None:
        """Note for queries without an answer whether they would have one, were it not for the conditions."""
        if len(problem):
            beyond = Hunt.begin(self.world, replace(problem, conditions=()), moves)
            beyond.ask(BEYOND)
            problem.bar(np.flatnonzero(np.isfinite(beyond.count)))
