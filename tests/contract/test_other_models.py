"""Further models: an answer shall hold for each of them too."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from reference.every_explainer import every_explainer, skipped_with_a_reason
from reference.small_explainers import OPTIONS
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

from relax_plugin import make_explainer
from relax_plugin.errors import InputError

RNG = np.random.default_rng(4)
ROWS = pd.DataFrame(RNG.normal(size=(200, 4)), columns=["a", "b", "c", "d"])
LABEL = (ROWS["a"] + ROWS["b"] + 0.4 * RNG.normal(size=200) > 0).astype(int)


def refitted(seed: int) -> Any:
    rows = np.random.default_rng(seed).integers(0, 200, 200)
    return RandomForestClassifier(15, max_depth=5, random_state=seed).fit(ROWS.iloc[rows], LABEL.iloc[rows])


MODEL, OTHERS = refitted(0), [refitted(1), refitted(2)]
QUERIES = ROWS[(MODEL.predict(ROWS) == 0) & (OTHERS[0].predict(ROWS) == 0) & (OTHERS[1].predict(ROWS) == 0)][:12]


def answers(frame: pd.DataFrame) -> Any:
    return np.array([model.predict(frame[list(ROWS)]) for model in (MODEL, *OTHERS)])


@every_explainer
def test_what_is_found_holds_for_every_model(name: str) -> None:
    with skipped_with_a_reason():
        explainer = make_explainer(name, MODEL, **OPTIONS.get(name, {})).fit(ROWS)
        result = explainer.explain(QUERIES, also=OTHERS)
        assert (answers(result.frame) == 1).all()
        assert (result.after[result.found] == 1).all()


def test_without_them_answers_fail_on_refitted_models() -> None:
    explainer = make_explainer("greedy", MODEL).fit(ROWS)
    alone, together = explainer.explain(QUERIES), explainer.explain(QUERIES, also=OTHERS)
    assert (answers(alone.frame)[1:] == 0).any() and together.found.mean() >= 0.8
    assert np.nanmean(together.proximity) > np.nanmean(alone.proximity)


def test_a_model_that_disagrees_for_ever_leaves_nothing_to_be_found() -> None:
    never = LogisticRegression().fit(ROWS, LABEL)
    never.coef_, never.intercept_ = np.zeros_like(never.coef_), np.array([-9.0])
    result = make_explainer("greedy", MODEL).fit(ROWS).explain(QUERIES, also=[never])
    assert not result.found.any()


@pytest.mark.parametrize("also", [MODEL, "model", [1]])
def test_what_is_no_list_of_models_is_refused(also: Any) -> None:
    with pytest.raises(InputError, match=r"also is .*; a list of models is needed"):
        make_explainer("greedy", MODEL).fit(ROWS).explain(QUERIES, also=also)


def test_models_of_a_generator_count_as_those_of_a_list() -> None:
    model, *others = (LogisticRegression().fit(ROWS[first:], LABEL[first:]) for first in (0, 100))
    greedy = make_explainer("greedy", model).fit(ROWS)
    named, drawn = (greedy.explain(QUERIES[:2], also=also) for also in (others, (other for other in others)))
    assert drawn.rows_also is not None and np.array_equal(named.values, drawn.values)
    with pytest.raises(InputError, match="a list of models is needed"):
        make_explainer("relax-global", model, also=iter(others)).fit(ROWS)
