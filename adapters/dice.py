"""DiCE's face: any explainer of the registry as an explainer of dice-ml, and a `Dice` that knows them by name."""

import copy
import inspect
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
import pandas as pd

from relax_plugin.base import CounterfactualExplainer, list_explainers, make_explainer
from relax_plugin.errors import ColumnError, InputError, MissingExtraError, UnknownNameError, did_you_mean
from relax_plugin.features import Bounds, FeatureSpace, Values
from relax_plugin.goal import Goal

try:
    from dice_ml import dice
    from dice_ml.counterfactual_explanations import CounterfactualExplanations
    from dice_ml.diverse_counterfactuals import CounterfactualExamples
    from dice_ml.explainer_interfaces.explainer_base import ExplainerBase
except ImportError as missing:
    raise MissingExtraError("DiCE's face needs dice-ml: pip install 'relax-plugin[dice]'.") from missing

ONLY_THE_CLASS = 0.5  # DiCE's default stopping_threshold
PRIVATE_ROWS = 1000  # drawn from the ranges of a private data interface, which has no rows to learn from


class ReLAXDice(ExplainerBase):  # type: ignore[misc]
    """Any explainer, a name of the registry with its options or one fitted to the same features, as one of DiCE's.

    It is trained once, by `fit` or at the first use, and serves all later calls whatever their constraints. Rows come
    back in the query's own dtypes: a column of whole numbers stays one, an unchanged cell is the query's own.
    """

    def __init__(
        self,
        data_interface: Any,
        model_interface: Any,
        explainer: str | CounterfactualExplainer = "relax-global",
        options: Mapping[str, Any] | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(data_interface, model_interface)
        names = data_interface.feature_names
        if isinstance(explainer, str):
            explainer = make_explainer(explainer, AskedModel(model_interface, names), seed=seed, **(options or {}))
        elif options or not hasattr(explainer, "space_") or set(explainer.space_.names) != set(names):
            raise InputError(f"an explainer must be fitted to the features {names}; options go with a name only.")
        self.explainer, self.fitted = explainer, hasattr(explainer, "space_")

    def fit(self, rows: pd.DataFrame | None = None, desired_range: Sequence[float] | None = None) -> Self:
        """Train the explainer on the rows of the data interface.

        Some `rows` show categories as the model knows them where that is not text, which is all that DiCE keeps. A
        regressor is trained to answer within `desired_range`; later calls may ask for another.
        """
        if self.model.model_type == "regressor" and self.explainer.goal is None:
            self.explainer.set_params(goal=Goal.between(*self.infer_target_cfs_range(desired_range)))
        values, space = _training_values(self.data_interface, self.explainer.seed)
        if rows is not None:
            space = FeatureSpace([_fitting(f, rows[f.name]) if f.categories else f for f in space.features])
        self.explainer.set_params(space=space).fit(space.model_input(values))
        self.fitted = True
        return self

    def generate_counterfactuals(
        self,
        query_instances: Any,
        total_CFs: int,
        desired_class: Any = "opposite",
        desired_range: Sequence[float] | None = None,
        permitted_range: Mapping[str, Sequence[Any]] | None = None,
        features_to_vary: Any = "all",
        stopping_threshold: float = ONLY_THE_CLASS,
        posthoc_sparsity_param: float | None = 0.1,
        posthoc_sparsity_algorithm: str = "linear",
        verbose: bool = False,
        random_seed: int | None = None,
        **tuning: Any,
    ) -> Any:
        """Counterfactuals of all queries, found side by side. The parameters are DiCE's; what there is to say:

        - `query_instances` may be dicts too. A query that is as desired already is the first of `total_CFs`.
        - `desired_class`: a whole number is the position of a class, as with DiCE; anything else is its label.
        - `permitted_range` may exceed the training data; a cell outside it moves to the nearest end or first choice.
        - `stopping_threshold` is the least probability of the desired class; one half asks for the class alone.
        - `posthoc_sparsity_param`, `posthoc_sparsity_algorithm` and `verbose` are checked, but without effect: to take
          back what is not needed is the explainer's own affair, so `final_cfs_df_sparse` equals `final_cfs_df`.
        - `random_seed` is the explainer's seed for this call. Options of DiCE's own methods (`proximity_weight`,
          `sample_size`, ...) are left aside with a warning.
        """
        wanted = (desired_class, desired_range, permitted_range, features_to_vary, stopping_threshold)
        asked = (*wanted, posthoc_sparsity_param, posthoc_sparsity_algorithm, verbose)
        queries = self._read(query_instances)
        self._validate_counterfactual_configuration(queries, total_CFs, *asked)
        _check_tuning(tuning)
        examples = self._explain(queries, total_CFs, *asked, random_seed) if len(queries) else []
        if not examples or self.total_cfs_found == 0:
            self._check_any_counterfactuals_computed([])  # raises
        return CounterfactualExplanations(examples)

    def _generate_counterfactuals(self, query_instance: Any, total_CFs: int, **request: Any) -> Any:
        """DiCE's inner question, about one query."""
        bound = inspect.signature(self.generate_counterfactuals).bind(query_instance, total_CFs, **request)
        bound.apply_defaults()
        return self._explain(self._read(query_instance), *bound.args[1:])[0]

    def _read(self, query_instances: Any) -> pd.DataFrame:
        """The queries as one DataFrame."""
        if not isinstance(query_instances, pd.DataFrame | dict):
            query_instances = list(query_instances)
            if query_instances and all(isinstance(query, pd.DataFrame) for query in query_instances):
                query_instances = pd.concat(query_instances)
        frame: pd.DataFrame = self.data_interface.query_instance_to_df(query_instances).reset_index(drop=True)
        if not isinstance(query_instances, pd.DataFrame):  # a 3 in a dict does not ask for whole numbers only
            frame = frame.astype({n: float for n, d in self.data_interface.get_decimal_precisions("dict").items() if d})
        return frame

    def _explain(self, queries: pd.DataFrame, total: int, *asked: Any) -> list[Any]:
        """DiCE's examples of each query, given the other arguments of `generate_counterfactuals` in their order."""
        desired_class, desired_range, permitted_range, features_to_vary, threshold, sparsity, _, _, seed = asked
        self._check_queries(queries, permitted_range, features_to_vary)
        if not self.fitted:
            self.fit(queries, desired_range)
        view, bounds = _view(self.explainer, queries, permitted_range or {}, seed)
        limits = {"vary": None if isinstance(features_to_vary, str) else features_to_vary, "bounds": bounds}
        rows = queries[view.space_.names]
        start = _moved_in(view.space_, rows, **limits) if bounds else rows
        before = None if start is rows else view.blackbox_.labels(view.blackbox_.confirm(rows).output)
        labels = [] if self.model.model_type == "regressor" else view.blackbox_.classes.tolist()
        wanted = self._wanted(desired_class, labels) if labels else desired_class
        opposite = dict(zip(labels, labels[::-1], strict=True))  # only asked for where there are two
        if not labels:
            goal = Goal.between(*self.infer_target_cfs_range(desired_range))
        elif wanted is not None:
            goal = Goal.to([wanted] * len(rows))
        else:  # the opposite of what a query was before it was moved
            goal = Goal.flip() if before is None else Goal.to([opposite[label] for label in before])
        goal = replace(goal, min_probability=None if threshold == ONLY_THE_CLASS or not labels else threshold)
        interface, outcome = self.data_interface, self.data_interface.outcome_name
        made, found = _distinct(view, start, goal, total, limits, outcome)
        answers, columns = (made.before if before is None else before).tolist(), [*interface.feature_names, outcome]
        tables = queries.assign(**{outcome: answers})[columns], found[columns]
        ends = np.searchsorted(found["query_id"], np.arange(len(rows) + 1))
        told, kind = (sparsity, None if desired_range is None else list(desired_range)), self.model.model_type
        examples = [
            LaterExamples(interface, tables, query, slice(*ends[query : query + 2]), (*told, desired, kind))
            for query, desired in enumerate(opposite.get(answer) if wanted is None else wanted for answer in answers)
        ]
        self.total_cfs_found, self.final_cfs_df = len(found), examples[-1].final_cfs_df
        self.cfs_preds = None if self.final_cfs_df is None else self.final_cfs_df[[outcome]].to_numpy()
        return examples

    def _check_queries(self, queries: pd.DataFrame, permitted: Mapping[str, Any] | None, vary: Any) -> None:
        """Raise what DiCE raises on the first query that it would refuse."""
        interface = self.data_interface
        missing = [name for name in interface.feature_names if name not in queries]
        if missing and queries.columns.isin(interface.feature_names).all():
            raise ColumnError(f"column {missing[0]!r} is missing; {did_you_mean(missing[0], queries.columns)}")
        texts = queries[[name for name in interface.categorical_feature_names if name in queries]].astype(str)
        if permitted is not None:
            permitted = {k: [str(c) for c in ends] if k in texts else ends for k, ends in permitted.items()}
        known = interface.permitted_range if permitted is None else interface.get_features_range()[1]
        strange = [~texts[name].isin(known[name]).to_numpy() for name in texts]
        first = [int(np.any(strange, axis=0).argmax())]  # row 0 where nothing is strange
        self.setup(vary, permitted, queries.iloc[first].drop(columns=texts.columns).join(texts.iloc[first]), None)

    def _wanted(self, desired: Any, labels: list[Any]) -> Any:
        """The label of the desired class; None for the opposite one."""
        desired = desired.item() if isinstance(desired, np.generic) else desired
        if not isinstance(desired, int) and desired != "opposite" and desired in labels:
            return desired
        position = self.infer_target_cfs_class(desired, 0, len(labels))  # refuses in DiCE's words
        return None if desired == "opposite" else labels[position]


class Dice(dice.Dice):  # type: ignore[misc]
    """In place of `dice_ml.Dice`: `method` may be "relax" or any name of the registry; the others are DiCE's own."""

    def __new__(cls, data_interface: Any, model_interface: Any, method: str | None = "relax", **kwargs: Any) -> Any:
        if method != "relax" and method not in list_explainers():
            return dice.Dice(data_interface, model_interface, method, **kwargs)
        return ReLAXDice(data_interface, model_interface, "relax-global" if method == "relax" else method, **kwargs)


class LaterExamples(CounterfactualExamples):  # type: ignore[misc]
    """DiCE's examples of one query, made when first looked at: a thousand small tables cost more than the search."""

    def __init__(self, *parts: Any) -> None:
        self._parts = parts

    def __getattr__(self, name: str) -> Any:
        if "_parts" not in self.__dict__:
            raise AttributeError(name)
        interface, (queries, found), query, own, told = self.__dict__.pop("_parts")
        changed, rows = self.__dict__.copy(), found.iloc[own].reset_index(drop=True)
        final, sparse = (rows, rows.copy()) if len(rows) else (None, None)
        super().__init__(interface, final, queries.iloc[[query]].reset_index(drop=True), sparse, *told)
        self.__dict__.update(changed)
        return getattr(self, name)


class AskedModel:
    """The model as DiCE asks it, with the manners of an estimator."""

    def __init__(self, interface: Any, names: Sequence[str]) -> None:
        self.interface = interface
        self._estimator_type = interface.model_type
        own = list(getattr(interface.model, "feature_names_in_", ()))
        self.columns = own if interface.transformer.func is None and set(own) == set(names) else list(names)
        if hasattr(interface.model, "classes_"):
            self.classes_ = np.asarray(interface.model.classes_)
        if hasattr(interface, "set_eval_mode"):
            interface.set_eval_mode()  # dropout would make the answers random

    def predict_proba(self, rows: pd.DataFrame) -> np.ndarray[Any, Any]:
        scores = np.asarray(self.interface.get_output(rows[self.columns])).reshape(len(rows), -1)
        if scores.shape[1] == 1 and not hasattr(self, "classes_"):  # a network's P(class 1)
            scores = np.concatenate([1.0 - scores, scores], axis=1)
        return scores

    def predict(self, rows: pd.DataFrame) -> np.ndarray[Any, Any]:
        if self._estimator_type == "regressor":
            return np.asarray(self.interface.get_output(rows[self.columns])).reshape(len(rows))
        if not hasattr(self, "classes_"):
            return np.asarray(self.predict_proba(rows).argmax(axis=1))
        return np.asarray(self.interface.get_output(rows[self.columns], model_score=False))


class DenyingReader:
    """Reads a model, but rows that meet the goal seem to miss it: what is found for them then differs from them."""

    def __init__(self, blackbox: Any, rows: pd.DataFrame, goal: Any) -> None:
        self.reader, self.classes = blackbox.reader, blackbox.classes
        self.denied = pd.util.hash_pandas_object(rows, index=False)
        if self.classes is None:  # of a regressor
            self.outside = goal.low - 1.0 if np.isfinite(goal.low) else goal.high + 1.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.reader, name)

    def read(self, rows: pd.DataFrame, want_labels: bool) -> tuple[Any, Any]:
        labels, scores = self.reader.read(rows, want_labels)
        denied = np.isin(pd.util.hash_pandas_object(rows, index=False), self.denied)
        if self.classes is None:
            return np.where(denied, self.outside, labels), None
        if scores is not None:
            scores = np.where(denied[:, None], np.roll(scores, 1, axis=1), scores)
        if labels is not None:
            labels = np.where(denied, np.roll(self.classes, -1)[pd.Index(self.classes).get_indexer(labels)], labels)
        return labels, scores


