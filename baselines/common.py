"""The bases of methods that begin from training rows, look into a tree ensemble, or follow the gradient of a network.

scikit-learn's networks and linear models are copied into torch, together with the steps of a Pipeline that only scale
or rotate; a torch module is used as it is. What goes through the copy is not asked of the black box: `rows_queried`
leaves it out, `Network.spent` counts it.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from relax_plugin.arrays import Booleans, Floats, Integers, Values
from relax_plugin.base import CounterfactualExplainer, Supports
from relax_plugin.blackbox import Answer, BlackBox
from relax_plugin.errors import UnsupportedError, naming_the_extra
from relax_plugin.features import FeatureSpace
from relax_plugin.locks import fork_safe_lock
from relax_plugin.networks.layers import Dense, Scale, read_layers
from relax_plugin.networks.layers import Layer as ReadLayer
from relax_plugin.problem import Problem, Proposals
from relax_plugin.readers import SWITCHING
from relax_plugin.search.neighbours import AnsweredRows, Neighbours
from relax_plugin.search.polish import undo
from relax_plugin.trees.ensemble import Trees
from relax_plugin.trees.missing import gaps, trees_for
from relax_plugin.trees.proving import answer_of
from relax_plugin.trees.readers import read_trees, why_unreadable

if TYPE_CHECKING:
    import torch

Layer = Callable[["torch.Tensor"], "torch.Tensor"]
LEAST_PROBABILITY = 1e-30  # of a module that gives probabilities; its logarithm is taken
CHUNK_CELLS = 4_000_000  # numbers in the gradients of the queries worked on side by side
TOLERANCE = 1e-4  # by which the copy may differ from the model, which may compute in single precision
COUNTING = fork_safe_lock()  # threads that share a copy count its rows together


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


class TreesInPlace(BlackBox):
    """The trees in the model's place: the same answers, and nothing is charged."""

    rows_per_question = 0

    def __init__(self, explainer: TreeExplainer) -> None:
        self.explainer = explainer

    def ask(self, values: Values, mark_refused: bool = False) -> Answer:
        return self.explainer.answer(values)


class Network:
    """The model as a differentiable function of the raw values of a FeatureSpace, for whole batches.

    The last of the layers, which are functions of a float64 tensor (n, features), gives (n, classes) logits, (n, 1)
    the logit of the second class, or (n, 1) numbers for a regressor. A `module` is one of them, to be put into
    evaluation mode while it is used. Where a `missing_codes` stands for a missing number, the layers are given NaN, as
    the model is.
    """

    def __init__(
        self,
        layers: list[Layer],
        regression: bool,
        module: "torch.nn.Module | None" = None,
        missing_codes: Floats | None = None,
    ) -> None:
        self.layers = layers
        self.regression = regression
        self.module = module
        self.missing_codes = missing_codes
        self.spent = 0  # rows that went through it so far; one whose gradient is taken counts once

    def __getstate__(self) -> dict[str, Any]:
        """Copies count from 0, so that using a network does not change its pickle."""
        return vars(self) | {"spent": 0}

    @classmethod
    def of(cls, blackbox: BlackBox) -> "Network":
        """The copy of a model; raises UnsupportedError with a reason where there can be none."""
        regression = blackbox.task == "regression"
        codes = None if blackbox.space is None else blackbox.space.missing_codes
        with naming_the_extra():
            import torch
        if not isinstance(blackbox.model, torch.nn.Module):
            return cls([_function(layer) for layer in read_layers(blackbox.model)], regression, missing_codes=codes)
        layers: list[Layer] = [partial(_run_module, blackbox.model)]
        if not regression and getattr(blackbox.reader, "gives_probabilities", None):
            layers.append(_logits_of_probabilities)
        return cls(layers, regression, blackbox.model, codes)

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
            last = outputs.shape[1] - 1
            # Rows do not see each other, so that the gradient of a column's sum has every row's own gradient.
            gradients = [
                torch.autograd.grad(outputs[:, column].sum(), inputs, retain_graph=column < last)[0]
                for column in range(last + 1)
            ]
        return self._per_class(outputs.detach().numpy()), self._per_class(torch.stack(gradients, dim=1).numpy())

    def _as_asked(self, values: Values) -> Values:
        return values if self.missing_codes is None else np.where(values == self.missing_codes, np.nan, values)

    def _forward(self, values: "torch.Tensor") -> "torch.Tensor":
        with COUNTING:
            self.spent += len(values)
        with _evaluating(self.module):
            for layer in self.layers:
                values = layer(values)
        return values

    def _per_class(self, columns: Floats) -> Floats:
        """One column a class: the single logit of a binary model is split into halves of opposite sign."""
        if self.regression or columns.shape[1] > 1:
            return columns
        return np.concatenate([-columns, columns], axis=1) / 2


