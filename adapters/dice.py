"""DiCE's face: any explainer of the registry as an explainer of dice-ml, by its name in `dice_ml.Dice` or in ours.

`install()` teaches `dice_ml.Dice` the names of the registry, `uninstall()` takes that back, and `with installed():`
does both; `Dice` here is a class of its own that knows them and leaves DiCE alone.
"""

import inspect
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from importlib import import_module
from numbers import Real
from threading import Lock
from typing import Any, Literal, Self

import numpy as np
import pandas as pd
from dice_ml.diverse_counterfactuals import CounterfactualExamples
from scipy.special import softmax

from relax_plugin.arrays import Array
from relax_plugin.base import CounterfactualExplainer, full_name, list_explainers, make_explainer
from relax_plugin.errors import ColumnError, InputError, MissingExtraError, UnknownNameError, did_you_mean
from relax_plugin.features import Bounds, FeatureSpace
from relax_plugin.goal import Goal
from relax_plugin.results import Counterfactuals

try:
    from dice_ml import dice
    from dice_ml.constants import SamplingStrategy
    from dice_ml.counterfactual_explanations import CounterfactualExplanations
    from dice_ml.explainer_interfaces.explainer_base import ExplainerBase
except ImportError as missing:
    raise MissingExtraError("DiCE's face needs dice-ml: pip install 'relax-plugin[dice]'.") from missing

BY_DEVIATION = "inverse_mad"  # DiCE's default feature_weights
ONLY_THE_CLASS = 0.5  # DiCE's default stopping_threshold
EVEN_WEIGHT = 0.2  # DiCE's default of both proximity_weight and sparsity_weight, where it has both
PRIVATE_ROWS = 1000  # drawn from the ranges of a private data interface, which has no rows to learn from
MISSING_TEXTS = ("nan", "<NA>", "NaT")  # what DiCE makes of missing categories; and of None "None", which may be a word


