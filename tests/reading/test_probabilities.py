"""The probability told of an answer is the model's own, of the class that was reached or wanted."""

import numpy as np
from reference.readable import ROWS, Model, explained, explainer

from relax_plugin import Goal, make_explainer
from relax_plugin.reading.probabilities import probabilities, reached_labels


def test_probabilities_are_those_of_the_model_at_query_and_counterfactual():
    result = explained(rows=12, n=2)
    known = probabilities(result)
    before, classes = Model().predict_proba(ROWS[:12]), list(Model.classes_)
    for query in range(12):
        assert known.own[query] == before[query].max()
        for slot in np.flatnonzero(result.found[query]):
            delivered = result.frame.query("query_id == @query and cf_id == @slot")[ROWS.columns]
            place = classes.index(result.after[query, slot])
            assert known.before[query, slot] == before[query, place]
            assert np.isclose(known.after[query, slot], Model().predict_proba(delivered)[0, place], atol=1e-12)


def test_of_a_goal_that_names_a_class_its_probability_is_told():
    result = explained(rows=6, goal=Goal.to("good", raise_by=0.05))
    assert (reached_labels(result) == "good").all()
    known = probabilities(result)
    assert (known.after - known.before)[result.found].min() >= 0.05 - 1e-9


def test_a_model_without_probabilities_has_none():
    labels = make_explainer("nearest-ct", Model().predict, explainer().space_).fit(ROWS)
    assert probabilities(labels.explain(ROWS[:2])) is None
