"""Reading tree ensembles: scikit-learn, XGBoost and LightGBM models as `Trees`.

Models that cannot be read say so in a sentence. Nothing here imports XGBoost or LightGBM: a model of theirs is read
through its own methods.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import (
    AdaBoostClassifier,
    AdaBoostRegressor,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from relax_plugin.arrays import Floats, Values
from relax_plugin.errors import UnsupportedError
from relax_plugin.features import FeatureSpace
from relax_plugin.trees.ensemble import Decision, Tree, Trees, as_float64_threshold, last_where, sigmoid

LIBRARIES = ("sklearn", "xgboost", "lightgbm")
RISING = (StandardScaler, MinMaxScaler, MaxAbsScaler, RobustScaler)  # column by column, never falling
TINY = float(np.float32(1e-35))  # LightGBM takes numbers up to this for 0
XGBOOST_NUMBERS = ("reg:squarederror", "reg:absoluteerror", "reg:pseudohubererror", "reg:squaredlogerror")
LIGHTGBM_NUMBERS = ("regression", "regression_l1", "huber", "fair", "quantile", "mape")


class Unreadable(Exception):
    """Why a model is no tree ensemble that can be read; the end of a sentence."""


def why_unreadable(model: Any, space: FeatureSpace | None = None) -> str | None:
    """Why `read_trees` cannot read the model; None if it can."""
    try:
        _read_over(model, space)
    except Unreadable as reason:
        return str(reason)
    return None


def read_trees(model: Any, space: FeatureSpace | None = None) -> Trees:
    """The model as `Trees` over its input columns; an unsupported one is refused with *skipped because ...*.

    Parameters
    ----------
    model : estimator, Pipeline of scalers and an estimator, or XGBoost Booster
    space : FeatureSpace, optional
        Of the rows the model is asked with: a scaler computes in the precision of what it is given.
    """
    try:
        return _read_over(model, space)
    except Unreadable as reason:
        raise UnsupportedError(f"skipped because {reason}.") from None


def _read_over(model: Any, space: FeatureSpace | None) -> Trees:
    for feature in () if space is None else space.features:
        if str(feature.dtype).lower() == "float16":  # in which rows are rounded after they were looked at
            raise Unreadable(f"it compares in single or double precision, and {feature.name!r} is float16")
    return _read(model, space)


def _read(model: Any, space: FeatureSpace | None) -> Trees:
    if isinstance(model, FrozenEstimator):
        return _read(model.estimator, space)
    if isinstance(model, GridSearchCV | RandomizedSearchCV) and hasattr(model, "best_estimator_"):
        return _read(model.best_estimator_, space)
    if isinstance(model, Pipeline):
        return _read_pipeline(model, space)
    library, name = type(model).__module__.partition(".")[0], type(model).__name__
    if isinstance(model, BaseEstimator) and library not in LIBRARIES:  # a subclass may answer otherwise than its trees
        raise Unreadable(
            f"it reads models of {', '.join(LIBRARIES)} as they are, and the model is a {name} of another package"
        )
    if isinstance(model, DecisionTreeClassifier | DecisionTreeRegressor):
        return _read_mean(model, [model])
    if isinstance(model, RandomForestClassifier | RandomForestRegressor | ExtraTreesClassifier | ExtraTreesRegressor):
        return _read_mean(model, model.estimators_)
    if isinstance(model, GradientBoostingClassifier | GradientBoostingRegressor):
        return _read_gradient_boosting(model)
    if isinstance(model, AdaBoostClassifier):
        return _read_adaboost(model)
    if isinstance(model, AdaBoostRegressor):
        return _read_adaboost_regressor(model)
    if library == "xgboost" and (name == "Booster" or hasattr(model, "get_booster")):
        return _read_xgboost(model)
    if library == "lightgbm" and hasattr(model, "booster_"):
        return _read_lightgbm(model)
    article = "an" if name[:1].upper() in "AEIOU" else "a"
    raise Unreadable(f"it needs a tree ensemble, and the model is {article} {name}")


# Pipelines.


def _read_pipeline(pipeline: Pipeline, space: FeatureSpace | None) -> Trees:
    """The trees behind scalers, their thresholds moved in front of them."""
    steps = [step for _, step in pipeline.steps[:-1] if step is not None and step != "passthrough"]
    for step in steps:
        if not isinstance(step, RISING):
            name = type(step).__name__
            raise Unreadable(f"it reads trees behind scalers of single columns only, and the pipeline has a {name}")
    trees = _read(pipeline.steps[-1][1], space)
    if not steps or not any(map(len, trees.cuts)):
        return trees
    names = getattr(pipeline, "feature_names_in_", None)
    cuts, feature = trees.cuts, np.arange(trees.features)
    wanted = np.full((max(map(len, cuts)), trees.features), np.inf)
    for j in feature:
        wanted[: len(cuts[j]), j] = cuts[j]

    single = space is not None and _precision(space) == np.float32

    def below(values: Values) -> Any:
        cells = values.astype(np.float32) if single else values
        rows = cells if names is None else pd.DataFrame(cells, columns=names)
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(pipeline[:-1].transform(rows), dtype=np.float64) <= wanted

    moved = last_where(below, wanted.shape, 1e25)  # further out, a scaler of float32 columns may overflow
    threshold = trees.threshold.copy()
    for j in feature:
        here = trees.feature == j
        threshold[here] = moved[np.searchsorted(cuts[j], threshold[here]), j]
    return replace(trees, threshold=threshold)


def _precision(space: FeatureSpace) -> Any:
    """The dtype of the matrix that a scaler makes of the space's rows."""
    lowest = np.nan_to_num([[feature.low for feature in space.features]])
    return np.asarray(space.model_input(lowest)).dtype


