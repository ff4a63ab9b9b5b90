"""ReLAX explains: what each effort may cost, what each stage finds, Local beside Global, and saved files."""

import json
import os
import pickle
import struct
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
import torch
from reference import tiny
from reference.tiny import QUICK, Counting, gaussian_rows, two_class_labels, two_class_probabilities
from safetensors.torch import save_file
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from relax_plugin import BlackBox, FeatureSpace, Goal, ReLAX
from relax_plugin.agent.local import explain_locally
from relax_plugin.agent.starts import around
from relax_plugin.errors import InputError, ModelError, NotFittedError, SavedFileError
from relax_plugin.problem import Problem
from relax_plugin.search.beam import Budget, guided_search

ROWS = gaussian_rows()
QUERIES = gaussian_rows(40, seed=7)
CONFIG = replace(QUICK, steps=30)


def fitted(model=two_class_probabilities, rows=ROWS, config=CONFIG, **options):
    return ReLAX(model, config=config, progress=False, **{"max_changes": 3, **options}).fit(rows)


def with_effort(explainer, effort):
    """The same agent with another effort."""
    explainer.effort = effort
    return explainer


@pytest.fixture(scope="module")
def two_class():
    """An agent for any effort: it is trained as one that is followed alone."""
    return fitted(Counting(two_class_probabilities), config=replace(CONFIG, sight="near"))


# Effort


@pytest.mark.slow
@pytest.mark.parametrize("max_changes", [1, 3])
def test_the_policy_asks_at_most_max_changes_times(max_changes):
    model = Counting(two_class_probabilities)
    explainer = fitted(model, effort="policy", max_changes=max_changes)
    model.forget()
    found = explainer.explain(QUERIES)
    assert 3 <= model.calls <= 1 + max_changes + 1  # the queries, the path, the confirmation
    assert (found.rows_queried <= 1 + max_changes + 1).all()
    assert set(found.stage[found.found]) == {"policy"}
    np.testing.assert_array_equal(model.seen[0], QUERIES)
    np.testing.assert_array_equal(model.seen[-1], found.frame[explainer.space_.names].to_numpy())


@pytest.mark.slow
def test_refined_is_never_less_sparse_nor_farther_than_the_policy(two_class):
    policy = with_effort(two_class, "policy").explain(QUERIES)
    refined = with_effort(two_class, "refined").explain(QUERIES)
    np.testing.assert_array_equal(policy.found, refined.found)
    both = policy.found[:, 0]
    assert both.mean() > 0.7
    assert (refined.sparsity[both] <= policy.sparsity[both]).all()
    assert (refined.proximity[both] <= policy.proximity[both] + 1e-12).all()
    assert (refined.proximity[both] < policy.proximity[both]).mean() > 0.5
    assert set(refined.stage[refined.found]) == {"refined"}


@pytest.mark.slow
@pytest.mark.parametrize("actions", ["directional", "signed"])
@pytest.mark.parametrize("model", [two_class_probabilities, two_class_labels, tiny.three_class_probabilities])
def test_the_search_contains_the_path_of_the_policy(model, actions):
    """Even of a badly trained policy: what the path solves the search solves, with no more changes."""
    explainer = fitted(model, config=replace(QUICK, steps=4, actions=actions), fallback=False, rows_per_instance=12)
    policy = with_effort(explainer, "policy").explain(QUERIES)
    search = with_effort(explainer, "search").explain(QUERIES)
    solved = policy.found[:, 0]
    assert 0.05 < solved.mean() < 1.0 or model is tiny.three_class_probabilities
    assert search.found[solved, 0].all()
    assert (search.sparsity[solved] <= policy.sparsity[solved]).all()
    assert set(search.stage[search.found]) == {"search"}


