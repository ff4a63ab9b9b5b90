"""Question: what is to be proved of some queries and a network, checked before anything is searched.

A goal becomes linear inequalities of the outputs (`Target`), and what may change in a query its `Moves`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from relax_plugin.arrays import Array, Booleans, Floats, Integers, Values
from relax_plugin.blackbox import Answer, BlackBox
from relax_plugin.cached import cached_property
from relax_plugin.errors import GoalError, UnsupportedError
from relax_plugin.features import FeatureSpace, Rows
from relax_plugin.goal import BoundGoal, Goal
from relax_plugin.limits import Limits
from relax_plugin.networks.relu import ReluNetwork
from relax_plugin.problem import Problem
from relax_plugin.proofs.probing import difference, probe_values, refuse_another_model
from relax_plugin.results import taken
from relax_plugin.rules.repair import RowRules

ON_GRID = 1e-6  # of a step: what a point of the grid may be off by rounding
AS_READ = 1e-4  # by which answers may differ from those of the network that was read, in single precision


@dataclass(frozen=True)
class Target:
    """The goal of one query."""

    matrix: Floats  # (groups, sums, outputs)
    offset: Floats  # (groups, sums)
    slack: float = 0.0  # what one rounding of a probability is worth in logits

    def gap(self, outputs: Floats) -> Floats:
        """How far above 0 the worst sum of the best group is (rows,)."""
        return np.asarray(self.sums(outputs).min(axis=2).max(axis=1))

    def sums(self, outputs: Floats) -> Floats:
        """The sums (rows, groups, sums)."""
        return np.asarray(np.einsum("gso,no->ngs", self.matrix, outputs) + self.offset)

    def margin(self, error: Floats, precision: float) -> float:
        """How far a sum may be from the exact one, given how far each output may be, and the rounding of an answer."""
        return float((np.abs(self.matrix) @ error).max() + self.slack * precision)


def target_of(goal: BoundGoal, row: int, width: int) -> Target:
    """The target of a query; raises UnsupportedError, *it ...*, where the goal is not linear in the outputs."""
    if goal.wanted is None:
        assert goal.lower is not None and goal.upper is not None
        above, below = (1.0, -float(goal.lower[row])), (-1.0, float(goal.upper[row]))
        if not goal.inside:
            above, below = (1.0, -float(goal.upper[row])), (-1.0, float(goal.lower[row]))
        finite = [side for side in (above, below) if np.isfinite(side[1])]
        matrix, offset = np.array([[side] for side, _ in finite]), np.array([end for _, end in finite])
        return Target(matrix[None], offset[None]) if goal.inside else Target(matrix[:, None], offset[:, None])
    wanted = goal.wanted[row]
    if not wanted.any():  # a model of one class
        return Target(np.zeros((1, 1, width)), np.full((1, 1), -np.inf))
    if width == 1:
        return _of_two(goal, row, bool(wanted[1]))
    identity, count = np.eye(width), int(wanted.sum())
    if goal.needs_scores:
        if width > 2:
            raise UnsupportedError("it proves nothing about the probability of a class among more than two")
        own = int(wanted.argmax())
        least, slack = _least_logit(goal, row)
        return Target((identity[own] - identity[1 - own])[None, None], np.array([[-least]]), slack)
    rivals = np.flatnonzero(~wanted) if count > 1 else None
    groups = [
        identity[own] - identity[np.delete(np.arange(width), own) if rivals is None else rivals]
        for own in np.flatnonzero(wanted)
    ]
    matrix = np.array(groups)
    return Target(matrix, np.zeros(matrix.shape[:2]))


def _of_two(goal: BoundGoal, row: int, rises: bool) -> Target:
    """Two classes, one logit: class 1 above 0."""
    least, slack = _least_logit(goal, row) if goal.needs_scores else (0.0, 0.0)
    return Target(np.full((1, 1, 1), 1.0 if rises else -1.0), np.array([[-least]]), slack)


def _least_logit(goal: BoundGoal, row: int) -> tuple[float, float]:
    """The least log odds of the wanted class, and what rounding is worth there."""
    told = goal.min_probability if goal.least is None else float(goal.least[row])
    assert told is not None
    probability = float(np.clip(told, 1e-15, 1 - 1e-15))
    logit = float(np.log(probability) - np.log1p(-probability))
    slack = 16.0 / (probability * (1 - probability))
    return (max(logit, 0.0) if goal.least is None else logit), slack


@dataclass(frozen=True)
class Moves:
    """The moves of one query: a number that moves by an amount, or another category, which moves by just 1."""

    space: FeatureSpace
    limits: Limits
    start: Floats  # (features,)
    first: Floats  # (rectifiers,) what goes into the first ones for the query itself
    feature: Integers  # (moves,), as all below but `error`
    code: Floats  # the category; NaN of a number
    slope: Floats  # (moves, rectifiers) what one unit of the move adds to `first`
    low: Floats  # the least amount; of a value outside of its bounds, `low` and `high` have one sign
    high: Floats
    step: Floats  # amounts are origin + k step; step 0: any
    origin: Floats
    price: Floats  # of one unit
    error: Floats  # (outputs,) how far the library's outputs may be from exact ones wherever moves lead

    def __len__(self) -> int:
        return len(self.feature)

    def values(self, active: Integers, amount: Floats) -> Values:
        """The rows (n, features) in which moves (n, k) are made by some amounts, as cells can hold them."""
        values = np.repeat(self.start[None], len(active), axis=0)
        rows = np.arange(len(active))[:, None]
        code = self.code[active]
        values[rows, self.feature[active]] = np.where(np.isnan(code), self.start[self.feature[active]] + amount, code)
        return np.asarray(self.limits.project(values, np.broadcast_to(self.start, values.shape)))

    def down(self, active: Integers, amount: Floats) -> Floats:
        """The largest amount on the grid that is not larger."""
        step = np.where(self.step[active] > 0, self.step[active], 1.0)
        origin = self.origin[active]
        below = origin + np.floor((amount - origin) / step + ON_GRID) * step
        return np.where(self.step[active] > 0, below, amount)


def moves_of(
    network: ReluNetwork, space: FeatureSpace, limits: Limits, row: int, start: Floats, precision: float
) -> Moves:
    """The moves of a query, under its limits."""
    limits = limits.take(np.array([row]))
    low, high = (end[0] for end in limits.span(start[None]))
    numbers = np.flatnonzero(~space.is_categorical & ((low != start) | (high != start)))
    feature, code, rows = numbers.tolist(), [np.nan] * len(numbers), []
    for j in np.flatnonzero(space.is_categorical):
        first, last = limits.category_offsets[j : j + 2]
        for category in np.flatnonzero(limits.choices[0, first:last]):
            other = start.copy()
            other[j] = category
            if category != start[j] and low[j] <= category <= high[j] and limits.kept(other[None], start[None])[0]:
                feature.append(int(j))
                code.append(float(category))
                rows.append(other)
    count = len(numbers)
    asked = model_inputs(space, np.array([start, *rows]))
    effect = np.zeros((len(feature), asked.shape[1]))
    effect[np.arange(count), [space.columns.index(space.names[j]) for j in numbers]] = 1.0
    effect[count:] = asked[1:] - asked[0]
    many = np.array(feature, dtype=np.int64)
    least = np.r_[low[numbers] - start[numbers], np.ones(len(rows))]
    most = np.r_[high[numbers] - start[numbers], np.ones(len(rows))]
    reach = np.stack([effect * least[:, None], effect * most[:, None], np.zeros_like(effect)])
    by_feature = np.zeros((2, len(space), asked.shape[1]))  # moves of one feature exclude each other
    np.minimum.at(by_feature[0], many, reach.min(axis=0))
    np.maximum.at(by_feature[1], many, reach.max(axis=0))
    box = asked[0] + by_feature.sum(axis=1)
    return Moves(
        space=space,
        limits=limits,
        start=start,
        first=asked[0] @ network.weights[0] + network.biases[0],
        feature=many,
        code=np.array(code),
        slope=effect @ network.weights[0],
        low=least,
        high=most,
        step=np.r_[_true_steps(space, numbers, low, high), np.zeros(len(rows))],
        origin=np.r_[space.grid.anchor[numbers] - start[numbers], np.zeros(len(rows))],
        price=np.r_[space.prices[numbers] / space.scale[numbers], space.prices[many[count:]]],
        error=network.rounding(box[0], box[1], precision),
    )


def _true_steps(space: FeatureSpace, numbers: Integers, low: Floats, high: Floats) -> Floats:
    """The steps of numbers; 0 where they are so short that cells of the dtype may hold what is between them."""
    grid = space.grid.take(numbers)
    size = np.maximum(np.maximum(np.abs(low), np.abs(high))[numbers], np.abs(grid.anchor))
    eps = np.array([float(np.finfo(f"f{size_}").eps) for size_ in grid.precision])
    return np.where(grid.step > 8.0 * eps * size, grid.step, 0.0)


def model_inputs(space: FeatureSpace, values: Values) -> Floats:
    """The rows as the model gets them, as numbers."""
    return np.asarray(space.model_input(values), dtype=np.float64)


def input_precision(space: FeatureSpace) -> float:
    """The rounding of the coarsest numbers that rows are made of."""
    kinds = [np.dtype(space.array_dtype)] if space.container == "array" else _numpy_dtypes(space)
    return max([float(np.finfo(kind).eps) for kind in kinds if kind.kind == "f"], default=0.0)


def _numpy_dtypes(space: FeatureSpace) -> list[np.dtype[Any]]:
    dtypes = [dtype for f in space.features for dtype in (f.dtypes or (f.dtype,))]
    return [getattr(dtype, "numpy_dtype", dtype) for dtype in dtypes if not isinstance(dtype, pd.CategoricalDtype)]


@dataclass(frozen=True)
class Asked:
    """One query: what may change, what is wanted, and how near to it rounding decides."""

    row: int
    moves: Moves
    target: Target
    margin: float


@dataclass(frozen=True)
class Question:
    """Some queries of a network, with goals and limits."""

    network: ReluNetwork
    blackbox: BlackBox
    space: FeatureSpace
    limits: Limits
    rows: Rows
    values: Values
    goal: BoundGoal
    before: Answer  # the model's own answers to the queries

    @classmethod
    def of(cls, model: Any, space: FeatureSpace, rows: Rows, goal: Goal | None, limits: Limits | None) -> "Question":
        """Read the network and ask the model about the queries; UnsupportedError, *skipped because ...*, if refused."""
        blackbox = _bound(model, space)
        network = _network(blackbox, space)
        space, values = space.taking_in(rows)
        limits = space.limits(values=values) if limits is None else limits
        if blackbox.classes is None:
            blackbox.learn(values)
        before = blackbox.confirm(rows)
        if goal is None and blackbox.task == "regression":
            raise GoalError("a regressor needs a goal: Goal.shift(delta) or Goal.between(low, high).")
        bound = (goal or Goal.flip()).bind(blackbox, before)
        return cls(network, blackbox, space, limits, rows, values, bound, before)._as_its_network()

    @classmethod
    def about(cls, problem: Problem, limits: Limits) -> "Question":
        """The question of a call, under limits that may be narrower; UnsupportedError, *skipped because ...*."""
        blackbox, space, values = problem.blackbox, problem.space, problem.start
        rows, network = space.model_input(values), _network(blackbox, space)
        return cls(network, blackbox, space, limits, rows, values, problem.goal, problem.before)._as_its_network()

    @cached_property
    def already(self) -> Booleans:
        """Which queries meet their goal."""
        return self.goal.met(self.before)

    @cached_property
    def hopeless(self) -> Booleans:
        """Which queries no answer whatever could help."""
        return np.asarray(self.goal.impossible(self.before) != "")

    @cached_property
    def notes(self) -> Array:
        """Why a query is not looked at; "" if it is."""
        missing = self.space.is_missing(self.values).any(axis=1)
        known = np.where(self.space.is_categorical, np.diff(self.space.category_offsets), np.inf)
        unseen = (self.values >= known).any(axis=1)
        notes = np.where(missing, "a cell of it is missing", np.where(unseen, "it has an unseen category", ""))
        return np.asarray(notes.astype(object))

    def __len__(self) -> int:
        return len(self.values)

    def _as_its_network(self) -> "Question":
        """The question, refused where the model does not answer as the network that was read."""
        known = np.flatnonzero(self.notes == "")
        if len(known) == 0:
            return self
        values, model = self.values[known], (self.blackbox, self.space, "network")
        if reason := difference(*model, values, self.before.take(known), self._as_read(values), AS_READ):
            raise UnsupportedError(reason)

        def probes() -> Values:
            rows = probe_values(self.space, values[0])
            return rows[~self.space.is_missing(rows).any(axis=1)]

        refuse_another_model(*model, probes, self._as_read, AS_READ)
        return self

    def _as_read(self, values: Values) -> Answer:
        outputs = self.network.outputs(model_inputs(self.space, values))
        if self.blackbox.task == "regression":
            return Answer(outputs[:, 0])
        logits = np.column_stack([np.zeros(len(values)), outputs]) if outputs.shape[1] == 1 else outputs
        powers = np.exp(logits - logits.max(axis=1, keepdims=True))
        read = powers / powers.sum(axis=1, keepdims=True)
        return Answer(read.argmax(axis=1).astype(np.float64), read if self.blackbox.has_probabilities else None)

    def open(self) -> Iterator[Asked]:
        """The queries that are worth a search, one after the other."""
        precision = input_precision(self.space)
        for row in np.flatnonzero(~self.already & ~self.hopeless & (self.notes == "")):
            try:
                target = target_of(self.goal, int(row), self.network.width)
            except UnsupportedError as error:
                raise UnsupportedError(f"skipped because {error}.") from error
            moves = moves_of(self.network, self.space, self.limits, int(row), self.values[row], precision)
            margin = target.margin(moves.error, max(self.network.precision, precision))
            yield Asked(int(row), moves, target, margin)

    def met(self, asked: Asked, values: Values) -> Booleans:
        """Whether the model's own answers to rows as they would be delivered meet the goal, and these the rules."""
        if len(values) == 0:
            return np.zeros(0, dtype=bool)
        owner: Integers = np.full(len(values), asked.row)
        kept = RowRules(self.space, self.space.bound_rules, self.values).holds(values, owner)
        delivered = self.space.restore(values, taken(self.rows, owner), self.values[owner])
        return np.asarray(self.goal.take(owner).met(self.blackbox.confirm(delivered)) & kept)


