"""Facts about the tables: every number of a small benchmark, computed by hand."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relax_plugin.evaluation.judge import COLUMNS, Method, Unit
from relax_plugin.evaluation.tables import anytime, by_class, core, failures, overhead, readable, summary, validity_at_k

COSTS = {"fit_seconds": 3.0, "explain_seconds": 1.0, "model_seconds": 1.0, "fit_rows": 100, "explain_calls": 7}
CLASSES = ["a", "a", "b", "b"]
UNSOLVED = float("nan")
SQRT2 = 2**0.5


def solved(
    method: str,
    seed: int,
    sparsity: list[float],
    proximity: list[float],
    task: str = "t",
    kind: str = "classification",
    **columns: Any,
) -> list[dict[str, Any]]:
    """The rows of a unit: NaN where an instance was not solved."""
    unit = []
    for instance, (changes, distance) in enumerate(zip(sparsity, proximity, strict=True)):
        valid = not np.isnan(changes)
        row = Unit(task, Method.parse(method), seed).failure("ok", "" if valid else "none was found")
        row |= {
            "instance": instance,
            "instances": len(sparsity),
            "features": 3,
            "kind": kind,
            "claimed": valid,
            "valid": valid,
        }
        row |= {
            "sparsity": changes,
            "proximity": distance,
            "before": CLASSES[instance % 4],
            "rows": 10 * (instance + 1),
        }
        row |= {"redundant": 0.0 if valid else np.nan, "inside_box": 1.0 if valid else np.nan, "harness_seconds": 0.1}
        unit.append(row | COSTS | {name: values[instance] for name, values in columns.items()})
    return unit


def failed(method: str, seed: int, state: str, reason: str = "why", task: str = "t") -> list[dict[str, Any]]:
    return [Unit(task, Method.parse(method), seed).failure(state, reason)]


def frame(*units: list[dict[str, Any]]) -> pd.DataFrame:
    return pd.DataFrame([row for unit in units for row in unit], columns=list(COLUMNS))


@pytest.fixture
def rows() -> pd.DataFrame:
    return frame(
        solved("A", 0, [1, 2, 3, UNSOLVED], [0.5, 1.0, 1.5, UNSOLVED], redundant=[0, 1, 2, np.nan]),
        solved("A", 1, [2, 2, UNSOLVED, UNSOLVED], [1.0, 3.0, UNSOLVED, UNSOLVED], violations=[0, 0, 2, 1]),
        solved("B", 0, [1, UNSOLVED, 1, 3], [0.25, UNSOLVED, 0.75, 5.0], rows=[4, 4, 4, 8]),
        failed("B", 1, "timed out"),
        failed("C", 0, "skipped", "skipped because it needs scores"),
        failed("C", 1, "skipped", "skipped because it needs scores"),
        failed("D", 0, "crashed", "RuntimeError: no"),
        failed("D", 1, "crashed", "RuntimeError: no"),
    )


def test_validity_is_the_mean_over_seeds_with_the_sample_deviation(rows: pd.DataFrame) -> None:
    table = summary(rows).loc["t"]
    assert table.loc["A", "validity"] == (0.75 + 0.5) / 2
    assert table.loc["A", "± validity"] == pytest.approx(0.25 / SQRT2)
    assert table.loc["A", "seeds"] == 2


def test_a_unit_that_failed_counts_as_validity_0_and_one_that_was_skipped_nowhere(rows: pd.DataFrame) -> None:
    table = summary(rows).loc["t"]
    assert table.loc["B", ["seeds", "validity", "failed", "skipped"]].tolist() == [2, 0.375, 1, 0]
    assert table.loc["B", "± validity"] == pytest.approx(0.75 / SQRT2)
    assert table.loc["C", ["seeds", "failed", "skipped"]].tolist() == [0, 0, 2]
    assert np.isnan(table.loc["C", "validity"])
    assert table.loc["D", ["seeds", "validity", "worst class", "failed", "skipped"]].tolist() == [2, 0, 0, 2, 0]
    assert np.isnan(table.loc["D", "L0"])


def test_the_worst_class_is_that_of_each_seed(rows: pd.DataFrame) -> None:
    table = summary(rows).loc["t"]
    assert table.loc["A", "worst class"] == (0.5 + 0.0) / 2, "b half solved, then not at all"
    assert table.loc["B", "worst class"] == (0.5 + 0.0) / 2, "a half solved, then a time-out"


def test_distances_are_over_the_methods_own_valid_rows(rows: pd.DataFrame) -> None:
    table = summary(rows).loc["t"]
    assert table.loc["A", ["L0", "± L0"]].tolist() == [2.0, 0.0]
    assert table.loc["A", "L1"] == (1.0 + 2.0) / 2
    assert table.loc["A", "± L1"] == pytest.approx(1 / SQRT2)
    alone = summary(rows[rows["seed"] == 0]).loc["t"]
    assert alone.loc["B", "L0"] == pytest.approx(5 / 3)
    assert alone.loc["B", "L1"] == pytest.approx(2.0)
    assert np.isnan(alone.loc["B", "± L0"]), "one seed has no deviation"


def test_common_rows_are_those_that_all_methods_which_ran_have_solved(rows: pd.DataFrame) -> None:
    table = summary(rows).loc["t"]
    # Seed 0: A and B solved 0 and 2. Seed 1: only A ran, and solved 0 and 1.
    assert table.loc["A", "common"] == 2
    assert table.loc["A", "L0 common"] == ((1 + 3) / 2 + 2) / 2
    assert table.loc["A", "L1 common"] == ((0.5 + 1.5) / 2 + 2.0) / 2
    assert table.loc["B", "common"] == 2
    # B's time-out in seed 1 must not make it look sparser than A: it has no mean over the seeds.
    assert table.loc["B", ["L0", "L1", "L0 common", "L1 common"]].isna().all()


def test_the_rows_of_another_task_are_not_common_ones(rows: pd.DataFrame) -> None:
    other = frame(
        solved("B", 0, [UNSOLVED] * 4, [UNSOLVED] * 4, task="u"), solved("A", 1, [1] * 4, [9.0] * 4, task="u")
    )
    table = summary(pd.concat([other, rows], ignore_index=True))
    assert list(table.index) == [("u", "B"), ("u", "A"), ("t", "A"), ("t", "B"), ("t", "C"), ("t", "D")]
    pd.testing.assert_frame_equal(table.loc[["t"]], summary(rows)[table.columns])
    assert table.loc[("u", "A"), "L1 common"] == 9.0


def test_a_method_that_is_given_fewer_rows_is_compared_on_those() -> None:
    table = summary(frame(solved("A", 0, [1, 1, 3, 3], [1.0] * 4), solved("B", 0, [2, 2], [1.0] * 2))).loc["t"]
    assert table["instances"].tolist() == [4, 2]
    assert table.loc["A", ["L0", "L0 common", "common"]].tolist() == [2.0, 1.0, 2]


def test_the_other_columns_of_the_summary(rows: pd.DataFrame) -> None:
    table = summary(rows).loc["t"]
    assert table.loc["A", "violations"] == (0 + 3) / 2, "in sum, of each seed"
    assert table.loc["A", "redundant"] == (1.0 + 0.0) / 2
    assert table.loc["A", "inside box"] == 1.0
    assert table.loc["A", "rows"] == 25.0
    assert table.loc["B", "rows"] == 5.0, "a unit that was ended has no rows to tell"
    assert table.loc["A", ["calls", "training rows", "fit s", "explain s"]].tolist() == [7, 100, 3.0, 1.0]
    assert table.loc["A", ["ms each", "in model"]].tolist() == [250.0, 0.25]


def test_a_unit_that_failed_does_not_change_the_number_of_instances(rows: pd.DataFrame) -> None:
    assert summary(rows).loc["t"]["instances"].tolist()[:2] == [4, 4]


# Curves.


def test_validity_with_at_most_k_changes(rows: pd.DataFrame) -> None:
    curve = validity_at_k(rows)
    assert list(curve.columns) == ["task", "method", "k", "validity", "± validity"]
    by_method = {str(name): part for name, part in curve.groupby("method")}
    assert set(by_method) == {"A", "B", "D"}, "a skipped method has no curve"
    assert all(part["k"].tolist() == [1, 2, 3] for part in by_method.values())
    assert by_method["A"]["validity"].tolist() == [(0.25 + 0) / 2, (0.5 + 0.5) / 2, (0.75 + 0.5) / 2]
    assert by_method["A"]["± validity"].tolist() == pytest.approx([0.25 / SQRT2, 0.0, 0.25 / SQRT2])
    assert by_method["B"]["validity"].tolist() == [0.25, 0.25, 0.375], "the time-out counts as 0"
    assert by_method["D"]["validity"].tolist() == [0, 0, 0]


def test_validity_within_so_many_model_rows(rows: pd.DataFrame) -> None:
    curve = anytime(rows, budgets=(4, 10, 25, 40))
    assert list(curve.columns) == ["task", "method", "rows", "validity", "± validity"]
    validity = {name: part["validity"].tolist() for name, part in curve.groupby("method")}
    # A asks 10, 20, 30 and 40 rows; the last is unsolved in seed 0, and the last two in seed 1.
    assert validity == {"A": [0, 0.25, 0.5, 0.625], "B": [0.25, 0.375, 0.375, 0.375], "D": [0, 0, 0, 0]}


def test_validity_of_each_class(rows: pd.DataFrame) -> None:
    table = by_class(rows[rows["method"] == "A"])
    assert table[["task", "method", "class"]].to_numpy().tolist() == [["t", "A", "a"], ["t", "A", "b"]]
    assert table["validity"].tolist() == [1.0, 0.25]
    assert table["± validity"].tolist() == pytest.approx([0.0, 0.5 / SQRT2])


def test_the_answers_of_a_regressor_are_no_classes() -> None:
    numbers = [f"{i}.5" for i in range(30)]
    unit = solved("A", 0, [1.0] * 15 + [UNSOLVED] * 15, [1.0] * 30, kind="regression", before=numbers)
    assert by_class(frame(unit))[["class", "validity"]].to_numpy().tolist() == [["all", 0.5]]
    assert summary(frame(unit)).loc[("t", "A"), "worst class"] == 0.5


# The rest.


def test_failures_are_listed_with_their_reasons(rows: pd.DataFrame) -> None:
    table = failures(rows)
    assert table.columns.tolist() == ["task", "method", "seed", "state", "reason"]
    assert table.to_numpy().tolist() == [
        ["t", "B", 1, "timed out", "why"],
        ["t", "C", 0, "skipped", "skipped because it needs scores"],
        ["t", "C", 1, "skipped", "skipped because it needs scores"],
        ["t", "D", 0, "crashed", "RuntimeError: no"],
        ["t", "D", 1, "crashed", "RuntimeError: no"],
    ]
    assert len(failures(rows[rows["method"] == "A"])) == 0


def test_overhead_is_the_harness_as_a_share_of_the_methods_each_unit_once(rows: pd.DataFrame) -> None:
    assert overhead(rows) == pytest.approx(3 * 0.1 / (3 * 4.0))
    assert np.isnan(overhead(rows[rows["method"] == "D"])), "nothing ran"


def test_a_benchmark_in_which_nothing_ran_has_a_summary_all_the_same() -> None:
    table = summary(frame(failed("C", 0, "skipped"))).loc["t"]
    assert table.loc["C", ["seeds", "failed", "skipped"]].tolist() == [0, 0, 1]


def test_the_summary_for_people_has_deviations_beside_means_and_a_dash_where_there_is_nothing(
    rows: pd.DataFrame,
) -> None:
    shown = readable(summary(rows)).loc["t"]
    assert shown.loc["A", "validity"] == "0.625 ± 0.177"
    assert shown.loc["B", ["L0", "failed", "skipped"]].tolist() == ["-", "1", "0"]
    assert shown.loc["C", ["validity", "L0"]].tolist() == ["-", "-"]


def test_the_summary_of_a_terminal_has_what_says_most_and_adds_up_the_seconds(rows: pd.DataFrame) -> None:
    table = summary(rows)
    shown = core(table).loc["t"]
    assert list(shown) == ["validity", "L0", "L1", "model rows", "seconds"]
    assert shown.loc["A", "validity"] == "0.625 ± 0.177"
    both = table.loc[("t", "A"), "fit s"] + table.loc[("t", "A"), "explain s"]
    assert shown.loc["A", "seconds"] == f"{both:,.1f}" != "0.0"
    assert shown.loc["C"].tolist() == ["-"] * 5
    assert "found" in core(table.assign(found=2.0))


Outcome = st.lists(st.booleans(), min_size=4, max_size=4)


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(st.lists(Outcome, min_size=2, max_size=4), st.integers(0, 2**31))
def test_one_more_method_never_changes_what_another_gets_for_its_own_rows(
    outcomes: list[list[bool]], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    units = []
    for place, valid in enumerate(outcomes):
        changes = np.where(valid, rng.integers(1, 4, 4).astype(float), np.nan)
        units.append(solved(f"method {place}", 0, changes.tolist(), (changes * rng.random()).tolist()))
    fewer, more = summary(frame(*units[:-1])), summary(frame(*units))
    changing = ["common", "L0 common", "L1 common"]
    pd.testing.assert_frame_equal(more.drop(columns=changing)[:-1], fewer.drop(columns=changing))
    everywhere = np.logical_and.reduce(outcomes)
    for place, unit in enumerate(units):
        expected = [row["sparsity"] for row, both in zip(unit, everywhere, strict=True) if both]
        got = more.loc[("t", f"method {place}")]
        assert got["common"] == len(expected)
        assert got["L0 common"] == pytest.approx(np.mean(expected) if expected else np.nan, nan_ok=True)
