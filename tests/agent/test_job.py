"""The agent's job: whether it is trained, how far it looks, and what it adds where single steps mislead."""

from dataclasses import replace

import numpy as np
import pytest
from reference.tiny import QUICK, Counting, gaussian_rows, two_class_labels, two_class_probabilities

from relax_plugin import ReLAX
from relax_plugin.agent.config import NEAR_SIGHTED, ReLAXConfig
from relax_plugin.errors import InputError
from relax_plugin.evaluation.tasks import load_task

ROWS, QUERIES = gaussian_rows(), gaussian_rows(40, seed=7)
AS_IT_PAYS = replace(QUICK, steps=None)


def fitted(model=two_class_probabilities, config=AS_IT_PAYS, **options):
    return ReLAX(model, config=config, progress=False, **{"max_changes": 3, **options}).fit(ROWS)


def three_together(rows):
    """The score falls with each of three features above its threshold, until all three are."""
    right = (np.asarray(rows)[:, :3] > 0.5).sum(axis=1)
    positive = np.array([0.4, 0.3, 0.2, 0.9])[right]
    return np.column_stack([1.0 - positive, positive])


def sight_of(explainer):
    near = {name: getattr(explainer.config_, name) for name in NEAR_SIGHTED} == NEAR_SIGHTED
    assert explainer.config_.sight == ("near" if near else "far")
    return explainer.config_.sight


@pytest.mark.slow
def test_where_steps_show_the_way_an_agent_that_is_followed_is_near_sighted():
    explainer = fitted(effort="policy")
    assert sight_of(explainer) == "near" and explainer.history_.rows
    assert "the agent is near-sighted, since looking one step ahead solves" in explainer.training_


@pytest.mark.slow
@pytest.mark.parametrize("effort", ["policy", "search"])
def test_where_steps_mislead_a_far_sighted_agent_is_trained(effort):
    explainer = fitted(three_together, effort=effort)
    assert sight_of(explainer) == "far" and explainer.history_.rows
    assert "the agent is far-sighted, since looking one step ahead solves" in explainer.training_


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "options", "sight"),
    [
        (two_class_labels, {"effort": "policy"}, "far"),  # nothing is earned before the goal
        (two_class_probabilities, {"effort": "policy", "config": replace(QUICK, sight="far")}, "far"),
        (two_class_probabilities, {"effort": "policy", "config": replace(QUICK, discount=0.5)}, "far"),
        (two_class_probabilities, {"config": QUICK}, "far"),  # the lookahead of the search knows what is near
        (two_class_probabilities, {"config": replace(QUICK, sight="near")}, "near"),
        (two_class_probabilities, {"config": replace(QUICK, training="model")}, "near"),
        (two_class_probabilities, {"config": replace(ReLAXConfig.paper(), steps=4)}, "far"),
    ],
)
def test_how_far_it_looks(model, options, sight):
    explainer = fitted(model, **options)
    assert sight_of(explainer) == sight
    assert f"the agent is {sight}-sighted" in explainer.training_
    if options.get("config", AS_IT_PAYS).discount == 0.5:
        assert explainer.config_.discount == 0.5


@pytest.mark.slow
def test_the_agent_brings_answers_to_the_search_that_one_step_of_lookahead_does_not_find():
    task, options = load_task("sequence/rule", 0), {"fallback": False, "progress": False}
    rows = task.X_test[task.model.predict(task.X_test) == 0][:60]
    with_agent = ReLAX(task.model, task.space, **options).fit(task.X_train)
    untrained = ReLAX(task.model, task.space, config=ReLAXConfig(steps=1), **options).fit(task.X_train)
    assert with_agent.explain(rows).found.mean() > untrained.explain(rows).found.mean() + 0.2
    assert with_agent.fit_rows_ <= 1000


def test_of_a_constant_model_it_is_not_said_that_an_agent_was_trained():
    with pytest.warns(UserWarning, match="nothing can be learned"):
        explainer = fitted(lambda rows: np.tile([0.3, 0.7], (len(rows), 1)), effort="policy", config=QUICK)
    assert explainer.training_.endswith("; no agent was trained, since nothing could be learned")


# Effort "plan"


@pytest.mark.slow
@pytest.mark.parametrize("model", [two_class_probabilities, two_class_labels], ids=["scores", "labels only"])
def test_a_plan_asks_one_row_a_change_and_needs_no_agent(model):
    counter = Counting(model)
    explainer = fitted(counter, effort="plan", config=None)
    assert not explainer.history_.rows and "no agent was trained" in explainer.training_
    counter.forget()
    found = explainer.explain(QUERIES)
    assert found.found.mean() > 0.9
    changes = (found.values[:, 0] != QUERIES).sum(axis=1)
    assert (found.rows_queried[found.found[:, 0]] <= 2 * 2 + changes[found.found[:, 0]]).all()
    assert set(found.stage[found.found]) == {"plan"}


def test_a_plan_imagines_even_if_an_agent_would_be_trained_on_the_model():
    explainer = fitted(effort="plan", config=ReLAXConfig(training="model"))
    assert explainer.world_model_ is not None and explainer.fit_rows_ <= 4000
    explainer = fitted(config=replace(QUICK, steps=2, training="model"))
    explainer.effort = "plan"
    with pytest.raises(InputError, match="looks ahead in a world model, and fit made none; fit again"):
        explainer.explain(QUERIES)
