"""Units on which searches are compared: tasks of the repository, and tables that no setting of a search was chosen on.

The latter come with scikit-learn or are drawn by its generators, so that nothing is downloaded; seeds are fixed.
"""

import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import sklearn
from sklearn import datasets
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import AdaBoostClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from relax_plugin.evaluation.task_models import gradient_boosting, mixed_forest
from relax_plugin.evaluation.tasks import Task, load_task
from relax_plugin.features import FeatureSpace
from relax_plugin.goal import Goal

Table = tuple[pd.DataFrame, pd.Series]

TASKS = (
    "breast_cancer/rf",
    "german/rf",
    "diabetes/ada",
    "wave2/xgb",
    "sonar/mlp",
    "adult/lgbm",
    "adult/pipeline",
    "default/xgb",
    "boston/mlp",
    "classes6/rf",
    "credit/xgb",
)


def shipped(load: Callable[..., Any]) -> Table:
    """A table that scikit-learn brings, in raw units; a number to predict becomes whether it exceeds the median."""
    options = {"scaled": False} if load is datasets.load_diabetes else {}
    table = load(as_frame=True, **options)
    y = table.target > table.target.median() if options else table.target
    return table.data, y.astype(int)


def drawn(rows: int, columns: int, seed: int, **settings: Any) -> Table:
    """A table of `make_classification`."""
    X, y = datasets.make_classification(rows, columns, random_state=seed, **settings)
    return pd.DataFrame(X, columns=[f"x{j}" for j in range(columns)]), pd.Series(y)


def heavy_tails(table: Table) -> Table:
    """Numbers of one decimal with heavy tails, half of the columns 0 in every second row."""
    X = np.sinh(1.2 * table[0]).round(1)
    for name in X.columns[::2]:
        X[name] = X[name].where(X[name] > X[name].median(), 0.0)
    return X, table[1]


def counts(table: Table) -> Table:
    """Whole numbers from 0 on, most of them small."""
    return np.floor(np.exp(table[0].clip(upper=6.0))).astype(int), table[1]


def binned(table: Table, every: int, categories: int) -> Table:
    """Each `every`-th column as so many categories, which have no order in their names."""
    X, names = table[0].round(2), np.array(list("qweasdzxcrtyfghvbn")[:categories])
    for name in X.columns[::every]:
        X[name] = names[pd.qcut(X[name], categories, labels=False).to_numpy()]
    return X, table[1]


def with_gaps(table: Table) -> Table:
    """A tenth of the cells is missing."""
    gone = np.random.default_rng(0).uniform(size=table[0].shape) < 0.1
    return table[0].round(2).mask(gone), table[1]


TABLES: dict[str, Callable[[], Table]] = {
    "iris": lambda: shipped(datasets.load_iris),
    "wine": lambda: shipped(datasets.load_wine),
    "digits": lambda: shipped(datasets.load_digits),
    "cancer": lambda: shipped(datasets.load_breast_cancer),
    "limits": lambda: shipped(datasets.load_breast_cancer),
    "progress": lambda: shipped(datasets.load_diabetes),
    "plain20": lambda: drawn(1500, 20, 1, n_informative=12, n_redundant=4, class_sep=2.0),
    "correlated30": lambda: drawn(1500, 30, 2, n_informative=5, n_redundant=22),
    "smooth90": lambda: drawn(1500, 90, 11, n_informative=20, n_redundant=70, class_sep=2.0),
    "rare15": lambda: drawn(3000, 15, 3, n_informative=8, n_redundant=4, weights=[0.9], class_sep=2.0),
    "classes5": lambda: drawn(2000, 25, 4, n_informative=10, n_redundant=12, n_classes=5, class_sep=2.5),
    "heavy12": lambda: heavy_tails(drawn(1500, 12, 5, n_informative=8, n_redundant=4, class_sep=2.0)),
    "counts40": lambda: counts(drawn(1500, 40, 6, n_informative=10, n_redundant=25, class_sep=2.0)),
    "mixed16": lambda: binned(drawn(2000, 16, 7, n_informative=8, n_redundant=6, class_sep=2.0), 2, 6),
    "categories12": lambda: binned(drawn(2000, 12, 8, n_informative=6, n_redundant=6, class_sep=2.0), 1, 4),
    "gaps12": lambda: with_gaps(drawn(2000, 12, 9, n_informative=6, n_redundant=5, class_sep=2.0)),
    "wide1000": lambda: drawn(2000, 1000, 10, n_informative=30, n_redundant=100),
}
TEXT = ("mixed16", "categories12")
CONSTRAINTS: dict[str, dict[str, Any]] = {
    "limits": {
        "immutable": ["mean radius", "mean texture", "worst area", "worst perimeter", "area error"],
        "increase_only": ["mean concavity", "worst concavity", "worst smoothness", "mean symmetry"],
        "decrease_only": ["worst radius", "mean area", "worst texture"],
    }
}


