"""Models that refuse some rows, as validating pipelines do, and queries of which they refuse one."""

import numpy as np
import pandas as pd

RNG = np.random.default_rng(0)
ROWS = pd.DataFrame(
    {"a": RNG.normal(size=400).round(2), "b": RNG.integers(0, 50, 400), "c": RNG.normal(size=400).round(2)}
)
TRAINING = ROWS[:300]


class Validating:
    """A classifier that raises if it is given any row that its check refuses, as validating pipelines do."""

    classes_ = np.array([0, 1])

    def __init__(self, refuses, by="raise"):
        self.refuses, self.by, self.calls, self.rows = refuses, by, 0, 0

    def predict_proba(self, rows):
        table = np.asarray(rows, dtype=float)
        self.calls, self.rows = self.calls + 1, self.rows + len(table)
        refused = self.refuses(table)
        if refused.any() and self.by == "raise":
            raise ValueError(f"b is {table[refused][0, 1]:g}")
        chance = 1 / (1 + np.exp(-(2 * table[:, 0] + (table[:, 1] - 25) / 10 - table[:, 2])))
        chance = np.where(refused, np.nan, chance)
        return np.column_stack([1 - chance, chance])

    def predict(self, rows):
        scores = self.predict_proba(rows)
        return np.where(np.isnan(scores[:, 0]), np.nan, scores[:, 1] > 0.5)


class Estimating(Validating):
    """The same for a regressor."""

    _estimator_type = "regressor"
    predict_proba = None

    def predict(self, rows):
        return Validating.predict_proba(self, rows)[:, 1]


del Estimating.predict_proba


def far_away(table):
    return table[:, 1] == 999


def with_a_strange_query():
    queries = ROWS[300:330].set_axis([f"customer {row}" for row in range(30)])
    queries.iloc[7, 1] = 999
    return queries
