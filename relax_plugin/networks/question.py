"""Question: what is to be proved of some queries and a network, checked before anything is searched."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from relax_plugin.arrays import Array, Booleans, Integers, Values
from relax_plugin.blackbox import Answer, BlackBox
from relax_plugin.errors import GoalError, UnsupportedError
from relax_plugin.features import FeatureSpace, Rows
from relax_plugin.goal import BoundGoal, Goal
from relax_plugin.limits import Limits
from relax_plugin.networks.moves import Moves, input_precision, model_inputs, moves_of, refuse_what_is_no_number
from relax_plugin.networks.relu import ReluNetwork
from relax_plugin.networks.targets import Target, target_of
from relax_plugin.problem import Problem
from relax_plugin.results import taken
from relax_plugin.rules.kept import KeptRules

AS_READ = 1e-4  # by which answers may differ from those of the network that was read, in single precision


@dataclass(frozen=True)
class Asked:
    """One query: what may change, what is wanted, and how near to it rounding decides."""

    row: int
    moves: Moves
    target: Target
    margin: float


@dataclass(frozen=True)
class Question:
    """Some queries of a network, with goals and limits.

    Attributes
    ----------
    before : Answer
        The model's own answers to the queries.
    already, hopeless : bool arrays (queries,)
        Whether a query meets its goal, and whether no answer whatever could.
    notes : array (queries,) of str
        Why a query is not looked at; "" if it is.
    """

    network: ReluNetwork
    blackbox: BlackBox
    space: FeatureSpace
    limits: Limits
    rows: Rows
    values: Values
    goal: BoundGoal
    before: Answer
    already: Booleans
    hopeless: Booleans
    notes: Array

    @classmethod
    def of(cls, model: Any, space: FeatureSpace, rows: Rows, goal: Goal | None, limits: Limits | None) -> "Question":
        """Read the network and ask the model about the queries; UnsupportedError, *skipped because ...*, if refused."""
        refuse_what_is_no_number(space)
        blackbox = _bound(model, space)
        try:
            network = ReluNetwork.of(blackbox)
        except UnsupportedError as error:
            raise UnsupportedError(f"skipped because {error}.") from error
        space, values = space.taking_in(rows)
        limits = space.limits(values=values) if limits is None else limits
        if blackbox.classes is None:
            blackbox.learn(values)
        before = blackbox.confirm(rows)
        if goal is None and blackbox.task == "regression":
            raise GoalError("a regressor needs a goal: Goal.shift(delta) or Goal.between(low, high).")
        bound = (goal or Goal.flip()).bind(blackbox, before)
        question = cls(
            network,
            blackbox,
            space,
            limits,
            rows,
            values,
            bound,
            before,
            bound.met(before),
            bound.impossible(before) != "",
            _why_not(space, values),
        )
        question._refuse_another_network()
        return question

    @classmethod
    def about(cls, problem: Problem, limits: Limits) -> "Question":
        """The question of a call, under limits that may be narrower; UnsupportedError, *skipped because ...*."""
        refuse_what_is_no_number(problem.space)
        try:
            network = ReluNetwork.of(problem.blackbox)
        except UnsupportedError as error:
            raise UnsupportedError(f"skipped because {error}.") from error
        space, values, goal = problem.space, problem.start, problem.goal
        met, hopeless = goal.met(problem.before), goal.impossible(problem.before) != ""
        rows, notes = space.model_input(values), _why_not(space, values)
        made = cls(network, problem.blackbox, space, limits, rows, values, goal, problem.before, met, hopeless, notes)
        made._refuse_another_network()
        return made

    def __len__(self) -> int:
        return len(self.values)

    def _refuse_another_network(self) -> None:
        """Refuse a model whose answers to the queries are not those of the network that was read from it."""
        known = np.flatnonzero(self.notes == "")
        outputs = self.network.outputs(model_inputs(self.space, self.values[known]))
        said = self.before.take(known)
        if self.blackbox.task == "regression":
            same = np.allclose(outputs[:, 0], said.output, rtol=AS_READ, atol=AS_READ)
        else:
            logits = np.column_stack([np.zeros(len(known)), outputs]) if outputs.shape[1] == 1 else outputs
            powers = np.exp(logits - logits.max(axis=1, keepdims=True))
            read = powers / powers.sum(axis=1, keepdims=True)
            if self.blackbox.has_probabilities and said.scores is not None:
                same = read.shape == said.scores.shape and np.allclose(read, said.scores, atol=AS_READ)
            else:
                classes = 0 if self.blackbox.classes is None else len(self.blackbox.classes)
                same = read.shape[1] == classes and bool((read.argmax(axis=1) == said.output).all())
        if not same:
            name = type(self.blackbox.model).__name__
            raise UnsupportedError(f"skipped because the network read from the {name} does not answer as it does.")

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
        kept = KeptRules(self.space, self.space.bound_rules, self.values).holds(values, owner)
        delivered = self.space.restore(values, taken(self.rows, owner), self.values[owner])
        return np.asarray(self.goal.take(owner).met(self.blackbox.confirm(delivered)) & kept)


def _why_not(space: FeatureSpace, values: Values) -> Array:
    """Why nothing is proved of each query; "" if something may be."""
    missing = space.is_missing(values).any(axis=1)
    unseen = (values >= np.where(space.is_categorical, np.diff(space.category_offsets), np.inf)).any(axis=1)
    notes = np.where(missing, "a cell of it is missing", np.where(unseen, "it has an unseen category", ""))
    return np.asarray(notes.astype(object))


def _bound(model: Any, space: FeatureSpace) -> BlackBox:
    if not isinstance(model, BlackBox):
        return BlackBox(model, space)
    return model if model.space is space and model.classes is not None else model.bound_to(space)