def in_chunks(problem: Problem) -> Iterator[tuple[Integers, Problem]]:
    """Parts of a problem whose gradients fit into memory."""
    outputs = 2 if problem.goal.wanted is None else problem.goal.wanted.shape[1]
    return problem.parts(max(1, CHUNK_CELLS // (outputs * problem.start.shape[1])))


class NetworkExplainer(CounterfactualExplainer):
    """Base of the methods that follow the gradient of a network. They look inside the model, and say so."""

    supports = Supports(categorical=False, several_columns=False, labels_only=False)

    def skip_reason(self, blackbox: BlackBox, space: FeatureSpace) -> str | None:
        reason = super().skip_reason(blackbox, space)
        if reason is not None:
            return reason
        try:
            network = Network.of(blackbox)
            network.jacobian(space.mean[None, :])
        except UnsupportedError as error:
            return str(error)
        except RuntimeError as error:  # torch's: no gradient comes back from the module
            return f"it needs the gradient of the model, and torch cannot give it: {str(error).splitlines()[0]}"
        return None

    def _fit(self, values: Values, rng: np.random.Generator) -> None:
        self._learn_answers()

    def _learn_answers(self) -> None:
        self.network_ = Network.of(self.blackbox_)
        known, answer = self.known_
        expected = answer.output[:, None] if answer.scores is None else answer.scores
        if self.blackbox_.has_probabilities:
            copied = self.network_.answer(known).scores
            assert copied is not None
        else:
            copied = self.network_.outputs(known)
        if copied.shape != expected.shape or not np.allclose(copied, expected, rtol=TOLERANCE, atol=TOLERANCE):
            name = type(self.blackbox_.model).__name__
            raise UnsupportedError(f"skipped because the {name} answers otherwise than a copy of its weights does.")


def _function(layer: ReadLayer) -> Layer:
    if isinstance(layer, Scale):
        return partial(_shift_and_scale, np.array(layer.shift), np.array(layer.scale))
    if isinstance(layer, Dense):
        return partial(_multiply_and_add, np.array(layer.weights), np.array(layer.bias))
    import torch

    activations: dict[str, Layer] = {
        "identity": torch.nn.Identity(),
        "logistic": torch.sigmoid,
        "tanh": torch.tanh,
        "relu": torch.relu,
        "exp": torch.exp,
    }
    return activations[layer.name]


# Functions of the module and not closures, so that an explainer can be pickled.


def _shift_and_scale(shift: Floats, scale: Floats, values: "torch.Tensor") -> "torch.Tensor":
    import torch

    return (values - torch.tensor(shift)) / torch.tensor(scale)


def _multiply_and_add(weights: Floats, bias: Floats, values: "torch.Tensor") -> "torch.Tensor":
    import torch

    return values @ torch.tensor(weights) + torch.tensor(bias)


def _run_module(module: "torch.nn.Module", values: "torch.Tensor") -> "torch.Tensor":
    import torch

    device = next((parameter.device for parameter in module.parameters()), None)
    outputs: torch.Tensor = module(values.to(device=device, dtype=torch.float32))
    outputs = outputs.cpu().double()
    return outputs[:, None] if outputs.ndim == 1 else outputs


def _logits_of_probabilities(probabilities: "torch.Tensor") -> "torch.Tensor":
    """Logarithms, or the log odds of a single column; where single precision says 0 or 1 there is no gradient left."""
    import torch

    logarithms = torch.log(probabilities.clamp(min=LEAST_PROBABILITY))
    if probabilities.shape[1] > 1:
        return logarithms
    return logarithms - torch.log((1 - probabilities).clamp(min=LEAST_PROBABILITY))


@contextmanager
def _evaluating(module: "torch.nn.Module | None") -> Iterator[None]:
    """Dropout and batch norm as in use, not as in training; every part is left as it was found.

    The mode belongs to the module, which threads share: they take turns, here and where the black box asks it.
    """
    if module is None:
        yield
        return
    with SWITCHING:
        modes = [(part, part.training) for part in module.modules()]
        module.eval()
        try:
            yield
        finally:
            for part, training in modes:
                part.training = training
