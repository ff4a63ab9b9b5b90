"""Facts about `greedy` as it is delivered: refined, unless that is switched off."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from relax_plugin import FeatureSpace, Goal, make_explainer

ROWS = pd.DataFrame({"x": np.linspace(0.0, 10.0, 101), "y": np.linspace(10.0, 0.0, 101)})
QUERY = pd.DataFrame({"x": [0.0], "y": [0.0]})


def third_of_x(rows: Any) -> Any:
    return np.asarray(rows["x"], dtype=float) / 3


def explained(model: Any, **options: Any) -> Any:
    space = FeatureSpace.infer(ROWS, continuous=["x", "y"])
    regressor = type("Regressor", (), {"_estimator_type": "regressor", "predict": staticmethod(model)})()
    explainer = make_explainer("greedy", regressor, space, goal=Goal.between(1, np.inf), **options)
    return explainer.fit(ROWS).explain(QUERY)


def test_what_is_delivered_lies_just_beyond_the_boundary() -> None:
    result = explained(third_of_x, quantiles=3)  # which tries 0, 5 and 10
    assert 3.0 <= result.values[0, 0, 0] <= 3.1


def test_unrefined_it_stays_at_the_quantile_that_was_tried() -> None:
    result = explained(third_of_x, quantiles=3, refined=False)
    assert result.values[0, 0].tolist() == [5.0, 0.0]


@pytest.mark.parametrize(("refined", "changes"), [(True, 1), (False, 2)])
def test_a_change_that_a_later_one_made_needless_is_taken_back(refined: bool, changes: int) -> None:
    """y comes nearest to the goal at first, x alone meets it once y has moved, and also without."""

    def model(rows: Any) -> Any:
        x, y = (np.asarray(rows[name], dtype=float) for name in ("x", "y"))
        return np.where((x > 9) & (y > 9), 2.0, np.where((x > 4) & (x < 6), np.where(y > 9, 1.5, 1.0), y / 20))

    result = explained(model, quantiles=2, refined=refined, max_changes=2)
    assert result.found.all()
    assert result.sparsity.tolist() == [[changes]]