def _distinct(view: Any, start: pd.DataFrame, goal: Goal, total: int, limits: Any, outcome: str) -> tuple[Any, Any]:
    """What the explainer made, and what it found query by query; more also for queries that meet the goal already."""
    made = view.explain(start, goal=goal, n=max(total, 1), **limits)
    found = made.frame.assign(**{outcome: made.after[made.found].tolist()})
    itself = np.flatnonzero(made.found[:, 0] & (made.values[:, 0] == made.start).all(axis=1))
    if total > 1 and len(itself):
        view.blackbox_.reader = DenyingReader(view.blackbox_, start.iloc[itself], goal)
        goal = replace(goal, label=goal.label and tuple(goal.label[query] for query in itself))
        more = view.explain(start.iloc[itself], goal=goal, n=total - 1, **limits)
        places = {"query_id": itself[more.frame["query_id"]], "cf_id": more.frame["cf_id"] + 1}
        others = more.frame.assign(**places, **{outcome: more.after[more.found].tolist()})
        found = pd.concat([found, others]).sort_values(["query_id", "cf_id"])
    return made, found[found["cf_id"] < total]


def _check_tuning(given: Mapping[str, Any]) -> None:
    """Warn of options that only DiCE's own methods have; refuse what none has."""
    for name in given:
        methods = [dice.decide(None, method)._generate_counterfactuals for method in ("random", "genetic", "kdtree")]
        known = {parameter for method in methods for parameter in inspect.signature(method).parameters}
        if name not in known:
            raise UnknownNameError(f"generate_counterfactuals has no option {name!r}; {did_you_mean(name, known)}")
        warnings.warn(f"{name} tunes DiCE's own methods; this explainer does without it.", stacklevel=3)


