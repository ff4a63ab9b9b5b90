"""Facts about boundaries: where a column has to go for a broken rule to be kept."""

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from relax_plugin.errors import ConstraintError
from relax_plugin.rules.binding import BoundRule, bind_rule
from relax_plugin.rules.boundaries import Boundaries, boundary_values
from relax_plugin.rules.language import parse_rule
from relax_plugin.rules.rule import Kind
from relax_plugin.rules.terms import Cells

few = settings(deadline=None, max_examples=150)

KINDS = {**{name: Kind() for name in "abcd"}, "size": Kind(("S", "M", "L"), ordered=True), "job": Kind(("x", "y", "S"))}


def bound(text: str) -> BoundRule:
    return bind_rule(parse_rule(text), KINDS)


def cells(**columns: list[float]) -> Cells:
    return {name: np.array(column, dtype=float) for name, column in columns.items()}


def found(text: str, column: str, after: Cells, before: Cells | None = None) -> list[list[tuple[float, int, bool]]]:
    """The candidates of each row: value, direction, strict."""
    rows = boundary_values(bound(text), after, after if before is None else before, column)
    return [
        [(round(v, 9), int(d), bool(s)) for v, d, s in zip(*row, strict=True) if not np.isnan(v)]
        for row in zip(rows.values, rows.direction, rows.strict, strict=True)
    ]


@pytest.mark.parametrize(
    ("text", "column", "candidates"),
    [
        ("a >= b + 16", "a", [(26, 1, False)]),
        ("a >= b + 16", "b", [(-12, -1, False)]),
        ("b + 16 <= a", "b", [(-12, -1, False)]),
        ("a > b", "a", [(10, 1, True)]),
        ("not a <= b", "b", [(4, -1, True)]),
        ("a + b + c == 100", "c", [(86, 0, False)]),
        ("2 * (a - 3) / 4 >= b", "a", [(23, 1, False)]),
        ("-a / 2 > b", "a", [(-20, -1, True)]),
        ("a / c >= 5", "c", [(0.8, -1, False)]),  # in a denominator
        ("b / a / a == 2.5", "a", [(-2, 0, False), (2, 0, False)]),
        ("a * a >= b * b", "a", [(-10, -1, False), (10, 1, False)]),
        ("a * a * a >= 1000", "a", [(10, 1, False)]),
        ("abs(a - b) <= 2", "a", [(12, -1, False), (8, 1, False)]),
        ("max(a, c) >= b", "a", [(10, 1, False)]),
        ("max(c, a) >= 20", "c", [(20, 1, False)]),  # although c is not the larger one now
        ("min(a, b) >= 5", "a", [(5, 1, False)]),
        ("min(a, c) >= 5", "a", []),  # c is too small in any case
        ("a == 1 + 3 and a != 4", "a", [(4, 1, True), (4, -1, True)]),
        ("5 <= a <= b", "a", [(5, 1, False)]),
        ("a in [7, 9]", "a", [(7, 0, False), (9, 0, False)]),
        ("a >= 5 or b <= 3", "b", [(3, -1, False)]),
        ("a + 0.1 >= 1000000000.7", "a", [(1000000000.6, 1, False)]),
    ],
)
def test_the_boundary_of_a_broken_comparison_is_exact(text: str, column: str, candidates: list[Any]) -> None:
    after = cells(a=[4], b=[10], c=[1])
    assert not bound(text).holds(after, after).any()
    assert sorted(found(text, column, after)[0], key=str) == sorted(candidates, key=str)


def test_a_row_that_keeps_the_rule_or_misses_a_cell_has_no_candidate() -> None:
    after = cells(a=[4, 12, np.nan, 4], b=[10, 10, 10, np.nan])
    rows = boundary_values(bound("a >= b"), after, after, "a")
    np.testing.assert_equal(rows.values, [[10], [np.nan], [np.nan], [np.nan]])
    assert found("a >= b", "a", cells(a=[5], b=[3])) == [[]]


def test_comparisons_that_hold_have_no_boundary() -> None:
    assert found("a >= b and a <= c", "a", cells(a=[0], b=[5], c=[9])) == [[(5, 1, False)]]


def test_another_column_may_go_along_by_the_same_amount() -> None:
    """Shares of a hundred: what one gains, another loses; and a distance that the query had is kept."""
    before, after = cells(a=[20], b=[30], c=[50]), cells(a=[25], b=[30], c=[50])
    assert found("a + b + c == 100", "c", after, before) == [[(45, 0, False), (45, 0, False)]]
    before, after = cells(a=[20], b=[50]), cells(a=[60], b=[50])
    assert found("a <= b", "b", after, before) == [[(60, 1, False), (90, 1, False)]]
    assert found("b - 2 * a > 0", "b", after, before) == [[(120, 1, True), (130, 1, False)]]


def test_a_distance_that_broke_the_rule_in_the_query_is_not_kept() -> None:
    assert found("a <= b", "b", cells(a=[80], b=[50]), cells(a=[60], b=[50])) == [[(80, 1, False)]]


