"""Results to read: a small credit table with words, explained by greedy search."""

from functools import cache

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression, Ridge

from relax_plugin import BlackBox, FeatureSpace, Goal, make_explainer

RNG = np.random.default_rng(3)
ROWS = pd.DataFrame(
    {
        "amount": RNG.integers(1000, 20000, 120),
        "rate": RNG.uniform(0.0, 1.0, 120),
        "status": RNG.choice(["A11", "A12"], 120),
        "age": RNG.integers(20, 70, 120),
    }
)
LABELS = {"amount": "amount (DM)", "status": {"A11": "overdrawn", "A12": "no account"}}
NUMBERS = pd.DataFrame(
    {**ROWS, "amount": ROWS["amount"] / 1e4, "status": (ROWS["status"] == "A12") * 1.0, "age": ROWS["age"] / 50}
)
GOOD = np.where(NUMBERS["rate"] + NUMBERS["status"] - NUMBERS["amount"] > 0, "good", "bad")
LINEAR = LogisticRegression().fit(NUMBERS.to_numpy(), GOOD)
RIDGE = Ridge().fit(NUMBERS.to_numpy(), NUMBERS["rate"] + NUMBERS["status"])


def _numbers(rows):
    return np.column_stack(
        [rows["amount"] / 1e4, rows["rate"], (rows["status"] == "A12") * 1.0, rows["age"] / 50]
    ).astype(float)


class Model:
    """The linear model over the raw columns."""

    classes_ = LINEAR.classes_

    def predict(self, rows):
        return LINEAR.predict(_numbers(rows))

    def predict_proba(self, rows):
        return LINEAR.predict_proba(_numbers(rows))


@cache
def explainer():
    """Greedy search over the credit table."""
    space = FeatureSpace.infer(ROWS, immutable=["age"], labels=LABELS)
    return make_explainer("greedy", Model(), space).fit(ROWS)


@cache
def regression():
    """Greedy search for the numbers of a ridge regression."""
    model = BlackBox(lambda rows: RIDGE.predict(_numbers(rows)), task="regression")
    return make_explainer("greedy", model, goal=Goal.shift(0.3)).fit(ROWS)


def explained(rows=6, index=None, **call):
    """The first rows explained, under an index of their own."""
    queries = ROWS[:rows] if index is None else ROWS[:rows].set_axis(index)
    return explainer().explain(queries, **call)