def _view(explainer: Any, queries: pd.DataFrame, permitted: Mapping[Any, Any], seed: int | None) -> tuple[Any, Bounds]:
    """The fitted explainer over a space with the queries' dtypes and room for what is permitted, and the bounds."""
    features, bounds = [], {}
    for feature in explainer.space_.features:
        choices = list(permitted.get(feature.name, ()))
        if choices and not feature.categories:
            ends = [float(end) for end in choices if np.isfinite(end)]
            feature = replace(feature, low=min([feature.low, *ends]), high=max([feature.high, *ends]))
        features.append(_fitting(feature, queries[feature.name]))
        if feature.name in permitted:
            texts = {str(category): category for category in features[-1].categories}
            bounds[feature.name] = [texts.get(str(choice), choice) for choice in choices]
    view = copy.copy(explainer)
    view.seed = explainer.seed if seed is None else seed
    view.space_, view.blackbox_ = FeatureSpace(features), copy.copy(explainer.blackbox_)
    view.blackbox_.space = view.space_
    return view, bounds


def _fitting(feature: Any, column: "pd.Series[Any]") -> Any:
    """The feature in the dtype of the column."""
    dtype: Any = column.dtype
    if feature.categories:
        kind = type(column.iloc[0])
        read: Any = "True".__eq__ if kind in (bool, np.bool_) else kind
        categories = tuple(read(str(category)) for category in feature.categories)
        if isinstance(dtype, pd.CategoricalDtype):  # it may lack categories that the counterfactuals need
            dtype = pd.CategoricalDtype(list(categories), dtype.ordered)
        return replace(feature, categories=categories, dtype=dtype)
    if not pd.api.types.is_integer_dtype(dtype):
        return replace(feature, dtype=dtype)
    held = np.iinfo(getattr(dtype, "numpy_dtype", dtype))
    step = feature.step if feature.step and feature.step % 1 == 0 else 1.0
    low, high = max(feature.low, float(held.min)), min(feature.high, float(held.max))
    return replace(feature, kind="integer", dtype=dtype, step=step, low=low, high=high)


