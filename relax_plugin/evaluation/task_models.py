"""The models of the tasks, not fitted yet: the structures are the paper's (ReLAX, table of models) or like them.

Hyper-parameters that it does not give are the libraries' defaults, except where a comment says why. Libraries are
imported when a model is made.
"""

import time
from collections.abc import Callable
from typing import Any

from relax_plugin.errors import MissingExtraError

TREES = 100  # ReLAX, table of models: every forest and every boosting has 100 trees
TRAINING_EPOCHS = 1000  # a ceiling; every network of this file converges before it
PENALTY = 0.1  # L2; 1e-4 to 1 make no difference on these small data sets
NOISE_PENALTY = 1.0  # L2; on noise as strong as that of the waves a smaller one costs half a point of accuracy


def forest(seed: int) -> Any:
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(n_estimators=TREES, random_state=seed, n_jobs=1)


def mixed_forest(seed: int) -> Any:
    """A forest on one-hot categories, taking the raw frame of strings and numbers."""
    from sklearn.compose import ColumnTransformer, make_column_selector
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import OneHotEncoder

    encoder = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    strings = make_column_selector(dtype_exclude="number")
    columns = ColumnTransformer([("categories", encoder, strings)], remainder="passthrough")
    return Pipeline([("columns", columns), ("forest", forest(seed))])


def mixed_boosting(seed: int) -> Any:
    """Gradient boosting on one-hot categories, taking the raw frame of strings and numbers."""
    from sklearn.pipeline import Pipeline

    return Pipeline([("columns", mixed_forest(seed)["columns"]), ("boosting", gradient_boosting(seed))])


def small_tree(seed: int) -> Any:
    from sklearn.tree import DecisionTreeClassifier

    return DecisionTreeClassifier(max_leaf_nodes=8, random_state=seed)


def boosted_stumps(seed: int) -> Any:
    from sklearn.ensemble import AdaBoostClassifier

    return AdaBoostClassifier(n_estimators=TREES, learning_rate=0.5, random_state=seed)


def gradient_boosting(seed: int) -> Any:
    try:
        from xgboost import XGBClassifier
    except ImportError as error:
        raise MissingExtraError(
            "This task needs xgboost, which is not installed: pip install 'relax-plugin[xgboost]'."
        ) from error
    return XGBClassifier(n_estimators=TREES, n_jobs=1, random_state=seed)


def boosting_with_gaps(seed: int) -> Any:
    """LightGBM on the codes of categories, to which a missing cell is one more kind of cell."""
    from sklearn.compose import ColumnTransformer, make_column_selector
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import OrdinalEncoder

    try:
        from lightgbm import LGBMClassifier
    except ImportError as error:
        raise MissingExtraError(
            "This task needs lightgbm, which is not installed: pip install 'relax-plugin[lightgbm]'."
        ) from error
    encoder = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)  # a missing cell stays NaN
    strings = make_column_selector(dtype_exclude="number")
    columns = ColumnTransformer([("categories", encoder, strings)], remainder="passthrough")
    columns.set_output(transform="pandas")
    trees = LGBMClassifier(n_estimators=TREES, n_jobs=1, random_state=seed, deterministic=True, verbose=-1)
    return Pipeline([("columns", columns), ("trees", trees)])


def imputed_logistic(seed: int) -> Any:
    """A logistic regression on one-hot categories, for which missing cells are filled with the most frequent one."""
    from sklearn.compose import ColumnTransformer, make_column_selector
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    encoder = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    filled = Pipeline([("fill", SimpleImputer(strategy="most_frequent")), ("encode", encoder)])
    strings, numbers = make_column_selector(dtype_exclude="number"), make_column_selector(dtype_include="number")
    columns = ColumnTransformer([("categories", filled, strings), ("numbers", StandardScaler(), numbers)])
    return Pipeline([("columns", columns), ("logistic", LogisticRegression(max_iter=TRAINING_EPOCHS))])


def network(hidden: tuple[int, int]) -> Callable[[int], Any]:
    def make(seed: int) -> Any:
        from sklearn.neural_network import MLPClassifier

        return scaled(MLPClassifier(hidden, alpha=PENALTY, max_iter=TRAINING_EPOCHS, random_state=seed))

    return make


def stopped_network(seed: int) -> Any:
    from sklearn.neural_network import MLPClassifier

    # Early stopping trains in a third of the time, at the same accuracy.
    network = MLPClassifier(
        (100, 200), alpha=NOISE_PENALTY, early_stopping=True, max_iter=TRAINING_EPOCHS, random_state=seed
    )
    return scaled(network)


def imputed_network(seed: int) -> Any:
    """A network that gets the mean of a column where a cell is missing."""
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import Pipeline

    return Pipeline([("impute", SimpleImputer()), *network((256, 256))(seed).steps])


def regression_network(seed: int) -> Any:
    from sklearn.compose import TransformedTargetRegressor
    from sklearn.neural_network import MLPRegressor
    from sklearn.preprocessing import StandardScaler

    network = MLPRegressor(hidden_layer_sizes=(50, 128), alpha=PENALTY, max_iter=TRAINING_EPOCHS, random_state=seed)
    return TransformedTargetRegressor(scaled(network), transformer=StandardScaler())


def scaled(network: Any) -> Any:
    """A network behind a scaler."""
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import StandardScaler

    return Pipeline([("scale", StandardScaler()), ("network", network)])


SECONDS_A_ROW = 0.001


class SlowModel:
    """A trained model that sleeps 1 ms for each row it is asked, and then gives its own answers."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def predict(self, rows: Any) -> Any:
        time.sleep(len(rows) * SECONDS_A_ROW)
        return self.model.predict(rows)

    def __sklearn_tags__(self) -> Any:
        return self.model.__sklearn_tags__()


class SlowClassifier(SlowModel):
    """The same of a classifier that gives probabilities."""

    @property
    def classes_(self) -> Any:
        return self.model.classes_

    def predict_proba(self, rows: Any) -> Any:
        time.sleep(len(rows) * SECONDS_A_ROW)
        return self.model.predict_proba(rows)
