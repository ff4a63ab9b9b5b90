"""Facts about the judge: what it writes down is computed again here from the raw model, in plain loops."""

import json
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
from reference.misbehaving import TEST_ROWS, announced, small_task
from reference.tiny import Counting, mixed_labels, mixed_probabilities, mixed_rows, mixed_space, two_class_probabilities
from sklearn.linear_model import LinearRegression, LogisticRegression

from relax_plugin import FeatureSpace, Goal, make_explainer
from relax_plugin.errors import InputError
from relax_plugin.evaluation import robustness
from relax_plugin.evaluation.judge import COLUMNS, NEIGHBOURS, Examination, Method, Row, Unit, _prices, judge
from relax_plugin.evaluation.robustness import FIRST_SEED, FIRST_TOLD, REFITS, refit
from relax_plugin.evaluation.tasks import Task

TOLERANCE = 1e-9
CARELESS = ("lying", "lying-on-immutables", "lying-on-changes", "lying-on-the-limit", "overwriting")


@pytest.fixture(scope="module", autouse=True)
def _registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with announced(tmp_path_factory.mktemp("strangers") / "site"):
        yield


def judged(task: Task, method: str, **asked: Any) -> list[Row]:
    return judge(Unit(task, Method.parse(method), seed=0, **asked), task)


def task_of(model: Any, rows: pd.DataFrame, space: FeatureSpace, goal: Goal | None = None, queries: int = 12) -> Task:
    nothing = pd.Series(dtype=float)
    return Task("other/model", model, space, goal, rows[queries:], rows[:queries], nothing, nothing)


def mixed_task(model: Any = mixed_probabilities) -> Task:
    rows = mixed_rows()
    return task_of(model, rows, mixed_space(rows))


def with_changes(row: Row, like: pd.DataFrame, without: str | None = None) -> pd.DataFrame:
    """The counterfactual as the row tells it, as a frame of one; or with one of its changes reverted."""
    cells = json.loads(row["query"])
    cells |= {name: to for name, _, to in json.loads(row["changes"]) if name != without}
    return pd.DataFrame([cells]).astype(like.dtypes.to_dict())


def distance(space: FeatureSpace, first: pd.DataFrame, second: pd.DataFrame) -> list[float]:
    """Standardised L1 of a row to each of others, a changed category counting 1, cell by cell."""
    cells = first[space.names].iloc[0].tolist()
    distances = []
    for others in second[space.names].astype(object).to_numpy().tolist():
        apart = [
            float(one != other) if feature.kind == "categorical" else abs(float(one) - float(other)) / scale
            for feature, scale, one, other in zip(space.features, space.scale.tolist(), cells, others, strict=True)
        ]
        distances.append(sum(apart))
    return distances


# What is written down of an honest method.


@pytest.mark.slow
@pytest.mark.parametrize("method", ["nearest-ct", "greedy", "stepping"])
def test_every_number_of_a_row_follows_from_the_raw_model(method: str) -> None:
    task = small_task()
    rows = judged(task, method)
    assert [row["instance"] for row in rows] == list(range(TEST_ROWS))
    assert any(row["valid"] for row in rows)
    answers, told = task.model.predict(task.X_train), list(task.model.classes_)
    for row, position in zip(rows, range(TEST_ROWS), strict=True):
        query = task.X_test.iloc[[position]]
        assert json.loads(row["query"]) == query.iloc[0].to_dict()
        assert row["before"] == task.model.predict(query)[0]
        if not row["valid"]:
            continue
        changes = json.loads(row["changes"])
        assert [old for _, old, _ in changes] == [query[name].iloc[0] for name, _, _ in changes]
        found = with_changes(row, query)
        assert row["after"] == task.model.predict(found)[0] != row["before"]
        assert (row["claimed"], row["violations"], row["reason"]) == (True, 0, "")
        assert row["sparsity"] == len(changes) == (found.to_numpy() != query.to_numpy()).sum()
        assert row["proximity"] == pytest.approx(*distance(task.space, found, query), abs=TOLERANCE)
        reverted = [with_changes(row, query, without=name) for name, _, _ in changes]
        assert row["redundant"] == sum(task.model.predict(each)[0] == row["after"] for each in reverted)
        box = (found >= task.X_train.min()) & (found <= task.X_train.max())
        assert row["inside_box"] == box.to_numpy().all()
        near = distance(task.space, found, task.X_train[answers == row["after"]])
        assert row["neighbour_distance"] == pytest.approx(np.mean(sorted(near)[:NEIGHBOURS]), abs=TOLERANCE)
        place = told.index(row["after"])
        assert row["probability_before"] == pytest.approx(task.model.predict_proba(query)[0, place], abs=TOLERANCE)
        assert row["probability_after"] == pytest.approx(task.model.predict_proba(found)[0, place], abs=TOLERANCE)
        assert row["stage"] != ""
        assert f"the answer would be {row['after']} instead of {row['before']}" in row["sentence"]


