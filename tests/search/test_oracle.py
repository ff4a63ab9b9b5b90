"""The oracle of a search: the model itself, or a surrogate model, by what an evaluation costs and may cost."""

import time

import numpy as np
import pytest

from relax_plugin.blackbox import BlackBox, Cost
from relax_plugin.features import FeatureSpace
from relax_plugin.search.oracle import needs_surrogate

ROWS = np.random.default_rng(0).normal(size=(100, 3))


class Scores:
    classes_ = np.array([0, 1])

    def __init__(self, seconds=0.0):
        self.seconds = seconds

    def predict_proba(self, rows):
        time.sleep(self.seconds * len(rows))
        high = 1.0 / (1.0 + np.exp(-np.asarray(rows)[:, 0]))
        return np.column_stack([1.0 - high, high])

    def predict(self, rows):
        return self.predict_proba(rows).argmax(axis=1)


def black_box(model):
    blackbox = BlackBox(model, FeatureSpace.infer(ROWS))
    blackbox.learn(ROWS)
    return blackbox


@pytest.mark.parametrize(("most", "surrogate"), [(None, False), (12, True), (99, True), (100, False)])
def test_few_allowed_evaluations_need_a_surrogate(most, surrogate):
    assert needs_surrogate(black_box(Scores()), most, ROWS) == surrogate


def test_a_costly_model_needs_a_surrogate():
    blackbox = black_box(Scores(0.003))
    assert 0.001 < blackbox.cost.row < 0.1
    assert needs_surrogate(blackbox, None, ROWS)


def test_a_model_that_was_slow_only_once_is_not_costly():
    blackbox = black_box(Scores())
    blackbox.cost = Cost(call=0.0, row=1.0)
    assert not needs_surrogate(blackbox, None, ROWS)


def test_labels_alone_have_no_surrogate():
    blackbox = black_box(lambda rows: np.asarray(rows)[:, 0] > 0)
    assert not needs_surrogate(blackbox, 12, ROWS)


def test_a_cost_is_told_in_words():
    assert str(Cost(0.0042, 3.1e-6)) == "4.2 ms a call and 3.1 µs a row"