class Stubborn:
    """A ranking that knows the way (x0, x1, x2 up), and holds what only seems to lead there second."""

    exact = False

    def __init__(self, observer):
        self.observer = observer

    def rank(self, episodes):
        allowed = self.observer.allowed(episodes)
        value = np.tile(np.linspace(-1.0, -2.0, allowed.shape[1]), (len(allowed), 1))
        for worth, feature in ((9.0, 0), (8.9, 1), (8.8, 2)):
            value[:, 2 * feature] = worth
        first = np.where(allowed, value, -np.inf).argmax(axis=1)
        value[:, [6, 8, 10]] = 8.95  # x3, x4, x5 up: ahead of all but the next step of the way
        value[np.arange(len(value)), first] = 9.5
        return np.where(allowed, value, -np.inf), np.ones(allowed.shape)


def deceptive(rows):
    """Class 1 only where x0, x1 and x2 are all high; each of them alone seems to lead away, the others closer."""
    x = np.asarray(rows, dtype=np.float64)
    right = (x[:, :3] > 0.5).sum(axis=1)
    positive = np.where(right == 3, 0.9, 0.3 - 0.1 * right + 0.05 * np.tanh(x[:, 3:6]).sum(axis=1) / 3)
    return np.column_stack([1.0 - positive, positive])


@pytest.mark.slow
def test_the_beam_keeps_the_path_of_the_policy_where_the_score_speaks_against_it():
    rows = gaussian_rows(200, 6)
    explainer = fitted(deceptive, rows, config=replace(QUICK, steps=1))
    problem = problem_of(explainer, np.minimum(rows[:20], 0.0))
    values, met = guided_search(problem, Stubborn(explainer.observer_), explainer.observer_, Budget.of(8))
    assert met.all()
    assert ((values != problem.start).sum(axis=1) == 3).all()


def needs_three(rows):
    """Class 1 only where three of the columns are high: no single change comes nearer by the score."""
    x = np.asarray(rows, dtype=np.float64)
    high = (x[:, :5] > 0.5).sum(axis=1)
    positive = np.where(high >= 3, 0.9, 0.1 + 0.01 * high)
    return np.column_stack([1.0 - positive, positive])


def test_the_fallback_solves_what_the_search_cannot():
    rows = gaussian_rows(300, 12)
    queries = rows[needs_three(rows)[:, 1] < 0.5][:40]
    untrained = replace(QUICK, steps=1, learning_rate=0.0, training="model")
    options = {"config": untrained, "rows_per_instance": 8, "max_changes": 3}
    without = fitted(needs_three, rows, fallback=False, **options).explain(queries)
    found = fitted(needs_three, rows, **options).explain(queries)
    assert not without.found.all()
    assert found.found.all()
    stages = set(found.stage[~without.found])
    assert stages - {"wide search"} and stages <= {"wide search", "greedy", "near row"}
    assert set(found.stage[without.found]) == {"search"}
    dearer = found.rows_queried[np.isin(found.stage[:, 0], ["greedy", "near row"])].min()
    assert dearer > found.rows_queried[found.stage[:, 0] == "search"].max()


@pytest.mark.slow
def test_the_status_says_how_many_changes_would_do():
    rows = gaussian_rows(300, 6)
    count = (rows[:, :5] > 0.5).sum(axis=1)
    queries = rows[count <= 2][:60]
    found = fitted(needs_three, rows, max_changes=2).explain(queries)
    missing = 3 - (queries[:, :5] > 0.5).sum(axis=1)
    np.testing.assert_array_equal(found.found[:, 0], missing <= 2)
    assert (missing == 3).sum() > 5
    for status, needed in zip(found.status[:, 0], missing, strict=True):
        if needed == 3:
            assert status == "none was found within 2 changes; 3 would do"
        else:
            assert status == "found"


@pytest.mark.slow
def test_rows_that_nothing_can_flip_are_reported_with_their_closest_attempt():
    def stubborn(rows):
        x = np.asarray(rows, dtype=np.float64)
        positive = np.where(x[:, 0] > 1.0, 0.9, 0.2 + 0.05 * np.tanh(x[:, 1]))
        return np.column_stack([1.0 - positive, positive])

    queries = QUERIES[QUERIES[:, 0] < 1.0][:10]
    found = fitted(stubborn).explain(queries, vary=["x1", "x2"])
    assert not found.found.any()
    assert set(found.status[:, 0]) == {"none was found within 3 changes"}
    assert (found.values[:, 0, 1] > queries[:, 1]).all()  # what came closest, and within `vary`
    assert (found.values[:, 0, [0, 3]] == queries[:, [0, 3]]).all()


