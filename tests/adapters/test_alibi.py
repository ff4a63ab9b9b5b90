"""The Alibi-shaped adapter: the user code that must run unchanged, and the keys and shapes of CounterfactualRL."""

import json
import re
from copy import deepcopy
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import tiny

from relax_plugin import BlackBox, Goal, ReLAXConfig, make_explainer
from relax_plugin.adapters.alibi import Explanation, ReLAXTabular
from relax_plugin.errors import GoalError, InputError, NotFittedError, UnknownNameError

FEATURES = ["Age", "Workclass", "Education", "Capital Gain", "Hours per week"]
CATEGORIES = {1: ["Private", "State-gov", "Local-gov"], 2: ["Dropout", "High School", "Bachelors", "Masters"]}
TINY = ReLAXConfig(
    training="model", steps=30, episodes=32, updates_per_step=1, hidden=16, start_pool=256, validate_every=30
)


def census(n: int, seed: int) -> np.ndarray:
    """Label-encoded rows, as alibi's data sets are."""
    rng = np.random.default_rng(seed)
    highest = ((18, 80), (0, 3), (0, 4), (0, 5000), (20, 60))
    return np.column_stack([rng.integers(low, high, n) for low, high in highest])


def predictor(x: np.ndarray) -> np.ndarray:
    assert isinstance(x, np.ndarray)
    centred = (x - [45, 1, 1.5, 2500, 40]) @ [0.03, 0.8, 0.9, 0.0006, 0.03]
    positive = 1.0 / (1.0 + np.exp(-centred))
    return np.column_stack([1.0 - positive, positive])


def replaced(rows: np.ndarray, category_map: dict[int, list[str]]) -> np.ndarray:
    """Codes by names, as alibi's helper does it: a NaN would be an error."""
    named = rows.astype(object)
    for column, names in category_map.items():
        named[:, column] = [names[int(code)] for code in rows[:, column]]
    return named


X_train = census(300, 0)


@pytest.fixture(scope="module")
def X_positive() -> np.ndarray:
    rows = census(120, 1)
    return rows[predictor(rows).argmax(axis=1) == 1]


@pytest.fixture(scope="module")
def greedy() -> ReLAXTabular:
    made = ReLAXTabular(
        predictor,
        feature_names=FEATURES,
        category_map=CATEGORIES,
        immutable_features=["Education"],
        ranges={"Age": [0.0, 1.0]},
        explainer="greedy",
    )
    return made.fit(X_train)


@pytest.mark.slow
@pytest.mark.parametrize("method", [{"options": {"config": TINY, "progress": False}}, {"explainer": "greedy"}])
def test_code_of_an_alibi_user_runs_unchanged(method: dict, X_positive: np.ndarray) -> None:
    # The one line that changes; it was CounterfactualRLTabular(predictor=predictor, encoder=..., decoder=..., ...)
    explainer = ReLAXTabular(
        predictor=predictor,
        feature_names=FEATURES,
        category_map=CATEGORIES,
        immutable_features=["Education"],
        ranges={"Age": [0.0, 1.0]},
        **method,
    )
    explainer = explainer.fit(X=X_train)

    X, Y_t = X_positive[:8], np.array([0])
    C = [{"Age": [0, 20], "Workclass": ["State-gov", "Local-gov"]}]
    explanation = explainer.explain(X, Y_t, C, batch_size=100)

    orig = np.concatenate([explanation.data["orig"]["X"], explanation.data["orig"]["class"]], axis=1)
    cf = np.concatenate([explanation.data["cf"]["X"], explanation.data["cf"]["class"]], axis=1)
    feature_names, category_map = [*FEATURES, "Label"], deepcopy(CATEGORIES)
    category_map.update({feature_names.index("Label"): ["<=50K", ">50K"]})
    orig_pd = pd.DataFrame(replaced(orig, category_map), columns=feature_names)
    cf_pd = pd.DataFrame(replaced(cf, category_map), columns=feature_names)
    assert (orig_pd["Label"] == ">50K").all()
    assert (cf_pd["Label"] == "<=50K").mean() > 0.5
    assert (explanation.cf["class"] == explanation.target).shape == (8, 1)

    several = [
        explainer.explain(X=x.reshape(1, -1), Y_t=Y_t, C=[], diversity=True, num_samples=4, batch_size=10) for x in X
    ]
    for explanation in several:
        assert len(np.unique(explanation.cf["X"], axis=0)) == len(explanation.cf["X"])
        assert (predictor(explanation.cf["X"]).argmax(axis=1) == 0).all()
    assert max(len(explanation.cf["X"]) for explanation in several) > 1

    assert np.array_equal(Explanation.from_json(explanation.to_json()).cf["X"], explanation.cf["X"])


