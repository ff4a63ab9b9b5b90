"""`nice`: from the query towards its nearest unlike neighbour, feature by feature (Brughmans et al., 2023).

Written from the paper, and compared row by row with the authors' package NICEx. HEOM (numbers divided by their range,
1 for another category) finds the nearest training row that meets the goal. The query takes over its values, each time
the one with the largest reward, until the goal is met.

Differences from the paper: there are no true labels, so every neighbour counts. The neighbour is moved within the
constraints first; where that or `max_changes` leaves no way, up to fifty are tried. A regressor's score is how near its
answer is to the goal. Prices multiply distances. The autoencoder of the reward "plausibility" is a scikit-learn network
that learns to give back training rows (standardised numbers, a column a category), judged by the mean square.
"""

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPRegressor

from relax_plugin.arrays import Booleans, Floats, Integers, Values
from relax_plugin.base import Supports, most_changes
from relax_plugin.baselines.common import CHUNK_CELLS, NeighbourExplainer, ranges
from relax_plugin.blackbox import Answer
from relax_plugin.errors import InputError
from relax_plugin.features import FeatureSpace
from relax_plugin.parameters import one_of, param, with_parameters
from relax_plugin.problem import Problem, Proposals
from relax_plugin.search.diverse import fill_slots
from relax_plugin.search.neighbours import Neighbours

REWARDS = ("none", "sparsity", "proximity", "plausibility")
ROUNDS = (1, 9, 40)  # neighbours tried in turn by the queries that are still unsolved
LITTLE = 1e-11  # NICEx: what keeps a quotient finite where a value is taken over at no distance
WIDEST, CODE_SHARE = 64, 4  # hidden numbers of the autoencoder, and its code: a quarter of the inputs
EPOCHS = 300  # of the autoencoder, at most; it stops earlier where its loss stands still


