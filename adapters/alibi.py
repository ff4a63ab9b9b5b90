"""Alibi's face: any explainer with the manners of `CounterfactualRLTabular`, without importing alibi.

Code written for alibi's explainer runs on unchanged after the line that constructs it. No autoencoder is needed.
"""

import json
import logging
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import pandas as pd
from sklearn.base import clone

from relax_plugin.arrays import Array
from relax_plugin.base import CounterfactualExplainer, make_explainer
from relax_plugin.errors import ConstraintError, GoalError, InputError, NotFittedError, UnknownNameError, did_you_mean
from relax_plugin.features import FeatureSpace, Rows
from relax_plugin.goal import Goal
from relax_plugin.results import Counterfactuals, concatenate, taken

Condition = Mapping[str, Sequence[Any]]

logger = logging.getLogger(__name__)


@dataclass
class Explanation:
    """What `explain` gives: `meta` and `data`, whose keys are attributes too (`explanation.cf["X"]`)."""

    meta: dict[str, Any]
    data: dict[str, Any]
    counterfactuals: Counterfactuals | None = field(default=None, repr=False, compare=False)  # not in the JSON

    def __post_init__(self) -> None:
        self.__dict__.update({**self.data, **self.meta})

    def __getitem__(self, key: str) -> Any:
        return getattr(self, key)

    def to_json(self) -> str:
        """`meta` and `data` as JSON text, arrays as lists and what JSON does not know as text."""
        plain = {"meta": self.meta, "data": self.data}
        return json.dumps(plain, default=lambda value: value.tolist() if hasattr(value, "tolist") else repr(value))

    @classmethod
    def from_json(cls, jsonrepr: str) -> "Explanation":
        """Read what `to_json` wrote; arrays stay lists, as with alibi."""
        read = json.loads(jsonrepr)
        if not isinstance(read, dict) or not {"meta", "data"} <= set(read):
            raise InputError("this JSON is no explanation: an object with 'meta' and 'data' is needed.")
        return cls(read["meta"], read["data"])


