"""What several methods share: bases for training rows, tree ensembles and networks, and what they offer in the end.

scikit-learn's networks and linear models are computed in torch as their layers say, together with the steps of a
Pipeline that only scale or rotate; a torch module is used as it is. These computations are no questions to the black
box: `rows_queried` leaves them out, `Network.spent` counts them.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from relax_plugin.arrays import Booleans, Floats, Integers, Values
from relax_plugin.base import CounterfactualExplainer, Supports
from relax_plugin.blackbox import Answer, BlackBox
from relax_plugin.errors import UnsupportedError, naming_the_extra
from relax_plugin.features import FeatureSpace
from relax_plugin.locks import fork_safe_lock
from relax_plugin.networks.layers import Dense, Layer, Scale, read_layers
from relax_plugin.problem import Problem, Proposals
from relax_plugin.readers import SWITCHING
from relax_plugin.search.diverse import fill_slots
from relax_plugin.search.neighbours import AnsweredRows, Neighbours
from relax_plugin.search.polish import undo
from relax_plugin.trees.ensemble import Trees
from relax_plugin.trees.missing import gaps, trees_for
from relax_plugin.trees.proving import answer_of
from relax_plugin.trees.readers import read_trees, why_unreadable

if TYPE_CHECKING:
    import torch

Attempt = Callable[[Problem], tuple[Values, Integers]]  # gives rows that meet the goal, and whose each is
LEAST_PROBABILITY = 1e-30  # of a module that gives probabilities; its logarithm is taken
CHUNK_CELLS = 4_000_000  # numbers that are held at once of the queries worked on side by side
TOLERANCE = 1e-4  # by which the copy may differ from the model, which may compute in single precision
COUNTING = fork_safe_lock()  # threads that share a network count its rows together


def in_memory(problem: Problem, cells: int) -> Iterator[tuple[Integers, Problem]]:
    """Parts of a problem that fit into memory, where so many numbers are held for each query."""
    return problem.parts(max(1, CHUNK_CELLS // cells))


def known_numbers(space: FeatureSpace, values: Values) -> Floats:
    """The rows with NaN for missing numbers; the mean in a column that all rows lack."""
    present = np.where(values == space.missing_codes, np.nan, values)
    return np.where(np.isnan(present).all(axis=0), space.mean, present)


def ranges(space: FeatureSpace, values: Values) -> Floats:
    """The range of each feature in the rows; 1 where it has none."""
    known = known_numbers(space, values)
    width = np.nanmax(known, axis=0) - np.nanmin(known, axis=0)
    return np.where(width > 0, width, 1.0)


class NeighbourExplainer(CounterfactualExplainer):
    """Base of the methods that begin from training rows, `neighbours_`; `answered_` has their predictions."""

    neighbours_: Neighbours

    def _learn_answers(self) -> None:
        self.answered_ = AnsweredRows(self.neighbours_)
        self.answered_.ask(self.blackbox_, np.arange(len(self.neighbours_)))

    def _in_rounds(
        self, order: Integers, available: Integers, rounds: Iterable[int], offered: Booleans
    ) -> Iterator[tuple[Values, Integers]]:
        """The next rows in the order of each query that has an empty slot, and whose each is; round by round."""
        tried = 0
        for count in rounds:
            place = np.arange(tried, min(tried + count, order.shape[1]))
            open_ = np.flatnonzero(~offered.all(axis=1))
            row, column = np.nonzero(place < available[open_, None])
            if len(row):
                yield self.neighbours_.rows[order[open_[row], place[column]]], open_[row]
            tried += count


def valid_rows(problem: Problem, rows: Values, owner: Integers, down_to: int) -> tuple[Values, Integers]:
    """The rows within the limits that meet the goal, with changes undone as far as it allows, and whose each is."""
    rows = problem.within_limits(rows, owner)
    met, _ = problem.judge(rows, owner)
    return undone(problem, rows[met], owner[met], down_to)


def undone(problem: Problem, rows: Values, owner: Integers, down_to: int) -> tuple[Values, Integers]:
    """Valid rows with changes undone as far as the goal allows, without those that still change too many features."""
    rows = undo(problem, rows, owner, down_to=down_to)
    few = problem.changed(rows, owner).sum(axis=1) <= problem.max_changes
    return rows[few], owner[few]


def nearest_of_each(problem: Problem, rows: Values, owner: Integers) -> tuple[Values, Integers]:
    """Of the rows of each query the nearest, and whose each is."""
    order = np.lexsort((problem.distance(rows, owner), owner))
    best = order[np.unique(owner[order], return_index=True)[1]]
    return rows[best], owner[best]


def one_each(problem: Problem, values: Values, met: Booleans, stage: str, down_to: int | None = None) -> Proposals:
    """One row for each query, with changes undone as far as the goal allows; offered if it meets it with few changes.

    `down_to` is the number of changes at which undoing ends, by default `max_changes`.
    """
    made, solved = Proposals.empty(problem, 1), np.flatnonzero(met)
    down_to = problem.max_changes if down_to is None else down_to
    values[solved] = undo(problem, values[solved], solved, down_to=down_to)
    few = (values != problem.start).sum(axis=1) <= problem.max_changes
    made.values[:, 0], made.offered[:, 0] = values, met & few
    made.stage[made.offered] = stage
    return made


class ActorExplainer(CounterfactualExplainer):
    """Base of the methods whose `actor_` is trained when they are fitted, and then answers without a search."""

    actor_: Any

    @abstractmethod
    def _untrained(self, classes: int) -> Any:
        """The actor before its training."""

    @abstractmethod
    def _train(self, rng: np.random.Generator) -> None:
        """Train the actor on `rows_`."""

    @abstractmethod
    def _attempts(self, rng: np.random.Generator) -> Iterator[tuple[str, Attempt]]:
        """What is tried in turn for the queries that are still unsolved, each with its stage."""

    def _fit(self, values: Values, rng: np.random.Generator) -> None:
        self.rows_ = values
        self._learn_answers()

    def _learn_answers(self) -> None:
        from relax_plugin.agent.layers import one_thread  # which imports torch

        classes = 0 if self.blackbox_.classes is None else len(self.blackbox_.classes)
        with one_thread():
            self.actor_ = self._untrained(classes)
            if classes > 1:
                self._train(np.random.default_rng(int(self.seed)))

    def _in_turn(self, problem: Problem, n: int, rng: np.random.Generator, tries: int) -> Proposals:
        """Make the attempts. The random numbers of every query are the same: it does not depend on others."""
        seed = int(rng.integers(2**32))
        cells = tries * problem.start.shape[1] * max(self.actor_.classes, 1)

        def solve(problem: Problem) -> Proposals:
            made = Proposals.empty(problem, 1)
            for index, part in in_memory(problem, cells):
                for stage, attempt in self._attempts(np.random.default_rng(seed)):
                    left = np.flatnonzero(~made.offered[index, 0])
                    if len(left) == 0:
                        break
                    rows, owner = attempt(part.part(left))
                    place = index[left[owner]]
                    made.values[place, 0], made.offered[place, 0], made.stage[place, 0] = rows, True, stage
            return made

        return fill_slots(problem, n, solve)


class TreeExplainer(CounterfactualExplainer):
    """Base of the methods that look inside a tree ensemble; `trees_` is what they see."""

    supports = Supports(tasks=("classification",))

    def skip_reason(self, blackbox: BlackBox, space: FeatureSpace) -> str | None:
        return super().skip_reason(blackbox, space) or why_unreadable(blackbox.model, space)

    def _fit(self, values: Values, rng: np.random.Generator) -> None:
        self._learn_answers()

    def _learn_answers(self) -> None:
        self.trees_ = self._read_trees()
        asked, answer = self.known_
        count = len(asked) if self.blackbox_.task == "regression" else (len(asked) + 1) // 2  # these `predict` answered
        sure = np.flatnonzero(~self.trees_.unknown(asked[:count]))
        if not np.allclose(self.answer(asked[sure]).output, answer.output[sure], rtol=1e-6):
            name = type(self.blackbox_.model).__name__
            raise UnsupportedError(f"skipped because the trees read from the {name} do not answer as it does.")

    def _read_trees(self) -> Trees:
        return read_trees(self.blackbox_.model, self.space_)

    def answer(self, values: Values) -> Answer:
        """What the model answers, read off its trees without asking it; labels are those of its `predict`."""
        return answer_of(self.trees_, values)

    def _by_gap(self, problem: Problem, made: Proposals) -> Iterator[tuple[Integers, Problem, Trees]]:
        """The queries by the numbers they lack: which, their problem, and the trees as they see them.

        Those that cannot be looked at are left out, and a note says why.
        """
        unknown = self.trees_.unknown(problem.start)
        made.note[unknown] = "none was looked for, since it has a category that is missing or unknown"
        some = np.flatnonzero(~unknown)
        for gap in gaps(self.trees_, problem.limits.take(some), problem.start[some]):
            index, trees = some[gap.index], trees_for(self.trees_, gap)
            if trees is None:
                made.note[index] = "none was looked for, since too many of its missing numbers may be filled in"
                continue
            yield index, problem if len(index) == len(problem) else problem.part(index), trees


class Network:
    """The model as a differentiable function of the raw values of a FeatureSpace, for whole batches.

    UnsupportedError says why there is none. Where a `missing_codes` stands for a missing number, the function is given
    NaN, as the model is.
    """

    def __init__(self, blackbox: BlackBox) -> None:
        with naming_the_extra():
            import torch
        self.regression = blackbox.task == "regression"
        self.missing_codes = None if blackbox.space is None else blackbox.space.missing_codes
        self.module: Any = blackbox.model if isinstance(blackbox.model, torch.nn.Module) else None
        self.gives_probabilities = not self.regression and getattr(blackbox.reader, "gives_probabilities", None)
        self.layers = read_layers(blackbox.model) if self.module is None else []
        self.spent = 0  # rows that went through it so far; one whose gradient is taken counts once

    def __getstate__(self) -> dict[str, Any]:
        """Copies count from 0, so that using a network does not change its pickle."""
        return vars(self) | {"spent": 0}

    def answer(self, values: Values) -> Answer:
        """What the model would say: class positions and probabilities, or numbers."""
        outputs = self.outputs(values)
        if self.regression:
            return Answer(outputs[:, 0])
        powers = np.exp(outputs - outputs.max(axis=1, keepdims=True))
        return Answer(np.argmax(outputs, axis=1).astype(np.float64), powers / powers.sum(axis=1, keepdims=True))

    def outputs(self, values: Values) -> Floats:
        """Logits (n, classes), whose softmax is the model's probabilities; or numbers (n, 1)."""
        import torch

        with torch.no_grad():
            return self._per_class(self._forward(torch.tensor(self._as_asked(values))).numpy())

    def jacobian(self, values: Values) -> tuple[Floats, Floats]:
        """Outputs (n, classes or 1), and their gradients (n, classes or 1, features) in the user's units."""
        import torch

        with torch.inference_mode(False), torch.enable_grad():  # whatever the caller has switched off
            inputs = torch.tensor(self._as_asked(values), requires_grad=True)
            outputs = self._forward(inputs)
            # Rows do not see each other, so that the gradient of a column's sum has every row's own gradient.
            sums = outputs.sum(dim=0)
            gradients = [torch.autograd.grad(one, inputs, retain_graph=True)[0] for one in sums]
        return self._per_class(outputs.detach().numpy()), self._per_class(torch.stack(gradients, dim=1).numpy())

    def _as_asked(self, values: Values) -> Values:
        return values if self.missing_codes is None else np.where(values == self.missing_codes, np.nan, values)

    def _forward(self, values: "torch.Tensor") -> "torch.Tensor":
        """A column for each class, or one: the logit of the second class, or the number of a regressor."""
        with COUNTING:
            self.spent += len(values)
        for layer in self.layers:
            values = _applied(layer, values)
        if self.module is None:
            return values
        with _evaluating(self.module):
            return self._of_module(values)

    def _of_module(self, values: "torch.Tensor") -> "torch.Tensor":
        import torch

        device = next((parameter.device for parameter in self.module.parameters()), None)
        outputs: torch.Tensor = self.module(values.to(device=device, dtype=torch.float32)).cpu().double()
        outputs = outputs[:, None] if outputs.ndim == 1 else outputs
        if not self.gives_probabilities:
            return outputs
        # Where single precision says 0 or 1 there is no gradient left.
        logarithms = torch.log(outputs.clamp(min=LEAST_PROBABILITY))
        if outputs.shape[1] > 1:
            return logarithms
        return logarithms - torch.log((1 - outputs).clamp(min=LEAST_PROBABILITY))

    def _per_class(self, columns: Floats) -> Floats:
        """One column a class: the single logit of a binary model is split into halves of opposite sign."""
        if self.regression or columns.shape[1] > 1:
            return columns
        return np.concatenate([-columns, columns], axis=1) / 2