# Where an agent is trained

AS_LONG_AS_IT_PAYS = replace(QUICK, steps=None)


@pytest.mark.slow
def test_for_a_search_no_agent_is_trained_where_imagination_finds_answers():
    explainer = fitted(config=AS_LONG_AS_IT_PAYS)
    assert not explainer.history_.rows and explainer.fit_rows_ <= 1000
    assert "the agent was not trained, since looking one step ahead solves" in explainer.training_
    found = explainer.explain(QUERIES)
    assert found.found.all() and set(found.stage.ravel()) == {"search"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "options", [{"config": QUICK}, {"effort": "policy"}, {"effort": "refined"}, {"variant": "local"}]
)
def test_an_agent_is_trained_where_it_is_asked_for_or_followed(options):
    explainer = fitted(**({"config": AS_LONG_AS_IT_PAYS} | options))
    assert explainer.history_.rows and "not trained" not in explainer.training_


@pytest.mark.slow
def test_for_a_search_an_agent_is_trained_where_imagination_leaves_rows_unsolved():
    """One change is too few for most rows: the world model says so, and the agent is given a chance."""

    def by_many(rows):
        positive = 1.0 / (1.0 + np.exp(-4.0 * (np.tanh(3.0 * np.asarray(rows)).sum(axis=1) - 1.0)))
        return np.column_stack([1.0 - positive, positive])

    explainer = fitted(by_many, max_changes=1, config=AS_LONG_AS_IT_PAYS)
    assert explainer.history_.rows, explainer.training_


@pytest.mark.slow
@pytest.mark.parametrize("change", [{"effort": "policy"}, {"effort": "refined"}, {"variant": "local"}])
def test_an_agent_that_was_not_trained_is_followed_with_a_warning(change):
    explainer = fitted(config=AS_LONG_AS_IT_PAYS).set_params(**change)
    with pytest.warns(UserWarning, match="was not trained; fit again with effort="):
        explainer.explain(QUERIES[:3])


# Books


@pytest.mark.slow
@pytest.mark.parametrize("model", [two_class_probabilities, two_class_labels])
@pytest.mark.parametrize(
    ("variant", "effort", "n"),
    [("global", "policy", 1), ("global", "refined", 1), ("global", "search", 3), ("local", "search", 2)],
)
def test_rows_queried_are_the_rows_the_model_saw(variant, effort, n, model):
    counting = Counting(model)
    explainer = fitted(counting, variant=variant, effort=effort, config=replace(QUICK, steps=4))
    counting.forget()
    found = explainer.explain(QUERIES[:12], n=n)
    assert found.rows_queried.sum() == counting.rows
    assert (found.rows_queried >= 2).all()


@pytest.mark.slow
def test_rows_queried_count_fine_tuning_cut_short():
    counting = Counting(two_class_probabilities)
    explainer = fitted(counting, variant="local", config=replace(QUICK, steps=4, local_steps=10**5, seconds=0.2))
    counting.forget()
    assert explainer.explain(QUERIES[:3]).rows_queried.sum() == counting.rows


class Tied(ClassifierMixin, BaseEstimator):
    """Answers 0, 1/2 or 1, and `predict` says 1 at one half: both methods must be asked."""

    def __init__(self):
        self.classes_, self.rows = np.array([0, 1]), 0

    def predict(self, X):
        self.rows += len(X)
        return (X[:, 0] + X[:, 1] > -0.5).astype(int)

    def predict_proba(self, X):
        self.rows += len(X)
        positive = np.clip(np.round(X[:, 0] + X[:, 1]) / 2 + 0.5, 0.0, 1.0)
        return np.column_stack([1.0 - positive, positive])


