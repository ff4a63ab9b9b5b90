"""A table with all that real tables have, a model of it, and a what-if session about both."""

import time
from typing import Any

import numpy as np
import pandas as pd

from relax_plugin.base import make_explainer
from relax_plugin.features import FeatureSpace
from relax_plugin.whatif.session import WhatIf

HOSTILE = "<img src=x onerror=alert(1)>"  # a category that a page must show, and never run
JOBS = ["job_a", "job_b", "job_c"]
SPACE: dict[str, Any] = {
    "increase_only": ["age"],
    "immutable": ["sex"],
    "ordered": {"size": ["S", "M", "L"]},
    "one_hot": {"job": JOBS},
    "derived": {"total": "income + rent"},
    "rules": ["rent <= 900"],
    "labels": {"town": ["home town", {"R": "Rome", "B": "Bonn"}], "income": "income (€)"},
}


class Loans:
    """Grants loans by a formula; raises or sleeps where a test wants it to."""

    classes_ = np.array(["no", "yes"])
    _estimator_type = "classifier"
    raises = False
    sleeps = 0.0

    def predict_proba(self, rows: pd.DataFrame) -> Any:
        time.sleep(self.sleeps)
        if self.raises or (rows["age"] == 99).any():
            raise ValueError("no luck today")
        points = rows["age"] / 20 + rows["total"].fillna(0) / 400 + (rows["town"] == "R") + rows["job_b"]
        points += rows["size"].map({"S": 0.0, "M": 0.5, "L": 1.0}).astype(float)
        yes = 1 / (1 + np.exp(7.0 - points.to_numpy(dtype=float)))
        return np.column_stack([1 - yes, yes])

    def predict(self, rows: pd.DataFrame) -> Any:
        return self.classes_[self.predict_proba(rows).argmax(axis=1)]


def table(count: int = 120) -> pd.DataFrame:
    """Numbers with gaps, texts, an order, a one-hot group, a derived column, and a column that the model never sees."""
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"age": rng.integers(18, 80, count), "income": np.round(rng.uniform(0, 900, count), 1)})
    rows.loc[5, "income"] = np.nan
    rows["rent"] = np.round(rng.uniform(100, 800, count), 0)
    rows["town"] = rng.choice(["R", "B", HOSTILE], count)
    rows["size"] = rng.choice(["S", "M", "L"], count)
    rows["sex"] = rng.choice(["f", "m"], count)
    job = rng.integers(0, 3, count)
    for place, name in enumerate(JOBS):
        rows[name] = (job == place).astype(int)
    rows["total"] = rows["income"] + rows["rent"]
    return rows.assign(remark=[f"person {number}" for number in range(count)])


def session(method: str = "greedy", model: Any = None, **options: Any) -> WhatIf:
    """A session about the table, whose rows are called by numbers of customers."""
    rows = table()
    training = rows.drop(columns="remark")
    explainer = make_explainer(method, Loans() if model is None else model, FeatureSpace.infer(training, **SPACE))
    rows.index = pd.Index(range(1000, 1000 + len(rows)), name="customer")
    return WhatIf(explainer.fit(training), rows, **options)


SETUP = """
from reference.what_if import SPACE, Loans, session
from relax_plugin.goal import Goal

own = session()
explainer, rows = own.explainer, own.rows
"""