@dataclass(frozen=True)
class _Request:
    """What DiCE is asked for, in its own words and with its own defaults; None is a weight that is not given."""

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
    feature_weights: Any = BY_DEVIATION
    proximity_weight: float | None = None
    sparsity_weight: float | None = None

    @property
    def costs(self) -> Mapping[str, float]:
        """The prices of the features that have one of their own."""
        if isinstance(self.feature_weights, Mapping):
            return self.feature_weights
        if self.feature_weights not in (None, BY_DEVIATION):
            raise InputError(f"feature_weights is {self.feature_weights!r}; give {BY_DEVIATION!r}, or name to weight.")
        return {}

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

    @property
    def objective(self) -> Literal["sparse", "closest"] | None:
        """What the heavier of the two weights asks for; None if they weigh the same, which is left to the explainer."""
        given = {"proximity_weight": self.proximity_weight, "sparsity_weight": self.sparsity_weight}
        for name, weight in given.items():
            number = isinstance(weight, Real) and not isinstance(weight, bool)
            if weight is not None and not (number and 0 <= weight < float("inf")):
                raise InputError(f"{name} is {weight!r}, but must be a finite number, 0 or more.")
        close, few = (EVEN_WEIGHT if weight is None else float(weight) for weight in given.values())
        return None if close == few else "closest" if close > few else "sparse"


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
            explainer = make_explainer(explainer, _AskedModel(model_interface, names), seed=seed, **(options or {}))
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
        space, training = _training_rows(self.data_interface, self.explainer.seed, rows)
        known, values = space.taking_in(training)
        if rows is None:
            _refuse_doubtful(space)
        else:
            known = known.with_features(_fitting(f, rows[f.name]) if f.categories else f for f in known.features)
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
        - `total_CFs` counterfactuals are delivered where so many distinct valid rows are found: first such as differ in
          which features they change, then others. A query without any has none.
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
        given = locals()
        request = _Request(**{field.name: given[field.name] for field in fields(_Request)})
        queries = self._read(query_instances)
        # DiCE refuses missing cells; here a query may lack what rows of the data lack, or whatever the explainer takes.
        lacking = queries.columns if not self.own_space else _may_lack(self.data_interface)
        checked = queries.drop(columns=[name for name in lacking if name in queries])
        self._validate_counterfactual_configuration(checked, **vars(request))
        _check_tuning(tuning, inspect.signature(self.generate_counterfactuals).parameters)
        examples = self._explain(queries, request) if len(queries) else []
        if not examples or self.total_cfs_found == 0:
            self._check_any_counterfactuals_computed([])  # raises
        return CounterfactualExplanations(examples)

    def _generate_counterfactuals(self, query_instance: Any, total_CFs: int, **asked: Any) -> Any:
        known = {field.name for field in fields(_Request)}
        request = _Request(total_CFs, **{name: value for name, value in asked.items() if name in known})
        return self._explain(self._read(query_instance), request)[0]

    def _read(self, query_instances: Any) -> pd.DataFrame:
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

    def _explain(self, queries: pd.DataFrame, request: _Request) -> list[Any]:
        interface, vary = self.data_interface, request.vary
        permitted = _with_ends(interface, request.permitted_range)
        self._check_queries(queries, permitted, request.features_to_vary)
        if not self.fitted:
            self.fit(queries, request.desired_range)
        space, bounds = _space_for(self.explainer.space_, queries, permitted or {}, widened=self.own_space)
        view = self.explainer.for_space(space.with_costs(request.costs) if request.costs else space)
        view.fills = True
        if request.random_seed is not None:
            view.set_params(seed=request.random_seed)
        rows, vary = queries[space.columns], _named_features(space, vary)
        start = _moved_in(space, rows, vary, bounds)
        # What the model says to the queries as they were asked, if those are not the ones that are explained.
        before = None if start is rows else _answers(view, rows)
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
            others = [opposite.get(label, labels[0]) for label in before]  # those of refused queries are not delivered
            goal = Goal.to(others, min_probability=request.min_probability)
        objective = _known_objective(request, view._objectives(), type(view).__name__)
        wishes = {"vary": vary, "bounds": bounds, "objective": objective}
        made, found = self._found(view, start, goal, request.total_CFs, wishes)
        answers = (made.before if before is None else before).tolist()
        refused = pd.isna(np.array(answers, dtype=object))
        if refused.any():
            places = ", ".join(map(str, np.flatnonzero(refused)))
            words = f"the model refuses the queries at positions {places}: they have no counterfactuals."
            warnings.warn(words, stacklevel=3)
        found = found[~refused[found["query_id"]]]
        outcome = pd.Series(answers, queries.index, dtype=object if refused.any() else None)
        tables = _Tables.of(queries.assign(**{interface.outcome_name: outcome}), found, interface)
        told = {
            "posthoc_sparsity_param": request.posthoc_sparsity_param,
            "desired_range": None if request.desired_range is None else list(request.desired_range),
            "model_type": self.model.model_type,
        }
        desired = [opposite.get(answer) if wanted is None else wanted for answer in answers]
        examples = [_LaterExamples(interface, tables, q, {**told, "desired_class": d}) for q, d in enumerate(desired)]
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
        found, itself = table(made), np.flatnonzero(made.stages[:, 0] == "query")
        if total > 1 and len(itself):
            queries, goals = start.iloc[itself], goal.chunk(itself)
            others = table(view.explain(queries, goal=goals, n=total - 1, besides_query=True, **wishes))
            others = others.assign(query_id=itself[others["query_id"]], cf_id=others["cf_id"] + 1)
            found = pd.concat([found, others]).sort_values(["query_id", "cf_id"])
        return made, found[found["cf_id"] < total]

    def _check_queries(self, queries: pd.DataFrame, permitted: Mapping[str, Any] | None, vary: Any) -> None:
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
            free = queries[name].isna().to_numpy() | _is_carried(queries[name]) | (not self.own_space)
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


def _answers(explainer: CounterfactualExplainer, rows: pd.DataFrame) -> Array:
    """The model's answers; None, or NaN of a regressor, for a row that it refuses."""
    answer = explainer.blackbox_.confirm(rows, mark_refused=True)
    labels = explainer.blackbox_.labels(answer.output)
    labels[~answer.answered] = None
    return labels


def _named_explainer(method: Any) -> str | None:
    method = full_name(method) if isinstance(method, str) else method
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


def _known_objective(request: _Request, known: Sequence[str], method: str) -> Literal["sparse", "closest"] | None:
    """The objective of the request if the explainer knows it; else a warning that its weight is set aside."""
    if request.objective is None or request.objective in known:
        return request.objective
    weighed = "proximity_weight" if request.proximity_weight is not None else "sparsity_weight"
    warnings.warn(
        f"{weighed} is set aside: it asks for the closest answers, and {method} knows only the sparsest.", stacklevel=4
    )
    return None


