"""The metrics, by hand, and the command line that prints them."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from relax_plugin.cli import main
from relax_plugin.evaluation.figures import MEASUREMENTS, run, summary
from relax_plugin.evaluation.metrics import break_even, mean_over, ratio_on_common, total_rows, validity
from relax_plugin.evaluation.tasks import load_task
from relax_plugin.registry import list_explainers, make_explainer

FOUND = np.array([True, True, False, True])
NUMBERS = np.array([1.0, 3.0, np.nan, 5.0])


def test_a_missing_counterfactual_counts_as_invalid():
    assert validity(FOUND) == 0.75
    assert np.isnan(validity(np.zeros(0, dtype=bool)))


def test_means_are_taken_over_the_given_rows_only():
    assert mean_over(FOUND, NUMBERS) == 3.0
    assert np.isnan(mean_over(np.zeros(4, dtype=bool), NUMBERS))


def test_ratios_are_taken_on_the_rows_that_both_solved():
    theirs = np.array([2.0, np.nan, 7.0, 1.0])
    assert ratio_on_common(NUMBERS, theirs, FOUND, np.array([True, False, True, True])) == pytest.approx(6.0 / 3.0)


def test_total_rows_are_those_of_fitting_and_of_every_instance():
    assert total_rows(4000, 35.5, 100) == 7550.0
    assert total_rows(256, 90.0, 0) == 256.0
    np.testing.assert_array_equal(total_rows(np.array([0, 10]), np.array([2.0, 0.5]), 4), [8.0, 12.0])


@pytest.mark.parametrize(
    ("training", "each", "rival_training", "rival_each", "instances"),
    [
        (256, 40, 256, 40, 0),  # equal
        (100, 30, 256, 40, 0),  # cheaper from the beginning on
        (256, 30, 256, 40, 0),
        (100, 40, 256, 40, 0),
        (4000, 20, 0, 60, 100),
        (4001, 20, 0, 60, 101),  # rounded up
        (4100, 35, 256, 110, 52),
        (1, 0.25, 0, 0.5, 4),
        (4000, 40, 256, 40, np.inf),  # never
        (4000, 41, 256, 40, np.inf),
        (0, 41, 256, 40, np.inf),  # cheaper for 256 instances, and never after
    ],
)
def test_break_even_by_hand(training, each, rival_training, rival_each, instances):
    assert break_even(training, each, rival_training, rival_each) == instances


ROWS_ONCE = st.integers(0, 100_000)
ROWS_EACH = st.integers(0, 2000).map(lambda quarters: quarters / 4)  # sums and products of these are exact


@given(ROWS_ONCE, ROWS_EACH, ROWS_ONCE, ROWS_EACH, st.integers(0, 10_000))
def test_from_break_even_on_and_not_before_a_method_asks_no_more_than_its_rival(once, each, rival, rival_each, later):
    def dearer(instances):
        return total_rows(once, each, instances) > total_rows(rival, rival_each, instances)

    instances = break_even(once, each, rival, rival_each)
    if np.isinf(instances):
        assert dearer(1e9)
    else:
        assert instances == int(instances)
        assert not dearer(instances) and not dearer(instances + later)
        assert instances == 0 or dearer(instances - 1)


def test_a_run_is_one_row_measured_against_its_yardstick():
    task = load_task("breast_cancer/mlp", seed=0)
    greedy = run(make_explainer("greedy", task.model, task.space), task)
    row = greedy.row("greedy", greedy)
    assert row["validity"] == greedy.result.found.mean()
    assert (row["L0 ratio"], row["L1 ratio"]) == (1.0, 1.0)
    assert row["rows"] == greedy.result.rows_queried.mean()


def test_the_summary_has_means_and_spread_over_seeds():
    frame = pd.DataFrame({"task": "t", "method": "m", "seed": [0, 1], "validity": [1.0, 0.5], "L0": [1.0, 2.0]})
    table = summary(frame)
    assert table.loc[("t", "m"), ["validity", "± validity", "lowest validity", "L0"]].tolist() == [0.75, 0.25, 0.5, 1.5]


def test_an_unknown_measurement_is_refused(capsys):
    assert main(["bench", "everything"]) == 2
    assert "everything" in capsys.readouterr().err
    assert set(MEASUREMENTS) == {"core", "masked", "labels", "local", "imagination"}


def test_the_command_line_lists_the_explainers(capsys):
    assert main(["list"]) == 0
    assert capsys.readouterr().out.split() == list_explainers()