def test_a_row_without_a_counterfactual_says_why_and_has_no_distances() -> None:
    def constant(rows: Any) -> Any:
        return np.tile([0.25, 0.75], (len(rows), 1))

    rows = judged(small_task(model=constant), "nearest-ct")
    assert len(rows) == TEST_ROWS
    for row in rows:
        assert (row["state"], row["claimed"], row["valid"]) == ("ok", False, False)
        assert (row["before"], row["after"], row["stage"], row["changes"]) == ("1", "", "", "[]")
        assert row["reason"].startswith("none was found")
        assert row["reason"] in row["sentence"]
        numbers = ("sparsity", "proximity", "redundant", "inside_box", "neighbour_distance", "probability_after")
        assert all(np.isnan(row[name]) for name in numbers)


def test_every_kind_of_feature_is_told_in_the_users_words() -> None:
    task = mixed_task()
    rows = judged(task, "nearest-ct", max_changes=4)
    valid = [row for row in rows if row["valid"]]
    assert len(valid) > len(rows) / 2
    changed = set()
    for row in valid:
        query = task.X_test.iloc[[row["instance"]]]
        found = with_changes(row, task.X_test)
        changed |= {name for name, _, _ in json.loads(row["changes"])}
        assert str(mixed_probabilities(found).argmax()) == row["after"] != str(mixed_probabilities(query).argmax())
        assert row["sparsity"] == len(json.loads(row["changes"])) <= 4
        assert row["proximity"] == pytest.approx(*distance(task.space, found, query), abs=1e-6)
    assert {"colour", "grade", "member"} & changed
    assert {"smooth", "tenths", "count"} & changed


def test_a_model_of_labels_only_has_no_probabilities() -> None:
    rows = judged(mixed_task(mixed_labels), "nearest-ct")
    assert {row["before"] for row in rows} == {"yes", "no"}
    assert any(row["valid"] for row in rows)
    assert all(np.isnan(row["probability_before"]) and np.isnan(row["probability_after"]) for row in rows)


def test_a_regressor_is_held_to_its_goal() -> None:
    small = small_task()
    model = LinearRegression().fit(small.X_train, small.X_train["income"] * 2 - small.X_train["debt"])
    task = task_of(model, small.X_train, small.space, Goal.shift(1.5))
    rows = judged(task, "greedy")
    assert all(row["valid"] for row in rows)
    for row in rows:
        query, found = task.X_test.iloc[[row["instance"]]], with_changes(row, task.X_test)
        before, after = model.predict(query)[0], model.predict(found)[0]
        assert abs(after - before) >= 1.5 - TOLERANCE
        assert (row["before"], row["after"]) == (f"{before:.6g}", f"{after:.6g}")
        near = sorted(distance(task.space, found, task.X_train))
        assert row["neighbour_distance"] == pytest.approx(np.mean(near[:NEIGHBOURS]), abs=TOLERANCE)


def test_a_goal_that_is_met_already_is_valid_without_a_change() -> None:
    small = small_task()
    task = task_of(small.model, small.X_train, small.space, Goal.to("granted"))
    rows = judged(task, "nearest-ct")
    already = [row for row in rows if row["before"] == "granted"]
    assert 0 < len(already) < len(rows)
    for row in already:
        assert (row["valid"], row["sparsity"], row["proximity"], row["changes"]) == (True, 0, 0.0, "[]")
    assert {row["after"] for row in rows if row["valid"]} == {"granted"}


