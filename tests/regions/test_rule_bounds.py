"""Facts about bounds of rules: what they prove of a box holds in each of its rows, and they prove what is plain."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from relax_plugin import FeatureSpace
from relax_plugin.regions.rule_bounds import RuleBounds, narrowed
from relax_plugin.rules.repair import RowRules
from relax_plugin.rules.rule import Rule

RNG = np.random.default_rng(0)
ROWS = pd.DataFrame(
    {
        "a": RNG.integers(-20, 40, 200),
        "b": RNG.normal(size=200).round(2),
        "c": RNG.normal(10, 4, 200),
        "size": RNG.choice(["S", "M", "L"], 200),
        "hue": RNG.choice(["red", "blue", "grey"], 200),
    }
)
PLAIN = FeatureSpace.infer(ROWS, ordered={"size": ["S", "M", "L"]})
RULES = [
    "a + 2 * b <= 30",
    "a - b > c - 40",
    "abs(a) <= 30",
    "a * b < 60",
    "a / c >= -50",
    "c / b != 3",
    "c / b <= 12",
    "max(a, c) >= min(b, 2)",
    "a >= was(a) - 30",
    "size in ['S', 'M'] or a > 0",
    "hue != 'red'",
    "size <= 'M'",
    "place(size) + a >= -15",
    "not (a > 10 and b > 1)",
    "3 * a - c <= 100",
    "implies(hue == 'red', a > 0)",
    "iff(a > 10, b > 1)",
]


def boxes(count: int) -> tuple[Any, Any, Any]:
    """Boxes around rows, some of them wide, some with a single value."""
    start = PLAIN.values(ROWS)[RNG.integers(0, 200, count)]
    wide = RNG.random(start.shape) < 0.6
    high = start + wide * RNG.random(start.shape) * [25, 1.5, 9, 2.9, 2.9]
    high[:, :1], high[:, 3:] = np.floor(high[:, :1]), np.minimum(np.floor(high[:, 3:]), 2)
    return start, start.copy(), high


@pytest.mark.parametrize("rule", RULES)
def test_what_is_proved_holds_in_every_row_and_much_that_holds_is_proved(rule: str) -> None:
    space = PLAIN.with_rules([rule])
    bounds = RuleBounds(space, space.bound_rules)
    start, low, high = boxes(400)
    assert bounds.bounded().all()
    about = bounds.about(np.ones(start.shape, dtype=bool))
    assert about.all()
    other = start + np.array([1, 0, 0, 0, 0])  # a query, from which every row differs
    proved = bounds.prove(low, high, other, about)
    tries = 40
    place = RNG.choice([0.0, 1.0, 0.5, 0.3], (tries, *low.shape))
    rows = low + place * (high - low)
    rows[:, :, :1], rows[:, :, 3:] = np.floor(rows[:, :, :1]), np.floor(rows[:, :, 3:])
    owner = np.tile(np.arange(len(low)), tries)
    kept = RowRules(space, space.bound_rules, other)
    holds = kept.holds(rows.reshape(-1, 5), owner).reshape(tries, -1)
    point = (low == high)[:, [space.names.index(name) for name in space.bound_rules[0].names]].all(axis=1)
    assert holds.all(axis=0)[proved & ~point].all()  # a box of one row counts as delivered
    always = holds.all(axis=0) & ~point
    assert always.sum() > 10 and (proved & always).sum() > 0.6 * always.sum()


def test_functions_and_rules_about_derived_columns_are_not_bounded() -> None:
    rows = ROWS[["a", "b"]].assign(total=ROWS["a"] + ROWS["b"])
    space = FeatureSpace.infer(rows, derived={"total": "a + b"})
    space = space.with_rules(["total <= 90", "a <= 99", Rule(lambda after, before: after["a"] < 50, columns=["a"])])
    bounds = RuleBounds(space, space.bound_rules)
    known = dict(zip([rule.text for rule in space.bound_rules], bounds.bounded(), strict=True))
    assert known["a <= 99"] and not all(known.values())
    changed = np.array([[False, True]])
    assert bounds.about(changed)[0].sum() == 1  # by way of the total


def test_a_cell_goes_just_as_far_as_its_rule() -> None:
    space = PLAIN.with_rules(["a + 2 * b <= 30"])
    bounds = RuleBounds(space, space.bound_rules)
    values = PLAIN.values(ROWS)[:20]
    values[:, 0], values[:, 1] = 10.0, 4.0
    about = np.ones((20, 1), dtype=bool)
    end = narrowed(bounds, values, values, np.zeros(20, dtype=np.int64), np.full(20, 99.0), about)
    assert np.allclose(end, 22.0) and (end <= 22.0).all()
    end = narrowed(bounds, values, values, np.zeros(20, dtype=np.int64), np.full(20, -20.0), about)
    assert (end == -20.0).all()


def test_a_rule_about_a_missing_cell_counts_as_kept() -> None:
    rows = ROWS[["a", "b"]].astype(float)
    rows.loc[0, "b"] = np.nan
    space = FeatureSpace.infer(rows, rules=["a <= b"])
    bounds, values = RuleBounds(space, space.bound_rules), space.values(rows)[:2]
    values[:, 0] = 50.0
    high = values + np.array([5.0, 0.0])
    assert bounds.prove(values, high, values, np.ones((2, 1), dtype=bool)).tolist() == [True, False]
