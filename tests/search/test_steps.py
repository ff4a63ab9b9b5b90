"""The steps of an answer: each does most of what is left, scores are the model's own, and what they cost is said."""

import copy
import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from reference.tiny import Counting
from sklearn.svm import LinearSVC

from relax_plugin import BlackBox, Counterfactuals, FeatureSpace, Goal, make_explainer
from relax_plugin.base import CounterfactualExplainer
from relax_plugin.errors import ColumnError, InputError, NotFittedError
from relax_plugin.problem import Proposals
from relax_plugin.search.steps import MOST_CHANGES

NAMES = ["a", "b", "c", "d"]
ROWS = pd.DataFrame(np.random.default_rng(0).integers(0, 9, (60, 4)).astype(float), columns=NAMES)
ROWS["town"] = np.random.default_rng(1).choice(["Rome", "Bonn"], 60)
ZERO = pd.DataFrame([[0.0, 0.0, 0.0, 0.0, "Bonn"]], columns=ROWS.columns)


class Told(CounterfactualExplainer):
    """Proposes the row it was told, whatever the query."""

    end: Any = None

    def _fit(self, values: Any, rng: Any) -> None:
        pass

    def _generate(self, problem: Any, n: int, rng: Any) -> Proposals:
        made = Proposals.empty(problem, n)
        made.values[:, 0], made.offered[:, 0] = self.end, True
        return made


def told(model: Any, end: Any, query: pd.DataFrame = ZERO, goal: Goal | None = None) -> Counterfactuals:
    explainer = Told(model, goal=goal).fit(ROWS[query.columns])
    explainer.end = np.asarray(end, dtype=float)
    return explainer.explain(query)


def chance(weights: Any, offset: float = -10.0) -> Any:
    """Probabilities of "no" and "yes", by a weighted sum; Rome counts 3."""

    def model(rows: pd.DataFrame) -> np.ndarray:
        rome = 3.0 * (rows["town"] == "Rome").to_numpy(float)
        yes = 1 / (1 + np.exp(-(rows[NAMES].to_numpy(float) @ np.asarray(weights, dtype=float) + rome + offset)))
        return np.column_stack([1 - yes, yes])

    return model


def lock(rows: pd.DataFrame) -> np.ndarray:
    """The chance falls with every right change until a, b and c are all right."""
    right = (rows[["a", "b", "c"]].to_numpy(float) == 5).sum(axis=1)
    yes = np.where(right == 3, 0.9, 0.3 - 0.1 * right)
    return np.column_stack([1 - yes, yes])


# Order and scores.


def test_each_step_is_the_one_that_does_most() -> None:
    model = chance([1, 3, 2, 0])
    steps = told(model, [2, 2, 2, 0, 1]).steps(0)
    assert steps.frame["feature"].tolist() == ["b", "c", "town", "a"]
    row, expected = ZERO.copy(), []
    for feature, to in zip(steps.frame["feature"], steps.frame["to"], strict=True):
        row[feature] = to
        expected.append(model(row)[0, 1])
    np.testing.assert_allclose(steps.frame["score"], expected)
    np.testing.assert_allclose(steps.before, model(ZERO)[0, 1])
    assert steps.frame["answer"].tolist() == [0, 0, 1, 1]
    assert steps.note == ""


def test_the_text_reads_as_advice() -> None:
    lines = str(told(chance([1, 3, 2, 0]), [2, 2, 2, 0, 1]).steps(0)).splitlines()
    assert lines[0] == "Row 0: from 0 to 1 in 4 steps."
    assert lines[1].startswith("1. raise b from 0 to 2: P(1) 4.54e-05 → 0.018, answer 0")
    assert lines[3].startswith("3. set town from Bonn to Rome: P(1)")
    assert lines[5] == "(Model rows asked for the order: 9.)"


def test_the_rows_are_those_of_a_greedy_order_and_count_nowhere_else() -> None:
    model = Counting(chance([1, 3, 2, 0]))
    result = told(model, [2, 2, 2, 0, 1])
    before = result.rows_queried.copy()
    model.forget()
    assert result.steps(0).rows == model.rows == 4 * 5 // 2 - 1
    np.testing.assert_array_equal(result.rows_queried, before)


def test_one_change_is_one_step_that_asks_nothing() -> None:
    model = Counting(chance([0, 9, 0, 0]))
    result = told(model, [0, 2, 0, 0, 1 - 1], ZERO)
    model.forget()
    steps = result.steps(0)
    assert (len(steps), steps.rows, model.rows) == (1, 0, 0)
    assert str(steps).splitlines()[0].endswith("in 1 step.") and len(str(steps).splitlines()) == 2


def test_where_no_single_step_helps_it_is_said() -> None:
    steps = told(lock, [5, 5, 5, 0, 0]).steps(0)
    assert steps.note == "No single step helps; together they do."
    assert steps.note in str(steps) and steps.note in steps._repr_html_()
    np.testing.assert_allclose(steps.frame["score"], [0.2, 0.1, 0.9])


