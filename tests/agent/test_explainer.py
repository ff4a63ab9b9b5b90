"""ReLAX explains: what each effort may cost, what each stage finds, Local beside Global, and saved files."""

import json
import os
import pickle
import struct
import subprocess
import sys
import time
from dataclasses import replace
from itertools import pairwise

import joblib
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
from relax_plugin.search.explainer import CounterfactualSearch

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
    """An agent for any effort."""
    return fitted(Counting(two_class_probabilities))


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
    assert set(found.stages[found.found]) == {"policy"}
    np.testing.assert_array_equal(model.seen[0], QUERIES)
    np.testing.assert_array_equal(model.seen[-1], found.frame[explainer.space_.names].to_numpy())


@pytest.mark.slow
def test_refined_costs_few_evaluations_and_is_never_less_sparse_than_the_policy(two_class):
    policy = with_effort(two_class, "policy").explain(QUERIES)
    refined = with_effort(two_class, "refined").explain(QUERIES)
    both = policy.found[:, 0]
    assert both.mean() > 0.7 and refined.found[both].all()
    assert (refined.sparsity[both] <= policy.sparsity[both]).all()
    assert refined.proximity[both].sum() < policy.proximity[both].sum()
    assert (refined.stages[refined.found] == "agent").mean() > 0.9
    assert np.median(refined.rows_queried) <= 2 + 3 * (4 + 1) + 8


def better(one, other):
    """Whether each first counterfactual is found where the other is not, or is sparser, or as sparse and closer."""
    found, sparsity, proximity = (
        [getattr(each, name)[:, 0] for each in (one, other)] for name in ("found", "sparsity", "proximity")
    )
    both = found[0] & found[1]
    closer = (sparsity[0] < sparsity[1]) | ((sparsity[0] == sparsity[1]) & (proximity[0] < proximity[1] - 1e-12))
    return (found[0] & ~found[1]) | (both & closer)


@pytest.mark.slow
@pytest.mark.parametrize("max_queries", [None, 120])
@pytest.mark.parametrize("actions", ["directional", "signed"])
@pytest.mark.parametrize("model", [two_class_probabilities, two_class_labels, tiny.three_class_probabilities])
def test_the_search_is_behind_neither_the_agent_nor_the_search_without_one(model, actions, max_queries):
    """Even with a badly trained agent; where the number of evaluations is limited, the engine takes them first."""
    config = replace(QUICK, steps=4, actions=actions)
    explainer = fitted(model, config=config, max_queries=max_queries)
    without = CounterfactualSearch(model, max_changes=3, max_queries=max_queries).fit(ROWS).explain(QUERIES)
    search = with_effort(explainer, "search").explain(QUERIES)
    assert not better(without, search).any()
    if max_queries is None:
        assert not better(with_effort(explainer, "refined").explain(QUERIES), search).any()
    else:
        assert (search.rows_queried <= max_queries).all()
    assert set(search.stages[search.found]) <= {"agent", "greedy", "near row"}


def needs_three(rows):
    """Class 1 only where three of the columns are high: no single change comes nearer by the score."""
    x = np.asarray(rows, dtype=np.float64)
    high = (x[:, :5] > 0.5).sum(axis=1)
    positive = np.where(high >= 3, 0.9, 0.1 + 0.01 * high)
    return np.column_stack([1.0 - positive, positive])


def test_near_training_rows_solve_what_no_single_change_leads_to():
    rows = gaussian_rows(300, 12)
    queries = rows[needs_three(rows)[:, 1] < 0.5][:40]
    untrained = replace(QUICK, steps=1, learning_rate=0.0)
    found = fitted(needs_three, rows, config=untrained, max_changes=3).explain(queries)
    assert found.found.all()


@pytest.mark.parametrize(
    ("outdated", "told"),
    [({"rows_per_instance": 9}, "max_queries"), ({"fallback": False}, "save"), ({"rescue_rows": 0}, "max_queries")],
)
def test_parameters_of_version_0_2_still_work_with_a_warning(outdated, told):
    (name,) = outdated
    with pytest.warns(FutureWarning, match=f"{name} is a parameter of ReLAX in version 0.2 .*{told}"):
        explainer = ReLAX(two_class_probabilities, **outdated)
    assert explainer.max_queries == outdated.get("rows_per_instance")
    with pytest.raises(TypeError, match="unexpected keyword argument"):
        ReLAX(two_class_probabilities, resque=1)


@pytest.mark.slow
def test_rows_that_nothing_can_flip_are_reported_with_their_closest_attempt():
    def stubborn(rows):
        x = np.asarray(rows, dtype=np.float64)
        positive = np.where(x[:, 0] > 1.0, 0.9, 0.2 + 0.05 * np.tanh(x[:, 1]))
        return np.column_stack([1.0 - positive, positive])

    queries = QUERIES[QUERIES[:, 0] < 1.0][:10]
    found = fitted(stubborn).explain(queries, vary=["x1", "x2"])
    assert not found.found.any()
    assert set(found.statuses[:, 0]) == {"none was found within 3 changes"}
    assert (found.values[:, 0, 1] > queries[:, 1]).all()  # what came closest, and within `vary`
    assert (found.values[:, 0, [0, 3]] == queries[:, [0, 3]]).all()