@pytest.mark.slow
@pytest.mark.parametrize(("variant", "effort"), [("global", "policy"), ("global", "search"), ("local", "policy")])
def test_rows_queried_count_both_questions_where_scores_tie(variant, effort):
    model = Tied()
    explainer = fitted(model, variant=variant, effort=effort, config=replace(QUICK, steps=4))
    assert explainer.blackbox_.strict
    model.rows = 0
    found = explainer.explain(QUERIES[:20])
    assert found.rows_queried.sum() == model.rows


# Calls


@pytest.mark.parametrize("effort", ["policy", "search"])
def test_constraints_at_the_call_hold_without_a_new_fit(two_class, effort):
    before = {name: tensor.clone() for name, tensor in two_class.agent_.weights_by_name().items()}
    explainer = with_effort(two_class, effort)
    varied = explainer.explain(QUERIES, vary=["x0", "x3"])
    changed = varied.values[:, 0] != QUERIES
    assert not changed[:, [1, 2]].any() and changed[:, [0, 3]].any()
    assert varied.found.mean() > 0.4
    bounded = explainer.explain(QUERIES, bounds={"x0": (-0.5, 0.5), "x1": (None, 0.2)})
    moved = bounded.values[:, 0] != QUERIES
    assert np.abs(bounded.values[:, 0, 0][moved[:, 0]]).max() <= 0.5
    assert bounded.values[:, 0, 1][moved[:, 1]].max() <= 0.2
    assert bounded.found.mean() > 0.4
    after = explainer.agent_.weights_by_name()
    assert all(torch.equal(before[name], after[name]) for name in before)
    free = explainer.explain(QUERIES)
    assert free.found.mean() >= max(varied.found.mean(), bounded.found.mean())


def test_three_wanted_are_three_distinct(two_class):
    found = with_effort(two_class, "search").explain(QUERIES, n=3)
    assert found.found.shape == (40, 3)
    assert found.found.all(axis=1).mean() > 0.8
    for query in range(40):
        rows = found.values[query][found.found[query]]
        assert len(np.unique(rows, axis=0)) == len(rows)
    named = np.array([frozenset(np.flatnonzero(v != q)) for v, q in zip(found.values[:, 1], QUERIES, strict=True)])
    first = np.array([frozenset(np.flatnonzero(v != q)) for v, q in zip(found.values[:, 0], QUERIES, strict=True)])
    assert (named != first).mean() > 0.8  # other features, not another digit
    labels = two_class_probabilities(found.frame[two_class.space_.names]).argmax(axis=1)
    assert (labels != found.before[found.frame["query_id"]]).all()


def test_a_model_that_answers_labels_only_is_explained():
    found = fitted(two_class_labels).explain(QUERIES)
    assert found.found.mean() > 0.9
    assert found.scores_before is None and found.scores_after is None
    assert (two_class_labels(found.to_array()[found.found]) != two_class_labels(QUERIES)[found.found[:, 0]]).all()


@pytest.mark.slow
def test_three_classes_are_targeted_by_one_agent():
    explainer = fitted(tiny.three_class_probabilities, config=replace(QUICK, steps=60))
    for target in (0, 1, 2):
        found = explainer.explain(QUERIES, goal=Goal.to(target))
        assert (found.after[found.found] == target).all()
        assert found.found.mean() > 0.9
        already = tiny.three_class_probabilities(QUERIES).argmax(axis=1) == target
        np.testing.assert_array_equal(found.status[:, 0] == "the query meets the goal already", already)
    targets = np.arange(40) % 3
    found = explainer.explain(QUERIES, goal=Goal.to(targets))
    assert (found.after[:, 0][found.found[:, 0]] == targets[found.found[:, 0]]).all()
    untargeted = explainer.explain(QUERIES)
    assert untargeted.found.mean() >= found.found.mean()


