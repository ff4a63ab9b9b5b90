"""Reading tree ensembles: scikit-learn, XGBoost, LightGBM and CatBoost models as `Trees`, also behind a pipeline.

Models that cannot be read say so in a sentence.
"""

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import (
    AdaBoostClassifier,
    AdaBoostRegressor,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.pipeline import Pipeline
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor, ExtraTreeClassifier, ExtraTreeRegressor
from sklearn.utils import get_tags

from relax_plugin.arrays import Booleans, Floats
from relax_plugin.errors import UnsupportedError
from relax_plugin.features import FeatureSpace
from relax_plugin.proofs.exact import library_of
from relax_plugin.trees.boosters import read_lightgbm, read_xgboost
from relax_plugin.trees.catboosters import read_catboost
from relax_plugin.trees.ensemble import Decision, Tree, Trees, as_float64_threshold
from relax_plugin.trees.over_values import over_values
from relax_plugin.trees.pipelines import behind
from relax_plugin.trees.reading import Reading, Source, Unreadable, as_numbers, refuse_altered

NUMBERS = ("squared_error", "absolute_error", "quantile")  # losses whose raw scores are the numbers answered
POSITIONS = 256  # that a set of categories can hold
SINGLE = (DecisionTreeClassifier, DecisionTreeRegressor, ExtraTreeClassifier, ExtraTreeRegressor)
FORESTS = (RandomForestClassifier, RandomForestRegressor, ExtraTreesClassifier, ExtraTreesRegressor)


def read_histogram_boosting(model: Any) -> Reading:
    """Scores are added in the precision of its baseline; x <= threshold goes left, in float64."""
    classes, outputs = getattr(model, "classes_", None), model.n_trees_per_iteration_
    if classes is None:
        if model.loss not in NUMBERS:
            raise Unreadable(f"it cannot read a {type(model).__name__} with the loss {model.loss!r}")
        decision = Decision("number")
    elif outputs == 1:
        decision = Decision("above", classes, 0.0, "sigmoid")
    else:
        decision = Decision("largest score", classes, link="softmax")
    base = np.asarray(model._baseline_prediction).ravel()
    bitsets, place_of = model._bin_mapper.make_known_categories_bitsets()
    known = (
        {feature: _members(bitsets[place]) for feature, place in enumerate(np.asarray(place_of))}
        if len(bitsets)
        else {}
    )
    prepare = getattr(model, "_preprocessor", None)
    if prepare is not None:
        refuse_altered(prepare, *(step for _, step, _ in prepare.transformers_ if not isinstance(step, str)))
    refuse_altered(*(predictor for stage in model._predictors for predictor in stage))
    trees = [
        _tree(predictor, output, outputs, base.dtype, known)
        for stage in model._predictors
        for output, predictor in enumerate(stage)
    ]
    reading = Reading.of_rows(Trees.joined(trees, decision, model.n_features_in_, base=base))
    if prepare is None:
        return reading
    # It puts columns of categories first, as their positions.
    own = np.asarray(model.is_categorical_, dtype=bool)
    order = np.concatenate([np.flatnonzero(own), np.flatnonzero(~own)])
    name = type(model).__name__
    sources = tuple(Source(int(column), name if own[column] else "") for column in order)
    return replace(reading, sources=sources, matrix=lambda rows: as_numbers(prepare.transform(rows)), plain=False)


def _tree(predictor: Any, output: int, outputs: int, dtype: Any, known: dict[int, Booleans]) -> Tree:
    nodes = predictor.nodes
    is_leaf = nodes["is_leaf"].astype(bool)
    scores: Floats = np.zeros((len(nodes), outputs), dtype=dtype)
    scores[:, output] = nodes["value"]
    missing_left = nodes["missing_go_to_left"].astype(bool)
    sets = {}
    for node in np.flatnonzero(nodes["is_categorical"].astype(bool) & ~is_leaf):
        listed = _members(predictor.raw_left_cat_bitsets[nodes["bitset_idx"][node]])
        # A category that training did not have goes the way of a missing one.
        sets[int(node)] = listed | (~known[int(nodes["feature_idx"][node])] & missing_left[node])
    left, right = (np.where(is_leaf, -1, nodes[side].astype(np.int64)) for side in ("left", "right"))
    return Tree(nodes["feature_idx"].astype(np.int64), nodes["num_threshold"], left, right, scores, missing_left, sets)


def _members(words: Any) -> Booleans:
    """The bits of a set, the lowest first."""
    bits = np.unpackbits(np.ascontiguousarray(words, dtype="<u4").view(np.uint8), bitorder="little")
    return np.asarray(bits[:POSITIONS].astype(bool))


def why_unreadable(model: Any, space: FeatureSpace | None = None) -> str | None:
    """Why `read_trees` cannot read the model; None if it can."""
    try:
        _read_over(model, space)
    except Unreadable as reason:
        return str(reason)
    return None


def read_trees(model: Any, space: FeatureSpace | None = None) -> Trees:
    """The model as `Trees` over the values of a space; an unsupported one is refused with *skipped because ...*.

    A test is one of the features of the rows the model is asked with: of a number a threshold, of a category a set of
    positions; its codes of missing numbers go the way of these. Without a space, of the columns as numbers.
    """
    try:
        return _read_over(model, space)
    except Unreadable as reason:
        raise UnsupportedError(f"skipped because {reason}.") from None


def _read_over(model: Any, space: FeatureSpace | None) -> Trees:
    for feature in () if space is None else space.features:
        if str(feature.dtype).lower() == "float16":  # in which rows are rounded after they were looked at
            raise Unreadable(f"it compares in single or double precision, and {feature.name!r} is float16")
    while not isinstance(model, Pipeline) and (inner := _inside(model)) is not None:
        model = inner
    return over_values(_read(model), model, space)


def _inside(model: Any) -> Any:
    if type(model) not in (FrozenEstimator, GridSearchCV, RandomizedSearchCV):
        return None
    refuse_altered(model)
    return model.estimator if type(model) is FrozenEstimator else getattr(model, "best_estimator_", None)


def _read(model: Any) -> Reading:
    while (inner := _inside(model)) is not None:
        model = inner
    library, name = library_of(model), type(model).__name__
    if library or isinstance(model, BaseEstimator):
        refuse_altered(model)
    if type(model) is Pipeline:
        return behind(model, _read(model.steps[-1][1]))
    trees = _read_sklearn(model)
    if trees is not None:
        takes = get_tags(model).input_tags.allow_nan  # its trees have a way for missing numbers in any case
        return Reading.of_rows(trees if takes else replace(trees, missing_left=None))
    if type(model) in (HistGradientBoostingClassifier, HistGradientBoostingRegressor):
        return read_histogram_boosting(model)
    if library == "xgboost" and (name == "Booster" or hasattr(model, "get_booster")):
        return read_xgboost(model)
    if library == "lightgbm" and hasattr(model, "booster_"):
        return read_lightgbm(model)
    if library == "catboost" and name in ("CatBoostClassifier", "CatBoostRegressor"):
        return read_catboost(model)
    article = "an" if name[:1].upper() in "AEIOU" else "a"
    raise Unreadable(f"it needs a tree ensemble, and the model is {article} {name}")


# scikit-learn.


def _read_sklearn(model: Any) -> Trees | None:
    if type(model) in SINGLE:
        return _read_mean(model, [model])
    if type(model) in FORESTS:
        return _read_mean(model, model.estimators_)
    if type(model) in (GradientBoostingClassifier, GradientBoostingRegressor):
        return _read_gradient_boosting(model)
    if type(model) is AdaBoostClassifier:
        return _read_adaboost(model)
    return _read_adaboost_regressor(model) if type(model) is AdaBoostRegressor else None


def _read_mean(model: Any, estimators: Any) -> Trees:
    if model.n_outputs_ != 1:
        raise Unreadable(f"it explains one answer a row, and the {type(model).__name__} gives {model.n_outputs_}")
    classes = getattr(model, "classes_", None)
    decision = Decision("number") if classes is None else Decision("largest score", classes)
    trees = [_sklearn_tree(estimator, estimator.tree_.value[:, 0, :]) for estimator in estimators]
    return Trees.joined(trees, decision, model.n_features_in_, divisor=len(trees))


def _read_gradient_boosting(model: Any) -> Trees:
    if model.init_ != "zero" and type(model.init_) not in (DummyClassifier, DummyRegressor):
        name = type(model.init_).__name__
        raise Unreadable(f"it reads a {type(model).__name__} that starts from a constant, and this one from a {name}")
    if model.init_ != "zero":
        refuse_altered(model.init_)
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
    refuse_altered(estimator, tree)
    threshold = as_float64_threshold(tree.threshold)  # it compares float32(x) <= threshold
    children = tree.children_left, tree.children_right
    return Tree(tree.feature, threshold, *children, np.asarray(scores), tree.missing_go_to_left)
