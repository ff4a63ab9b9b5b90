"""The comparison of searches on two small units: benchmarks/speed/search_comparison.py."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks.speed import search_comparison
from benchmarks.speed.search_comparison import AGAIN, GREEDY, NEAREST, UNION, Meter
from benchmarks.speed.search_targets import told_targets
from benchmarks.speed.search_units import UNITS, load_unit, with_rows
from relax_plugin import make_explainer
from relax_plugin.evaluation.tasks import available_tasks


@pytest.mark.slow
def test_two_units_end_in_a_table_and_targets_and_are_not_measured_twice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, less in {"TIMES": 1, "SINGLE_ROWS": 2, "SMALL": ["iris/svc"]}.items():
        monkeypatch.setattr(search_comparison, name, less)
    stored = tmp_path / "search.csv"
    typed = ["--tasks", "iris/svc", "wine/logistic", "--rows", "10", "--methods", "no-such", "greedy:quantiles=5"]
    typed += ["--cache", str(tmp_path), "--output", str(stored)]
    lines = search_comparison.main(typed)
    told = capsys.readouterr().out
    assert "skipped: there is no explainer 'no-such'" in told
    assert told.count("validity >= the better of greedy and nearest-ct") == 3
    table = pd.read_csv(stored)
    methods = [GREEDY, AGAIN, NEAREST, UNION, "greedy:quantiles=5"]
    assert len(lines) == len(table) == 10 and set(table["method"]) == set(methods)
    greedy = table[table["method"] == GREEDY].set_index("unit")
    assert (greedy[["l0_ratio", "l1_ratio"]] == 1).all().all() and (greedy["rows_per_query"] > 1).all()
    assert (table["wrong"].dropna() == 0).all()
    most = table.groupby("unit")["validity"].max()
    assert (table[table["method"] == UNION].set_index("unit")["validity"] >= most - 1e-9).all()

    monkeypatch.setattr(search_comparison, "measure", lambda *_: pytest.fail("it was measured before"))
    again = search_comparison.main(typed)
    pd.testing.assert_frame_equal(pd.DataFrame(lines), pd.DataFrame(again))
    assert len(pd.read_csv(stored)) == 10


def test_a_meter_counts_what_the_model_itself_is_asked_and_leaves_its_class_as_it_was(tmp_path: Path) -> None:
    task = with_rows(load_unit("progress/rf", tmp_path), 4, "flip")
    assert task is not None
    kind = type(task.model)
    before = dict(vars(kind))
    with Meter(task.model).open() as meter:
        explainer = make_explainer("greedy", task.model, space=task.space).fit(task.X_train)
        _, spent = meter.spent(lambda: explainer.explain(task.X_test))
        task.model.predict(task.X_test)  # a forest asks its own `predict_proba` on the inside
    assert dict(vars(kind)) == before
    assert meter.rows - len(task.X_test) == explainer.blackbox_.rows_asked
    assert 0 < spent["calls"] <= meter.calls and 0 <= spent["model_cpu"] <= spent["cpu"]


def test_queries_beyond_the_test_rows_and_given_classes(tmp_path: Path) -> None:
    iris = load_unit("iris/svc", tmp_path)
    task = with_rows(iris, 120, "to")
    assert task is not None and task.goal is not None and len(task.X_test) == 120
    assert (task.model.predict(task.X_test) != np.array(task.goal.label)).all()
    assert task.X_test.isin(iris.X_test).to_numpy().any()
    assert with_rows(load_unit("progress/svc", tmp_path), 5, "to") is None


def test_units_are_known_and_missed_targets_are_named() -> None:
    assert len(set(UNITS)) == len(UNITS) and "boston/mlp" in available_tasks()
    numbers = ("l1_ratio", "cpu_ratio", "fit_cpu", "fit_own_cpu", "row_ms", "row_calls", "own_ms_per_query", "fit_rows")
    line = {"goal": "flip", "rows": 5, "features": 3, "validity": 0.8, "l0_ratio": 1.0, "wrong": 0, "skipped": np.nan}
    line |= dict.fromkeys((*numbers, "rows_per_solved", "model_ms_per_query"), 0.9)
    lines = [line | {"unit": unit, "method": method} for unit in "ab" for method in (GREEDY, NEAREST, UNION, "search")]
    lines[3] |= {"validity": 0.7, "l1_ratio": 1.5}
    lines.append(line | {"unit": "a", "method": "search:max_queries=12", "rows_per_solved": 13.0})
    lines.append(line | {"unit": "b", "method": "search:max_queries=12", "skipped": "FAILED, KeyError: 3"})
    told = told_targets(pd.DataFrame(lines), ["search", "search:max_queries=12"])
    assert "MISSED validity >= the better of greedy and nearest-ct: 0.8000, below it in 1 units; a/flip" in told
    assert "MISSED L1 ratio: worst <= 1.00: median 1.20, worst 1.50 (a/flip); a/flip" in told
    assert "held   CPU ratio of fit + queries: median <= 1.0: median 0.90" in told
    assert "MISSED it fails on no unit: on 1; b/flip" in told
    assert "MISSED model rows a solved query <= 12: mean 13.0; a/flip" in told
