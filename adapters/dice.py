"""DiCE's face: any explainer of the registry as an explainer of dice-ml, by its name in `dice_ml.Dice` or in ours.

`install()` teaches `dice_ml.Dice` the names of the registry, `uninstall()` takes that back, and `with installed():`
does both; `Dice` here is a class of its own that knows them and leaves DiCE alone.
"""

import inspect
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from threading import Lock
from typing import Any, Self

import numpy as np
import pandas as pd

from relax_plugin.adapters.dice_interfaces import (
    AskedModel,
    fitting,
    is_carried,
    may_lack,
    moved_in,
    named_features,
    refuse_doubtful,
    space_for,
    training_rows,
    with_ends,
)
from relax_plugin.adapters.dice_request import BY_DEVIATION, ONLY_THE_CLASS, Request, check_tuning, known_objective
from relax_plugin.base import CounterfactualExplainer, list_explainers, make_explainer
from relax_plugin.errors import ColumnError, InputError, MissingExtraError, did_you_mean
from relax_plugin.goal import Goal
from relax_plugin.results import Counterfactuals

try:
    from dice_ml import dice
    from dice_ml.constants import SamplingStrategy
    from dice_ml.counterfactual_explanations import CounterfactualExplanations
    from dice_ml.explainer_interfaces.explainer_base import ExplainerBase
except ImportError as missing:
    raise MissingExtraError("DiCE's face needs dice-ml: pip install 'relax-plugin[dice]'.") from missing

