"""Facts about the judge's own reading of rules: it agrees with the language of rules, and notices what is broken."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from relax_plugin import FeatureSpace
from relax_plugin.errors import InputError
from relax_plugin.evaluation.whole_rows import RuleText, Told

ROWS = 400
SIZES = ["S", "M", "L"]


def table(seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "a": rng.normal(size=ROWS).round(1),
            "b": rng.normal(size=ROWS).round(1),
            "work years": rng.integers(0, 5, ROWS),
            "size": np.array(SIZES, dtype=object)[rng.integers(0, 3, ROWS)],
            "home": np.array(["own", "rent"], dtype=object)[rng.integers(0, 2, ROWS)],
        }
    ).mask(rng.uniform(size=(ROWS, 5)) < 0.1)


def told(frame: pd.DataFrame) -> dict[str, Told]:
    labels = {name: frame[name].where(frame[name].notna(), None).to_numpy(dtype=object) for name in ("size", "home")}
    numbers = {str(name): Told(frame[name].to_numpy(dtype=float)) for name in ("a", "b", "work years")}
    return numbers | {"size": Told(labels["size"], SIZES), "home": Told(labels["home"])}


@pytest.mark.parametrize(
    "text",
    [
        "a <= b + 1",
        "a < b",
        "not (a <= b and b <= 0.5)",
        "-1 <= a <= 0.5 < b + 2",
        "`work years` * 2 - 1 >= abs(a) + max(b, 0)",
        "a / b > 0.5 or home == 'own'",
        "size <= was(size) or a >= was(a) + 0.3",
        "size in ['S', \"L\"] and not home in ['rent']",
        "home not in ['own'] or `work years` != 3",
        "size >= 'M' and min(a, was(b)) < 1.5",
        "a + b + 0.1 == 0.4",
        "place(size) - place(was(size)) <= a - was(a) + 1",
        "implies(home == 'own', a >= 0 and iff(b > 0.5, `work years` > 1))",
        "iff(a + b <= 0.35, size in ['S', 'M'] or home == was(home))",
        "not iff(implies(a < b, a < 0.4), size >= 'M')",
    ],
)
def test_the_judge_and_the_language_of_rules_read_a_text_alike(text: str) -> None:
    before, after = table(0), table(1)
    space, values = FeatureSpace.infer(before, ordered={"size": SIZES}, rules=[text]).taking_in(after)
    (rule,) = space.bound_rules
    kept = rule.holds(space.cells(values), space.cells(space.taking_in(before)[1]))  # type: ignore[arg-type]
    broken = RuleText(text).broken(told(after), told(before))
    np.testing.assert_array_equal(broken, ~np.asarray(kept))
    assert 0 < broken.sum() < ROWS


def test_a_rule_that_mentions_a_missing_cell_is_not_broken() -> None:
    nothing, numbers = Told(np.array([np.nan, np.nan])), Told(np.array([5.0, 7.0]))
    assert not RuleText("a > b").broken({"a": nothing, "b": numbers}, {}).any()
    assert not RuleText("b < was(a)").broken({"a": numbers, "b": numbers}, {"a": nothing}).any()


def test_what_rounding_alone_has_moved_is_not_broken() -> None:
    cells = {"a": Told(np.array([0.1, 0.1])), "b": Told(np.array([0.2, 0.2001]))}
    assert RuleText("a + b == 0.3").broken(cells, {}).tolist() == [False, True]
    assert RuleText("not (a + b > 0.3)").broken(cells, {}).tolist() == [False, True]


def test_a_formula_is_computed_and_has_no_number_where_there_is_none() -> None:
    cells = {"a": Told(np.array([1.0, 2.0, np.nan])), "b": Told(np.array([4.0, 0.0, 1.0]))}
    np.testing.assert_array_equal(RuleText("a / b - 1").numbers(cells), [-0.75, np.nan, np.nan])


@pytest.mark.parametrize(
    "text", ["__import__('os')", "(lambda: 1)() > 0", "[a for a in b] == 1", "a.real > 0", "a ** b > 1"]
)
def test_nothing_is_executed(text: str) -> None:
    cells: dict[str, Any] = {"a": Told(np.zeros(1)), "b": Told(np.zeros(1))}
    with pytest.raises((InputError, KeyError)):
        RuleText(text).broken(cells, cells)