# scikit-learn.


def _read_mean(model: Any, estimators: Any) -> Trees:
    """A decision tree, or a forest: the mean of its trees' probabilities or numbers."""
    if model.n_outputs_ != 1:
        raise Unreadable(f"it explains one answer a row, and the {type(model).__name__} gives {model.n_outputs_}")
    classes = getattr(model, "classes_", None)
    decision = Decision("number") if classes is None else Decision("largest score", classes)
    trees = [_sklearn_tree(estimator, estimator.tree_.value[:, 0, :]) for estimator in estimators]
    return Trees.joined(trees, decision, model.n_features_in_, divisor=len(trees))


def _read_gradient_boosting(model: Any) -> Trees:
    if model.init_ != "zero" and not isinstance(model.init_, DummyClassifier | DummyRegressor):
        name = type(model.init_).__name__
        raise Unreadable(f"it reads a {type(model).__name__} that starts from a constant, and this one from a {name}")
    outputs = model.estimators_.shape[1]
    trees = []
    for stage in model.estimators_:
        for output, estimator in enumerate(stage):
            scores = np.zeros((estimator.tree_.node_count, outputs))
            scores[:, output] = model.learning_rate * estimator.tree_.value[:, 0, 0]
            trees.append(_sklearn_tree(estimator, scores))
    base = model._raw_predict_init(np.zeros((1, model.n_features_in_), dtype=np.float32))
    classes = getattr(model, "classes_", None)
    if classes is None:
        decision = Decision("number")
    elif outputs == 1:  # its predict asks for a raw score >= 0
        slope = 2.0 if model.loss == "exponential" else 1.0
        decision = Decision("above", classes, float(np.nextafter(0.0, -1.0)), "sigmoid", slope)
    else:
        decision = Decision("largest score", classes, link="softmax")
    return Trees.joined(trees, decision, model.n_features_in_, base=base)