@pytest.mark.slow
def test_a_regressor_is_shifted():
    found = fitted(BlackBox(tiny.numbers, task="regression"), goal=Goal.shift(2.0)).explain(QUERIES)
    assert found.found.mean() > 0.9
    moved = np.abs(tiny.numbers(found.to_array()[:, 0]) - tiny.numbers(QUERIES))[found.found[:, 0]]
    assert moved.min() >= 2.0


@pytest.mark.slow
def test_same_seed_same_counterfactuals(two_class):
    explainer = with_effort(two_class, "search")
    one, again = explainer.explain(QUERIES, n=2), explainer.explain(QUERIES, n=2)
    refitted = fitted(config=explainer.config).explain(QUERIES, n=2)
    for other in (again, refitted):
        np.testing.assert_array_equal(one.values, other.values)
        np.testing.assert_array_equal(one.found, other.found)


def test_what_is_not_known_is_refused():
    for option in ({"variant": "regional"}, {"effort": "heroic"}, {"rows_per_instance": 3}, {"max_changes": 0}):
        (name,) = option
        with pytest.raises(InputError, match=name):
            fitted(**option)
    for action in (lambda e: e.explain(QUERIES), lambda e: e.save("nowhere")):
        with pytest.raises(NotFittedError, match="fit"):
            action(ReLAX(two_class_probabilities))


def test_a_constant_model_is_warned_about_and_answered_honestly():
    with pytest.warns(UserWarning, match="nothing can be learned"):
        explainer = fitted(lambda rows: np.tile([0.7, 0.3], (len(rows), 1)))
    found = explainer.explain(QUERIES[:4])
    assert not found.found.any()
    np.testing.assert_array_equal(found.values[:, 0], QUERIES[:4])


# ReLAX-Local


@pytest.mark.slow
@pytest.mark.parametrize("effort", ["policy", "refined", "search"])
def test_local_is_never_worse_than_global_on_any_row(effort):
    config = replace(QUICK, steps=6)
    options = {"effort": effort, "config": config, "rows_per_instance": 10, "fallback": False}
    explainer = fitted(variant="local", **options)
    locally = explainer.explain(QUERIES)
    globally = explainer.set_params(variant="global").explain(QUERIES)
    solved = globally.found[:, 0]
    assert locally.found[solved].all()
    better = locally.sparsity[solved] < globally.sparsity[solved]
    as_sparse = locally.sparsity[solved] == globally.sparsity[solved]
    assert (better | (as_sparse & (locally.proximity[solved] <= globally.proximity[solved]))).all()
    won = locally.stage == "local"
    assert won.any()
    same = ~won & locally.found
    np.testing.assert_array_equal(locally.values[same], globally.values[same])


@pytest.mark.slow
def test_local_gains_where_global_is_badly_trained():
    config = replace(QUICK, steps=4, local_steps=40)
    options = {"effort": "policy", "config": config, "max_changes": 2}
    globally = fitted(**options).explain(QUERIES).found.mean()
    assert fitted(variant="local", **options).explain(QUERIES).found.mean() > globally


@pytest.mark.slow
def test_local_starts_from_global_weights():
    """Without a single update to learn from, a pretrained Local walks Global's paths; one from scratch does not."""
    still = replace(QUICK, steps=60, local_learning_rate=0.0, local_steps=4, exploration_start=0.0, exploration_end=0.0)
    explainer = fitted(config=replace(still, learning_rate=3e-3), effort="policy")
    globally = explainer.explain(QUERIES)
    problem = problem_of(explainer, QUERIES)
    weights = explainer.agent_.weights_by_name()
    values, met = explain_locally(problem, explainer.observer_, still, weights, 0)
    np.testing.assert_array_equal(met, globally.found[:, 0])
    np.testing.assert_allclose(values[met], globally.values[:, 0][met], rtol=1e-5, atol=1e-5)
    scratch = replace(still, learning_rate=0.0)
    other, other_met = explain_locally(problem_of(explainer, QUERIES), explainer.observer_, scratch, None, 0)
    assert other_met.mean() < met.mean()
    assert not np.allclose(other[met], values[met])


