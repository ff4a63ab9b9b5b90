"""A surrogate trusts the better of its two parts, says honestly how well it knows the model, and never asks it."""

from functools import cache

import numpy as np
import pytest
import torch
from reference import tiny
from reference.worlds import goal_of, learned, world_of
from sklearn.svm import LinearSVC

from relax_plugin import Goal
from relax_plugin.blackbox import Answer
from relax_plugin.errors import InputError
from relax_plugin.surrogate.model import LEAST_ERROR, LEAST_ROWS, Agreement, SurrogateBlackBox, SurrogateModel

ROWS = tiny.gaussian_rows(400)
SVC = LinearSVC(random_state=0).fit(ROWS, tiny.two_class_labels(ROWS))
TASKS = {
    "two classes": (tiny.two_class_probabilities, ROWS, "auto"),
    "three classes": (tiny.three_class_probabilities, ROWS, "auto"),
    "decision": (SVC, ROWS, "auto"),
    "labels": (tiny.two_class_labels, ROWS, "auto"),
    "numbers": (tiny.numbers, ROWS, "regression"),
    "mixed": (tiny.mixed_probabilities, tiny.mixed_rows(400), "auto"),
}


@cache
def hasty(name):
    """A surrogate model that is hardly fitted, where it does not matter how well it knows the model."""
    return world_of(*TASKS[name], share=0.1)


@pytest.mark.slow
def test_it_knows_a_smooth_model_as_well_as_it_says():
    for name, case in TASKS.items():
        world = world_of(*case)
        draw = tiny.mixed_rows if name == "mixed" else tiny.gaussian_rows
        values = world.space.values(draw(500, seed=1))
        answer, told = world.blackbox.ask(values), world.predict(values)
        true = world.targets.of(answer)
        explained = 1.0 - ((told - true) ** 2).sum() / ((true - true.mean(axis=0)) ** 2).sum()
        assert world.agreement.rows == 200
        assert explained == pytest.approx(world.agreement.explained, abs=0.15), name
        assert explained > (0.6 if name == "labels" else 0.8), name
        if name != "numbers":
            same = (world.targets.answer(told).output == answer.output).mean()
            assert same == pytest.approx(world.agreement.labels, abs=0.1)
            assert world.agreement.worst <= world.agreement.labels
        error = np.sqrt(((told - true) ** 2).sum(axis=1).mean())
        assert 0.4 * error < world.error < 2.5 * error, name


def judged(one, other, true):
    """A surrogate model whose parts predict these numbers, judged by the true ones."""
    blackbox, values, _ = learned(tiny.numbers, ROWS[: len(true)], "regression")
    world = SurrogateModel(blackbox, values)
    for part, told in ((world.network, one), (world.trees, other)):
        part.predict = lambda values, told=told: np.asarray(told)[:, None]
    answer = Answer(np.asarray(true))
    world.judge(values, answer, goal_of(blackbox, answer))
    return world


def test_the_better_part_gets_the_larger_share():
    true = np.linspace(-1.0, 1.0, 50)
    noise = np.random.default_rng(0).standard_normal(50)
    weights = [judged(true + a * noise, true - b * noise, true).weight for a, b in ((1, 9), (1, 1.1), (1.1, 1), (9, 1))]
    assert weights[0] == 1.0 > weights[1] > 0.5 > weights[2] > weights[3] == 0.0
    assert judged(true, true, true).error == LEAST_ERROR


def test_a_perfect_world_is_trusted_and_a_constant_one_explains_all_there_is():
    true = np.linspace(-1.0, 1.0, 20)
    world = judged(true, 0 * true, true)
    assert (world.weight, world.agreement.explained) == (1.0, 1.0)
    assert np.isnan(world.agreement.labels) and np.isnan(world.agreement.worst)
    assert judged(0 * true, 0 * true, 0 * true).agreement.explained == 1.0


def test_agreement_is_measured_by_class_and_the_worst_is_told():
    blackbox, values, answer = learned(tiny.three_class_probabilities, ROWS)
    world = SurrogateModel(blackbox, values)
    wrong = world.targets.of(answer)
    fooled = np.flatnonzero(answer.output == 2)[::2]
    wrong[fooled] = wrong[fooled][:, [2, 0, 1]]
    world.network.predict = world.trees.predict = lambda values: wrong
    world.judge(values, answer, goal_of(blackbox, answer))
    assert world.agreement.labels == pytest.approx(1.0 - len(fooled) / len(values))
    assert world.agreement.worst == pytest.approx(0.5, abs=0.02)


def test_agreement_is_told_in_a_sentence():
    told = "the same label on 91.4% of 80 rows where the search goes (70.0% in the worst class), 50.0% of the variance"
    assert str(Agreement(0.914, 0.7, 0.5, 80)) == f"{told} explained"
    assert str(Agreement(np.nan, np.nan, -0.25, 80)) == "-25.0% of the variance explained"


def test_too_few_rows_are_refused_by_their_number():
    blackbox, values, answer = learned(tiny.numbers, ROWS[:LEAST_ROWS], "regression")
    with pytest.raises(InputError, match=rf"at least {LEAST_ROWS} .* {LEAST_ROWS - 1} are given"):
        SurrogateModel(blackbox, values).fit(values[:-1], answer.take(slice(0, -1)))
    assert np.isfinite(SurrogateModel(blackbox, values).fit(values, answer, 0.1).predict(values)).all()


