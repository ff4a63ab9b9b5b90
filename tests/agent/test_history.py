"""The History of a training: a curve at defaults, whose points between validations change nothing and cost nothing."""

from dataclasses import replace

import numpy as np
import pytest
from reference.tiny import QUICK, Counting, gaussian_rows, two_class_probabilities

from relax_plugin import ReLAX, ReLAXConfig
from relax_plugin.agent import history as history_module
from relax_plugin.agent.history import OF_POLICY

ROWS = gaussian_rows()
IMAGINED = replace(QUICK, training="imagined", steps=24, validate_every=12)
ON_THE_MODEL = replace(IMAGINED, training="model")


def fitted(config, model=two_class_probabilities):
    return ReLAX(model, config=config, max_changes=2, effort="policy", progress=False).fit(ROWS)


def weights_of(explainer):
    return {name: tensor.numpy().tobytes() for name, tensor in explainer.agent_.weights_by_name().items()}


@pytest.fixture(scope="module")
def imagined():
    return fitted(IMAGINED)


@pytest.mark.slow
def test_a_training_by_default_settings_has_at_least_ten_points():
    explainer = ReLAX(two_class_probabilities, max_changes=2, effort="policy", progress=False).fit(ROWS)
    frame = explainer.history_.frame()
    assert explainer.training_.startswith("in imagination")
    assert len(frame) >= 10
    assert frame["validity"].notna().all() and frame["step"].is_unique


@pytest.mark.slow
@pytest.mark.parametrize("steps", [None, 5000])
def test_the_earliest_end_still_leaves_ten_points(steps):
    """Nothing is learned, so that no validation is better than the first, and patience alone is waited for."""
    small = {name: getattr(QUICK, name) for name in ("episodes", "hidden", "start_pool", "updates_per_step")}
    history = fitted(ReLAXConfig(learning_rate=0.0, steps=steps, **small)).history_
    assert history.stopped == "no improvement on the validation rows"
    assert len(history.rows) >= 10


@pytest.mark.slow
@pytest.mark.parametrize("config", [IMAGINED, ON_THE_MODEL], ids=["imagined", "on the model"])
def test_points_between_validations_change_neither_the_agent_nor_what_it_costs(config, monkeypatch):
    models = Counting(two_class_probabilities), Counting(two_class_probabilities)
    with_points = fitted(config, models[0])
    monkeypatch.setattr(history_module, "POINTS", 0.01)  # validations alone
    without = fitted(config, models[1])
    assert weights_of(with_points) == weights_of(without)
    assert models[0].rows == models[1].rows and with_points.fit_rows_ == without.fit_rows_
    more, fewer = with_points.history_.frame(), without.history_.frame()
    assert fewer["step"].tolist() == [12, 24] and len(more) >= 10
    same = ["step", "rows", "exploration", "reward", "td_error", "top_tenth", *OF_POLICY]
    np.testing.assert_array_equal(more.dropna(subset="objective")[same], fewer[same])


@pytest.mark.slow
def test_points_in_imagination_tell_the_policy_and_choose_nothing(imagined):
    frame = imagined.history_.frame()
    between = frame[~frame["step"].isin([12, 24])]
    assert between["objective"].isna().all() and frame["objective"].notna().sum() == 2
    assert between["validity"].between(0.0, 1.0).all()
    assert frame["rows"].is_monotonic_increasing


@pytest.mark.slow
@pytest.mark.parametrize("config", [ON_THE_MODEL, replace(IMAGINED, seconds=1e6)], ids=["model", "seconds"])
def test_points_that_would_cost_something_tell_the_training_alone(config):
    frame = fitted(config).history_.frame()
    between = frame[~frame["step"].isin([12, 24])]
    assert len(between) >= 8
    assert between[list(OF_POLICY)].isna().all(axis=None)
    assert between[["rows", "exploration", "reward", "td_error", "top_tenth"]].iloc[1:].notna().all(axis=None)


def test_what_was_interrupted_before_its_first_validation_counts_as_untrained():
    class Interrupting:
        calls = 0

        def __call__(self, rows):
            self.calls += 1
            if self.calls == 10:
                raise KeyboardInterrupt
            return two_class_probabilities(rows)

    explainer = fitted(replace(ON_THE_MODEL, steps=100, validate_every=50), Interrupting())
    assert explainer.history_.stopped == "interrupted"
    assert explainer.history_.rows == []


@pytest.mark.slow
def test_the_page_marks_a_validation_even_where_a_point_between_is_more_valid(imagined):
    rows = [{"step": step, "validity": validity, "objective": objective} for step, validity, objective in
            ((5, 0.9, np.nan), (10, 0.5, 0.4), (15, 1.0, np.nan), (20, 0.6, 0.5), (25, np.nan, np.nan))]  # fmt: skip
    figure = history_module.History(rows).plot()
    (axes,) = figure.axes
    assert [line.get_xdata()[0] for line in axes.lines if line.get_linestyle() == "--"] == [20]
    assert axes.lines[0].get_xdata().tolist() == [5, 10, 15, 20]  # one curve, without holes
    assert len(imagined.history_.plot().axes) == 6


def test_the_page_of_a_training_is_of_every_point(imagined):
    frame = imagined.history_.frame()
    lines = {axes.get_title(): axes.lines[0] for axes in imagined.history_.plot().axes}
    assert lines["exploration ε"].get_xdata().tolist() == frame["step"].tolist()
    assert lines["validity, validation rows"].get_ydata().tolist() == frame["validity"].tolist()
