"""A network of one hidden layer with tables: the world model that follows smooth models.

The hidden layer is a sum over features, so that moving one feature is one addition: what every value of a move adds is
computed once for all states.
"""

from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import nn

from relax_plugin.arrays import Array, Floats, Integers, Values
from relax_plugin.errors import InputError
from relax_plugin.features import FeatureSpace
from relax_plugin.world_model.layers import Adam, one_thread

HIDDEN = 128
BINS = 8  # pieces into which each number is cut, so that the network can follow steps
STEPS = 300  # of the optimiser
BATCH = 128
LEARNING_RATE = 5e-3  # AdamW, falling linearly to a twentieth
WEIGHT_DECAY = 1.0
CELLS_AT_ONCE = 400_000  # numbers of one addition: what fits a processor's cache
CELLS_OF_STATES = 4_000_000  # numbers kept of what the features of states add
ROWS_AT_ONCE = 8192
FAR = 1000.0  # standard deviations from which on all numbers look alike: single precision must hold their sums


def refuse_others(expected: dict[str, tuple[Any, tuple[int, ...]]], arrays: dict[str, Any]) -> None:
    """Refuse what a file holds of a world model, if it lacks something, has more, or of other kinds or sizes."""
    for name, (dtype, shape) in expected.items():
        given = arrays.get(name)
        if given is None or given.dtype != dtype or given.shape != shape or not np.isfinite(given).all():
            what = "nothing" if given is None else f"{given.dtype} of shape {given.shape}"
            kind = f"finite numbers, {np.dtype(dtype)} of shape {shape},"
            raise InputError(f"{kind} are expected for {name!r} of the world model, not {what}.")
    unknown = sorted(set(arrays) - set(expected))
    if unknown:
        raise InputError(f"the world model has {unknown[0]!r}, for which there is no place.")