@pytest.mark.parametrize("weight", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("task", ["mixed", "numbers"])
def test_moves_are_predicted_as_the_moved_rows_are_whatever_the_weight(task, weight, monkeypatch):
    world, rng = hasty(task), np.random.default_rng(0)
    monkeypatch.setattr(world, "weight", weight)
    states = world.space.values(TASKS[task][1][:20])
    feature = np.arange(len(world.space))
    value = world.space.values(TASKS[task][1][50:51])[0]
    rows = np.repeat(states[:, None], len(feature), axis=1)
    rows[:, feature, feature] = value
    expected = world.predict(rows.reshape(-1, len(feature))).reshape(20, len(feature), -1)
    table, close = world.table(feature, value), {"rtol": 0, "atol": 1e-3}
    np.testing.assert_allclose(world.predict_moves(states, feature, table), expected, **close)
    chosen = rng.integers(0, len(feature), (20, 2))
    some = world.predict_moves(states, feature, table, chosen)
    np.testing.assert_allclose(some, expected[np.arange(20)[:, None], chosen], **close)
    row, move = rng.integers(0, 20, 9), rng.integers(0, len(feature), 9)
    changed = world.predict_changed(states, row, feature[move], value[move])
    np.testing.assert_allclose(changed, expected[row, move], **close)


@pytest.mark.slow
def test_the_same_seed_gives_the_same_world_and_the_generator_of_torch_is_left_alone():
    before = torch.get_rng_state()
    one, same, other = (world_of(tiny.numbers, ROWS[:60], "regression", seed=seed) for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before)
    np.testing.assert_array_equal(one.predict(ROWS), same.predict(ROWS))
    assert (one.predict(ROWS) != other.predict(ROWS)).any() and one.agreement == same.agreement


def test_a_surrogate_comes_back_from_its_numbers():
    for name in ("mixed", "decision", "numbers"):
        world = hasty(name)
        again = SurrogateModel.restored(world.blackbox, world.weights_by_name())
        values = world.space.values(TASKS[name][1][:50])
        np.testing.assert_array_equal(again.predict(values), world.predict(values))
        assert (again.weight, again.error) == (world.weight, world.error)
        assert (again.targets.centre, again.targets.unit) == (world.targets.centre, world.targets.unit)


@pytest.mark.parametrize(
    ("name", "number"),
    [("weight", -0.1), ("weight", 1.1), ("weight", np.nan), ("error", 0.0), ("error", np.inf), ("unit", 0.0),
     ("unit", -1.0), ("centre", np.nan), ("unknown", 1.0), ("weight", None)],
)  # fmt: skip
def test_numbers_that_cannot_be_those_of_a_surrogate_are_refused_with_a_sentence(name, number):
    weights = hasty("numbers").weights_by_name()
    weights.pop(name, None)
    if number is not None:
        weights[name] = torch.tensor(number, dtype=torch.float64)
    with pytest.raises(InputError, match=r"the surrogate model.*\.$"):
        SurrogateModel.restored(hasty("numbers").blackbox, weights)


def test_torch_gets_its_threads_back():
    blackbox, values, answer = learned(tiny.numbers, ROWS[:60], "regression")
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        SurrogateModel(blackbox, values).fit(values, answer, 0.1)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("task", ["three classes", "labels", "numbers", "mixed"])
def test_the_imagined_model_answers_in_the_manner_of_the_model_and_never_asks_it(task):
    world = hasty(task)
    blackbox, imagined = world.blackbox, SurrogateBlackBox(world)
    values = world.space.values(TASKS[task][1][:50])
    real, nothing = blackbox.ask(values), blackbox.ask(values[:0])
    books = blackbox.rows_asked, blackbox.calls
    answer, empty = imagined.ask(values), imagined.ask(values[:0])
    with pytest.raises(AssertionError, match="only the model itself"):
        imagined.confirm(values)
    assert (imagined.rows_asked, imagined.calls) == (50, 2)
    assert (blackbox.rows_asked, blackbox.calls) == books
    for name in ("task", "has_scores", "has_probabilities"):
        assert getattr(imagined, name) == getattr(blackbox, name)
    np.testing.assert_array_equal(imagined.classes, blackbox.classes)
    for said, form in ((answer, real), (empty, nothing)):
        assert said.output.shape == form.output.shape and np.shape(said.scores) == np.shape(form.scores)
    goal = (Goal.shift(1.0) if task == "numbers" else Goal.flip()).bind(imagined, answer)
    assert not goal.met(answer).any()


def test_a_question_to_the_imagined_model_costs_one_row_even_where_the_model_is_asked_twice():
    world = hasty("decision")
    with world.blackbox.asking_strictly():
        assert world.blackbox.rows_per_question == 2
        assert SurrogateBlackBox(world).rows_per_question == 1
        assert world.blackbox.strict


@pytest.mark.slow
@pytest.mark.parametrize("size", [1e-200, 1e-30, 1e30, 1e200])
def test_a_regressor_of_any_size_is_known_as_well_as_any_other(size):
    world = world_of(lambda rows: size * tiny.numbers(rows), ROWS, "regression")
    usual = world_of(tiny.numbers, ROWS, "regression")
    assert world.agreement.explained == pytest.approx(usual.agreement.explained, abs=0.02)
    assert 0.001 < world.error < 10.0
    told = SurrogateBlackBox(world).ask(ROWS).output
    assert np.median(np.abs(told / size - tiny.numbers(ROWS))) < 0.3
