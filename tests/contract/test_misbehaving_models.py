"""Models that write into their input, change their mind, the seeds or their answers, or end the program."""

import random
import sys
import threading
import time
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from relax_plugin import BlackBox, Goal, ReLAX, ReLAXConfig, make_explainer
from relax_plugin.errors import GoalError, InputError, ModelError

RNG = np.random.default_rng(3)
ROWS = pd.DataFrame(RNG.normal(0, 1, (90, 4)).round(3), columns=list("abcd"))
TINY = ReLAXConfig(steps=4, episodes=16, hidden=8, start_pool=64, query_budget=200)
METHODS = ["greedy", "nearest-ct", "move-table", "surrogate-search", "relax-global", "relax-local", "lore"]


def truth(rows):
    numbers = np.asarray(rows, dtype=float)
    return 1 / (1 + np.exp(-2 * (numbers[:, 0] - numbers[:, 1] + 0.5 * numbers[:, 2])))


class Honest:
    """A classifier in scikit-learn's manners; what the others are compared with."""

    classes_ = np.array(["no", "yes"])

    def predict_proba(self, rows):
        return np.column_stack([1 - truth(rows), truth(rows)])

    def predict(self, rows):
        return self.classes_[(truth(rows) > 0.5).astype(int)]


class Scribbling(Honest):
    """Scales its input in place after it has answered, as careless preprocessing does."""

    def predict_proba(self, rows):
        answer = super().predict_proba(rows)
        rows *= -3.0
        return answer

    def predict(self, rows):
        answer = super().predict(rows)
        if isinstance(rows, pd.DataFrame):
            rows.iloc[:, :] = 0.0
        else:
            rows[:] = 0.0
        return answer


class Seeding(Honest):
    def predict_proba(self, rows):
        np.random.seed(len(rows))  # noqa: NPY002
        random.seed(len(rows))
        torch.manual_seed(len(rows))
        return super().predict_proba(rows)


class Random(Honest):
    """Answers by chance, and never twice the same."""

    def __init__(self):
        self.rng = np.random.default_rng(0)

    def predict_proba(self, rows):
        chance = self.rng.random(len(rows))
        return np.column_stack([1 - chance, chance])

    def predict(self, rows):
        return self.classes_[self.rng.integers(0, 2, len(rows))]


def explained(name, model, rows=ROWS, **call):
    options = {"config": TINY, "progress": False} if name.startswith("relax") else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make_explainer(name, model, **options).fit(rows).explain(rows[:24], **call)


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("container", ["frame", "array"])
def test_a_model_that_writes_into_its_input_changes_neither_answers_nor_queries(name, container):
    rows = ROWS if container == "frame" else ROWS.to_numpy()
    kept = rows.copy()
    expected, result = explained(name, Honest(), rows), explained(name, Scribbling(), rows)
    assert np.array_equal(np.asarray(rows), np.asarray(kept)), "the user's rows are as they were"
    assert np.array_equal(result.values, expected.values) and np.array_equal(result.found, expected.found)
    delivered = result.frame[result.space.names]
    before = Honest().predict(kept[:24])[result.frame["query_id"]]
    assert (Honest().predict(delivered) != before).all()


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_a_model_that_sets_the_global_seeds_changes_nothing(name):
    expected, result = explained(name, Honest()), explained(name, Seeding())
    assert np.array_equal(result.values, expected.values) and np.array_equal(result.found, expected.found)


def test_a_model_that_changes_its_mind_is_worth_a_warning_and_misses_are_said():
    with pytest.warns(UserWarning, match="when it was asked again: its answers cannot be repeated"):
        explainer = make_explainer("greedy", Random()).fit(ROWS)
    result = explainer.explain(ROWS[:60])
    assert 0 < result.found.sum() < 60
    said = {status for status, found in zip(result.statuses[:, 0], result.found[:, 0], strict=True) if not found}
    assert "the model's own answer to the row that was proposed misses the goal" in said


def test_a_model_that_repeats_itself_is_worth_no_warning(recwarn):
    make_explainer("greedy", Honest()).fit(ROWS)
    assert not [warning for warning in recwarn.list if "asked again" in str(warning.message)]


class Failing(Honest):
    """Does something else than answering, once `explain` has begun."""

    def __init__(self, act):
        self.act, self.armed = act, False

    def predict_proba(self, rows):
        answer = super().predict_proba(rows)
        return self.act(answer) if self.armed else answer


def raise_(error):
    raise error


