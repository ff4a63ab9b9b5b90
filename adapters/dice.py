"""DiCE's face: any explainer of the registry as an explainer of dice-ml, and a `Dice` that knows them by name."""

import inspect
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from importlib import import_module
from typing import Any, Self

import numpy as np
import pandas as pd

from relax_plugin.adapters.dice_interfaces import (
    AskedModel,
    fitting,
    moved_in,
    refuse_doubtful,
    space_for,
    training_values,
    with_ends,
)
from relax_plugin.arrays import Array
from relax_plugin.base import CounterfactualExplainer, list_explainers, make_explainer
from relax_plugin.errors import ColumnError, InputError, MissingExtraError, UnknownNameError, did_you_mean
from relax_plugin.features import FeatureSpace
from relax_plugin.goal import Goal
from relax_plugin.results import Counterfactuals

try:
    from dice_ml import dice
    from dice_ml.counterfactual_explanations import CounterfactualExplanations
    from dice_ml.diverse_counterfactuals import CounterfactualExamples
    from dice_ml.explainer_interfaces.explainer_base import ExplainerBase
except ImportError as missing:
    raise MissingExtraError("DiCE's face needs dice-ml: pip install 'relax-plugin[dice]'.") from missing

ONLY_THE_CLASS = 0.5  # DiCE's default stopping_threshold


@dataclass(frozen=True)
class Request:
    """What DiCE is asked for, in its own words and with its own defaults."""

    total_CFs: int
    desired_class: Any = "opposite"
    desired_range: Sequence[float] | None = None
    permitted_range: Mapping[str, Sequence[Any]] | None = None
    features_to_vary: Any = "all"
    stopping_threshold: float = ONLY_THE_CLASS
    posthoc_sparsity_param: float | None = 0.1
    posthoc_sparsity_algorithm: str = "linear"
    verbose: bool = False
    random_seed: int | None = None

    @property
    def vary(self) -> Any:
        """The features that may change; None for all of them."""
        if not isinstance(self.features_to_vary, str):
            return self.features_to_vary
        if self.features_to_vary != "all":
            name = self.features_to_vary
            raise InputError(f"features_to_vary is {name!r}; give 'all' or a list: [{name!r}].")
        return None

    @property
    def min_probability(self) -> float | None:
        """The least probability of the desired class; None if the class is enough."""
        return None if self.stopping_threshold == ONLY_THE_CLASS else self.stopping_threshold


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
        - `total_CFs` are the most: there are fewer where a further one would contain or nearly repeat another.
        - `desired_class`: a whole number is the position of a class, as with DiCE; anything else is its label.
        - `permitted_range` may exceed the training data; a cell outside it moves to the nearest end or first choice.
        - `stopping_threshold` is the least probability of the desired class; one half asks for the class alone.
        - `posthoc_sparsity_param`, `posthoc_sparsity_algorithm` and `verbose` are checked, but without effect: to take
          back what is not needed is the explainer's own affair, so `final_cfs_df_sparse` equals `final_cfs_df`.
        - `random_seed` is the explainer's seed for this call. Options of DiCE's own methods (`proximity_weight`,
          `sample_size`, ...) are left aside with a warning.
        """
        request = Request(
            total_CFs=total_CFs,
            desired_class=desired_class,
            desired_range=desired_range,
            permitted_range=permitted_range,
            features_to_vary=features_to_vary,
            stopping_threshold=stopping_threshold,
            posthoc_sparsity_param=posthoc_sparsity_param,
            posthoc_sparsity_algorithm=posthoc_sparsity_algorithm,
            verbose=verbose,
            random_seed=random_seed,
        )
        queries = self._read(query_instances)
        self._validate_counterfactual_configuration(queries, **vars(request))
        _check_tuning(tuning)
        examples = self._explain(queries, request) if len(queries) else []
        if not examples or self.total_cfs_found == 0:
            self._check_any_counterfactuals_computed([])  # raises
        return CounterfactualExplanations(examples)

    def _generate_counterfactuals(self, query_instance: Any, total_CFs: int, **asked: Any) -> Any:
        """DiCE's inner question, about one query."""
        known = {field.name for field in fields(Request)}
        request = Request(total_CFs, **{name: value for name, value in asked.items() if name in known})
        return self._explain(self._read(query_instance), request)[0]

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

    def _explain(self, queries: pd.DataFrame, request: Request) -> list[Any]:
        """DiCE's examples of each query."""
        interface, vary = self.data_interface, request.vary
        permitted = with_ends(interface, request.permitted_range)
        self._check_queries(queries, permitted, request.features_to_vary)
        if not self.fitted:
            self.fit(queries, request.desired_range)
        space, bounds = space_for(self.explainer.space_, queries, permitted or {}, widened=self.own_space)
        view = self.explainer.for_space(space)
        if request.random_seed is not None:
            view.set_params(seed=request.random_seed)
        rows = queries[space.names]
        start = moved_in(space, rows, vary, bounds)
        # What the model says to the queries as they were asked, if those are not the ones that are explained.
        before = None if start is rows else view.blackbox_.labels(view.blackbox_.confirm(rows).output)
        labels = [] if view.blackbox_.classes is None else view.blackbox_.classes.tolist()
        wanted = self._wanted(request.desired_class, labels) if labels else request.desired_class
        opposite = dict(zip(labels, labels[::-1], strict=True))  # only asked for where there are two
        if not labels:
            goal = Goal.between(*self.infer_target_cfs_range(request.desired_range))
        elif wanted is not None:
            goal = Goal.to(wanted, min_probability=request.min_probability)
        elif before is None:
            goal = Goal.flip(min_probability=request.min_probability)
        else:
            goal = Goal.to([opposite[label] for label in before], min_probability=request.min_probability)
        made, found = self._found(view, start, goal, request.total_CFs, {"vary": vary, "bounds": bounds})
        answers = (made.before if before is None else before).tolist()
        tables = Tables.of(queries.assign(**{interface.outcome_name: answers}), found, interface)
        told = {
            "posthoc_sparsity_param": request.posthoc_sparsity_param,
            "desired_range": None if request.desired_range is None else list(request.desired_range),
            "model_type": self.model.model_type,
        }
        desired = [opposite.get(answer) if wanted is None else wanted for answer in answers]
        examples = [LaterExamples(interface, tables, q, {**told, "desired_class": d}) for q, d in enumerate(desired)]
        self.total_cfs_found, self.final_cfs_df = len(found), examples[-1].final_cfs_df
        self.cfs_preds = None if self.final_cfs_df is None else self.final_cfs_df[[interface.outcome_name]].to_numpy()
        return examples

    def _found(
        self, view: CounterfactualExplainer, start: pd.DataFrame, goal: Goal, total: int, limits: Mapping[str, Any]
    ) -> tuple[Counterfactuals, pd.DataFrame]:
        """What the explainer made, and a table of what it found: a query that is as desired already, then others."""

        def table(made: Counterfactuals) -> pd.DataFrame:
            return made.frame.assign(**{self.data_interface.outcome_name: made.after[made.found].tolist()})

        made = view.explain(start, goal=goal, n=max(total, 1), **limits)
        found, itself = table(made), np.flatnonzero(made.stage[:, 0] == "query")
        if total > 1 and len(itself):
            queries, goals = start.iloc[itself], goal.chunk(itself)
            others = table(view.explain(queries, goal=goals, n=total - 1, besides_query=True, **limits))
            others = others.assign(query_id=itself[others["query_id"]], cf_id=others["cf_id"] + 1)
            found = pd.concat([found, others]).sort_values(["query_id", "cf_id"])
        return made, found[found["cf_id"] < total]

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


