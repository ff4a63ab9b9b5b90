"""CARLA's face: any explainer as a `RecourseMethod`; where CARLA is not installed, with its manners alone.

CARLA's catalogues, models and `Benchmark` use a recourse method by `get_counterfactuals(factuals)` alone, so
`ReLAXRecourse` can stand wherever one of CARLA's own does. Where CARLA can be imported it is a subclass of CARLA's
`RecourseMethod`.
"""

import logging
import warnings
from collections.abc import Mapping
from copy import deepcopy
from difflib import get_close_matches
from importlib import import_module
from importlib.util import find_spec
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from relax_plugin.arrays import Array
from relax_plugin.base import CounterfactualExplainer, fitted, make_explainer
from relax_plugin.errors import ColumnError, InputError, UnknownNameError, did_you_mean
from relax_plugin.features import FeatureSpace
from relax_plugin.goal import Goal

TIES = 0.02  # share of rows in which the largest probability and `predict` may differ
SAME = 1e-5  # up to so far apart, CARLA's distances call two cells the same
ALIKE = 0.8  # from so alike on, a name is one of ours misspelt, and not another method's

logger = logging.getLogger(__name__)


def recourse_method() -> type:
    """CARLA's abstract `RecourseMethod`; without CARLA (a driving simulator has its name too) just `object`."""
    if find_spec("carla") is None:
        return object
    try:
        base: type = import_module("carla.recourse_methods.api").RecourseMethod
    except ImportError as error:
        logger.warning("carla has no RecourseMethod that could be imported: %s", error)
        return object
    return base


