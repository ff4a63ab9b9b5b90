"""What a certificate is about is told in full: cells, goal, constraints, claim."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from relax_plugin import FeatureSpace, Goal, make_explainer
from relax_plugin.certificates.checking import check

RNG = np.random.default_rng(0)
ROWS = pd.DataFrame({name: RNG.integers(0, 9, 200) for name in "abcd"}).assign(
    town=RNG.choice(["Rome", "Bonn", "two\nlines"], 200)
)
ROWS["sum"] = ROWS["a"] + ROWS["b"]
LABELS = np.where(ROWS["a"] + ROWS["b"] > 8, "yes", "no")


def described(model: Any, goal: Goal | None = None, **call: Any) -> list[str]:
    front = make_column_transformer((OneHotEncoder(), ["town"]), remainder="passthrough")
    fitted = make_pipeline(front, model).fit(ROWS, LABELS if goal is None or goal.kind == "to" else ROWS["a"] * 2.0)
    space = FeatureSpace.infer(
        ROWS, immutable=["c"], increase_only=["b"], derived={"sum": "a + b"}, rules=["a <= was(a) + 6"]
    )
    found = make_explainer("greedy", fitted, space, goal=goal).fit(ROWS).explain(ROWS[:6], **call)
    told = next(found.certificate(i) for i in range(6) if found.certificate(i).get("changes"))
    return check(told, fitted).about


def test_cells_constraints_rules_and_formulas_are_told() -> None:
    model = RandomForestClassifier(5, max_depth=4, random_state=0)
    lines = described(model, vary=["a", "b", "town"], bounds={"a": (1, 7)}, max_changes=2)
    assert [line for line in lines if not line.startswith(" ")] == [
        *("Query", "Counterfactual", "Goal", "Constraints", "Claim")
    ]
    for line in (
        "  another class",
        "  at most 2 of 5 features change",
        "  'a': from 1.0 to 7.0 in steps of 1.0",
        "  'b': from 0.0 to 8.0 in steps of 1.0, never lower",
        "  'c' is fixed",
        "  'd' is fixed",
        "  'town': one of 'Bonn', 'Rome', 'two\\nlines'",
        "  column 'sum' is computed: a + b",
        "  rule: 'a <= was(a) + 6'",
    ):
        assert line in lines
    assert not any("\n" in line for line in lines)


@pytest.mark.parametrize(
    ("goal", "told"),
    [
        (Goal.to("yes", min_probability=0.6), "the class 'yes' with a probability of at least 0.6"),
        (Goal.to("yes", raise_by=0.1), "a probability of the class 'yes' that is higher by at least 0.1"),
        (Goal.shift(2.0, direction="up"), "a prediction that is higher by at least 2.0"),
        (Goal.between(6.0, 20.0), "a prediction from 6.0 to 20.0"),
    ],
    ids=str,
)
def test_every_goal_is_told(goal: Goal, told: str) -> None:
    kind = RandomForestClassifier if goal.kind == "to" else RandomForestRegressor
    assert f"  {told}" in described(kind(5, max_depth=4, random_state=0), goal)
