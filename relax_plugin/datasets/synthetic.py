"""Generators of what the embedded tables lack: several classes, wide tables, a rare class, a hundred categories.

Each gives the same rows for the same seed; nothing is stored, and none of them stands for anything.
"""

from typing import Any

import numpy as np
import pandas as pd

from relax_plugin.errors import InputError

INFORMATIVE = 10  # columns of `clusters` that tell the classes apart by themselves
FLATTENED = 20.0  # ranks added before frequencies fall as 1 / rank: the rarest of 100 has still one row in 200
BRANCHES, CONTRACTS = ("building", "care", "shop", "office", "school"), ("fixed", "open", "none")


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


def _numbered(values: Any, label: Any) -> tuple[pd.DataFrame, "pd.Series[Any]"]:
    X = pd.DataFrame(values.round(4), columns=[f"x{i}" for i in range(1, values.shape[1] + 1)])
    return X, pd.Series(label, name="target")


def check_rows(n: int) -> None:
    """Refuse a number of rows that is none."""
    if n < 1:
        raise InputError(f"n is {n}, but at least 1 row has to be generated.")