@pytest.mark.slow
@pytest.mark.parametrize(
    ("act", "sentence"),
    [
        (
            lambda answer: raise_(KeyError("age")),
            "the model refuses row 0 and a training row that it answered in fit: it raised KeyError: 'age'",
        ),
        (lambda answer: sys.exit(3), "the model refuses row 0 and a training row .*: it raised SystemExit: 3"),
        (lambda answer: answer * np.nan, r"the model refuses row 0 and a training row .*: it answered \[nan nan\]"),
        (lambda answer: answer[:-1], r"the model answered shape \(23, 2\) to 24 rows"),
        (lambda answer: answer[:, :1], r"the model answered scores of shape \(24, 1\), but has 2 classes"),
        (lambda answer: None, "one answer a row is needed"),
    ],
    ids=["raises", "exits", "NaN", "too few", "one column", "None"],
)
@pytest.mark.parametrize("name", ["greedy", "relax-global"])
def test_what_a_model_does_instead_of_answering_is_said(name, act, sentence):
    options = {"config": TINY, "progress": False} if name.startswith("relax") else {}
    model = Failing(act)
    explainer = make_explainer(name, model, **options).fit(ROWS)
    expected = explainer.explain(ROWS[:24])
    model.armed = True
    with pytest.raises(ModelError, match=sentence):
        explainer.explain(ROWS[:24])
    model.armed = False
    assert np.array_equal(explainer.explain(ROWS[:24]).values, expected.values), "the explainer is as it was"


@pytest.mark.slow
def test_a_model_that_hangs_for_a_second_is_waited_for():
    model = Failing(lambda answer: time.sleep(1.0) or answer)
    explainer = make_explainer("nearest-ct", model).fit(ROWS)
    expected = explainer.explain(ROWS[:5])
    model.armed = True
    result = explainer.explain(ROWS[:5])
    assert np.array_equal(result.values, expected.values) and result.seconds >= 1.0


def test_a_class_in_place_of_a_model_is_refused():
    with pytest.raises(InputError, match="the model is the class Honest; a fitted instance of it is needed"):
        make_explainer("greedy", Honest).fit(ROWS)


# Labels.


class Labelled(Honest):
    def __init__(self, classes):
        self.classes_ = np.array(classes)


@pytest.mark.parametrize(
    ("classes", "label", "meant"),
    [([False, True], 1, True), ([0, 1], True, 1), ([0, 1], 1.0, 1), ([0.0, 1.0], 1, 1.0), (["0", "1"], "1", "1")],
)
@pytest.mark.parametrize("rowwise", [False, True])
def test_labels_that_python_calls_equal_are_one_label(classes, label, meant, rowwise):
    goal = Goal.to([label] * 24 if rowwise else label)
    result = explained("greedy", Labelled(classes), goal=goal)
    assert result.found.all() and (result.after[:, 0] == meant).all()


@pytest.mark.parametrize(
    ("classes", "label", "sentence"),
    [
        ([0, 1], "1", r"no class '1'; did you mean 1, which is int, not str\?"),
        (["0", "1"], 1, r"no class 1; did you mean '1', which is str, not int\?"),
        ([False, True], "True", r"no class 'True'; did you mean True, which is bool, not str\?"),
        ([0, 1], 2, r"no class 2; known are 0, 1"),
    ],
)
def test_a_label_of_another_type_is_refused_with_its_type(classes, label, sentence):
    for goal in (Goal.to(label), Goal.to([classes[0]] * 23 + [label])):
        with pytest.raises(GoalError, match=sentence):
            explained("greedy", Labelled(classes), goal=goal)


def test_labels_of_the_model_are_read_as_those_of_the_goal():
    """A model whose `predict` answers bools, and whose classes are 0 and 1."""

    class Mixed(Labelled):
        def predict(self, rows):
            return truth(rows) > 0.5

    result = explained("greedy", Mixed([0, 1]), goal=Goal.to(1))
    assert result.found.all() and (result.after[:, 0] == 1).all()


# Words about the goal, the model and the labels that are not needed.


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Goal("too"), "there is no goal 'too'; did you mean 'to'"),
        (lambda: Goal("flip", label=1), "Goal.flip takes no label"),
        (lambda: Goal("to"), "Goal.to names the label None"),
        (lambda: Goal.to([["a"], ["b"]]), r"Goal.to names the label \['a'\]"),
        (lambda: Goal("shift", delta=-1.0), "delta is -1.0"),
        (lambda: Goal.shift("a lot"), "delta is 'a lot'"),
        (lambda: Goal.between(2, 1), "empty or no range"),
        (lambda: Goal.flip(min_probability="high"), "min_probability is 'high'"),
        (lambda: Goal.flip(min_probability=True), "min_probability is True"),
    ],
)
def test_a_goal_that_is_none_is_refused(make, sentence):
    with pytest.raises(GoalError, match=sentence):
        make()


