"""Tasks: the paper's data sets, each split and with a model of the paper trained on it, and tasks that are generated.

The models are those of `task_models`. scikit-learn and the data sets are imported when a task is made: a name can be
refused without them.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib import resources
from typing import TYPE_CHECKING, Any

from relax_plugin.errors import UnknownNameError, did_you_mean
from relax_plugin.evaluation import task_models
from relax_plugin.evaluation.task_models import SlowClassifier, SlowModel

if TYPE_CHECKING:
    import pandas as pd

    from relax_plugin.datasets import Dataset
    from relax_plugin.features import FeatureSpace
    from relax_plugin.goal import Goal

TEST_SHARE = 0.3  # ReLAX §5.1: 70% training, 30% test
CORE_TASKS = (
    "breast_cancer/rf",
    "breast_cancer/mlp",
    "diabetes/ada",
    "wave2/xgb",
    "wave2/mlp",
    "sonar/mlp",
    "boston/mlp-0.4",
)
"""The seven pairs of data set and model of the paper."""

GENERATED_TASKS = (
    "classes3/xgb",
    "classes6/rf",
    "classes26/mlp",
    "rare/xgb",
    "wide60/mlp",
    "wide500/xgb",
    "mixed100/rf",
)
"""What those have not: several classes with a target for each row, a rare class, wide tables, many categories."""

COORDINATED_TASKS = (
    "lock3/rule",
    "and4/rule",
    "sequence/rule",
    "breast_cancer/leaves8",
    "lock3-500/rule",
    "and4-500/rule",
    "lock3-2000/rule",
)
"""Several changes help together, where no single one does: rules by hand on noise of 20, 500 or 2,000 features.

