"""Facts about suggested rules: only what data support, and nothing that follows from others."""

import copy
import pickle
import time
from typing import Any

import numpy as np
import pandas as pd
import polars
import pytest
from sklearn.datasets import load_breast_cancer

from relax_plugin import rules
from relax_plugin.errors import InputError
from relax_plugin.rules.rule import BoundRule, Kind, Rule
from relax_plugin.rules.suggestions import SuggestedRule, suggest_rules

RNG_ROWS = 400


def chain(rows: int = RNG_ROWS, columns: int = 4, seed: int = 0) -> pd.DataFrame:
    """Columns c0 <= c1 <= ... in every row, which overlap much."""
    rng = np.random.default_rng(seed)
    cells = rng.normal(size=(rows, 1)) * 3 + np.cumsum(rng.random((rows, columns)), axis=1)
    return pd.DataFrame(cells, columns=[f"c{j}" for j in range(columns)])


def broken(rule: str, X: pd.DataFrame) -> int:
    bound = Rule(rule).bind({name: Kind() for name in X})
    assert isinstance(bound, BoundRule)
    return int((~bound.holds({name: X[name].to_numpy() for name in X}, {})).sum())


def test_the_rules_package_exports_rules_and_suggestions() -> None:
    assert rules.suggest_rules is suggest_rules and rules.Rule is Rule


def test_orders_of_measurements_are_found_and_keep_on_rows_not_seen() -> None:
    X = load_breast_cancer(as_frame=True).data
    measured = ("radius", "texture", "perimeter", "area", "smoothness", "compactness", "concavity", "concave points")
    assert {f"`mean {what}` <= `worst {what}`" for what in measured} <= set(suggest_rules(X))
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(len(X))
        train, test = X.iloc[order[:398]], X.iloc[order[398:]]
        mined = suggest_rules(train)
        assert len(mined) >= 8 and sum(broken(rule, test) for rule in mined) == 0


@pytest.mark.parametrize("seed", range(5))
def test_independent_columns_give_no_rule(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({f"n{j}": rng.normal(j, 1, size=1000) for j in range(20)})
    assert [*suggest_rules(X)] == []


def test_what_follows_from_two_others_is_left_out() -> None:
    assert sorted(suggest_rules(chain())) == ["c0 <= c1", "c1 <= c2", "c2 <= c3"]
    scattered = chain().mask(np.random.default_rng(1).random((RNG_ROWS, 4)) < 0.1)
    assert sorted(suggest_rules(scattered)) == ["c0 <= c1", "c1 <= c2", "c2 <= c3"]


def test_one_row_that_breaks_an_order_ends_it() -> None:
    X = chain(rows=5000, columns=2)
    assert suggest_rules(X) == ["c0 <= c1"]
    X.loc[4999, "c0"] = X.loc[4999, "c1"] + 0.001
    assert suggest_rules(X) == []


def test_expected_breaks_are_those_of_shuffled_columns() -> None:
    X = chain(rows=200, columns=2)
    (rule,) = suggest_rules(X)
    pairs = X["c0"].to_numpy()[:, None] > X["c1"].to_numpy()[None, :]
    assert rule.expected_breaks == pytest.approx(200 * pairs.mean())
    rng = np.random.default_rng(0)
    shuffled = [(rng.permutation(X["c0"]) > X["c1"]).sum() for _ in range(300)]
    assert rule.expected_breaks == pytest.approx(np.mean(shuffled), rel=0.05)
    assert suggest_rules(X, least_breaks=rule.expected_breaks) == [rule]
    assert suggest_rules(X, least_breaks=rule.expected_breaks + 0.01) == []


def test_only_rows_with_both_values_count() -> None:
    X = chain(rows=300, columns=2)
    X.loc[:99, "c0"], X.loc[250:, "c1"] = np.nan, np.nan
    (rule,) = suggest_rules(X)
    there = X.dropna()
    assert (rule.rows, rule.kept) == (300, 150)
    assert rule.expected_breaks == suggest_rules(there)[0].expected_breaks
    nullable = X.astype("Float64")
    assert suggest_rules(nullable) == [rule]


def test_columns_that_are_always_equal_are_said_to_be() -> None:
    X = chain(columns=2).assign(copy=lambda frame: frame["c0"])
    assert sorted(suggest_rules(X)) == ["c0 <= c1", "c0 == copy"]


def test_names_are_quoted_where_they_must_be_and_the_text_is_a_rule() -> None:
    X = chain().set_axis(["mean radius", 7, "in", "tick`s"], axis=1)
    rules = suggest_rules(X)
    assert sorted(rules) == ["`7` <= `in`", "`in` <= `tick``s`", "`mean radius` <= `7`"]
    for rule in rules:
        assert Rule(rule).text == rule and type(Rule(rule).text) is str and broken(rule, X) == 0


def test_other_columns_are_passed_over_and_other_tables_are_read() -> None:
    X = chain(columns=2)
    flags = np.arange(RNG_ROWS) % 2 == 0
    mixed = X.assign(text="x", flag=flags, day=pd.Timestamp("2024-01-01"), kind=pd.Categorical(flags))
    assert suggest_rules(mixed) == suggest_rules(X) == suggest_rules(polars.from_pandas(X)) == ["c0 <= c1"]
    assert suggest_rules(X.to_numpy()) == ["x0 <= x1"]
    assert suggest_rules(mixed[["text", "c0"]]) == suggest_rules(X.iloc[:0]) == []


def test_a_suggested_rule_is_text_that_keeps_its_figures() -> None:
    (rule,) = suggest_rules(chain(columns=2))
    for again in (copy.deepcopy(rule), pickle.loads(pickle.dumps(rule))):
        assert isinstance(again, SuggestedRule) and again == rule
        assert (again.rows, again.kept, again.expected_breaks) == (rule.rows, rule.kept, rule.expected_breaks)


@pytest.mark.parametrize("wrong", [0, -1, "30", None, True, float("nan")])
def test_least_breaks_must_be_a_positive_number(wrong: Any) -> None:
    with pytest.raises(InputError, match="least_breaks is"):
        suggest_rules(chain(), least_breaks=wrong)


@pytest.mark.slow
def test_a_hundred_columns_take_seconds() -> None:
    X = chain(rows=30_000, columns=100)
    start = time.process_time()
    assert len(suggest_rules(X)) == 99
    assert time.process_time() - start < 20
