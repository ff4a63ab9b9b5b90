"""Who decides what is found: not the method, which may propose anything, but the model on the row as delivered."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from relax_plugin import FeatureSpace, Goal
from relax_plugin.arrays import Values
from relax_plugin.base import CounterfactualExplainer
from relax_plugin.errors import InputError, ModelError
from relax_plugin.problem import Problem, Proposals

ROWS = pd.DataFrame({name: np.linspace(0.0, 8.0, 34) for name in "xy"})  # no short decimals: every number is allowed
QUERY = pd.DataFrame({"x": [0.0], "y": [0.0]})


class Proposing(CounterfactualExplainer):
    """Offers the same rows to every query, and says so of each."""

    rows: Any = ()

    def _fit(self, values: Values, rng: np.random.Generator) -> None:
        pass

    def _generate(self, problem: Problem, n: int, rng: np.random.Generator) -> Proposals:
        made = Proposals.empty(problem, n)
        count = min(n, len(self.rows))
        made.values[:, :count], made.offered[:, :count] = np.array(self.rows, dtype=float)[:count], True
        made.stage[:] = "proposed"
        return made


def above_four(rows: Any) -> Any:
    return (np.asarray(rows["x"], dtype=float) + np.asarray(rows["y"], dtype=float) > 4).astype(int)


def proposed(*rows: Any, model: Any = above_four, training: pd.DataFrame = ROWS, **options: Any) -> Any:
    space = FeatureSpace.infer(training, continuous=["x", "y"], **options.pop("rules", {}))
    explainer = Proposing(model, space, **options).fit(training)
    explainer.rows = rows
    return explainer.explain(QUERY.astype(training.dtypes), n=len(rows))


# What is found.


def test_what_meets_the_goal_within_the_limits_is_found() -> None:
    result = proposed([5, 0])
    assert result.found.tolist() == [[True]]
    assert (result.before.tolist(), result.after.tolist()) == ([0], [[1]])


def test_what_misses_the_goal_is_not_found_whatever_the_method_says() -> None:
    result = proposed([3, 0])
    assert result.found.tolist() == [[False]]
    assert "misses the goal" in result.statuses[0, 0]


def test_what_breaks_a_constraint_is_not_found_although_the_goal_is_met() -> None:
    assert proposed([9, 0]).found.tolist() == [[False]]
    assert proposed([5, 0], rules={"immutable": ["x"]}).found.tolist() == [[False]]


def test_what_changes_too_much_is_not_found() -> None:
    assert proposed([5, 5], max_changes=1).found.tolist() == [[False]]
    assert proposed([5, 5], max_changes=2).found.tolist() == [[True]]


def test_the_same_row_is_found_once() -> None:
    result = proposed([5, 0], [5, 0], [6, 0])
    assert result.found.tolist() == [[True, True, False]]
    assert result.frame["x"].tolist() == [5, 6]


def test_found_ones_come_first_and_keep_their_answers() -> None:
    result = proposed([3, 0], [5, 0])
    assert result.found.tolist() == [[True, False]]
    assert (result.frame["x"].tolist(), result.after.tolist()) == ([5], [[1, 0]])


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_rows_that_are_equal_once_delivered_are_found_once(dtype: str) -> None:
    """5 and the next float64 are one number in a short dtype."""
    result = proposed([5, 0], [np.nextafter(5.0, 6.0), 0], training=ROWS.astype(dtype))
    assert result.found.sum() == 1


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_values_are_those_of_the_delivered_cells(dtype: str) -> None:
    result = proposed([5.00001, 0], training=ROWS.astype(dtype))
    assert result.values[0, 0, 0] == float(result.frame["x"].iloc[0]) == float(np.dtype(dtype).type(5.00001))


# What it costs, and who is asked.


class Counting:
    """Counts its rows, and does what it is told when it is asked."""

    def __init__(self, answer: Any = above_four) -> None:
        self.answer, self.rows = answer, 0
        self.meanwhile: Any = None

    def __call__(self, rows: pd.DataFrame) -> Any:
        self.rows += len(rows)
        first, self.meanwhile = self.meanwhile, None
        if first is not None:
            first()
        return self.answer(rows)


def fitted(model: Any) -> Any:
    explainer = Proposing(model, FeatureSpace.infer(ROWS, continuous=["x", "y"])).fit(ROWS)
    explainer.rows = ([5.0, 0.0],)
    return explainer


def test_a_call_counts_its_own_rows_and_not_those_of_another_meanwhile() -> None:
    """As with threads, but always the same: while the model answers one call, it is asked by another."""
    model = Counting()
    explainer = fitted(model)
    alone = explainer.explain(QUERY).rows_queried.tolist()
    before, asked = model.rows, explainer.blackbox_.rows_asked
    model.meanwhile = lambda: explainer.explain(ROWS[:3])
    assert explainer.explain(QUERY).rows_queried.tolist() == alone
    assert explainer.blackbox_.rows_asked - asked == model.rows - before, "the explainer's books hold both"


class Scored(Counting):
    """Asked for scores and labels apart, it counts both."""

    classes_ = np.array([0, 1])

    def predict_proba(self, rows: Any) -> Any:
        positive = np.where(self(rows) == 1, 0.75, 0.25)
        return np.column_stack([1 - positive, positive])

    def predict(self, rows: Any) -> Any:
        return self(rows)


class Knowing(Proposing):
    """Hands on scores with what it offers."""

    known: Any = ()

    def _generate(self, problem: Problem, n: int, rng: np.random.Generator) -> Proposals:
        made = super()._generate(problem, n, rng)
        made.scores = np.tile(np.array(self.known, dtype=float), (len(problem), 1, 1))
        return made


def known(rows: Any, scores: Any, training: pd.DataFrame = ROWS, queries: int = 3) -> tuple[Any, int]:
    """The result for some queries, and what the model was asked beside the queries themselves."""
    model = Scored()
    explainer = Knowing(model, FeatureSpace.infer(training, continuous=["x", "y"])).fit(training)
    explainer.rows, explainer.known, before = rows, scores, model.rows
    result = explainer.explain(pd.concat([QUERY.astype(training.dtypes)] * queries), n=len(rows))
    assert result.rows_queried.sum() == model.rows - before
    return result, model.rows - before - 2 * queries


NAN = [np.nan, np.nan]


def test_known_scores_are_not_asked_for_again() -> None:
    result, rows = known([[5, 0], [6, 0]], [[0.4, 0.6], [0.3, 0.7]])
    assert rows == 3 * 2
    assert result.scores_after.tolist() == [[[0.4, 0.6], [0.3, 0.7]]] * 3
    assert result.found.all()


def test_scores_that_are_not_known_are_asked_for() -> None:
    result, rows = known([[5, 0], [6, 0]], [NAN, [0.3, 0.7]])
    assert rows == 3 * (2 + 1)
    assert result.scores_after.tolist() == [[[0.25, 0.75], [0.3, 0.7]]] * 3
    assert result.rows_queried.tolist() == [2 + 3] * 3
    assert known([[5, 0], [6, 0]], [NAN, NAN])[1] == 3 * 4


def test_known_scores_do_not_make_a_row_found() -> None:
    result, _ = known([[3, 0]], [[0.0, 1.0]])
    assert not result.found.any()
    assert result.after.tolist() == [[0]] * 3


def test_known_scores_hold_only_for_the_cells_that_are_delivered() -> None:
    """5.00001 is another number in float16, so the scores are asked for; 6 is not."""
    result, rows = known([[5.00001, 0], [6, 0]], [[0.4, 0.6], [0.3, 0.7]], ROWS.astype("float16"))
    assert rows == 3 * (2 + 1)
    assert result.scores_after.tolist() == [[[0.25, 0.75], [0.3, 0.7]]] * 3


class Overwriting:
    """Writes into the rows of every question, once it has answered it."""

    classes_ = np.array([0, 1])

    def __init__(self, overwrites: bool) -> None:
        self.overwrites = overwrites

    def predict_proba(self, rows: Any) -> Any:
        return np.eye(2)[self.predict(rows)]

    def predict(self, rows: Any) -> Any:
        answer = (rows.sum(axis=1) > 4).astype(int)
        if self.overwrites:
            rows[:] = 99.0
        return answer


def test_a_model_that_writes_into_its_rows_changes_neither_query_nor_answer() -> None:
    """Scores are asked for first and labels after them: of 99 everywhere the model would say 1, whatever was meant."""
    model = Overwriting(False)
    explainer = Proposing(model, FeatureSpace.infer(ROWS.to_numpy(), continuous=["x0", "x1"])).fit(ROWS.to_numpy())
    explainer.rows = ([5.0, 0.0], [3.0, 0.0])
    query = np.array([[0.0, 0.0]])
    expected = explainer.explain(query, n=2)
    model.overwrites = True
    result = explainer.explain(query, n=2)
    assert result.found.tolist() == expected.found.tolist() == [[True, False]]
    assert query.tolist() == result.queries.tolist() == [[0.0, 0.0]]
    pd.testing.assert_frame_equal(result.frame, expected.frame)


def test_what_is_written_into_the_queries_later_does_not_reach_the_results() -> None:
    query = QUERY.copy()
    result = fitted(above_four).explain(query)
    query.loc[0, "y"] = 7.0
    assert result.frame["y"].tolist() == [0.0]
    assert result.changes()["feature"].tolist() == ["x"]


def test_a_model_that_leaves_the_process_is_an_error_of_the_model() -> None:
    def leaving(rows: pd.DataFrame) -> Any:
        raise SystemExit(3)

    model = Counting()
    explainer = fitted(model)
    model.answer = leaving
    with pytest.raises(ModelError, match="SystemExit"):
        explainer.explain(QUERY)


# Labels.


@pytest.mark.parametrize("label", [1, True, 1.0, np.int8(1), np.True_])
@pytest.mark.parametrize("classes", [(0, 1), (False, True), (0.0, 1.0)], ids=str)
def test_a_label_is_the_class_that_python_calls_equal(label: Any, classes: tuple[Any, Any]) -> None:
    explainer = fitted(lambda rows: np.array(classes)[above_four(rows)])
    assert explainer.explain(QUERY, goal=Goal.to(label)).found.all()
    assert explainer.explain(QUERY, goal=Goal.to([label])).found.all()


def test_each_query_is_held_to_its_own_label() -> None:
    explainer = fitted(above_four)
    result = explainer.explain(pd.concat([QUERY] * 3), goal=Goal.to([1, 0, 1]))
    assert result.found.tolist() == [[True]] * 3
    assert result.after.tolist() == [[1], [0], [1]]


# All of a fit, or nothing of it.


class Interrupted(Proposing):
    """Is interrupted in the midst of `fit`, if it is told so."""

    def _fit(self, values: Values, rng: np.random.Generator) -> None:
        if self.rows == "interrupt":
            raise KeyboardInterrupt


def test_an_interrupted_fit_leaves_everything_as_it_was() -> None:
    explainer = Interrupted(above_four)
    explainer.rows = "interrupt"
    with pytest.raises(KeyboardInterrupt):
        explainer.fit(ROWS)
    assert not [name for name in vars(explainer) if name.endswith("_")]
    explainer.rows = ()
    before = dict(vars(explainer.fit(ROWS)))
    explainer.rows = "interrupt"
    with pytest.raises(KeyboardInterrupt):
        explainer.fit(ROWS * 2)
    assert {name: value for name, value in vars(explainer).items() if name != "rows"} == {
        name: value for name, value in before.items() if name != "rows"
    }


# Besides the query.


def test_besides_a_query_that_meets_the_goal_the_model_is_believed_and_not_the_search() -> None:
    """The search is told that the query misses its goal; what is found and reported goes by the model's own answer."""
    explainer = Proposing(above_four, FeatureSpace.infer(ROWS, continuous=["x", "y"]), goal=Goal.to(1)).fit(ROWS)
    explainer.rows, query = [[5, 0], [6, 0], [3, 0]], pd.DataFrame({"x": [5.0], "y": [0.0]})
    alone, besides = (explainer.explain(query, n=3, besides_query=told) for told in (False, True))
    assert alone.found.tolist() == [[True, False, False]]
    assert alone.stages[0, 0] == "query"
    assert besides.found.tolist() == [[True, False, False]]
    assert besides.values[0, 0].tolist() == [6, 0], "neither the query itself, nor what misses the goal"
    assert besides.stages[0, 0] == "proposed"
    assert (besides.before.tolist(), besides.after[0, 0]) == ([1], 1)
    with pytest.raises(InputError, match="besides_query is 1, but must be True or False"):
        explainer.explain(query, besides_query=1)


def test_where_the_query_counts_as_a_miss_the_search_is_told_so_of_it_alone() -> None:
    seen = {}

    class Looking(Proposing):
        def _generate(self, problem: Problem, n: int, rng: np.random.Generator) -> Proposals:
            owner = np.array([0, 0, 1])
            candidates = np.array([[5.0, 0.0], [6.0, 0.0], [5.0, 0.0]])
            seen["before"] = problem.goal.met(problem.before).tolist()
            seen["met"] = problem.judge(candidates, owner)[0].tolist()
            return super()._generate(problem, n, rng)

    queries = pd.DataFrame({"x": [5.0, 0.0], "y": [0.0, 0.0]})
    explainer = Looking(above_four, FeatureSpace.infer(ROWS, continuous=["x", "y"]), goal=Goal.to(1)).fit(ROWS)
    explainer.rows = [[6, 0]]
    result = explainer.explain(queries, besides_query=True)
    assert seen == {"before": [False, False], "met": [False, True, True]}, "the first query is no miss for the second"
    assert result.before.tolist() == [1, 0]
    assert result.found.all()
