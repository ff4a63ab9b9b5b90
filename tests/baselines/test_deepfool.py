"""Facts about DeepFool, on models whose boundaries are known."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from reference.deepfool import slow_deepfool
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from relax_plugin import BlackBox, FeatureSpace, Goal
from relax_plugin.baselines import common
from relax_plugin.baselines.deepfool import DeepFool
from relax_plugin.errors import InputError

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

RNG = np.random.default_rng(4)
UNITS = np.array([1.0, 20.0, 0.1, 5.0])
ROWS = RNG.normal(size=(400, 4)) * UNITS
WIDE = FeatureSpace.infer(ROWS, bounds={f"x{j}": (-1e4, 1e4) for j in range(4)})
TWO = (ROWS / UNITS @ [1.0, -2.0, 0.5, 0.0] > 0.3).astype(int)
THREE = np.argmax(np.column_stack([ROWS[:, 0], ROWS[:, 1] / 20, 10 * ROWS[:, 2] * ROWS[:, 3] / 5]), axis=1)
FRAME = pd.DataFrame(
    {
        "income": RNG.normal(size=300).round(2),
        "years": RNG.integers(0, 12, 300),
        "rate": RNG.normal(size=300).astype(np.float32),
        "age": RNG.integers(18, 80, 300),
    }
)
GRANTED = (FRAME["income"] + (FRAME["years"] - 6) / 4 - FRAME["rate"] + (FRAME["age"] - 50) / 30 > 0).astype(int)


def network(activation: str = "tanh", hidden: tuple[int, ...] = (16, 16)) -> Any:
    perceptron = MLPClassifier(hidden, activation=activation, solver="lbfgs", max_iter=80, alpha=0.1, random_state=0)
    return make_pipeline(StandardScaler(), perceptron)


LINEAR = LogisticRegression().fit(ROWS / UNITS, TWO)
LINEAR.coef_ = LINEAR.coef_ / UNITS
CURVED = network().fit(ROWS, THREE)
MIXED = network("relu").fit(FRAME, GRANTED)


def test_one_step_lands_on_the_closest_point_of_a_linear_boundary() -> None:
    queries = ROWS[:50]
    result = DeepFool(LINEAR, WIDE, steps=1).fit(ROWS).explain(queries)
    assert result.found.all()
    slope = LINEAR.coef_[0] * WIDE.scale
    closest = queries - (LINEAR.decision_function(queries) / (slope @ slope))[:, None] * slope * WIDE.scale
    np.testing.assert_allclose(LINEAR.decision_function(closest), 0, atol=1e-9)
    np.testing.assert_allclose(result.values[:, 0], queries + 1.02 * (closest - queries), rtol=1e-9, atol=1e-12)


def test_of_three_linear_classes_the_nearest_boundary_is_crossed() -> None:
    model = LogisticRegression().fit(ROWS / UNITS, THREE)
    model.coef_ = model.coef_ / UNITS
    queries, rows = ROWS[:60], np.arange(60)
    result = DeepFool(model, WIDE, steps=1).fit(ROWS).explain(queries)
    logits, before = model.decision_function(queries), model.predict(queries)
    slopes = (model.coef_[None] - model.coef_[before][:, None]) * WIDE.scale
    with np.errstate(invalid="ignore"):
        distance = (logits[rows, before][:, None] - logits) / np.sqrt(np.square(slopes).sum(axis=2))
    nearest = np.nanargmin(distance, axis=1)
    travelled = np.sqrt(np.square((result.values[:, 0] - queries) / WIDE.scale).sum(axis=1))
    np.testing.assert_allclose(travelled, 1.02 * distance[rows, nearest], rtol=1e-9)
    assert result.found.all()
    assert (result.after[:, 0] == nearest).all()
    assert len(np.unique(nearest)) == 3


def test_side_by_side_equals_the_loop_of_the_paper() -> None:
    explainer = DeepFool(CURVED, WIDE).fit(ROWS)
    queries = ROWS[:40]
    result = explainer.explain(queries)
    copy = explainer.network_
    counts = []
    for query in range(40):
        slow, count = slow_deepfool(
            lambda row: copy.outputs(np.array([row]))[0].tolist(),
            lambda row: copy.jacobian(np.array([row]))[1][0].tolist(),
            queries[query].tolist(),
            WIDE.scale.tolist(),
            0.02,
            50,
        )
        counts.append(count)
        np.testing.assert_allclose(result.values[query, 0], slow, rtol=1e-6, atol=1e-9)
    assert max(counts) >= 3, "a network that needs more than one step"
    assert result.found.mean() > 0.9


def test_chunks_do_not_change_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    explainer = DeepFool(CURVED).fit(ROWS)
    together = explainer.explain(ROWS[:20])
    monkeypatch.setattr(common, "CHUNK_CELLS", 7 * 3 * 4)
    np.testing.assert_allclose(explainer.explain(ROWS[:20]).values, together.values, rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("outputs", [1, 2])
def test_a_module_is_explained_as_it_is(outputs: int) -> None:
    weights = torch.tensor([[1.0, -0.1, 5.0, 0.2], [-1.0, 0.1, -5.0, -0.2]])
    module = torch.nn.utils.skip_init(torch.nn.Linear, 4, outputs, bias=False)
    module.weight.data = weights[:outputs]
    queries = ROWS[:30]
    result = DeepFool(module, WIDE, steps=1).fit(ROWS).explain(queries)
    assert result.found.all()
    signal = queries @ weights[0].numpy()
    slope = weights[0].double().numpy() * WIDE.scale
    expected = queries - 1.02 * (signal / (slope @ slope))[:, None] * slope * WIDE.scale
    np.testing.assert_allclose(result.values[:, 0], expected, rtol=1e-4, atol=1e-4)


# Constraints.


def test_every_constraint_is_kept_and_nearly_all_are_solved() -> None:
    space = FeatureSpace.infer(
        FRAME, immutable=["age"], increase_only=["years"], bounds={"rate": (-2, 2)}, steps={"income": 0.25}
    )
    queries = FRAME[:80]
    result = DeepFool(MIXED, space).fit(FRAME).explain(queries)
    frame = result.frame
    original = queries.iloc[frame["query_id"]].reset_index(drop=True)
    assert result.found.mean() > 0.9
    assert (MIXED.predict(frame[list(FRAME)]) != MIXED.predict(original)).all()
    assert (frame["age"] == original["age"]).all()
    assert (frame["years"] >= original["years"]).all()
    moved = frame["rate"] != original["rate"]
    assert frame["rate"][moved].between(-2, 2).all()
    moved = frame["income"] != original["income"]
    steps = (frame["income"][moved] - FRAME["income"].min()) / 0.25
    np.testing.assert_allclose(steps, steps.round(), atol=1e-6)
    assert moved.any()


def test_what_a_feature_at_its_end_cannot_do_the_others_do() -> None:
    queries = ROWS[:30]
    bounds = {"x1": (float(ROWS[:, 1].min()) / 50, float(ROWS[:, 1].max()) / 50)}
    explainer = DeepFool(LINEAR, WIDE).fit(ROWS)
    result = explainer.explain(queries, bounds=bounds)
    assert result.found.all()
    changed = result.values[:, 0, 1] != queries[:, 1]
    assert changed.any()
    assert ((result.values[changed, 0, 1] >= bounds["x1"][0]) & (result.values[changed, 0, 1] <= bounds["x1"][1])).all()
    free = explainer.explain(queries)
    assert (np.abs(result.values - free.values)[:, 0, 0] > 0.1).any()


def test_a_cell_outside_the_bounds_that_need_not_move_stays() -> None:
    queries = ROWS[:10].copy()
    queries[:, 3] = 1e3
    model = LogisticRegression().fit(ROWS, TWO)
    model.coef_ = np.array([[1.0, -0.1, 5.0, 0.0]])
    result = DeepFool(model).fit(ROWS).explain(queries)
    assert result.found.any()
    assert (result.values[:, 0, 3] == 1e3).all()


def test_what_rounding_takes_back_is_overshot_further() -> None:
    """On a grid of whole numbers the nearest one to 1.02 times the way is mostly not across."""
    rows = pd.DataFrame(RNG.integers(-9, 10, (200, 3)), columns=list("abc"))
    model = LogisticRegression().fit(rows, rows["a"] + rows["b"] > 0)
    model.coef_, model.intercept_ = np.array([[1.0, 1.0, 0.0]]), np.array([-0.5])
    queries = pd.DataFrame({"a": [0, 1, -2], "b": [0, 0, 1], "c": [0, 0, 0]})
    result = DeepFool(model).fit(rows).explain(queries)
    assert result.found.all()
    assert result.frame[["a", "b"]].to_numpy().tolist() == [[1, 1], [0, -1], [-1, 2]]
    assert (result.frame["c"] == 0).all()


def test_a_query_on_the_boundary_leaves_it() -> None:
    model = LogisticRegression().fit(ROWS, TWO)
    model.coef_, model.intercept_ = np.array([[1.0, 0.1, 1.0, 0.1]]), np.zeros(1)
    result = DeepFool(model).fit(ROWS).explain(np.zeros((1, 4)))
    assert result.found.all()
    assert 0 < result.proximity[0, 0] < 1e-3


# Goals.


def test_a_target_class_is_reached() -> None:
    queries = ROWS[:60]
    targets = (CURVED.predict(queries) + 1 + np.arange(60) % 2) % 3
    result = DeepFool(CURVED).fit(ROWS).explain(queries, goal=Goal.to(targets))
    found = result.found[:, 0]
    assert found.mean() > 0.9
    assert (CURVED.predict(result.values[found, 0]) == targets[found]).all()


@pytest.mark.parametrize("probability", [0.4, 0.7, 0.95])
def test_a_least_probability_is_reached(probability: float) -> None:
    result = DeepFool(CURVED).fit(ROWS).explain(ROWS[:60], goal=Goal.flip(min_probability=probability))
    found = result.found[:, 0]
    assert found.mean() > 0.9
    reached = CURVED.predict_proba(result.values[found, 0])[np.arange(found.sum()), result.after[found, 0].astype(int)]
    assert (reached >= probability).all()


def test_a_least_probability_of_a_linear_model_takes_one_step() -> None:
    queries = ROWS[:60]
    goal = Goal.flip(min_probability=0.9)
    result = DeepFool(LINEAR, WIDE, goal=goal, steps=1).fit(ROWS).explain(queries)
    before = LINEAR.decision_function(queries)
    needed = -np.sign(before) * np.log(0.9 / 0.1)
    np.testing.assert_allclose(LINEAR.decision_function(result.values[:, 0]), before + 1.02 * (needed - before))


REGRESSOR = make_pipeline(
    StandardScaler(), MLPRegressor(hidden_layer_sizes=(20,), solver="lbfgs", max_iter=200, random_state=0)
).fit(ROWS, 10 * np.tanh(ROWS[:, 0] + ROWS[:, 1] / 40))


@pytest.mark.slow
def test_a_shift_is_reached() -> None:
    queries = ROWS[:60]
    result = DeepFool(REGRESSOR, goal=Goal.shift(4.0)).fit(ROWS).explain(queries)
    found = result.found[:, 0]
    assert found.mean() > 0.9
    moved = np.abs(REGRESSOR.predict(result.values[found, 0]) - REGRESSOR.predict(queries[found]))
    assert (moved >= 4.0).all()


@pytest.mark.parametrize(("low", "high"), [(1.0, 2.0), (1.0, 1.01), (3.0, np.inf), (-np.inf, -3.0)])
def test_a_range_is_reached(low: float, high: float) -> None:
    result = DeepFool(REGRESSOR, goal=Goal.between(low, high)).fit(ROWS).explain(ROWS[:60])
    found = result.found[:, 0]
    assert found.mean() > 0.9
    answers = REGRESSOR.predict(result.values[found, 0])
    assert ((answers >= low) & (answers <= high)).all()


def test_one_step_is_enough_for_a_linear_regressor() -> None:
    model = LinearRegression().fit(ROWS, ROWS @ [1.0, 0.2, 3.0, -0.5])
    result = DeepFool(model, WIDE, goal=Goal.shift(2.0), steps=1).fit(ROWS).explain(ROWS[:10])
    moved = np.abs(model.predict(result.values[:, 0]) - model.predict(ROWS[:10]))
    np.testing.assert_allclose(moved, 2.0 * 1.02)


# Sparsity, costs, options.


@pytest.mark.slow
def test_reverted_leaves_only_changes_that_are_needed() -> None:
    queries = FRAME[:40]
    raw = DeepFool(MIXED).fit(FRAME).explain(queries)
    result = DeepFool(MIXED, reverted=True).fit(FRAME).explain(queries)
    assert (result.found == raw.found).all()
    assert result.sparsity[result.found].mean() < raw.sparsity[raw.found].mean()
    before = MIXED.predict(queries)
    for query in np.flatnonzero(result.found[:, 0]):
        changed = np.flatnonzero(result.values[query, 0] != result.start[query])
        for feature in changed if len(changed) > 1 else ():
            without = result.values[query, 0].copy()
            without[feature] = result.start[query, feature]
            answer = MIXED.predict(result.space.model_input(without[None]))
            assert answer[0] == before[query]


def test_too_many_changes_are_undone_or_not_offered() -> None:
    result = DeepFool(MIXED, max_changes=2).fit(FRAME).explain(FRAME[:60])
    assert result.found.mean() > 0.1
    assert np.nanmax(result.sparsity) <= 2
    assert (DeepFool(MIXED).fit(FRAME).explain(FRAME[:60]).sparsity > 2).any()


@pytest.mark.parametrize("reverted", [False, True])
def test_rows_queried_are_what_the_model_was_asked(reverted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    model = MLPClassifier((8,), activation="tanh", solver="lbfgs", max_iter=60, random_state=0).fit(ROWS / UNITS, TWO)
    asked, predict_proba = [], MLPClassifier.predict_proba

    def counted(self: MLPClassifier, X: Any) -> Any:
        asked.append(len(X))
        return predict_proba(self, X)

    monkeypatch.setattr(MLPClassifier, "predict_proba", counted)
    monkeypatch.setattr(MLPClassifier, "predict", lambda self, X: self.classes_[counted(self, X).argmax(axis=1)])
    explainer = DeepFool(BlackBox(model), reverted=reverted).fit(ROWS / UNITS)
    assert explainer.fit_rows_ == sum(asked)
    asked.clear()
    explainer.network_.spent = 0
    result = explainer.explain(ROWS[:25] / UNITS)
    assert result.found.mean() > 0.9
    assert result.rows_queried.sum() == sum(asked)
    assert explainer.network_.spent > 50
    if not reverted:
        assert (result.rows_queried[result.found[:, 0]] == 4).all(), "scores and label, before and after"


def test_several_counterfactuals_are_distinct() -> None:
    result = DeepFool(CURVED).fit(ROWS).explain(ROWS[:20], n=3)
    assert result.found.sum() > 50
    assert not result.frame.drop(columns="cf_id").duplicated().any()


def test_a_network_without_a_slope_has_no_counterfactuals_and_that_is_said() -> None:
    model = LogisticRegression().fit(ROWS, TWO)
    model.coef_, model.intercept_ = np.zeros((1, 4)), np.ones(1)
    result = DeepFool(model).fit(ROWS).explain(ROWS[:3])
    assert not result.found.any()
    assert (result.status == "none was found in 50 steps to the nearest boundary").all()


@pytest.mark.parametrize(
    "options", [{"steps": 0}, {"overshoot": 0}, {"overshoot": 1.5}, {"overshoot": "much"}], ids=str
)
def test_wrong_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="must be a"):
        DeepFool(LINEAR, **options).fit(ROWS)