def test_a_label_in_place_of_a_goal_is_refused():
    explainer = make_explainer("greedy", Honest()).fit(ROWS)
    with pytest.raises(GoalError, match=r"goal is 'yes'; give a Goal, such as Goal.to\('yes'\)"):
        explainer.explain(ROWS[:2], goal="yes")
    with pytest.raises(GoalError, match=r"goal is 0; give a Goal"):
        explainer.explain(ROWS[:2], goal=0)


# torch modules are switched between training and evaluation.


def test_a_torch_module_in_training_mode_answers_the_same_in_threads():
    torch.manual_seed(0)
    network = torch.nn.Sequential(
        torch.nn.Linear(4, 32), torch.nn.ReLU(), torch.nn.Dropout(0.5), torch.nn.Linear(32, 2)
    )
    network.train()
    box = BlackBox(network)
    rows = ROWS.to_numpy(dtype=np.float32)
    expected = box.reader.read(rows, want_labels=False)[1]
    answers: list[bool] = []

    def ask() -> None:
        for _ in range(50):
            answers.append(np.array_equal(box.reader.read(rows, want_labels=False)[1], expected))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 400 and all(answers)
    assert network.training and network[2].training


# A fit that does not end.


@pytest.mark.slow
def test_an_interrupted_fit_leaves_nothing_half(monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    explainer = ReLAX(Honest(), config=TINY, progress=False)
    monkeypatch.setattr("relax_plugin.agent.starts.draw_starts", interrupted)
    with pytest.raises(KeyboardInterrupt):
        explainer.fit(ROWS)
    assert [name for name in vars(explainer) if name.endswith("_")] == []
    with pytest.raises(RuntimeError, match="not fitted"):
        explainer.explain(ROWS[:2])
    monkeypatch.undo()
    expected = explainer.fit(ROWS).explain(ROWS[:10])
    kept = dict(vars(explainer))
    monkeypatch.setattr("relax_plugin.agent.starts.draw_starts", interrupted)
    with pytest.raises(KeyboardInterrupt):
        explainer.fit(ROWS.assign(e=1.0 * np.arange(len(ROWS))))
    assert vars(explainer) == kept, "a refit that was interrupted leaves the old fit"
    assert np.array_equal(explainer.explain(ROWS[:10]).values, expected.values)


def test_ctrl_c_in_explain_leaves_the_explainer_as_it_was():
    model = Failing(lambda answer: raise_(KeyboardInterrupt()))
    explainer = make_explainer("relax-global", model, config=TINY, progress=False).fit(ROWS)
    expected = explainer.explain(ROWS[:10])
    model.armed = True
    with pytest.raises(KeyboardInterrupt):
        explainer.explain(ROWS[:10])
    model.armed = False
    again = explainer.explain(ROWS[:10])
    assert np.array_equal(again.values, expected.values) and np.array_equal(again.rows_queried, expected.rows_queried)


def test_what_the_user_writes_into_the_queries_later_does_not_reach_the_results():
    rows = ROWS.to_numpy().copy()
    result = make_explainer("greedy", Honest()).fit(rows).explain(rows[:5])
    before = result.frame.copy()
    del result.frame
    rows[:] = 0.0
    assert result.frame.equals(before)


class OneClass:
    """Knows one class, and has a score for it that varies."""

    _estimator_type, classes_ = "classifier", np.array(["yes"])

    def decision_function(self, rows):
        assert np.isfinite(np.asarray(rows, dtype=float)).all(), "nobody asks about what is no number"
        return rows[["a"]].to_numpy(dtype=float)

    def predict(self, rows):
        return np.full(len(rows), "yes")


@pytest.mark.slow
@pytest.mark.parametrize("effort", ["search", "refined", "policy"])
@pytest.mark.parametrize("actions", ["directional", "signed"])
def test_a_model_of_one_class_has_no_counterfactuals_and_its_attempts_are_numbers(effort, actions):
    config = replace(TINY, actions=actions, training="model", state_curiosity=1.0, action_curiosity=-1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = ReLAX(OneClass(), effort=effort, config=config, progress=False).fit(ROWS).explain(ROWS[:9], n=2)
    assert not result.found.any() and np.isfinite(result.values).all()


class Tied:
    """At "y" both classes have one half; `predict` takes the last of them, the largest score is the first."""

    _estimator_type, classes_ = "classifier", np.array([0, 1])

    def predict_proba(self, rows):
        return np.where((rows[["t"]] == "y").to_numpy(), [[0.5, 0.5]], [[1.0, 0.0]])

    def predict(self, rows):
        return (rows["t"] == "y").to_numpy().astype(int)


@pytest.mark.slow
@pytest.mark.parametrize("place", range(6))
@pytest.mark.parametrize("name", ["greedy", "move-table", "surrogate-search", "relax-global"])
def test_an_attempt_that_meets_the_goal_by_predict_is_found_though_fit_saw_no_tie(name, place):
    rows = pd.DataFrame({"t": ["y" if i == place else "x" for i in range(6)] * 4})
    options = {"config": TINY, "progress": False} if name.startswith("relax") else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = make_explainer(name, Tied(), **options).fit(rows[:6]).explain(pd.DataFrame({"t": ["x"]}))
    assert result.found.all() and result.frame["t"].tolist() == ["y"]


class Undecided:
    """Answers labels only, by chance: a row may meet the goal without having changed."""

    _estimator_type, classes_ = "classifier", np.array([0, 1])

    def __init__(self):
        self.rng = np.random.default_rng(1)

    def predict(self, rows):
        return self.rng.integers(0, 2, len(rows))


@pytest.mark.parametrize("name", ["nearest-ct", "lore", "relax-global"])
def test_the_query_itself_is_never_found_as_its_own_counterfactual(name):
    result = explained(name, Undecided(), n=3)
    found = result.status == "found"
    assert (result.sparsity[found] > 0).all()


class Saying:
    """A classifier that says what it is told to."""

    _estimator_type = "classifier"

    def __init__(self, say):
        self.predict = lambda rows: say((truth(rows) > 0.5).astype(int))


@pytest.mark.parametrize(
    "say",
    [
        lambda codes: codes.astype(np.float16),
        lambda codes: np.array([1 if code else "a" for code in codes], dtype=object),
        lambda codes: codes.astype(bool),
        lambda codes: np.array(["no", "yes"])[codes],
    ],
    ids=["half", "mixed", "bool", "text"],
)
def test_labels_of_every_kind_are_read(say):
    result = explained("nearest-ct", Saying(say))
    assert result.found.all()
    after = say((truth(result.frame[list("abcd")]) > 0.5).astype(int))
    assert [str(label) for label in result.after[:, 0]] == [str(label) for label in after]


@pytest.mark.parametrize(
    "say",
    [
        lambda codes: np.zeros((len(codes), 3), dtype=int),
        lambda codes: np.array([*([code] for code in codes.tolist()), None], dtype=object)[:-1],
        lambda codes: codes.astype("datetime64[ns]"),
        lambda codes: codes.astype(complex),
    ],
    ids=["three columns", "lists", "times", "complex"],
)
def test_what_is_no_label_is_refused(say):
    with pytest.raises(ModelError, match="is needed"):
        explained("nearest-ct", Saying(say))


def test_classes_that_are_listed_twice_are_refused():
    with pytest.raises(ModelError, match="each must be listed once"):
        explained("greedy", Labelled([0, 0]))


@pytest.mark.parametrize("n", [10**12, 10**20, 0, True, "2"])
def test_a_count_of_counterfactuals_that_cannot_be_is_refused(n):
    with pytest.raises(InputError, match="n is"):
        explained("nearest-ct", Honest(), n=n)


@pytest.mark.parametrize("wrong", [{"vary": 5}, {"bounds": [("a", (0, 1))]}, {"bounds": {"a": ("0", "1")}}])
def test_constraints_of_a_wrong_kind_are_refused(wrong):
    with pytest.raises(InputError):
        explained("nearest-ct", Honest(), **wrong)


def test_a_model_fitted_on_arrays_is_asked_with_arrays_whatever_the_queries_come_in():
    rows = ROWS.to_numpy()
    explainer = make_explainer("nearest-ct", lambda asked: (asked[:, 0] > 0).astype(int)).fit(rows)
    expected = explainer.explain(rows[:9])
    result = explainer.explain(pd.DataFrame(rows[:9], columns=[f"x{j}" for j in range(4)]))
    assert result.found.all() and np.array_equal(result.values, expected.values)
    assert np.array_equal(result.frame.to_numpy(), expected.frame.to_numpy())


def test_a_sparse_column_is_refused_by_name():
    with pytest.raises(InputError, match="feature 'a' is sparse"):
        make_explainer("greedy", Honest()).fit(ROWS.assign(a=pd.arrays.SparseArray(ROWS["a"])))
