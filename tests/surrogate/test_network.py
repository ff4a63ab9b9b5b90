"""The two parts of a surrogate model, each alone: moves are predicted as moved rows are, and files restore them."""

from functools import cache

import numpy as np
import pandas as pd
import pytest
from reference import tiny

from relax_plugin import FeatureSpace
from relax_plugin.errors import InputError
from relax_plugin.surrogate import boosted, network
from relax_plugin.surrogate.boosted import TREES, BoostedTrees
from relax_plugin.surrogate.network import STEPS, TabledNetwork

PARTS = [BoostedTrees, TabledNetwork]
MIXED = tiny.mixed_rows(300)
SPACE = tiny.mixed_space(MIXED)
VALUES = SPACE.values(MIXED)
STATES = SPACE.values(tiny.mixed_rows(30, seed=1))


def wanted(rows, outputs):
    signal = tiny.mixed_signal(rows)
    return np.column_stack([signal, np.abs(signal), 5.0 - signal])[:, :outputs]


@cache
def fitted(part, outputs=1):
    return part(SPACE, VALUES).fit(VALUES, wanted(MIXED, outputs))


def explained(told, true):
    return 1.0 - ((told - true) ** 2).sum() / ((true - true.mean(axis=0)) ** 2).sum()


def random_moves(count, seed=0):
    """Moves of numbers, within and beyond the training rows, and to categories; ascending by feature."""
    rng = np.random.default_rng(seed)
    feature = np.sort(rng.integers(0, len(SPACE), count))
    value = SPACE.mean[feature] + 2.0 * SPACE.scale[feature] * rng.standard_normal(count)
    categories = np.maximum(np.diff(SPACE.category_offsets), 1)[feature]
    return feature, np.where(SPACE.is_categorical[feature], rng.integers(0, categories), value)


def moved(states, feature, value):
    rows = np.repeat(states[:, None], len(feature), axis=1)
    rows[:, np.arange(len(feature)), feature] = value
    return rows


@pytest.fixture(params=[False, True], ids=["at once", "in pieces"])
def pieces(request, monkeypatch):
    """Whether constants that bound the memory cut everything into pieces."""
    if request.param:
        for module in (boosted, network):
            monkeypatch.setattr(module, "CELLS_AT_ONCE", 3000)
            monkeypatch.setattr(module, "CELLS_OF_STATES", 9000)


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("outputs", [1, 3])
def test_moves_are_predicted_as_the_moved_rows_are(part, outputs, pieces):
    told, (feature, value) = fitted(part, outputs), random_moves(50)
    rows = moved(STATES, feature, value)
    expected = told.predict(rows.reshape(-1, len(SPACE))).reshape(len(STATES), 50, outputs)
    table, close = told.table(feature, value), {"rtol": 0, "atol": 2e-4}
    np.testing.assert_allclose(told.predict_moves(STATES, feature, table), expected, **close)
    chosen = np.random.default_rng(1).integers(0, 50, (len(STATES), 9))
    some = told.predict_moves(STATES, feature, table, chosen)
    np.testing.assert_allclose(some, expected[np.arange(len(STATES))[:, None], chosen], **close)
    row, move = np.random.default_rng(2).integers(0, [[len(STATES)], [50]], (2, 200))
    changed = told.predict_changed(STATES, row, feature[move], value[move])
    np.testing.assert_allclose(changed, expected[row, move], **close)
    assert expected.std(axis=1).mean() > 0.2  # the moves do move something


@pytest.mark.parametrize("part", PARTS)
def test_nothing_is_predicted_of_nothing(part):
    told, nothing = fitted(part, 3), np.empty(0, dtype=np.int64)
    feature, value = random_moves(5)
    assert told.predict(STATES[:0]).shape == (0, 3)
    assert told.predict_moves(STATES[:0], feature, told.table(feature, value)).shape == (0, 5, 3)
    assert told.predict_changed(STATES, nothing, nothing, np.empty(0)).shape == (0, 3)


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("outputs", [1, 3])
def test_arrays_put_into_another_predict_the_same_to_the_last_bit(part, outputs):
    told, other = fitted(part, outputs), part(SPACE, np.zeros((1, len(SPACE))), seed=9)
    other.load(told.arrays(), outputs)
    feature, value = random_moves(20)
    np.testing.assert_array_equal(other.predict(STATES), told.predict(STATES))
    one, same = (each.predict_moves(STATES, feature, each.table(feature, value)) for each in (told, other))
    np.testing.assert_array_equal(one, same)


def with_one(array, value):
    """The array with its last number replaced."""
    changed = np.array(array)
    changed.flat[-1] = value
    return changed


HOSTILE = {
    BoostedTrees: {
        "masks": [lambda a: a.astype(np.int64), lambda a: a.astype(np.float64), lambda a: a[:-1], lambda a: a.T],
        "pieces": [lambda a: a + 1, lambda a: a * 0, lambda a: -a, lambda a: a.astype(float), lambda a: a[:-1]],
        "thresholds": [
            *(lambda a: a[::-1].copy(), lambda a: a[:-1], lambda a: a.astype(np.int64), lambda a: a.astype(complex)),
        ],
        "leaves": [lambda a: a[:, :7], lambda a: a[..., :0], lambda a: a[0], lambda a: a.astype(np.int64)],
        "base": [lambda a: a[:0], lambda a: a[0], lambda a: a.astype(np.int64)],
    },
    TabledNetwork: {
        "edges": [lambda a: a[:, ::-1].copy(), lambda a: a[:-1], lambda a: a.T, lambda a: a.astype(np.int64)],
        "first": [lambda a: a[:-1], lambda a: a.T, lambda a: a.astype(np.int64)],
        "second": [lambda a: a.T[None], lambda a: a.astype(np.uint8)],
        "scale": [lambda a: np.array([1.0]), lambda a: np.array(-1.0), lambda a: np.array(0.0)],
        "centre": [lambda a: a[0], lambda a: a.astype(np.int64)],
    },
}
CASES = [(part, name, change) for part, of in HOSTILE.items() for name, changes in of.items() for change in changes]