from relax_plugin.adapters.dice_examples import LaterExamples, Tables


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
        elif options or not hasattr(explainer, "space_") or set(explainer.space_.columns) != set(names):
            raise InputError(f"an explainer must be fitted to the columns {names}; options go with a name only.")
        elif all(
            one is not model_interface.model for one in (explainer.model, getattr(explainer.model, "model", None))
        ):
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
        space, training = training_rows(self.data_interface, self.explainer.seed, rows)
        known, values = space.taking_in(training)
        if rows is None:
            refuse_doubtful(space)
        else:
            known = known.with_features(fitting(f, rows[f.name]) if f.categories else f for f in known.features)
        self.explainer.set_params(space=known).fit(known.model_input(values))
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
        feature_weights: Any = BY_DEVIATION,
        proximity_weight: float | None = None,
        sparsity_weight: float | None = None,
        **tuning: Any,
    ) -> Any:
        """Counterfactuals of all queries, found side by side. The parameters are DiCE's; what there is to say:

        - `query_instances` may be dicts too. A query that is as desired already is the first of `total_CFs`. A column
          with the outcome is dropped with a warning.
        - `total_CFs` are the most: there are fewer where a further one would contain or nearly repeat another.
        - `desired_class`: a whole number is the position of a class, as with DiCE; anything else is its label.
        - `permitted_range` may exceed the training data; a cell outside it moves to the nearest end or first choice.
        - `stopping_threshold` is the least probability of the desired class; one half asks for the class alone.
        - `posthoc_sparsity_param`, `posthoc_sparsity_algorithm` and `verbose` are checked, but without effect: to take
          back what is not needed is the explainer's own affair, so `final_cfs_df_sparse` equals `final_cfs_df`.
        - `random_seed` is the explainer's seed for this call.
        - `feature_weights`: a dict says what one standard deviation of a number costs, or another category, in this
          call: larger is dearer, and of features that it does not name it is 1. "inverse_mad" gives all the same say.
        - `proximity_weight` above `sparsity_weight` asks for the closest counterfactuals, below it for those with the
          fewest changes; one that is not given weighs 0.2, as in DiCE's genetic search. If they weigh the same, the
          explainer's own objective holds. An explainer that knows only the sparsest says so by a warning.
        - Other options of DiCE's own methods (`sample_size`, ...) are left aside with a warning.
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
            feature_weights=feature_weights,
            proximity_weight=proximity_weight,
            sparsity_weight=sparsity_weight,
        )
        queries = self._read(query_instances)
        # DiCE refuses missing cells; here a query may lack what rows of the data lack, or whatever the explainer takes.
        lacking = queries.columns if not self.own_space else may_lack(self.data_interface)
        checked = queries.drop(columns=[name for name in lacking if name in queries])
        self._validate_counterfactual_configuration(checked, **vars(request))
        check_tuning(tuning, inspect.signature(self.generate_counterfactuals).parameters)
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
        outcome, given = self.data_interface.outcome_name, query_instances
        named = [one for one in (given if isinstance(given, list) else [given]) if isinstance(one, pd.DataFrame | dict)]
        if any(outcome in one for one in named):
            told = f"the queries have {outcome!r}, which is the outcome and no feature: it is dropped."
            warnings.warn(told, stacklevel=3)
        features: pd.DataFrame = frame.drop(columns=outcome, errors="ignore")
        return features

    def _explain(self, queries: pd.DataFrame, request: Request) -> list[Any]:
        """DiCE's examples of each query."""
        interface, vary = self.data_interface, request.vary
        permitted = with_ends(interface, request.permitted_range)
        self._check_queries(queries, permitted, request.features_to_vary)
        if not self.fitted:
            self.fit(queries, request.desired_range)
        space, bounds = space_for(self.explainer.space_, queries, permitted or {}, widened=self.own_space)
        view = self.explainer.for_space(space.with_costs(request.costs) if request.costs else space)
        if request.random_seed is not None:
            view.set_params(seed=request.random_seed)
        rows, vary = queries[space.columns], named_features(space, vary)
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
        objective = known_objective(request, view._objectives(), type(view).__name__)
        wishes = {"vary": vary, "bounds": bounds, "objective": objective}
        made, found = self._found(view, start, goal, request.total_CFs, wishes)
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
        self, view: CounterfactualExplainer, start: pd.DataFrame, goal: Goal, total: int, wishes: Mapping[str, Any]
    ) -> tuple[Counterfactuals, pd.DataFrame]:
        """What the explainer made, and a table of what it found: a query that is as desired already, then others."""

        def table(made: Counterfactuals) -> pd.DataFrame:
            return made.frame.assign(**{self.data_interface.outcome_name: made.after[made.found].tolist()})

        made = view.explain(start, goal=goal, n=max(total, 1), **wishes)
        found, itself = table(made), np.flatnonzero(made.stage[:, 0] == "query")
        if total > 1 and len(itself):
            queries, goals = start.iloc[itself], goal.chunk(itself)
            others = table(view.explain(queries, goal=goals, n=total - 1, besides_query=True, **wishes))
            others = others.assign(query_id=itself[others["query_id"]], cf_id=others["cf_id"] + 1)
            found = pd.concat([found, others]).sort_values(["query_id", "cf_id"])
        return made, found[found["cf_id"] < total]

    def _check_queries(self, queries: pd.DataFrame, permitted: Mapping[str, Any] | None, vary: Any) -> None:
        """Raise what DiCE raises on the first query that it would refuse."""
        interface = self.data_interface
        missing = [name for name in interface.feature_names if name not in queries]
        if missing and queries.columns.isin(interface.feature_names).all():
            raise ColumnError(f"column {missing[0]!r} is missing; {did_you_mean(missing[0], queries.columns)}")
        names = [name for name in interface.categorical_feature_names if name in queries]
        texts = pd.DataFrame({name: [str(cell) for cell in queries[name]] for name in names}, index=queries.index)
        if permitted is not None:
            permitted = {k: [str(c) for c in ends] if k in texts else ends for k, ends in permitted.items()}
        known = interface.permitted_range if permitted is None else interface.get_features_range()[1]
        for name in names:  # dates, missing cells and what an explainer that is handed over takes are not DiCE's affair
            free = queries[name].isna().to_numpy() | is_carried(queries[name]) | (not self.own_space)
            texts[name] = texts[name].where(~free, str(known[name][0]))
        strange = [~texts[name].isin([str(category) for category in known[name]]).to_numpy() for name in texts]
        first = [int(np.any(strange, axis=0).argmax())]  # row 0 where nothing is strange
        # DiCE looks for the text or for the cell itself, which is a number where private data list numpy's numbers.
        shown = {name: texts[name] if isinstance(known[name][0], str) else queries[name] for name in names}
        one = pd.DataFrame(shown, index=queries.index).iloc[first]
        self.setup(vary, permitted, queries.iloc[first].drop(columns=texts.columns).join(one), None)

    def _wanted(self, desired: Any, labels: list[Any]) -> Any:
        """The label of the desired class; None for the opposite one."""
        desired = desired.item() if isinstance(desired, np.generic) else desired
        position = isinstance(desired, int) and 0 <= desired < len(labels)
        if not position and desired != "opposite" and desired in labels:
            return desired
        place = self.infer_target_cfs_class(desired, 0, len(labels))  # refuses in DiCE's words
        return None if desired == "opposite" else labels[place]