def _check_tuning(given: Mapping[str, Any], own: Mapping[str, Any]) -> None:
    """Warn of options that only DiCE's own methods have; refuse what neither they nor our `own` parameters name."""
    if not given:
        return
    network = import_module("dice_ml.explainer_interfaces.dice_pytorch").DicePyTorch
    decide = import_module("dice_ml.dice").decide
    classes = [network, *(decide(None, method) for method in ("random", "genetic", "kdtree"))]
    methods = [network.generate_counterfactuals, *(one._generate_counterfactuals for one in classes)]
    known = {option for method in methods for option in inspect.signature(method).parameters}
    known -= {"self", "query_instance", "kwargs", *own}
    for name in given:
        if name not in known:
            hint = did_you_mean(name, sorted(known))
            raise UnknownNameError(f"generate_counterfactuals has no option {name!r}; {hint}")
        warnings.warn(f"{name} tunes DiCE's own methods; this explainer does without it.", stacklevel=3)


class _AskedModel:
    """The model as DiCE asks it, with the manners of an estimator."""

    def __init__(self, interface: Any, names: Sequence[str]) -> None:
        self.interface = interface
        self._estimator_type = interface.model_type
        own = list(getattr(interface.model, "feature_names_in_", ()))
        self.columns = own if interface.transformer.func is None and set(own) == set(names) else list(names)
        self.logits: bool | None = None  # whether scores are those of a network, before softmax
        if hasattr(interface.model, "classes_"):
            self.classes_, self.logits = np.asarray(interface.model.classes_), False
        if hasattr(interface, "set_eval_mode"):
            interface.set_eval_mode()  # dropout would make the answers random

    def predict_proba(self, rows: pd.DataFrame) -> Array:
        scores = np.asarray(self.interface.get_output(rows[self.columns])).reshape(len(rows), -1)
        if scores.shape[1] == 1 and not hasattr(self, "classes_"):  # a network's P(class 1)
            return np.concatenate([1.0 - scores, scores], axis=1)
        if self.logits is None:  # the first answer, to some training rows, tells
            self.logits = bool((scores < 0).any() or (np.abs(scores.sum(axis=1) - 1.0) > 1e-3).any())
        return np.asarray(softmax(scores, axis=1)) if self.logits else scores

    def predict(self, rows: pd.DataFrame) -> Array:
        if self._estimator_type == "regressor":
            return np.asarray(self.interface.get_output(rows[self.columns])).reshape(len(rows))
        if not hasattr(self, "classes_"):
            return np.asarray(self.predict_proba(rows).argmax(axis=1))
        return np.asarray(self.interface.get_output(rows[self.columns], model_score=False))


def _refuse_doubtful(space: FeatureSpace) -> None:
    """Refuse categories whose texts may be the model's numbers, truths or texts alike."""
    for feature in space.features:
        texts = [category for category in feature.categories if isinstance(category, str)]  # else DiCE kept the number
        numbers = all(text.lstrip("+-").replace(".", "", 1).isdigit() for text in texts)
        if texts and (numbers or set(texts) <= {"True", "False"}):
            known = f"{feature.name!r} has the categories {list(texts)}, which the model may know as text or not"
            raise InputError(f"{known}; show some rows as it is asked with: fit(X_train).")


def _with_ends(interface: Any, permitted: Mapping[str, Sequence[Any]] | None) -> dict[str, list[Any]] | None:
    """The permitted ranges, an end that is None or infinite being that of the data."""
    if permitted is None:
        return None
    ranges = {name: list(ends) for name, ends in permitted.items()}
    seen = interface.get_features_range()[1] if hasattr(interface, "data_df") else interface.permitted_range
    for name, ends in ranges.items():
        if not ends:
            raise InputError(f"permitted_range of {name!r} is empty; give [low, high], or the categories to choose.")
        if name in interface.continuous_feature_names and len(ends) == 2:
            own = zip(ends, (min(seen[name]), max(seen[name])), strict=True)
            low, high = (end if end is not None and np.isfinite(end) else last for end, last in own)
            some = [number for number in _listed_numbers(interface)[1].get(name, ()) if low <= number <= high]
            ranges[name] = some or [low, high]
    return ranges


def _listed_numbers(interface: Any) -> tuple[dict[str, float], dict[str, list[Any]]]:
    """The numeric features of a private data interface that list three values or more, as choices to answer with.

    By name the step of those whose values are evenly spaced, and the values, in order, of those whose are not. (DiCE
    itself takes the first two for the ends of a range.)
    """
    steps, ordered = {}, {}
    for name in [] if hasattr(interface, "data_df") else interface.continuous_feature_names:
        numbers = sorted(set(interface.permitted_range[name]))
        gaps = np.diff(np.asarray(numbers, dtype=float))
        if len(interface.permitted_range[name]) > 2 and len(gaps):
            if np.allclose(gaps, gaps[0], rtol=1e-9, atol=0.0):
                steps[name] = float(gaps[0])
            else:
                ordered[name] = numbers
    return steps, ordered


