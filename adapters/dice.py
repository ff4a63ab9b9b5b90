"""DiCE's face: any explainer of the registry as an explainer of dice-ml, and a `Dice` that knows them by name."""

import inspect
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any, Self

import numpy as np
import pandas as pd

from relax_plugin.adapters.dice_interfaces import (
    AskedModel,
    DenyingReader,
    fitting,
    moved_in,
    refuse_doubtful,
    training_values,
    view_for,
    with_ends,
)
from relax_plugin.base import CounterfactualExplainer, list_explainers, make_explainer
from relax_plugin.errors import ColumnError, InputError, MissingExtraError, UnknownNameError, did_you_mean
from relax_plugin.features import FeatureSpace
from relax_plugin.goal import Goal

try:
    from dice_ml import dice
    from dice_ml.counterfactual_explanations import CounterfactualExplanations
    from dice_ml.diverse_counterfactuals import CounterfactualExamples
    from dice_ml.explainer_interfaces.explainer_base import ExplainerBase
except ImportError as missing:
    raise MissingExtraError("DiCE's face needs dice-ml: pip install 'relax-plugin[dice]'.") from missing

ONLY_THE_CLASS = 0.5  # DiCE's default stopping_threshold


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
        elif getattr(explainer.model, "model", explainer.model) is not model_interface.model:
            raise InputError(f"this {type(explainer).__name__} explains another model than DiCE's interface has.")
        self.explainer, self.fitted = explainer, hasattr(explainer, "space_")
        self.own_space = not self.fitted  # the space of one that is handed over stands; else ranges may be widened

    def fit(self, rows: pd.DataFrame | None = None, desired_range: Sequence[float] | None = None) -> Self:
        """Train the explainer on the rows of the data interface.

        Some `rows` show categories as the model knows them where that is not text, which is all that DiCE keeps; they
        are needed where the texts are numbers, which the model may know as numbers. A regressor is trained to answer
        within `desired_range`; later calls may ask for another.
        """
        if self.model.model_type == "regressor" and self.explainer.goal is None:
            self.explainer.set_params(goal=Goal.between(*self.infer_target_cfs_range(desired_range)))
        values, space = training_values(self.data_interface, self.explainer.seed)
        if rows is None:
            refuse_doubtful(space)
        else:
            space = FeatureSpace([fitting(f, rows[f.name]) if f.categories else f for f in space.features])
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
        if isinstance(features_to_vary, str) and features_to_vary != "all":
            raise InputError(f"features_to_vary is {features_to_vary!r}; give 'all' or a list: [{features_to_vary!r}].")
        permitted_range = with_ends(self.data_interface, permitted_range)
        self._check_queries(queries, permitted_range, features_to_vary)
        if not self.fitted:
            self.fit(queries, desired_range)
        view, bounds = view_for(self.explainer, queries, permitted_range or {}, seed, self.own_space)
        limits = {"vary": None if isinstance(features_to_vary, str) else features_to_vary, "bounds": bounds}
        rows = queries[view.space_.names]
        start = moved_in(view.space_, rows, **limits) if bounds else rows
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
        # Every example has an index of its own, from 0 on, so that cutting it out is all there is to do.
        shown = found[columns].set_axis(pd.Index(found.groupby("query_id").cumcount()))
        queries_as_asked = queries.assign(**{outcome: answers})[columns].set_axis(np.zeros(len(rows), dtype=int))
        tables = queries_as_asked, shown, shown.copy()
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
        position = isinstance(desired, int) and 0 <= desired < len(labels)
        if not position and desired != "opposite" and desired in labels:
            return desired
        place = self.infer_target_cfs_class(desired, 0, len(labels))  # refuses in DiCE's words
        return None if desired == "opposite" else labels[place]


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
        interface, (queries, *found), query, own, told = self.__dict__.pop("_parts")
        changed = self.__dict__.copy()
        final, sparse = (table.iloc[own] if own.stop > own.start else None for table in found)
        super().__init__(interface, final, queries.iloc[query : query + 1], sparse, *told)
        self.__dict__.update(changed)
        return getattr(self, name)


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
        classes = [dice.decide(None, method) for method in ("random", "genetic", "kdtree")]
        classes.append(import_module("dice_ml.explainer_interfaces.dice_pytorch").DicePyTorch)
        known = {option for own in classes for option in inspect.signature(own._generate_counterfactuals).parameters}
        known |= set(inspect.signature(classes[-1].generate_counterfactuals).parameters)
        known -= {"self", "query_instance", "kwargs", *inspect.signature(ReLAXDice.generate_counterfactuals).parameters}
        if name not in known:
            hint = did_you_mean(name, sorted(known))
            raise UnknownNameError(f"generate_counterfactuals has no option {name!r}; {hint}")
        warnings.warn(f"{name} tunes DiCE's own methods; this explainer does without it.", stacklevel=3)