class TabledNetwork:
    """One hidden layer of rectifiers over standardised numbers, their pieces, and one-hot categories."""

    def __init__(self, space: FeatureSpace, values: Values, seed: int = 0) -> None:
        self.space = space
        self.generator = torch.Generator().manual_seed(seed)
        self.weights: list[torch.Tensor] = []
        self.steps = 0
        self._between(np.quantile(values, np.linspace(0.0, 1.0, BINS + 1), axis=0).T.copy())
        columns = [len(f.categories) if f.kind == "categorical" else 1 + BINS for f in space.features]
        ends = np.cumsum([0, *columns])
        self.columns = [slice(int(a), int(b)) for a, b in pairwise(ends)]
        self.inputs = int(ends[-1])

    @one_thread()
    def fit(self, values: Values, targets: Floats, share: float = 1.0) -> "TabledNetwork":
        """Train for this share of all steps, from where the steps before have led."""
        if not self.weights:
            self.centre = targets.mean(axis=0)
            self.scale = float((targets - self.centre).std()) or 1.0
            self.weights = self._drawn(targets.shape[1])
            self.optimizer = Adam(self.weights, LEARNING_RATE, WEIGHT_DECAY)
        inputs = torch.from_numpy(self._inputs(values))
        wanted = torch.as_tensor((targets - self.centre) / self.scale, dtype=torch.float32)
        first, offset, second, last = self.weights
        for _ in range(round(share * STEPS)):
            self.steps += 1
            rows = torch.randint(0, len(inputs), (min(BATCH, len(inputs)),), generator=self.generator)
            told = torch.relu(inputs[rows] @ first + offset) @ second + last
            self.optimizer.descend(nn.functional.smooth_l1_loss(told, wanted[rows], beta=0.3))
            self.optimizer.rate = LEARNING_RATE * max(1.0 - 0.95 * self.steps / STEPS, 0.05)
        self.first, self.offset, self.second, self.last = (weight.detach().numpy() for weight in self.weights)
        return self

    def _drawn(self, outputs: int) -> list[torch.Tensor]:
        """Weights of both layers at the beginning."""

        def drawn(rows: int, columns: int, fan_in: int) -> torch.Tensor:
            return torch.empty(rows, columns).uniform_(-(fan_in**-0.5), fan_in**-0.5, generator=self.generator)

        weights = [
            drawn(self.inputs, HIDDEN, self.inputs),
            drawn(1, HIDDEN, self.inputs),
            drawn(HIDDEN, outputs, HIDDEN),
            torch.zeros(1, outputs),
        ]
        return [weight.requires_grad_() for weight in weights]

    def predict(self, values: Values) -> Floats:
        """Targets of rows (rows, targets)."""
        result = np.empty((len(values), self.second.shape[1]))
        for start in range(0, len(values), ROWS_AT_ONCE):
            at = slice(start, start + ROWS_AT_ONCE)
            result[at] = np.maximum(self._inputs(values[at]) @ self.first + self.offset, 0.0) @ self.second + self.last
        return np.asarray(result * self.scale + self.centre)

    def table(self, feature: Integers, value: Floats) -> Array:
        """What `predict_moves` needs of each move: what it adds to the hidden layer (moves, hidden)."""
        made = np.empty((len(feature), HIDDEN), dtype=np.float32)
        for j in np.unique(feature):
            made[feature == j] = self._adds(int(j), value[feature == j])
        return made

    def predict_moves(self, states: Values, feature: Integers, table: Array, chosen: Integers | None = None) -> Floats:
        """Targets of every state with one feature moved (states, moves, targets); or of the moves `chosen` for each."""
        count = len(feature) if chosen is None else chosen.shape[1]
        result = np.empty((len(states), count, self.second.shape[1]), dtype=np.float32)
        several = max(CELLS_OF_STATES // (states.shape[1] * HIDDEN), 1)
        few = max(CELLS_AT_ONCE // (count * HIDDEN), 1)
        for first in range(0, len(states), several):
            some = states[first : first + several]
            own = np.stack([self._adds(j, some[:, j]) for j in range(states.shape[1])], axis=1)
            others = (own.sum(axis=1) + self.offset)[:, None] - own  # the hidden layer without each feature
            for start in range(0, len(some), few):
                part = others[start : start + few]
                at = slice(first + start, first + start + len(part))
                if chosen is None:
                    hidden = part[:, feature] + table
                else:
                    of = np.take_along_axis(part, feature[chosen[at]][:, :, None], axis=1)
                    hidden = of + table[chosen[at]]
                result[at] = np.maximum(hidden, 0.0, out=hidden) @ self.second
        return np.asarray((result + self.last) * np.float32(self.scale) + self.centre.astype(np.float32))

    def predict_changed(self, states: Values, row: Integers, feature: Integers, value: Floats) -> Floats:
        """Targets of the rows `states[row]` with one `feature` of each at another `value` (changes, targets)."""
        hidden = self._hidden(states)[row]
        order = np.argsort(feature, kind="stable")
        for of_one in np.split(order, np.flatnonzero(np.diff(feature[order])) + 1) if len(row) else []:
            j = int(feature[of_one[0]])
            change = self._seen(j, value[of_one]) - self._seen(j, states[row[of_one], j])
            hidden[of_one] += change @ self.first[self.columns[j]]
        return np.asarray((np.maximum(hidden, 0.0) @ self.second + self.last) * self.scale + self.centre)

    def arrays(self) -> dict[str, Any]:
        """All that a file must hold to restore the fitted network."""
        names = ("edges", "first", "offset", "second", "last", "centre")
        return {**{name: getattr(self, name) for name in names}, "scale": np.array(self.scale)}

    def load(self, arrays: dict[str, Any], outputs: int) -> None:
        """Take over what `arrays` gave, if it can be that of a network for this space."""
        expected = {
            "edges": (np.float64, (len(self.space), BINS + 1)),
            "first": (np.float32, (self.inputs, HIDDEN)),
            "offset": (np.float32, (1, HIDDEN)),
            "second": (np.float32, (HIDDEN, outputs)),
            "last": (np.float32, (1, outputs)),
            "centre": (np.float64, (outputs,)),
            "scale": (np.float64, ()),
        }
        refuse_others(expected, arrays)
        if (np.diff(arrays["edges"], axis=1) < 0).any() or float(arrays["scale"]) <= 0:
            raise InputError("the world model's edges fall, or its scale is not above 0.")
        for name in ("first", "offset", "second", "last", "centre"):
            setattr(self, name, arrays[name])
        self.scale = float(arrays["scale"])
        self._between(arrays["edges"])

    def _between(self, edges: Floats) -> None:
        """See each number piece by piece between these quantiles of its own."""
        self.edges = edges
        width = np.diff(edges, axis=1)
        self.width = np.where(width > 0, width, np.inf)  # an empty piece is always 0

    def _hidden(self, values: Values) -> Floats:
        return np.asarray(self._inputs(values) @ self.first + self.offset)

    def _adds(self, j: int, column: Floats) -> Floats:
        """What the values of one feature add to the hidden layer."""
        return np.asarray(self._seen(j, column) @ self.first[self.columns[j]])

    def _inputs(self, values: Values) -> Array:
        made = np.empty((len(values), self.inputs), dtype=np.float32)
        for j, columns in enumerate(self.columns):
            made[:, columns] = self._seen(j, values[:, j])
        return made

    def _seen(self, j: int, column: Floats) -> Array:
        """One feature as the network sees it: a category one-hot, a number standardised and piece by piece."""
        if self.space.is_categorical[j]:
            seen = column[:, None] == np.arange(len(self.space.features[j].categories))
        else:
            pieces = np.clip((column[:, None] - self.edges[j, :-1]) / self.width[j], 0.0, 1.0) - 0.5
            standardised = np.clip((column - self.space.mean[j]) / self.space.scale[j], -FAR, FAR)
            seen = np.column_stack([standardised, pieces])
        return np.asarray(seen, dtype=np.float32)
