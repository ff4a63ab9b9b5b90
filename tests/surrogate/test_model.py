"""A surrogate says honestly how well it knows the model, never asks it, and comes back from a file."""

from functools import cache

import numpy as np
import pandas as pd
import pytest
from reference import tiny
from reference.worlds import goal_of, learned, world_of
from sklearn.svm import LinearSVC

from relax_plugin import FeatureSpace, Goal
from relax_plugin.blackbox import Answer
from relax_plugin.errors import InputError
from relax_plugin.surrogate import model as module
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


def judged(told, true):
    """A surrogate model that predicts these numbers, judged by the true ones."""
    blackbox, values, _ = learned(tiny.numbers, ROWS[: len(true)], "regression")
    world = SurrogateModel(blackbox, values)
    world.predict = lambda values: told[:, None]
    world.judge(values, Answer(true), goal_of(blackbox, Answer(true)))
    return world


def test_a_perfect_world_is_trusted_and_a_constant_one_explains_all_there_is():
    true = np.linspace(-1.0, 1.0, 20)
    world = judged(true, true)
    assert (world.error, world.agreement.explained) == (LEAST_ERROR, 1.0)
    assert np.isnan(world.agreement.labels) and np.isnan(world.agreement.worst)
    assert judged(0 * true, 0 * true).agreement.explained == 1.0
    assert judged(0 * true, true).error > judged(0.9 * true, true).error


def test_agreement_is_measured_by_class_and_the_worst_is_told():
    blackbox, values, answer = learned(tiny.three_class_probabilities, ROWS)
    world = SurrogateModel(blackbox, values)
    wrong = world.targets.of(answer)
    fooled = np.flatnonzero(answer.output == 2)[::2]
    wrong[fooled] = wrong[fooled][:, [2, 0, 1]]
    world.predict = lambda values: wrong
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


@pytest.mark.parametrize("task", ["mixed", "numbers", "three classes"])
def test_rows_near_others_are_predicted_as_all_rows_are(task):
    world, rng = hasty(task), np.random.default_rng(0)
    states, others = (world.space.values(TASKS[task][1][some]) for some in (slice(20), slice(50, 350)))
    owner = rng.integers(0, 20, 300)
    rows = np.where(rng.random(others.shape) < 0.4, others, states[owner])
    near = world.predict_near(states, world.hidden(states), owner, rows)
    np.testing.assert_allclose(near, world.predict(rows), rtol=0, atol=1e-3)
    assert near.std() > 0.1
    assert world.predict(states[:0]).shape == (0, world.targets.count)


def explained(model, rows, fresh, factor=1.0, offset=0.0):
    """How well numbers of fresh rows are predicted whose first feature is given in another unit."""
    rows, given = np.asarray(rows), [one * [factor, 1, 1, 1] + [offset, 0, 0, 0] for one in (rows, fresh)]
    blackbox, values, _ = learned(lambda table: np.zeros(len(table)), given[0], "regression")
    told = SurrogateModel(blackbox, values).fit(values, Answer(model(rows))).predict(given[1])[:, 0]
    return np.corrcoef(told, model(fresh))[0, 1] ** 2


@pytest.mark.slow
@pytest.mark.parametrize(("factor", "offset"), [(1e-60, 0.0), (1e-9, 0.0), (1e60, 0.0), (1.0, 1e9), (1.0, -1e12)])
def test_a_feature_of_any_size_and_offset_is_learned_as_well_as_any_other(factor, offset):
    fresh = tiny.gaussian_rows(300, seed=1)
    usual, other = (explained(tiny.numbers, ROWS, fresh, *unit) for unit in ((1.0, 0.0), (factor, offset)))
    assert other == pytest.approx(usual, abs=0.02) and usual > 0.6