@dataclass(frozen=True)
class Tables:
    """All queries and all that was found, in DiCE's columns, from which the tables of each query are cut."""

    queries: pd.DataFrame
    found: pd.DataFrame
    ends: Array  # query q has the rows from ends[q] to ends[q + 1] of those found

    @classmethod
    def of(cls, queries: pd.DataFrame, found: pd.DataFrame, interface: Any) -> "Tables":
        columns = [*interface.feature_names, interface.outcome_name]
        ends = np.searchsorted(found["query_id"], np.arange(len(queries) + 1))
        # Every table has an index of its own, from 0 on, so that cutting it out is all there is to do.
        numbered = found[columns].set_axis(pd.Index(found.groupby("query_id").cumcount()))
        return cls(queries[columns].set_axis(np.zeros(len(queries), dtype=int)), numbered, ends)

    def cut(self, query: int) -> tuple[pd.DataFrame, pd.DataFrame | None]:
        """A query, and what was found for it."""
        first, end = self.ends[query : query + 2]
        return self.queries.iloc[query : query + 1], self.found.iloc[first:end] if end > first else None


class LaterExamples(CounterfactualExamples):  # type: ignore[misc]
    """DiCE's examples of one query, made when first looked at: a thousand small tables cost more than the search."""

    def __init__(self, *parts: Any) -> None:
        self._parts = parts

    def __getattr__(self, name: str) -> Any:
        if "_parts" not in self.__dict__:
            raise AttributeError(name)
        interface, tables, query, told = self.__dict__.pop("_parts")
        changed = self.__dict__.copy()
        asked, found = tables.cut(query)
        super().__init__(interface, found, asked, None if found is None else found.copy(), **told)
        self.__dict__.update(changed)
        return getattr(self, name)


def _check_tuning(given: Mapping[str, Any]) -> None:
    """Warn of options that only DiCE's own methods have; refuse what none has."""
    if not given:
        return
    network = import_module("dice_ml.explainer_interfaces.dice_pytorch").DicePyTorch
    classes = [network, *(dice.decide(None, method) for method in ("random", "genetic", "kdtree"))]
    methods = [network.generate_counterfactuals, *(own._generate_counterfactuals for own in classes)]
    known = {option for method in methods for option in inspect.signature(method).parameters}
    known -= {"self", "query_instance", "kwargs", *inspect.signature(ReLAXDice.generate_counterfactuals).parameters}
    for name in given:
        if name not in known:
            hint = did_you_mean(name, sorted(known))
            raise UnknownNameError(f"generate_counterfactuals has no option {name!r}; {hint}")
        warnings.warn(f"{name} tunes DiCE's own methods; this explainer does without it.", stacklevel=3)
