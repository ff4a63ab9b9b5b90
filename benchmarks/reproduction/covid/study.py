"""The COVID-19 case study (§6): which countries a model calls high-risk, and what would make it call them normal.

Why that is no advice is said with it. What a study returns holds numbers in standard deviations and counts: no cell
of the table, and no country.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import AdaBoostClassifier, RandomForestClassifier
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV, StratifiedKFold, train_test_split
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from relax_plugin import datasets
from relax_plugin.agent.config import ReLAXConfig
from relax_plugin.datasets.covid import ACTIONABLE, DECREASE_ONLY, INCREASE_ONLY
from relax_plugin.errors import MissingExtraError
from relax_plugin.evaluation.judge import Method, Unit, judge
from relax_plugin.evaluation.metrics import inside_box, neighbour_distance
from relax_plugin.evaluation.tasks import TEST_SHARE, Task
from relax_plugin.features import FeatureSpace
from relax_plugin.goal import Goal

NORMAL, HIGH = 0, 1
MAX_CHANGES = 3  # the authors' published experiment
NEIGHBOURS = 5
USUAL = 0.95  # share of the normal training countries whose distance to their neighbours counts as usual

EXPLAINED = "XGBoost"
FREE = "relax-global, either way"  # without the directions: what the model says, not what is asked of it
METHODS = ("relax-global", "greedy", FREE)

DETERMINED = "Density"  # population by area, and both of them are held fixed

GRIDS: Mapping[str, Mapping[str, list[Any]]] = {
    "SVM": {"model__C": [0.1, 1.0, 10.0, 100.0], "model__gamma": ["scale", 0.01]},
    "random forest": {"model__min_samples_leaf": [1, 3]},
    "AdaBoost": {"model__learning_rate": [0.1, 0.5, 1.0]},
    "XGBoost": {"model__max_depth": [2, 4], "model__learning_rate": [0.03, 0.1, 0.3]},
}


@dataclass(frozen=True)
class Settings:
    """How much is computed: the paper's numbers by default.

    Parameters
    ----------
    grids : mapping
        Model to hyper-parameters to search over.
    folds : int
        Of the cross-validation.
    trees : int
        Of XGBoost.
    splits : int
        Splits 0 … splits - 1 are compared with each other.
    config : ReLAXConfig
        Of the explainer.
    """

    grids: Mapping[str, Mapping[str, list[Any]]] = field(default_factory=lambda: GRIDS)
    folds: int = 10  # ReLAX §6
    trees: int = 500  # ReLAX §6
    splits: int = 5
    config: ReLAXConfig = field(default_factory=ReLAXConfig)


def study(
    seed: int, dataset: datasets.Dataset | None = None, settings: Settings | None = None
) -> dict[str, pd.DataFrame]:
    """Repeat the case study on one 70/30 split.

    Parameters
    ----------
    seed : int
        Of the split, the models and the explainers.
    dataset : Dataset, optional
        By default `datasets.load("covid")`.
    settings : Settings, optional

    Returns
    -------
    dict of tidy frames, each with a column `seed`
        `models`: a row for each model: `model`, `parameters` (JSON), `cv` and `± cv` (accuracy over the folds), `test`
        (accuracy), `majority` (accuracy of always saying normal), `training_rows`, `test_rows`, `test_high`,
        `called_high` (test rows).

        `counterfactuals`: a row for each `method` and test country that XGBoost calls high-risk (`query`, a number):
        `truly_high`, `claimed` (by the method), `valid` (by the judge), `violations`, `sparsity`, `proximity` (L1 in
        standard deviations), `inside_box`, `neighbour_distance`, `plausible` (in the box, and no farther from the
        normal training countries than these usually are from each other), `query_plausible` (the country as it is),
        `contradiction` (Density is changed, which follows from population and area, which are fixed).

        `changes`: a row for each changed feature: `method`, `query`, `feature`, `direction` (+1, -1), `size` (standard
        deviations).

        `importance`: `feature`, `importance` (gain), `rank`, `actionable`.

        `transfer`: a row for each `method`, `query` and `other_seed`, whose model had other training rows: `held_out`
        (the country was none of them), `high_before`, `normal_after`: its answers to country and counterfactual.

        `association`: a row for each feature over the whole table, the same for each seed: `actionable`, `allowed`
        (+1, -1, 0), `correlation` with being high-risk, `given_age` (the same among countries of one median age),
        `auc`, and the correlations `with_age` and `with_population`.
    """
    dataset, settings = dataset or datasets.load("covid"), settings or Settings()
    X_train, X_test, y_train, y_test = _split(dataset, seed)
    searches = {name: _search(name, seed, settings).fit(X_train, y_train) for name in settings.grids}
    model = searches[EXPLAINED].best_estimator_
    space = FeatureSpace.infer(X_train, **dataset.constraints)
    called_high = model.predict(X_test) == HIGH
    task = Task("covid/xgb", model, space, Goal.to(NORMAL), X_train, X_test[called_high], y_train, y_test[called_high])
    answers = {method: _answers(method, task, seed, settings.config) for method in METHODS}
    frames = {
        "models": _models(searches, X_test, y_test, len(X_train)),
        "counterfactuals": pd.concat([_judged(rows, task, name) for name, rows in answers.items()], ignore_index=True),
        "changes": pd.concat([_changes(rows, task, name) for name, rows in answers.items()], ignore_index=True),
        "importance": _importance(model, dataset.X),
        "transfer": _transfer(answers, task, dataset, settings, seed),
        "association": _association(dataset),
    }
    for frame in frames.values():
        frame.insert(0, "seed", seed)
    return frames


def combine(studies: Iterable[Mapping[str, pd.DataFrame]]) -> dict[str, pd.DataFrame]:
    """The frames of several seeds below each other."""
    studies = list(studies)
    return {name: pd.concat([one[name] for one in studies], ignore_index=True) for name in studies[0]}


def _split(dataset: datasets.Dataset, seed: int) -> list[Any]:
    return list(train_test_split(dataset.X, dataset.y, test_size=TEST_SHARE, random_state=seed, stratify=dataset.y))


def _search(name: str, seed: int, settings: Settings) -> Any:
    folds = StratifiedKFold(settings.folds, shuffle=True, random_state=seed)
    model = _model(name, seed, settings.trees)
    return GridSearchCV(model, dict(settings.grids[name]), scoring="accuracy", cv=folds, n_jobs=1)


def _model(name: str, seed: int, trees: int) -> Any:
    """An untrained model on z-scored inputs, as the authors had them."""
    if name == "SVM":
        model: Any = SVC(random_state=seed)
    elif name == "random forest":
        model = RandomForestClassifier(n_estimators=100, random_state=seed, n_jobs=1)
    elif name == "AdaBoost":
        model = AdaBoostClassifier(n_estimators=50, random_state=seed)
    else:
        try:
            from xgboost import XGBClassifier
        except ImportError as error:
            raise MissingExtraError(
                "the COVID-19 study needs xgboost, which is not installed: pip install 'relax-plugin[xgboost]'."
            ) from error
        model = XGBClassifier(n_estimators=trees, n_jobs=1, random_state=seed)
    return Pipeline([("scale", StandardScaler()), ("model", model)])


def _models(searches: Mapping[str, Any], X_test: pd.DataFrame, y_test: Any, training_rows: int) -> pd.DataFrame:
    rows = []
    for name, search in searches.items():
        predicted = search.predict(X_test)
        rows.append(
            {
                "model": name,
                "parameters": json.dumps(search.best_params_, sort_keys=True),
                "cv": float(search.best_score_),
                "± cv": float(search.cv_results_["std_test_score"][search.best_index_]),
                "test": float(np.mean(predicted == y_test)),
                "majority": float(np.mean(y_test == NORMAL)),
                "training_rows": training_rows,
                "test_rows": len(y_test),
                "test_high": int((y_test == HIGH).sum()),
                "called_high": int((predicted == HIGH).sum()),
            }
        )
    return pd.DataFrame(rows)


def _answers(name: str, task: Task, seed: int, config: ReLAXConfig) -> pd.DataFrame:
    """What the judge says of a method's counterfactuals, one row for each query."""
    method = Method(name, name)
    if name != "greedy":
        method = Method(name, "relax-global", {"config": config})
    if name == FREE:
        features = [replace(feature, direction=None) for feature in task.space.features]
        task = replace(task, space=FeatureSpace(features))
    return pd.DataFrame(judge(Unit(task, method, seed, max_changes=MAX_CHANGES), task))