class ReLAXTabular:
    """Counterfactuals of any registered explainer in place of alibi's `CounterfactualRLTabular`.

    The predictor takes arrays and answers (n, classes), as alibi has it, or is whatever `BlackBox` reads. As alibi has
    them, too: `feature_names`, the names of a column's codes (`category_map`), `immutable_features`, and how far a
    feature may fall and rise, in shares of its range (`ranges`). `explainer` is a name of the registry, with `options`
    and `seed`, or in place of all of these an explainer with model and space; a fitted one needs no `fit`.
    """

    def __init__(
        self,
        predictor: Any = None,
        *,
        feature_names: Sequence[str] = (),
        category_map: Mapping[int, Sequence[str]] | None = None,
        immutable_features: Iterable[str] | None = None,
        ranges: Mapping[str, Sequence[float]] | None = None,
        explainer: str | CounterfactualExplainer = "relax-global",
        options: Mapping[str, Any] | None = None,
        seed: int = 0,
    ) -> None:
        self.predictor, self.explainer, self.seed, self.options = predictor, explainer, seed, dict(options or {})
        self.feature_names, self.immutable_features = list(feature_names), list(immutable_features or [])
        self.category_map = {int(column): list(names) for column, names in (category_map or {}).items()}
        self.ranges = {name: (float(low), float(high)) for name, (low, high) in (ranges or {}).items()}
        self.parts = {name: ends for name, ends in self.ranges.items() if -1 < ends[0] < 0 or 0 < ends[1] < 1}
        names = ("feature_names", "category_map", "immutable_features", "ranges", "options", "seed")
        said: dict[str, Any] = {name: getattr(self, name) for name in names}
        own = isinstance(explainer, CounterfactualExplainer)
        if predictor is not None or any(said[name] for name in names[:-1]) if own else predictor is None:
            raise InputError("give a predictor and the name of an explainer, or an explainer, which has its own model.")
        if not self.feature_names and (self.category_map or self.immutable_features or self.ranges):
            raise InputError("category_map, immutable_features and ranges need feature_names.")
        if isinstance(explainer, CounterfactualExplainer) and hasattr(explainer, "blackbox_"):
            self.explainer_ = explainer
        params = {"explainer": type(explainer).__name__ if own else explainer, **said}
        self.meta = {"name": type(self).__name__, "type": ["blackbox"], "explanations": ["local"], "params": params}
        self.meta["version"] = sys.modules["relax_plugin"].__version__

    def fit(self, X: Rows) -> Self:
        """Train on the rows the predictor was trained on."""
        if isinstance(self.explainer, str):
            options = {"seed": self.seed, **self.options}
            made = make_explainer(self.explainer, self.predictor, self._space(X), **options)
        else:
            made = clone(self.explainer)
            if self.predictor is not None:  # by `reset_predictor`
                made.set_params(model=self.predictor)
        self.explainer_ = made.fit(X)
        return self

    def explain(
        self,
        X: Rows,
        Y_t: Any = None,
        C: Condition | Sequence[Condition] | None = None,
        batch_size: int = 100,
        diversity: bool = False,
        num_samples: int = 1,
        patience: int = 1000,
        tolerance: float = 1e-3,
    ) -> Explanation:
        """Counterfactuals of the rows.

        `Y_t` are positions of the classes to reach, one or one a row, or (n, classes) with the largest meant; None: any
        other class, or the explainer's own goal. `C` are conditions, one or one a row: a number's least and greatest
        change, a category's accepted names. With `diversity`, up to `num_samples` of a single row.
        `batch_size`, `patience` and `tolerance` have no effect. As with alibi, a row without counterfactual shows by
        its class: `cf` holds the row itself and its own class; `explanation.counterfactuals.status` says why.
        """
        if not hasattr(self, "explainer_"):
            raise NotFittedError("this explainer is not fitted; call fit(X) with the training rows first.")
        C = [C] if isinstance(C, Mapping) else C
        if diversity and len(X) != 1:
            raise InputError(f"diverse counterfactuals are for a single row, and there are {len(X)}.")
        target, space = self._positions(Y_t, len(X)), self.explainer_.space_
        if space.container == "frame" and isinstance(X, np.ndarray):
            X = space.model_input(space.values(X))  # the dtypes of the rows it was fitted to
        made = self._counterfactuals(X, target, C or [{}], num_samples if diversity else 1)
        query, slot = np.nonzero(made.found if diversity else np.ones_like(made.found))
        met = made.found[query, slot]
        if not met.all():
            logger.warning("no counterfactual for %d of %d rows, which are given unchanged", sum(~met), len(X))
        values = np.where(met[:, None], made.values[query, slot], made.start[query])
        after = np.where(met, made.after[query, slot], made.before[query])
        data = {
            "orig": {"X": np.asarray(X), "class": self._codes(made.before)},
            "cf": {"X": _delivered(space, values, taken(X, query)), "class": self._codes(after)},
            "target": None if target is None else target[:, None],
            "condition": C,
        }
        return Explanation(self.meta, data, made)

    def reset_predictor(self, predictor: Any) -> None:
        """Explain another model from now on, with what was learned of the one before; the classes must be the same."""
        if hasattr(self, "explainer_"):
            self.explainer_ = self.explainer_.for_model(predictor)  # one that was handed in stays as it is
        self.predictor = predictor

    def _space(self, X: Rows) -> FeatureSpace | None:
        """The space of the rows as alibi describes it; None if it was not described."""
        if not self.feature_names:
            return None
        for name, (low, high) in self.ranges.items():
            if name not in self.feature_names:
                raise UnknownNameError(f"ranges names feature {name!r}; {did_you_mean(name, self.feature_names)}")
            if not low <= 0 <= high:
                raise ConstraintError(f"the range of feature {name!r} is [{low}, {high}], but must contain 0.")
        space = FeatureSpace.infer(
            pd.DataFrame(X, columns=self.feature_names).infer_objects(),
            categorical=[self.feature_names[column] for column in self.category_map],
            immutable=[*self.immutable_features, *(name for name, ends in self.ranges.items() if not any(ends))],
            increase_only=[name for name, (low, high) in self.ranges.items() if low == 0 < high],
            decrease_only=[name for name, (low, high) in self.ranges.items() if low < 0 == high],
        )
        return FeatureSpace(space.features, "array", str(np.asarray(X).dtype))  # the predictor is given arrays

    def _positions(self, Y_t: Any, n: int) -> Array | None:
        """The position of the class each row is to reach."""
        if Y_t is None:
            return None
        known, targets = self.explainer_.blackbox_.classes, np.asarray(Y_t)
        if known is None:
            raise GoalError("a regressor has no classes; leave Y_t out and give the explainer a goal.")
        targets = targets.argmax(axis=1) if targets.ndim == 2 and targets.shape[1] > 1 else targets.reshape(-1)
        if len(targets) not in (1, n) or not np.isin(targets, np.arange(len(known))).all():
            raise GoalError(f"Y_t is {Y_t}; one position in {known}, or one for each of {n} rows, is needed.")
        return np.broadcast_to(targets.astype(int), n)

    def _counterfactuals(self, X: Rows, target: Array | None, C: Sequence[Condition], n: int) -> Counterfactuals:
        """Rows with the same limits are explained together; without conditions that is all of them."""
        if len(C) not in (1, len(X)):
            raise InputError(f"there are {len(C)} conditions for {len(X)} rows; give one, or one a row.")
        explainer, known = self.explainer_, self.explainer_.blackbox_.classes
        goals = None if target is None else np.asarray(known)[target]
        if not any(C) and not self.parts:
            return explainer.explain(X, goal=None if goals is None else Goal.to(goals), n=n)
        groups: dict[Any, list[int]] = {}
        for row, values in enumerate(explainer.space_.values(X)):
            groups.setdefault(self._limits(C[row if len(C) > 1 else 0], values), []).append(row)
        parts = []
        for limits, rows in groups.items():
            free = [f.name for f in explainer.space_.features if not f.immutable and (f.name, ()) not in limits]
            bounds, goal = {name: b for name, b in limits if b}, None if goals is None else Goal.to(goals[rows])
            parts.append(explainer.explain(taken(X, rows), goal=goal, n=n, vary=free, bounds=bounds))
        return concatenate(parts, X, order=np.argsort(np.concatenate([*groups.values()])))

    def _limits(self, condition: Mapping[Any, Sequence[Any]], row: Array) -> tuple[tuple[Any, tuple[Any, ...]], ...]:
        """What one row may change to, by feature; () where it may not change at all."""
        space, limits = self.explainer_.space_, dict[Any, tuple[Any, ...]]()
        for name in set(condition) - set(space.names):
            raise UnknownNameError(f"C names feature {name!r}; {did_you_mean(name, space.names)}")
        for j, f in enumerate(space.features):
            told = condition.get(f.name, (-np.inf, np.inf))
            if np.ndim(told) != 1 or (f.kind != "categorical" and len(told) != 2):
                raise InputError(f"C says {told!r} of {f.name!r}; its least and greatest change, or names, are needed.")
            if f.kind != "categorical" and (f.name in condition or f.name in self.parts):
                shares = self.parts.get(str(f.name), (-1.0, 1.0))
                fall, rise = told
                low = max(f.low, row[j] + fall, row[j] + shares[0] * (f.high - f.low))
                high = min(f.high, row[j] + rise, row[j] + shares[1] * (f.high - f.low))
                limits[f.name] = (low, high) if low <= high else ()
            elif f.name in condition:
                names = self.category_map.get(j)
                codes = dict(zip(names, range(len(names)), strict=True)) if names else {c: c for c in f.categories}
                for category in set(condition[f.name]) - set(codes):
                    raise UnknownNameError(f"C says {category!r} of {f.name!r}; {did_you_mean(category, codes)}")
                limits[f.name] = tuple({codes[category] for category in condition[f.name]} & set(f.categories))
        return tuple(limits.items())

    def _codes(self, answers: Array) -> Array:
        """Answers as a column: positions of classes, or the numbers of a regressor."""
        blackbox = self.explainer_.blackbox_
        return np.asarray(answers if blackbox.classes is None else blackbox.codes(answers).astype(int)).reshape(-1, 1)


def _delivered(space: FeatureSpace, values: Array, queries: Rows) -> Array:
    """The values as an array of the user's cells; `restore` does this for any dtype, but numbers need no frame."""
    array = np.asarray(queries)
    if array.dtype.kind not in "iuf":
        return np.asarray(space.restore(values, queries))
    cells = space.numbers(values)
    cast = cells.astype(array.dtype)
    return cast if np.array_equal(cast, cells) else cells
