"""A world model imitates the model, says honestly how well, and never asks it."""

from functools import cache
from hashlib import blake2b

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from reference import tiny
from reference.tiny import gaussian_rows, mixed_rows
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from relax_plugin import BlackBox, FeatureSpace, Goal
from relax_plugin.blackbox import Answer
from relax_plugin.errors import InputError
from relax_plugin.world_model import model as world_model
from relax_plugin.world_model.model import LABEL_LOGIT, LEAST_ROWS, Agreement, ImaginedBlackBox, WorldModel

SVC = LinearSVC(random_state=0).fit(gaussian_rows(), tiny.two_class_labels(gaussian_rows()))
TASKS = {
    "two classes": (tiny.two_class_probabilities, gaussian_rows, "auto"),
    "three classes": (tiny.three_class_probabilities, gaussian_rows, "auto"),
    "decision": (SVC, gaussian_rows, "auto"),
    "labels": (tiny.two_class_labels, gaussian_rows, "auto"),
    "numbers": (tiny.numbers, gaussian_rows, "regression"),
    "mixed classes": (tiny.mixed_probabilities, mixed_rows, "auto"),
    "mixed labels": (tiny.mixed_labels, mixed_rows, "auto"),
    "mixed numbers": (tiny.mixed_signal, mixed_rows, "regression"),
}


def learned(model, rows, task="auto"):
    """A black box that has seen the rows, the rows as values, and its answer to them."""
    space = FeatureSpace.infer(rows)
    blackbox, values = BlackBox(model, space, task), space.values(rows)
    return blackbox, values, blackbox.learn(values)


def fitted(model, rows, task="auto", seed=0):
    blackbox, values, answer = learned(model, rows, task)
    return WorldModel(blackbox, WorldModel.pieces(values), seed).fit(values, answer)


@cache
def world_of(task):
    model, draw, kind = TASKS[task]
    return fitted(model, draw(1000), kind)


@cache
def unfitted(task):
    model, draw, kind = TASKS[task]
    blackbox, values, _ = learned(model, draw(60), kind)
    blackbox.least_probability = 1e-6
    return WorldModel(blackbox, WorldModel.pieces(values))


def fresh(world, task, count, seed=1):
    return world.space.values(TASKS[task][1](count, seed=seed))


def explained(predicted, targets):
    return 1.0 - ((predicted - targets) ** 2).sum() / ((targets - targets.mean(axis=0)) ** 2).sum()


def weights_of(world):
    return torch.cat([weight.flatten().double() for weight in world.weights_by_name().values()])


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
def test_it_learns_a_smooth_model_and_agrees_with_it_on_fresh_rows_as_it_says(task):
    world = world_of(task)
    values = fresh(world, task, 2000)
    answer, predicted, agreement = world.blackbox.ask(values), world.predict(values), world.agreement
    assert agreement.rows == 1000
    assert agreement.explained > (0.8 if "labels" in task else 0.97)
    assert explained(predicted, world.targets(answer)) == pytest.approx(agreement.explained, abs=0.05)
    if "numbers" in task:
        assert np.isnan(agreement.labels)
    else:
        assert agreement.labels > 0.94
        same = (world.answer(predicted).output == answer.output).mean()
        assert same == pytest.approx(agreement.labels, abs=0.03)


def noise(rows):
    """A number from -1 to 1 for each row, which nothing but the very row tells."""
    digests = [blake2b(row.tobytes(), digest_size=8).digest() for row in np.ascontiguousarray(rows)]
    return np.array([int.from_bytes(digest, "little") / 2**63 - 1.0 for digest in digests])


def noisy_probabilities(rows):
    positive = 1.0 / (1.0 + np.exp(-4.0 * noise(rows)))
    return np.column_stack([1.0 - positive, positive])


@pytest.mark.slow
@pytest.mark.parametrize(("model", "task"), [(noise, "regression"), (noisy_probabilities, "classification")])
def test_of_pure_noise_it_says_that_it_knows_nothing(model, task):
    rows = gaussian_rows(600, 10)
    world = fitted(model, rows, task)
    assert explained(world.predict(rows), world.targets(world.blackbox.ask(rows))) > 0.5  # what it saw is memorised
    assert world.agreement.explained < 0.05
    if task == "classification":
        assert world.agreement.labels == pytest.approx(0.5, abs=0.08)


@pytest.mark.slow
@pytest.mark.parametrize("at", [-0.6, 0.0, 1.0])
def test_the_step_of_a_stump_is_followed(at):
    rows = gaussian_rows(1000)
    world = fitted(DecisionTreeClassifier(max_depth=1).fit(rows, rows[:, 1] > at), rows)
    assert world.agreement.explained > 0.88
    assert world.agreement.labels > 0.97