class ReLAXRecourse(recourse_method()):  # type: ignore[misc]
    """Counterfactuals of any registered explainer for a model as CARLA wraps it.

    Parameters
    ----------
    mlmodel : as CARLA's MLModel
        Used are `feature_input_order`, `predict_proba`, and of its `data` `df_train` (or `df`), `categorical`,
        `continuous` and `immutables`.
    hyperparams : dict, optional
        Merged into the defaults. Keys of CARLA's other methods are set aside, and one warning names them.

        * "explainer": a name of the registry, or a fitted explainer whose columns are `feature_input_order`;
        * "options": of the explainer of that name;
        * "desired_class": position of the class to reach, 1 as everywhere in CARLA. A "goal" among the options, or of
          the fitted explainer, takes its place;
        * "seed": int.

    A categorical feature that CARLA has spread over several columns is one feature to the explainer, so that its
    columns stay a one-hot code. An explainer of the registry is fitted here, as CARLA's generative methods are.
    """

    _DEFAULT_HYPERPARAMS: ClassVar[dict[str, Any]] = {
        "explainer": "relax-global",
        "options": {},
        "desired_class": 1,
        "seed": 0,
    }

    def __init__(self, mlmodel: Any, hyperparams: Mapping[str, Any] | None = None) -> None:
        self._mlmodel = mlmodel  # which is all that RecourseMethod's own constructor does
        self.hyperparams = merge_hyperparams(hyperparams, self._DEFAULT_HYPERPARAMS)
        self.order = list(mlmodel.feature_input_order)
        self.vary: list[Any] | None = None  # features that may change, where the explainer's own space lets more
        given, goal = self.hyperparams["explainer"], Goal.to(self.hyperparams["desired_class"])
        if isinstance(given, CounterfactualExplainer):
            if fitted(given).space_.columns != self.order:
                raise ColumnError(f"the explainer has the columns {given.space_.columns}, but the model {self.order}.")
            if self.hyperparams["options"]:
                raise InputError("options belong to the name of an explainer; a fitted one has its own already.")
            self.columns: dict[Any, list[Any]] = {name: [name] for name in self.order}
            self.explainer, self.goal = given, given.goal or goal
            self._check_fitted(given)
            return
        data = mlmodel.data
        features = _features(self.order, data)
        self.columns = {name if len(members) > 1 else members[0]: members for name, members in features.items()}
        rows = self._joined(_rows_of(data))
        space = FeatureSpace.infer(
            rows,
            categorical=[own for own, name in zip(self.columns, features, strict=True) if name in data.categorical],
            immutable=_immutable(self.columns, features, data),
        )
        options = {"seed": self.hyperparams["seed"], "goal": goal, **self.hyperparams["options"]}
        self.goal = options["goal"]
        self.explainer = make_explainer(given, self._probabilities, space, **options).fit(rows)

    def _check_fitted(self, explainer: CounterfactualExplainer) -> None:
        if hasattr(self._mlmodel, "data"):
            data = self._mlmodel.data
            features = _features(self.order, data)
            groups = [set(f.columns) for f in explainer.space_.features]
            torn = (members for members in features.values() if len(members) > 1 and set(members) not in groups)
            spread = next(torn, None)
            if spread:
                raise InputError(
                    f"the columns {spread} are one feature; name an explainer, and it is fitted to them, or fit it to "
                    "a space that has them as a one_hot group."
                )
            columns = dict(features)
            fixed = {column for own in _immutable(columns, features, data) for column in columns[own]}
            own = [f for f in explainer.space_.features if not f.immutable and not fixed & {f.name, *f.columns}]
            self.vary = [f.name for f in own] if fixed else None
        if hasattr(explainer, "known_") and hasattr(self._mlmodel, "predict_proba"):
            rows, answer = explainer.known_
            frame = pd.DataFrame(explainer.space_.model_input(rows), columns=self.order)
            asked = np.asarray(self._mlmodel.predict_proba(frame)).argmax(axis=1)
            if (asked != answer.output).mean() > TIES:
                raise InputError(f"this {type(explainer).__name__} explains another model than the one given.")

    def get_counterfactuals(self, factuals: pd.DataFrame) -> pd.DataFrame:
        """A counterfactual a factual: the same index, the columns of `feature_input_order`, NaN where none was found.

        Factuals are encoded and normalised, as `mlmodel.data.df` is; further columns, as the target, are left out.
        """
        if not isinstance(factuals, pd.DataFrame) or len(factuals) == 0:
            raise InputError("factuals must be a DataFrame with at least one row.")
        made = self.explainer.explain(self._joined(factuals), goal=self.goal, vary=self.vary)
        cells = made.to_array()[:, 0].astype(np.float64)
        return self._spread(pd.DataFrame(cells, index=factuals.index, columns=pd.Index(made.space.columns)))

    def measures(self, factuals: pd.DataFrame, counterfactuals: pd.DataFrame) -> pd.DataFrame:
        """CARLA's counts, which are of columns, and beside them the same of features, each one-hot code being one.

        Of the rows that have a counterfactual, as with CARLA: "L0_distance" and "Redundancy" are CARLA's numbers of
        columns changed, and of those whose change alone could be taken back; "L0_merged" and "Redundancy_merged" are
        those of features. "L1_distance" counts a changed category as 2, "L1_merged" as 1.
        """
        kept = counterfactuals[self.order].notna().all(axis=1).to_numpy()
        start, end = factuals[self.order].to_numpy(float)[kept], counterfactuals[self.order].to_numpy(float)[kept]
        groups = [[self.order.index(column) for column in members] for members in self._groups()]
        difference = np.abs(end - start)
        merged = np.column_stack([difference[:, own].max(axis=1) for own in groups])
        counted = {
            "L0_distance": (difference > SAME).sum(axis=1),
            "L0_merged": (merged > SAME).sum(axis=1),
            "L1_distance": difference.sum(axis=1),
            "L1_merged": merged.sum(axis=1),
            "Redundancy": self._redundant(start, end, [[column] for column in range(len(self.order))]),
            "Redundancy_merged": self._redundant(start, end, groups),
        }
        return pd.DataFrame(counted, index=counterfactuals.index[kept])

    def _redundant(self, start: Array, end: Array, groups: list[list[int]]) -> Array:
        counted = np.zeros(len(end), dtype=int)
        if len(end) == 0:
            return counted
        ask = self._mlmodel.predict_proba
        reached = np.asarray(ask(pd.DataFrame(end, columns=self.order))).argmax(axis=1)
        for own in groups:
            changed = (start[:, own] != end[:, own]).any(axis=1)
            if changed.any():
                back = end[changed]
                back[:, own] = start[changed][:, own]
                kept = np.asarray(ask(pd.DataFrame(back, columns=self.order))).argmax(axis=1) == reached[changed]
                counted[changed] += kept
        return counted

    def _groups(self) -> list[list[Any]]:
        if hasattr(self._mlmodel, "data"):
            return list(_features(self.order, self._mlmodel.data).values())
        return [list(f.columns) or [f.name] for f in self.explainer.space_.features]

    def _probabilities(self, rows: pd.DataFrame) -> Array:
        # Not `predict`: with some of CARLA's backends it is a probability, with others a label.
        return np.asarray(self._mlmodel.predict_proba(self._spread(rows)))

    def _joined(self, rows: pd.DataFrame) -> pd.DataFrame:
        for column in self.order:
            if column not in rows.columns:
                raise ColumnError(f"column {column!r} is missing; {did_you_mean(column, rows.columns)}")
        if len(self.columns) == len(self.order):
            return rows[self.order]
        parts = {}
        for name, members in self.columns.items():
            cells = rows[members].to_numpy()
            if len(members) > 1 and not (np.isin(cells, (0, 1)).all() and (cells.sum(axis=1) == 1).all()):
                raise InputError(f"the columns {members} are no one-hot code: each row needs one 1 and 0 elsewhere.")
            parts[name] = cells.argmax(axis=1) if len(members) > 1 else cells[:, 0]
        return pd.DataFrame(parts, index=rows.index)

    def _spread(self, rows: pd.DataFrame) -> pd.DataFrame:
        if len(self.columns) == len(self.order):
            return rows
        parts = {}
        for name, members in self.columns.items():
            cells = rows[name].to_numpy()
            for code, column in enumerate(members):
                parts[column] = cells if len(members) == 1 else np.where(pd.isna(cells), np.nan, cells == code)
        return pd.DataFrame(parts, index=rows.index)[self.order]


