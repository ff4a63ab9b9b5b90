"""Tasks: the paper's data sets, each split and with a model of the paper trained on it, and tasks that are generated.

The structures of the models are the paper's (ReLAX, table of models) or like them. Hyper-parameters that it does not
give are the libraries' defaults, except where a comment says why. scikit-learn and the data sets are imported when a
task is made: a name can be refused without them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

from relax_plugin.errors import MissingExtraError, UnknownNameError, did_you_mean
from relax_plugin.evaluation.slow import SlowClassifier, SlowModel

if TYPE_CHECKING:
    import pandas as pd

    from relax_plugin.datasets import Dataset
    from relax_plugin.features import FeatureSpace
    from relax_plugin.goal import Goal

TREES = 100  # ReLAX, table of models: every forest and every boosting has 100 trees
TEST_SHARE = 0.3  # ReLAX §5.1: 70% training, 30% test
TRAINING_EPOCHS = 1000  # a ceiling; every network of this file converges before it
PENALTY = 0.1  # L2; 1e-4 to 1 make no difference on these small data sets
NOISE_PENALTY = 1.0  # L2; on noise as strong as that of the waves a smaller one costs half a point of accuracy

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
a small tree, whose leaves say yes or no (`docs/real_tables.py` tells what else was looked at).
"""

ALIASES = {"boston/mlp": "boston/mlp-0.4"}
LABELS = ":labels"  # ends the name of a classification task whose model answers labels alone
SLOW = "slow/"  # begins the name of a task whose model sleeps 1 ms for each row that it is asked


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
    """

    name: str
    model: Any
    space: "FeatureSpace"
    goal: "Goal | None"
    X_train: "pd.DataFrame"
    X_test: "pd.DataFrame"
    y_train: "pd.Series[Any]"
    y_test: "pd.Series[Any]"

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

    @property
    def goal(self) -> str:
        """What is asked for, in words."""
        if self.shift is not None:
            return f"{self.shift} of the range"
        return "a drawn class" if self.targeted else "another class"

    def table(self, seed: int) -> "Dataset":
        """The rows and their targets; those of a rule are drawn by the seed, as the rule is."""
        from relax_plugin import datasets
        from relax_plugin.evaluation.rules import rule_table

        return rule_table(self.dataset, seed) if self.by_rule else datasets.load(self.dataset)


def available_tasks() -> list[str]:
    """Names that `load_task` knows, each also with `slow/` before it, and of classifiers with `:labels` after it.

    Returns
    -------
    list of str
    """
    return [*_RECIPES, *ALIASES]


def describe_tasks() -> list[dict[str, Any]]:
    """What `load_task` knows, without training anything: name, kind, size, goal and model of each task."""
    described = []
    for name, recipe in _RECIPES.items():
        dataset = recipe.table(0)
        described.append(
            {
                "task": name,
                "kind": dataset.task,
                "rows": len(dataset.X),
                "features": dataset.X.shape[1],
                "categorical": len(dataset.constraints.get("categorical", ())),
                "goal": recipe.goal,
                "model": recipe.model,
                "extra": "[xgboost]" if recipe.make_model is _gradient_boosting else "",
            }
        )
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
        If the model needs xgboost and it is not installed.
    """
    check_task_name(name)
    return _make_task(ALIASES.get(name, name), seed, tuple(sorted((parameters or {}).items())))


def split_task(name: str, seed: int = 0) -> tuple[Any, list[Any]]:
    """The untrained model of a task and its rows: `X_train, X_test, y_train, y_test`, as `load_task` uses them."""
    check_task_name(name)
    recipe = _RECIPES[_plain(name)]
    return recipe.make_model(seed), _split(recipe.table(seed), seed)


def check_task_name(name: str) -> None:
    """Refuse a name that `load_task` does not know."""
    recipe = _RECIPES.get(_plain(name))
    if recipe is None or (name.endswith(LABELS) and recipe.shift is not None):
        raise UnknownNameError(f"There is no task {name!r}; {did_you_mean(name, available_tasks())}")


def _plain(name: str) -> str:
    """The task behind a name: neither slow nor of labels alone, and no alias."""
    plain = name.removeprefix(SLOW).removesuffix(LABELS)
    return ALIASES.get(plain, plain)


def _split(dataset: "Dataset", seed: int) -> list[Any]:
    from sklearn.model_selection import train_test_split

    stratify = dataset.y if dataset.task == "classification" else None
    return list(train_test_split(dataset.X, dataset.y, test_size=TEST_SHARE, random_state=seed, stratify=stratify))


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
    recipe = _RECIPES[name]
    dataset = recipe.table(seed)
    X_train, X_test, y_train, y_test = _split(dataset, seed)
    model = recipe.make_model(seed).set_params(**dict(parameters)).fit(X_train, y_train)
    space = FeatureSpace.infer(X_train, **dataset.constraints)
    goal = None if recipe.shift is None else Goal.shift(recipe.shift * float(y_train.max() - y_train.min()))
    if recipe.targeted:
        goal = Goal.to(_other_classes(model, X_test, seed))
    return Task(name, model, space, goal, X_train, X_test, y_train, y_test)


def _other_classes(model: Any, rows: "pd.DataFrame", seed: int) -> Any:
    """For each row one of the classes that the model does not answer, all equally likely."""
    import numpy as np

    classes = np.asarray(model.classes_)
    before = np.searchsorted(classes, model.predict(rows))
    further = np.random.default_rng(seed).integers(1, len(classes), size=len(rows))
    return classes[(before + further) % len(classes)]


def _forest(seed: int) -> Any:
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(n_estimators=TREES, random_state=seed, n_jobs=1)