@pytest.mark.slow
def test_the_steps_of_a_tree_are_followed_by_the_pieces():
    rows = gaussian_rows(1000)
    steps = np.sign(rows[:, 0]) * (rows[:, 1] > 0.5) + (rows[:, 0] > 1.0)
    blackbox, values, answer = learned(DecisionTreeRegressor(max_depth=3).fit(rows, steps), rows)
    edges = WorldModel.pieces(values)
    by_pieces = WorldModel(blackbox, edges).fit(values, answer).agreement.explained
    without = WorldModel(blackbox, np.zeros_like(edges)).fit(values, answer).agreement.explained
    assert by_pieces > 0.88
    assert 1.0 - by_pieces < 0.75 * (1.0 - without)


def test_agreement_is_told_in_a_sentence():
    told = "the same label on 91.4% of 80 held-out rows, 50.0% of the variance explained"
    assert str(Agreement(0.914, 0.5, 80)) == told
    assert str(Agreement(np.nan, -0.25, 80)) == "-25.0% of the variance explained"


@pytest.mark.slow
@pytest.mark.parametrize("level", [0.0, 0.5, 0.1, 1e6 / 3])
@pytest.mark.parametrize("task", ["regression", "classification"])
def test_a_constant_model_is_known_exactly(task, level):
    share = 1.0 / (1.0 + level)
    answer = level if task == "regression" else [share, 1.0 - share]
    world = fitted(lambda rows: np.tile(answer, (len(rows), 1)), gaussian_rows(300), task)
    predicted = world.predict(gaussian_rows(50, seed=1))
    assert (predicted == predicted[0]).all()
    np.testing.assert_allclose(predicted[0], world.targets(world.blackbox.ask(gaussian_rows(1)))[0], rtol=1e-12)
    assert world.agreement.explained == 1.0
    assert task == "regression" or world.agreement.labels == 1.0


def test_too_few_rows_are_refused_by_their_number():
    blackbox, values, answer = learned(tiny.numbers, gaussian_rows(LEAST_ROWS), "regression")
    world = WorldModel(blackbox, WorldModel.pieces(values))
    with pytest.raises(InputError, match=rf"at least {LEAST_ROWS} .* {LEAST_ROWS - 1} are given"):
        world.fit(values[:-1], answer.take(slice(0, -1)))
    assert world.fit(values, answer).agreement.rows == LEAST_ROWS


@pytest.mark.slow
@pytest.mark.parametrize("task", ["two classes", "three classes", "decision", "labels", "numbers"])
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_targets_and_answer_are_inverse_to_each_other(task, data):
    world = unfitted(task)
    shape = (data.draw(st.integers(0, 4)), world.outputs)
    targets = data.draw(arrays(np.float64, shape, elements=st.floats(-4.0, 4.0)))
    if task not in ("decision", "numbers"):  # logits are known up to their mean
        targets -= targets.mean(axis=1, keepdims=True)
    answer = world.answer(targets)
    np.testing.assert_allclose(world.targets(answer), targets, atol=1e-9)
    if task == "numbers":
        assert answer.scores is None
    else:
        np.testing.assert_array_equal(answer.output, targets.argmax(axis=1))
        assert task == "decision" or answer.scores.sum(axis=1) == pytest.approx(1.0)


@pytest.mark.parametrize("task", ["two classes", "three classes", "decision", "labels", "numbers", "mixed labels"])
def test_what_the_model_answers_comes_back_from_its_targets(task):
    world = unfitted(task)
    answer = world.blackbox.ask(fresh(world, task, 300))
    back = world.answer(world.targets(answer))
    np.testing.assert_array_equal(back.output, answer.output)
    if answer.scores is not None:
        np.testing.assert_allclose(back.scores, answer.scores, atol=1e-5)


def test_probabilities_beyond_the_grain_are_clipped_to_it_and_a_label_alone_is_a_logit(monkeypatch):
    world, sure = unfitted("two classes"), Answer(np.array([1.0]), np.array([[0.0, 1.0]]))
    monkeypatch.setattr(world.blackbox, "least_probability", 0.01)
    np.testing.assert_allclose(world.targets(sure), np.log([[0.1, 10.0]]))
    np.testing.assert_allclose(world.targets(Answer(sure.output)), [[-LABEL_LOGIT / 2, LABEL_LOGIT / 2]])


@pytest.mark.slow
@pytest.mark.parametrize("task", ["mixed classes", "mixed numbers", "labels"])
@pytest.mark.parametrize("block", [7, 16_384])
def test_moves_are_predicted_as_the_moved_rows_are(task, block, monkeypatch):
    world, rng = world_of(task), np.random.default_rng(0)
    space, values, n = world.space, fresh(world, task, 20), 300
    row, feature = rng.integers(0, 20, n), rng.integers(0, len(space), n)
    value = space.mean[feature] + 2.0 * space.scale[feature] * rng.standard_normal(n)  # beyond the training rows too
    categories = np.maximum(np.diff(space.category_offsets), 1)[feature]
    value = np.where(space.is_categorical[feature], rng.integers(0, categories), value)
    moved = values[row]
    moved[np.arange(n), feature] = value
    expected, before = world.predict(moved), world.predict(values)[row]
    monkeypatch.setattr(world_model, "ROWS_AT_ONCE", block)
    close = {"rtol": 0, "atol": 1e-4 * world.scale}
    np.testing.assert_allclose(world.predict_moves(values, row, feature, value), expected, **close)
    np.testing.assert_allclose(world.predict_moves(values, row, feature, values[row, feature]), before, **close)
    assert np.abs(expected - before).max() > 0.5 * world.scale