def test_only_the_first_rows_are_asked_for_and_several_counterfactuals_are_compared() -> None:
    task = small_task()
    rows = judged(task, "greedy", rows=3, n=3)
    assert [(row["instance"], row["instances"], row["features"]) for row in rows] == [(i, 3, 4) for i in range(3)]
    result = make_explainer("greedy", task.model, task.space, seed=0).fit(task.X_train).explain(task.X_test[:3], n=3)
    assert [row["found_count"] for row in rows] == result.found.sum(axis=1).tolist()
    assert max(row["found_count"] for row in rows) > 1
    for query, row in enumerate(rows):
        found = result.frame[result.frame["query_id"] == query][task.space.names]
        pairs = [(i, j) for i in range(len(found)) for j in range(i)]
        distances = [distance(task.space, found.iloc[[i]], found.iloc[[j]])[0] for i, j in pairs]
        expected = np.mean(distances) if distances else np.nan
        assert row["diversity"] == pytest.approx(expected, abs=TOLERANCE, nan_ok=True)


# Costs.


@pytest.mark.slow
@pytest.mark.parametrize("method", ["nearest-ct", "greedy", "move-table"])
def test_model_rows_and_calls_are_those_the_model_saw_and_the_judges_own_are_not_charged(method: str) -> None:
    small, alone = small_task(), Counting(two_class_probabilities)
    explainer = make_explainer(method, alone, small.space, seed=0).fit(small.X_train)
    fit = {"fit_rows": alone.rows, "fit_calls": alone.calls}
    alone.forget()
    explainer.explain(small.X_test)
    explain = {"explain_rows": alone.rows, "explain_calls": alone.calls}
    model = Counting(two_class_probabilities)
    rows = judged(small_task(model=model), method)
    for row in rows:
        assert {name: row[name] for name in fit} == fit
        assert {name: row[name] for name in explain} == explain
    assert sum(row["rows"] for row in rows) == explain["explain_rows"]
    assert model.rows > fit["fit_rows"] + explain["explain_rows"], "the judge asked the model for itself"


@pytest.mark.slow
def test_fit_and_explain_are_timed_apart_on_the_wall_and_on_the_processor() -> None:
    pause = 0.8

    def slow(rows: Any) -> Any:
        time.sleep(0.01)
        return two_class_probabilities(rows)

    row = judged(small_task(model=slow), f"stepping:pause={pause}")[0]
    calls = row["fit_calls"] + row["explain_calls"]
    assert row["fit_seconds"] >= pause > row["fit_cpu"] >= 0, "sleeping takes time and no processor"
    assert row["explain_seconds"] > 0
    assert 0 <= row["explain_cpu"] <= row["explain_seconds"] + 0.05
    assert 0.01 * calls <= row["model_seconds"] < row["fit_seconds"] + row["explain_seconds"] - pause
    assert row["harness_seconds"] > 0


# Trusting nobody.


def test_a_claim_that_the_model_does_not_bear_out_is_found_out() -> None:
    rows = judged(small_task(), "lying")
    assert len(rows) == TEST_ROWS
    for row in rows:
        assert (row["state"], row["claimed"], row["valid"], row["violations"]) == ("ok", True, False, 0)
        assert row["reason"] == "said to be found, but the model's answer does not meet the goal"
        assert row["before"] == row["after"]
        assert row["changes"] == "[]"
        assert np.isnan(row["sparsity"]) and np.isnan(row["proximity"]) and np.isnan(row["redundant"])


def test_a_changed_immutable_feature_is_a_violation_though_the_answer_flips() -> None:
    rows = judged(small_task(), "lying-on-immutables")
    flipped = [row for row in rows if row["after"] != row["before"]]
    assert flipped
    for row in flipped:
        assert (row["claimed"], row["valid"]) == (True, False)
        assert row["violations"] >= 1
        assert row["reason"].startswith("said to be found, but it violates ")


@pytest.mark.slow
@pytest.mark.parametrize("method", ["lying-on-changes", "lying-on-the-limit"])
def test_more_changes_than_asked_for_are_a_violation_whatever_the_explainer_says(method: str) -> None:
    allowed = judged(small_task(), method, max_changes=3)
    assert all(row["valid"] and row["sparsity"] == 3 for row in allowed)
    rows = judged(small_task(), method, max_changes=2)
    assert [(row["claimed"], row["valid"], row["violations"]) for row in rows] == [(True, False, 1)] * TEST_ROWS


def test_rows_that_an_explainer_overwrites_are_judged_as_they_were() -> None:
    task = small_task()
    rows = judged(task, "overwriting")
    assert [json.loads(row["query"]) for row in rows] == small_task().X_test.to_dict("records")
    assert all(row["claimed"] and row["violations"] > 0 for row in rows), "held against zeros nothing would be broken"
    pd.testing.assert_frame_equal(task.X_train, small_task().X_train)


