"""CounterfactualSearch: never behind greedy, within its budgets, and honest about what answered it."""

import time

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

from relax_plugin import CounterfactualSearch, FeatureSpace, Goal, make_explainer

RNG = np.random.default_rng(0)
TABLE = pd.DataFrame(
    {
        "amount": 100.0 * RNG.integers(1, 60, 300),
        "months": 6 * RNG.integers(1, 9, 300),
        "rate": RNG.normal(5, 2, 300).round(1),
        "size": RNG.choice(["small", "middle", "large", "huge"], 300),
    }
)
SIZES = ["small", "middle", "large", "huge"]
SCORE = TABLE.amount / 1000 + TABLE.months / 12 - TABLE.rate + 2.0 * TABLE["size"].map(SIZES.index)


class ByScore:
    """A logistic model of the columns, whose categories count by their order."""

    classes_ = np.array([0, 1])

    def predict_proba(self, rows):
        order = rows["size"].map(SIZES.index).astype(float)
        score = rows.amount / 1000 + rows.months / 12 - rows.rate + 2.0 * order
        high = 1.0 / (1.0 + np.exp(-(score - SCORE.median()).to_numpy(dtype=float)))
        return np.column_stack([1.0 - high, high])

    def predict(self, rows):
        return (self.predict_proba(rows)[:, 1] > 0.5).astype(int)


@pytest.fixture(scope="module")
def fitted():
    space = FeatureSpace.infer(TABLE, ordered={"size": SIZES})
    return CounterfactualSearch(ByScore(), space).fit(TABLE)


def test_it_is_the_method_search():
    assert isinstance(make_explainer("search", ByScore()), CounterfactualSearch)


def test_numbers_lie_on_the_steps_that_people_count_in(fitted):
    result = fitted.explain(TABLE[:60])
    told = result.frame
    assert result.found.all()
    assert (told["amount"] % 100 == 0).mean() > 0.9
    assert (told["months"] % 6 == 0).mean() > 0.9


def test_of_ordered_categories_the_nearest_that_suffices_is_chosen(fitted):
    queries = TABLE[:60]
    for query, changed in zip(
        queries.to_dict("records"), fitted.explain(queries).frame.to_dict("records"), strict=True
    ):
        first, last = SIZES.index(query["size"]), SIZES.index(changed["size"])
        nearer = range(min(first, last) + 1, max(first, last))
        rows = pd.DataFrame([{**{name: changed[name] for name in query}, "size": SIZES[code]} for code in nearer])
        if len(rows):
            assert (ByScore().predict(rows) == ByScore().predict(pd.DataFrame([query]))[0]).all()


def test_no_change_can_be_taken_back(fitted):
    queries = TABLE[:60].reset_index(drop=True)
    changed = fitted.explain(queries).frame[queries.columns].reset_index(drop=True)
    before = ByScore().predict(queries)
    for name in queries.columns:
        some = (changed[name] != queries[name]).to_numpy() & ((changed != queries).sum(axis=1) > 1).to_numpy()
        without = changed.copy()
        without[name] = queries[name]
        if some.any():
            assert (ByScore().predict(without[some]) == before[some]).all()


@pytest.mark.parametrize("goal", [Goal.flip(), Goal.to(1, min_probability=0.9)])
def test_greedy_is_behind_it(fitted, goal):
    queries = TABLE[:60]
    greedy = make_explainer("greedy", ByScore(), fitted.space_).fit(TABLE).explain(queries, goal=goal)
    search = fitted.explain(queries, goal=goal)
    both = (greedy.found & search.found)[:, 0]
    assert search.found[greedy.found].all()
    start = fitted.space_.values(queries)
    fewer, more = ((result.values[:, 0] != start).sum(axis=1)[both].sum() for result in (search, greedy))
    assert fewer <= more


@pytest.mark.parametrize("most", [12, 150])
def test_no_more_model_evaluations_are_spent_than_allowed(most):
    explainer = CounterfactualSearch(ByScore(), max_queries=most).fit(TABLE)
    result = explainer.explain(TABLE[:40])
    assert result.rows_queried[result.found[:, 0]].mean() <= most
    assert result.found.mean() > 0.8


def test_few_allowed_evaluations_ask_for_a_surrogate_model():
    explainer = CounterfactualSearch(ByScore(), max_queries=12).fit(TABLE)
    assert explainer.oracle_ == "a surrogate model, since max_queries is 12"
    assert explainer.fit_rows_ <= 1_000