# Training


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"effort": "policy"}, {"variant": "local"}, {"max_queries": 12}])
def test_fit_always_trains_the_agent(options):
    explainer = fitted(**options)
    assert len(explainer.history_.rows) == 4
    expected = "on a surrogate model: " if "max_queries" in options else "on the model itself"
    assert explainer.training_.startswith(expected)


@pytest.mark.slow
def test_demonstrations_help():
    """The same training with and without them, on the rows that choose the weights."""
    with_some, without = (
        fitted(config=replace(QUICK, demonstrations=count), max_changes=2).history_.frame()["objective"].max()
        for count in (60, 0)
    )
    assert with_some > without


@pytest.mark.slow
def test_a_saved_agent_loads_and_explains_without_torch(tmp_path):
    explainer = fitted(LogisticRegression().fit(ROWS, two_class_labels(ROWS)))
    explainer.save(tmp_path / "agent")
    joblib.dump((explainer.model, QUERIES), tmp_path / "model")
    program = f"""
import sys
class WithoutTorch:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError("no torch here")
sys.meta_path.insert(0, WithoutTorch())
import joblib, numpy as np
from relax_plugin import ReLAX
model, queries = joblib.load({str(tmp_path / "model")!r})
agent = ReLAX.load({str(tmp_path / "agent")!r}, model=model)
found = []
for agent.effort in ("policy", "refined", "search"):
    found.append(agent.explain(queries).values)
agent.policy_tree()
assert "torch" not in sys.modules
np.save({str(tmp_path / "found.npy")!r}, np.array(found))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for effort, values in zip(("policy", "refined", "search"), np.load(tmp_path / "found.npy"), strict=True):
        np.testing.assert_array_equal(with_effort(explainer, effort).explain(QUERIES).values, values)


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
    before = {name: weight.copy() for name, weight in two_class.agent_.weights.items()}
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
    after = explainer.agent_.weights
    assert all((before[name] == after[name]).all() for name in before)
    free = explainer.explain(QUERIES)
    assert free.found.mean() >= max(varied.found.mean(), bounded.found.mean()) - 0.1


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
        np.testing.assert_array_equal(found.statuses[:, 0] == "the query meets the goal already", already)
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
    for option in ({"variant": "regional"}, {"effort": "heroic"}, {"max_queries": 3}, {"max_changes": 0}):
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
    options = {"effort": effort, "config": config, "max_queries": 10}
    explainer = fitted(variant="local", **options)
    locally = explainer.explain(QUERIES)
    globally = explainer.set_params(variant="global").explain(QUERIES)
    solved = globally.found[:, 0]
    assert locally.found[solved].all()
    better = locally.sparsity[solved] < globally.sparsity[solved]
    as_sparse = locally.sparsity[solved] == globally.sparsity[solved]
    assert (better | (as_sparse & (locally.proximity[solved] <= globally.proximity[solved]))).all()
    won = locally.stages == "local"
    assert won.any() or effort != "policy"
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
    weights = explainer.agent_.weights
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
    assert set(found.stages[found.found]) == {"local"}


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
    assert found.statuses[0, 0] == "no feature of it may change"
    np.testing.assert_array_equal(found.values[0, 0], space.values(queries)[0])


# Files


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    rows = tiny.mixed_rows()
    explainer = fitted(tiny.mixed_probabilities, rows, space=tiny.mixed_space(rows), max_queries=24)
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
    assert loaded.get_params()["max_queries"] == 24
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
    assert (loaded.surrogate_ is None) == (explainer.surrogate_ is None)
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
        lambda header: json.dumps({**header, "changes": 30}),
        lambda header: json.dumps({**header, "version": "new"}),
        lambda header: json.dumps([header]),
    ],
    ids=["cut JSON", "no space", "other size", "unknown setting", "other changes", "no number", "a list"],
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
    parts = (explainer.agent_.weights, explainer.surrogate_.weights_by_name())
    assert path.stat().st_size < 2 * sum(np.asarray(weight).nbytes for part in parts for weight in part.values())
    assert b"mixed_probabilities" not in path.read_bytes()


@pytest.mark.slow
def test_a_costly_model_is_searched_by_the_surrogate_model():
    rows = gaussian_rows(200, 4)

    def costly(some):
        time.sleep(0.002 * len(some))
        high = 1.0 / (1.0 + np.exp(-3.0 * np.asarray(some)[:, 0]))
        return np.column_stack([1.0 - high, high])

    explainer = ReLAX(costly).fit(rows)
    assert explainer.oracle_.startswith("a surrogate model of a costly model, which takes")
    result = explainer.explain(rows[:10])
    assert result.found.mean() > 0.8
    assert result.rows_queried[result.found[:, 0]].mean() <= 12
