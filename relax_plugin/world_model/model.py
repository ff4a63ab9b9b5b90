"""WorldModel: a small copy of the model, fitted to a few thousand of its answers, in which an agent can be trained.

The rest of the core sees it as a `BlackBox` (`ImaginedBlackBox`) that costs no model rows. Nothing it says is ever
delivered: a counterfactual counts only if the model itself confirms it.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from relax_plugin.arrays import Floats, Integers, Values
from relax_plugin.blackbox import Answer, BlackBox, Books
from relax_plugin.errors import InputError
from relax_plugin.features import FeatureSpace
from relax_plugin.world_model.layers import Adam, MemberLinear, one_thread, trunk

MEMBERS = 4  # networks; each never sees the quarter of the rows on which it is judged
HIDDEN = 64
BINS = 8  # pieces into which each number is cut for the networks, so that they can follow the steps of trees
EPOCHS = 60
SEARCH_EPOCHS = 20  # for a search, which asks the model itself: 60 gain .2 % of L1 on held-out training rows
LEAST_STEPS = 200  # of the optimiser, however few rows there are
MOST_STEPS = 1000  # of the optimiser, however many rows there are
BATCH = 128
LEARNING_RATE = 3e-3  # AdamW, falling linearly to a twentieth
WEIGHT_DECAY = 0.1
LABEL_LOGIT = 3.0  # where the model answers labels only, a label counts as this logit
ROWS_AT_ONCE = 16_384  # bounds the memory of one prediction
LEAST_ROWS = 8


@dataclass(frozen=True)
class Agreement:
    """How well a world model knows the model, measured on queried rows that the judging network has not seen.

    Attributes
    ----------
    labels : float
        Share of rows with the same label; NaN for a regressor.
    explained : float
        Share of the variance of the model's logits (or of a regressor's values) that is explained; at most 1.
    rows : int
    """

    labels: float
    explained: float
    rows: int

    def __str__(self) -> str:
        same = "" if np.isnan(self.labels) else f"the same label on {self.labels:.1%} of {self.rows} held-out rows, "
        return f"{same}{self.explained:.1%} of the variance explained"


class WorldModel:
    """An ensemble of small networks that imitates a model's scores, or a regressor's values.

    Parameters
    ----------
    blackbox : BlackBox
        The model that was asked; it tells the task and the kind of scores, and is not asked again.
    edges : array (features, BINS + 1)
        Quantiles of the training rows, between which a number is seen piece by piece.
    seed : int

    Attributes
    ----------
    agreement : Agreement
        On held-out rows; after `fit`.
    """

    def __init__(self, blackbox: BlackBox, edges: Floats, seed: int = 0) -> None:
        assert blackbox.space is not None
        self.space: FeatureSpace = blackbox.space
        self.blackbox = blackbox
        self.edges = edges
        width = np.diff(edges, axis=1)
        self.width = np.where(width > 0, width, np.inf)  # an empty piece is always 0
        self.outputs = 1 if blackbox.task == "regression" else len(np.asarray(blackbox.classes))
        self.generator = torch.Generator().manual_seed(int(seed))
        columns = [len(f.categories) if f.kind == "categorical" else 1 + BINS for f in self.space.features]
        ends = np.cumsum([0, *columns])
        self.columns = [slice(int(a), int(b)) for a, b in pairwise(ends)]  # of the inputs, feature by feature
        self.network = nn.Sequential(
            *trunk(MEMBERS, int(ends[-1]), HIDDEN, self.generator),
            MemberLinear(MEMBERS, HIDDEN, self.outputs, self.generator),
        )
        self.centre, self.scale = np.zeros(self.outputs), 1.0
        self.agreement = Agreement(np.nan, np.nan, 0)

    @staticmethod
    def pieces(values: Values) -> Floats:
        """The edges between which numbers are seen piece by piece: quantiles of the training rows."""
        return np.quantile(values, np.linspace(0.0, 1.0, BINS + 1), axis=0).T.copy()

    @one_thread()
    def fit(self, values: Values, answer: Answer, epochs: int = EPOCHS) -> "WorldModel":
        """Fit to queried rows; every network leaves out a quarter of them, on which it is judged."""
        if len(values) < LEAST_ROWS:
            raise InputError(f"a world model needs at least {LEAST_ROWS} queried rows, and {len(values)} are given.")
        targets = self.targets(answer)
        self.centre = targets.mean(axis=0)
        spread = float((targets - self.centre).std())
        constant = spread <= 1e-12 * max(1.0, float(np.abs(targets).max()))  # up to rounding
        self.scale = 0.0 if constant else spread
        wanted = torch.as_tensor((targets - self.centre) / (self.scale or 1.0), dtype=torch.float32)
        inputs, n = self._inputs(values), len(values)
        fold = torch.randperm(n, generator=self.generator) % MEMBERS
        seen = torch.stack([torch.nonzero(fold != m)[: n - n // MEMBERS - 1, 0] for m in range(MEMBERS)])
        optimizer = Adam(list(self.network.parameters()), LEARNING_RATE, WEIGHT_DECAY)
        batch = min(BATCH, seen.shape[1])
        steps = min(max(epochs * (n // batch), LEAST_STEPS), MOST_STEPS)
        for step in range(steps):
            drawn = torch.randint(0, seen.shape[1], (MEMBERS, batch), generator=self.generator)
            rows = seen.gather(1, drawn)
            loss = nn.functional.smooth_l1_loss(self.network(inputs[rows]), wanted[rows], beta=0.3)
            optimizer.descend(loss)
            optimizer.rate = LEARNING_RATE * (1.0 - 0.95 * step / steps)
        self.agreement = self._judge(inputs, fold, targets, answer)
        return self

    @one_thread()
    @torch.no_grad()
    def predict(self, values: Values) -> Floats:
        """Targets of rows: centred logits, decision scores or values; the mean of all networks."""
        outputs = [
            self._targets(self.network(self._inputs(values[i : i + ROWS_AT_ONCE]).expand(MEMBERS, -1, -1)))
            for i in range(0, len(values), ROWS_AT_ONCE)
        ]
        return np.concatenate(outputs) if outputs else np.empty((0, self.outputs))

    @one_thread()
    @torch.no_grad()
    def predict_moves(self, values: Values, row: Integers, feature: Integers, value: Floats) -> Floats:
        """Targets of the rows `values[row]` with one `feature` of each at another `value`.

        The same as `predict` of the moved rows, but what the first layer makes of the other features is computed once
        for all moves of a row, which is most of the work.
        """
        result = np.empty((len(row), self.outputs))
        inputs, first = self._inputs(values), self.network[0]
        assert isinstance(first, MemberLinear)
        before = first(inputs.expand(MEMBERS, -1, -1))
        for j in np.unique(feature):
            columns, moves = self.columns[j], np.flatnonzero(feature == j)
            for at in np.array_split(moves, len(moves) // ROWS_AT_ONCE + 1):
                change = self._seen(j, value[at]) - inputs[row[at], columns]
                hidden = before[:, row[at]] + change @ first.weight[:, columns]
                result[at] = self._targets(self.network[1:](hidden))
        return result

    def targets(self, answer: Answer) -> Floats:
        """What the networks imitate: logits without the mean over classes, decision scores, or values."""
        if self.blackbox.task == "regression":
            return answer.output[:, None]
        if answer.scores is None:
            return np.asarray(
                LABEL_LOGIT * (answer.output[:, None] == np.arange(self.outputs)) - LABEL_LOGIT / self.outputs
            )
        if self.blackbox.reader.score_kind != "probability":
            return answer.scores
        logits = self.blackbox.logits(answer.scores)
        return np.asarray(logits - logits.mean(axis=1, keepdims=True))

    def answer(self, targets: Floats) -> Answer:
        """Targets as the model would answer; the inverse of `targets` up to the grain of the model's scores."""
        if self.blackbox.task == "regression":
            return Answer(targets[:, 0])
        output = targets.argmax(axis=1).astype(np.float64)
        if self.blackbox.reader.has_scores and self.blackbox.reader.score_kind != "probability":
            return Answer(output, targets)
        exponents = np.exp(targets - targets.max(axis=1, keepdims=True))
        return Answer(output, exponents / exponents.sum(axis=1, keepdims=True))

    def weights_by_name(self) -> dict[str, Tensor]:
        """All that a file must hold to restore the fitted world model: its edges, and what `load_weights` takes."""
        weights = {name: weight.detach().clone() for name, weight in self.network.state_dict().items()}
        numbers = {"edges": self.edges, "centre": self.centre, "scale": np.array(self.scale)}
        return {**weights, **{name: torch.tensor(number) for name, number in numbers.items()}}

    def load_weights(self, weights: dict[str, Tensor]) -> None:
        rest = dict(weights)
        self.centre, self.scale = rest.pop("centre").numpy(), float(rest.pop("scale"))
        self.network.load_state_dict(rest)

    def _inputs(self, values: Values) -> Tensor:
        """Rows as the networks see them, feature by feature."""
        inputs = torch.empty(len(values), self.columns[-1].stop)
        for j, columns in enumerate(self.columns):
            inputs[:, columns] = self._seen(j, values[:, j])
        return inputs

    def _seen(self, j: int, column: Floats) -> Tensor:
        """One feature: a category one-hot, a number standardised and piece by piece.

        Each piece rises from 0 to 1 between two neighbouring quantiles: on them even a small network follows the
        steps of trees.
        """
        if self.space.is_categorical[j]:
            seen = column[:, None] == np.arange(len(self.space.features[j].categories))
        else:
            pieces = np.clip((column[:, None] - self.edges[j, :-1]) / self.width[j], 0.0, 1.0) - 0.5
            seen = np.column_stack([(column - self.space.mean[j]) / self.space.scale[j], pieces])
        return torch.as_tensor(seen, dtype=torch.float32)

    def _targets(self, outputs: Tensor) -> Floats:
        return np.asarray(outputs.mean(dim=0).double().numpy() * self.scale + self.centre)

    @torch.no_grad()
    def _judge(self, inputs: Tensor, fold: Tensor, targets: Floats, answer: Answer) -> Agreement:
        every = self.network(inputs.expand(MEMBERS, -1, -1))
        unseen = every[fold, torch.arange(len(fold))].double().numpy() * self.scale + self.centre
        variance = float(((targets - self.centre) ** 2).sum())
        explained = 1.0 - float(((targets - unseen) ** 2).sum()) / variance if self.scale > 0 else 1.0
        labels = np.nan if self.blackbox.task == "regression" else float((unseen.argmax(1) == answer.output).mean())
        return Agreement(labels, explained, len(targets))


class ImaginedBlackBox(BlackBox):
    """A world model in the place of the model it imitates: the same classes and scores, and books of its own."""

    def __init__(self, world: WorldModel) -> None:
        self.__dict__.update(world.blackbox.__dict__)
        self.world = world
        self.books = Books()
        self.strict = False

    def ask(self, values: Values) -> Answer:
        """What the world model believes the model would answer: labels alone where the model gives no more."""
        self.books.enter(rows=len(values), calls=1)
        answer = self.world.answer(self.world.predict(values))
        return answer if self.has_scores else Answer(answer.output)

    def confirm(self, rows: Any, known: Any = None) -> Answer:
        raise AssertionError("only the model itself confirms an answer")