def test_a_step_that_leads_away_is_named() -> None:
    def model(rows: pd.DataFrame) -> np.ndarray:
        a, b, c = (rows[name].to_numpy() > 0 for name in "abc")
        yes = np.select([a & b & c, a & (b | c), a], [0.9, 0.3, 0.4], 0.1)
        return np.column_stack([1 - yes, yes])

    assert told(model, [1, 1, 1, 0, 0]).steps(0).note.startswith("Step 2 leads away")


def test_labels_alone_are_told_without_a_score() -> None:
    steps = told(lambda rows: lock(rows).argmax(axis=1), [5, 5, 5, 0, 0]).steps(0)
    assert steps.measure == "" and steps.frame["score"].isna().all()
    assert steps.frame["answer"].tolist() == [0, 0, 1]
    assert steps.lines()[0] == "raise a from 0 to 5: answer 0"
    assert steps.note == "No single step helps; together they do."


def test_a_regressor_comes_nearer_to_its_last_prediction() -> None:
    def model(rows: pd.DataFrame) -> np.ndarray:
        return rows[NAMES].to_numpy() @ np.array([10.0, -4.0, 1.0, 0.0])

    result = told(BlackBox(model, task="regression"), [2, 3, 1, 0, 0], goal=Goal.between(8, 10))
    steps = result.steps(0)
    assert steps.frame["score"].tolist() == [1.0, 21.0, 9.0] and result.after[0, 0] == 9.0
    assert steps.lines()[1] == "raise a from 0 to 2: prediction 1 → 21"
    assert steps.note.startswith("Step 2 leads away")


def test_decision_scores_are_called_scores() -> None:
    numbers = ROWS[NAMES]
    model = LinearSVC(random_state=0).fit(numbers, np.where(numbers["a"] + numbers["b"] > 8, "yes", "no"))
    steps = told(model, [8, 8, 0, 0], ZERO[NAMES]).steps(0)
    assert steps.measure == "score of yes" and steps.frame["answer"].iloc[-1] == "yes"


def test_cells_keep_their_dtypes_and_numbers_go_down_too() -> None:
    rows = pd.DataFrame({"n": np.arange(40), "owns": np.arange(40) % 3 == 0, "f": np.linspace(0, 1, 40)})

    def model(rows: pd.DataFrame) -> np.ndarray:
        assert rows["n"].dtype.kind == "i" and rows["owns"].dtype == bool
        yes = 1 / (1 + np.exp(rows["n"].to_numpy() - 15.0 - 4.0 * rows["owns"].to_numpy()))
        return np.column_stack([1 - yes, yes])

    explainer = Told(model).fit(rows)
    explainer.end = np.array([18.0, 1.0, 1.0])
    steps = explainer.explain(rows[38:39].assign(owns=False, f=1.0)).steps(0)
    assert steps.frame["step"].tolist() == ["lower n from 38 to 18", "set owns from False to True"]


def test_arrays_and_any_one_of_several_counterfactuals() -> None:
    numbers = ROWS[NAMES].to_numpy()
    model = Counting(lambda rows: chance([1, 3, 2, 1], -30)(pd.DataFrame(rows, columns=NAMES).assign(town="")))
    result = make_explainer("greedy", model).fit(numbers).explain(numbers[:5], n=3)
    query = int(np.flatnonzero(result.found.all(axis=1))[0])
    for cf_id in range(3):
        steps = result.steps(query, cf_id=cf_id)
        changes = result.changes().query("query_id == @query and cf_id == @cf_id")
        assert set(steps.frame["feature"]) == set(changes["feature"])
        assert steps.frame["score"].iloc[-1] == result.scores_after[query, cf_id, result.after[query, cf_id]]


# Where there are none.


def test_where_nothing_was_found_the_reason_is_told() -> None:
    steps = told(chance([1, 3, 2, 0]), [1, 0, 0, 0, 0]).steps(0)
    assert len(steps) == 0 and steps.rows == 0 and steps.lines() == []
    assert str(steps).startswith("Row 0: no counterfactual; ")
    assert list(steps.frame) == ["step", "feature", "from", "to", "score", "answer"]


def test_where_the_goal_is_met_already_nothing_is_to_be_done() -> None:
    steps = told(chance([1, 3, 2, 0]), [1, 0, 0, 0, 0], goal=Goal.to(0)).steps(0)
    assert str(steps) == "Row 0: the answer 0 meets the goal already."


@pytest.mark.parametrize("query", [-1, 1, 0.0, "first"])
def test_a_query_that_is_not_there_is_refused(query: Any) -> None:
    with pytest.raises(InputError, match=r"there is no query .*; there are 1, from 0 on"):
        told(lock, [5, 5, 5, 0, 0]).steps(query)