def merge_hyperparams(given: Mapping[str, Any] | None, default: Mapping[str, Any]) -> dict[str, Any]:
    """The defaults with what is given in their place; what is given stays as it is.

    A name that is nearly one of the defaults is an error; other unknown names are another method's and set aside.
    """
    merged, aside = deepcopy(dict(default)), [name for name in given or {} if name not in default]
    for name in aside:
        if get_close_matches(str(name), default, cutoff=ALIKE):
            raise UnknownNameError(f"there is no hyperparameter {name!r}; {did_you_mean(name, default)}")
    if aside:
        known = ", ".join(default)
        text = f"hyperparameters of other methods are set aside: {', '.join(map(str, aside))}; here there are {known}."
        warnings.warn(text, stacklevel=3)
    for name, value in (given or {}).items():
        if name in aside:
            continue
        if value is None:
            raise InputError(f"hyperparameter {name!r} is None; give a value, or leave it out for {default[name]!r}.")
        merged[name] = {**default[name], **value} if isinstance(default[name], Mapping) else value
    return merged


def _features(order: list[Any], data: Any) -> dict[Any, list[Any]]:
    """The columns of each feature; those of a categorical one are called by its name, `_` and the category."""
    features: dict[Any, list[Any]] = {}
    for column in order:
        names = [name for name in data.categorical if column == name or str(column).startswith(f"{name}_")]
        own = column if column in data.continuous else max(names, key=len, default=column)
        features.setdefault(own, []).append(column)
    return features


def _rows_of(data: Any) -> pd.DataFrame:
    rows: pd.DataFrame = data.df_train if hasattr(data, "df_train") else data.df
    return rows


def _immutable(columns: Mapping[Any, list[Any]], features: Mapping[Any, list[Any]], data: Any) -> list[Any]:
    """The explainer's features that CARLA's immutables name, by the feature's own name or by one of its columns."""
    found, unused = [], {*data.categorical, *data.continuous, *_rows_of(data).columns}  # the model need not know them
    for name in data.immutables:
        own = [mine for mine, (his, members) in zip(columns, features.items(), strict=True) if name in (his, *members)]
        if not own and name not in unused:
            raise UnknownNameError(f"immutables names {name!r}; {did_you_mean(name, features)}")
        found.extend(own)
    return list(dict.fromkeys(found))