def problem_of(explainer, queries):
    values, blackbox = explainer.space_.values(queries), explainer.blackbox_
    before = blackbox.ask(values)
    goal = Goal.flip().bind(blackbox, before)
    limits, rows = explainer.space_.limits(), np.zeros(len(values), dtype=np.int64)
    return Problem(explainer.space_, blackbox, values, before, goal, limits, explainer._most_changes(), rows)


@pytest.mark.slow
def test_local_without_pretraining_trains_no_global_agent():
    model = Counting(two_class_probabilities)
    config = replace(QUICK, pretrained=False, local_steps=30)
    explainer = fitted(model, variant="local", config=config)
    assert not explainer.history_.rows
    assert [len(rows) for rows in model.seen].count(config.episodes) == 0
    found = explainer.explain(QUERIES[:10])
    assert found.found.mean() > 0.7
    assert set(found.stage[found.found]) == {"local"}


def test_local_trains_on_points_within_the_radius():
    space = FeatureSpace.infer(ROWS)
    points = around(QUERIES, space, space.limits(), 1.0, 50, np.random.default_rng(0)).reshape(40, 50, 4)
    distance = np.linalg.norm((points - QUERIES[:, None]) / space.scale, axis=2)
    assert distance.max() <= 1.0 + 1e-9
    assert (points[:, 0] == QUERIES).all()
    inside = (np.abs(points[:, 1:]) < 2.0).all(axis=2)  # not cut by the bounds
    share = (distance[:, 1:][inside] <= 0.5).mean()
    assert share == pytest.approx(0.5**4, abs=0.03)  # uniform in the ball


@pytest.mark.slow
def test_local_never_moves_a_row_that_may_not_change():
    """One row has no room left, its neighbour has: the first stays as it is."""
    rows = pd.DataFrame({"grade": pd.Categorical(["a", "b", "c"] * 20, ordered=True), "x": np.linspace(-1, 1, 60)})
    space = FeatureSpace.infer(rows, increase_only=["grade"])

    def model(frame):
        positive = (frame["grade"] == "a").to_numpy() * 0.8 + 0.1
        return np.column_stack([1.0 - positive, positive])

    explainer = fitted(model, rows, variant="local", space=space)
    queries = rows.iloc[[2, 0]]  # c may not become a, a may become b
    found = explainer.explain(queries, vary=["grade"])
    assert found.found[:, 0].tolist() == [False, True]
    assert found.status[0, 0] == "no feature of it may change"
    np.testing.assert_array_equal(found.values[0, 0], space.values(queries)[0])


# Files


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    rows = tiny.mixed_rows()
    explainer = fitted(tiny.mixed_probabilities, rows, space=tiny.mixed_space(rows), rows_per_instance=24)
    path = tmp_path_factory.mktemp("saved") / "agent"
    explainer.save(path)
    return explainer, path


def same_answers(one, other):
    np.testing.assert_array_equal(one.values, other.values)
    np.testing.assert_array_equal(one.found, other.found)
    np.testing.assert_array_equal(one.status, other.status)
    np.testing.assert_array_equal(one.rows_queried, other.rows_queried)