def test_explanation_has_the_keys_and_shapes_of_counterfactual_rl(greedy: ReLAXTabular, X_positive: np.ndarray) -> None:
    explanation = greedy.explain(X_positive, np.array([0]))
    assert set(json.loads(explanation.to_json())["meta"]) == {"name", "type", "explanations", "params", "version"}
    assert [*explanation.data] == ["orig", "cf", "target", "condition"]
    for part in ("orig", "cf"):
        assert set(explanation[part]) == {"X", "class"}
        assert explanation[part]["X"].shape == X_positive.shape
        assert explanation[part]["class"].shape == (len(X_positive), 1)
    assert explanation.cf["X"].dtype == X_positive.dtype
    assert explanation.target.tolist() == [[0]] * len(X_positive)
    assert (explanation.name, explanation.explanations) == ("ReLAXTabular", ["local"])


def test_classes_are_those_of_the_predictor_and_constraints_hold(greedy: ReLAXTabular, X_positive: np.ndarray) -> None:
    explanation = greedy.explain(X_positive, np.array([0]))
    assert np.array_equal(explanation.cf["class"][:, 0], predictor(explanation.cf["X"]).argmax(axis=1))
    change = explanation.cf["X"] - explanation.orig["X"]
    assert (explanation.cf["class"] == 0).all()
    assert (change[:, 0] >= 0).all()  # may only rise
    assert (change[:, 2] == 0).all()  # immutable


@pytest.mark.slow
@settings(max_examples=10, deadline=None)
@given(
    fall=st.integers(-30, 0),
    rise=st.integers(0, 30),
    names=st.sets(st.sampled_from(CATEGORIES[1])),
    first=st.integers(0, 40),
)
def test_every_change_keeps_its_condition(greedy, X_positive, fall, rise, names, first) -> None:  # type: ignore[no-untyped-def]
    rows = X_positive[first : first + 4]
    condition = {"Hours per week": [fall, rise], "Workclass": sorted(names)}
    explanation = greedy.explain(rows, np.array([0]), [{}, condition, {}, condition][: len(rows)])
    change = explanation.cf["X"] - explanation.orig["X"]
    assert ((fall <= change[1::2, 4]) & (change[1::2, 4] <= rise)).all()
    assert {CATEGORIES[1][code] for code in explanation.cf["X"][1::2, 1][change[1::2, 1] != 0]} <= names
    assert np.array_equal(explanation.cf["X"][::2], greedy.explain(rows, np.array([0])).cf["X"][::2])
    assert np.array_equal(explanation.cf["class"][:, 0], predictor(explanation.cf["X"]).argmax(axis=1))


def test_shares_in_ranges_bound_the_change(X_positive: np.ndarray) -> None:
    made = ReLAXTabular(
        predictor, feature_names=FEATURES, ranges={"Capital Gain": [-0.2, 0.1], "Age": [0, 0]}, explainer="greedy"
    )
    explanation = made.fit(X_train).explain(X_positive[:15], np.array([0]))
    change = explanation.cf["X"] - explanation.orig["X"]
    assert -0.2 * np.ptp(X_train[:, 3]) <= change[:, 3].min() < 0
    assert (change[:, 0] == 0).all()


@pytest.mark.slow
def test_row_without_counterfactual_is_given_unchanged_with_its_own_class(
    greedy: ReLAXTabular, X_positive: np.ndarray, caplog: pytest.LogCaptureFixture
) -> None:
    nothing = [{"Age": [0, 0], "Capital Gain": [0, 0], "Hours per week": [0, 0], "Workclass": []}]
    explanation = greedy.explain(X_positive[:3], np.array([0]), nothing)
    assert np.array_equal(explanation.cf["X"], X_positive[:3])
    assert (explanation.cf["class"] == 1).all()
    assert (explanation.counterfactuals.status == "no feature of it may change").all() and "3 of 3 rows" in caplog.text
    assert greedy.explain(X_positive[:1], [0], nothing, diversity=True).cf["X"].shape == (0, 5)
    narrow = greedy.explain(X_positive, [0], [{"Capital Gain": [0, 0], "Workclass": []}])
    unsolved = ~narrow.counterfactuals.found[:, 0]
    assert (narrow.counterfactuals.values[unsolved, 0] != X_positive[unsolved]).any()  # a closest attempt, not given
    assert np.array_equal(narrow.cf["X"][unsolved], X_positive[unsolved])