def lightgbm() -> Any:
    from lightgbm import LGBMClassifier

    return LGBMClassifier(n_estimators=100, n_jobs=1, random_state=0, deterministic=True, verbose=-1)


MODELS: dict[str, Callable[[], Any]] = {
    "xgb": lambda: gradient_boosting(0),
    "rf": lambda: RandomForestClassifier(100, random_state=0, n_jobs=1),
    "histgb": lambda: HistGradientBoostingClassifier(random_state=0),
    "mlp": lambda: make_pipeline(StandardScaler(), MLPClassifier((64, 64), max_iter=400, random_state=0)),
    "svc": lambda: make_pipeline(StandardScaler(), CalibratedClassifierCV(SVC(), ensemble=False)),
    "logistic": lambda: make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
    "ada": lambda: AdaBoostClassifier(n_estimators=100, random_state=0),
    "lgbm": lightgbm,
}
UNSEEN = (
    *("iris/svc", "wine/rf", "wine/logistic", "digits/mlp", "digits/xgb", "cancer/xgb", "cancer/histgb", "cancer/lgbm"),
    *("limits/rf", "progress/rf", "progress/svc", "progress/ada", "plain20/histgb", "correlated30/mlp", "smooth90/mlp"),
    *("rare15/lgbm", "classes5/xgb", "classes5/ada", "heavy12/rf", "heavy12/svc", "counts40/rf", "mixed16/rf"),
    *("mixed16/mlp", "mixed16/lgbm", "categories12/logistic", "gaps12/histgb", "wide1000/xgb", "wide1000/logistic"),
)
UNITS = (*TASKS, *UNSEEN)


def load_unit(name: str, cache: Path) -> Task:
    """A unit by its name; what is trained for an unseen table is kept in the cache until this file changes."""
    if name not in UNSEEN:
        return load_task(name)
    table, model = name.split("/")
    version = hashlib.sha256(Path(__file__).read_bytes() + sklearn.__version__.encode()).hexdigest()[:12]
    path = cache / "units" / f"{table}-{model}-{version}.joblib"
    if path.exists():
        parts, trained = joblib.load(path)
    else:
        X, y = TABLES[table]()
        parts = train_test_split(X, y, test_size=0.3, random_state=0, stratify=y)
        trained = make_pipeline(mixed_forest(0)["columns"], MODELS[model]()) if table in TEXT else MODELS[model]()
        trained.fit(parts[0], parts[2])
        path.parent.mkdir(parents=True, exist_ok=True)
        joblib.dump((parts, trained), path)
    space = FeatureSpace.infer(parts[0], **CONSTRAINTS.get(table, {}))
    return Task(name, trained, space, None, *parts)


def with_rows(task: Task, rows: int, goal: str) -> Task | None:
    """The unit with its first test rows as queries; None if it has no given class to go to, and one is asked for.

    Where more rows are wanted than there are, they are test rows with a tenth of their cells from others.
    """
    X, rng = task.X_test, np.random.default_rng(0)
    own = task.goal is not None and isinstance(task.goal.label, tuple)  # a class for each row
    if rows > len(X) and not own:
        first = X.iloc[rng.integers(len(X), size=rows)].reset_index(drop=True)
        other = X.iloc[rng.integers(len(X), size=rows)].reset_index(drop=True)
        X = first.where(rng.uniform(size=first.shape) >= 0.1, other)
    queries, kept = X.head(rows), task.goal_of(min(rows, len(X)))
    if goal == "to":
        classes = np.asarray(getattr(task.model, "classes_", ()))
        if task.goal is not None or len(classes) < 3:
            return None
        before = np.searchsorted(classes, task.model.predict(queries))
        kept = Goal.to(classes[(before + rng.integers(1, len(classes), len(before))) % len(classes)])
    return replace(task, X_test=queries, goal=kept)