def _judged(rows: pd.DataFrame, task: Task, method: str) -> pd.DataFrame:
    training = task.space.values(task.X_train)
    normal = training[task.model.predict(task.X_train) == NORMAL]
    # Each row is its own nearest neighbour, at distance 0.
    among_normal = neighbour_distance(task.space, normal, normal, NEIGHBOURS + 1) * (NEIGHBOURS + 1) / NEIGHBOURS
    usual = float(np.quantile(among_normal, USUAL))
    queries = task.space.values(task.X_test)
    valid = rows["valid"].to_numpy(dtype=bool)
    changed = [[feature for feature, *_ in json.loads(changes)] for changes in rows["changes"]]
    columns = ["claimed", "valid", "violations", "sparsity", "proximity", "inside_box", "neighbour_distance"]
    frame = rows[columns].copy()
    frame["inside_box"] = (frame["inside_box"] == 1) & valid
    frame["plausible"] = frame["inside_box"] & (frame["neighbour_distance"] <= usual)
    near = neighbour_distance(task.space, queries, normal, NEIGHBOURS) <= usual
    frame["query_plausible"] = near & inside_box(task.space, queries, training)
    frame["contradiction"] = [DETERMINED in names for names in changed]
    frame.insert(0, "truly_high", task.y_test.to_numpy() == HIGH)
    frame.insert(0, "query", np.arange(len(frame)))
    frame.insert(0, "method", method)
    return frame


