"""Rows that the model refuses: a candidate is none, a query gets a status, and neither ends the call for the others."""

import json
import warnings

import numpy as np
import pytest
from reference.refusing import ROWS, TRAINING, Estimating, Validating, far_away, with_a_strange_query

from relax_plugin import BlackBox, Goal, ReLAXConfig, make_explainer
from relax_plugin.errors import ModelError
from relax_plugin.results import Counterfactuals

TINY = ReLAXConfig(steps=4, episodes=16, hidden=8, start_pool=64, query_budget=400)
METHODS = [
    *("greedy", "nearest-ct", "move-table", "surrogate-search", "relax-global", "random-order", "growing-spheres"),
    *("nice", "face", "lore"),
]


def in_a_corner(table):
    """Rows that nobody has."""
    return (table[:, 0] > 1) & (table[:, 1] > 45)


def in_no_row(table):
    return np.zeros(len(table), dtype=bool)


def made(name, model, **options):
    more = {"config": TINY, "progress": False} if name.startswith("relax") else {}
    return make_explainer(name, model, **more, **options)


@pytest.mark.parametrize("by", ["raise", "NaN"])
@pytest.mark.parametrize("name", METHODS)
def test_a_refused_query_gets_a_status_and_the_others_are_answered_as_if_it_were_not_there(name, by):
    explainer = made(name, Validating(far_away, by)).fit(TRAINING)
    queries = with_a_strange_query()
    result, alone = explainer.explain(queries), explainer.explain(queries.drop(index="customer 7"))
    others = np.arange(30) != 7
    assert np.array_equal(result.values[others], alone.values) and np.array_equal(result.found[others], alone.found)
    assert result.found[others].all() and not result.found[7].any()
    told = "it raised ValueError: b is 999" if by == "raise" else "it answered [nan nan]"
    assert np.ravel(result.status)[7] == f"the model refuses this query: {told}"
    assert result.before[7] is None and np.isnan(result.scores_before[7]).all()


def test_the_result_of_a_refused_query_is_shown_saved_and_read():
    result = made("greedy", Validating(far_away)).fit(TRAINING).explain(with_a_strange_query())
    told = "no counterfactual; the model refuses this query: it raised ValueError: b is 999."
    assert result.sentences()[7].endswith(told)
    again = Counterfactuals.from_json(result.to_json())
    assert again.before[7] is None and np.array_equal(again.found, result.found)
    assert json.loads(result.to_json())["before"][7] is None
    assert "refuses this query" in result._repr_html_() and len(result.frame) == 29


@pytest.mark.parametrize("name", ["greedy", "nearest-ct", "relax-global"])
def test_a_regressor_may_refuse_queries_too(name):
    explainer = made(name, Estimating(far_away), goal=Goal.shift(0.2)).fit(TRAINING)
    result = explainer.explain(with_a_strange_query())
    assert np.isnan(result.before[7]) and not result.found[7].any()
    assert result.found[np.arange(30) != 7].all()


@pytest.mark.parametrize("by", ["raise", "NaN"])
@pytest.mark.parametrize("name", [*METHODS, "cfrl", "fastar"])
def test_candidates_that_the_model_refuses_are_never_delivered_and_end_nothing(name, by):
    training = TRAINING[~in_a_corner(TRAINING.to_numpy())]
    explainer = made(name, Validating(in_a_corner, by)).fit(training)
    queries = ROWS[300:][~in_a_corner(ROWS[300:].to_numpy())][:20]
    result = explainer.explain(queries, goal=Goal.to(1))
    delivered = result.frame[list("abc")].to_numpy(dtype=float)
    assert result.found.mean() > 0.5 and not in_a_corner(delivered).any()


def test_training_rows_that_the_model_refuses_are_left_out_and_named():
    training = TRAINING.copy()
    training.loc[:40, "b"] = 999
    explainer = made("relax-global", Validating(far_away))
    with pytest.warns(
        UserWarning, match=r"the model refuses \d+ of the \d+ training rows it was asked, such as row \d"
    ):
        explainer.fit(training)
    assert explainer.explain(ROWS[300:320]).found.all()


@pytest.mark.parametrize("by", ["raise", "NaN"])
def test_a_model_that_refuses_every_training_row_is_named_with_a_row_and_its_words(by):
    rows = TRAINING.set_axis([f"r{row}" for row in range(300)])
    model = Validating(lambda table: np.ones(len(table), dtype=bool), by)
    told = "it raised ValueError: b is" if by == "raise" else r"it answered \[nan nan\]"
    with pytest.raises(ModelError, match=rf"refuses training row 'r\d+' \(position \d+\) and .* of its batch: {told}"):
        made("greedy", model).fit(rows)
    assert model.calls < 80