def _space_for(
    space: FeatureSpace, queries: pd.DataFrame, permitted: Mapping[Any, Sequence[Any]], *, widened: bool
) -> tuple[FeatureSpace, Bounds]:
    """The space in the dtypes of the queries, `widened` for what is permitted, and that as the bounds of a call."""
    features, bounds = [], {}
    for name in permitted:
        if name in space.columns and name not in space.names:
            told = f"permitted_range names {name!r}, which is part of a one-hot group or derived from other columns"
            raise InputError(f"{told}; accepted are {space.names}.")
    for feature in space.features:
        if feature.columns or feature.carried:
            features.append(feature)
            continue
        choices = permitted.get(feature.name, ())
        if widened and choices and not feature.categories:
            ends = [float(end) for end in choices]
            feature = replace(feature, low=min([feature.low, *ends]), high=max([feature.high, *ends]))
        features.append(_fitting(feature, queries[feature.name]))
        if choices:
            texts = {str(category): category for category in features[-1].categories}
            bounds[feature.name] = [texts.get(str(choice), choice) for choice in choices]
    return space.with_features(features), bounds


def _named_features(space: FeatureSpace, columns: Any) -> Any:
    """The features of columns that may vary: a group for its columns, and none for a derived one; None is all."""
    if columns is None:
        return None
    groups = {column: feature.name for feature in space.features for column in feature.columns}
    return list(dict.fromkeys(groups.get(name, name) for name in columns if name not in space.formulas))


def _fitting(feature: Any, column: "pd.Series[Any]") -> Any:
    """The feature in the dtype of the column."""
    dtype: Any = column.dtype
    if feature.categories:
        known = column.dropna()
        if len(known) == 0:
            return feature
        kind = type(known.iloc[0])
        read: Any = "True".__eq__ if kind in (bool, np.bool_) else kind
        numbers = [isinstance(category, int | float | np.number) for category in feature.categories]
        fractions = kind in (float, np.float64, np.float32) or any(isinstance(c, float) for c in feature.categories)
        if all(numbers) and fractions and issubclass(kind, int | float | np.number):  # their texts differ, 2 and 2.0
            fits = all(kind(category) == category for category in feature.categories)
            return replace(feature, dtype=dtype) if fits else feature  # whole numbers cannot hold 0.5
        categories = tuple(read(str(category)) for category in feature.categories)
        if isinstance(dtype, pd.CategoricalDtype):  # it may lack categories that the counterfactuals need
            dtype = pd.CategoricalDtype(list(categories), dtype.ordered)
        return replace(feature, categories=categories, dtype=dtype)
    if not pd.api.types.is_integer_dtype(dtype):
        return feature if pd.api.types.is_object_dtype(dtype) else replace(feature, dtype=dtype)
    held = np.iinfo(getattr(dtype, "numpy_dtype", dtype))
    step = feature.step if feature.step and feature.step % 1 == 0 else 1.0
    low, high = max(feature.low, float(held.min)), min(feature.high, float(held.max))
    return replace(feature, kind="integer", dtype=dtype, step=step, low=low, high=high)


def _moved_in(space: FeatureSpace, queries: pd.DataFrame, vary: Any, bounds: Any) -> pd.DataFrame:
    """The queries with every cell within its permitted range."""
    if not bounds:
        return queries
    space, values = space.taking_in(queries)
    limits, missing = space.limits(bounds=bounds), space.is_missing(values)
    moved, nearest = values.copy(), np.clip(values, *limits.span(values))
    for name, bound in bounds.items():
        j = space.names.index(name)
        outside = (values[:, j] < limits.low[0, j]) | (values[:, j] > limits.high[0, j])
        if space.is_categorical[j]:
            codes = [space.features[j].categories.index(category) for category in bound]
            outside, nearest[:, j] = ~np.isin(values[:, j], codes), codes[0]
        outside &= ~missing[:, j]
        moved[outside, j] = nearest[outside, j]
        fixed = space.features[j].immutable or (vary is not None and name not in vary)
        way = {"increase": 1, "decrease": -1, None: 0}[space.features[j].direction]
        wrong = (values[:, j] > limits.high[0, j]) if way > 0 else (values[:, j] < limits.low[0, j]) & (way < 0)
        if (outside & (fixed | wrong)).any():
            value = queries[name].iloc[int(np.argmax(outside))]
            raise InputError(f"{name!r} is {value!r}, which is outside the permitted range and isn't allowed to vary.")
    return queries if (moved == values).all() else pd.DataFrame(space.restore(moved, queries, values))


