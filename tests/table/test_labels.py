"""Labels: words for people, of features and of their categories."""

from typing import Any

import pandas as pd
import pytest

from relax_plugin import FeatureSpace
from relax_plugin.errors import ConstraintError, UnknownNameError

ROWS = pd.DataFrame(
    {"amount": [1.5, 2.5, 3.5], "status": ["A11", "A12", "A11"], "code": [1, 2, 1], "twice": [3.0, 5.0, 7.0]}
)


def space(labels: Any) -> FeatureSpace:
    return FeatureSpace.infer(ROWS, categorical=["code"], derived={"twice": "amount * 2"}, labels=labels)


def test_words_for_features_and_for_categories_are_read() -> None:
    made = space(
        {
            "amount": "amount (DM)",
            "status": {"A11": "overdrawn"},
            "code": ("kind", {1: "private", 2: "firm"}),
            "twice": "twice as much",
        }
    )
    assert made.labels == {
        "amount": ("amount (DM)", {}),
        "status": (None, {"A11": "overdrawn"}),
        "code": ("kind", {1: "private", 2: "firm"}),
        "twice": ("twice as much", {}),
    }
    again = FeatureSpace.from_dict(made.to_dict())
    assert again.labels == made.labels and again == made
    assert space(None).labels == {} and made != space(None)


@pytest.mark.parametrize(
    ("labels", "error", "sentence"),
    [
        ({"amout": "x"}, UnknownNameError, "did you mean 'amount'"),
        ({"status": {"A13": "x"}}, UnknownNameError, "category 'A13' of feature 'status'"),
        ({"status": {"A11": 3}}, ConstraintError, "label of category 'A11' of 'status' is 3; give a text"),
        ({"amount": 3}, ConstraintError, "the label of feature 'amount' is 3"),
        ({"amount": ("a", "b")}, ConstraintError, "the label of feature 'amount' is"),
        ({"amount": {1.5: "x"}}, UnknownNameError, "category 1.5 of feature 'amount'"),
        ({"twice": {1.5: "x"}}, UnknownNameError, "category 1.5 of feature 'twice'"),
        ("amount", ConstraintError, "labels is 'amount'; give a mapping"),
    ],
)
def test_wrong_labels_are_refused(labels: Any, error: Any, sentence: str) -> None:
    with pytest.raises(error, match=sentence):
        space(labels)