def _read_adaboost(model: Any) -> Trees:
    """Each tree votes for the class it predicts, with its weight; the others share the opposite (SAMME)."""
    count, classes = len(model.classes_), model.classes_
    if count == 1:
        raise Unreadable("it needs a tree ensemble that knows two classes, and the AdaBoostClassifier knows one")
    trees = []
    for estimator, weight in zip(model.estimators_, model.estimator_weights_, strict=False):
        if not isinstance(estimator, DecisionTreeClassifier):
            name = type(estimator).__name__
            raise Unreadable(f"it needs a tree ensemble, and the AdaBoostClassifier is one of {name}")
        chosen = estimator.classes_[estimator.tree_.value[:, 0, :].argmax(axis=1)]
        votes = np.where(chosen[:, None] == classes, weight, -1 / (count - 1) * weight)
        trees.append(_sklearn_tree(estimator, votes[:, 1:] if count == 2 else votes))
    total = model.estimator_weights_.sum()
    if count == 2:  # the two votes are each other's opposite, and the decision function is their difference
        decision = Decision("above", classes, 0.0, "sigmoid")
        return Trees.joined(trees, decision, model.n_features_in_, divisor=total / 2)
    decision = Decision("largest score", classes, link="softmax", slope=1 / (count - 1))
    return Trees.joined(trees, decision, model.n_features_in_, divisor=total)


def _read_adaboost_regressor(model: Any) -> Trees:
    for estimator in model.estimators_:
        if not isinstance(estimator, DecisionTreeRegressor):
            name = type(estimator).__name__
            raise Unreadable(f"it needs a tree ensemble, and the AdaBoostRegressor is one of {name}")
    trees = [_sklearn_tree(estimator, estimator.tree_.value[:, 0, :]) for estimator in model.estimators_]
    return Trees.joined(trees, Decision("weighted median"), model.n_features_in_, weights=model.estimator_weights_)


def _sklearn_tree(estimator: Any, scores: Floats) -> Tree:
    tree = estimator.tree_
    threshold = as_float64_threshold(tree.threshold)  # it compares float32(x) <= threshold
    return Tree(tree.feature, threshold, tree.children_left, tree.children_right, np.asarray(scores))


# XGBoost.


def _read_xgboost(model: Any) -> Trees:
    """Margins are added in float32 from the base score on; float32(x) < float32 threshold goes left."""
    wrapped = type(model).__name__ != "Booster"
    booster = model.get_booster() if wrapped else model
    learner = json.loads(booster.save_raw("json"))["learner"]
    parameters, objective = learner["learner_model_param"], learner["objective"]["name"]
    missing = getattr(model, "missing", np.nan)
    if learner["gradient_booster"]["name"] != "gbtree":
        kind = learner["gradient_booster"]["name"]
        raise Unreadable(f"it reads XGBoost's gbtree, and the booster is a {kind}")
    if missing is not None and not np.isnan(missing):
        raise Unreadable(f"it compares numbers only, and the XGBoost model takes {missing} for a missing value")
    body = learner["gradient_booster"]["model"]
    count = len(body["trees"])
    last = booster.attr("best_iteration")
    if wrapped and last is not None:  # what early stopping found best is all that the wrapper's predict uses
        count = body["iteration_indptr"][int(last) + 1]
    outputs = max(1, int(parameters["num_class"]))
    base = np.atleast_1d(np.array(json.loads(parameters["base_score"]), dtype=np.float32))
    if objective == "binary:logistic":
        # The logit of the base score, each step rounded to float32.
        base = -np.log((np.float32(1) / base - np.float32(1)).astype(np.float64)).astype(np.float32)
        decision = Decision("above", np.arange(2), _half(np.float32, 1.0), "sigmoid")
    elif objective == "multi:softprob":
        decision = Decision("largest probability", np.arange(outputs), link="softmax")
    elif objective in XGBOOST_NUMBERS and outputs == 1:
        decision = Decision("number")
    else:
        raise Unreadable(f"it cannot read an XGBoost model with the objective {objective!r}")
    trees = [
        _xgboost_tree(tree, output, outputs)
        for tree, output in zip(body["trees"][:count], body["tree_info"][:count], strict=True)
    ]
    return Trees.joined(trees, decision, int(parameters["num_feature"]), base=np.broadcast_to(base, (outputs,)))


