"""Reading boosters: XGBoost and LightGBM models as trees, their native categories included.

Nothing here imports either library: a model of theirs is read through its own methods.
"""

import json
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from relax_plugin.arrays import Booleans, Floats
from relax_plugin.trees.ensemble import Decision, Tree, Trees, as_float64_threshold, last_where, sigmoid
from relax_plugin.trees.reading import Reading, Unreadable, as_codes, nested_nodes, refuse_altered

WRITTEN_INFINITY = 1e300  # as LightGBM writes the threshold that parts the missing from all numbers
TINY = float(np.float32(1e-35))  # LightGBM takes numbers up to this for 0
XGBOOST_NUMBERS = ("reg:squarederror", "reg:absoluteerror", "reg:pseudohubererror", "reg:squaredlogerror")
LIGHTGBM_NUMBERS = ("regression", "regression_l1", "huber", "fair", "quantile", "mape")
MOST_CATEGORIES = 256  # of a column whose categories an XGBoost model does not list


# XGBoost.


def read_xgboost(model: Any) -> Reading:
    """Margins are added in float32 from the base score on; float32(x) < float32 threshold goes left."""
    wrapped = type(model).__name__ != "Booster"
    booster = model.get_booster() if wrapped else model
    refuse_altered(booster)
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
    categories = _xgboost_categories(body.get("cats"), learner.get("feature_types", []))
    trees = [
        _xgboost_tree(tree, output, outputs, categories)
        for tree, output in zip(body["trees"][:count], body["tree_info"][:count], strict=True)
    ]
    joined = Trees.joined(trees, decision, int(parameters["num_feature"]), base=np.broadcast_to(base, (outputs,)))
    reading = Reading.of_rows(joined, gaps_of_sparse=True)
    return replace(reading, matrix=as_codes(categories), plain=False) if categories else reading


def _xgboost_categories(stored: Any, kinds: list[str]) -> dict[int, list[Any] | None]:
    """The categories of each column that has some, in the order of their positions; None: the model does not say."""
    found: dict[int, list[Any] | None] = {place: None for place, kind in enumerate(kinds) if kind == "c"}
    for place in found:
        coded = {} if stored is None or place >= len(stored["enc"]) else stored["enc"][place]
        values, ends = coded.get("values", []), coded.get("offsets", [])
        if ends:
            text = bytes(value % 256 for value in values)
            found[place] = [text[start:end].decode() for start, end in pairwise(ends)]
        elif values:
            found[place] = list(values)
    return found


def _xgboost_tree(tree: Any, output: int, outputs: int, categories: dict[int, list[Any] | None]) -> Tree:
    if int(tree["tree_param"]["size_leaf_vector"]) > 1:
        raise Unreadable("it needs one score a leaf, and the XGBoost model has several")
    condition = np.array(tree["split_conditions"], dtype=np.float32)
    scores = np.zeros((len(condition), outputs), dtype=np.float32)
    scores[:, output] = condition  # of a leaf it is the score
    feature, left, right = (np.array(tree[name]) for name in ("split_indices", "left_children", "right_children"))
    missing_left = np.array(tree["default_left"], dtype=bool)
    sets: dict[int, Booleans] = {}
    for node, first, size in zip(
        tree["categories_nodes"], tree["categories_segments"], tree["categories_sizes"], strict=True
    ):
        known = categories.get(int(feature[node]))
        sets[node] = np.ones(MOST_CATEGORIES if known is None else len(known), dtype=bool)
        sets[node][tree["categories"][first : first + size]] = False  # what is listed goes right
    return Tree(feature, as_float64_threshold(condition, strict=True), left, right, scores, missing_left, sets)


# LightGBM.


def read_lightgbm(model: Any) -> Reading:
    """Scores are added in float64; x <= threshold goes left, in float64."""
    refuse_altered(model.booster_)
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
    reading = Reading.of_rows(Trees.joined(trees, decision, int(dump["max_feature_idx"]) + 1, divisor=divisor))
    categories = dump.get("pandas_categorical") or []
    if not categories:
        return reading

    def matrix(rows: Any) -> Floats:
        # The lists are those of the frame's columns of categories, in their order.
        dtypes = getattr(rows, "dtypes", ())
        places = [place for place, dtype in enumerate(dtypes) if str(dtype) == "category"]
        return as_codes(dict(zip(places, categories, strict=False)))(rows)

    return replace(reading, matrix=matrix, plain=False)


def _lightgbm_tree(root: Any, output: int, outputs: int) -> Tree:
    nodes, children = nested_nodes(root, ("left_child", "right_child"))
    feature, threshold = np.zeros(len(nodes), dtype=np.int64), np.zeros(len(nodes))
    scores, missing_left = np.zeros((len(nodes), outputs)), np.zeros(len(nodes), dtype=bool)
    sets: dict[int, Booleans] = {}
    for index, node in enumerate(nodes):
        if "leaf_value" in node:
            if "leaf_coeff" in node:
                raise Unreadable("it needs constant leaves, and the LightGBM model has linear ones")
            scores[index, output] = node["leaf_value"]
            continue
        feature[index] = node["split_feature"]
        if node["decision_type"] == "==":  # the categories listed go left, all else right
            listed = [int(code) for code in str(node["threshold"]).split("||")]
            sets[index] = np.isin(np.arange(max(listed) + 1), listed)
            continue
        if node["missing_type"] == "Zero":
            raise Unreadable("it compares numbers only, and the LightGBM model takes 0 for missing")
        threshold[index] = node["threshold"]
        # Where training had no missing number ("None"), it takes one for 0.
        missing_left[index] = node["default_left"] if node["missing_type"] == "NaN" else node["threshold"] >= 0
    threshold = np.where(threshold >= WRITTEN_INFINITY, np.inf, threshold)
    # Numbers within TINY of 0 are 0 to it: a threshold there has them all on the side of 0.
    near = np.abs(threshold) <= TINY
    threshold = np.where(near, np.where(threshold >= 0, TINY, np.nextafter(-TINY, -1.0)), threshold)
    return Tree(feature, threshold, children[0], children[1], scores, missing_left, sets)


def _half(dtype: Any, slope: float) -> float:
    """The largest score whose probability is not above a half, with the library's rounding."""

    def not_above(score: Floats) -> Any:
        probability = sigmoid((slope * score).astype(dtype))
        return ~(probability > 1 - probability) if dtype is np.float64 else ~(probability > dtype(0.5))

    return float(last_where(not_above, (1,), 1e3)[0])
