"""The twenty explainers whose saved files of version 0.2.0 lie in tests/data/version_0.2.0.

Tables and models are plain arithmetic on whole numbers: they are the same on every processor, and no model is trained
but decision trees on a table that one question after another parts cleanly.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from relax_plugin import FeatureSpace, Goal, ReLAX, ReLAXConfig
from relax_plugin.cached import cached_property

ROWS = 48
SMALL = {"steps": 8, "episodes": 16, "hidden": 8, "start_pool": 64, "updates_per_step": 1, "batch": 16}
SMALL |= {"validation_rows": 8, "validate_every": 8, "training": "model"}


class Points:
    """A classifier of two classes: the second one from `least` points on, with a chance of so many 64ths."""

    _estimator_type = "classifier"

    def __init__(self, points: Callable[[pd.DataFrame], Any], least: int, classes: tuple[Any, ...] = ("no", "yes")):
        self.points, self.least, self.classes_ = points, least, np.array(classes)

    def predict_proba(self, rows: pd.DataFrame) -> Any:
        points = np.asarray(self.points(rows), dtype=np.float64) - self.least
        chance = np.clip(2.0 * points + 33.0, 1.0, 63.0) / 64.0  # never a half
        return np.column_stack([1.0 - chance, chance])

    def predict(self, rows: pd.DataFrame) -> Any:
        return self.classes_[(self.predict_proba(rows)[:, 1] > 0.5).astype(int)]


class Labels:
    """The same without chances."""

    _estimator_type = "classifier"

    def __init__(self, points: Callable[[pd.DataFrame], Any], least: int):
        self.points, self.least, self.classes_ = points, least, np.array([0, 1])

    def predict(self, rows: pd.DataFrame) -> Any:
        return (np.asarray(self.points(rows)) >= self.least).astype(int)


class Medals:
    """A classifier of three classes by two numbers of points."""

    _estimator_type = "classifier"
    classes_ = np.array(["bronze", "gold", "silver"])

    def predict_proba(self, rows: pd.DataFrame) -> Any:
        points = np.asarray(numbers_points(rows), dtype=np.float64)
        gold = np.clip(6.0 * (points - 10.0), 0.0, 62.0)
        bronze = np.clip(6.0 * (6.0 - points), 0.0, 62.0 - gold)
        return np.column_stack([bronze + 0.5, gold + 0.5, 63.0 - gold - bronze]) / 64.0

    def predict(self, rows: pd.DataFrame) -> Any:
        return self.classes_[self.predict_proba(rows).argmax(axis=1)]


class Amount:
    """A regressor: a number of points."""

    _estimator_type = "regressor"

    def __init__(self, points: Callable[[pd.DataFrame], Any]):
        self.points = points

    def predict(self, rows: pd.DataFrame) -> Any:
        return np.asarray(self.points(rows), dtype=np.float64)


def numbers(count: int = ROWS) -> pd.DataFrame:
    """Four columns of whole numbers."""
    i = np.arange(count)
    return pd.DataFrame({"a": i * 7 % 13, "b": i * 5 % 11, "c": i * 3 % 8, "d": i * 11 % 7})


def numbers_points(rows: pd.DataFrame) -> Any:
    return rows["a"] + rows["b"] - rows["c"]


def array_points(rows: Any) -> Any:
    return rows[:, 0] + rows[:, 1] - rows[:, 2]


def people() -> pd.DataFrame:
    """Numbers, halves, texts, an order, flags."""
    i = np.arange(ROWS)
    sizes = pd.CategoricalDtype(["small", "middle", "large"], ordered=True)
    return pd.DataFrame(
        {
            "age": 20 + i * 7 % 41,
            "income": 10.0 + (i * 13 % 37) / 2,
            "town": np.array(["Rome", "Bonn", "Oslo"])[i * 5 % 3],
            "size": pd.Categorical.from_codes(i * 11 % 7 % 3, dtype=sizes),
            "owner": i * 3 % 5 < 2,
        },
        index=pd.Index([f"P{number}" for number in i], name="person"),
    )


def people_points(rows: pd.DataFrame) -> Any:
    points = rows["income"].to_numpy(float) + rows["town"].map({"Rome": 6, "Bonn": 0, "Oslo": 3}).to_numpy(float)
    points = points + 4 * rows["owner"].to_numpy(float)
    return points + rows["size"].astype(str).map({"small": 0, "middle": 2, "large": 5}).to_numpy(float)


def gaps() -> pd.DataFrame:
    """The numbers, with missing cells in two columns."""
    rows = numbers().astype({"b": float, "c": float})
    rows.loc[::5, "b"] = np.nan
    rows.loc[3::7, "c"] = np.nan
    return rows


def gaps_points(rows: pd.DataFrame) -> Any:
    return rows["a"] + rows["b"].fillna(2.0) - rows["c"].fillna(5.0)


def jobs() -> pd.DataFrame:
    """A one-hot group beside numbers."""
    job = np.arange(ROWS) * 5 % 3
    return numbers().assign(**{f"job_{name}": (job == place).astype(int) for place, name in enumerate("xyz")})


def jobs_points(rows: pd.DataFrame) -> Any:
    return rows["a"] + 5 * rows["job_y"] + 3 * rows["job_z"]


def budgets() -> pd.DataFrame:
    """A column that is a sum, and two that a rule ties together."""
    rows = numbers().rename(columns={"a": "salary", "b": "rent", "c": "years", "d": "extra"})
    return rows.assign(age=rows["years"] + 18 + rows["extra"], left=rows["salary"] - rows["rent"])


def budgets_points(rows: pd.DataFrame) -> Any:
    return 2 * rows["left"] + rows["years"]


def dated() -> pd.DataFrame:
    """A date, which the model looks at."""
    return numbers().assign(since=pd.Timestamp("2020-01-01") + pd.to_timedelta(np.arange(ROWS) * 9, unit="D"))


def dated_points(rows: pd.DataFrame) -> Any:
    return rows["a"] + rows["b"] + (rows["since"].dt.year == 2021) * 3


def cut(rows: pd.DataFrame) -> Any:
    """What the decision trees learn: two questions, of which each parts the rows cleanly."""
    return (rows["a"] >= 7) & (rows["b"] >= 5)


def tree(rows: pd.DataFrame) -> Any:
    return DecisionTreeClassifier(max_depth=2, random_state=0).fit(rows, np.where(cut(rows), "yes", "no"))


def tree_of_numbers(rows: pd.DataFrame) -> Any:
    return DecisionTreeRegressor(max_depth=2, random_state=0).fit(rows, np.where(cut(rows), 8.0, 2.0))


@dataclass(frozen=True)
class Case:
    """An explainer and a call of it.

    Attributes
    ----------
    rows : DataFrame or array
        Training rows; the queries are some of them.
    model, said, options, call
        The model, and what the space, the explainer and the call are told.
    query : int
        Which of the queries the certificate is about.
    proved : bool
        Whether proofs are asked for before the certificate is made.
    rule : callable, optional
        What every counterfactual keeps, as a function of the rows before and after.
    """

    rows: Any
    model: Any
    said: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    call: dict[str, Any] = field(default_factory=dict)
    queries: int = 5
    query: int = 0
    proved: bool = False
    rule: Callable[[pd.DataFrame, pd.DataFrame], Any] | None = None

    @cached_property
    def asked(self) -> Any:
        return self.rows[: self.queries]

    def explainer(self) -> ReLAX:
        """Not fitted yet."""
        options = {"effort": "search", "seed": 3, "progress": False, "config": ReLAXConfig(**SMALL)} | self.options
        return ReLAX(self.model, FeatureSpace.infer(self.rows, **self.said), **options)


def stays(*names: str) -> Callable[[pd.DataFrame, pd.DataFrame], Any]:
    return lambda before, after: (before[list(names)] == after[list(names)]).all(axis=1)


MANY = Points(numbers_points, 12)
CASES: dict[str, Case] = {
    "two_classes": Case(numbers(), MANY),
    "labels_only": Case(numbers(), Labels(numbers_points, 15), call={"max_changes": 1}, queries=8),
    "three_classes": Case(numbers(), Medals(), options={"goal": Goal.to("gold")}),
    "several_wanted": Case(numbers(), MANY, call={"n": 3}),
    "min_probability": Case(numbers(), MANY, options={"goal": Goal.to("yes", min_probability=0.75)}),
    "raise_by": Case(numbers(), MANY, options={"goal": Goal.to("yes", raise_by=0.125)}),
    "shift_up": Case(numbers(), Amount(numbers_points), options={"goal": Goal.shift(5.0, direction="up")}),
    "between": Case(
        numbers(),
        Amount(numbers_points),
        call={"goal": Goal.between(14.0, [15.0, 16.0, 17.0, 18.0, 19.0])},
        options={"goal": Goal.shift(3.0)},
    ),
    "array": Case(numbers().to_numpy(float), Points(array_points, 12)),
    "categories": Case(
        people(),
        Points(people_points, 30),
        {"immutable": ["age"], "labels": {"income": "income (€)"}},
        {"goal": Goal.to("yes")},
        queries=12,
        query=10,
        rule=stays("age"),
    ),
    "directions": Case(
        people(),
        Points(people_points, 30),
        {"increase_only": ["size"], "bounds": {"town": ["Rome", "Bonn"]}},
        {"effort": "refined"},
        {"vary": ["size", "income", "town"], "bounds": {"income": (None, 25.0)}},
        rule=lambda before, after: (
            (after["size"] >= before["size"])
            & stays("age", "owner")(before, after)
            & ((after["income"] <= 25.0) | (after["income"] == before["income"]))
            & ((after["town"] != "Oslo") | (before["town"] == "Oslo"))
        ),
    ),
    "missing": Case(
        gaps(),
        Points(gaps_points, 12),
        {"fill_missing": ["b"]},
        rule=lambda before, after: before["c"].isna() == after["c"].isna(),
    ),
    "may_vanish": Case(gaps(), Points(gaps_points, 12), {"may_vanish": ["c"]}, {"effort": "refined"}),
    "one_hot": Case(
        jobs(),
        Points(jobs_points, 10),
        {"one_hot": {"job": ["job_x", "job_y", "job_z"]}},
        {"effort": "policy"},
        rule=lambda before, after: after[["job_x", "job_y", "job_z"]].sum(axis=1) == 1,
    ),
    "rules": Case(
        budgets(),
        Points(budgets_points, 12),
        {"derived": {"left": "salary - rent"}, "rules": ["age >= years + 18"], "steps": {"salary": 2}},
        rule=lambda before, after: (
            (after["left"] == after["salary"] - after["rent"]) & (after["age"] >= after["years"] + 18)
        ),
    ),
    "dates": Case(dated(), Points(dated_points, 14), rule=stays("since")),
    "costs": Case(numbers(), MANY, {"costs": {"a": 10.0}}, {"objective": "closest"}),
    "plausible": Case(
        numbers(),
        MANY,
        options={"plausible": "require", "config": ReLAXConfig(**SMALL | {"training": "surrogate"})},
    ),
    "tree": Case(numbers(), tree(numbers()), proved=True),
    "no_way": Case(
        numbers(),
        tree_of_numbers(numbers()),
        options={"goal": Goal.shift(4.0, direction="up"), "variant": "local"},
        call={"vary": ["c", "d"]},
        proved=True,
    ),
}


def frame(rows: Any, space: FeatureSpace) -> pd.DataFrame:
    """Rows as a table, of arrays too."""
    return rows if isinstance(rows, pd.DataFrame) else pd.DataFrame(rows, columns=pd.Index(space.columns))
