"""Generated tables whose columns depend on each other: a table of credits, shares of a whole, and dummy columns.

Each comes with what a user would say about it to `FeatureSpace.infer`; every row keeps every rule.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd

from relax_plugin.datasets.synthetic import check_rows

HOMES = ("own", "rent", "family")
EDUCATION = ("school", "training", "bachelor", "master")
SHARES = ("stocks", "bonds", "property", "gold", "cash", "loans")

CREDIT_CONSTRAINTS: Mapping[str, Any] = MappingProxyType(
    {
        "categorical": ("home",),
        "ordered": {"education": list(EDUCATION)},
        "increase_only": ("age", "work_years", "education"),
        "derived": {"payment": "amount / duration", "left": "income - rent - payment"},
        "rules": (
            "age >= work_years + 16",
            "job_years <= work_years",
            "5 * rent <= 3 * income",
            "amount <= 4 * income + savings",
            "home != 'own' or rent == 0",
            "amount <= 10000 or duration >= 24",
            "education <= was(education) or age >= was(age) + 2",
        ),
    }
)
SIMPLEX_CONSTRAINTS: Mapping[str, Any] = MappingProxyType({"rules": (f"{' + '.join(SHARES)} == 100",)})


def credit(n: int, seed: int = 0) -> tuple[pd.DataFrame, "pd.Series[Any]"]:
    """Generate an invented table of credits with four linear rules, three other ones, and two derived columns.

    Parameters
    ----------
    n : int
        Number of rows, at least 1.
    seed : int

    Returns
    -------
    X : DataFrame of shape (n, 12)
        `age`, `work_years`, `job_years`, `income` and `rent` a month, `savings`, `amount` and `duration` in months of
        the credit, `home`, `education`; computed from these, `payment` a month and what is `left`.
    y : Series of int
        1 for a credit that is granted, half of them, else 0.
    """
    check_rows(n)
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 70, size=n)
    work = np.floor((age - 16) * rng.beta(2.0, 1.2, size=n)).astype(np.int64)
    job = np.floor(work * rng.beta(0.8, 1.0, size=n)).astype(np.int64)
    education = rng.choice(len(EDUCATION), size=n, p=(0.3, 0.35, 0.25, 0.1))
    education = np.where(age < 22, np.minimum(education, 1), education)
    income = np.maximum(np.round(rng.lognormal(7.4 + 0.15 * education + 0.006 * work, 0.35), -1), 600.0)
    home = rng.choice(len(HOMES), size=n, p=(0.35, 0.5, 0.15))
    rent = np.floor(income * rng.uniform(0.1, 0.6, size=n) / 10.0) * 10.0
    rent = np.where(home == 0, 0.0, np.where(home == 2, np.floor(rent / 40.0) * 10.0, rent))
    savings = np.round(np.minimum(rng.lognormal(7.0, 1.0, size=n), 20000.0), -2)
    most = np.floor((4.0 * income + savings) / 100.0) * 100.0
    amount = np.clip(np.round(rng.lognormal(8.6, 0.7, size=n), -2), 500.0, most)
    duration = rng.integers(1, 13, size=n) * 6
    duration = np.where(amount > 10000.0, np.maximum(duration, 24), duration)
    X = pd.DataFrame(
        {
            "age": age,
            "work_years": work,
            "job_years": job,
            "income": income,
            "rent": rent,
            "savings": savings,
            "amount": amount,
            "duration": duration,
            "home": np.array(HOMES, dtype=object)[home],
            "education": np.array(EDUCATION, dtype=object)[education],
        }
    )
    X["payment"] = X["amount"] / X["duration"]
    X["left"] = X["income"] - X["rent"] - X["payment"]
    means = np.tanh(X["left"] / 900.0) + 0.3 * np.log1p(savings / 2000.0) - 1.2 * np.log(amount / 5000.0)
    person = 0.25 * np.minimum(job, 10) + 0.6 * education + 0.03 * work + 0.8 * (home == 0)
    ranks = [pd.Series(part + rng.logistic(scale=0.2, size=n)).rank(pct=True) for part in (means, person)]
    score = np.minimum(ranks[0], ranks[1])  # both must be good
    return X, pd.Series((score > np.median(score)).astype(int), name="target")


def simplex(n: int, seed: int = 0) -> tuple[pd.DataFrame, "pd.Series[Any]"]:
    """Generate shares that sum to 100, so that any single change breaks their rule.

    Parameters
    ----------
    n : int
        Number of rows, at least 1.
    seed : int

    Returns
    -------
    X : DataFrame of shape (n, 6)
        Shares of a fortune in percent, to one decimal.
    y : Series of int
        1 where what it may gain and lose is more than the median, else 0.
    """
    check_rows(n)
    rng = np.random.default_rng(seed)
    tenths = np.floor(rng.dirichlet(np.full(len(SHARES), 1.2), size=n) * 1000.0).astype(np.int64)
    tenths[:, -1] += 1000 - tenths.sum(axis=1)
    X = pd.DataFrame(tenths / 10.0, columns=list(SHARES))
    score = 0.05 * X["stocks"] - 0.04 * X["cash"] + 0.001 * X["property"] * X["loans"] - 0.02 * np.abs(X["gold"] - 15.0)
    score += rng.normal(scale=0.15, size=n)
    return X, pd.Series((score > np.median(score)).astype(int), name="target")


def with_dummies(X: pd.DataFrame, constraints: Mapping[str, Any]) -> tuple[pd.DataFrame, dict[str, Any]]:
    """The rows with a column of 0 and 1 for each category, and the constraints that say which belong together.

    The constraints given are of `FeatureSpace.infer`, with the names of columns of strings under `categorical`.
    """
    names = list(constraints.get("categorical", ()))
    wide = pd.get_dummies(X, columns=names, dtype=np.int64)
    groups = {name: [column for column in wide.columns if column.startswith(f"{name}_")] for name in names}
    others = {key: value for key, value in constraints.items() if key != "categorical"}
    return wide, {**others, "one_hot": groups}
