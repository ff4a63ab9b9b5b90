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
from relax_plugin.proofs.probing import difference, probe_values, refuse_another_model
from relax_plugin.results import taken
from relax_plugin.rules.repair import RowRules

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
    """Some queries of a network, with goals and limits."""

    network: ReluNetwork
    blackbox: BlackBox
    space: FeatureSpace
    limits: Limits
    rows: Rows
    values: Values
    goal: BoundGoal
    before: Answer  # the model's own answers to the queries
    already: Booleans  # which queries meet their goal
    hopeless: Booleans  # which queries no answer whatever could help
    notes: Array  # why a query is not looked at; "" if it is

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
        known = np.flatnonzero(self.notes == "")
        if len(known) == 0:
            return
        values, model = self.values[known], (self.blackbox, self.space, "network")
        if reason := difference(*model, values, self.before.take(known), self._as_read(values), AS_READ):
            raise UnsupportedError(reason)

        def probes() -> Values:
            rows = probe_values(self.space, values[0])
            return rows[~self.space.is_missing(rows).any(axis=1)]

        refuse_another_model(*model, probes, self._as_read, AS_READ)

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
