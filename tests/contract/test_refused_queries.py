"""A query that the model refuses, wherever queries are asked: the others are answered, or a sentence names the row."""

import math

import numpy as np
import pandas as pd
import pytest
import torch
from reference.refusing import ROWS, TRAINING, Estimating, Validating, far_away, with_a_strange_query
from starlette.testclient import TestClient

from relax_plugin import FeatureSpace, Goal, make_explainer
from relax_plugin.errors import RefusedRowError
from relax_plugin.evaluation.judge import judge
from relax_plugin.evaluation.plan import Method, Unit
from relax_plugin.evaluation.tasks import Task
from relax_plugin.networks.certified import certify
from relax_plugin.whatif.app import what_if_app
from relax_plugin.whatif.session import WhatIf

QUERIES = with_a_strange_query()
OTHERS = np.arange(30) != 7
NAMED = r"the model refuses row 'customer 7' \(position 7\): it (raised ValueError: b is 999|answered)"


def fitted(kind=Validating, by="raise"):
    goal = Goal.shift(0.2) if kind is Estimating else None
    return make_explainer("greedy", kind(far_away, by), goal=goal).fit(TRAINING)


@pytest.fixture(params=[(kind, by) for kind in (Validating, Estimating) for by in ("raise", "NaN")])
def explainer(request):
    return fitted(*request.param)


@pytest.mark.parametrize("metrics", ["cheap", "all"])
@pytest.mark.parametrize("by", ["raise", "NaN"])
@pytest.mark.parametrize("kind", [Validating, Estimating])
def test_the_judge_calls_a_refused_query_not_found(kind, by, metrics):
    goal = Goal.shift(0.2) if kind is Estimating else None
    rows = QUERIES.reset_index(drop=True)
    task = Task("table/own", kind(far_away, by), FeatureSpace.infer(TRAINING), goal, TRAINING, rows, ROWS.c, rows.c)
    told = judge(Unit(task, Method("greedy", "greedy"), 0, rows=30, metrics=metrics), task)
    assert np.array_equal([row["valid"] for row in told], OTHERS)
    assert not told[7]["claimed"] and told[7]["before"] == ""
    assert told[7]["reason"].startswith("the model refuses this query: it ")
    assert all(row["reason"] == "" for row in np.array(told)[OTHERS])


def test_the_judge_believes_no_answer_to_a_refused_query():
    """The second training row is refused, too: the judge measures by the others."""
    training = TRAINING.copy()
    training.iloc[1, 1] = 999
    rows = QUERIES.reset_index(drop=True)
    task = Task("table/own", Validating(far_away), FeatureSpace.infer(TRAINING), None, training, rows, ROWS.c, rows.c)
    with pytest.warns(UserWarning, match="the model refuses 1 of the"):
        told = judge(Unit(task, Method("nearest", "nearest-ct"), 0, rows=30), task)
    assert np.array_equal([row["valid"] for row in told], OTHERS)
    assert math.isfinite(told[0]["neighbour_distance"]) and math.isnan(told[7]["neighbour_distance"])


def test_the_card_of_a_refused_query_says_so(explainer):
    result = explainer.explain(QUERIES)
    (axes,) = result.plot(7).axes
    assert "stays" not in axes.get_title() + axes.get_title(loc="left")
    text = result.card(7)._repr_html_()
    assert "The model's answer: <b>none</b>" in text and "refuses this query: it " in text and "nan%" not in text


def test_one_refused_query_does_not_change_the_cards_of_the_others():
    assert "the answer turns at 50%" in fitted().explain(QUERIES).card(0)._repr_html_()


def test_regions_are_those_of_the_other_queries(explainer):
    result = explainer.explain(QUERIES)
    told, alone = result.regions(explainer), explainer.explain(QUERIES[OTHERS]).regions(explainer)
    assert len(told) == len(alone) > 20 and 7 not in told.query


def test_a_certificate_or_a_menu_of_a_refused_query_is_refused_by_its_name(explainer):
    result = explainer.explain(QUERIES)
    with pytest.raises(RefusedRowError, match=NAMED):
        result.certificate(7)
    assert result.certificate(6)["claim"] == "fewest"
    with pytest.raises(RefusedRowError, match=NAMED.replace("position 7", "position 0")):
        explainer.menu(QUERIES.iloc[[7]])


def test_a_network_that_refuses_a_row_is_named_with_the_row_where_answers_are_certified():
    network = torch.nn.Sequential(torch.nn.Linear(3, 2))
    with torch.no_grad():
        network[0].weight.copy_(torch.tensor([[2.0, 0.0, -1.0], [0.0, 0.0, 0.0]]))
    queries = with_a_strange_query().astype(float)
    queries.iloc[7, 1] = 1e300  # more than a float32 holds
    explainer = make_explainer("greedy", network).fit(TRAINING.astype(float))
    result = explainer.explain(queries)
    assert "refuses this query" in result.status[7] and result.found[OTHERS].any()
    with pytest.raises(RefusedRowError, match=r"refuses row 'customer 7' \(position 7\): it answered \[nan nan\]"):
        certify(result, explainer)
    assert len(certify(explainer.explain(queries[OTHERS]), explainer)) == 29


def test_the_what_if_page_says_in_a_message_that_the_model_refuses_a_row(explainer):
    told = "he model refuses row 'customer 7' (position 0): it "
    with TestClient(what_if_app(WhatIf(explainer, QUERIES), "token", 80), base_url="http://localhost") as client:
        asked = {"row": 7, "tab": "a" * 16}
        for answer in (
            client.get("/token/row/7"),
            client.post("/token/predict", json=asked),
            client.post("/token/explain", json=asked),
        ):
            assert answer.status_code == 502 and told in answer.text
        assert client.post("/token/answers", json=[6, 7]).json()[1] == "none"
        assert client.post("/token/explain", json=asked | {"row": 6}).status_code == 200


def test_a_refused_query_whose_label_is_missing_is_named_by_its_position():
    rows = QUERIES[6:8].set_axis(pd.Index([0, pd.NA], dtype="Int64"))
    refusal = fitted().explain(rows).refusal(1)
    assert "row <NA> (position 1): it raised ValueError: b is 999" in str(refusal)
