"""A table as people have them, in several kinds, models that take it, and a check of answers that trusts no explainer.

`Table.broken` looks at the delivered cells alone: frozen and missing cells, torn groups, derived columns, rules, and
what the raw model says to them.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from xgboost import XGBClassifier

from relax_plugin import Counterfactuals, FeatureSpace

ROWS, QUERIES = 240, 12
JOBS = ["job_clerk", "job_nurse", "job_smith"]
TOWNS = ["Bonn", "Oslo", "Rome"]


@dataclass
class Table:
    """Training rows, queries, a fitted model, what the space is told of them, and what answers must keep."""

    rows: pd.DataFrame
    queries: pd.DataFrame
    model: Any
    said: dict[str, Any] = field(default_factory=dict)
    frozen: tuple[str, ...] = ()
    group: tuple[str, ...] = ()
    rule: Callable[[pd.DataFrame], Any] | None = None

    @property
    def space(self) -> FeatureSpace:
        return FeatureSpace.infer(self.rows, **self.said)

    def broken(self, found: Counterfactuals) -> list[str]:
        """What is wrong with the found counterfactuals, one line each."""
        frame = found.frame
        after = frame[self.rows.columns].reset_index(drop=True)
        before = self.queries.iloc[frame["query_id"].to_numpy()].reset_index(drop=True)
        told = []
        gone = before.isna().to_numpy() != after.isna().to_numpy()
        told += [f"row {r}: {self.rows.columns[c]} was missing, or became so" for r, c in np.argwhere(gone)]
        for name in self.frozen:
            other = [a is not b and a != b for a, b in zip(after[name], before[name], strict=True) if not pd.isna(a)]
            told += [f"{name} has changed"] if any(other) else []
        if self.group:
            cells = after[list(self.group)].to_numpy(dtype=float)
            told += [f"row {r}: the group is torn" for r in np.flatnonzero(cells.sum(axis=1) != 1)]
        if "total" in after:
            wrong = ~np.isclose(after["total"], after["salary"] + after["bonus"], equal_nan=True)
            told += [f"row {r}: total is not the sum" for r in np.flatnonzero(wrong)]
        if self.rule is not None:
            changed = (after.astype(object) != before.astype(object)).any(axis=1) & ~(after.isna() & before.isna()).all(
                axis=1
            )
            told += [f"row {r}: the rule is broken" for r in np.flatnonzero(~self.rule(after) & changed)]
        if len(after):
            met = np.asarray(self.model.predict(after)) != np.asarray(self.model.predict(before))
            told += [f"row {r}: the model says the same as before" for r in np.flatnonzero(~met)]
        return told


def base_rows(seed: int = 3) -> tuple[pd.DataFrame, np.ndarray]:
    """People who ask for a loan, and whether they get it."""
    rng = np.random.default_rng(seed)
    rows = pd.DataFrame(
        {
            "age": rng.integers(20, 70, ROWS),
            "salary": rng.normal(3000, 800, ROWS).round(-1),
            "bonus": rng.normal(500, 150, ROWS).round(-1),
            "years": rng.integers(0, 20, ROWS),
            "town": rng.choice(TOWNS, ROWS),
        }
    )
    rows["years"] = np.minimum(rows["years"], rows["age"] - 18)
    merit = (rows["salary"] - 3000) / 800 + (rows["bonus"] - 500) / 150 + (rows["years"] - 8) / 5
    merit += rows["town"].map({"Bonn": -0.8, "Oslo": 0.0, "Rome": 0.8})
    return rows, (merit + rng.normal(0, 0.2, ROWS) > 0).astype(int).to_numpy()


@cache
def tables() -> dict[str, Table]:
    """The tables by name."""
    return {
        "missing": missing(),
        "missing numbers": missing_numbers(),
        "groups": groups(),
        "carried": carried(),
        "derived": derived(),
        "rules": ruled(),
    }


def with_gaps(rows: pd.DataFrame, names: list[str], share: float = 0.1, seed: int = 5) -> pd.DataFrame:
    rng, rows = np.random.default_rng(seed), rows.copy()
    for name in names:
        gone = rng.random(len(rows)) < share
        rows[name] = rows[name].astype(float if rows[name].dtype.kind in "iuf" else object)
        rows.loc[gone, name] = np.nan if rows[name].dtype.kind == "f" else None
    return rows


def piped(rows: pd.DataFrame, texts: list[str], drop: tuple[str, ...] = ()) -> Any:
    """Imputers, a one-hot encoder and a linear model; some columns are left out."""
    numbers = [name for name in rows.columns if name not in (*texts, *drop)]
    of_texts = make_pipeline(
        SimpleImputer(strategy="constant", fill_value="?", missing_values=None),
        OneHotEncoder(handle_unknown="ignore"),
    )
    columns = make_column_transformer(
        (make_pipeline(SimpleImputer(), StandardScaler()), numbers),
        *([(of_texts, texts)] if texts else []),
    )
    return make_pipeline(columns, LogisticRegression())


def missing() -> Table:
    """A tenth of the numbers and of the categories is missing; a pipeline with imputers."""
    rows, y = base_rows()
    rows = with_gaps(rows, ["salary", "bonus", "town"])
    model = piped(rows, ["town"]).fit(rows, y)
    return Table(rows, rows.iloc[:QUERIES], model)


def missing_numbers() -> Table:
    """A tenth of the numbers is missing; trees that take that."""
    rows, y = base_rows()
    rows = with_gaps(rows.drop(columns="town"), ["salary", "bonus", "years"])
    return Table(rows, rows.iloc[:QUERIES], XGBClassifier(n_estimators=10, max_depth=3).fit(rows, y))


def groups() -> Table:
    """Three columns of a job, of which one is 1."""
    rows, y = base_rows()
    codes = np.random.default_rng(8).integers(0, 3, ROWS)
    for place, name in enumerate(JOBS):
        rows[name] = (codes == place).astype(int)
    y = ((y + (codes == 0)) > 0).astype(int)
    rows = rows.drop(columns="town")
    return Table(rows, rows.iloc[:QUERIES], linear(rows, y), {"one_hot": {"job": JOBS}}, group=tuple(JOBS))


def carried() -> Table:
    """A date, which the model looks at, and which no explainer can change."""
    rows, y = base_rows()
    rows["since"] = pd.Timestamp("2020-01-01") + pd.to_timedelta(np.arange(ROWS) % 90, unit="D")
    return Table(rows, rows.iloc[:QUERIES], Dated(piped(rows, ["town"], ("since",)).fit(rows, y)), frozen=("since",))


class Dated:
    """A model that refuses rows without true dates."""

    _estimator_type = "classifier"

    def __init__(self, model: Any) -> None:
        self.model, self.classes_ = model, model.classes_

    def predict(self, rows: pd.DataFrame) -> Any:
        return self.predict_proba(rows).argmax(axis=1)

    def predict_proba(self, rows: pd.DataFrame) -> Any:
        if (rows["since"].dt.year != 2020).any():
            raise ValueError("a date has changed")
        return self.model.predict_proba(rows)


def derived() -> Table:
    """A total that is the sum of two columns, and a rule about age and years of work."""
    rows, y = base_rows()
    rows["total"] = rows["salary"] + rows["bonus"]
    rows = rows.drop(columns="town")
    said = {"derived": {"total": "salary + bonus"}, "rules": ["age >= years + 18"]}
    return Table(rows, rows.iloc[:QUERIES], linear(rows, y), said, rule=old_enough)


def ruled() -> Table:
    """A rule about age and years of work, and a feature for each column."""
    rows, y = base_rows()
    rows = rows.drop(columns="town")
    said = {"rules": ["age >= years + 18"]}
    return Table(rows, rows.iloc[:QUERIES], linear(rows, y), said, rule=old_enough)


def old_enough(rows: pd.DataFrame) -> Any:
    return rows["age"] >= rows["years"] + 18


def linear(rows: pd.DataFrame, y: Any) -> Any:
    return make_pipeline(StandardScaler(), LogisticRegression()).fit(rows, y)