def _named_explainer(method: Any) -> str | None:
    """The name in the registry of a `method` of `dice_ml.Dice`; None for DiCE's own methods and for unknown ones."""
    if method == "relax":
        return "relax-global"
    own = (SamplingStrategy.Random, SamplingStrategy.Genetic, SamplingStrategy.KdTree, SamplingStrategy.Gradient)
    return method if method not in own and method in list_explainers() else None


class Dice(dice.Dice):  # type: ignore[misc]
    """In place of `dice_ml.Dice`: `method` may be "relax" or any name of the registry; the others are DiCE's own."""

    def __new__(cls, data_interface: Any, model_interface: Any, method: str | None = "relax", **kwargs: Any) -> Any:
        name = _named_explainer(method)
        if name is None:
            return dice.Dice(data_interface, model_interface, method, **kwargs)
        return ReLAXDice(data_interface, model_interface, name, **kwargs)


class _Installation:
    """Whether `dice_ml.Dice` knows the registry: for good, by `install`, or while blocks of `installed` run."""

    def __init__(self) -> None:
        self.lock, self.for_good, self.blocks = Lock(), False, 0
        self.own = dice.Dice.decide_implementation_type

    def set(self, *, for_good: bool | None = None, blocks: int = 0) -> None:
        """Take in what has changed; the class itself is changed, since many have imported it by name."""
        with self.lock:
            self.for_good = self.for_good if for_good is None else for_good
            self.blocks += blocks
            present = dice.Dice.decide_implementation_type
            if self.for_good or self.blocks:
                dice.Dice.decide_implementation_type = _decide_with_registry if present is self.own else present
            elif present is _decide_with_registry:  # what others have put there since is theirs
                dice.Dice.decide_implementation_type = self.own


def _decide_with_registry(self: Any, data_interface: Any, model_interface: Any, method: Any, **kwargs: Any) -> None:
    """As DiCE does it: the object becomes one of the class that `method` names, and is then made."""
    name = _named_explainer(method) if _INSTALLATION.for_good or _INSTALLATION.blocks else None
    if name is None:
        _INSTALLATION.own(self, data_interface, model_interface, method, **kwargs)
        return
    self.__class__ = ReLAXDice
    self.__init__(data_interface, model_interface, name, **kwargs)


_INSTALLATION = _Installation()


def install() -> None:
    """Let `dice_ml.Dice(d, m, method="relax")`, or with any name of the registry, work as written, until `uninstall`.

    The names of DiCE's own methods stay its own, and so does its default. To install twice is to install once.
    """
    _INSTALLATION.set(for_good=True)


def uninstall() -> None:
    """Take back what `install` did; explainers that were made meanwhile go on working."""
    _INSTALLATION.set(for_good=False)


@contextmanager
def installed() -> Iterator[None]:
    """`install` for a block, after which everything is as it was before, whatever happens in it; blocks may nest."""
    _INSTALLATION.set(blocks=1)
    try:
        yield
    finally:
        _INSTALLATION.set(blocks=-1)