def test_a_costly_model_asks_for_a_surrogate_model():
    class Slow(ByScore):
        def predict_proba(self, rows):
            time.sleep(0.004 * len(rows))
            return super().predict_proba(rows)

    explainer = CounterfactualSearch(Slow()).fit(TABLE)
    assert explainer.oracle_.startswith("a surrogate model of a costly model, which takes")
    assert explainer.fit_rows_ <= 1_000
    assert explainer.explain(TABLE[:5]).rows_queried.max() < 100


def test_a_model_may_have_an_attribute_named_steps():
    class Trained(ByScore):
        steps = 500

    assert CounterfactualSearch(Trained()).fit(TABLE).explain(TABLE[:5]).found.all()


def test_a_cheap_model_answers_itself(fitted):
    assert fitted.oracle_.startswith("the model itself")


def test_the_trees_of_a_forest_answer():
    numbers = TABLE[["amount", "months", "rate"]]
    forest = RandomForestClassifier(20, random_state=0).fit(numbers, SCORE.median() < SCORE)
    explainer = CounterfactualSearch(forest).fit(numbers)
    assert explainer.oracle_.startswith("the model's trees: 20 trees")
    alone = [explainer.explain(numbers[place : place + 1]).values[0, 0] for place in range(5)]
    np.testing.assert_array_equal(alone, explainer.explain(numbers[:5]).values[:, 0])


@pytest.mark.parametrize("most", [None, 12])
def test_when_the_time_is_over_the_status_says_so(fitted, most):
    late = CounterfactualSearch(ByScore(), fitted.space_, seconds=0.0, max_queries=most).fit(TABLE)
    result = late.explain(TABLE[:5])
    assert not result.found.any()
    assert set(result.status) == {"the time was over before one was found"}


def test_prices_change_what_is_near_and_not_the_objective(fitted):
    queries = TABLE[:60]
    plain, priced = fitted.explain(queries), fitted.explain(queries, costs={"rate": 50.0})
    start = fitted.space_.values(queries)
    counts = [(result.values[:, 0] != start).sum(axis=1) for result in (plain, priced)]
    np.testing.assert_array_equal(*counts)
    rate = list(TABLE.columns).index("rate")
    changed = [(result.values[:, 0, rate] != start[:, rate]).sum() for result in (plain, priced)]
    assert changed[1] < changed[0]


@pytest.mark.parametrize("most", [None, 12])
def test_another_model_with_the_same_classes_takes_its_place(most):
    numbers = TABLE[["amount", "months", "rate"]]
    first = LogisticRegression(max_iter=1000).fit(numbers, SCORE.median() < SCORE)
    second = LogisticRegression(max_iter=1000).fit(numbers, TABLE.rate > 5)
    explainer = CounterfactualSearch(first, max_queries=most).fit(numbers).for_model(second)
    result = explainer.explain(numbers[:20])
    assert result.found.all()
    delivered = result.frame[numbers.columns]
    assert (second.predict(delivered) != second.predict(numbers[:20])).all()


def test_what_the_model_denies_of_its_trees_is_warned_of_and_never_found(caplog: pytest.LogCaptureFixture):
    numbers = TABLE[["amount", "months", "rate"]]
    forest = RandomForestClassifier(20, random_state=0).fit(numbers, SCORE.median() < SCORE)
    explainer = CounterfactualSearch(forest).fit(numbers)
    forest.estimators_ = RandomForestClassifier(20, random_state=0).fit(numbers, TABLE.months > 24).estimators_
    result = explainer.explain(numbers[:30])
    assert "found in its trees. Unless the model was changed after fit, please report this" in caplog.text
    assert result.found.any()
    after = forest.predict(result.frame[numbers.columns])
    assert (after != forest.predict(numbers[:30])[result.found[:, 0]]).all()


def test_thorough_is_never_farther():
    numbers = TABLE[["amount", "months", "rate"]]
    forest = RandomForestClassifier(20, random_state=0).fit(numbers, SCORE.median() < SCORE)
    space = FeatureSpace.infer(numbers, continuous=["rate"])
    quick, thorough = (
        CounterfactualSearch(forest, space, thorough=way).fit(numbers).explain(numbers[:40]) for way in (False, True)
    )
    assert set(thorough.stage) == {"trees"}
    assert (thorough.sparsity <= quick.sparsity).all()


def test_without_numba_deep_forests_are_asked_themselves(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("relax_plugin.trees.profiles.load_kernel", lambda: None)
    monkeypatch.setattr("relax_plugin.search.trees.MOST_WITHOUT_NUMBA", 10)
    numbers = TABLE[["amount", "months", "rate"]]
    forest = RandomForestClassifier(20, random_state=0).fit(numbers, SCORE.median() < SCORE)
    explainer = CounterfactualSearch(forest).fit(numbers)
    assert "cells apart, for which numba is needed" in explainer.oracle_
    assert explainer.explain(numbers[:5]).found.all()