@with_parameters
class Nice(NeighbourExplainer):
    """Takes over the values of the nearest training row that meets the goal, as few of them as are needed.

    Plausible, since every changed cell is a real row's; sparse, by the reward that has its name. A query costs about as
    many model rows as it has features, for each change.
    """

    supports = Supports(
        labels_only=False,
        paper="Brughmans, Leyman, Martens: NICE: an algorithm for nearest instance counterfactual explanations, Data "
        "Mining and Knowledge Discovery 2023, https://arxiv.org/abs/2104.07411",
        tier="reproduced",
        evidence="row by row against the authors' package NICEx 0.2.3, all four rewards, docs/results/calibration.csv",
    )

    max_changes: int | None = most_changes(None, "Where a neighbour is more than so many away, further ones are tried.")
    reward: str = param(
        "sparsity",
        "What the next feature to be taken over has the most of: of what it gains towards the goal, of that per "
        'distance, or of that times what an autoencoder\'s error falls. "none" delivers the neighbour itself.',
        one_of(REWARDS),
    )

    def _fit(self, values: Values, rng: np.random.Generator) -> None:
        self.width_ = ranges(self.space_, values)
        self.neighbours_ = Neighbours.of(values)
        self.autoencoder_ = Autoencoder(self.space_, values, int(self.seed)) if self.reward == "plausibility" else None
        self._learn_answers()

    def _generate(self, problem: Problem, n: int, rng: np.random.Generator) -> Proposals:
        if self.reward == "plausibility" and self.autoencoder_ is None:  # set since the fit
            raise InputError("reward is 'plausibility', but must be so when fit is called: it trains an autoencoder.")
        made = fill_slots(problem, n, self._solve)
        made.note[:] = f"none was found on the way to the {sum(ROUNDS)} nearest training rows that meet the goal"
        return made

    def _solve(self, problem: Problem) -> Proposals:
        made = Proposals.empty(problem, 1)
        order, available = self.answered_.nearest(problem, sum(ROUNDS), unit=self.width_)
        for rows, owner in self._in_rounds(order, available, ROUNDS, made.offered):
            values, met = self._walked(problem, rows, owner)
            values, owner = values[met], owner[met]
            best_first = np.lexsort((*problem.ranks(values, owner), owner))
            first = best_first[np.unique(owner[best_first], return_index=True)[1]]
            made.values[owner[first], 0], made.offered[owner[first], 0] = values[first], True
        made.stage[made.offered] = "neighbour" if self.reward == "none" else "way to a neighbour"
        return made

    def _walked(self, problem: Problem, targets: Values, owner: Integers) -> tuple[Floats, Booleans]:
        values, met = problem.start[owner].copy(), np.zeros(len(owner), dtype=bool)
        size = max(1, CHUNK_CELLS // problem.start.shape[1] ** 2)
        for first in range(0, len(owner), size):
            at = slice(first, first + size)
            goals = problem.within_limits(targets[at], owner[at])
            reached, _ = problem.judge(goals, owner[at]) if len(goals) else (met[at], None)
            if self.reward == "none":
                values[at], met[at] = goals, reached & (_changes(problem, goals, owner[at]) <= problem.max_changes)
                continue
            some = first + np.flatnonzero(reached)
            values[some], met[some] = self._walk(problem, goals[reached], owner[some])
        return values, met

    def _walk(self, problem: Problem, targets: Values, owner: Integers) -> tuple[Floats, Booleans]:
        """NICE, best-first search: side by side, one feature a step, until the goal is met or too much is changed."""
        values, met = problem.start[owner].copy(), np.zeros(len(owner), dtype=bool)
        score = _score(problem, problem.before.take(owner), owner)
        active = np.arange(len(owner))
        while len(active):
            row, feature = np.nonzero(values[active] != targets[active])
            here = values[active][row]
            trial = here.copy()
            trial[np.arange(len(row)), feature] = targets[active][row, feature]
            who = owner[active[row]]
            answer = problem.ask(trial, who)
            fresh = _score(problem, answer, who)
            gained = np.nanmax(fresh - score[active][row], axis=1)
            reward = self._reward(problem.space, gained, here, trial)
            order = np.lexsort((-reward, row))  # of equal ones the first
            best = order[np.unique(row[order], return_index=True)[1]]
            values[active], score[active] = trial[best], fresh[best]
            met[active] = problem.goal.take(who[best]).met(answer.take(best))
            onward = ~met[active] & (_changes(problem, values[active], owner[active]) < problem.max_changes)
            active = active[onward & (values[active] != targets[active]).any(axis=1)]
        return values, met

    def _reward(self, space: FeatureSpace, gained: Floats, here: Values, trial: Values) -> Floats:
        """What each step is worth (NICE §3.2): its gain in score, by distance, or times what the error falls by."""
        if self.reward == "sparsity":
            return gained
        if self.reward == "plausibility":
            assert self.autoencoder_ is not None
            return gained * (self.autoencoder_.error(here) - self.autoencoder_.error(trial))
        at_once = space.is_categorical | (here == space.missing_codes) | (trial == space.missing_codes)
        away = np.where(at_once, here != trial, np.abs(here - trial) / self.width_) * space.prices
        return np.asarray(gained / (away.sum(axis=1) + LITTLE))


class Autoencoder:
    """A network that gives rows back through a narrow code: what it cannot give back is unlike the training rows."""

    def __init__(self, space: FeatureSpace, values: Values, seed: int) -> None:
        self.space = space
        rows = space.encoded(np.unique(values, axis=0))
        width = rows.shape[1]
        hidden = (min(2 * width, WIDEST), max(1, width // CODE_SHARE), min(2 * width, WIDEST))
        network = MLPRegressor(hidden_layer_sizes=hidden, activation="tanh", max_iter=EPOCHS, random_state=seed % 2**32)
        with warnings.catch_warnings():  # that it could learn longer
            warnings.simplefilter("ignore", ConvergenceWarning)
            self.network = network.fit(rows, rows if width > 1 else rows[:, 0])

    def error(self, values: Values) -> Floats:
        """The mean square of what is not given back, row by row."""
        rows = self.space.encoded(values)
        return np.asarray(np.square(self.network.predict(rows).reshape(rows.shape) - rows).mean(axis=1))


def _score(problem: Problem, answer: Answer, owner: Integers) -> Floats:
    """What is to rise (rows, classes or 1): scores of wanted classes, NaN for others; or the nearness to a range."""
    goal = problem.goal.take(owner)
    if answer.scores is None or goal.wanted is None:
        return -goal.gap(answer)[:, None]
    return np.where(goal.wanted, answer.scores, np.nan)


def _changes(problem: Problem, values: Values, owner: Integers) -> Integers:
    return np.asarray((values != problem.start[owner]).sum(axis=1))