@pytest.mark.slow
@pytest.mark.parametrize("method", CARELESS)
def test_lies_change_nothing_of_what_an_honest_method_gets(method: str) -> None:
    task = small_task()
    before = judged(task, "nearest-ct")
    judged(task, method)
    after = judged(task, "nearest-ct")
    timed = [name for name in COLUMNS if name.endswith(("seconds", "cpu"))]
    frames = [pd.DataFrame(rows).drop(columns=timed) for rows in (before, after)]
    pd.testing.assert_frame_equal(*frames, check_exact=True)


# Methods by name.


def test_a_method_is_written_with_its_options() -> None:
    method = Method.parse("relax-global:effort=policy,max_queries=120,refined=False,goal=None")
    assert method.explainer == "relax-global"
    assert method.label == "relax-global:effort=policy,max_queries=120,refined=False,goal=None"
    assert method.options == {"effort": "policy", "max_queries": 120, "refined": False, "goal": None}
    assert Method.parse("greedy") == Method("greedy", "greedy", {})


@pytest.mark.parametrize("text", ["greedy:quantiles", "greedy:=3", "greedy:quantiles=3,", "greedy:,"])
def test_an_option_that_is_not_written_as_such_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="write name:option=value,option=value"):
        Method.parse(text)


def test_the_limit_of_changes_is_for_every_method_that_has_none_of_its_own() -> None:
    task = small_task()
    assert max(row["sparsity"] for row in judged(task, "nearest-ct", max_changes=1) if row["valid"]) == 1
    own = [row["sparsity"] for row in judged(task, "nearest-ct:max_changes=3", max_changes=1) if row["valid"]]
    assert max(own) > 1


def test_a_method_that_does_not_apply_is_one_row_with_the_reason_and_the_size() -> None:
    (row,) = judged(small_task(), "inapplicable", rows=5)
    assert tuple(row) == COLUMNS
    assert (row["state"], row["instance"], row["instances"], row["features"]) == ("skipped", -1, 5, 4)
    assert row["reason"] == "skipped because it explains regression only, and the model is for classification."
    (row,) = judged(small_task(), "extra")
    assert (row["state"], row["valid"]) == ("skipped", False)
    assert row["reason"] == "skipped because this method needs luck: pip install 'stranger[luck]'."


def test_model_rows_are_the_judges_count_where_a_method_tells_others() -> None:
    task = small_task()
    queries = task.X_test
    result = make_explainer("greedy", task.model, task.space).fit(task.X_train).explain(queries, n=2)
    asked = float(result.rows_queried.sum())
    honest = Examination(task, queries, result, None, asked).rows()
    assert [row["rows"] for row in honest] == result.rows_queried.tolist()
    result.rows_queried = np.zeros_like(result.rows_queried)
    assert {row["rows"] for row in Examination(task, queries, result, None, asked).rows()} == {asked / len(queries)}


def test_every_one_of_several_counterfactuals_is_asked_of_the_model_again() -> None:
    task = small_task()
    queries = task.X_test
    result = make_explainer("greedy", task.model, task.space).fit(task.X_train).explain(queries, n=3)
    told = [row["found_count"] for row in Examination(task, queries, result, None, 0.0).rows()]
    assert told == result.found.sum(axis=1).tolist()
    assert max(told) > 1
    result.values[:, 1:] = result.start[:, None]  # what is said to be a second one is the query itself
    del result.__dict__["frame"], result.__dict__["delivered"]
    rows = Examination(task, queries, result, None, 0.0).rows()
    assert [row["found_count"] for row in rows] == result.found[:, 0].astype(int).tolist()
    assert all(np.isnan(row["diversity"]) for row in rows)


@pytest.mark.slow
def test_the_judge_measures_cost_at_the_prices_whether_a_method_was_told_them_or_not() -> None:
    task = mixed_task()
    prices = _prices(Unit(task, Method.parse("greedy"), 0, prices="told"), task.space)
    free = [feature.name for feature in task.space.features if not feature.immutable]
    assert len(prices) == len(free) // 2
    assert set(prices.values()) == {10.0}
    assert not _prices(Unit(task, Method.parse("greedy"), 0), task.space)
    told, hidden, plain = (judged(task, "greedy", prices=prices) for prices in ("told", "hidden", ""))
    for row in (*told, *hidden):
        scales = dict(zip(task.space.names, task.space.scale.tolist(), strict=True))
        kinds = {feature.name: feature.kind for feature in task.space.features}
        cost = sum(
            prices.get(name, 1.0) * (1.0 if kinds[name] == "categorical" else abs(to - since) / scales[name])
            for name, since, to in json.loads(row["changes"])
        )
        assert row["proximity"] == pytest.approx(cost)
    assert [row["changes"] for row in hidden] == [row["changes"] for row in plain]
    assert sum(row["proximity"] for row in told) <= sum(row["proximity"] for row in hidden)