def test_targets_may_be_positions_or_distributions_and_differ_by_row() -> None:
    rows = tiny.gaussian_rows(60)
    made = ReLAXTabular(tiny.three_class_probabilities, explainer="greedy").fit(rows)
    wanted = np.arange(9) % 3
    explanation = made.explain(rows[:9], wanted)
    assert np.array_equal(explanation.cf["class"][:, 0], wanted)
    assert np.array_equal(made.explain(rows[:9], np.eye(3)[wanted]).cf["X"], explanation.cf["X"])


def test_without_target_any_other_class_will_do_and_rows_with_the_same_limits_are_explained_together(
    greedy: ReLAXTabular, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, explain = [], greedy.explainer_.explain
    monkeypatch.setattr(greedy.explainer_, "explain", lambda X, **said: calls.append(len(X)) or explain(X, **said))
    rows = census(20, 2)
    explanation = greedy.explain(rows, C=[{"Workclass": ["Private"]}, {}] * 10)
    assert calls == [10, 10]
    assert explanation.target is None and (explanation.cf["class"] != explanation.orig["class"]).all()
    assert np.array_equal(explanation.cf["X"][1::2], greedy.explain(rows[1::2]).cf["X"])  # in the order of the rows


def test_reset_predictor_asks_the_new_model_and_leaves_a_given_explainer_alone(X_positive: np.ndarray) -> None:
    fitted = make_explainer("greedy", predictor).fit(census(200, 3))
    made = ReLAXTabular(explainer=fitted)
    before = made.explain(X_positive[:10])
    made.reset_predictor(lambda x: predictor(x)[:, ::-1])
    after = made.explain(X_positive[:10])
    assert np.array_equal(after.orig["class"], 1 - before.orig["class"])
    assert np.array_equal(after.cf["class"][:, 0], predictor(after.cf["X"])[:, ::-1].argmax(axis=1))
    assert np.array_equal(fitted.explain(X_positive[:10]).before, before.orig["class"][:, 0])
    with pytest.raises(InputError, match="classes"):
        made.reset_predictor(lambda x: np.column_stack([predictor(x), np.zeros(len(x))]))


@pytest.mark.parametrize("name", ["greedy", "nearest-ct"])
def test_after_a_reset_the_new_model_is_explained_as_well_as_by_a_fresh_explainer(name: str) -> None:
    turned = lambda x: predictor(x)[:, ::-1]  # noqa: E731
    rows = census(200, 3)
    for made in (ReLAXTabular(explainer=make_explainer(name, predictor)), ReLAXTabular(predictor, explainer=name)):
        made.reset_predictor(turned)
        assert np.array_equal(made.fit(rows).explain(rows[:10]).orig["class"][:, 0], turned(rows[:10]).argmax(axis=1))
    made = ReLAXTabular(predictor, explainer=name).fit(rows)
    made.reset_predictor(turned)
    fresh = make_explainer(name, turned).fit(rows).explain(rows[:30])
    assert made.explain(rows[:30]).counterfactuals.found.mean() == fresh.found.mean() == 1.0


def test_one_condition_need_not_be_in_a_list(greedy: ReLAXTabular, X_positive: np.ndarray) -> None:
    alone = greedy.explain(X_positive[:5], C={"Age": [0, 20]})
    assert np.array_equal(alone.cf["X"], greedy.explain(X_positive[:5], C=[{"Age": [0, 20]}]).cf["X"])
    with pytest.raises(InputError, match="C says 5 of 'Age'"):
        greedy.explain(X_positive[:5], C={"Age": 5})


def test_fitted_explainer_with_named_classes_is_answered_in_positions() -> None:
    frame = tiny.mixed_rows()
    fitted = make_explainer("nearest-ct", tiny.mixed_labels).fit(frame)
    made = ReLAXTabular(explainer=fitted)
    explanation = made.explain(frame.iloc[:6].to_numpy(), np.array([1]))
    assert np.array_equal(made.explain(frame.iloc[:6], np.array([1])).cf["X"], explanation.cf["X"])
    assert set(explanation.orig["class"][:, 0]) == {0, 1}
    assert (explanation.cf["class"][explanation.counterfactuals.found[:, 0], 0] == 1).all()
    assert explanation.cf["X"].dtype == object


def column(x: np.ndarray) -> np.ndarray:
    return tiny.numbers(x)[:, None]


@pytest.mark.parametrize("model", [column, BlackBox(tiny.numbers, task="regression")], ids=["(n, 1)", "BlackBox"])
def test_regressor_comes_near_the_numbers_of_its_targets(model: object) -> None:
    rows = tiny.gaussian_rows(100)
    made = ReLAXTabular(model, explainer="greedy", options={"goal": Goal.shift(1.5)}).fit(rows)
    explanation = made.explain(rows[:10])
    np.testing.assert_allclose(explanation.cf["class"][:, 0], tiny.numbers(explanation.cf["X"]))
    assert (np.abs(explanation.cf["class"] - explanation.orig["class"]) >= 1.5).all()
    assert explanation.orig["class"].shape == (10, 1)
    wanted = np.linspace(-0.5, 0.5, 10).reshape(-1, 1)
    explanation = made.explain(rows[:10], wanted)
    found = explanation.counterfactuals.found[:, 0]
    assert found.mean() > 0.5
    spread = np.std(tiny.numbers(rows))
    assert (np.abs(column(explanation.cf["X"]) - wanted)[found] <= spread / 10 + 1e-9).all()
    assert np.array_equal(explanation.target, wanted)
    near = ReLAXTabular(model, explainer="greedy", options={"goal": Goal.shift(1.5)}, tolerance=0.01).fit(rows)
    explanation = near.explain(rows[:10], np.array([0.2]))
    found = explanation.counterfactuals.found[:, 0]
    assert (np.abs(column(explanation.cf["X"]) - 0.2)[found] <= 0.01 + 1e-9).all()
    for wrong in ([0.1, 0.2], [np.nan]):
        with pytest.raises(GoalError, match="one number to reach"):
            made.explain(rows[:10], np.array(wrong))
    with pytest.raises(GoalError, match="tolerance is -1"):
        ReLAXTabular(explainer=made.explainer_, tolerance=-1.0).explain(rows[:2], np.array([0.2]))


def test_regressor_without_a_goal_moves_half_a_standard_deviation() -> None:
    rows = tiny.gaussian_rows(100)
    made = ReLAXTabular(column, explainer="greedy").fit(rows)
    explanation = made.explain(rows[:10])
    found = explanation.counterfactuals.found[:, 0]
    assert found.any()
    moved = np.abs(explanation.cf["class"] - explanation.orig["class"])[found]
    assert (moved >= np.std(tiny.numbers(rows)) / 2 - 1e-9).all()
    made.reset_predictor(lambda x: 2.0 * column(x))
    np.testing.assert_allclose(made.explain(rows[:3]).orig["class"], 2.0 * column(rows[:3]))


def test_what_cannot_be_meant_is_refused(greedy: ReLAXTabular, X_positive: np.ndarray) -> None:
    for wrong in ([2], [0, 0], [-1]):
        with pytest.raises(ValueError, match="position"):
            greedy.explain(X_positive[:3], wrong)
    with pytest.raises(UnknownNameError, match="did you mean 'Age'"):
        greedy.explain(X_positive[:3], C=[{"age": [0, 1]}])
    with pytest.raises(UnknownNameError, match="did you mean 'Private'"):
        greedy.explain(X_positive[:3], C=[{"Workclass": ["private"]}])
    for wrong in ([5, -5], [5, 20], [-20, -5]):
        with pytest.raises(ValueError, match=r"'Age' change by \[.*0, must be in it"):
            greedy.explain(X_positive[:3], C=[{"Age": wrong}])
    with pytest.raises(ValueError, match="2 conditions for 3 rows"):
        greedy.explain(X_positive[:3], C=[{}, {}])
    with pytest.raises(NotFittedError):
        ReLAXTabular(predictor).explain(X_positive)
    with pytest.raises(InputError, match="feature_names"):
        ReLAXTabular(predictor, ranges={"Age": [0, 1]})
    with pytest.raises(InputError, match="its own model"):
        ReLAXTabular(predictor, explainer=greedy.explainer_)
    with pytest.raises(InputError, match="no explanation"):
        Explanation.from_json("[]")


@pytest.mark.parametrize("host", ["alibi", "carla"])
def test_host_is_never_imported(host: str) -> None:
    source = (Path(__file__).parents[2] / "adapters" / f"{host}.py").read_text()
    assert not re.search(rf"^\s*(import|from) {host}\b", source, re.MULTILINE)
    assert re.search(r"^\s*(import|from) relax_plugin\b", source, re.MULTILINE)
