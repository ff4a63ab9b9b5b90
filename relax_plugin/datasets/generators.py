"""Generators of tables that stand for nothing real; each gives the same rows for the same seed.

They have what the embedded tables lack: several classes, wide tables, a rare class, a hundred categories, and columns
that depend on each other.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from relax_plugin.errors import InputError

INFORMATIVE = 10  # columns of `clusters` that tell the classes apart by themselves
FLATTENED = 20.0  # ranks added before frequencies fall as 1 / rank: the rarest of 100 has still one row in 200
BRANCHES, CONTRACTS = ("building", "care", "shop", "office", "school"), ("fixed", "open", "none")
HOMES = ("own", "rent", "family")
EDUCATION = ("school", "training", "bachelor", "master")
SHARES = ("stocks", "bonds", "property", "gold", "cash", "loans")


def waveform(n: int, classes: int = 3, seed: int = 0) -> tuple[pd.DataFrame, "pd.Series[Any]"]:
    """Generate the waveform data of Breiman et al., Classification and Regression Trees (1984).

    Each class is a random convex combination of two of three triangular waves, sampled at 21 points, plus noise
    of N(0, 1) at each point. Values are rounded to 4 decimals, as in the published tables.

    Parameters
    ----------
    n : int
        Number of rows, at least 1.
    classes : int
        2 (classes 0 and 1, which share a wave) or 3; all are equally likely.
    seed : int

    Returns
    -------
    X : DataFrame of shape (n, 21)
        Columns `x1` to `x21`.
    y : Series of int
        The class, from 0.
    """
    check_rows(n)
    if classes not in (2, 3):
        raise InputError(f"classes is {classes}, but the waveform data has 2 or 3 classes.")
    generator = np.random.default_rng(seed)
    position = np.arange(1, 22)
    waves = np.maximum(6.0 - np.abs(position - np.array([[11], [15], [7]])), 0.0)  # h1, h2, h3 by their peaks
    mixed_waves = np.array([[0, 1], [0, 2], [1, 2]])  # the two waves of each class

    label = generator.integers(classes, size=n)
    share = generator.uniform(size=(n, 1))
    first, second = waves[mixed_waves[label, 0]], waves[mixed_waves[label, 1]]
    values = share * first + (1.0 - share) * second + generator.standard_normal((n, position.size))
    return _numbered(values, label)


def clusters(n: int, features: int = 16, classes: int = 2, seed: int = 0) -> tuple[pd.DataFrame, "pd.Series[Any]"]:
    """Generate classes of two clusters each, by scikit-learn's `make_classification`.

    Ten columns place the clusters, one in six mixes these ten, and the others are noise. One label in a hundred is
    drawn at random. Values are rounded to 4 decimals.

    Parameters
    ----------
    n : int
        Number of rows, at least 1.
    features : int
        At least 12.
    classes : int
        From 2 to 512; all are equally likely.
    seed : int

    Returns
    -------
    X : DataFrame of shape (n, features)
        Columns `x1`, `x2`, ….
    y : Series of int
        The class, from 0.
    """
    from sklearn.datasets import make_classification

    check_rows(n)
    if features < INFORMATIVE + 2:
        raise InputError(f"features is {features}, but must be at least {INFORMATIVE + 2}.")
    if not 2 <= classes <= 2 ** (INFORMATIVE - 1):
        raise InputError(f"classes is {classes}, but must be from 2 to {2 ** (INFORMATIVE - 1)}.")
    values, label = make_classification(
        n,
        features,
        n_informative=INFORMATIVE,
        n_redundant=features // 6,
        n_classes=classes,
        n_clusters_per_class=2,
        class_sep=1.5,
        random_state=seed,
    )
    return _numbered(values, label)


def rare_class(n: int, share: float = 0.01, seed: int = 0) -> tuple[pd.DataFrame, "pd.Series[Any]"]:
    """Generate a rare class that lies inside the table: the rows nearest to a point, in three of ten columns.

    Each of the three must have a middling value, none its lowest or highest. Distances are blurred by noise, and values
    rounded to 4 decimals.

    Parameters
    ----------
    n : int
        Number of rows, at least 1.
    share : float
        Of class 1, above 0 and below 1.
    seed : int

    Returns
    -------
    X : DataFrame of shape (n, 10)
        Columns `x1` to `x10`, uniform from 0 to 1; the first three matter.
    y : Series of int
        1 for the rare class, else 0.
    """
    check_rows(n)
    if not 0.0 < share < 1.0:
        raise InputError(f"share is {share}, but must lie between 0 and 1.")
    generator = np.random.default_rng(seed)
    values, point = generator.uniform(size=(n, 10)), generator.uniform(0.25, 0.75, size=3)
    distance = np.linalg.norm(values[:, :3] - point, axis=1) + generator.normal(scale=0.02, size=n)
    return _numbered(values, (distance < np.quantile(distance, share)).astype(int))


def mixed(n: int, categories: int = 100, seed: int = 0) -> tuple[pd.DataFrame, "pd.Series[Any]"]:
    """Generate an invented table of loans with numbers and categories, one column of which has many categories.

    Whether a loan is repaid depends on the town, on income and debt, on the contract for younger people only, and on
    the years at work in some branches; on nothing else but chance.

    Parameters
    ----------
    n : int
        Number of rows, at least 1.
    categories : int
        Towns, from 2 to 1,000; the first ones are larger.
    seed : int

    Returns
    -------
    X : DataFrame of shape (n, 7)
        `town`, `branch`, `contract` (strings), `age`, `years`, `income`, `debt`.
    y : Series of int
        1 for a loan that is repaid, half of them, else 0.
    """
    check_rows(n)
    if not 2 <= categories <= 1000:
        raise InputError(f"categories is {categories}, but must be from 2 to 1000.")
    generator = np.random.default_rng(seed)
    frequency = 1.0 / (FLATTENED + np.arange(categories))
    town = generator.choice(categories, size=n, p=frequency / frequency.sum())
    branch, contract = generator.integers(len(BRANCHES), size=n), generator.integers(len(CONTRACTS), size=n)
    age = generator.integers(18, 70, size=n)
    years = np.minimum(generator.poisson(6.0, size=n), age - 17)
    income, debt = (generator.lognormal(mean, 0.5, size=n) for mean in (7.8, 8.5))

    of_town, of_branch = generator.normal(size=categories), generator.normal(scale=0.2, size=len(BRANCHES))
    score = of_town[town] + 1.5 * np.log(income / debt) + of_branch[branch] * (years - 6)
    score += np.where(age < 30, np.array([1.0, 0.0, -1.5])[contract], 0.0) + generator.logistic(scale=0.3, size=n)
    X = pd.DataFrame(
        {
            "town": np.array([f"town {i:03}" for i in range(categories)], dtype=object)[town],
            "branch": np.array(BRANCHES, dtype=object)[branch],
            "contract": np.array(CONTRACTS, dtype=object)[contract],
            "age": age,
            "years": years,
            "income": income.round(),
            "debt": debt.round(),
        }
    )
    return X, pd.Series((score > np.median(score)).astype(int), name="target")


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


def _numbered(values: Any, label: Any) -> tuple[pd.DataFrame, "pd.Series[Any]"]:
    X = pd.DataFrame(values.round(4), columns=[f"x{i}" for i in range(1, values.shape[1] + 1)])
    return X, pd.Series(label, name="target")


def check_rows(n: int) -> None:
    """Refuse a number of rows that is none."""
    if n < 1:
        raise InputError(f"n is {n}, but at least 1 row has to be generated.")