def _mixed_forest(seed: int) -> Any:
    """A forest on one-hot categories, taking the raw frame of strings and numbers."""
    from sklearn.compose import ColumnTransformer, make_column_selector
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import OneHotEncoder

    encoder = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    strings = make_column_selector(dtype_exclude="number")
    columns = ColumnTransformer([("categories", encoder, strings)], remainder="passthrough")
    return Pipeline([("columns", columns), ("forest", _forest(seed))])


def _small_tree(seed: int) -> Any:
    from sklearn.tree import DecisionTreeClassifier

    return DecisionTreeClassifier(max_leaf_nodes=8, random_state=seed)


def _boosted_stumps(seed: int) -> Any:
    from sklearn.ensemble import AdaBoostClassifier

    return AdaBoostClassifier(n_estimators=TREES, learning_rate=0.5, random_state=seed)


def _gradient_boosting(seed: int) -> Any:
    try:
        from xgboost import XGBClassifier
    except ImportError as error:
        raise MissingExtraError(
            "This task needs xgboost, which is not installed: pip install 'relax-plugin[xgboost]'."
        ) from error
    return XGBClassifier(n_estimators=TREES, n_jobs=1, random_state=seed)


def _network(hidden: tuple[int, int]) -> Callable[[int], Any]:
    def make(seed: int) -> Any:
        from sklearn.neural_network import MLPClassifier

        return _scaled(MLPClassifier(hidden, alpha=PENALTY, max_iter=TRAINING_EPOCHS, random_state=seed))

    return make


def _stopped_network(seed: int) -> Any:
    from sklearn.neural_network import MLPClassifier

    # Early stopping trains in a third of the time, at the same accuracy.
    network = MLPClassifier(
        (100, 200), alpha=NOISE_PENALTY, early_stopping=True, max_iter=TRAINING_EPOCHS, random_state=seed
    )
    return _scaled(network)


def _regression_network(seed: int) -> Any:
    from sklearn.compose import TransformedTargetRegressor
    from sklearn.neural_network import MLPRegressor
    from sklearn.preprocessing import StandardScaler

    network = MLPRegressor(hidden_layer_sizes=(50, 128), alpha=PENALTY, max_iter=TRAINING_EPOCHS, random_state=seed)
    return TransformedTargetRegressor(_scaled(network), transformer=StandardScaler())


def _by_rule(name: str, model: str) -> _Recipe:
    def make(seed: int) -> Any:
        from relax_plugin.evaluation.rules import rule

        return rule(name, seed)

    return _Recipe(name, f"rule by hand: {model}", make, by_rule=True)


def _scaled(network: Any) -> Any:
    """A network behind a scaler."""
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import StandardScaler

    return Pipeline([("scale", StandardScaler()), ("network", network)])


_RECIPES = {
    "breast_cancer/rf": _Recipe("breast_cancer", "random forest, 100 trees", _forest),
    "breast_cancer/mlp": _Recipe("breast_cancer", "network, 64 and 128 units", _network((64, 128))),
    "diabetes/ada": _Recipe("diabetes", "AdaBoost, 100 stumps", _boosted_stumps),
    "wave2/xgb": _Recipe("wave2", "XGBoost, 100 trees", _gradient_boosting),
    "wave2/mlp": _Recipe("wave2", "network, 100 and 200 units", _stopped_network),
    "sonar/mlp": _Recipe("sonar", "network, 256 and 256 units", _network((256, 256))),
    "sonar/mlp-128": _Recipe("sonar", "network, 128 and 128 units", _network((128, 128))),
    "sonar/mlp-64": _Recipe("sonar", "network, 64 and 64 units", _network((64, 64))),
    "boston/mlp-0.2": _Recipe("boston", "network, 50 and 128 units", _regression_network, shift=0.2),
    "boston/mlp-0.4": _Recipe("boston", "network, 50 and 128 units", _regression_network, shift=0.4),
    "boston/mlp-0.6": _Recipe("boston", "network, 50 and 128 units", _regression_network, shift=0.6),
    "german/rf": _Recipe("german", "random forest, 100 trees, on one-hot categories", _mixed_forest),
    "wave3/xgb": _Recipe("wave3", "XGBoost, 100 trees", _gradient_boosting),
    "wave3/mlp": _Recipe("wave3", "network, 100 and 200 units", _stopped_network),
    "classes3/xgb": _Recipe("classes3", "XGBoost, 100 trees", _gradient_boosting, targeted=True),
    "classes6/rf": _Recipe("classes6", "random forest, 100 trees", _forest, targeted=True),
    "classes26/mlp": _Recipe("classes26", "network, 100 and 200 units", _stopped_network, targeted=True),
    "rare/xgb": _Recipe("rare", "XGBoost, 100 trees", _gradient_boosting),
    "wide60/mlp": _Recipe("wide60", "network, 100 and 200 units", _stopped_network),
    "wide500/xgb": _Recipe("wide500", "XGBoost, 100 trees", _gradient_boosting),
    "mixed100/rf": _Recipe("mixed100", "random forest, 100 trees, on one-hot categories", _mixed_forest),
    "breast_cancer/leaves8": _Recipe("breast_cancer", "decision tree, 8 leaves", _small_tree),
    "lock3/rule": _by_rule("lock3", "the score falls until three changes are made"),
    "and4/rule": _by_rule("and4", "the score is flat until four changes are made"),
    "sequence/rule": _by_rule("sequence", "three changes that count in their order only"),
    "lock3-500/rule": _by_rule("lock3-500", "the score falls until three changes are made"),
    "and4-500/rule": _by_rule("and4-500", "the score is flat until four changes are made"),
    "lock3-2000/rule": _by_rule("lock3-2000", "the score falls until three changes are made"),
}
