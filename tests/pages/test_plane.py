"""The toy of two features, and the picture of counterfactuals in its plane."""

import numpy as np
import pandas as pd
import pytest

from relax_plugin import make_explainer
from relax_plugin.errors import InputError, UnknownNameError
from relax_plugin.evaluation.judge import Method, Unit, judge
from relax_plugin.evaluation.tasks import load_task
from relax_plugin.evaluation.toy import FAMILIES, largest_debt, toy_rows, toy_task
from relax_plugin.pages.plane import Moves, plane

QUERIES = 10


@pytest.mark.parametrize("family", FAMILIES)
def test_the_toy_is_learned_and_its_first_queries_lie_apart(family: str) -> None:
    task = toy_task(family)
    assert task.model.score(task.X_test, task.y_test) >= 0.9
    first = task.space.standardise(task.space.values(task.X_test))[:QUERIES]
    between = np.abs(first[:, None] - first[None]).sum(axis=2) + 9 * np.eye(len(first))
    assert between.min() > 0.6
    assert set(task.model.predict(task.X_test[:QUERIES])) == {"granted", "refused"}


def test_the_boundary_of_the_toy_is_curved_and_its_rows_depend_on_the_seed_alone() -> None:
    assert largest_debt(np.array([20.0, 56.0, 95.0])) == pytest.approx([-4.7, 19.0, 42.8], abs=0.1)
    pd.testing.assert_frame_equal(toy_rows(3)[0], toy_rows(3)[0])
    assert not toy_rows(3)[0].equals(toy_rows(4)[0])
    with pytest.raises(UnknownNameError, match="did you mean 'trees'"):
        toy_task("tree")


@pytest.mark.slow
def test_the_picture_of_counterfactuals_is_that_of_the_judges_rows() -> None:
    task = toy_task("trees")
    explained = make_explainer("greedy", task.model, task.space).fit(task.X_train).explain(task.X_test[:10])
    judged = Moves.judged(pd.DataFrame(judge(Unit(task, Method("greedy", "greedy"), 0, rows=10), task)))
    moves = Moves.of(explained)
    for name in ("start", "end", "distance", "rows"):
        np.testing.assert_allclose(getattr(moves, name), getattr(judged, name))
    figure = plane(task, explained, "greedy")
    axes = figure.axes[0]
    assert axes.get_title().startswith("greedy: 10 of 10 found, 1.1 features changed\ndistance 1.18, ")
    tips = np.array([text.xy for text in axes.texts])
    np.testing.assert_array_equal(tips, moves.end)
    assert (task.model.predict(pd.DataFrame(tips, columns=list(task.X_test))) != explained.before).all()


def test_queries_without_counterfactual_are_crosses() -> None:
    task = toy_task("trees")
    explainer = make_explainer("greedy", task.model, task.space).fit(task.X_train)
    some = explainer.explain(task.X_test[:10], vary=["debt"])
    missing = ~some.found[:, 0]
    assert 0 < missing.sum() < 10
    axes = plane(task, some).axes[0]
    (crosses,) = (drawn for drawn in axes.collections if drawn.get_label() == "none found")
    np.testing.assert_array_equal(crosses.get_offsets(), task.X_test[:10].to_numpy()[missing])
    assert len(axes.texts) == (~missing).sum()
    none = plane(task, explainer.explain(task.X_test[:3], vary=[]), "$x_1$").axes[0]
    assert none.get_title().startswith("$x_1$: none of 3 found\n")


@pytest.mark.slow
def test_what_has_no_plane_is_refused() -> None:
    task = load_task("breast_cancer/mlp")
    with pytest.raises(InputError, match="a plane needs two numbers"):
        plane(task, Moves(*(np.zeros((1, 9)),) * 2, *(np.zeros(1),) * 2))
