"""Facts about GRACE: which features it ranks first, which it leaves out, and when it stops."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import entropy
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import mutual_info_score
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from relax_plugin import BlackBox, FeatureSpace, Goal
from relax_plugin.baselines import grace
from relax_plugin.baselines.common import Network
from relax_plugin.baselines.deepfool import DeepFool
from relax_plugin.baselines.grace import Grace, binned, forward_selection, goal_gradient, symmetric_uncertainty
from relax_plugin.errors import InputError, UnsupportedError

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

RNG = np.random.default_rng(6)
ROWS = RNG.normal(size=(400, 6))
ROWS[:, 1] = ROWS[:, 0] + 0.01 * RNG.normal(size=400)  # a twin
SPACE = FeatureSpace.infer(ROWS)
WIDE = FeatureSpace.infer(ROWS, bounds={f"x{j}": (-100, 100) for j in range(6)})
THREE = np.argmax(np.column_stack([ROWS[:, 0], ROWS[:, 2] + ROWS[:, 3], ROWS[:, 4] * ROWS[:, 5]]), axis=1)


def network(rows: Any, labels: Any) -> Any:
    perceptron = MLPClassifier((16, 16), activation="tanh", solver="lbfgs", max_iter=80, alpha=0.1, random_state=0)
    return make_pipeline(StandardScaler(), perceptron).fit(rows, labels)


def linear(coefficients: list[float], intercept: float = 0.0, rows: Any = ROWS) -> Any:
    model = LogisticRegression().fit(rows, np.arange(len(rows)) % 2)
    model.coef_, model.intercept_ = np.array([coefficients]), np.array([intercept])
    return model


CURVED = network(ROWS, THREE)


# Similarity.


def test_symmetric_uncertainty_is_that_of_scikit_learns_mutual_information(monkeypatch: pytest.MonkeyPatch) -> None:
    bins = np.column_stack([binned(ROWS[:, :3]), RNG.integers(0, 3, 400), np.zeros(400, dtype=np.int64)])
    bins = np.column_stack([bins, bins[:, 3] // 2])
    similar = symmetric_uncertainty(bins)
    for a, b in np.ndindex(6, 6):
        shares = [np.unique(bins[:, j], return_counts=True)[1] / 400 for j in (a, b)]
        total = sum(entropy(share) for share in shares)
        expected = 2 * mutual_info_score(bins[:, a], bins[:, b]) / total if total else 0
        assert similar[a, b] == pytest.approx(1.0 if a == b else expected, abs=1e-9)
    monkeypatch.setattr(grace, "CHUNK_CELLS", 1)
    np.testing.assert_allclose(symmetric_uncertainty(bins), similar, atol=1e-12)


def test_few_values_are_their_own_bins_and_many_are_shared_out_evenly() -> None:
    values = np.column_stack([ROWS[:, 0], RNG.integers(0, 4, 400) * 2.5, np.where(ROWS[:, 2] > 0, ROWS[:, 2], 0.0)])
    bins = binned(values)
    assert np.bincount(bins[:, 0]).tolist() == [40] * 10
    assert (bins[:, 1] == values[:, 1] / 2.5).all()
    assert set(bins[:, 2]) == set(range(bins[:, 2].max() + 1)), "no bin is empty, though half the values are equal"
    assert (np.diff(bins[np.argsort(values[:, 2]), 2]) >= 0).all()


def test_a_twin_is_similar_and_noise_is_not() -> None:
    similar = symmetric_uncertainty(binned(ROWS))
    assert similar[0, 1] > 0.9
    others = similar[np.ix_([0, 2, 3, 4, 5], [0, 2, 3, 4, 5])]
    assert others[~np.eye(5, dtype=bool)].max() < 0.2


# Ranking.


def test_forward_selection_equals_the_loop() -> None:
    importance, available = RNG.random((50, 8)), RNG.random((50, 8)) < 0.8
    similar = RNG.random((8, 8))
    similar = np.maximum(similar, similar.T)
    order = forward_selection(importance, available, similar, 0.85, 5)
    for row in range(50):
        chosen: list[int] = []
        for j in np.argsort(-importance[row]):
            if available[row, j] and all(similar[j, i] <= 0.85 for i in chosen) and len(chosen) < 5:
                chosen.append(int(j))
        assert order[row].tolist() == chosen + [-1] * (5 - len(chosen))
    assert (order == -1).any()
    assert (order[:, 3] >= 0).any()


def test_the_ranking_is_by_the_gradient_of_the_predicted_probability() -> None:
    copy = Network(BlackBox(CURVED, SPACE))
    blackbox = BlackBox(CURVED, SPACE)
    blackbox.learn(ROWS)
    rows = ROWS[:30]
    before = blackbox.ask(rows)
    direction = goal_gradient(Goal.flip().bind(blackbox, before), *copy.jacobian(rows))
    chosen = np.arange(30), before.output.astype(int)
    slope = np.empty_like(rows)
    for j in range(6):
        step = 1e-5 * np.eye(6)[j]
        slope[:, j] = (CURVED.predict_proba(rows + step)[chosen] - CURVED.predict_proba(rows - step)[chosen]) / 2e-5
    sure = CURVED.predict_proba(rows)[chosen] > 1 - 1e-5
    cosine = (slope * -direction).sum(axis=1) / np.linalg.norm(slope, axis=1) / np.linalg.norm(direction, axis=1)
    np.testing.assert_allclose(cosine[~sure], 1, atol=1e-5)
    assert (~sure).sum() > 10


def test_the_largest_absolute_slope_is_moved_whatever_its_sign() -> None:
    model = linear([0.5, 0.0, -3.0, 1.0, 0.0, 0.0])
    result = Grace(model, WIDE).fit(ROWS).explain(ROWS[:40])
    assert result.found.all()
    assert set(result.changes()["feature"]) == {"x2"}
    expected = ROWS[:40, 2] + 1.0001 * model.decision_function(ROWS[:40]) / 3.0
    np.testing.assert_allclose(result.values[:, 0, 2], expected, rtol=1e-9)


def test_slopes_are_compared_in_standard_deviations() -> None:
    rows = ROWS * [1, 1, 1, 1000, 1, 1]
    result = Grace(linear([0, 0, 1.0, 0.01, 0, 0], rows=rows)).fit(rows).explain(rows[:20])
    assert set(result.changes()["feature"]) == {"x3"}


def test_a_twin_is_never_moved_too() -> None:
    model = linear([3.0, 2.9, 1.0, 0.5, 0.0, 0.0], 5.0)
    queries = ROWS[model.predict(ROWS) == 1][:60]
    changed = Grace(model).fit(ROWS).explain(queries).values[:, 0] != queries
    assert (changed[:, 0] & changed[:, 2]).any()
    assert not changed[:, 1].any()
    loose = Grace(model, gamma=1.0).fit(ROWS).explain(queries).values[:, 0] != queries
    assert (loose[:, 0] & loose[:, 1]).any()


def test_the_first_k_that_flips_is_taken() -> None:
    """Within the box every further feature adds what it can: the least number is known."""
    slopes = np.array([4.0, 0.0, 3.0, -2.0, 1.0, 0.5])
    model, queries = linear(slopes.tolist(), 16.0), ROWS[:150]
    result = Grace(model, max_changes=None).fit(ROWS).explain(queries)
    logit = model.decision_function(queries)
    towards = np.where((slopes * -np.sign(logit)[:, None]) > 0, ROWS.max(axis=0), ROWS.min(axis=0))
    ranked = [0, 2, 3, 4, 5]
    gains = np.cumsum(((towards - queries) * slopes)[:, ranked], axis=1)
    crossed = np.sign(logit[:, None] + gains) != np.sign(logit)[:, None]
    assert (result.found[:, 0] == crossed.any(axis=1)).all()
    found = result.found[:, 0]
    assert (result.sparsity[found, 0] == crossed[found].argmax(axis=1) + 1).all()
    assert len(np.unique(result.sparsity[found, 0])) >= 3
    assert result.stages[found, 0].tolist() == [f"{int(k)} by gradient" for k in result.sparsity[found, 0]]


@pytest.mark.slow
def test_far_fewer_features_than_deepfool() -> None:
    sparse, dense = Grace(CURVED).fit(ROWS).explain(ROWS[:80]), DeepFool(CURVED).fit(ROWS).explain(ROWS[:80])
    assert sparse.found.mean() > 0.9
    assert np.nanmean(sparse.sparsity) < 2.5 < np.nanmean(dense.sparsity)


# Constraints and goals.


@pytest.mark.slow
def test_every_constraint_is_kept() -> None:
    frame = pd.DataFrame(
        {
            "income": RNG.normal(size=300).round(2),
            "years": RNG.integers(0, 12, 300),
            "rate": RNG.normal(size=300).astype(np.float32),
            "age": RNG.integers(18, 80, 300),
        }
    )
    signal = frame["income"] + (frame["years"] - 6) / 4 - frame["rate"] + (frame["age"] - 50) / 30
    model = network(frame, signal > 0)
    space = FeatureSpace.infer(frame, immutable=["age"], increase_only=["years"], bounds={"rate": (-2, 2)})
    queries = frame[:80]
    explainer = Grace(model, space).fit(frame)
    result = explainer.explain(queries)
    delivered, original = result.frame, queries.iloc[result.frame["query_id"]].reset_index(drop=True)
    assert result.found.mean() > 0.9
    assert (model.predict(delivered[list(frame)]) != model.predict(original)).all()
    assert (delivered["age"] == original["age"]).all()
    assert (delivered["years"] >= original["years"]).all()
    assert (delivered["years"] > original["years"]).any()
    assert delivered["rate"][delivered["rate"] != original["rate"]].between(-2, 2).all()
    assert (delivered["income"].round(2) == delivered["income"]).all()
    only = explainer.explain(queries, vary=["rate"])
    assert set(only.changes()["feature"]) == {"rate"}


def test_a_feature_without_room_leaves_its_place_to_the_next() -> None:
    model = linear([0, 0, 5.0, 1.0, 0, 0])
    space = FeatureSpace.infer(ROWS, increase_only=["x2"], bounds={"x3": (-100, 100)})
    queries = ROWS[model.predict(ROWS) == 1][:20]
    result = Grace(model, space, max_changes=1).fit(ROWS).explain(queries)
    assert result.found.all()
    assert set(result.changes()["feature"]) == {"x3"}


@pytest.mark.slow
@pytest.mark.parametrize("most", [1, 2, 5])
def test_no_more_than_max_changes_are_made(most: int) -> None:
    result = Grace(CURVED, max_changes=most).fit(ROWS).explain(ROWS[:60])
    assert np.nanmax(result.sparsity) <= most
    unsolved = result.statuses[~result.found]
    assert all(status.startswith(f"none was found by moving the {most} features") for status in unsolved)
    assert most > 1 or len(unsolved)


@pytest.mark.slow
def test_a_target_class_with_a_least_probability_is_reached() -> None:
    queries = ROWS[:60]
    targets = (CURVED.predict(queries) + 1 + np.arange(60) % 2) % 3
    result = Grace(CURVED).fit(ROWS).explain(queries, goal=Goal.to(targets, min_probability=0.8))
    found = result.found[:, 0]
    assert found.mean() > 0.7
    reached = CURVED.predict_proba(result.values[found, 0])
    assert (reached[np.arange(found.sum()), targets[found]] >= 0.8).all()


@pytest.mark.slow
@pytest.mark.parametrize("goal", [Goal.shift(2.0), Goal.between(0.5, 0.6), Goal.between(2.0, np.inf)], ids=str)
def test_a_number_is_moved(goal: Goal) -> None:
    regressor = MLPRegressor(hidden_layer_sizes=(20,), solver="lbfgs", max_iter=200, random_state=0)
    regressor.fit(ROWS, 2 * ROWS[:, 0] + ROWS[:, 2])
    result = Grace(regressor, goal=goal).fit(ROWS).explain(ROWS[:40])
    found = result.found[:, 0]
    assert found.mean() > 0.9
    answers = regressor.predict(result.values[found, 0])
    if goal.kind == "shift":
        assert (np.abs(answers - regressor.predict(ROWS[:40][found])) >= 2.0).all()
    else:
        assert ((answers >= goal.low) & (answers <= goal.high)).all()


# Costs and options.


@pytest.mark.slow
def test_the_black_box_is_asked_only_to_confirm() -> None:
    explainer = Grace(CURVED).fit(ROWS)
    explainer.network_.spent = 0
    result = explainer.explain(ROWS[:30])
    assert (result.rows_queried[result.found[:, 0]] == 4).all(), "scores and label, before and after"
    assert explainer.network_.spent > 60


def test_several_counterfactuals_move_other_features() -> None:
    result = Grace(CURVED).fit(ROWS).explain(ROWS[:20], n=2)
    both = result.found.all(axis=1)
    assert both.mean() > 0.8
    moved = result.values != result.start[:, None]
    assert (moved[both, 0] != moved[both, 1]).any(axis=1).mean() > 0.8


def test_a_model_without_a_gradient_is_skipped() -> None:
    with pytest.raises(UnsupportedError, match=r"^skipped because it needs a differentiable network.* a function"):
        Grace(lambda rows: np.tile([0.4, 0.6], (len(rows), 1))).fit(ROWS)


@pytest.mark.parametrize("options", [{"gamma": -0.1}, {"gamma": "little"}, {"steps": 0.5}, {"overshoot": 0}], ids=str)
def test_wrong_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="must"):
        Grace(CURVED, **options).fit(ROWS)