@pytest.mark.slow
@pytest.mark.parametrize("task", ["mixed classes", "decision", "numbers"])
def test_nothing_is_predicted_of_nothing(task):
    world, nothing = world_of(task), np.empty(0, dtype=np.int64)
    values = fresh(world, task, 5)
    assert world.predict(values[:0]).shape == (0, world.outputs)
    for few in (values, values[:0]):
        assert world.predict_moves(few, nothing, nothing, np.empty(0)).shape == (0, world.outputs)


@pytest.mark.parametrize("count", [1, 7, 8, 50])
def test_many_rows_are_predicted_block_by_block_with_the_same_result(count, monkeypatch):
    world, blocks = world_of("mixed classes"), []
    values = fresh(world, "mixed classes", 50)[:count]
    at_once = world.predict(values)
    monkeypatch.setattr(world_model, "ROWS_AT_ONCE", 7)
    hook = world.network[-1].register_forward_pre_hook(lambda _, inputs: blocks.append(inputs[0].shape[1]))
    np.testing.assert_allclose(world.predict(values), at_once, atol=1e-5)
    hook.remove()
    assert max(blocks) <= 7 and sum(blocks) == count


@pytest.mark.slow
def test_the_same_seed_gives_the_same_world_and_the_generator_of_torch_is_left_alone():
    before = torch.get_rng_state()
    one, same, other = (fitted(tiny.numbers, gaussian_rows(60), "regression", seed) for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(weights_of(one), weights_of(same))
    assert one.agreement.explained == same.agreement.explained
    assert not torch.equal(weights_of(one), weights_of(other))


@pytest.mark.parametrize("task", ["mixed classes", "decision", "numbers"])
def test_weights_taken_out_and_put_in_again_predict_the_same(task):
    world = world_of(task)
    values, weights = fresh(world, task, 50), world.weights_by_name()
    copied = WorldModel(world.blackbox, weights.pop("edges").numpy(), seed=9)
    assert not np.allclose(copied.predict(values), world.predict(values))
    copied.load_weights(weights)
    np.testing.assert_array_equal(copied.predict(values), world.predict(values))


def test_torch_gets_its_threads_back():
    blackbox, values, answer = learned(tiny.numbers, gaussian_rows(60), "regression")
    world, inside, before = WorldModel(blackbox, WorldModel.pieces(values)), [], torch.get_num_threads()
    world.network[-1].register_forward_pre_hook(lambda *_: inside.append(torch.get_num_threads()))
    torch.set_num_threads(2)
    try:
        world.fit(values, answer).predict(values)
        world.predict_moves(values, np.array([0]), np.array([1]), np.array([0.5]))
        with pytest.raises(InputError):
            world.fit(values[:1], answer.take(slice(0, 1)))
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert set(inside) == {1}


@pytest.mark.slow
@pytest.mark.parametrize("task", ["three classes", "decision", "labels", "numbers", "mixed classes"])
def test_the_imagined_model_answers_in_the_manner_of_the_model_and_never_asks_it(task):
    model, draw, kind = TASKS[task]
    counting = model if task == "decision" else tiny.Counting(model)
    world = fitted(counting, draw(200), kind)
    blackbox, imagined, values = world.blackbox, ImaginedBlackBox(world), fresh(world, task, 50)
    real, nothing = blackbox.ask(values), blackbox.ask(values[:0])
    asked, calls = blackbox.rows_asked, getattr(counting, "calls", None)
    answer, empty = imagined.ask(values), imagined.ask(values[:0])
    with pytest.raises(AssertionError, match="only the model itself"):
        imagined.confirm(draw(3))
    assert (imagined.rows_asked, imagined.calls) == (50, 2)
    assert (blackbox.rows_asked, getattr(counting, "calls", None)) == (asked, calls)
    for name in ("task", "has_scores", "has_probabilities"):
        assert getattr(imagined, name) == getattr(blackbox, name)
    np.testing.assert_array_equal(imagined.classes, blackbox.classes)
    for said, form in ((answer, real), (empty, nothing)):
        assert said.output.shape == form.output.shape and np.shape(said.scores) == np.shape(form.scores)
    np.testing.assert_array_equal(answer.output, world.answer(world.predict(values)).output)
    goal = (Goal.shift(1.0) if task == "numbers" else Goal.flip()).bind(imagined, answer)
    assert not goal.met(answer).any()


def test_a_question_to_the_imagined_model_costs_one_row_even_where_the_model_is_asked_twice():
    world = unfitted("two classes")
    with world.blackbox.asking_strictly():
        assert world.blackbox.rows_per_question == 2
        assert ImaginedBlackBox(world).rows_per_question == 1
        assert world.blackbox.strict
