"""The models to be explained (§5.1): hyper-parameters by 10-fold cross-validation on the training rows of each split.

The structures are the paper's (100 trees, the sizes of the hidden layers). What the paper does not print, the
regularisation and the learning rate, is searched over a few values around the libraries' defaults.
"""

import json
import time
from typing import TYPE_CHECKING, Any

from relax_plugin.evaluation.tasks import Task, load_task, split_task

if TYPE_CHECKING:
    import pandas as pd

FOLDS = 10  # ReLAX §5.1

FORESTS: dict[str, list[Any]] = {"max_features": ["sqrt", None], "min_samples_leaf": [1, 3]}
BOOSTED_STUMPS: dict[str, list[Any]] = {"learning_rate": [0.1, 0.5, 1.0]}
GRADIENT_BOOSTING: dict[str, list[Any]] = {"max_depth": [3, 6], "learning_rate": [0.1, 0.3]}
NETWORKS: dict[str, list[Any]] = {"network__alpha": [0.01, 0.1, 1.0]}
WAVEFORM_NETWORKS: dict[str, list[Any]] = {"network__alpha": [0.1, 1.0]}  # slow to train, and noise needs the penalty
REGRESSION_NETWORKS: dict[str, list[Any]] = {"regressor__network__alpha": [0.01, 0.1, 1.0]}

GRIDS = {
    "breast_cancer/rf": FORESTS,
    "diabetes/ada": BOOSTED_STUMPS,
    "wave2/xgb": GRADIENT_BOOSTING,
    "breast_cancer/mlp": NETWORKS,
    "sonar/mlp": NETWORKS,
    "wave2/mlp": WAVEFORM_NETWORKS,
    "boston/mlp": REGRESSION_NETWORKS,
    "sonar/mlp-128": NETWORKS,
    "sonar/mlp-64": NETWORKS,
}
"""The models of the paper's Tables 2 and 5, and what is searched over for each."""

COLUMNS = ["task", "seed", "parameters", "cv", "± cv", "chosen", "measure", "test", "training_rows", "seconds"]


def tune(name: str, seed: int) -> "pd.DataFrame":
    """Cross-validate every candidate on the training rows; the best is tested on the rows held out.

    Returns
    -------
    DataFrame with one row for each candidate
        `cv` is its mean accuracy or RMSE over the folds, `test` that of the chosen one, trained on all training rows.
    """
    import numpy as np
    import pandas as pd
    from sklearn.metrics import accuracy_score, root_mean_squared_error
    from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold

    started = time.perf_counter()
    model, (X_train, X_test, y_train, y_test) = split_task(name, seed)
    regression = name.startswith("boston")
    folds = (KFold if regression else StratifiedKFold)(FOLDS, shuffle=True, random_state=seed)
    scoring = "neg_root_mean_squared_error" if regression else "accuracy"
    search = GridSearchCV(model, GRIDS[name], scoring=scoring, cv=folds, n_jobs=1).fit(X_train, y_train)
    predicted = search.predict(X_test)
    test = root_mean_squared_error(y_test, predicted) if regression else accuracy_score(y_test, predicted)
    results = search.cv_results_
    frame = pd.DataFrame(
        {
            "task": name,
            "seed": seed,
            "parameters": [json.dumps(candidate, sort_keys=True) for candidate in results["params"]],
            "cv": np.abs(results["mean_test_score"]),
            "± cv": results["std_test_score"],
            "chosen": np.arange(len(results["params"])) == search.best_index_,
            "measure": "RMSE" if regression else "accuracy",
            "training_rows": len(X_train),
            "seconds": time.perf_counter() - started,
        }
    )
    frame["test"] = np.where(frame["chosen"], float(test), np.nan)
    return frame[COLUMNS]


def tuned_task(tuned: "pd.DataFrame", name: str, seed: int) -> Task:
    """The task with the hyper-parameters that cross-validation chose, from the frames of `tune` below each other."""
    mine = tuned[(tuned["task"] == name) & (tuned["seed"] == seed) & tuned["chosen"]]
    return load_task(name, seed, json.loads(mine["parameters"].iloc[0]))