def _changes(rows: pd.DataFrame, task: Task, method: str) -> pd.DataFrame:
    """Each change in standard deviations."""
    scale = dict(zip(task.space.names, task.space.scale, strict=True))
    cells = [
        (method, query, feature, int(np.sign(after - before)), abs(after - before) / scale[feature])
        for query, changes in enumerate(rows["changes"])
        for feature, before, after in json.loads(changes)
    ]
    return pd.DataFrame(cells, columns=["method", "query", "feature", "direction", "size"])


def _importance(model: Any, X: pd.DataFrame) -> pd.DataFrame:
    frame = pd.DataFrame({"feature": X.columns, "importance": model["model"].feature_importances_.astype(float)})
    frame["rank"] = frame["importance"].rank(ascending=False, method="first").astype(int)
    frame["actionable"] = frame["feature"].isin(ACTIONABLE)
    return frame.sort_values("rank", kind="stable", ignore_index=True)


def _transfer(
    answers: Mapping[str, pd.DataFrame], task: Task, dataset: datasets.Dataset, settings: Settings, seed: int
) -> pd.DataFrame:
    """What models with the same hyper-parameters, trained on other splits, say of the same counterfactuals."""
    frames = []
    for other in (number for number in range(settings.splits) if number != seed):
        X_train, _, y_train, _ = _split(dataset, other)
        model = _model(EXPLAINED, other, settings.trees).set_params(
            **{name: value for name, value in task.model.get_params().items() if name in settings.grids[EXPLAINED]}
        )
        model.fit(X_train, y_train)
        for method, rows in answers.items():
            valid = rows["valid"].to_numpy(dtype=bool)
            queries = task.X_test[valid]
            if queries.empty:
                continue
            moved = _moved(queries, rows["changes"][valid])
            frames.append(
                pd.DataFrame(
                    {
                        "method": method,
                        "other_seed": other,
                        "query": np.flatnonzero(valid),
                        "held_out": ~queries.index.isin(X_train.index),
                        "high_before": model.predict(queries) == HIGH,
                        "normal_after": model.predict(moved) == NORMAL,
                    }
                )
            )
    columns = ["method", "other_seed", "query", "held_out", "high_before", "normal_after"]
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=columns)


def _moved(queries: pd.DataFrame, changes: Iterable[str]) -> pd.DataFrame:
    """The counterfactuals as rows for a model."""
    moved = queries.copy()
    for row, cells in zip(moved.index, changes, strict=True):
        for feature, _, after in json.loads(cells):
            moved.loc[row, feature] = after
    return moved


def _association(dataset: datasets.Dataset) -> pd.DataFrame:
    """How each feature goes with the class in the table: what a model can learn, and no more."""
    y = (dataset.y == HIGH).to_numpy(dtype=float)
    allowed = dict.fromkeys(INCREASE_ONLY, 1) | dict.fromkeys(DECREASE_ONLY, -1)
    age = dataset.X["median_age"].to_numpy(dtype=float)
    population = dataset.X["pop"].to_numpy(dtype=float)
    rows = []
    for feature in dataset.X.columns:
        numbers = dataset.X[feature].to_numpy(dtype=float)
        given_age = float("nan")  # of the age itself nothing is left
        if feature != "median_age":
            given_age = _correlation(_residual(numbers, age), _residual(y, age))
        rows.append(
            {
                "feature": feature,
                "actionable": feature in ACTIONABLE,
                "allowed": allowed.get(feature, 0),
                "correlation": _correlation(numbers, y),
                "given_age": given_age,
                "auc": float(roc_auc_score(y, numbers)),
                "with_age": _correlation(numbers, age),
                "with_population": _correlation(numbers, population),
            }
        )
    return pd.DataFrame(rows)


def _correlation(first: Any, second: Any) -> float:
    return float(np.corrcoef(first, second)[0, 1])


def _residual(numbers: Any, given: Any) -> Any:
    """What a straight line through `given` leaves of the numbers."""
    return numbers - np.polyval(np.polyfit(given, numbers, 1), given)
