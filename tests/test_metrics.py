"""The metrics, by hand, and the command line that prints them."""

import numpy as np
import pandas as pd
import pytest

from relax_plugin.cli import main
from relax_plugin.evaluation.figures import MEASUREMENTS, run, summary
from relax_plugin.evaluation.metrics import mean_over, ratio_on_common, validity
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
    assert set(MEASUREMENTS) == {"core", "masked", "labels", "local"}


def test_the_command_line_lists_the_explainers(capsys):
    assert main(["list"]) == 0
    assert capsys.readouterr().out.split() == list_explainers()
