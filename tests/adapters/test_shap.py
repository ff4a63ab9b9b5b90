"""Counterfactual Shapley values: the axioms, shap's own exact values, shap's plots; and the comparison with SHAP."""

import sys
from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest
import shap
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import tiny
from sklearn.svm import LinearSVC

from relax_plugin import BlackBox, Goal, make_explainer
from relax_plugin.adapters.shap import CounterfactualShap, compare_with_shap
from relax_plugin.errors import InputError, MissingExtraError, NotFittedError

Pair = tuple[np.ndarray, np.ndarray]

ROWS = tiny.gaussian_rows(200, 5)
MODEL = make_explainer("greedy", tiny.two_class_probabilities).fit(ROWS)


def towards(queries: np.ndarray, ends: np.ndarray, explainer=MODEL):  # type: ignore[no-untyped-def]
    """Counterfactuals with these rows in the slots (queries, slots, features); what shap is given need not be valid."""
    made = explainer.explain(queries, n=ends.shape[1])
    return replace(made, values=ends, found=np.ones(ends.shape[:2], dtype=bool))


def own_class(model, rows: np.ndarray, queries: np.ndarray) -> np.ndarray:  # type: ignore[no-untyped-def]
    return model(rows)[np.arange(len(rows)), model(queries).argmax(axis=1)]


