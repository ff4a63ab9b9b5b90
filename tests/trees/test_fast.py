"""Accelerated trees: the same counterfactuals, the same books, and never against the model's own word."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import AdaBoostClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from xgboost import XGBClassifier

from relax_plugin import BlackBox, FeatureSpace, Goal, make_explainer
from relax_plugin.errors import InputError

RNG = np.random.default_rng(4)
ROWS = pd.DataFrame(RNG.normal(size=(300, 4)).round(2), columns=["a", "b", "c", "d"])
KINDS = np.digitize(ROWS["a"] + ROWS["b"] * ROWS["c"], [-0.7, 0.7])
MODELS = {
    "forest": RandomForestClassifier(25, random_state=0).fit(ROWS, KINDS > 0),
    "forest of three classes": RandomForestClassifier(25, random_state=0).fit(ROWS, np.array(["x", "y", "z"])[KINDS]),
    "forest that ties": RandomForestClassifier(4, max_depth=3, random_state=0).fit(ROWS, KINDS > 0),
    "AdaBoost": AdaBoostClassifier(n_estimators=30, random_state=0).fit(ROWS, KINDS > 0),
    "XGBoost": XGBClassifier(n_estimators=20, max_depth=3).fit(ROWS, KINDS),
    "scaled": make_pipeline(StandardScaler(), RandomForestClassifier(10, random_state=0)).fit(ROWS, KINDS),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_the_same_counterfactuals_are_found_for_the_same_rows(name):
    plain, quick = (BlackBox(MODELS[name], accelerate=accelerate) for accelerate in (None, "auto"))
    first, second = (make_explainer("greedy", box).fit(ROWS) for box in (plain, quick))
    assert first.blackbox_.trees is None
    assert second.blackbox_.trees is not None
    expected, result = first.explain(ROWS[:30], n=2), second.explain(ROWS[:30], n=2)
    pd.testing.assert_frame_equal(result.frame, expected.frame)
    assert np.array_equal(result.rows_queried, expected.rows_queried)
    assert quick.rows_asked == plain.rows_asked
    assert (MODELS[name].predict(result.frame[list(ROWS)]) == result.after[result.found]).all()


def test_a_regressor_is_accelerated_too():
    model = RandomForestRegressor(20, random_state=0).fit(ROWS, ROWS["a"] * ROWS["b"])
    plain, quick = (
        make_explainer("greedy", BlackBox(model, accelerate=accelerate), goal=Goal.shift(0.5)).fit(ROWS)
        for accelerate in (None, "auto")
    )
    assert quick.blackbox_.trees is not None
    pd.testing.assert_frame_equal(quick.explain(ROWS[:20]).frame, plain.explain(ROWS[:20]).frame)


@pytest.mark.parametrize("name", ["forest", "forest of three classes", "forest that ties", "XGBoost", "scaled"])
def test_missing_numbers_are_answered_as_by_the_model(name):
    holed = ROWS.mask(np.random.default_rng(1).random(ROWS.shape) < 0.2)
    model = clone(MODELS[name]).fit(holed, KINDS if name in ("XGBoost", "scaled") else KINDS > 0)
    space = FeatureSpace.infer(ROWS)
    plain, quick = (BlackBox(model, space, accelerate=accelerate) for accelerate in (None, "auto"))
    values = space.values(holed)
    for box in (plain, quick):
        box.learn(values[:100])
    assert quick.trees is not None
    few = min(quick.trees.most_rows, 150)
    expected, answer = plain.ask(values[-few:]), quick.ask(values[-few:])
    assert (answer.output == expected.output).all()
    np.testing.assert_allclose(answer.scores, expected.scores, rtol=0, atol=1e-6)
    assert quick.rows_asked == plain.rows_asked


class Stubborn(RandomForestClassifier):
    """Answers otherwise than its trees."""

    def predict_proba(self, X):
        return super().predict_proba(X)[:, ::-1]


@pytest.mark.parametrize("model", [Stubborn(10, random_state=0), LogisticRegression()])
def test_without_trees_that_agree_the_model_is_asked_itself(model):
    model.fit(ROWS, KINDS > 0)
    explainer = make_explainer("greedy", BlackBox(model, accelerate="auto")).fit(ROWS)
    assert explainer.blackbox_.trees is None
    result = explainer.explain(ROWS[:10])
    assert (model.predict(result.frame[list(ROWS)]) == result.after[result.found]).all()


def test_categories_are_answered_by_position():
    codes = ROWS.assign(d=RNG.integers(0, 3, len(ROWS)))
    model = RandomForestClassifier(25, random_state=0).fit(codes, KINDS)
    space = FeatureSpace.infer(codes, categorical=["d"])
    explainer = make_explainer("greedy", BlackBox(model, accelerate="auto"), space).fit(codes)
    assert explainer.blackbox_.trees is not None
    plain = make_explainer("greedy", model, space).fit(codes)
    pd.testing.assert_frame_equal(explainer.explain(codes[:20]).frame, plain.explain(codes[:20]).frame)


@pytest.mark.slow
def test_large_batches_and_unknown_categories_are_asked_of_the_library():
    words = ROWS.assign(d=np.array(["x", "y", "z"])[RNG.integers(0, 3, len(ROWS))])
    columns = ColumnTransformer([("words", OneHotEncoder(handle_unknown="ignore"), ["d"])], remainder="passthrough")
    model = make_pipeline(columns, RandomForestClassifier(25, random_state=0)).fit(words, KINDS)
    space = FeatureSpace.infer(words)
    with pytest.warns(UserWarning, match="'d' is 'w' in row 1"):
        wider, values = space.taking_in(words[:3].assign(d=["x", "w", "y"]))
    box = BlackBox(model, space, accelerate="auto")
    box.learn(space.values(words))
    assert box.trees.knows(values[[0, 2]])
    assert not box.trees.knows(values)
    assert np.array_equal(box.over(wider).ask(values).scores, model.predict_proba(wider.model_input(values)))
    box = BlackBox(MODELS["forest"], FeatureSpace.infer(ROWS), accelerate="auto")
    box.learn(ROWS.to_numpy())
    assert box.trees.quicker(1)
    assert not box.trees.quicker(10**6)
    many = np.tile(ROWS.to_numpy(), (40, 1))
    assert len(many) > box.trees.most_rows
    np.testing.assert_allclose(box.ask(many).scores[:300], box.ask(ROWS.to_numpy()).scores, atol=1e-12)


def test_only_auto_is_known():
    with pytest.raises(InputError, match="accelerate is True"):
        BlackBox(MODELS["forest"], accelerate=True)


def explained(monkeypatch, query, goal=None):
    """What an accelerated explainer says to one row, and what it called of the model.

    The model says the opposite of its trees where `a` is 99, which no training row has.
    """
    model, calls = RandomForestClassifier(25, random_state=0).fit(ROWS, KINDS > 0), []
    predict, predict_proba = RandomForestClassifier.predict, RandomForestClassifier.predict_proba

    def watched_predict(self, X):
        own = calls.copy()
        told = predict(self, X)
        calls[:] = [*own, ("predict", len(X))]  # and not what it asks itself
        return np.where(np.asarray(X)[:, 0] == 99.0, ~told, told)

    def watched_probabilities(self, X):
        calls.append(("predict_proba", len(X)))
        return predict_proba(self, X)

    monkeypatch.setattr(RandomForestClassifier, "predict", watched_predict)
    monkeypatch.setattr(RandomForestClassifier, "predict_proba", watched_probabilities)
    explainer = make_explainer("surrogate-search", BlackBox(model, accelerate="auto"), goal=goal).fit(ROWS)
    assert explainer.blackbox_.trees is not None
    calls.clear()
    result = explainer.explain(query)
    return model, result, calls.copy()


def test_query_and_answer_are_confirmed_by_one_call_of_predict(monkeypatch):
    model, result, calls = explained(monkeypatch, ROWS[:1])
    assert result.found.all()
    assert calls == [("predict", 2)]
    assert model.predict(result.frame[list(ROWS)]).tolist() == result.after[:, 0].tolist()
    assert model.predict(ROWS[:1]).tolist() == result.before.tolist()
    np.testing.assert_allclose(result.scores_before, model.predict_proba(ROWS[:1]), atol=1e-6)
    np.testing.assert_allclose(result.scores_after[:, 0], model.predict_proba(result.frame[list(ROWS)]), atol=1e-6)


@pytest.mark.slow
def test_a_query_that_needs_no_answer_is_confirmed_too(monkeypatch):
    label = bool(explained(monkeypatch, ROWS[:1])[1].before[0])
    _, result, calls = explained(monkeypatch, ROWS[:1], Goal.to(label))
    assert result.statuses[0, 0] == "the query meets the goal already"
    assert calls == [("predict", 1)]


@pytest.mark.slow
def test_the_model_has_the_last_word_on_a_query_that_its_trees_are_wrong_about(monkeypatch):
    model, result, calls = explained(monkeypatch, ROWS[:1].assign(a=99.0))
    assert len(calls) > 1
    assert result.before.tolist() == model.predict(ROWS[:1].assign(a=99.0)).tolist()