@pytest.mark.parametrize("level", [0.0, 3.25, -1e6])
def test_a_constant_is_learned_from_rows_with_constant_columns(level):
    rows = np.column_stack([tiny.gaussian_rows(200, 2), np.zeros(200), np.full(200, 7.0)])
    blackbox, values, _ = learned(tiny.numbers, rows, "regression")
    world = SurrogateModel(blackbox, values).fit(values, Answer(np.full(200, level)), 0.2)
    far = values + np.array([0.0, 0.0, 3.0, -5.0])
    np.testing.assert_allclose(world.targets.answer(world.predict(far)).output, level, rtol=0.2, atol=0.5)


def test_values_a_million_standard_deviations_away_are_predicted_as_numbers():
    world = hasty("numbers")
    far = ROWS[:5] + np.array([[1e6], [-1e6], [1e40], [-1e300], [0.0]]) * world.space.scale
    with np.errstate(over="raise", invalid="raise"):
        assert np.isfinite(world.predict(far)).all()


def test_many_categories_and_many_features_take_bounded_memory(monkeypatch):
    codes = np.arange(3000) % 1000
    table = pd.DataFrame({"a": tiny.gaussian_rows(3000, 1)[:, 0], "c": [f"c{code:04}" for code in codes]})
    blackbox, values, _ = learned(lambda rows: np.zeros(len(rows)), table, "regression", FeatureSpace.infer(table))
    world = SurrogateModel(blackbox, values).fit(values[:500], Answer(table["a"].to_numpy()[:500]), 0.05)
    seen = []
    inputs = world._inputs
    monkeypatch.setattr(world, "_inputs", lambda rows: seen.append(rows) or inputs(rows))
    monkeypatch.setattr(module, "CELLS", 100_000)
    assert world.predict(values).shape == (3000, 1) and max(map(len, seen)) * world.inputs <= 100_000


@pytest.mark.slow
def test_the_same_seed_gives_the_same_world():
    one, same, other = (world_of(tiny.numbers, ROWS[:60], "regression", seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.predict(ROWS), same.predict(ROWS))
    assert (one.predict(ROWS) != other.predict(ROWS)).any() and one.agreement == same.agreement


def test_a_surrogate_comes_back_from_its_numbers():
    for name in ("mixed", "decision", "numbers"):
        world = hasty(name)
        again = SurrogateModel.restored(world.blackbox, world.weights_by_name())
        values = world.space.values(TASKS[name][1][:50])
        np.testing.assert_array_equal(again.predict(values), world.predict(values))
        assert again.error == world.error
        assert (again.targets.centre, again.targets.unit) == (world.targets.centre, world.targets.unit)


@pytest.mark.parametrize(
    ("name", "number"),
    [("scale", 0.0), ("scale", -1.0), ("error", 0.0), ("error", np.inf), ("unit", 0.0), ("unit", -1.0),
     ("centre", np.nan), ("scale", None)],
)  # fmt: skip
def test_numbers_that_cannot_be_those_of_a_surrogate_are_refused_with_a_sentence(name, number):
    arrays = hasty("numbers").weights_by_name()
    arrays.pop(name, None)
    if number is not None:
        arrays[name] = np.array(number)
    with pytest.raises(InputError, match=r"(the surrogate model|is expected|is no number).*\.$"):
        SurrogateModel.restored(hasty("numbers").blackbox, arrays)


def test_arrays_that_cannot_be_those_of_this_space_are_refused_with_a_sentence():
    world = hasty("mixed")
    for name, array in world.weights_by_name().items():
        changed = [array.astype(np.int64), array[None], *([array[..., :-1]] if array.ndim else [])]
        if array.dtype.kind == "f":
            changed += [np.full_like(array, bad) for bad in (np.nan, np.inf)]
        if name == "edges":
            changed.append(array[:, ::-1].copy())
        for hostile in changed:
            with pytest.raises(InputError, match=r"(surrogate model|is expected|is no number).*\.$"):
                SurrogateModel.restored(world.blackbox, {**world.weights_by_name(), name: hostile})


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
