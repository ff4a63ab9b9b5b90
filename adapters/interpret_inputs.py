"""InterpretML's inputs read: its model or prediction function, its training rows and feature types, and its queries."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from relax_plugin.errors import GoalError, InputError, TableNote, did_you_mean

if TYPE_CHECKING:
    from relax_plugin.base import CounterfactualExplainer
    from relax_plugin.features import FeatureSpace
    from relax_plugin.goal import Goal

CATEGORICAL = ("nominal", "nominal_prevalence", "nominal_alphabetical", "ordinal")  # interpret's feature types
TYPES = (*CATEGORICAL, "auto", "continuous", "quantile", "rounded_quantile", "uniform", "winsorized", "ignore")
FUNCTION_ROWS = 100  # training rows that a prediction function is asked, to see what it answers
MOST_ANSWERS = 10_000  # training rows whose answers' deviation the default goal of a regressor is measured by


def seed_of(seed: int, random_state: Any) -> int:
    """The seed, which interpret's own explainers call `random_state`: a whole number, or a generator to draw one of."""
    if random_state is None:
        return seed
    if seed:
        raise InputError(f"seed is {seed} and random_state is {random_state!r}, which say the same; give one of them.")
    draw = getattr(random_state, "integers", getattr(random_state, "randint", None))
    if draw is not None:
        return int(draw(2**31 - 1))
    if isinstance(random_state, bool) or not isinstance(random_state, int | np.integer):
        raise InputError(f"random_state is {random_state!r}; give a whole number, a RandomState or a Generator.")
    return int(random_state)


def estimator(model: Any, goal: "Goal | None", data: Any = None) -> Any:
    """The model behind a prediction function, which is what interpret is often given."""
    owner = getattr(model, "__self__", None)
    if hasattr(owner, "__sklearn_tags__") and model.__name__ in ("predict", "predict_proba", "decision_function"):
        return owner
    plain = callable(model) and not hasattr(model, "predict") and not hasattr(model, "parameters")  # as networks have
    number = goal.kind in ("shift", "between") if goal is not None else plain and _answers_numbers(model, data)
    return SimpleNamespace(predict=model, _estimator_type="regressor") if plain and number else model


def _answers_numbers(function: Any, data: Any) -> bool:
    """Whether a function answers one number a row that is no label and no probability: fractions beyond 0 to 1."""
    if not len(np.shape(data)):
        return False
    answers = np.asarray(function(data[:FUNCTION_ROWS]))
    if answers.dtype.kind != "f" or (answers.ndim > 1 and answers.shape[1] != 1):
        return False
    return bool((answers % 1 != 0).any() and ((answers < 0) | (answers > 1)).any())


def default_goal(explainer: "CounterfactualExplainer", data: Any) -> "tuple[Goal, str]":
    """A regressor's goal where none is given, and the sentence that says it: half a standard deviation of its answers.

    Those to the training rows, or to ten thousand of them, drawn by the explainer's seed.
    """
    from relax_plugin.base import make_explainer
    from relax_plugin.goal import Goal

    asked = make_explainer("greedy", explainer.model, explainer.space, goal=Goal.shift(1.0)).fit(data)
    space, values = asked.space_.taking_in(data)
    if len(values) > MOST_ANSWERS:
        values = values[np.random.default_rng(int(explainer.seed)).permutation(len(values))[:MOST_ANSWERS]]
    answers = np.asarray(asked.blackbox_.over(space).confirm(space.model_input(values)).output, dtype=float)
    half = float(answers.std()) / 2
    if not half > 0:
        told = f"the model answers {answers[0]:g} to every training row, so that there is no usual change of its answer"
        raise GoalError(f"{told}; give a goal: Goal.shift(delta) or Goal.between(low, high).")
    sentence = (
        f"goal: an answer higher or lower by at least {half:.4g}, half a standard deviation of the model's answers"
    )
    return Goal.shift(half), f"{sentence} (no goal was given)"


def refuse_one_row(data: Any) -> None:
    """Refuse training rows that are one row, such as the background that SHAP's explainers are content with."""
    if (*np.shape(data), 0)[0] == 1:
        raise InputError(
            "data has 1 row, and the ranges and categories that a counterfactual may use are read off the training "
            "rows: pass those, where SHAP is content with one background row, or say them by space=FeatureSpace(...)."
        )


