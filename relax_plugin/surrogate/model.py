"""SurrogateModel: a small imitation of the model, fitted to a thousand of its answers, to search and train on.

The rest of the package sees it as a `BlackBox` (`SurrogateBlackBox`) that costs no model rows. Nothing it predicts is
ever delivered: a counterfactual counts only if the model itself confirms it.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from relax_plugin.arrays import Array, Booleans, Floats, Integers, Values, take_array
from relax_plugin.blackbox import Answer, BlackBox, Books
from relax_plugin.errors import InputError
from relax_plugin.features import FeatureSpace
from relax_plugin.goal import BoundGoal
from relax_plugin.surrogate.targets import Targets

LEAST_ROWS = 8
LEAST_ERROR = 1e-9  # of a predicted gap, however well a model is known
FOREMOST = 64  # features of a wide table that are moved
HIDDEN = 128
PIECES = 8  # that each number is cut into, so that the network can follow steps,
MOST_CUT = 200  # unless the table has more features
STEPS = 300  # of the optimiser
BATCH = 128
RATE = 5e-3  # of learning, falling linearly to a twentieth
DECAY = 1.0  # of the weights
OUTLIER = 0.3  # standard deviations from which on errors count linearly
CELLS = 4_000_000  # inputs held at once
FAR = 1000.0  # standard deviations from which on all numbers look alike: single precision must hold their sums
WEIGHTS = ("first", "offset", "second", "last")
NUMBERS = ("scale", "error", "unit", "centre")


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
    """A network of one hidden layer that imitates a model's scores, or a regressor's values.

    It sees numbers standardised, and piece by piece between the quantiles of `values`, the training rows; and
    categories one-hot. A number that is missing in some of the training rows has a column that says so; else a missing
    one is taken for its mean. `error` is the typical error of a predicted gap where the search goes. The `blackbox`
    tells the task and the kind of scores, and is not asked again.
    """

    def __init__(self, blackbox: BlackBox, values: Values, seed: int = 0) -> None:
        assert blackbox.space is not None
        self.space: FeatureSpace = blackbox.space
        self.blackbox, self.targets, self.rng = blackbox, Targets(blackbox), np.random.default_rng(seed)
        self.error, self.agreement, self.steps = 1.0, Agreement(np.nan, np.nan, np.nan, 0), 0
        missing = values == self.space.missing_codes
        shares = np.linspace(0.0, 1.0, (PIECES if len(self.space) <= MOST_CUT else 1) + 1)
        if missing.any():
            values = np.where(missing, np.nan, values)
        self._lay_out(np.nanquantile(values, shares, axis=0).T.copy(), missing.any(axis=0))
        self.weights: list[Array] = []

    def _lay_out(self, edges: Floats, gaps: Booleans) -> None:
        """Decide which columns the network sees of each feature; `gaps` are those that are missing in some rows."""
        self.edges, self.gaps = edges, gaps
        width = np.diff(edges, axis=1)
        self.width = np.where(width > 0, width, np.inf)  # an empty piece is always 0
        columns = [
            len(feature.categories) if feature.kind == "categorical" else edges.shape[1] + int(gap)
            for feature, gap in zip(self.space.features, gaps, strict=True)
        ]
        ends = np.cumsum([0, *columns])
        self.columns, self.inputs = [slice(int(a), int(b)) for a, b in pairwise(ends)], int(ends[-1])

    def fit(self, values: Values, answer: Answer, share: float = 1.0) -> "SurrogateModel":
        """Train on queried rows for a share of all steps; called again, go on from there with other rows."""
        if len(values) < LEAST_ROWS:
            raise InputError(
                f"a surrogate model needs at least {LEAST_ROWS} queried rows, and {len(values)} are given."
            )
        if not self.weights:
            self.targets.measure(answer)
            targets = self.targets.of(answer)
            self.level, self.scale = targets.mean(axis=0), float((targets - targets.mean(axis=0)).std()) or 1.0
            bounds = self.inputs**-0.5, self.inputs**-0.5, HIDDEN**-0.5, 0.0
            drawn = (self.rng.uniform(-one, one, shape) for one, shape in zip(bounds, self._shapes(), strict=True))
            self.weights = [weight.astype(np.float32) for weight in drawn]
            self.means, self.squares = ([np.zeros_like(one) for one in self.weights] for _ in range(2))
        inputs = self._inputs(values)
        wanted = ((self.targets.of(answer) - self.level) / self.scale).astype(np.float32)
        for _ in range(round(share * STEPS)):
            rows = self.rng.integers(0, len(inputs), min(BATCH, len(inputs)))
            self._descend(inputs[rows], wanted[rows])
        return self

    def _descend(self, inputs: Array, wanted: Array) -> None:
        """One step of AdamW down the gradient of Huber's loss."""
        first, offset, second, last = self.weights
        hidden = np.maximum(inputs @ first + offset, 0.0)
        slope = np.clip((hidden @ second + last - wanted) / OUTLIER, -1.0, 1.0) / wanted.size
        back = (slope @ second.T) * (hidden > 0)
        gradients = inputs.T @ back, back.sum(axis=0), hidden.T @ slope, slope.sum(axis=0)
        self.steps += 1
        rate = np.float32(RATE * max(1.0 - 0.95 * self.steps / STEPS, 0.05))
        step, size = rate / np.float32(1 - 0.9**self.steps), np.float32(1 - 0.999**self.steps)
        for weight, gradient, mean, square in zip(self.weights, gradients, self.means, self.squares, strict=True):
            mean += np.float32(0.1) * (gradient - mean)
            square += np.float32(0.001) * (gradient**2 - square)
            weight *= 1 - rate * np.float32(DECAY)
            weight -= step * mean / (np.sqrt(square / size) + np.float32(1e-8))

    def judge(self, values: Values, answer: Answer, goal: BoundGoal) -> None:
        """Learn from rows it has not seen, each asked about for a goal of its own, how far to trust it."""
        wanted, told = self.targets.of(answer), self.predict(values)
        missed = self.targets.gap(goal, wanted) - self.targets.gap(goal, told)
        self.error = max(float(np.sqrt((missed**2).mean())), LEAST_ERROR)
        variance = float(((wanted - wanted.mean(axis=0)) ** 2).sum())
        explained = 1.0 - float(((wanted - told) ** 2).sum()) / variance if variance > 0 else 1.0
        labels = worst = np.nan
        if self.blackbox.task == "classification":
            same = self.targets.answer(told).output == answer.output
            classes = [same[answer.output == one] for one in np.unique(answer.output)]
            labels, worst = float(same.mean()), min(float(own.mean()) for own in classes)
        self.agreement = Agreement(labels, worst, explained, len(values))

    def predict(self, values: Values) -> Floats:
        """Targets of rows (rows, targets)."""
        return self._told(self.hidden(values))

    def hidden(self, states: Values) -> Array:
        """What the hidden layer holds before its rectifiers (rows, hidden)."""
        first, offset, size = self.weights[0], self.weights[1], max(CELLS // self.inputs, 1)
        parts = [self._inputs(states[i : i + size]) @ first for i in range(0, max(len(states), 1), size)]
        return np.asarray(np.concatenate(parts) + offset)

    def predict_near(self, states: Values, hidden: Array, owner: Integers, values: Values) -> Floats:
        """Targets of rows that differ in few cells from the states of their owners, whose hidden layer is known."""
        made, start = hidden[owner], states[owner]
        changed = values != start
        for j in np.flatnonzero(changed.any(axis=0)).tolist():
            rows = np.flatnonzero(changed[:, j])
            added = self._seen(j, values[rows, j]) - self._seen(j, start[rows, j])
            made[rows] += added @ self.weights[0][self.columns[j]]
        return self._told(made)

    def gap(self, goal: BoundGoal, values: Values) -> Floats:
        """How far rows are from their goals on the surrogate model."""
        return self.targets.gap(goal, self.predict(values))

    def foremost(self, movable: Booleans) -> Booleans:
        """Those of the features that may move (rows, features) which can do most: all, unless the table is wide."""
        if len(self.space) <= FOREMOST:
            return movable
        sizes = np.abs(self.weights[0]) @ np.abs(self.weights[2]).sum(axis=1)
        influence = np.array([sizes[columns].max(initial=0.0) for columns in self.columns])
        order = np.argsort(-np.where(movable, influence, -1.0), axis=-1, kind="stable")
        return np.asarray(movable & (np.argsort(order, axis=-1, kind="stable") < FOREMOST))

    def weights_by_name(self) -> dict[str, Array]:
        """All that a file must hold to restore the fitted surrogate model."""
        numbers = dict(zip(NUMBERS, (self.scale, self.error, self.targets.unit, self.targets.centre), strict=True))
        layout = {"edges": self.edges, "gaps": self.gaps.astype(np.uint8), "level": self.level}
        arrays = layout | {name: np.array(number) for name, number in numbers.items()}
        return arrays | dict(zip(WEIGHTS, self.weights, strict=True))

    @classmethod
    def restored(cls, blackbox: BlackBox, arrays: dict[str, Array], prefix: str = "") -> "SurrogateModel":
        """The surrogate model of a file, whose arrays are taken out; refused if its numbers cannot be those of one."""
        assert blackbox.space is not None
        world = cls(blackbox, np.zeros((1, len(blackbox.space))))

        def taken(name: str, kind: Any, shape: tuple[int, ...] = ()) -> Array:
            return take_array(arrays, prefix + name, kind, *shape)

        gaps = taken("gaps", np.uint8, world.gaps.shape).astype(bool) & ~world.space.is_categorical
        world._lay_out(taken("edges", np.float64, world.edges.shape), gaps)
        world.weights = [taken(name, np.float32, shape) for name, shape in zip(WEIGHTS, world._shapes(), strict=True)]
        world.level = taken("level", np.float64, (world.targets.count,))
        numbers = [float(taken(name, np.float64)) for name in NUMBERS]
        world.scale, world.error, world.targets.unit, world.targets.centre = numbers
        if (np.diff(world.edges, axis=1) < 0).any() or min(world.scale, world.targets.unit) <= 0.0:
            raise InputError("the edges of the surrogate model fall, or its scale or its unit is not above 0.")
        if world.error < LEAST_ERROR:
            raise InputError(f"the error of the surrogate model is {world.error}.")
        return world

    def _shapes(self) -> list[tuple[int, int]]:
        return [(self.inputs, HIDDEN), (1, HIDDEN), (HIDDEN, self.targets.count), (1, self.targets.count)]

    def _told(self, hidden: Array) -> Floats:
        told = np.maximum(hidden, 0.0) @ self.weights[2] + self.weights[3]
        return np.asarray(told * self.scale + self.level, dtype=np.float64)

    def _inputs(self, values: Values) -> Array:
        made = np.empty((len(values), self.inputs), dtype=np.float32)
        for j, columns in enumerate(self.columns):
            made[:, columns] = self._seen(j, values[:, j])
        return made

    def _seen(self, j: int, column: Floats) -> Array:
        """What the network sees of cells of one feature (cells, columns)."""
        if self.space.is_categorical[j]:
            return np.asarray(column[:, None] == np.arange(len(self.space.features[j].categories)), dtype=np.float32)
        missing = column == self.space.missing_codes[j]
        column = np.where(missing, self.space.mean[j], column)
        pieces = np.clip((column[:, None] - self.edges[j, :-1]) / self.width[j], 0.0, 1.0) - 0.5
        standardised = np.clip((column - self.space.mean[j]) / self.space.scale[j], -FAR, FAR)
        seen = np.column_stack([standardised, pieces])
        if self.gaps[j]:
            seen = np.column_stack([np.where(missing[:, None], 0.0, seen), missing])
        return np.asarray(seen, dtype=np.float32)


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