def _may_lack(interface: Any) -> list[str]:
    """The features that some rows of the data interface lack."""
    if not hasattr(interface, "data_df"):
        return []
    data = interface.data_df[interface.feature_names]
    gaps = data.isna() | data.isin([*MISSING_TEXTS, "None"]) & data.columns.isin(interface.categorical_feature_names)
    return [name for name in data if gaps[name].any()]


def _as_known(texts: "pd.Series[Any]", shown: "pd.Series[Any] | None") -> "pd.Series[Any]":
    """A column of DiCE's texts: dates as dates, and missing cells missing, as the rows that are shown tell."""
    texts = texts.astype(object)
    blank = texts.isin(MISSING_TEXTS)
    if shown is not None and any(cell is None for cell in shown):
        blank |= texts == "None"
    if shown is not None and _is_carried(shown):
        made = pd.to_datetime(texts) if pd.api.types.is_datetime64_any_dtype(shown.dtype) else pd.to_timedelta(texts)
        return made.astype(shown.dtype)
    return texts.where(~blank, None) if blank.any() else texts


def _is_carried(column: "pd.Series[Any]") -> bool:
    """Whether the cells are dates or durations, which DiCE takes for categories and no explainer changes."""
    return pd.api.types.is_datetime64_any_dtype(column.dtype) or pd.api.types.is_timedelta64_dtype(column.dtype)


def _training_rows(interface: Any, seed: int, shown: pd.DataFrame | None = None) -> tuple[FeatureSpace, pd.DataFrame]:
    """What is learned from, with categories as text, and its space.

    Rows that lack a cell are left out, unless rows that are `shown` lack some too: then the model takes them.
    """
    texts, bounds = interface.categorical_feature_names, interface.permitted_range
    steps, ordered = _listed_numbers(interface)
    if hasattr(interface, "data_df"):
        data, seen = interface.data_df[interface.feature_names], interface.get_features_range()[1]
        data = data.dropna() if shown is None or not shown.isna().any(axis=None) else data
        bounds = {name: ends for name, ends in bounds.items() if list(ends) != list(seen[name])}
        # By its text DiCE's float32 becomes the number that was written: 0.1, not 0.10000000149.
        floats = data.select_dtypes(np.float32).columns
        rows = data.astype(dict.fromkeys([*texts, *floats], str)).astype(dict.fromkeys(floats, float))
        rows = rows.assign(**{name: _as_known(rows[name], None if shown is None else shown[name]) for name in texts})
    else:
        rng, size = np.random.default_rng(seed), PRIVATE_ROWS
        choices = [*texts, *steps, *ordered]
        ends = {name: (min(cells), max(cells)) for name, cells in bounds.items() if name not in texts}
        drawn = {n: rng.choice(c, size) if n in choices else rng.uniform(*ends[n], size) for n, c in bounds.items()}
        decimals = {n: d for n, d in interface.get_decimal_precisions("dict").items() if n not in choices}
        rows = pd.DataFrame(drawn).round(decimals)
        bounds = {n: ends.get(n, c) for n, c in bounds.items() if n not in ordered}
    chosen = [name for name in texts if not _is_carried(rows[name])]
    bounds = {n: b for n, b in bounds.items() if n not in texts or n in chosen}
    space = FeatureSpace.infer(rows, categorical=chosen, bounds=bounds, steps=steps, ordered=ordered)
    given = getattr(interface, "continuous_features_precision", None) or {}
    stepped = [replace(f, step=10.0 ** -given[f.name]) if f.name in given else f for f in space.features]
    return space.with_features(stepped), rows


@dataclass(frozen=True)
class _Tables:
    """All queries and all that was found, in DiCE's columns, from which the tables of each query are cut."""

    queries: pd.DataFrame
    found: pd.DataFrame
    ends: Array  # query q has the rows from ends[q] to ends[q + 1] of those found

    @classmethod
    def of(cls, queries: pd.DataFrame, found: pd.DataFrame, interface: Any) -> "_Tables":
        columns = [*interface.feature_names, interface.outcome_name]
        ends = np.searchsorted(found["query_id"], np.arange(len(queries) + 1))
        # Every table has an index of its own, from 0 on, so that cutting it out is all there is to do.
        numbered = found[columns].set_axis(pd.Index(found.groupby("query_id").cumcount()))
        return cls(queries[columns].set_axis(np.zeros(len(queries), dtype=int)), numbered, ends)

    def cut(self, query: int) -> tuple[pd.DataFrame, pd.DataFrame | None]:
        """A query, and what was found for it."""
        first, end = self.ends[query : query + 2]
        return self.queries.iloc[query : query + 1], self.found.iloc[first:end] if end > first else None


class _LaterExamples(CounterfactualExamples):  # type: ignore[misc]
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
