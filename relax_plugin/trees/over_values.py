"""Trees over values: tests of what a pipeline makes of a model's rows, as tests of the features of a space.

Nothing is computed by formulas: rows of the space go through the very pipeline, as the model would be asked with them.
Of a category all positions do, and those that go left of a test are its set. A number rises through the pipeline, so
that the largest float64 that goes left is the threshold: it is found by bisection, and so exact to the last bit.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from relax_plugin.arrays import Booleans, Floats, Integers, Values
from relax_plugin.features import FeatureSpace
from relax_plugin.trees.ensemble import Trees, last_where
from relax_plugin.trees.reading import Reading, Unreadable

FURTHEST = 1e25  # further out, a scaler of float32 columns may overflow


def over_values(reading: Reading, model: Any, space: FeatureSpace | None) -> Trees:
    """The trees of a reading over the values of a space; without a space, over the columns that they test."""
    trees = reading.trees
    if space is None:
        if not reading.plain:
            raise Unreadable("it needs the feature space of a model whose trees do not test the rows themselves")
        return trees
    numbers = bool(space.is_plain and not space.is_categorical.any())
    if reading.plain and numbers and trees.subset is None:
        return replace(trees, codes=space.missing_codes)
    try:
        return _Moved(reading, _features(model, space)).trees()
    except (ValueError, TypeError) as error:  # of the model's own steps, which take no such cells
        raise Unreadable(f"the model refuses cells that the space holds possible ({error})") from error


@dataclass(frozen=True)
class _Front:
    """What stands in front of a reading: features, as values, and the rows that a model is asked with."""

    space: FeatureSpace
    owner: Integers  # (columns of the rows,) the feature of each; -1 where it is computed from several
    names: list[Any]  # of the columns
    positions: Integers  # (features,) of categories; 0 for numbers
    low: Floats  # (features,) a number that each may be,
    high: Floats  # and another
    whole: Booleans  # (features,) whether cells hold whole numbers only

    def rows(self, values: Values) -> Any:
        return self.space.model_input(np.where(self.whole, np.floor(values), values))


def _features(model: Any, space: FeatureSpace) -> _Front:
    owner = {column: j for j, feature in enumerate(space.features) for column in feature.columns or (feature.name,)}
    for one in space.derived:
        inputs = space.inputs_of_derived[one.name]
        if len(inputs) == 1 and space.is_categorical[inputs[0]] and not one.formula.tolerance:
            # Then its positions tell all that it can be.
            owner[one.name] = inputs[0]
    names = np.asarray(getattr(model, "feature_names_in_", space.columns), dtype=object).tolist()
    if len(names) != len(space.columns) or (space.container == "frame" and set(names) != set(space.columns)):
        names = list(space.columns)  # which the model will say itself
    if space.container == "array":
        names = list(space.columns)
    positions = [len(f.categories) + len(space.foreign_cells(j)) for j, f in enumerate(space.features)]
    for feature, known in zip(space.features, positions, strict=True):
        if feature.kind == "categorical" and known == 0:
            raise Unreadable(f"it needs cells to look at, and {feature.name!r} is carried to the model as it is")
    ends = np.array([[f.low, f.high] for f in space.features]).T
    whole = [pd.api.types.is_integer_dtype(f.dtype) and f.kind != "categorical" for f in space.features]
    return _Front(
        space=space,
        owner=np.array([owner.get(name, -1) for name in names]),
        names=names,
        positions=np.where(space.is_categorical, positions, 0),
        low=np.where(space.is_categorical, 0.0, ends[0]),
        high=np.where(space.is_categorical, 0.0, np.where(ends[1] > ends[0], ends[1], ends[0] + 1.0)),
        whole=np.array(whole, dtype=bool),
    )


class _Moved:
    """The tests of a reading, moved in front of what makes its columns."""

    def __init__(self, reading: Reading, front: _Front) -> None:
        self.reading, self.front, self.old = reading, front, reading.trees
        trees = self.old
        inner = np.flatnonzero(trees.feature >= 0)
        subset = np.full(len(trees.feature), -1) if trees.subset is None else trees.subset
        # Each distinct test once: the column, and its threshold or set.
        column, threshold = trees.feature[inner], np.where(subset[inner] < 0, trees.threshold[inner], np.nan)
        way = np.zeros(len(inner), dtype=bool) if trees.missing_left is None else trees.missing_left[inner]
        keys = np.column_stack([column, np.where(subset[inner] < 0, threshold, 0.0), subset[inner], way])
        tests, self.test = np.unique(keys, axis=0, return_inverse=True)
        self.inner, self.test = inner, self.test.ravel()
        self.column, self.threshold = tests[:, 0].astype(np.int64), tests[:, 1]
        self.subset, self.way = tests[:, 2].astype(np.int64), tests[:, 3].astype(bool)
        self.owner = np.array([self._owner(column) for column in self.column], dtype=np.int64)

    def _owner(self, column: int) -> int:
        """The feature that a tested column is made of, if it can be looked at."""
        source, front = self.reading.sources[column], self.front
        owner = int(front.owner[source.column])
        if owner < 0:
            raise Unreadable(
                f"it needs columns that are features, and {front.names[source.column]!r} is derived from others"
            )
        if front.positions[owner] == 0:
            name = front.space.names[owner]
            apart = source.apart or ("the model" if self.old.subset is not None and self._has_sets(column) else "")
            if apart:
                raise Unreadable(
                    f"it needs numbers that are compared, and {name!r} is one whose single values {apart} tells apart; "
                    f"a space with categorical=[{name!r}] has them as categories"
                )
        return owner

    def _has_sets(self, column: int) -> bool:
        assert self.old.subset is not None
        return bool((self.old.subset[self.old.feature == column] >= 0).any())

    def trees(self) -> Trees:
        front, old = self.front, self.old
        threshold, left = np.full(len(self.column), np.inf), np.zeros(len(self.column), dtype=bool)
        refuses = np.zeros(len(front.space), dtype=bool)
        numbers = np.flatnonzero(front.positions[self.owner] == 0)
        if len(numbers):
            threshold[numbers] = self._thresholds(numbers)
            left[numbers], gone = self._missing(numbers)
            refuses[self.owner[numbers[gone]]] = True
        sets, known = self._sets()
        nodes = len(old.feature)
        feature, bounds = np.full(nodes, -1), np.full(nodes, np.inf)
        missing_left, subset = np.zeros(nodes, dtype=bool), np.full(nodes, -1)
        feature[self.inner], bounds[self.inner] = self.owner[self.test], threshold[self.test]
        missing_left[self.inner] = left[self.test]
        categories = np.flatnonzero(front.positions[self.owner] > 0)
        table = None
        if len(categories):
            keys = np.column_stack([self.owner[categories], sets])
            rows, place = np.unique(keys, axis=0, return_inverse=True)
            which = np.full(len(self.column), -1)
            which[categories] = place.ravel()
            subset[self.inner], table = which[self.test], rows[:, 1:].astype(bool)
        every = np.isnan(front.space.missing_codes) | refuses
        return replace(
            old,
            feature=feature,
            threshold=bounds,
            missing_left=None if bool(every.all()) and old.missing_left is None else missing_left,
            codes=front.space.missing_codes,
            features=len(front.space),
            subset=None if table is None else subset,
            subsets=table,
            known=np.where(front.positions > 0, known, np.inf) if (front.positions > 0).any() else None,
            refuses=refuses if refuses.any() else None,
        )

    def _matrix(self, values: Values) -> Floats:
        return self.reading.matrix(self.front.rows(values))

    # Numbers.

    def _thresholds(self, tests: Integers) -> Floats:
        """The largest float64 of each test's feature that goes left."""
        front = self.front
        place = _rank(self.owner[tests])
        shape = int(place.max()) + 1, len(front.space)
        if self.reading.gaps_of_sparse and self._is_sparse():
            name = front.names[self.reading.sources[int(self.column[tests[0]])].column]
            raise Unreadable(
                f"it needs numbers that are compared, and to XGBoost {name!r} is missing where it is 0, since the "
                "pipeline makes a sparse matrix; sparse_threshold=0 of the ColumnTransformer avoids that"
            )
        column = np.zeros(shape, dtype=np.int64)
        wanted = np.full(shape, np.inf)
        column[place, self.owner[tests]], wanted[place, self.owner[tests]] = self.column[tests], self.threshold[tests]
        row = np.arange(shape[0])[:, None]
        categories = front.positions > 0

        def below(values: Values) -> Booleans:
            return np.asarray(made(values) <= wanted)

        def made(values: Values) -> Floats:
            return np.asarray(self._matrix(np.where(categories, 0.0, values))[row, column])

        # Nearly all that is seen through is a straight line: that tells where to look first.
        ends = [np.broadcast_to(end, shape) for end in (front.low, front.high)]
        first, last = made(ends[0]), made(ends[1])
        with np.errstate(all="ignore"):
            guess = ends[0] + (wanted - first) * ((ends[1] - ends[0]) / (last - first))
            guess = np.where(front.whole, np.nextafter(np.floor(guess) + 1.0, -np.inf), guess)
        return last_where(below, shape, FURTHEST, np.where(np.isfinite(wanted), guess, wanted))[
            place, self.owner[tests]
        ]

    def _is_sparse(self) -> bool:
        values = np.where(self.front.positions > 0, 0.0, self.front.low)[None]
        return bool(np.isnan(self._matrix(values)).any())

    def _missing(self, tests: Integers) -> tuple[Booleans, Booleans]:
        """Whether a missing number goes left of each test, and whether the model refuses it."""
        values = np.where(self.front.positions > 0, 0.0, self.front.space.missing_codes)[None]
        try:
            cells = self._matrix(values)[0, self.column[tests]]
        except (ValueError, TypeError):  # a step that takes no missing number says so
            return np.zeros(len(tests), dtype=bool), np.ones(len(tests), dtype=bool)
        blank = np.isnan(cells)
        left = np.where(blank, self.way[tests], cells <= self.threshold[tests])
        return left, blank & (self.old.missing_left is None)

    # Categories.

    def _sets(self) -> tuple[Booleans, Floats]:
        """Of each test of a category the positions that go left; and how many of each feature are known."""
        front = self.front
        tests = np.flatnonzero(front.positions[self.owner] > 0)
        most = int(front.positions[self.owner[tests]].max(initial=0))  # an untested column may name every row
        left = np.zeros((len(tests), most), dtype=bool)
        known = front.positions.astype(np.float64)
        if not front.positions.any():
            return left, known
        own = np.array([len(feature.categories) for feature in front.space.features])
        seen = np.where(own > 0, np.minimum(own, front.positions), 1)
        base = np.where(front.positions > 0, 0.0, front.low)
        code = np.arange(max(int(seen[front.positions > 0].max(initial=1)), 1))[:, None]
        cells = self._matrix(np.where(front.positions > 0, np.minimum(code, np.maximum(seen, 1) - 1), base))
        left[:, : len(code)] = self._lefts(tests, cells)[:, :most]
        for j in np.flatnonzero(front.positions > seen):
            mine = np.flatnonzero(self.owner[tests] == j)
            at = int(seen[j])
            size = int(front.positions[j]) - at
            while size:
                rows = np.repeat(base[None], size, axis=0)
                rows[:, j] = at + np.arange(size)
                try:
                    cells = self._matrix(rows)
                except (ValueError, TypeError):  # the pipeline refuses a cell that it was not fitted to: which?
                    known[j] = at
                    size //= 2
                    continue
                if len(mine):
                    left[mine, at : at + size] = self._lefts(tests[mine], cells)
                at += size
                size = min(size, int(front.positions[j]) - at)
                known[j] = at
        return left, known

    def _lefts(self, tests: Integers, matrix: Floats) -> Booleans:
        """Whether each test sends each row to the left (tests, rows)."""
        cells = matrix[:, self.column[tests]].T
        left = np.where(np.isnan(cells), self.way[tests][:, None], cells <= self.threshold[tests][:, None])
        sets = np.flatnonzero(self.subset[tests] >= 0)
        if len(sets) and self.old.subsets is not None:
            table, code = self.old.subsets[self.subset[tests[sets]]], cells[sets]
            inside = (code >= 0) & (code < table.shape[1])
            at = np.where(inside, code, 0).astype(np.int64)
            left[sets] = np.where(inside, np.take_along_axis(table, at, axis=1), self.way[tests[sets]][:, None])
        return np.asarray(left)


def _rank(group: Integers) -> Integers:
    order = np.argsort(group, kind="stable")
    ordered = group[order]
    rank = np.empty(len(group), dtype=np.int64)
    rank[order] = np.arange(len(group)) - np.searchsorted(ordered, ordered)
    return rank
