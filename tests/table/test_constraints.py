"""Constraints of one call: immutable, increase_only, max_changes, bounds for each row its own, rules."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from reference.every_explainer import every_explainer, skipped_with_a_reason
from reference.small_explainers import OPTIONS
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from relax_plugin import Counterfactuals, FeatureSpace, Rule, make_explainer
from relax_plugin.errors import ConstraintError, InputError, UnknownNameError

RNG = np.random.default_rng(12)
ROWS = 150
PEOPLE = pd.DataFrame(
    {
        "age": RNG.integers(30, 70, ROWS),
        "work_years": RNG.integers(0, 14, ROWS),
        "income": RNG.normal(30, 8, ROWS).round(1),
        "debt": RNG.normal(10, 4, ROWS).round(1),
    }
)
LABEL = (PEOPLE["income"] - PEOPLE["debt"] + PEOPLE["work_years"] + 0.1 * PEOPLE["age"] > 31).astype(int)
MODEL = make_pipeline(StandardScaler(), LogisticRegression()).fit(PEOPLE, LABEL)
QUERIES = PEOPLE[:20]


def explained(name: str = "greedy", space: FeatureSpace | None = None, **call: Any) -> Counterfactuals:
    return make_explainer(name, MODEL, space, **OPTIONS.get(name, {})).fit(PEOPLE).explain(QUERIES, **call)


def changed(result: Counterfactuals) -> pd.DataFrame:
    """The found rows that differ from their queries."""
    ids = result.changes()[["query_id", "cf_id"]].drop_duplicates()
    return result.frame.merge(ids)


def originals(frame: pd.DataFrame) -> pd.DataFrame:
    return QUERIES.iloc[frame["query_id"]].set_axis(frame.index)


@every_explainer
def test_every_explainer_keeps_the_constraints_of_a_call(name: str) -> None:
    low = np.where(np.arange(20) % 2, 25.0, -np.inf)
    high = pd.Series([None if i % 3 else 40.0 for i in range(20)], dtype=object)
    with skipped_with_a_reason():
        result = explained(
            name, immutable=["age"], increase_only=["work_years"], max_changes=2, bounds={"income": (low, high)}
        )
        frame = result.frame
        assert len(frame)
        own = originals(frame)
        assert (frame["age"] == own["age"]).all() and (frame["work_years"] >= own["work_years"]).all()
        assert (frame[list(PEOPLE)] != own).sum(axis=1).max() <= 2
        moved = frame["income"] != own["income"]
        at = frame["query_id"][moved]
        assert (frame["income"][moved] >= low[at]).all()
        assert (frame["income"][moved] <= high.astype(float).fillna(np.inf).to_numpy()[at]).all()


def test_a_call_changes_nothing_for_the_next() -> None:
    explainer = make_explainer("greedy", MODEL).fit(PEOPLE)
    before = explainer.explain(QUERIES).frame
    explainer.explain(QUERIES, immutable=["income"], increase_only=["age"], max_changes=1, rules=["income <= 30"])
    pd.testing.assert_frame_equal(explainer.explain(QUERIES).frame, before)
    assert explainer.max_changes == make_explainer("greedy", MODEL).max_changes


def test_max_changes_of_a_call_takes_the_place_of_the_explainers_own() -> None:
    explainer = make_explainer("greedy", MODEL, max_changes=1).fit(PEOPLE)
    narrow = explainer.explain(QUERIES, vary=["age", "work_years"])
    wide = explainer.explain(QUERIES, vary=["age", "work_years"], max_changes=2)
    assert np.nanmax(narrow.sparsity) == 1 and np.nanmax(wide.sparsity) == 2
    assert wide.found.sum() > narrow.found.sum()
    with pytest.raises(InputError, match="max_changes is 0"):
        explainer.explain(QUERIES, max_changes=0)


@pytest.mark.parametrize("one", [np.full(20, 28.0), pd.Series(np.full(20, 28.0)), [28.0] * 20, tuple([28.0] * 20)])
def test_ends_a_row_may_come_as_arrays_series_and_lists(one: Any) -> None:
    result = explained(bounds={"income": (one, None)}, vary=["income"])
    expected = explained(bounds={"income": (28.0, None)}, vary=["income"])
    pd.testing.assert_frame_equal(result.frame, expected.frame)
    assert len(result.frame)


def test_open_ends_a_row_are_none_nan_and_inf() -> None:
    plain = explained(vary=["income"])
    for end in (np.full(20, np.inf), [None] * 20, np.full(20, np.nan), pd.Series([None] * 20, dtype="Float64")):
        result = explained(vary=["income"], bounds={"income": (None, end)})
        pd.testing.assert_frame_equal(result.frame, plain.frame)


@pytest.mark.parametrize(
    ("bound", "sentence"),
    [
        ((np.zeros(19), None), "have 19 numbers for 20 rows"),
        ((np.full(20, 50.0), np.full(20, 40.0)), r"are \[50, 40\] in row 0; give low <= high"),
        ((["a"] * 20, None), "are no numbers"),
        ((np.zeros((20, 2)), None), "no numbers|one a row"),
    ],
)
def test_wrong_ends_a_row_are_refused(bound: Any, sentence: str) -> None:
    with pytest.raises(ConstraintError, match=sentence):
        explained(bounds={"income": bound})


def test_bounds_a_row_stay_with_their_rows_in_every_batch() -> None:
    rows = pd.concat([PEOPLE] * 4, ignore_index=True)
    low = np.linspace(10, 50, len(rows)).round(1)
    explainer = make_explainer("nearest-ct", MODEL, reverted=True).fit(PEOPLE)
    result = explainer.explain(rows, bounds={"income": (low, None)}, n=3)
    frame = result.frame
    moved = frame["income"].to_numpy() != rows["income"].to_numpy()[frame["query_id"]]
    assert moved.any() and (frame["income"].to_numpy()[moved] >= low[frame["query_id"]][moved]).all()


@pytest.mark.parametrize("argument", ["immutable", "increase_only", "decrease_only", "vary"])
def test_unknown_names_of_a_call_are_refused(argument: str) -> None:
    with pytest.raises(UnknownNameError, match=f"{argument} names feature 'incme'; did you mean 'income'"):
        explained(**{argument: ["incme"]})
    with pytest.raises(InputError, match="must be a list of feature names"):
        explained(**{argument: "income"})


def test_directions_of_a_call_that_contradict_are_refused() -> None:
    with pytest.raises(ConstraintError, match="both increase_only and decrease_only"):
        explained(increase_only=["age"], decrease_only=["age"])
    space = FeatureSpace.infer(PEOPLE, increase_only=["age"])
    with pytest.raises(ConstraintError, match="both increase_only and decrease_only"):
        explained(space=space, decrease_only=["age"])


# Ordered text.

SIZES = ["S", "M", "L", "XL"]


@pytest.mark.parametrize("dtype", [object, "str"])
def test_ordered_text_keeps_a_direction(dtype: Any) -> None:
    rows = pd.DataFrame({"size": pd.Series(RNG.choice(SIZES, 100), dtype=dtype), "a": RNG.normal(size=100)})

    def model(table: pd.DataFrame) -> Any:
        score = table["size"].map({"S": 2.0, "M": -1.0, "L": 0.5, "XL": 1.0}).astype(float) + 0.1 * table["a"]
        chance = 1 / (1 + np.exp(-score.to_numpy()))
        return np.column_stack([1 - chance, chance])

    place = {size: i for i, size in enumerate(SIZES)}
    query = pd.DataFrame({"size": pd.Series(["M"], dtype=dtype), "a": [0.0]})
    free = make_explainer("greedy", model, FeatureSpace.infer(rows, ordered={"size": SIZES})).fit(rows)
    assert free.explain(query).frame["size"].map(place).tolist() != [1]
    upwards = free.explain(query, increase_only=["size"]).frame
    assert upwards["size"].map(place).gt(1).all() and upwards["size"].dtype == rows["size"].dtype and len(upwards)
    downwards = free.explain(query, decrease_only=["size"]).frame
    assert downwards["size"].tolist() == ["S"]
    with pytest.raises(ConstraintError, match=r"have no order; give it one, ordered=\{'size'"):
        make_explainer("greedy", model).fit(rows).explain(query, increase_only=["size"])


@pytest.mark.parametrize("direction", ["increase_only", "decrease_only"])
def test_under_a_direction_a_gap_may_become_anything_and_an_unseen_category_nothing(direction: str) -> None:
    def model(table: pd.DataFrame) -> Any:
        chance = np.where(table["size"] == "M", 0.9, 0.2)
        return np.column_stack([1 - chance, chance])

    rows = pd.DataFrame({"size": pd.Series([*SIZES, None] * 12, dtype=object), "a": RNG.normal(size=60)})
    space = FeatureSpace.infer(rows, ordered={"size": SIZES}, fill_missing=["size"])
    explainer = make_explainer("greedy", model, space).fit(rows)
    gap, unseen = (pd.DataFrame({"size": pd.Series([cell], dtype=object), "a": [0.0]}) for cell in (None, "XXL"))
    assert explainer.explain(gap, **{direction: ["size"]}).frame["size"].tolist() == ["M"]
    with pytest.warns(UserWarning, match="XXL"):
        assert not explainer.explain(unseen, **{direction: ["size"]}).found.any()
    with pytest.warns(UserWarning, match="XXL"):
        assert explainer.explain(unseen).frame["size"].tolist() == ["M"]


@pytest.mark.parametrize(
    ("order", "sentence"),
    [
        ("SML", "give the list"),
        (["S", "M", "M", "L", "XL"], "name each category once"),
        (["S", "M", "L"], "is 'XL' in row"),
    ],
)
def test_wrong_orders_are_refused(order: Any, sentence: str) -> None:
    rows = pd.DataFrame({"size": [*SIZES, *SIZES], "a": range(8)})
    with pytest.raises(ConstraintError, match=sentence):
        FeatureSpace.infer(rows, ordered={"size": order})


# Rules.


@every_explainer
def test_every_explainer_keeps_rules_of_the_space_and_of_the_call(name: str) -> None:
    space = FeatureSpace.infer(PEOPLE, rules=["age >= work_years + 16"])
    with skipped_with_a_reason():
        result = explained(name, space, rules=["income >= was(income) or debt <= was(debt) - 1", "debt <= income"])
        frame = changed(result)
        own = originals(frame)
        assert (frame["age"] >= frame["work_years"] + 16).all() and (frame["debt"] <= frame["income"]).all()
        assert ((frame["income"] >= own["income"]) | (frame["debt"] <= own["debt"] - 1 + 1e-9)).all()


def test_a_rule_may_be_a_function_of_after_and_before() -> None:
    seen: list[tuple[list[str], list[str]]] = []

    def within_ten(after: pd.DataFrame, before: pd.DataFrame) -> Any:
        seen.append((list(after), list(before)))
        return (after["income"] - before["income"]).abs() <= 10

    result = explained(rules=[Rule(within_ten, columns=["income"])])
    frame = changed(result)
    assert len(frame) and ((frame["income"] - originals(frame)["income"]).abs() <= 10).all()
    assert seen and all(pair == (["income"], ["income"]) for pair in seen)
    free = changed(explained())
    assert ((free["income"] - originals(free)["income"]).abs() > 10).any()


def test_a_query_that_breaks_a_rule_itself_is_told_which() -> None:
    result = explained(rules=["income >= 1000"])
    assert not result.found.any()
    assert all("its own row breaks the rule 'income >= 1000'" in text for text in result.sentences())


def test_a_rule_that_mentions_a_missing_cell_counts_as_kept() -> None:
    rows = PEOPLE.astype(float)
    rows.loc[::3, "debt"] = np.nan

    def model(table: pd.DataFrame) -> Any:
        score = (table["income"] - table["debt"].fillna(10) - 20).to_numpy() / 5
        return np.column_stack([1 / (1 + np.exp(score)), 1 / (1 + np.exp(-score))])

    space = FeatureSpace.infer(rows, rules=["income <= debt + 25"])
    result = make_explainer("greedy", model, space).fit(rows).explain(rows[:20])
    frame = result.frame.merge(result.changes()[["query_id", "cf_id"]].drop_duplicates())
    gaps = frame["debt"].isna()
    assert gaps.any() and (~gaps).any()
    assert (frame["income"][~gaps] <= frame["debt"][~gaps] + 25 + 1e-9).all()


@pytest.mark.parametrize(
    ("rules", "sentence"),
    [(["incme <= 3"], "did you mean 'income'"), ("income <= 3", "give a list of rules"), (["income <="], "income <=")],
)
def test_wrong_rules_of_a_call_are_refused(rules: Any, sentence: str) -> None:
    with pytest.raises(ConstraintError, match=sentence):
        explained(rules=rules)


def test_rules_are_saved_with_the_space_and_functions_are_not() -> None:
    space = FeatureSpace.infer(PEOPLE, rules=["age >= work_years + 16", Rule("debt <= income", name="solvent")])
    again = FeatureSpace.from_dict(space.to_dict())
    assert again == space and [str(rule) for rule in again.rules] == [str(rule) for rule in space.rules]
    with pytest.raises(InputError, match="is a function, which a file cannot hold"):
        FeatureSpace.infer(PEOPLE, rules=[Rule(lambda after, before: after["age"] > 0, columns=["age"])]).to_dict()