def test_was_is_given() -> None:
    before, after = cells(a=[30], size=[0]), cells(a=[30], size=[2])
    text = "size <= was(size) or a >= was(a) + 2"
    assert found(text, "a", after, before) == [[(32, 1, False)]]
    assert found(text, "size", after, before) == [[(0, 0, False)]]
    assert found("a <= was(b)", "b", cells(a=[3], b=[9]), cells(a=[1], b=[2])) == [[]]


def test_categories_that_would_keep_the_rule_are_candidates() -> None:
    after = cells(size=[0, 2, 1], a=[1, 1, 9], job=[2, 0, 0])
    assert found("size in ['M', 'L'] or a > 5", "size", after) == [[(1, 0, False), (2, 0, False)], [], []]
    assert found("size < 'L' or a > 5", "size", after) == [[], [(0, 0, False), (1, 0, False)], []]
    assert found("size != 'S'", "size", after)[0] == [(1, 0, False), (2, 0, False)]
    assert found("size == job", "size", after) == [[], [], []]
    assert found("size != job", "job", after)[0] == [(0, 0, False), (1, 0, False)]


def test_a_zero_beyond_which_another_branch_begins_is_none() -> None:
    assert found("a < min(1.5, a)", "a", cells(a=[0])) == [[]]
    assert found("a < min(1.5, b)", "a", cells(a=[4], b=[9])) == [[(1.5, -1, True)]]


def test_a_column_that_the_rule_does_not_mention_is_refused() -> None:
    with pytest.raises(ConstraintError, match="does not mention 'd'; known are"):
        boundary_values(bound("a > b"), cells(a=[1], b=[2]), cells(a=[1], b=[2]), "d")


numbers = st.recursive(
    st.one_of(st.sampled_from("abc"), st.integers(-5, 5).map(lambda n: f"({n})"), st.just("1.5")),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from("+-*/"), inner).map(lambda parts: f"({' '.join(parts)})"),
        inner.map(lambda part: f"abs({part})"),
        st.tuples(st.sampled_from(["min", "max"]), inner, inner).map(lambda f: f"{f[0]}({f[1]}, {f[2]})"),
    ),
    max_leaves=6,
)
rows = st.lists(st.lists(st.integers(-20, 20).map(float), min_size=3, max_size=3), min_size=1, max_size=4)


@pytest.mark.slow
@given(numbers, st.sampled_from(["<", "<=", ">", ">=", "==", "!="]), rows)
@example("abs((1.5 - (1.5 + a)))", ">", [[0.0, 0.0, 0.0]])  # nor this, but for rounding
@example("min(1.5, a)", "<", [[0.0, 0.0, 0.0]])  # beyond 1.5 it does not hold, nor below
@few
def test_the_comparison_holds_at_its_boundary_or_just_beyond_it(text: str, sign: str, table: list[list[float]]) -> None:
    rule = bound(f"a + 0 * b {sign} {text}")
    after = dict(zip("abc", np.array(table).T, strict=True))
    answer: Boundaries = boundary_values(rule, after, after, "a")
    for values, direction, strict in zip(*(part.T for part in answer), strict=True):
        given_ = ~np.isnan(values)
        at = rule.holds({**after, "a": values}, after)
        assert (at | strict)[given_].all()
        for size in (1e-6, 1e-5, 1e-4):  # just beyond, as far as rounding lets one see it
            at = at | rule.holds({**after, "a": values + direction * size}, after)
        assert at[given_ & (direction != 0)].all()


def linear_brute_force(text: str, after: Cells, column: str) -> float | None:
    """The nearest whole number of the column at which the rule holds, by trying."""
    tried = np.arange(-400.0, 401.0)
    there = bound(text).holds({**{name: np.full(801, values[0]) for name, values in after.items()}, column: tried}, {})
    near = tried[there][np.argsort(np.abs(tried[there] - after[column][0]), kind="stable")]
    return float(near[0]) if len(near) else None


@pytest.mark.slow
@given(st.lists(st.integers(-3, 3), min_size=4, max_size=4), st.sampled_from(["<", "<=", ">", ">="]), rows)
@few
def test_the_next_grid_point_on_the_side_of_the_boundary_is_the_nearest_that_keeps_the_rule(
    weights: list[int], sign: str, table: list[list[float]]
) -> None:
    text = f"{weights[0]} * a + {weights[1]} * b + {weights[2]} * c {sign} {weights[3]}"
    after = {name: np.array([cell]) for name, cell in zip("abc", table[0], strict=True)}
    if bound(text).holds(after, after).all():
        return
    expected = linear_brute_force(text, after, "a")
    answer = boundary_values(bound(text), after, after, "a")
    if expected is None:
        assert answer.values.size == 0
        return
    ((value,),), ((side,),), ((strict,),) = answer.values, answer.direction, answer.strict
    grid = side * np.ceil(side * value - 1e-9)
    assert grid + side * (strict and abs(grid - value) < 1e-9) == expected