def _xgboost_tree(tree: Any, output: int, outputs: int) -> Tree:
    if any(tree["split_type"]) or int(tree["tree_param"]["size_leaf_vector"]) > 1:
        raise Unreadable("it needs tests of numbers and one score a leaf, and the XGBoost model has others")
    condition = np.array(tree["split_conditions"], dtype=np.float32)
    scores = np.zeros((len(condition), outputs), dtype=np.float32)
    scores[:, output] = condition  # of a leaf it is the score
    return Tree(
        np.array(tree["split_indices"]),
        as_float64_threshold(condition, strict=True),
        np.array(tree["left_children"]),
        np.array(tree["right_children"]),
        scores,
    )


# LightGBM.


def _read_lightgbm(model: Any) -> Trees:
    """Scores are added in float64; x <= threshold goes left, in float64."""
    dump = model.booster_.dump_model()
    objective, *options = str(dump.get("objective", "custom")).split()
    outputs = int(dump["num_tree_per_iteration"])
    settings = dict(option.split(":") for option in options if ":" in option)
    if objective == "binary" and outputs == 1:
        slope = float(settings.get("sigmoid", 1.0))
        decision = Decision("above", model.classes_, _half(np.float64, slope), "sigmoid", slope)
    elif objective == "multiclass":
        decision = Decision("largest probability", model.classes_, link="softmax")
    elif objective in LIGHTGBM_NUMBERS and "sqrt" not in options:
        decision = Decision("number")
    else:
        raise Unreadable(f"it cannot read a LightGBM model with the objective {' '.join([objective, *options])!r}")
    trees = [
        _lightgbm_tree(tree["tree_structure"], position % outputs, outputs)
        for position, tree in enumerate(dump["tree_info"])
    ]
    divisor = len(trees) // outputs if dump.get("average_output") else 1.0
    return Trees.joined(trees, decision, int(dump["max_feature_idx"]) + 1, divisor=divisor)


def _lightgbm_tree(root: Any, output: int, outputs: int) -> Tree:
    nodes = list(_lightgbm_nodes(root))
    children = np.full((2, len(nodes)), -1)
    feature, threshold = np.zeros(len(nodes), dtype=np.int64), np.zeros(len(nodes))
    scores = np.zeros((len(nodes), outputs))
    position = {id(node): index for index, node in enumerate(nodes)}
    for index, node in enumerate(nodes):
        if "leaf_value" in node:
            if "leaf_coeff" in node:
                raise Unreadable("it needs constant leaves, and the LightGBM model has linear ones")
            scores[index, output] = node["leaf_value"]
            continue
        if node["decision_type"] != "<=" or node["missing_type"] == "Zero":
            raise Unreadable("it compares numbers only, and the LightGBM model tests categories or takes 0 for missing")
        feature[index], threshold[index] = node["split_feature"], node["threshold"]
        children[:, index] = position[id(node["left_child"])], position[id(node["right_child"])]
    # Numbers within TINY of 0 are 0 to it: a threshold there has them all on the side of 0.
    near = np.abs(threshold) <= TINY
    threshold = np.where(near, np.where(threshold >= 0, TINY, np.nextafter(-TINY, -1.0)), threshold)
    return Tree(feature, threshold, children[0], children[1], scores)


def _lightgbm_nodes(root: Any) -> Iterator[Any]:
    waiting = [root]
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(node[side] for side in ("right_child", "left_child") if side in node)


def _half(dtype: Any, slope: float) -> float:
    """The largest score whose probability is not above a half, with the library's rounding."""

    def not_above(score: Floats) -> Any:
        probability = sigmoid((slope * score).astype(dtype))
        return ~(probability > 1 - probability) if dtype is np.float64 else ~(probability > dtype(0.5))

    return float(last_where(not_above, (1,), 1e3)[0])
