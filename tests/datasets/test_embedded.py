"""Facts about `adult` as it is embedded: its gaps, and constraints that its rows do not contradict."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest

from relax_plugin import FeatureSpace, suggest_rules
from relax_plugin.datasets import Dataset, load

EDUCATION = load("adult").constraints["ordered"]["education"]

MISSING = {"workclass": 1836, "occupation": 1843, "native-country": 583}  # as UCI counts them


@pytest.fixture(scope="module")
def adult() -> Dataset:
    return load("adult")


@pytest.fixture(scope="module")
def space(adult: Dataset) -> FeatureSpace:
    return adult.space


def test_missing_cells_of_adult_are_kept_and_are_where_they_were(adult: Dataset) -> None:
    counts = adult.X.isna().sum()
    assert counts[counts > 0].to_dict() == MISSING
    assert adult.X.loc[14, "native-country"] is np.nan or pd.isna(adult.X.loc[14, "native-country"])
    assert adult.X.loc[0, ["age", "workclass", "education-num"]].tolist() == [39, "State-gov", 13]
    assert not adult.X.isin(["?", " ?", ""]).any(axis=None)


def test_education_num_is_the_place_of_education_in_its_order_in_every_row(adult: Dataset, space: FeatureSpace) -> None:
    places = {level: place for place, level in enumerate(EDUCATION, 1)}
    assert (adult.X["education"].map(places) == adult.X["education-num"]).all()
    assert "education-num" not in space.names and "education-num" in space.columns


def test_what_nobody_can_change_is_immutable(space: FeatureSpace) -> None:
    fixed = {feature.name for feature in space.features if feature.immutable}
    assert fixed == {"marital-status", "relationship", "race", "sex", "native-country"}
    directions = {feature.name: feature.direction for feature in space.features if feature.direction}
    assert directions == {"age": "increase", "education": "increase", "capital-loss": "decrease"}


def test_no_missing_cell_may_be_filled_or_become_one(space: FeatureSpace) -> None:
    assert not any(feature.fillable or feature.vanishable for feature in space.features)


def changed(row: "pd.DataFrame", **cells: Any) -> "pd.DataFrame":
    return row.assign(**{name.replace("_", "-"): cell for name, cell in cells.items()})


def broken(space: FeatureSpace, before: "pd.DataFrame", after: "pd.DataFrame") -> set[str]:
    known, start = space.taking_in(before)
    known, values = known.taking_in(after)
    return set(_broken(known, start, values))


def _broken(space: FeatureSpace, start: Any, values: Any) -> Iterator[str]:
    for rule in space.bound_rules:
        kept = rule.holds(space.cells(values), space.cells(start))  # type: ignore[arg-type]
        if not kept.all():
            yield rule.text


def test_every_row_keeps_every_rule(adult: Dataset, space: FeatureSpace) -> None:
    assert broken(space, adult.X, adult.X) == set()


@pytest.mark.parametrize(
    ("cells", "part"),
    [
        ({"age": 50}, "age <= was(age) + 10"),
        ({"education": "Masters", "age": 40}, "education <= was(education) or"),
        ({"education": "Doctorate", "age": 41}, "place(education) - place(was(education))"),
        ({"capital_gain": 100, "capital_loss": 100}, "`capital-gain` == 0 or"),
        ({"occupation": "Priv-house-serv", "workclass": "State-gov"}, 'occupation != "Priv-house-serv" or'),
    ],
)
def test_each_rule_is_broken_by_what_it_is_about(
    adult: Dataset, space: FeatureSpace, cells: dict[str, Any], part: str
) -> None:
    row = adult.X.iloc[[0]]  # 39 years, a bachelor's degree
    (text,) = broken(space, row, changed(row, **cells))
    assert text.startswith(part)


def test_young_people_have_no_doctorate(adult: Dataset, space: FeatureSpace) -> None:
    row = adult.X[(adult.X["age"] == 20)].iloc[[0]]
    assert 'education < "Prof-school" or age >= 24' in broken(space, row, changed(row, education="Doctorate"))
    high = adult.X["education"].isin(["Prof-school", "Doctorate"])
    assert adult.X.loc[high, "age"].min() == 24
    assert high.sum() * (adult.X["age"] < 24).mean() > 30, "chance would have broken it"


def test_rules_between_columns_would_be_broken_by_chance(adult: Dataset) -> None:
    gain, loss = adult.X["capital-gain"] > 0, adult.X["capital-loss"] > 0
    assert not (gain & loss).any() and len(gain) * gain.mean() * loss.mean() > 30
    private = adult.X["workclass"].dropna() == "Private"
    assert (adult.X["occupation"] == "Priv-house-serv").sum() * (1 - private.mean()) > 30


def test_no_order_between_numbers_of_adult_is_suggested(adult: Dataset) -> None:
    assert suggest_rules(adult.X) == []


def test_a_part_of_the_rows_has_a_space_too(adult: Dataset) -> None:
    few = adult.X.sample(3000, random_state=0)
    assert len(set(few["native-country"].dropna())) < len(set(adult.X["native-country"].dropna()))
    assert FeatureSpace.infer(few, **adult.constraints).columns == list(adult.X.columns)