def space_of(
    data: Any,
    names: Sequence[str] | None,
    types: Sequence[Any] | None,
    one_hot: Mapping[Any, Sequence[Any]] | str | None = None,
) -> "FeatureSpace":
    """The space of the training rows, described as interpret does."""
    from relax_plugin.features import FeatureSpace

    columns = list(getattr(data, "columns", [f"x{j}" for j in range((*np.shape(data), 0, 0)[1])]))
    for what, given in (("names", names), ("types", types)):
        if given is not None and len(given) != len(columns):
            raise InputError(f"there are {len(given)} feature_{what}, but {len(columns)} columns.")
    said = dict(zip(columns, [None] * len(columns) if types is None else types, strict=True))
    for name, kind in said.items():
        if isinstance(kind, str) and kind not in TYPES:
            raise InputError(f"the feature type of {name!r} is {kind!r}; {did_you_mean(kind, TYPES)}")
    refuse_one_row(data)
    called = dict(zip(columns, columns if names is None or hasattr(data, "columns") else names, strict=True))
    groups: Any = (_dummies(data, said, called) or None) if one_hot == "auto" else one_hot
    grouped = (
        {column: name for name, of_group in groups.items() for column in of_group}
        if isinstance(groups, Mapping)
        else {}
    )
    categorical = [n for n, kind in said.items() if not isinstance(kind, str | int | None) or kind in CATEGORICAL]
    categorical = [name for name in categorical if name not in grouped]
    still = dict.fromkeys(grouped.get(name, name) for name, kind in said.items() if kind == "ignore")
    space = FeatureSpace.infer(data, categorical=categorical, immutable=list(still), one_hot=groups)
    if names is None or space.container == "frame":  # whose columns the model knows by their own names
        return space
    named = [_called(feature, called) for feature in space.features]
    return FeatureSpace(named, "array", space.array_dtype, [str(name) for name in names])


def _called(feature: Any, names: Mapping[Any, Any]) -> Any:
    """The feature of an array under the name that its column has, or its columns have."""
    if not feature.columns:
        return replace(feature, name=str(names[feature.name]))
    labels = {column: str(names[column]).removeprefix(feature.name)[1:] for column in feature.columns}
    categories = tuple(labels.get(category, category) for category in feature.categories)
    return replace(feature, categories=categories, columns=tuple(str(names[column]) for column in feature.columns))


def _dummies(data: Any, said: Mapping[Any, Any], called: Mapping[Any, Any]) -> dict[Any, list[Any]]:
    """The one-hot groups among the columns, as `pandas.get_dummies` makes them, by the names they are called.

    No group is a set of columns of which some are to be ignored and others not.
    """
    from relax_plugin.features import FeatureSpace

    frame = import_module("pandas").DataFrame(data, copy=False)
    frame.columns = list(called.values())
    flags = [name for name in frame if isinstance(name, str) and frame[name].isin([0, 1]).all()]
    if len(flags) < 2 or not frame.columns.is_unique:
        return {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TableNote)  # it would say the same as below, of arrays in other names
        found = [feature for feature in FeatureSpace.infer(frame[flags], one_hot="auto").features if feature.columns]
    columns = {name: column for column, name in called.items()}
    groups = {feature.name: [columns[name] for name in feature.columns] for feature in found}
    groups = {
        name: group
        for name, group in groups.items()
        if name not in columns and len({said[column] == "ignore" for column in group}) == 1
    }
    if groups:
        told = "; ".join(f"{name!r} of {[called[column] for column in group]}" for name, group in groups.items())
        warnings.warn(
            f"one-hot groups were found, each of which is one feature: {told}; one_hot={{}} keeps them apart.",
            TableNote,
            stacklevel=4,
        )
    return groups


def rows_of(space: "FeatureSpace", X: Any) -> tuple[Any, list[Any]]:
    """The rows in the container of the training rows, also a single one, and what to call each."""
    if hasattr(X, "to_frame"):  # a Series is one row
        X = X.to_frame().T.infer_objects()
    if not hasattr(X, "columns"):
        X = np.atleast_2d(np.asarray(X))
        if space.container == "frame":
            known, values = space.taking_in(X)
            return known.model_input(values), list(range(len(X)))
        return X, list(range(len(X)))
    labels = X.index.tolist() if hasattr(X, "index") else range(len(X))
    X = X if space.container == "frame" else space.frame(X).to_numpy()
    return X, [label if isinstance(label, int) else str(label) for label in labels]