def test_a_model_that_refuses_everything_after_fit_ends_the_call_and_names_the_row():
    model = Validating(in_no_row)
    explainer = made("greedy", model).fit(TRAINING)
    model.refuses, model.calls = (lambda table: np.ones(len(table), dtype=bool)), 0
    told = r"the model refuses row 300 \(position 0\) and a training row that it answered in fit: it raised ValueError"
    with pytest.raises(ModelError, match=told):
        explainer.explain(ROWS[300:])
    assert model.calls <= 2


def test_a_query_alone_that_is_refused_gets_a_status():
    result = made("greedy", Validating(far_away)).fit(TRAINING).explain(with_a_strange_query().iloc[[7]])
    assert "b is 999" in np.ravel(result.status)[0]


@pytest.mark.parametrize("name", ["greedy", "nearest-ct", "relax-global"])
def test_a_model_that_answers_every_row_is_asked_as_often_as_before(name):
    """The counts are those of a model without any check, read off the books of the package and of the model."""
    model = Validating(in_no_row)
    explainer = made(name, model).fit(TRAINING)
    assert model.rows == explainer.fit_rows_
    model.rows = 0
    result = explainer.explain(ROWS[300:320])
    assert model.rows == result.rows_queried.sum()


@pytest.mark.parametrize("refused", [1, 10, 500])
def test_refused_rows_are_found_in_few_calls(refused):
    rows = np.column_stack([np.zeros(1024), np.arange(1024), np.zeros(1024)])
    wrong = np.sort(np.random.default_rng(refused).permutation(1024)[:refused])
    box = BlackBox(model := Validating(in_no_row), explainer_space())
    box.learn(explainer_space().values(TRAINING))
    model.refuses, model.calls = (lambda table: np.isin(table[:, 1], wrong)), 0
    answer = box.ask(rows, mark_refused=True)
    assert np.flatnonzero(~answer.answered).tolist() == wrong.tolist()
    assert model.calls <= 40 + 2 * refused * (1 + np.log2(1024 / refused))


def test_a_batch_of_which_nearly_all_is_refused_is_given_up_in_a_sentence():
    rows = np.column_stack([np.zeros(4096), np.arange(4096), np.zeros(4096)])
    box = BlackBox(model := Validating(in_no_row), explainer_space())
    box.learn(explainer_space().values(TRAINING))
    model.refuses, model.calls = (lambda table: table[:, 1] > 60), 0
    with pytest.raises(ModelError, match=r"refuses row \d+ and 97% of its batch: it raised ValueError"):
        box.ask(rows, mark_refused=True)
    assert model.calls < 50


def explainer_space():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return made("greedy", Validating(in_no_row)).fit(TRAINING).space_


def test_without_a_word_a_refused_row_is_an_error_that_names_it():
    box = BlackBox(model := Validating(in_no_row), explainer_space())
    box.learn(explainer_space().values(TRAINING))
    model.refuses = far_away
    with pytest.raises(ModelError, match=r"refuses row 'customer 7' \(position 7\): it raised ValueError: b is 999"):
        box.confirm(with_a_strange_query())


def test_a_model_that_only_refuses_large_batches_is_told_so():
    class Small(Validating):
        def predict_proba(self, rows):
            if len(rows) > 300:
                raise MemoryError("too much")
            return super().predict_proba(rows)

    explainer = made("greedy", Small(in_no_row)).fit(TRAINING)
    with pytest.raises(ModelError, match="MemoryError on a batch of 400 rows: too much; it answers them in smaller"):
        explainer.explain(ROWS)


@pytest.mark.parametrize("name", ["greedy", "relax-global"])
def test_a_further_model_that_refuses_a_candidate_does_not_hold_for_it(name):
    training = TRAINING[~in_a_corner(TRAINING.to_numpy())]
    explainer = made(name, Validating(in_no_row)).fit(training)
    result = explainer.explain(ROWS[300:330], also=[Validating(in_a_corner)], goal=Goal.to(1))
    delivered = result.frame[list("abc")].to_numpy(dtype=float)
    changed = delivered[~np.ravel(result.stage == "query")[result.found.ravel()]]
    assert len(changed) and not in_a_corner(changed).any()


def test_a_refused_row_meets_no_goal_whatever_answer_stands_in_its_place():
    box = BlackBox(model := Validating(in_no_row), explainer_space())
    rows = np.array([[2.0, 40.0, 0.0], [2.0, 999.0, 0.0]])
    before = box.learn(explainer_space().values(TRAINING)).take(np.zeros(2, dtype=int))
    model.refuses = far_away
    assert Goal.to(1).bind(box, before).met(box.ask(rows, mark_refused=True)).tolist() == [True, False]


def test_a_further_model_may_be_a_black_box():
    explainer = made("greedy", Validating(in_no_row)).fit(TRAINING)
    black_box, plain = (
        explainer.explain(ROWS[300:310], also=[model])
        for model in (BlackBox(Validating(in_a_corner)), Validating(in_a_corner))
    )
    assert black_box.found.any() and np.array_equal(black_box.values, plain.values)
