"""A toy: loans that are granted by income and debt, two features that can be drawn.

The rows are made from a seed, so that nothing is embedded or downloaded. Below a certain income no debt is small
enough, above a certain one more income is of no help, and in between either feature can turn the answer: whoever
changes one feature and whoever changes both can be told apart at a glance.
"""

from functools import cache
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from relax_plugin.arrays import Floats
from relax_plugin.errors import UnknownNameError, did_you_mean
from relax_plugin.evaluation.tasks import Task
from relax_plugin.features import FeatureSpace

Family = Literal["trees", "network"]
FAMILIES: tuple[Family, ...] = get_args(Family)
MODELS = {"trees": "a random forest of 30 trees", "network": "a network of 32 units"}

ROWS, TRAINING_ROWS = 400, 300
INCOMES, DEBTS = (10.0, 100.0), (0.0, 60.0)  # thousand a year, thousand
NOISE = 2.0  # thousand of debt, in which the bank is not quite consistent


@cache
def toy_task(family: str = "trees", seed: int = 0) -> Task:
    """A trained model on the toy, as a task like those of `load_task`.

    Its first test rows lie far apart, so that the first ten of them make a picture.

    Parameters
    ----------
    family : "trees" or "network"
        What the model is: `MODELS` has it in words.
    seed : int
        Of the rows and of the training.
    """
    if family not in FAMILIES:
        raise UnknownNameError(f"there is no toy model {family!r}; {did_you_mean(family, FAMILIES)}")
    rows, answers = toy_rows(seed)
    X_train, y_train = rows[:TRAINING_ROWS], answers[:TRAINING_ROWS]
    order = TRAINING_ROWS + _far_apart(rows[TRAINING_ROWS:].to_numpy())
    X_test, y_test = rows.iloc[order], answers.iloc[order]
    model = _untrained(family, seed).fit(X_train, y_train)
    space = FeatureSpace.infer(X_train, bounds={"income": INCOMES, "debt": DEBTS})
    return Task(f"toy/{family}", model, space, None, X_train, X_test, y_train, y_test)


def toy_rows(seed: int) -> tuple[pd.DataFrame, "pd.Series[Any]"]:
    """Applications in thousand, to one decimal, and whether each is granted."""
    rng = np.random.default_rng(seed)
    income, debt = rng.uniform(*INCOMES, ROWS).round(1), rng.uniform(*DEBTS, ROWS).round(1)
    granted = debt + NOISE * rng.standard_normal(ROWS) < largest_debt(income)
    answers = pd.Series(np.where(granted, "granted", "refused"), name="answer")
    return pd.DataFrame({"income": income, "debt": debt}), answers


def largest_debt(income: Floats) -> Floats:
    """The true boundary: the debt, in thousand, up to which a loan is granted at that income."""
    return np.asarray(48.0 / (1.0 + np.exp((56.0 - income) / 7.0)) - 5.0)


def _untrained(family: str, seed: int) -> Any:
    if family == "trees":
        return RandomForestClassifier(30, min_samples_leaf=2, random_state=seed, n_jobs=1)
    # L-BFGS needs a fraction of a second for so few rows.
    network = MLPClassifier((32,), solver="lbfgs", alpha=0.1, max_iter=2000, random_state=seed)
    return Pipeline([("scale", StandardScaler()), ("network", network)])


def _far_apart(values: Floats) -> Any:
    """Positions of the rows, each next one as far as possible from all before it; the first is the most central."""
    scaled = (values - values.mean(axis=0)) / values.std(axis=0)
    order = [int(np.argmin(np.abs(scaled).sum(axis=1)))]
    nearest = np.abs(scaled - scaled[order[0]]).sum(axis=1)
    while len(order) < len(scaled):
        order.append(int(np.argmax(nearest)))
        nearest = np.minimum(nearest, np.abs(scaled - scaled[order[-1]]).sum(axis=1))
        nearest[order] = -1.0
    return np.array(order)