def _moved_in(space: FeatureSpace, queries: pd.DataFrame, vary: Any, bounds: Any) -> pd.DataFrame:
    """The queries with every cell within its permitted range."""
    values, limits = space.values(queries), space.limits(bounds=bounds)
    moved, nearest = values.copy(), np.clip(values, *limits.span(values))
    for name, bound in bounds.items():
        j = space.names.index(name)
        outside = (values[:, j] < limits.low[0, j]) | (values[:, j] > limits.high[0, j])
        if space.is_categorical[j]:
            codes = [space.features[j].categories.index(category) for category in bound]
            outside, nearest[:, j] = ~np.isin(values[:, j], codes), codes[0]
        moved[outside, j] = nearest[outside, j]
        if outside.any() and vary is not None and name not in vary:
            value = queries[name].iloc[int(np.argmax(outside))]
            raise InputError(f"{name!r} is {value!r}, which is outside the permitted range and isn't allowed to vary.")
    return queries if (moved == values).all() else pd.DataFrame(space.restore(moved, queries))


def _training_values(interface: Any, seed: int) -> tuple[Values, FeatureSpace]:
    """What is learned from, and its space, with categories as text."""
    texts, bounds = interface.categorical_feature_names, interface.permitted_range
    if hasattr(interface, "data_df"):
        data, seen = interface.data_df[interface.feature_names].dropna(), interface.get_features_range()[1]
        bounds = {name: ends for name, ends in bounds.items() if list(ends) != list(seen[name])}
        # By its text DiCE's float32 becomes the number that was written: 0.1, not 0.10000000149.
        floats = data.select_dtypes(np.float32).columns
        rows = data.astype(dict.fromkeys([*texts, *floats], str)).astype(dict.fromkeys(floats, float))
    else:
        rng, size = np.random.default_rng(seed), PRIVATE_ROWS
        drawn = {n: rng.choice(c, size) if n in texts else rng.uniform(c[0], c[1], size) for n, c in bounds.items()}
        rows = pd.DataFrame(drawn).round(interface.get_decimal_precisions("dict"))
    space = FeatureSpace.infer(rows, categorical=texts, bounds=bounds)
    given = getattr(interface, "continuous_features_precision", None) or {}
    stepped = [replace(f, step=10.0 ** -given[f.name]) if f.name in given else f for f in space.features]
    return space.values(rows), FeatureSpace(stepped)