def test_a_counterfactual_that_is_not_there_is_refused() -> None:
    with pytest.raises(InputError, match="there is no counterfactual 1; a query has 1, from 0 on"):
        told(lock, [5, 5, 5, 0, 0]).steps(0, cf_id=1)


def test_more_changes_than_anyone_would_put_in_order_are_refused() -> None:
    rows = np.random.default_rng(0).random((30, MOST_CHANGES + 1)).round(2)
    explainer = Told(lambda rows: (rows.sum(axis=1) > 40).astype(int)).fit(np.vstack([rows, rows * 0 + 1]))
    explainer.end = np.ones(MOST_CHANGES + 1)
    with pytest.raises(InputError, match=f"changes {MOST_CHANGES + 1} features; up to {MOST_CHANGES} can be"):
        explainer.explain(rows[:1] * 0 + 0.5).steps(0)


# Without the model.


@pytest.mark.parametrize(
    "keep",
    [
        lambda result: Counterfactuals.from_json(result.to_json()),
        lambda result: pickle.loads(pickle.dumps(result)),
        copy.copy,
        copy.deepcopy,
    ],
)
def test_what_is_kept_has_no_model_and_an_explainer_helps(keep: Any) -> None:
    explainer = Told(chance([1, 3, 2, 0])).fit(ROWS)
    explainer.end = np.array([2.0, 2, 2, 0, 1])
    result = explainer.explain(ZERO)
    kept = keep(result)  # the model is a closure, which no pickle would hold
    assert kept.blackbox is None and result.blackbox is not None
    with pytest.raises(InputError, match=r"no model to ask; give steps\(query, explainer\)"):
        kept.steps(0)
    assert str(kept.steps(0, explainer)) == str(result.steps(0))


def test_an_explainer_that_cannot_help_is_refused() -> None:
    result = told(lock, [5, 5, 5, 0, 0])
    with pytest.raises(NotFittedError, match="steps needs a fitted explainer"):
        result.steps(0, Told(lock))
    other = make_explainer("greedy", lambda rows: np.zeros((len(rows), 2)) + 0.5).fit(ROWS[["a", "b"]])
    with pytest.raises(ColumnError, match="has the features"):
        result.steps(0, other)
    numbers = ROWS[NAMES]
    model = LinearSVC(random_state=0).fit(numbers, np.where(numbers["a"] + numbers["b"] > 8, "yes", "no"))
    result = told(lambda rows: lock(rows), [5, 5, 5, 0], ZERO[NAMES])
    with pytest.raises(InputError, match="model has no class 1, which is this answer's"):
        result.steps(0, Told(model).fit(numbers))


def test_html_escapes_what_is_written() -> None:
    rows = ROWS[NAMES].rename(columns={"a": "<script>"})

    def model(rows: pd.DataFrame) -> np.ndarray:
        return (rows["<script>"] > 4).to_numpy().astype(int)

    explainer = Told(model, FeatureSpace.infer(rows)).fit(rows)
    explainer.end = np.array([8.0, 0, 0, 0])
    html = explainer.explain(ZERO[NAMES].rename(columns={"a": "<script>"})).steps(0)._repr_html_()
    assert "&lt;script&gt;" in html and "<script>" not in html


def test_derived_columns_follow_a_step_and_are_none() -> None:
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"a": rng.integers(0, 9, 60), "b": rng.integers(0, 9, 60)})
    rows["total"] = rows["a"] + rows["b"]
    space = FeatureSpace.infer(rows, derived={"total": "a + b"})

    def model(rows: pd.DataFrame) -> np.ndarray:
        return (rows["total"] > 12).to_numpy().astype(int)

    explainer = Told(model, space).fit(rows)
    explainer.end = np.array([8.0, 7.0])
    steps = explainer.explain(pd.DataFrame({"a": [1], "b": [2], "total": [3]})).steps(0)
    assert steps.frame["step"].tolist() == [
        "raise a from 1 to 8 (total becomes 10)",
        "raise b from 2 to 7 (total becomes 15)",
    ]
    assert steps.frame["answer"].tolist() == [0, 1]


def test_a_number_that_is_filled_in_is_set() -> None:
    rows = pd.DataFrame({"a": [1.0, 2.0, np.nan, 6.0, 8.0] * 9, "b": [1.0, 2.0, 3.0] * 15})
    space = FeatureSpace.infer(rows, fill_missing=["a"])
    explainer = Told(lambda rows: (rows["a"] > 4).to_numpy().astype(int), space).fit(rows)
    explainer.end = np.array([6.0, 1.0])
    steps = explainer.explain(pd.DataFrame({"a": [np.nan], "b": [1.0]})).steps(0)
    assert steps.frame["step"].tolist() == ["set a from nan to 6"]