@pytest.mark.slow
def test_loaded_gives_identical_answers(saved):
    explainer, path = saved
    loaded = ReLAX.load(path, model=tiny.mixed_probabilities)
    queries = tiny.mixed_rows(25, seed=3)
    same_answers(explainer.explain(queries, n=2), loaded.explain(queries, n=2))
    frozen = {"vary": ["smooth", "grade"], "goal": Goal.to(1)}
    same_answers(explainer.explain(queries, **frozen), loaded.explain(queries, **frozen))
    assert loaded.space_ == explainer.space_ and loaded.config_ == explainer.config_
    assert loaded.get_params()["rows_per_instance"] == 24
    assert loaded.history_.frame().equals(explainer.history_.frame())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "options"),
    [
        (two_class_labels, {}),
        (two_class_probabilities, {"variant": "local", "effort": "policy"}),
        (BlackBox(tiny.numbers, task="regression"), {"goal": Goal.shift(2.0)}),
        (
            tiny.three_class_probabilities,
            {"goal": Goal.to(np.int64(1)), "seed": np.int64(3), "max_changes": np.int64(2)},
        ),
        (LogisticRegression().fit(ROWS, two_class_labels(ROWS)), {}),
        (DecisionTreeClassifier(max_depth=4).fit(ROWS, np.array(["no", "yes"])[two_class_labels(ROWS)]), {}),
    ],
    ids=["labels only", "local", "regression", "numpy options", "logistic", "tree with text labels"],
)
def test_every_kind_of_model_survives_saving(model, options, tmp_path):
    explainer = fitted(model, config=replace(QUICK, steps=4), **options)
    explainer.save(tmp_path / "agent")
    loaded = ReLAX.load(tmp_path / "agent", model=model)
    assert loaded.training_ == explainer.training_ and loaded.fit_rows_ == explainer.fit_rows_
    assert (loaded.world_model_ is None) == (explainer.world_model_ is None)
    same_answers(explainer.explain(QUERIES[:8]), loaded.explain(QUERIES[:8]))


@pytest.mark.slow
def test_a_torch_module_is_read_as_it_was_when_fitted(tmp_path):
    """One row whose logit lies between 0 and 1 must not make the module look like one that gives probabilities."""
    module = torch.nn.Linear(4, 1)
    with torch.no_grad():
        module.weight.copy_(torch.tensor([[2.0, -1.0, 1.0, 0.5]]))
        module.bias.fill_(0.4)
    centred = ROWS - (ROWS.max(axis=0) + ROWS.min(axis=0)) / 2  # so that the middle row's logit is the bias
    explainer = fitted(module, centred, config=replace(QUICK, steps=4))
    explainer.save(tmp_path / "agent")
    loaded = ReLAX.load(tmp_path / "agent", model=module)
    same_answers(explainer.explain(QUERIES), loaded.explain(QUERIES))
    np.testing.assert_array_equal(explainer.explain(QUERIES).scores_before, loaded.explain(QUERIES).scores_before)


@pytest.mark.slow
def test_the_file_holds_data_and_no_code(saved):
    """Eight bytes, a JSON header, and exactly the numbers the header announces: there is no room for a pickle."""
    _, path = saved
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    metadata = header.pop("__metadata__")
    json.loads(metadata["header"])
    ends = sorted(tuple(tensor["data_offsets"]) for tensor in header.values())
    assert ends[0][0] == 0 and ends[-1][1] == len(content) - 8 - length
    assert all(one[1] == other[0] for one, other in pairwise(ends))
    assert {tensor["dtype"] for tensor in header.values()} <= {"F32", "F64", "I64", "U8"}


