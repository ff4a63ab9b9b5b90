"""A network of one hidden layer with tables: the surrogate model that follows smooth models.

The hidden layer is a sum over features, so that moving one feature is one addition: what every value of a move adds is
computed once for all states.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import nn

from relax_plugin.arrays import Array, Booleans, Floats, Integers, Values
from relax_plugin.errors import InputError
from relax_plugin.features import FeatureSpace
from relax_plugin.surrogate.layers import Adam, one_thread

HIDDEN = 128
BINS = 8  # pieces into which each number is cut, so that the network can follow steps
STEPS = 300  # of the optimiser
BATCH = 128
LEARNING_RATE = 5e-3  # AdamW, falling linearly to a twentieth
WEIGHT_DECAY = 1.0
CELLS_AT_ONCE = 400_000  # numbers of one addition: what fits a processor's cache
CELLS_OF_STATES = 4_000_000  # numbers that the features of states add which are predicted together
FAR = 1000.0  # standard deviations from which on all numbers look alike: single precision must hold their sums


def refuse_others(expected: dict[str, tuple[Any, tuple[int, ...]]], arrays: dict[str, Any]) -> None:
    """Refuse what a file holds of a surrogate model, if it lacks something, has more, or of other kinds or sizes."""
    for name, (dtype, shape) in expected.items():
        given = arrays.get(name)
        if given is None or given.dtype != dtype or given.shape != shape or not np.isfinite(given).all():
            what = "nothing" if given is None else f"{given.dtype} of shape {given.shape}"
            kind = f"finite numbers, {np.dtype(dtype)} of shape {shape},"
            raise InputError(f"{kind} are expected for {name!r} of the surrogate model, not {what}.")
    unknown = sorted(set(arrays) - set(expected))
    if unknown:
        raise InputError(f"the surrogate model has {unknown[0]!r}, for which there is no place.")


@dataclass
class Training:
    """What a network needs until its training ends."""

    generator: torch.Generator
    optimizer: Adam | None = None
    steps: int = 0


class TabledNetwork:
    """One hidden layer of rectifiers over standardised numbers, their pieces, and one-hot categories.

    A number that is missing in some of the training rows has a column that says so; else a missing one is taken for its
    mean. What is none of a feature's categories sets no column.
    """

    def __init__(self, space: FeatureSpace, values: Values, seed: int = 0) -> None:
        self.space = space
        self.training: Training | None = Training(torch.Generator().manual_seed(seed))
        missing, shares = values == space.missing_codes, np.linspace(0.0, 1.0, BINS + 1)
        known = np.nanquantile(np.where(missing, np.nan, values), shares, axis=0) if missing.any() else None
        self._between((np.quantile(values, shares, axis=0) if known is None else known).T.copy())
        self._lay_out(missing.any(axis=0))

    def _lay_out(self, gaps: Booleans) -> None:
        """Decide which columns the network sees of each feature; `gaps` are those that are missing in some rows."""
        self.gaps = gaps
        numbers = 1 + BINS + gaps.astype(int)
        columns = [
            len(f.categories) if f.kind == "categorical" else int(number)
            for f, number in zip(self.space.features, numbers, strict=True)
        ]
        ends = np.cumsum([0, *columns])
        self.columns = [slice(int(a), int(b)) for a, b in pairwise(ends)]
        self.inputs = int(ends[-1])

    @one_thread()
    def fit(self, values: Values, targets: Floats, share: float = 1.0) -> "TabledNetwork":
        """Train for this share of all steps, from where the steps before have led."""
        training = self.training
        assert training is not None, "a finished network is not trained"
        if training.optimizer is None:
            self.centre = targets.mean(axis=0)
            self.scale = float((targets - self.centre).std()) or 1.0
            training.optimizer = Adam(self._drawn(targets.shape[1], training.generator), LEARNING_RATE, WEIGHT_DECAY)
        inputs = torch.from_numpy(self._inputs(values))
        wanted = torch.as_tensor((targets - self.centre) / self.scale, dtype=torch.float32)
        weights = first, offset, second, last = training.optimizer.weights
        for _ in range(round(share * STEPS)):
            training.steps += 1
            rows = torch.randint(0, len(inputs), (min(BATCH, len(inputs)),), generator=training.generator)
            told = torch.relu(inputs[rows] @ first + offset) @ second + last
            training.optimizer.descend(nn.functional.smooth_l1_loss(told, wanted[rows], beta=0.3))
            training.optimizer.rate = LEARNING_RATE * max(1.0 - 0.95 * training.steps / STEPS, 0.05)
        # Copies: torch moves a tensor's storage to shared memory when it is pickled for another process.
        self.first, self.offset, self.second, self.last = (weight.detach().numpy().copy() for weight in weights)
        self._ready()
        return self

    def _drawn(self, outputs: int, generator: torch.Generator) -> list[torch.Tensor]:
        def drawn(rows: int, columns: int, fan_in: int) -> torch.Tensor:
            return torch.empty(rows, columns).uniform_(-(fan_in**-0.5), fan_in**-0.5, generator=generator)

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
        size = max(CELLS_OF_STATES // (values.shape[1] * HIDDEN), 1)
        for start in range(0, len(values), size):
            hidden = np.concatenate([own.sum(axis=1) for own in self._added(values[start : start + size])])
            hidden += self.offset
            result[start : start + size] = np.maximum(hidden, 0.0, out=hidden) @ self.second + self.last
        return np.asarray(result * self.scale + self.centre)

    def hidden(self, states: Values) -> Array:
        """What the hidden layer holds before its rectifiers (rows, hidden)."""
        return np.asarray(np.concatenate([own.sum(axis=1) for own in self._added(states)]) + self.offset)

    def predict_near(self, states: Values, hidden: Array, owner: Integers, values: Values) -> Floats:
        """Targets of rows that differ in few cells from the states of their owners, whose hidden layer is known."""
        result = np.empty((len(values), self.second.shape[1]))
        size = max(CELLS_AT_ONCE // HIDDEN, 1)
        for first in range(0, len(values), size):
            at = slice(first, first + size)
            start = states[owner[at]]
            row, feature = np.nonzero(values[at] != start)
            made = hidden[owner[at]]
            for begin in range(0, len(row), size):
                part = slice(begin, begin + size)
                which, changed = row[part], feature[part]
                added = self._adds(changed, values[at][which, changed])
                added -= self._adds(changed, start[which, changed])
                ends = np.flatnonzero(np.diff(which, prepend=-1))
                made[which[ends]] += np.add.reduceat(added, ends, axis=0)
            result[at] = np.maximum(made, 0.0, out=made) @ self.second + self.last
        return np.asarray(result * self.scale + self.centre)

    def table(self, feature: Integers, value: Floats) -> Array:
        """What `predict_moves` needs of each move: what it adds to the hidden layer (moves, hidden)."""
        return self._adds(feature, value)

    def predict_moves(self, states: Values, feature: Integers, table: Array, chosen: Integers | None = None) -> Floats:
        """Targets of every state with one feature moved (states, moves, targets); or of the moves `chosen` for each."""
        count = len(feature) if chosen is None else chosen.shape[1]
        result = np.empty((len(states), count, self.second.shape[1]), dtype=np.float32)
        few, first = max(CELLS_AT_ONCE // (count * HIDDEN), 1), 0
        for own in self._added(states):
            others = (own.sum(axis=1) + self.offset)[:, None] - own  # the hidden layer without each feature
            for start in range(0, len(own), few):
                part = others[start : start + few]
                at = slice(first + start, first + start + len(part))
                if chosen is None:
                    hidden = part[:, feature] + table
                else:
                    which = feature[chosen[at]] + part.shape[1] * np.arange(len(part))[:, None]
                    hidden = part.reshape(-1, HIDDEN).take(which, axis=0)
                    hidden += table.take(chosen[at], axis=0)
                result[at] = np.maximum(hidden, 0.0, out=hidden) @ self.second
            first += len(own)
        return np.asarray((result + self.last) * np.float32(self.scale) + self.centre.astype(np.float32))

    def predict_changed(self, states: Values, row: Integers, feature: Integers, value: Floats) -> Floats:
        """Targets of the rows `states[row]` with one `feature` of each at another `value` (changes, targets)."""
        result = np.empty((len(row), self.second.shape[1]))
        own = self._adds(self._every, states)
        whole, own = own.sum(axis=1) + self.offset, own.reshape(-1, HIDDEN)
        size = max(CELLS_AT_ONCE // HIDDEN, 1)
        for first in range(0, len(row), size):
            at = slice(first, first + size)
            hidden = whole.take(row[at], axis=0)
            hidden += self._adds(feature[at], value[at])
            hidden -= own.take(row[at] * states.shape[1] + feature[at], axis=0)
            result[at] = np.maximum(hidden, 0.0, out=hidden) @ self.second + self.last
        return np.asarray(result * self.scale + self.centre)

    def arrays(self) -> dict[str, Any]:
        """All that a file must hold to restore the fitted network."""
        names = ("edges", "first", "offset", "second", "last", "centre")
        numbers = {"scale": np.array(self.scale), "gaps": self.gaps.astype(np.uint8)}
        return {**{name: getattr(self, name) for name in names}, **numbers}

    def load(self, arrays: dict[str, Any], outputs: int) -> None:
        """Take over what `arrays` gave, if it can be that of a network for this space."""
        gaps = arrays.get("gaps")
        refuse_others({"gaps": (np.uint8, (len(self.space),))}, {} if gaps is None else {"gaps": gaps})
        self._lay_out(arrays["gaps"].astype(bool) & ~self.space.is_categorical)
        expected = {
            "gaps": (np.uint8, (len(self.space),)),
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
            raise InputError("the surrogate model's edges fall, or its scale is not above 0.")
        for name in ("first", "offset", "second", "last", "centre"):
            setattr(self, name, arrays[name])
        self.scale = float(arrays["scale"])
        self._between(arrays["edges"])
        self._ready()

    def _between(self, edges: Floats) -> None:
        self.edges = edges
        width = np.diff(edges, axis=1)
        self.width = np.where(width > 0, width, np.inf)  # an empty piece is always 0

    def _ready(self) -> None:
        """Note what each feature adds to the hidden layer at its edges, between which it adds evenly more or less."""
        knots, rises = [], []
        nothing = np.zeros((1, HIDDEN), dtype=np.float32)
        for j, columns in enumerate(self.columns):
            weights = self.first[columns]
            if self.space.is_categorical[j]:
                knots.append(np.concatenate([weights, nothing]))  # the last: none of the categories
                rises.append(np.zeros_like(knots[-1]))
            else:
                at_edges = self._seen(j, self.edges[j]) @ weights
                knots.append(np.concatenate([at_edges, weights[-1:] if self.gaps[j] else nothing]))  # the last: missing
                rises.append(np.concatenate([np.diff(at_edges, axis=0, append=at_edges[-1:]), nothing]))
        self.knots, self.rises = np.concatenate(knots), np.concatenate(rises).astype(np.float32)
        self.begins = np.cumsum([0, *(len(own) for own in knots[:-1])])
        numbers = ~self.space.is_categorical
        self.slopes = np.zeros((len(numbers), HIDDEN), dtype=np.float32)  # beyond the outer edges
        far = FAR * self.space.scale
        self.ends = (  # beyond which it adds no more
            np.where(numbers, np.minimum(self.space.mean - far, self.edges[:, 0]), -np.inf),
            np.where(numbers, np.maximum(self.space.mean + far, self.edges[:, -1]), np.inf),
        )
        first_column = np.array([columns.start for columns in self.columns])
        self.slopes[numbers] = self.first[first_column[numbers]]  # a standard deviation
        self.counts = np.diff(self.space.category_offsets)
        self.numbers, self._every = numbers, np.arange(len(numbers))

    def _added(self, states: Values) -> Iterator[Array]:
        """What every feature of states adds to the hidden layer (some states, features, hidden), some at a time."""
        some = max(CELLS_AT_ONCE // (states.shape[1] * HIDDEN), 1)
        for first in range(0, max(len(states), 1), some):
            yield self._adds(self._every, states[first : first + some])

    def _adds(self, feature: Integers, value: Floats) -> Array:
        """What cells add to the hidden layer (..., hidden): their features, and values of the same shape or of rows."""
        whose: Any = slice(None) if feature is self._every else feature  # a view of all is quicker than a copy of each
        numbers, missing = self.numbers[whose], value == self.space.missing_codes[whose]
        some_missing = bool(missing.any())
        if some_missing:
            value = np.where(missing, self.space.mean[whose], value)
        edges = self.edges[whose]
        piece = (edges[..., 1:-1] <= value[..., None]).sum(axis=-1)
        inside = np.minimum(np.maximum(value, edges[..., 0]), edges[..., -1])
        share = (inside - self.edges.take(feature * (BINS + 1) + piece)) / self.width.take(feature * BINS + piece)
        share = np.minimum(np.maximum(share, 0.0), 1.0)
        if not numbers.all():
            place = np.minimum(value, self.counts[whose])
            piece = np.where(numbers, piece, place).astype(np.int64)
            share, inside = np.where(numbers, share, 0.0), np.where(numbers, inside, value)
        if some_missing:
            told = missing & self.gaps[whose]
            piece, share = np.where(told, BINS + 1, piece), np.where(told, 0.0, share)
            inside = np.where(told, value, inside)
        at = self.begins[whose] + piece
        made = self.knots.take(at, axis=0)
        made += self.rises.take(at, axis=0) * share.astype(np.float32)[..., None]
        beyond = np.minimum(np.maximum(value, self.ends[0][whose]), self.ends[1][whose]) - inside
        if beyond.any():
            made += self.slopes[whose] * (beyond / self.space.scale[whose]).astype(np.float32)[..., None]
        return np.asarray(made)

    def _inputs(self, values: Values) -> Array:
        made = np.empty((len(values), self.inputs), dtype=np.float32)
        for j, columns in enumerate(self.columns):
            made[:, columns] = self._seen(j, values[:, j])
        return made

    def _seen(self, j: int, column: Floats) -> Array:
        if self.space.is_categorical[j]:
            seen = column[:, None] == np.arange(len(self.space.features[j].categories))
        else:
            pieces = np.clip((column[:, None] - self.edges[j, :-1]) / self.width[j], 0.0, 1.0) - 0.5
            standardised = np.clip((column - self.space.mean[j]) / self.space.scale[j], -FAR, FAR)
            seen = np.column_stack([standardised, pieces])
            if self.gaps[j]:
                missing = column == self.space.missing_codes[j]
                seen = np.column_stack([np.where(missing[:, None], 0.0, seen), missing])
        return np.asarray(seen, dtype=np.float32)