def in_chunks(problem: Problem) -> Iterator[tuple[Integers, Problem]]:
    """Parts of a problem whose gradients fit into memory."""
    outputs = 2 if problem.goal.wanted is None else problem.goal.wanted.shape[1]
    return in_memory(problem, outputs * problem.start.shape[1])


class NetworkExplainer(CounterfactualExplainer):
    """Base of the methods that follow the gradient of a network. They look inside the model, and say so."""

    supports = Supports(categorical=False, several_columns=False, labels_only=False)

    def skip_reason(self, blackbox: BlackBox, space: FeatureSpace) -> str | None:
        reason = super().skip_reason(blackbox, space)
        if reason is not None:
            return reason
        try:
            Network(blackbox).jacobian(space.mean[None, :])
        except UnsupportedError as error:
            return str(error)
        except RuntimeError as error:  # torch's: no gradient comes back from the module
            return f"it needs the gradient of the model, and torch cannot give it: {str(error).splitlines()[0]}"
        return None

    def _fit(self, values: Values, rng: np.random.Generator) -> None:
        self._learn_answers()

    def _learn_answers(self) -> None:
        self.network_ = Network(self.blackbox_)
        known, answer = self.known_
        expected = answer.output[:, None] if answer.scores is None else answer.scores
        copied: Any = self.network_.answer(known).scores
        if not self.blackbox_.has_probabilities:
            copied = self.network_.outputs(known)
        if copied.shape != expected.shape or not np.allclose(copied, expected, rtol=TOLERANCE, atol=TOLERANCE):
            name = type(self.blackbox_.model).__name__
            raise UnsupportedError(f"skipped because the {name} answers otherwise than a copy of its weights does.")


def _applied(layer: Layer, values: "torch.Tensor") -> "torch.Tensor":
    import torch

    if isinstance(layer, Scale):
        return (values - torch.tensor(layer.shift)) / torch.tensor(layer.scale)
    if isinstance(layer, Dense):
        return values @ torch.tensor(layer.weights) + torch.tensor(layer.bias)
    if layer.name == "identity":
        return values
    functions = {"logistic": torch.sigmoid, "tanh": torch.tanh, "relu": torch.relu, "exp": torch.exp}
    return functions[layer.name](values)


@contextmanager
def _evaluating(module: "torch.nn.Module") -> Iterator[None]:
    """Dropout and batch norm as in use, not as in training; every part is left as it was found.

    The mode belongs to the module, which threads share: they take turns, here and where the black box asks it.
    """
    with SWITCHING:
        modes = [(part, part.training) for part in module.modules()]
        module.eval()
        try:
            yield
        finally:
            for part, training in modes:
                part.training = training
