"""SurrogateModel: a small imitation of the model, fitted to a thousand of its answers, to search and train in.

The rest of the core sees it as a `BlackBox` (`SurrogateBlackBox`) that costs no model rows. Nothing it says is ever
delivered: a counterfactual counts only if the model itself confirms it.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from relax_plugin.arrays import Booleans, Floats, Integers, Values
from relax_plugin.blackbox import Answer, BlackBox, Books
from relax_plugin.errors import InputError
from relax_plugin.features import FeatureSpace
from relax_plugin.goal import BoundGoal
from relax_plugin.search.moves import Moves
from relax_plugin.surrogate.boosted import BoostedTrees
from relax_plugin.surrogate.network import TabledNetwork, refuse_others
from relax_plugin.surrogate.targets import Targets

LEAST_ROWS = 8
LEAST_ERROR = 1e-9  # of a predicted gap, however well a model is known
PARTS = ("network.", "trees.")  # begin the names of their numbers in a file
FOREMOST = 64  # features of a wide table that are moved
SOME_ROWS = 64  # from which their influence is seen
ALONE = 0.85  # share in the mean from which on one of the two is used alone: it is quicker


@dataclass(frozen=True)
class Agreement:
    """How well a surrogate model knows the model, measured on queried rows before it learned from them."""

    labels: float  # share of rows with the same label; NaN for a regressor
    worst: float  # the same for the class where it is least; NaN for a regressor
    explained: float  # share of the variance of logits (or of a regressor's values); at most 1
    rows: int

    def __str__(self) -> str:
        explained = f"{self.explained:.1%} of the variance explained"
        if np.isnan(self.labels):
            return explained
        of = f"{self.rows} rows where the search goes"
        return f"the same label on {self.labels:.1%} of {of} ({self.worst:.1%} in the worst class), {explained}"


class SurrogateModel:
    """A small network and boosted trees, of which the mean imitates a model's scores, or a regressor's values.

    The `blackbox` tells the task and the kind of scores, and is not asked again. Between the quantiles of `values`, the
    training rows, the network sees a number piece by piece. `weight` is the share of the network in the mean, `error`
    the typical error of a predicted gap where the search goes, and `agreement` is on rows it had not seen when it was
    asked about them.
    """

    def __init__(self, blackbox: BlackBox, values: Values, seed: int = 0) -> None:
        assert blackbox.space is not None
        self.space: FeatureSpace = blackbox.space
        self.blackbox = blackbox
        self.targets = Targets(blackbox)
        self.network = TabledNetwork(self.space, values, seed)
        self.trees = BoostedTrees(self.space, values, seed)
        self.weight, self.error, self.fitted = 0.5, 1.0, False
        self.influence = np.zeros(len(self.space))  # of each feature; 0: not looked at
        self.agreement = Agreement(np.nan, np.nan, np.nan, 0)

    def fit(self, values: Values, answer: Answer, share: float = 1.0) -> "SurrogateModel":
        """Fit to queried rows for a share of the whole effort; called again, go on from there with other rows."""
        if len(values) < LEAST_ROWS:
            raise InputError(
                f"a surrogate model needs at least {LEAST_ROWS} queried rows, and {len(values)} are given."
            )
        if not self.fitted:
            self.targets.measure(answer)
        self.fitted, targets = True, self.targets.of(answer)
        if self.weight > 0:
            self.network.fit(values, targets, share)
        if self.weight < 1:
            self.trees.fit(values, targets, share)
        return self

    def finish(self) -> "SurrogateModel":
        """Drop what only further training would need."""
        self.network.training, self.trees.grown = None, []
        return self

    def judge(self, values: Values, answer: Answer, goal: BoundGoal) -> None:
        """Learn from rows it has not seen how far to trust it, and whose share in the mean shall be how large.

        Each row was asked about for a goal of its own.
        """
        wanted = self.targets.of(answer)
        one, other = self.network.predict(values), self.trees.predict(values)
        errors = [float(((wanted - guess) ** 2).mean()) ** 2 + 1e-24 for guess in (one, other)]
        weight = errors[1] / (errors[0] + errors[1])
        self.weight = 1.0 if weight > ALONE else 0.0 if weight < 1 - ALONE else weight
        told = self.weight * one + (1 - self.weight) * other
        missed = self.targets.gap(goal, wanted) - self.targets.gap(goal, told)
        self.error = max(float(np.sqrt((missed**2).mean())), LEAST_ERROR)
        variance = float(((wanted - wanted.mean(axis=0)) ** 2).sum())
        explained = 1.0 - float(((wanted - told) ** 2).sum()) / variance if variance > 0 else 1.0
        labels = worst = np.nan
        if self.blackbox.task == "classification":
            same = self.targets.answer(told).output == answer.output
            labels, worst = (
                float(same.mean()),
                min(float(same[answer.output == c].mean()) for c in np.unique(answer.output)),
            )
        self.agreement = Agreement(labels, worst, explained, len(values))

    def predict(self, values: Values) -> Floats:
        """Targets of rows (rows, targets)."""
        return self._mean("predict", values)

    def predict_near(self, states: Values, hidden: Floats | None, owner: Integers, values: Values) -> Floats:
        """Targets of rows that differ in few cells from the states of their owners; `hidden` is that of the states."""
        if self.weight == 0 or hidden is None:
            return self.trees.predict(values)
        one = self.network.predict_near(states, hidden, owner, values)
        return one if self.weight == 1 else self.weight * one + (1 - self.weight) * self.trees.predict(values)

    def hidden(self, states: Values) -> Floats | None:
        """What `predict_near` needs of the states."""
        return self.network.hidden(states) if self.weight > 0 else None

    def predict_changed(self, states: Values, row: Integers, feature: Integers, value: Floats) -> Floats:
        """Targets of the rows `states[row]` with one `feature` of each at another `value` (changes, targets)."""
        return self._mean("predict_changed", states, row, feature, value)

    def gap(self, goal: BoundGoal, values: Values) -> Floats:
        """How far rows are from their goals on the surrogate model."""
        return self.targets.gap(goal, self.predict(values))

    def weigh_features(self, values: Values, moves: Moves) -> None:
        """See how much each feature can do alone, from a few rows: of wide tables only the foremost are moved."""
        if len(self.space) <= FOREMOST:
            return
        predicted = self.predict_moves(values[:SOME_ROWS], moves.feature, self.table(moves.feature, moves.value))
        lowest, highest = (end.reduceat(predicted, _firsts(moves.feature), axis=1) for end in (np.minimum, np.maximum))
        self.influence = np.zeros(len(self.space))
        self.influence[np.unique(moves.feature)] = (highest - lowest).max(axis=2).mean(axis=0)

    def foremost(self, movable: Booleans) -> Booleans:
        """Those of the features that may move (rows, features) which can do most: all, unless the table is wide."""
        order = np.argsort(np.where(movable, -self.influence, np.inf), axis=-1, kind="stable")
        return movable & (np.argsort(order, axis=-1, kind="stable") < FOREMOST)

    def moved(self) -> Integers:
        """The features that an agent in this world moves: all, unless the table is wide."""
        movable = ~self.space.limits().frozen[0]
        wide = len(self.space) > FOREMOST and movable.any()
        return np.flatnonzero(self.foremost(movable)) if wide else np.arange(len(self.space))

    def table(self, feature: Integers, value: Floats) -> tuple[Any, Any]:
        """What `predict_moves` needs of each move."""
        network = self.network.table(feature, value) if self.weight > 0 else None
        return network, self.trees.table(feature, value) if self.weight < 1 else None

    def predict_moves(
        self, states: Values, feature: Integers, table: tuple[Any, Any], chosen: Integers | None = None
    ) -> Floats:
        """Targets of every state with one feature moved (states, moves, targets); or of the moves `chosen` for each."""
        if self.weight == 1:
            return self.network.predict_moves(states, feature, table[0], chosen)
        if self.weight == 0:
            return self.trees.predict_moves(states, feature, table[1], chosen)
        one = self.network.predict_moves(states, feature, table[0], chosen)
        other = self.trees.predict_moves(states, feature, table[1], chosen)
        one *= np.float32(self.weight)
        other *= np.float32(1 - self.weight)
        one += other
        return one

    def weights_by_name(self) -> dict[str, Tensor]:
        """All that a file must hold to restore the fitted surrogate model."""
        both = zip(PARTS, (self.network.arrays(), self.trees.arrays()), strict=True)
        arrays = {f"{part}{name}": array for part, own in both for name, array in own.items()}
        numbers = {"weight": self.weight, "error": self.error, "centre": self.targets.centre, "unit": self.targets.unit}
        arrays |= {name: np.array(number) for name, number in numbers.items()} | {"influence": self.influence}
        return {name: torch.tensor(array).contiguous() for name, array in arrays.items()}

    @classmethod
    def restored(cls, blackbox: BlackBox, weights: dict[str, Tensor]) -> "SurrogateModel":
        """The surrogate model that a file holds; refused if its numbers cannot be those of one."""
        space = blackbox.space
        assert space is not None
        arrays = {name: weight.numpy().copy() for name, weight in weights.items()}
        world = cls(blackbox, np.zeros((1, len(space)))).finish()
        for part, load in zip(PARTS, (world.network.load, world.trees.load), strict=True):
            own = [name for name in arrays if name.startswith(part)]
            load({name.removeprefix(part): arrays.pop(name) for name in own}, world.targets.count)
        kinds: dict[str, tuple[Any, tuple[int, ...]]] = {"influence": (np.float64, (len(space),))}
        refuse_others(kinds | dict.fromkeys(("weight", "error", "centre", "unit"), (np.float64, ())), arrays)
        world.influence = arrays["influence"]
        world.weight, world.error = float(arrays["weight"]), float(arrays["error"])
        world.targets.centre, world.targets.unit = float(arrays["centre"]), float(arrays["unit"])
        if not 0.0 <= world.weight <= 1.0 or world.error < LEAST_ERROR or world.targets.unit <= 0.0:
            raise InputError(
                f"the surrogate model's weight is {world.weight}, its error {world.error}, "
                f"its unit {world.targets.unit}."
            )
        return world

    def _mean(self, what: str, *arguments: Any) -> Floats:
        if self.weight == 1:
            return np.asarray(getattr(self.network, what)(*arguments))
        if self.weight == 0:
            return np.asarray(getattr(self.trees, what)(*arguments))
        one, other = getattr(self.network, what)(*arguments), getattr(self.trees, what)(*arguments)
        return np.asarray(self.weight * one + (1 - self.weight) * other)


def _firsts(feature: Integers) -> Integers:
    return np.flatnonzero(np.append(True, np.diff(feature) > 0))


class SurrogateBlackBox(BlackBox):
    """A surrogate model in the place of the model it imitates: the same classes and scores, and books of its own.

    It answers with labels alone where the model gives no more, unless its `scores` are asked for.
    """

    def __init__(self, surrogate: SurrogateModel, scores: bool = False) -> None:
        self.__dict__.update(surrogate.blackbox.__dict__)
        self.surrogate, self.scores = surrogate, scores
        self.books = Books()
        self.strict = False

    @property
    def has_scores(self) -> bool:
        """Whether it gives scores, or values."""
        return self.scores or super().has_scores

    def ask(self, values: Values, mark_refused: bool = False) -> Answer:
        """What the surrogate model believes the model would answer."""
        self.books.enter(rows=len(values), calls=1)
        answer = self.surrogate.targets.answer(self.surrogate.predict(values))
        return answer if self.has_scores else Answer(answer.output)

    def confirm(self, rows: Any, known: Any = None, mark_refused: bool = False) -> Answer:
        raise AssertionError("only the model itself confirms an answer")