@pytest.mark.parametrize(("part", "name", "change"), CASES)
def test_arrays_that_cannot_be_those_of_this_space_are_refused_with_a_sentence(part, name, change):
    arrays = fitted(part, 3).arrays()
    with pytest.raises(InputError, match=r"surrogate model.*\.$"):
        part(SPACE, VALUES).load({**arrays, name: change(arrays[name])}, 3)


@pytest.mark.parametrize("part", PARTS)
def test_arrays_that_lack_or_have_more_or_are_no_numbers_are_refused_with_a_sentence(part):
    arrays = fitted(part, 3).arrays()
    for name, array in arrays.items():
        changed = [{other: kept for other, kept in arrays.items() if other != name}]
        if array.dtype.kind == "f":
            changed += [{**arrays, name: with_one(array, bad)} for bad in (np.nan, np.inf)]
        for hostile in [*changed, {**arrays, "more": array}]:
            with pytest.raises(InputError, match=r"surrogate model.*\.$"):
                part(SPACE, VALUES).load(hostile, 3)
    with pytest.raises(InputError):
        part(SPACE, VALUES).load(arrays, 2)


@pytest.mark.slow
def test_fitting_in_shares_takes_no_more_steps_and_trees_than_fitting_at_once():
    for part, count, most in (
        (BoostedTrees, lambda t: len(t.grown), TREES),
        (TabledNetwork, lambda n: n.training.steps, STEPS),
    ):
        told = part(SPACE, VALUES)
        for share in (0.4, 0.3, 0.3):
            told.fit(VALUES, wanted(MIXED, 1), share)
        assert most - 2 <= count(told) <= most
        assert explained(told.predict(STATES), wanted(tiny.mixed_rows(30, seed=1), 1)) > 0.6


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("level", [0.0, 3.25, -1e6])
def test_a_constant_is_learned(part, level):
    told = part(SPACE, VALUES).fit(VALUES, np.full((len(VALUES), 2), level), 0.2)
    np.testing.assert_allclose(told.predict(STATES), level, atol=0.5)


@pytest.mark.parametrize("part", PARTS)
def test_constant_columns_say_nothing_and_do_no_harm(part):
    rows = np.column_stack([tiny.gaussian_rows(200, 2), np.zeros(200), np.full(200, 7.0)])
    space = FeatureSpace.infer(rows)
    told = part(space, rows).fit(rows, rows[:, :1])
    far = rows + np.array([0.0, 0.0, 3.0, -5.0])
    assert np.isfinite(told.predict(far)).all()
    assert explained(told.predict(rows), rows[:, :1]) > 0.9


@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize(
    ("factor", "offset"), [(1e-60, 0.0), (1e-9, 0.0), (1e9, 0.0), (1e60, 0.0), (1.0, 1e9), (1.0, -1e12)]
)
def test_a_feature_of_any_size_and_offset_is_learned_as_well_as_any_other(part, factor, offset):
    rows, fresh = tiny.gaussian_rows(300), tiny.gaussian_rows(300, seed=1)
    scores = []
    for a, b in ((1.0, 0.0), (factor, offset)):
        train, test = (np.column_stack([b + a * x[:, 0], x[:, 1:]]) for x in (rows, fresh))
        told = part(FeatureSpace.infer(train), train).fit(train, tiny.numbers(rows)[:, None])
        scores.append(explained(told.predict(test), tiny.numbers(fresh)[:, None]))
    assert scores[1] == pytest.approx(scores[0], abs=0.02) and scores[0] > 0.6


@pytest.mark.parametrize("part", PARTS)
def test_values_a_million_standard_deviations_away_are_predicted_as_numbers(part):
    told, far = fitted(part, 1), STATES.copy()
    numbers = ~SPACE.is_categorical
    far[:, numbers] += (
        np.array([[1e6], [-1e6], [1e40], [-1e300], [0.0]])[np.arange(len(far)) % 5] * SPACE.scale[numbers]
    )
    feature, value = random_moves(20)
    for states in (far, STATES):
        for each in (told.predict(states), told.predict_moves(states, feature, told.table(feature, value))):
            assert np.isfinite(each).all()
    rows = moved(far, feature, value).reshape(-1, len(SPACE))
    expected = told.predict(rows).reshape(len(far), 20, 1)
    told_so = told.predict_moves(far, feature, told.table(feature, value))
    np.testing.assert_allclose(told_so, expected, rtol=2e-3, atol=2e-2)


def test_the_steps_of_a_tree_are_followed_by_the_trees_to_the_row():
    rows = tiny.gaussian_rows(400)
    steps = (np.sign(rows[:, 0]) * (rows[:, 1] > 0.5) + (rows[:, 0] > 1.0))[:, None]
    assert explained(BoostedTrees(FeatureSpace.infer(rows), rows).fit(rows, steps).predict(rows), steps) > 0.95


def test_many_categories_take_bounded_memory():
    codes = np.arange(3000.0) % 1000
    rows = np.column_stack([tiny.gaussian_rows(3000, 1), codes])
    names = np.array([f"c{code:04.0f}" for code in codes])
    space = FeatureSpace.infer(pd.DataFrame({"a": rows[:, 0], "c": names}))
    told = TabledNetwork(space, rows).fit(rows[:500], rows[:500, :1], 0.05)
    assert told.predict(rows).shape == (3000, 1)