def logistic_task(queries: int = 12) -> Task:
    """A model that can be fitted again, of two numbers."""
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(rng.normal(size=(150, 2)).round(2), columns=["x", "y"])
    labels = pd.Series((rows["x"] + rows["y"] > 0).astype(int))
    model = LogisticRegression().fit(rows[queries:], labels[queries:])
    space = FeatureSpace.infer(rows[queries:])
    return Task("two/logistic", model, space, None, rows[queries:], rows[:queries], labels[queries:], labels[:queries])


@pytest.mark.slow
def test_plausible_lasting_and_stable_are_told_beside_real_rows() -> None:
    task = logistic_task()
    rows = judged(task, "nearest-ct", metrics="all")
    training = task.X_train.to_numpy()
    models = [refit(task, FIRST_SEED + number) for number in range(REFITS)]
    scale = training.std(axis=0)
    for row in rows:
        found = with_changes(row, task.X_test)
        nearest = np.argsort(np.abs((training - found.to_numpy()) / scale).sum(axis=1))[:NEIGHBOURS]
        share = np.mean([str(label) == row["after"] for label in task.model.predict(task.X_train.iloc[nearest])])
        assert row["ynn"] == pytest.approx(share)
        again = np.mean([str(model.predict(found)[0]) != row["before"] for model in models])
        assert row["lasting"] == pytest.approx(again)
        assert (row["local_outlier"], row["unseen_cells"]) == (0.0, 0.0), "it is a training row"
        assert row["cost"] == pytest.approx(row["proximity"])
    real = [model.predict(task.X_test) == task.model.predict(task.X_test) for model in models]
    assert [row["real_lasting"] for row in rows] == pytest.approx([np.mean(real)] * len(rows))
    assert all(0.0 <= row["real_local_outlier"] <= 0.3 and 0.5 < row["real_ynn"] <= 1.0 for row in rows)
    moved = [row["noise_distance"] for row in rows if not np.isnan(row["noise_distance"])]
    assert len(moved) > len(rows) / 2 and min(moved) >= 0.0


@pytest.mark.slow
def test_answers_that_are_training_rows_mostly_stay_the_same_under_noise() -> None:
    rows = judged(logistic_task(), "nearest-ct:reverted=False", metrics="all", max_changes=None)
    alike = [row for row in rows if not np.isnan(row["noise_distance"])]
    assert sum(row["noise_distance"] == 0.0 for row in alike) > len(alike) / 2, "most have the same nearest row still"


def test_what_is_dear_is_left_out_by_default() -> None:
    rows = judged(logistic_task(), "nearest-ct")
    for row in rows:
        assert np.isnan(row["lasting"]) and np.isnan(row["noise_distance"]) and np.isnan(row["real_lasting"])
        assert not np.isnan(row["ynn"]) and not np.isnan(row["isolated"])


@pytest.mark.slow
def test_a_number_of_further_models_is_fitted_again_for_the_method_none_of_those_that_judge(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    task, seeds = small_task(), []
    monkeypatch.setattr(robustness, "refit", lambda task, seed: seeds.append(seed) or refit(task, seed))
    told = judged(task, "relax-global:also=2")
    assert seeds == [FIRST_TOLD, FIRST_TOLD + 1]
    assert not {*seeds} & {FIRST_SEED + number for number in range(REFITS)}
    models = [refit(task, seed) for seed in seeds]
    for row in told:
        if row["valid"]:
            changed = with_changes(row, task.X_test)
            assert {str(model.predict(changed)[0]) for model in models} == {row["after"]}
    with pytest.raises(InputError, match="also is 0; a benchmark takes a number of models"):
        judged(task, "relax-global:also=0")


def test_a_model_that_cannot_be_fitted_again_skips_who_asks_for_it() -> None:
    (row,) = judged(mixed_task(), "relax-global:also=2")
    assert row["state"] == "skipped" and "cannot be fitted again" in row["reason"]