@st.composite
def pairs(draw: st.DrawFn) -> Pair:
    """Queries, and counterfactuals that change a random set of their features."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, slots = draw(st.integers(1, 5)), draw(st.integers(1, 3))
    start = rng.standard_normal((n, 5))
    changed = rng.random((n, slots, 5)) < draw(st.floats(0.0, 1.0))
    return start, np.where(changed, rng.standard_normal(changed.shape), start[:, None])


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(pair=pairs())
def test_values_sum_to_the_difference_and_unchanged_features_have_none(pair: Pair) -> None:
    start, ends = pair
    explanation = CounterfactualShap(MODEL).attribute(towards(start, ends))
    before = own_class(tiny.two_class_probabilities, start, start)
    after = [own_class(tiny.two_class_probabilities, ends[:, slot], start) for slot in range(ends.shape[1])]
    np.testing.assert_allclose(explanation.base_values, np.mean(after, axis=0), atol=1e-9)
    np.testing.assert_allclose(explanation.values.sum(axis=1) + explanation.base_values, before, atol=1e-9)
    assert (explanation.values[(ends == start[:, None]).all(axis=1)] == 0.0).all()


@pytest.mark.slow
@settings(max_examples=5, deadline=None)
@given(pair=pairs())
def test_shaps_exact_explainer_gives_the_same_with_the_counterfactuals_as_background(pair: Pair) -> None:
    start, ends = pair
    explanation = CounterfactualShap(MODEL).attribute(towards(start, ends))
    for row in np.flatnonzero((start[:, None] != ends).any(axis=(1, 2))):  # else shap reads past its arrays
        query, background = start[row], ends[row]
        label = tiny.two_class_labels(query[None])[0]
        masker = shap.maskers.Independent(background, max_samples=len(background))
        exact = shap.ExactExplainer(lambda x, c=label: tiny.two_class_probabilities(x)[:, c], masker)
        expected = exact(query[None], silent=True)
        np.testing.assert_allclose(explanation.values[row], expected.values[0], atol=1e-9)
        np.testing.assert_allclose(explanation.base_values[row], expected.base_values[0], atol=1e-9)


def test_features_that_do_the_same_have_the_same_value() -> None:
    def model(x: np.ndarray) -> np.ndarray:
        positive = 1.0 / (1.0 + np.exp(-(x[:, 0] * x[:, 1] + x[:, 2] ** 2)))
        return np.column_stack([1.0 - positive, positive])

    explainer = make_explainer("greedy", model).fit(ROWS)
    start = np.array([[1.3, 1.3, -0.4, 0.0, 0.0]])
    made = towards(start, np.array([[[-0.7, -0.7, 0.9, 0.5, 0.0]]]), explainer)
    values = CounterfactualShap(explainer).attribute(made).values[0]
    assert values[0] == pytest.approx(values[1], abs=1e-12)
    assert abs(values[0]) > 0.01
    assert values[3] == pytest.approx(0.0, abs=1e-12)  # it changes, but the model does not look at it


@pytest.mark.slow
@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("kind", ["three classes", "numbers", "labels", "decisions", "mixed columns"])
def test_every_kind_of_model_is_explained_by_its_own_score(kind: str, n: int) -> None:
    rows: object = tiny.gaussian_rows(120)
    if kind == "three classes":
        model, score = tiny.three_class_probabilities, tiny.three_class_probabilities
    elif kind == "numbers":
        model, score = BlackBox(tiny.numbers, task="regression"), lambda x: tiny.numbers(x)[:, None]
    elif kind == "labels":
        model, score = tiny.two_class_labels, lambda x: np.eye(2)[tiny.two_class_labels(x)]
    elif kind == "decisions":
        model = LinearSVC().fit(rows, tiny.two_class_labels(rows))
        score = lambda x: model.decision_function(x)[:, None] * [-0.5, 0.5]  # noqa: E731
    else:
        rows, model, score = tiny.mixed_rows(), tiny.mixed_probabilities, tiny.mixed_probabilities
    method = "nearest-ct" if kind == "labels" else "greedy"
    explainer = make_explainer(method, model, goal=Goal.shift(1.0) if kind == "numbers" else None).fit(rows)
    queries = rows[:15]
    explanation = CounterfactualShap(explainer, n=n, every_class=False)(queries)
    made = explanation.counterfactuals
    before = score(queries)
    own = before.argmax(axis=1) if kind != "numbers" else np.zeros(15, dtype=int)
    mine = before[np.arange(15), own]
    np.testing.assert_allclose(explanation.values.sum(axis=1) + explanation.base_values, mine, atol=1e-9)
    features = made.frame[made.space.names]
    after = score(features if kind == "mixed columns" else features.to_numpy())
    query = made.frame["query_id"].to_numpy()
    sums = np.bincount(query, after[np.arange(len(query)), own[query]])
    np.testing.assert_allclose(explanation.base_values, sums / np.bincount(query), atol=1e-9)
    if kind == "mixed columns":
        assert explanation.display_data[0].tolist() == queries.iloc[0].tolist()
        assert explanation.data[0, 4] == sorted(set(rows["colour"])).index(queries["colour"].iloc[0])


def test_cost_is_two_to_the_changed_features_and_batches_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny.Counting(tiny.two_class_probabilities)
    explainer = make_explainer("nearest-ct", model, max_changes=None).fit(ROWS)
    queries = tiny.gaussian_rows(30, 5, seed=3)
    made = explainer.explain(queries, n=2)
    made.values[::3, :, :2] = queries[::3, None, :2]  # of several numbers of changes
    model.forget()
    whole = CounterfactualShap(explainer).attribute(made)
    changed = (made.values != queries[:, None]).sum(axis=2)[made.found]
    assert (model.rows, model.calls) == ((2**changed).sum(), 1)
    assert len(set(changed)) > 1
    monkeypatch.setattr("relax_plugin.adapters.shap.CALL_ROWS", 100)
    model.forget()
    assert np.array_equal(CounterfactualShap(explainer).attribute(made).values, whole.values)
    assert model.calls > 5
    assert max(len(rows) for rows in model.seen) < 100 + 32


@pytest.mark.slow
def test_many_changed_features_are_sampled_by_shap_and_a_warning_says_so() -> None:
    start, ends = tiny.gaussian_rows(4, 5, seed=5), tiny.gaussian_rows(4, 5, seed=6)[:, None]
    ends[0, 0, 2:] = start[0, 2:]
    made = towards(start, ends)
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    with pytest.warns(UserWarning, match="3 counterfactuals change more than 3 features"):
        sampled = CounterfactualShap(MODEL, most_exact=3).attribute(made)
    assert np.array_equal(np.random.get_state()[1], state)  # noqa: NPY002
    exact = CounterfactualShap(MODEL).attribute(made)
    assert sampled.sampled.tolist() == [False, True, True, True]
    assert not exact.sampled.any()
    np.testing.assert_allclose(sampled.values.sum(axis=1), exact.values.sum(axis=1), atol=1e-9)
    np.testing.assert_allclose(sampled.values, exact.values, atol=0.03)


def test_query_without_counterfactual_keeps_its_row_with_zeros_and_a_warning() -> None:
    queries = tiny.gaussian_rows(40, 5, seed=9)
    explainer = make_explainer("greedy", tiny.two_class_probabilities, max_changes=1).fit(ROWS)
    made = explainer.explain(queries, bounds={f"x{j}": (-0.5, 0.5) for j in range(5)})
    missing = ~made.found[:, 0]
    assert 0 < missing.sum() < 40
    with pytest.warns(UserWarning, match=f"{missing.sum()} of 40 queries have no counterfactual"):
        explanation = CounterfactualShap(explainer).attribute(made)
    assert np.array_equal(explanation.found, ~missing)
    assert (explanation.values[missing] == 0.0).all()
    own = own_class(tiny.two_class_probabilities, queries, queries)
    np.testing.assert_allclose(explanation.values.sum(axis=1) + explanation.base_values, own, atol=1e-9)


@pytest.mark.slow
def test_agreement_is_full_where_only_the_first_feature_matters() -> None:
    explainer = make_explainer("greedy", lambda x: np.eye(2)[(x[:, 0] > 0).astype(int)]).fit(ROWS)
    made = compare_with_shap(explainer, ROWS[:20])
    assert (made.table[["changed", "overlap", "agreement"]] == 1.0).all(axis=None)
    assert (made.table["by_chance"] == 0.2).all()
    assert made.features[["feature", "changed_share"]].iloc[0].tolist() == ["x0", 1.0]
    given = np.tile([0.0, 1.0, 2.0, 3.0, 4.0], (20, 1))
    opposite = compare_with_shap(explainer, ROWS[:20], shap_values=given)
    assert (opposite.table[["overlap", "agreement"]] == 0.0).all(axis=None)
    level = compare_with_shap(explainer, ROWS[:20], shap_values=np.ones((20, 5)))
    assert (level.table["agreement"] == 0.5).all()


def test_agreement_counts_pairs_of_a_changed_and_an_unchanged_feature(monkeypatch: pytest.MonkeyPatch) -> None:
    start = ROWS[:1]
    made = towards(start, start[:, None] + [1.0, 0.0, 1.0, 0.0, 0.0])
    monkeypatch.setattr(MODEL, "explain", lambda X, goal: made)
    table = compare_with_shap(MODEL, start, shap_values=np.array([[-5.0, 4.0, 3.0, 2.0, 1.0]])).table
    # x0 and x2 change and have ranks 1 and 3: of six pairs only (x2, x1) is the wrong way round, of two one is on top
    assert table[["changed", "overlap", "by_chance", "agreement"]].iloc[0].tolist() == [2.0, 0.5, 0.4, 5 / 6]


@pytest.mark.slow
def test_compared_values_are_shaps_own_and_queries_without_counterfactual_are_nan() -> None:
    queries = tiny.gaussian_rows(12, 5, seed=4)
    explainer = make_explainer("greedy", tiny.two_class_probabilities, goal=Goal.to(1), max_changes=1).fit(ROWS)
    made = compare_with_shap(explainer, queries, background=ROWS[:20])
    positive = shap.ExactExplainer(lambda x: tiny.two_class_probabilities(x)[:, 1], shap.maskers.Independent(ROWS[:20]))
    features = made.features.sort_values("feature")["mean_abs_shap"]
    np.testing.assert_allclose(features, np.abs(positive(queries, silent=True).values).mean(axis=0), atol=1e-9)
    cfs = explainer.explain(queries)
    compared = cfs.found[:, 0] & (cfs.sparsity[:, 0] > 0)
    assert np.array_equal(made.table["overlap"].notna(), compared)
    assert 0 < compared.sum() < 12
    assert len(made.table) == 12
    assert all(axes.patches and axes.get_title() for axes in made.plot().axes)


def test_what_cannot_be_used_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NotFittedError, match="Greedy"):
        CounterfactualShap(make_explainer("greedy", tiny.two_class_probabilities))
    with pytest.raises(InputError, match="n is 0"):
        CounterfactualShap(MODEL, n=0)
    with pytest.raises(InputError, match=r"shape \(3, 4\)"):
        compare_with_shap(MODEL, ROWS[:3], shap_values=np.ones((3, 4)))
    monkeypatch.setitem(sys.modules, "shap", None)
    monkeypatch.delitem(sys.modules, "relax_plugin.adapters.shap")
    with pytest.raises(MissingExtraError, match=r"relax-plugin\[shap\]"):
        import_module("relax_plugin.adapters.shap")
