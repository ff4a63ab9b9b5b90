"""Reading CatBoost models: oblivious trees and those of other growth, from the model's own JSON.

Of categories only tests of single ones can be read (`one_hot_max_size`). All others are replaced by statistics of the
training labels, which no reading of the trees can repeat; a model with these says so. Nothing here imports CatBoost.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd

from relax_plugin.arrays import Floats
from relax_plugin.trees.ensemble import Decision, Tree, Trees, as_float64_threshold
from relax_plugin.trees.reading import Reading, Source, Unreadable, nested_nodes

NUMBERS = ("RMSE", "MAE", "MAPE", "Quantile", "Huber", "Expectile", "LogCosh", "Lq")  # raw scores are the numbers
AT_LEAST_HALF = 0.5  # the probability from which on its predict says the second class, unless it was told another


def read_catboost(model: Any) -> Reading:
    """Scores are added in float64, the bias last; float32(x) > float32 border goes right."""
    if not model.is_fitted():
        raise Unreadable(f"it needs a fitted model, and the {type(model).__name__} is not")
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model.json"
        model.save_model(str(path), format="json")
        stored = json.loads(path.read_text())
    decision = _decision(model, stored["model_info"])
    scale, bias = stored["scale_and_bias"]
    if scale != 1:
        raise Unreadable(f"it reads scores as they are added, and the CatBoost model scales them by {scale}")
    tests = _Tests(stored["features_info"])
    if "oblivious_trees" in stored:
        trees = [_oblivious_tree(tree, len(bias), tests) for tree in stored["oblivious_trees"]]
    else:
        trees = [_grown_tree(tree, len(bias), tests) for tree in stored["trees"]]
    if any(bias):  # added after all trees, as one of a single leaf
        nothing = np.zeros(1, dtype=np.int64)
        trees.append(
            Tree(nothing, np.full(1, np.inf), nothing - 1, nothing - 1, np.array([bias], dtype=np.float64), nothing > 0)
        )
    width = len(model.feature_names_)
    reading = Reading.of_rows(Trees.joined(trees, decision, width + len(tests.categories)))
    if not tests.has_categories:
        return reading
    named = f"the {type(model).__name__}"
    own = [Source(place) for place in range(width)]
    apart = [Source(tests.flat_of_category[category], named) for category, _ in tests.categories]
    matrix = _Matrix(model, width, tests, stored.get("oblivious_trees"))
    return replace(reading, sources=(*own, *apart), matrix=matrix, plain=False)


def _decision(model: Any, told: Mapping[str, Any]) -> Decision:
    loss = told.get("params", {}).get("loss_function", {}).get("type")
    if hasattr(model, "predict_proba") and loss == "Logloss":
        border = model.get_probability_threshold()
        if border != AT_LEAST_HALF:
            raise Unreadable(
                f"it reads a CatBoost model that parts classes at a half, and this one parts them at {border}"
            )
        return Decision("above", model.classes_, 0.0, "sigmoid")
    if hasattr(model, "predict_proba") and loss == "MultiClass":
        return Decision("largest score", model.classes_, link="softmax")
    if type(model).__name__ == "CatBoostRegressor" and loss in NUMBERS:
        return Decision("number")
    raise Unreadable(f"it cannot read a {type(model).__name__} with the loss {loss!r}")


class _Tests:
    """What the splits of a model test: columns of its rows, and single categories as columns behind them."""

    def __init__(self, info: Mapping[str, Any]) -> None:
        self.info = info
        numbers = {one["feature_index"]: one for one in info.get("float_features") or []}
        self.numbers = {index: int(one["flat_feature_index"]) for index, one in numbers.items()}
        # What is missing is above every border, or below; where training missed none, no border is below it.
        self.missing_left = {index: one["nan_value_treatment"] != "AsTrue" for index, one in numbers.items()}
        named = info.get("categorical_features") or []
        self.names = {one["feature_index"]: one["feature_id"] or one["flat_feature_index"] for one in named}
        self.flat_of_category = {one["feature_index"]: int(one["flat_feature_index"]) for one in named}
        self.categories = [(one["feature_index"], value) for one in named for value in one.get("values") or []]
        self.place = {key: place for place, key in enumerate(self.categories)}
        self.width = len(self.numbers) + len(self.names)

    @property
    def has_categories(self) -> bool:
        return bool(self.names)

    def read(self, split: Mapping[str, Any]) -> tuple[int, float, bool]:
        """The column that a split tests, the largest float64 that goes left, and whether a missing number does."""
        if split["split_type"] == "FloatFeature":
            index = split["float_feature_index"]
            return self.numbers[index], float(as_float64_threshold(split["border"])), self.missing_left[index]
        if split["split_type"] == "OneHotFeature":
            return self.width + self.place[split["cat_feature_index"], split["value"]], 0.5, True
        raise Unreadable(self._why(split["split_type"]))

    def _why(self, kind: str) -> str:
        ctrs = self.info.get("ctrs") or []
        found = [part["cat_feature_index"] for one in ctrs for part in one["elements"] if "cat_feature_index" in part]
        if kind != "OnlineCtr" or not found:
            return f"it reads tests of numbers and of single categories, and the CatBoost model has a {kind}"
        return (
            "it reads categories that are tested one by one, and the CatBoost model replaces those of "
            f"{self.names[found[0]]!r} by statistics of its training labels; a larger one_hot_max_size avoids that"
        )


def _oblivious_tree(tree: Mapping[str, Any], outputs: int, tests: _Tests) -> Tree:
    """Every level tests one thing; the place of a leaf has the answer to the first split as its lowest bit."""
    splits = [tests.read(split) for split in tree["splits"] or []][::-1]  # the highest bit at the root
    inner, leaves = 2 ** len(splits) - 1, 2 ** len(splits)
    level = np.repeat(np.arange(len(splits)), 2 ** np.arange(len(splits)))
    ends = np.full(leaves, -1)
    node = np.arange(inner)
    column, threshold, missing_left = (np.array([split[part] for split in splits]) for part in range(3))
    scores = np.zeros((inner + leaves, outputs))
    scores[inner:] = np.array(tree["leaf_values"], dtype=np.float64).reshape(leaves, outputs)
    nothing = np.zeros(leaves)
    return Tree(
        np.concatenate([column[level], nothing]).astype(np.int64),
        np.concatenate([threshold[level], nothing]),
        np.concatenate([2 * node + 1, ends]),
        np.concatenate([2 * node + 2, ends]),
        scores,
        np.concatenate([missing_left[level], nothing]).astype(bool),
    )


def _grown_tree(root: Mapping[str, Any], outputs: int, tests: _Tests) -> Tree:
    """A tree whose nodes have tests of their own (grow_policy Depthwise and Lossguide)."""
    nodes, children = nested_nodes(root, ("left", "right"))
    scores = np.zeros((len(nodes), outputs))
    column, threshold = np.zeros(len(nodes), dtype=np.int64), np.zeros(len(nodes))
    missing_left = np.zeros(len(nodes), dtype=bool)
    for index, node in enumerate(nodes):
        if "split" not in node:
            scores[index] = node["value"]
            continue
        if node["split"]["split_type"] == "OneHotFeature":
            raise Unreadable("it reads categories of CatBoost in oblivious trees only, and these grow otherwise")
        column[index], threshold[index], missing_left[index] = tests.read(node["split"])
    return Tree(column, threshold, children[0], children[1], scores, missing_left)


class _Matrix:
    """A model's rows as its trees see them: numbers, and for each category that is tested whether a row has it.

    How CatBoost knows a category again is its own affair. The leaves that rows reach tell it: of an oblivious tree
    the place of the leaf has a bit for each split.
    """

    def __init__(self, model: Any, width: int, tests: _Tests, trees: Any) -> None:
        self.model, self.width, self.numbers = model, width, sorted(tests.numbers.values())
        self.bits: dict[int, tuple[int, int]] = {}  # of each category the tree and the split that test it
        for number, tree in enumerate(trees or []):
            for bit, split in enumerate(tree["splits"] or []):
                if split["split_type"] == "OneHotFeature":
                    self.bits.setdefault(tests.place[split["cat_feature_index"], split["value"]], (number, bit))
        self.count = len(tests.categories)

    def __call__(self, rows: Any) -> Floats:
        made = np.full((len(rows), self.width + self.count), np.nan)
        for place in self.numbers:
            column = rows.iloc[:, place] if isinstance(rows, pd.DataFrame) else pd.Series(rows[:, place])
            made[:, place] = column.to_numpy(dtype=np.float64, na_value=np.nan)
        if self.bits:
            leaves = np.asarray(self._leaves(rows))
            for place, (tree, bit) in self.bits.items():
                made[:, self.width + place] = leaves[:, tree] >> bit & 1
        return made

    def _leaves(self, rows: Any) -> Any:
        try:
            return self.model.calc_leaf_indexes(rows)
        except Exception as error:
            if type(error).__name__ != "CatBoostError":
                raise
            raise ValueError(str(error)) from error  # a cell that it does not take: a category may not be missing