In `lock3` the score falls with each of three right changes until all are made, in `and4` it stays as it is until four
are, and in `sequence` the second change counts only after the first and the third only after the second. One is real:
a small tree, whose leaves say yes or no.
"""

ALIASES = {"boston/mlp": "boston/mlp-0.4"}
LABELS = ":labels"  # ends the name of a classification task whose model answers labels alone
SLOW = "slow/"  # begins the name of a task whose model sleeps 1 ms for each row that it is asked
UNTOLD = ":untold"  # ends the name of a task whose methods are not told of rules, groups and derived columns
MISSING = {"missing10/": 0.1, "missing30/": 0.3}  # begin the name of a task in whose rows so many cells are missing

RULED_TASKS = ("credit/xgb", "simplex/rf", "german/dummies")
"""Columns that depend on each other: rules and derived columns, shares of a whole, one-hot groups."""
TOLD = ("one_hot", "derived", "rules", "labels")  # constraints about several columns, and words for them


@dataclass(frozen=True, eq=False)
class Task:
    """A trained model to explain, and the rows it was trained and is tested on.

    Tasks are shared between callers: do not write into the frames.

    Parameters
    ----------
    name : str
        Data set and model, such as `"breast_cancer/rf"`.
    model : object
        The fitted estimator; it takes raw rows.
    space : FeatureSpace
        Inferred from the training rows, under the constraints of the data set.
    goal : Goal or None
        None is the default of a classifier, another class. For regression, the shift that is asked for. Of several
        classes it may be one for each test row: `goal_of` gives that of the first ones.
    X_train, X_test : DataFrame
    y_train, y_test : Series
    told : FeatureSpace, optional
        What methods are told, where that is less than `space`, which the judge holds their answers against.
    """

    name: str
    model: Any
    space: "FeatureSpace"
    goal: "Goal | None"
    X_train: "pd.DataFrame"
    X_test: "pd.DataFrame"
    y_train: "pd.Series[Any]"
    y_test: "pd.Series[Any]"
    told: "FeatureSpace | None" = None

    def goal_of(self, rows: int | None) -> "Goal | None":
        """The goal of so many test rows, the first ones; of all, if None."""
        return None if self.goal is None else self.goal.chunk(slice(rows))


@dataclass(frozen=True)
class _Recipe:
    """How a task is made: the data set, the model in words and untrained for a seed, and what is asked for."""

    dataset: str
    model: str
    make_model: Callable[[int], Any]
    shift: float | None = None  # of a regression: share of the range of the training targets
    targeted: bool = False  # whether each test row is to become one class, drawn from the others
    by_rule: bool = False  # whether the data set is generated with the model
    rows: int | None = None  # drawn by the seed, where the data set has more than a task needs
    extra: str = ""  # that installs the model's library
    wanted: Any = None  # the class that is asked for, of test rows that the model gives another one
    dummies: bool = False  # whether categories become columns of 0 and 1

    @property
    def goal(self) -> str:
        if self.shift is not None:
            return f"{self.shift} of the range"
        if self.wanted is not None:
            return f"class {self.wanted}"
        return "a drawn class" if self.targeted else "another class"

    def table(self, seed: int) -> "Dataset":
        """The rows and their targets; those of a rule are drawn by the seed, as the rule is."""
        from relax_plugin import datasets
        from relax_plugin.datasets.generators import with_dummies
        from relax_plugin.evaluation.rules import rule_table

        table = rule_table(self.dataset, seed) if self.by_rule else datasets.load(self.dataset)
        if self.dummies:
            X, constraints = with_dummies(table.X, table.constraints)
            table = replace(table, X=X, constraints=constraints)
        if self.rows is None:
            return table
        X = table.X.sample(self.rows, random_state=seed)
        return replace(table, X=X, y=table.y[X.index])


def available_tasks() -> list[str]:
    """Names that `load_task` knows, each also with `slow/` before it, and of classifiers with `:labels` after it.

    Those of tables with rules also with `:untold` after them, and all with `missing10/` or `missing30/` before them.

    Returns
    -------
    list of str
    """
    return [*_RECIPES, *ALIASES]


def name_tasks() -> list[dict[str, str]]:
    """What `load_task` knows without reading any data: name, goal, model, and the extra that installs its library."""
    return [
        {"task": name, "goal": recipe.goal, "model": recipe.model, "extra": f"[{recipe.extra}]" if recipe.extra else ""}
        for name, recipe in _RECIPES.items()
    ]


def describe_tasks() -> list[dict[str, Any]]:
    """What `load_task` knows, without training anything: name, kind, size, goal and model of each task."""
    described = []
    for named in name_tasks():
        dataset = _RECIPES[named["task"]].table(0)
        size = {
            "kind": dataset.task,
            "rows": len(dataset.X),
            "features": dataset.X.shape[1],
            "categorical": len(dataset.constraints.get("categorical", ())),
        }
        described.append({"task": named["task"], **size, **named})
    return described


def load_task(name: str, seed: int = 0, parameters: Mapping[str, Any] | None = None) -> Task:
    """Split a data set and train a model on it.

    A task is made once per process, seed and parameters, in at most a few seconds.

    Parameters
    ----------
    name : str
        One of `available_tasks()`. `boston/mlp-0.2` asks for a shift of 0.2 times the range of the training targets;
        `boston/mlp` is `boston/mlp-0.4`. With `:labels` at its end it is the same classifier, asked for labels alone.
        With `slow/` before it the same model sleeps 1 ms for each row that it is asked: to measure what rows cost.
        With `:untold` at its end methods are not told of rules, one-hot groups and derived columns, which the judge
        still checks. With `missing10/` or `missing30/` before it that share of the cells is missing at random.
    seed : int
        Of the split and of the training.
    parameters : mapping, optional
        Hyper-parameters to set on the model before it is trained, by the names of its `get_params()`.

    Returns
    -------
    Task

    Raises
    ------
    UnknownNameError
        If there is no task of that name.
    MissingExtraError
        If the model needs xgboost or lightgbm, and it is not installed.
    """
    check_task_name(name)
    return _make_task(ALIASES.get(name, name), seed, tuple(sorted((parameters or {}).items())))


def split_task(name: str, seed: int = 0) -> tuple[Any, list[Any]]:
    """The untrained model of a task and its rows: `X_train, X_test, y_train, y_test`, as `load_task` uses them."""
    check_task_name(name)
    recipe = _RECIPES[_plain(name)]
    return recipe.make_model(seed), _split(recipe.table(seed), seed, _share_missing(name))


def check_task_name(name: str) -> None:
    """Refuse a name that `load_task` does not know."""
    recipe = _RECIPES.get(_plain(name))
    untold = name.endswith(UNTOLD) and _plain(name) not in RULED_TASKS
    if recipe is None or untold or (name.endswith(LABELS) and recipe.shift is not None):
        raise UnknownNameError(f"There is no task {name!r}; {did_you_mean(name, available_tasks())}")


def _plain(name: str) -> str:
    """The task behind a name: neither slow nor of labels alone, with all its cells and rules, and no alias."""
    plain = name.removeprefix(SLOW).removesuffix(LABELS).removesuffix(UNTOLD)
    for beginning in MISSING:
        plain = plain.removeprefix(beginning)
    return ALIASES.get(plain, plain)


def _share_missing(name: str) -> float:
    return next((share for beginning, share in MISSING.items() if name.startswith(beginning)), 0.0)


def _split(dataset: "Dataset", seed: int, missing: float = 0.0) -> list[Any]:
    from sklearn.model_selection import train_test_split

    stratify = dataset.y if dataset.task == "classification" else None
    X = _with_gaps(dataset.X, missing, seed) if missing else dataset.X
    return list(train_test_split(X, dataset.y, test_size=TEST_SHARE, random_state=seed, stratify=stratify))


def _with_gaps(X: "pd.DataFrame", share: float, seed: int) -> "pd.DataFrame":
    import numpy as np

    gone = np.random.default_rng([seed, *b"missing"]).uniform(size=X.shape) < share
    return X.mask(gone)


@cache
def _make_task(name: str, seed: int, parameters: tuple[tuple[str, Any], ...]) -> Task:
    from relax_plugin.features import FeatureSpace
    from relax_plugin.goal import Goal

    if name.endswith(LABELS):
        scored = _make_task(name.removesuffix(LABELS), seed, parameters)
        return replace(scored, name=name, model=scored.model.predict)
    if name.startswith(SLOW):
        quick = load_task(name.removeprefix(SLOW), seed, dict(parameters))
        slow = SlowClassifier if hasattr(quick.model, "predict_proba") else SlowModel
        return replace(quick, name=name, model=slow(quick.model))
    if name.endswith(UNTOLD):
        full = load_task(name.removesuffix(UNTOLD), seed, dict(parameters))
        said = _RECIPES[_plain(name)].table(seed).constraints
        groups = said.get("one_hot", {})  # whose columns a user who does not know of groups would name
        less = {key: value for key, value in said.items() if key not in TOLD}
        for key in ("immutable", "increase_only", "decrease_only"):
            named = [groups.get(column, (column,)) for column in less.get(key, ())]
            less[key] = [column for columns in named for column in columns]
        return replace(full, name=name, told=FeatureSpace.infer(full.X_train, **less))
    recipe = _RECIPES[_plain(name)]
    dataset = recipe.table(seed)
    X_train, X_test, y_train, y_test = _split(dataset, seed, _share_missing(name))
    model = recipe.make_model(seed).set_params(**dict(parameters)).fit(X_train, y_train)
    space = FeatureSpace.infer(X_train, **dataset.constraints)
    goal = None if recipe.shift is None else Goal.shift(recipe.shift * float(y_train.max() - y_train.min()))
    if recipe.wanted is not None:
        refused = model.predict(X_test) != recipe.wanted
        X_test, y_test, goal = X_test[refused], y_test[refused], Goal.to(recipe.wanted)
    if recipe.targeted:
        goal = Goal.to(_other_classes(model, X_test, seed))
    return Task(name, model, space, goal, X_train, X_test, y_train, y_test)


def _other_classes(model: Any, rows: "pd.DataFrame", seed: int) -> Any:
    import numpy as np

    classes = np.asarray(model.classes_)
    before = np.searchsorted(classes, model.predict(rows))
    further = np.random.default_rng(seed).integers(1, len(classes), size=len(rows))
    return classes[(before + further) % len(classes)]


def _recipe(make: str, units: tuple[int, int] | None = None, **told: Any) -> _Recipe:
    """A line of `tasks.json`; `make` is a function of `task_models`, which for a network takes its units."""
    if make == "rule":
        return _Recipe(make_model=partial(_rule, told["dataset"]), **told)
    made = getattr(task_models, make)
    return _Recipe(make_model=made if units is None else made(tuple(units)), **told)


def _rule(name: str, seed: int) -> Any:
    from relax_plugin.evaluation.rules import rule

    return rule(name, seed)


TOLD_TASKS = json.loads(resources.files(__package__).joinpath("tasks.json").read_bytes())
_RECIPES = {name: _recipe(**told) for name, told in TOLD_TASKS["recipes"].items()}