def _bound(model: Any, space: FeatureSpace) -> BlackBox:
    if not isinstance(model, BlackBox):
        return BlackBox(model, space)
    return model if model.space is space and model.classes is not None else model.bound_to(space)


def _network(blackbox: BlackBox, space: FeatureSpace) -> ReluNetwork:
    """The network that a model is; UnsupportedError, *skipped because ...*, if it is none, or its rows no numbers."""
    reason = _why_not_numbers(space)
    try:
        if reason is None:
            return ReluNetwork.of(blackbox)
    except UnsupportedError as error:
        reason = str(error)
    raise UnsupportedError(f"skipped because {reason}.")


def _why_not_numbers(space: FeatureSpace) -> str | None:
    """Why rows of a space are not numbers that a network takes as they are; None if they are."""
    if space.derived:
        return f"it needs columns that are chosen, and {space.derived[0].name!r} is derived from others"
    for feature in space.features:
        if feature.carried:
            return f"it needs numbers, and {feature.name!r} is carried to the model as it is"
        if feature.vanishable:
            return f"it proves nothing where a number may become missing, as {feature.name!r} may"
        words = [one for one in feature.categories if not isinstance(one, bool | int | float | np.number)]
        if words and not feature.columns:
            return f"it needs numbers, and {feature.name!r} has categories that are none; one-hot columns are taken"
    return None