def test_a_truncated_file_is_refused(saved, tmp_path):
    _, path = saved
    content = path.read_bytes()
    for length in (0, 5, 100, 2000, len(content) // 2, len(content) - 1):
        (tmp_path / "cut").write_bytes(content[:length])
        with pytest.raises(SavedFileError, match=r"cut off"):
            ReLAX.load(tmp_path / "cut", model=tiny.mixed_probabilities)


def test_a_foreign_file_is_refused(tmp_path):
    foreign = tmp_path / "foreign"
    foreign.write_bytes(pickle.dumps({"weights": [1, 2, 3]}))
    with pytest.raises(SavedFileError, match="no safetensors file"):
        ReLAX.load(foreign, model=tiny.mixed_probabilities)
    foreign.write_text("a letter to my aunt")
    with pytest.raises(SavedFileError, match="no safetensors file"):
        ReLAX.load(foreign, model=tiny.mixed_probabilities)
    save_file({"weight": torch.zeros(2)}, foreign)
    with pytest.raises(SavedFileError, match=r"not written by ReLAX\.save"):
        ReLAX.load(foreign, model=tiny.mixed_probabilities)
    with pytest.raises(SavedFileError, match="there is no file"):
        ReLAX.load(tmp_path / "nothing", model=tiny.mixed_probabilities)


def rewritten(path, target, change):
    """A copy of a saved file with a changed header."""
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    outer = json.loads(content[8 : 8 + length])
    header = json.loads(outer["__metadata__"]["header"])
    outer["__metadata__"]["header"] = change(header)
    text = json.dumps(outer).encode()
    target.write_bytes(struct.pack("<Q", len(text)) + text + content[8 + length :])
    return target


def test_a_newer_version_is_refused(saved, tmp_path):
    newer = rewritten(saved[1], tmp_path / "newer", lambda header: json.dumps({**header, "version": 99}))
    with pytest.raises(SavedFileError, match="version 99; this package reads"):
        ReLAX.load(newer, model=tiny.mixed_probabilities)


@pytest.mark.parametrize(
    "change",
    [
        lambda header: json.dumps(header)[:-20],
        lambda header: json.dumps({name: part for name, part in header.items() if name != "space"}),
        lambda header: json.dumps({**header, "config": {**header["config"], "hidden": 7}}),
        lambda header: json.dumps({**header, "config": {**header["config"], "colour": 7}}),
        lambda header: json.dumps({**header, "inputs": 3}),
        lambda header: json.dumps({**header, "version": "new"}),
        lambda header: json.dumps([header]),
    ],
    ids=["cut JSON", "no space", "other size", "unknown setting", "other inputs", "no number", "a list"],
)
def test_a_damaged_header_is_refused(saved, tmp_path, change):
    with pytest.raises(SavedFileError):
        ReLAX.load(rewritten(saved[1], tmp_path / "damaged", change), model=tiny.mixed_probabilities)


def test_a_file_is_refused_with_another_kind_of_model(saved, tmp_path):
    _, path = saved

    def two_classes(rows):
        return tiny.mixed_probabilities(rows)[:, :2]

    with pytest.raises(SavedFileError, match="classes"):
        ReLAX.load(path, model=two_classes)
    with pytest.raises(SavedFileError, match="answers otherwise"):
        ReLAX.load(path, model=lambda rows: tiny.mixed_probabilities(rows).argmax(axis=1))
    with pytest.raises(SavedFileError, match="answers otherwise"):
        ReLAX.load(path, model=BlackBox(lambda rows: np.zeros(len(rows)), task="regression"))
    with pytest.raises((SavedFileError, ModelError)):
        ReLAX.load(path, model=LogisticRegression().fit(ROWS, two_class_labels(ROWS)))


def test_saving_is_atomic(saved, tmp_path, monkeypatch):
    """Interrupted at any moment, the old file is still there, whole, and nothing lies beside it."""
    explainer, _ = saved
    target = tmp_path / "agent"
    explainer.save(target)
    before = target.read_bytes()
    assert os.listdir(tmp_path) == ["agent"]

    explainer.history_.stopped, kept = object(), explainer.history_.stopped  # no JSON: fails while writing
    try:
        with pytest.raises(SavedFileError, match="of type object cannot be saved"):
            explainer.save(target)
    finally:
        explainer.history_.stopped = kept
    assert target.read_bytes() == before and os.listdir(tmp_path) == ["agent"]

    def ctrl_c(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", ctrl_c)  # after everything is written, before it has its name
        for name in ("agent", "another"):
            with pytest.raises(KeyboardInterrupt):
                explainer.save(tmp_path / name)
    assert target.read_bytes() == before and os.listdir(tmp_path) == ["agent"]
    explainer.save(target)
    assert os.listdir(tmp_path) == ["agent"]


def test_the_model_is_not_in_the_file(saved):
    explainer, path = saved
    weights = (explainer.agent_.weights_by_name(), explainer.world_model_.weights_by_name())
    assert path.stat().st_size < 1.5 * sum(tensor.nbytes for part in weights for tensor in part.values())
    assert b"mixed_probabilities" not in path.read_bytes()
