"""Facts about repair: a row that breaks a rule gets one change more, to the nearest value with which the rule holds."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from relax_plugin import FeatureSpace
from relax_plugin.rules.repair import RowRules

few = settings(deadline=None, max_examples=150)

RNG = np.random.default_rng(0)
ENDS = np.array([-400, 400])
REAL = FeatureSpace.infer(pd.DataFrame({name: np.append(ENDS, RNG.uniform(-9, 9, 300)) for name in "abcd"}))
WHOLE = FeatureSpace.infer(pd.DataFrame({name: np.arange(-400, 401) for name in "abcd"}))
LABELS = FeatureSpace.infer(
    pd.DataFrame(
        {
            "size": RNG.choice(["S", "M", "L"], 99),
            "job": RNG.choice(["x", "y", "S"], 99),
            **{f"hue_{name}": np.arange(99) % 3 == place for place, name in enumerate(["red", "blue", "grey"])},
            "a": RNG.integers(0, 10, 99),
            "d": RNG.integers(0, 10, 99),
        }
    ),
    ordered={"size": ["S", "M", "L"]},
    one_hot={"hue": ["hue_red", "hue_blue", "hue_grey"]},
)


def repaired(
    space: FeatureSpace, rule: str, free: str, query: list[float], row: list[float] | None = None
) -> list[float]:
    """What one column of a row that breaks a rule becomes, the rest staying: all that is found, the nearest first.

    Without a row it is the query with its last column changed.
    """
    space = space.with_rules([rule])
    start = np.array([query], dtype=float)
    rows = last_changed(start) if row is None else np.array([row], dtype=float)
    rules, owner = RowRules(space, space.bound_rules, start), np.array([0])
    assert not rules.holds(rows, owner)[0]
    changed = [space.names[j] for j in np.flatnonzero(rows != start)]
    found, parent = rules.repaired(rows, owner, space.limits(vary=[free, *changed]))
    assert rules.holds(found, parent).all()
    j = space.names.index(free)
    alone = (np.delete(found, j, axis=1) == np.delete(rows, j, axis=1)).all(axis=1)
    return [float(value) for value in found[alone, j]]


def last_changed(start: Any) -> Any:
    rows = start.copy()
    rows[:, -1] += 1
    return rows


@pytest.mark.parametrize(
    ("rule", "free", "nearest"),
    [
        ("a >= b + 16", "a", 26),
        ("a >= b + 16", "b", -12),
        ("b + 16 <= a", "b", -12),
        ("a > b", "a", 10),
        ("not a <= b", "b", 4),
        ("a + b + c == 100", "c", 86),
        ("2 * (a - 3) / 4 >= b", "a", 23),
        ("-a / 2 > b", "a", -20),
        ("a / c >= 5", "c", 0.8),  # in a denominator
        ("b / a / a == 2.5", "a", 2),
        ("b / a / a == 2.5 and a < 0", "a", -2),
        ("a * a >= b * b", "a", 10),
        ("a * a >= b * b and a <= 0", "a", -10),
        ("a * a * a >= 1000", "a", 10),
        ("a * a * a * a * a >= 100000", "a", 10),
        ("abs(a - b) <= 2", "a", 8),
        ("abs(a - b) <= 2 and a > 9", "a", 9),
        ("max(a, c) >= b", "a", 10),
        ("max(c, a) >= 20", "c", 20),  # although c is not the larger one now
        ("min(a, b) >= 5", "a", 5),
        ("5 <= a <= b", "a", 5),
        ("a in [7, 9]", "a", 7),
        ("a >= 5 or b <= 3", "b", 3),
        ("a + 0.1 >= 300.7 and b > 0", "a", 300.6),
        ("implies(c > 0, a >= b)", "a", 10),
        ("iff(c > 0, a >= b)", "c", 0),
    ],
)
def test_a_number_goes_to_where_the_broken_comparison_just_holds(rule: str, free: str, nearest: float) -> None:
    found = repaired(REAL, rule, free, [4, 10, 1, 0])
    assert found[0] == pytest.approx(nearest, abs=1e-3)


@pytest.mark.parametrize(
    ("rule", "free"), [("min(a, c) >= 5", "a"), ("a == 4 and a != 4", "a"), ("a < min(1, a)", "a")]
)
def test_where_no_value_would_do_none_is_found(rule: str, free: str) -> None:
    assert repaired(REAL, rule, free, [4, 10, 1, 0]) == []


def test_another_column_may_go_along_by_the_same_amount() -> None:
    """Shares of a hundred: what one gains, another loses; and a distance that the query had is kept."""
    assert repaired(WHOLE, "a + b + c == 100", "c", [20, 30, 50, 0], [25, 30, 50, 0]) == [45]
    assert repaired(WHOLE, "a <= b", "b", [20, 50, 0, 0], [60, 50, 0, 0])[:2] == [60, 90]
    assert repaired(WHOLE, "b - 2 * a > 0", "b", [20, 50, 0, 0], [60, 50, 0, 0])[:2] == [121, 130]


def test_a_distance_that_broke_the_rule_in_the_query_is_not_kept() -> None:
    assert repaired(WHOLE, "a <= b", "b", [60, 50, 0, 0], [80, 50, 0, 0]) == [80, 400]


def test_was_is_given() -> None:
    assert repaired(WHOLE, "a >= was(a) + 2", "a", [30, 0, 0, 0])[0] == 32
    space = WHOLE.with_rules(["a <= was(b)"])
    start, rows = np.array([[1.0, 2.0, 0.0, 0.0]]), np.array([[3.0, 9.0, 0.0, 0.0]])
    rules = RowRules(space, space.bound_rules, start)
    assert len(rules.repaired(rows, np.array([0]), space.limits(vary=["b"]))[0]) == 0


@pytest.mark.parametrize(
    ("rule", "free", "found"),
    [
        ("size in ['M', 'L'] or a > 5", "size", [1, 2]),
        ("size != 'S'", "size", [1, 2]),
        ("size > 'M'", "size", [2]),
        ("place(size) >= 2", "size", [1, 2]),
        ("size == job", "size", []),
        ("job == size", "job", [0]),
        ("hue_red == 0", "hue", [1, 2]),
        ("hue_blue + hue_grey == 1", "hue", [1, 2]),
        ("hue_grey >= 0.5", "hue", [2]),
    ],
)
def test_categories_and_groups_with_which_the_rule_holds_are_found(rule: str, free: str, found: list[float]) -> None:
    job = LABELS.features[LABELS.names.index("job")].categories
    query = [0, job.index("x"), 0, 3, 0]
    found = [job.index("S")] if free == "job" else found
    assert sorted(repaired(LABELS, rule, free, query)) == found


def test_a_missing_cell_repairs_nothing() -> None:
    frame = pd.DataFrame({"a": [1.5, np.nan, 3.25, 8.0], "size": ["S", None, "M", "S"], "d": [1, 2, 3, 4]})
    space = FeatureSpace.infer(frame, may_vanish=["a", "size"], rules=["size == 'M'"])
    start = space.values(frame[:1])
    rows = last_changed(start)
    found, _ = RowRules(space, space.bound_rules, start).repaired(rows, np.array([0]), space.limits())
    assert len(found) == 1 and not space.is_missing(found).any()


numbers = st.recursive(
    st.one_of(st.sampled_from("abc"), st.integers(-5, 5).map(lambda n: f"({n})"), st.just("1.5")),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from("+-*/"), inner).map(lambda parts: f"({' '.join(parts)})"),
        inner.map(lambda part: f"abs({part})"),
        st.tuples(st.sampled_from(["min", "max"]), inner, inner).map(lambda f: f"{f[0]}({f[1]}, {f[2]})"),
    ),
    max_leaves=6,
)
rows = st.lists(st.integers(-20, 20).map(float), min_size=3, max_size=3)


@pytest.mark.slow
@given(numbers, st.sampled_from(["<", "<=", ">", ">=", "==", "!="]), rows)
@example("abs((1.5 - (1.5 + a)))", ">", [0.0, 0.0, 0.0])
@example("min(1.5, a)", "<", [0.0, 0.0, 0.0])  # beyond 1.5 it does not hold, nor below
@few
def test_what_is_repaired_satisfies_any_rule_and_stays_within_the_limits(
    text: str, sign: str, row: list[float]
) -> None:
    space = WHOLE.with_rules([f"a + 0 * b {sign} {text}"])
    start = np.array([[*row, 0.0]])
    changed = last_changed(start)
    rules, limits = RowRules(space, space.bound_rules, start), space.limits(bounds={"b": (-30, 30)})
    found, parent = rules.repaired(changed, np.array([0]), limits)
    assert rules.holds(found, parent).all() and limits.kept(found, start[parent]).all()


@pytest.mark.slow
@given(st.lists(st.integers(-3, 3), min_size=4, max_size=4), st.sampled_from(["<", "<=", ">", ">="]), rows)
@few
def test_of_a_linear_rule_the_nearest_value_is_found(weights: list[int], sign: str, row: list[float]) -> None:
    text = f"{weights[0]} * a + {weights[1]} * b + {weights[2]} * c {sign} {weights[3]}"
    space = WHOLE.with_rules([text])
    start = np.array([[*row, 0.0]])
    rules, owner = RowRules(space, space.bound_rules, start), np.zeros(801, dtype=int)
    if rules.holds(last_changed(start), owner[:1])[0]:
        return
    tried = np.repeat(last_changed(start), 801, axis=0)
    tried[:, 0] = np.arange(-400, 401)
    there = tried[rules.holds(tried, owner), 0]
    nearest = there[np.argsort(np.abs(there - row[0]), kind="stable")][:1].tolist()
    assert repaired(WHOLE, text, "a", [*row, 0.0])[:1] == nearest


@pytest.mark.slow
@given(st.integers(1, 40), st.integers(1, 40), st.sampled_from(["<=", ">="]), st.integers(1, 9))
@few
def test_of_a_ratio_the_nearest_denominator_is_found(above: int, below: int, sign: str, share: int) -> None:
    text = f"a / b {sign} {share / 4}"
    large = [value for value in range(1, 401) if 4 * above <= share * value]
    holds = large if sign == "<=" else [value for value in range(1, 401) if 4 * above >= share * value]
    if below in holds:
        return
    nearest: Any = min(holds, key=lambda value: abs(value - below), default=None)
    found = [value for value in repaired(WHOLE, text, "b", [above, below, 0, 0]) if value > 0]
    assert found[:1] == ([] if nearest is None else [nearest])
