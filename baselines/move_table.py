"""`move-table`: a table of moves, learned from what the search engine does, in the place of a trained agent.

For each wanted class it holds how often the search took each action, and how far it went. There are no networks and no
reinforcement learning: this is what an agent has to beat.
"""

import numpy as np

from relax_plugin.arrays import Booleans, Floats, Values
from relax_plugin.baselines.random_order import RankedSearch
from relax_plugin.blackbox import answered
from relax_plugin.search.engine import Engine
from relax_plugin.search.goals import random_goals
from relax_plugin.search.neighbours import AnsweredRows
from relax_plugin.search.proposers import GreedyChanges, NearRows
from relax_plugin.search.state import Episodes, Observer, Ranker

TAUGHT_ROWS = 400  # training rows that the search solves
FAR = 0.92  # quantile of the values that upward moves led to; 1 - FAR of downward ones


class MoveTable(RankedSearch):
    """Actions in the order in which a search took them on the way to the wanted class, as far as it went."""

    def _fit(self, values: Values, rng: np.random.Generator) -> None:
        super()._fit(values, rng)
        rows, answer = answered(self.blackbox_, values[rng.permutation(len(values))[:TAUGHT_ROWS]])
        goals = random_goals(self.goal_, self.blackbox_, answer, rng)
        open_ = np.flatnonzero(~goals.met(answer))
        limits = self.space_.limits(values=rows[open_])
        starts = Episodes.begin(rows[open_], answer.take(open_), goals.take(open_), limits, self._most_changes())
        teacher = Engine(
            [GreedyChanges(self.moves_), NearRows(AnsweredRows(self.neighbours_), self.moves_)], moves=self.moves_
        )
        made = teacher.search(starts.as_problem(self.blackbox_))
        solved = np.flatnonzero(made.offered[:, 0])
        self.ranker_ = TableRanker.taught(starts.take(solved), made.values[solved, 0], self.observer_)

    def _ranker(self) -> Ranker:
        return self.ranker_


class TableRanker:
    """The table as a ranking.

    Parameters
    ----------
    count : array
        How often each action was taken (groups, actions) for each wanted class; of a regressor, to raise its answer and
        to lower it.
    value : array
        Where each action leads its feature (groups, actions); NaN if it was never taken.
    """

    def __init__(self, count: Floats, value: Floats, observer: Observer) -> None:
        self.count, self.value, self.observer = count, value, observer

    @classmethod
    def taught(cls, starts: Episodes, ends: Values, observer: Observer) -> "TableRanker":
        """What is told by the ends that a search led these starts to."""
        actions, wanted = observer.actions, wanted_groups(starts)
        count, value = (np.full((wanted.shape[1], len(actions)), fill) for fill in (0.0, np.nan))
        row, feature = np.nonzero(ends != starts.start)
        landed, part = ends[row, feature], starts.take(row)
        taken, _ = actions.reaching(part.start, part.span, part.limits, feature, landed)
        for group, action in {(g, a) for r, a in zip(row, taken, strict=True) for g in np.flatnonzero(wanted[r])}:
            if action < 0:
                continue
            led = landed[(taken == action) & wanted[row, group]]
            count[group, action] = len(led)
            value[group, action] = np.quantile(led, 1 - FAR if actions.sign[action] < 0 else FAR)
        return cls(count, value, observer)

    def rank(self, episodes: Episodes) -> tuple[Floats, Floats]:
        allowed, wanted = self.observer.allowed(episodes), wanted_groups(episodes)
        actions = self.observer.actions
        known = np.where(wanted[:, :, None], self.count, -1.0)
        group = known.argmax(axis=1)  # of several wanted classes the one for which the action was taken most often
        landed = self.value[group, np.arange(len(actions))]
        start, ends = episodes.start[:, actions.feature], [end[:, actions.feature] for end in episodes.span]
        way = landed - np.where(start == self.observer.space.missing_codes[actions.feature], ends[0], start)
        whole = np.where(actions.sign > 0, ends[1], ends[0]) - (landed - way)
        share = way / np.where(whole == 0, 1.0, whole)
        extent = np.where(share > 0, np.minimum(share, 1.0), 1.0)  # all the way where it is beyond, or was never seen
        return np.where(allowed, known.max(axis=1), -np.inf), extent


def wanted_groups(episodes: Episodes) -> Booleans:
    """Which classes are wanted (rows, classes); of a regressor whether its answer is to be raised, or lowered."""
    goal, output = episodes.goal, episodes.answer.output
    if goal.wanted is not None:
        return goal.wanted
    assert goal.lower is not None and goal.upper is not None
    if goal.inside:
        return np.column_stack([output < goal.lower, output >= goal.lower])
    return np.column_stack([np.isfinite(goal.upper), np.isfinite(goal.lower)])
