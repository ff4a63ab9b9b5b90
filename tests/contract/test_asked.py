"""The question is kept with its answers: in the result, in files, for some of the rows."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from relax_plugin import Counterfactuals, Goal, make_explainer
from relax_plugin.asked import Asked
from relax_plugin.pages.card import Bars
from relax_plugin.registry import name_of

RNG = np.random.default_rng(0)
ROWS = pd.DataFrame({"a": RNG.normal(size=80), "b": RNG.normal(size=80), "c": RNG.integers(0, 5, 80)})
MODEL = LogisticRegression().fit(ROWS, np.where(ROWS["a"] + ROWS["b"] > 0, "yes", "no"))


@pytest.fixture(scope="module")
def greedy():
    return make_explainer("greedy", MODEL).fit(ROWS)


def test_a_result_knows_the_question_it_answers(greedy):
    asked = greedy.explain(
        ROWS[:4],
        goal=Goal.to("yes", min_probability=0.6),
        vary=(name for name in ("a", "b")),
        bounds={"a": (ROWS["a"][:4] - 1.0, None)},
        increase_only=["b"],
        max_changes=2,
        plausible="require",
    ).asked
    assert asked.method == "greedy" and asked.goal == Goal.to("yes", min_probability=0.6)
    assert asked.classes == ("no", "yes") and asked.probabilities
    assert asked.vary == ("a", "b") and asked.increase_only == ("b",) and asked.immutable == ()
    assert asked.bounds == {"a": (tuple(ROWS["a"][:4] - 1.0), None)}
    assert (asked.max_changes, asked.plausible, asked.further_models) == (2, "require", 0)


def test_names_given_by_a_generator_are_heeded_as_those_of_a_list(greedy):
    of_list = greedy.explain(ROWS[:10], vary=["b"])
    of_generator = greedy.explain(ROWS[:10], vary=(name for name in ["b"]))
    assert np.array_equal(of_list.values, of_generator.values)


def test_the_question_about_some_rows_has_their_goals_and_bounds(greedy):
    goal = Goal.to(["yes", "no", "yes", "no"])
    asked = greedy.explain(ROWS[:4], goal=goal, bounds={"a": ([-3.0, -2.0, -1.0, 0.0], 9.0), "c": (0, 3)}).asked
    some = asked.take([3, 0])
    assert some.goal == Goal.to(["no", "yes"])
    assert some.bounds == {"a": ((0.0, -3.0), 9.0), "c": (0, 3)}


@pytest.mark.parametrize("goal", [Goal.to(1), Goal.to([1, 1, 1])])
def test_a_label_is_told_as_the_model_writes_it(goal):
    model = LogisticRegression().fit(ROWS, ROWS["a"] + ROWS["b"] > 0)
    result = make_explainer("greedy", model).fit(ROWS).explain(ROWS[ROWS["a"] + ROWS["b"] < -1][:3], goal=goal)
    assert result.found.all() and all("(probability of True: " in one for one in result.sentences())
    bars = [Bars(result).of_answer(query, result.after[query, 0], result.scores_after[query, 0]) for query in range(3)]
    assert [bar.label for bar in bars] == ["probability of True"] * 3


def test_a_file_keeps_the_question(greedy):
    result = greedy.explain(ROWS[:3], goal=Goal.to(["yes", "no", "yes"]), bounds={"a": ([-1.0, -2.0, -3.0], None)})
    assert Counterfactuals.from_json(result.to_json()).asked == result.asked
    written = json.loads(json.dumps(result.asked.to_dict()))
    assert Asked.from_dict(written) == result.asked


def test_the_name_is_that_of_the_registry_or_of_the_class(greedy):
    assert name_of(make_explainer("relax-local", MODEL)) == "relax-local"
    assert name_of(make_explainer("relax-global", MODEL)) == "relax-global"

    class Own(type(greedy)):
        """Another package's."""

    assert name_of(Own(MODEL)) == "Own"
