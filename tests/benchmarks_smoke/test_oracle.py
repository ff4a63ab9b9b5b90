"""The oracle itself: an honest result passes, and every kind of lie is noticed by the promise it breaks."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from benchmarks.fuzz.cases import Case, Setting, Violation, check, differences, judged
from benchmarks.fuzz.goals import Call, Wanted
from benchmarks.fuzz.models import Model
from benchmarks.fuzz.tables import Column, Table

CASE = Case(
    Table(
        (
            Column("float64", 0, digits=1),
            Column("int16", 2, rule="increase"),
            Column("float32", 0, step=0.25, continuous=True),
            Column("object", 4, bounds=(0.0, 0.5)),
            Column("int64", 2, rule="immutable"),
            Column("ordered", 4),
            Column("float64", 0),
        ),
        rows=40,
        seed=1,
    ),
    Model(shape="linear", seed=1),
    Wanted("flip"),
    Call(queries=200, n=2),
    method="greedy",
    max_changes=7,
)


class Told:
    """An honest result, whose lies are made on a copy."""

    def __init__(self) -> None:
        self.setting = Setting(CASE)
        explainer = self.setting.explainer()
        seen = self.setting.model.watch.rows
        self.result = self.setting.explain(explainer)
        self.seen = self.setting.model.watch.rows - seen

    def broken(self, result: Any) -> set[str]:
        return {kind for kind, _ in judged(self.setting, result, self.seen)}

    def with_frame(self, **columns: Any) -> Any:
        """The result with other delivered cells, as they would come out of a wrong `restore`."""
        lie = replace(self.result)
        lie.__dict__["frame"] = self.result.frame.assign(**columns)
        return lie


@pytest.fixture(scope="module")
def told() -> Told:
    return Told()


@pytest.mark.slow
def test_an_honest_result_passes(told: Told) -> None:
    assert told.result.found.sum() > 60
    assert told.broken(told.result) == set()


def moved(told: Told, column: int, change: Callable[[Any], Any]) -> dict[str, Any]:
    """All delivered cells of a column changed by a function."""
    name = told.setting.names[column]
    cells = told.result.frame[name]
    return {name: pd.Series([change(cell) for cell in cells.tolist()], dtype=cells.dtype)}


@pytest.mark.parametrize(
    ("kind", "column", "change"),
    [
        ("bounds", 0, lambda cell: cell + 100.0),
        ("bounds", 6, lambda cell: np.nextafter(1e6, 2e6)),
        ("decimals", 0, lambda cell: 0.123),
        ("direction", 1, lambda cell: -100),
        ("grid", 2, lambda cell: cell + 0.1),
        ("category", 3, lambda cell: "unheard of"),
        ("immutable", 4, lambda cell: cell + 1),
    ],
)
def test_a_cell_that_breaks_its_rule_is_noticed(told: Told, kind: str, column: int, change: Any) -> None:
    assert kind in told.broken(told.with_frame(**moved(told, column, change)))


def test_a_bound_missed_by_one_bit_is_noticed(told: Told) -> None:
    high = float(told.setting.training.iloc[:, 6].max())
    assert "bounds" not in told.broken(told.with_frame(**moved(told, 6, lambda cell: high)))
    assert "bounds" in told.broken(told.with_frame(**moved(told, 6, lambda cell: np.nextafter(high, np.inf))))


def test_a_row_that_misses_the_goal_is_noticed(told: Told) -> None:
    owner = told.result.frame["query_id"].to_numpy()
    queries = told.setting.queries.iloc[owner].reset_index(drop=True)
    assert {"goal", "distinct", "changes"} <= told.broken(told.with_frame(**{n: queries[n] for n in queries}))


def test_another_dtype_is_noticed(told: Told) -> None:
    name = told.setting.names[1]
    assert told.broken(told.with_frame(**{name: told.result.frame[name].astype("int64")})) == {"dtype"}


def test_another_type_of_an_object_cell_is_noticed(told: Told) -> None:
    name = told.setting.names[3]
    frame = told.result.frame
    cells = pd.Series([np.str_(cell) for cell in frame[name]], index=frame.index, dtype=object)
    assert told.broken(told.with_frame(**{name: cells})) == {"type"}


def test_a_lost_sign_of_zero_is_noticed(told: Told) -> None:
    name = told.setting.names[6]
    zeros = told.result.frame[name].to_numpy() == 0
    assert zeros.any()
    assert told.broken(told.with_frame(**{name: told.result.frame[name] + 0.0})) == {"bits"}


def test_too_many_changes_are_noticed(told: Told) -> None:
    told.setting.max_changes = 1
    try:
        assert told.broken(told.result) == {"max_changes"}
    finally:
        told.setting.max_changes = CASE.max_changes


@pytest.mark.parametrize(
    ("kind", "field", "lie"),
    [
        ("rows", "rows_queried", lambda old: old + (np.arange(len(old)) == 0)),
        ("rows", "rows_queried", lambda old: old * 0),
        ("status", "status", lambda old: np.full(old.shape, "", dtype=object)),
        ("status", "status", lambda old: np.full(old.shape, "none was found", dtype=object)),
        ("after", "after", lambda old: np.where(old == 0, 1, 0)),
        ("after", "after", lambda old: old.astype(bool)),
        ("before", "before", lambda old: old.astype(bool)),
        ("finite", "values", lambda old: np.where(np.arange(old.shape[2]) == 6, np.nan, old)),
        ("shape", "status", lambda old: old[:, :1]),
        ("missed", "found", lambda old: np.zeros_like(old)),
    ],
)
def test_a_lie_about_the_result_is_noticed(told: Told, kind: str, field: str, lie: Any) -> None:
    assert kind in told.broken(replace(told.result, **{field: lie(getattr(told.result, field))}))


@pytest.mark.slow
def test_a_query_that_meets_the_goal_and_is_not_found_is_noticed() -> None:
    told = Told()
    told.setting.wanted = Wanted("to")  # class 0, which some of the queries have
    status = np.full(told.result.status.shape, "none was found", dtype=object)
    assert "already" in told.broken(replace(told.result, found=told.result.found & False, status=status))


def test_two_equal_counterfactuals_are_noticed(told: Told) -> None:
    values = told.result.values.copy()
    values[:, 1] = values[:, 0]
    assert "distinct" in told.broken(replace(told.result, values=values))


def test_results_that_differ_in_a_type_are_different(told: Told) -> None:
    assert list(differences("json", told.result, replace(told.result))) == []
    assert list(differences("json", told.result, replace(told.result, before=told.result.before.astype(bool))))


def test_a_model_that_is_asked_with_its_users_array_complains() -> None:
    setting = Setting(Case(Table((Column(),), "float64")))
    setting.model.watch.looked_at(setting.training)
    locked = setting.training.copy()
    locked.flags.writeable = False
    setting.model.watch.looked_at(locked)
    setting.model.watch.looked_at(setting.training.astype(np.float32))
    assert [text.split(":")[0] for text in setting.model.watch.complaints] == ["shared", "read-only", "dtype"]


@pytest.mark.slow
def test_a_package_error_that_is_no_refusal_is_a_violation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("relax_plugin.verdict.Verdict.counterfactuals", lambda *_: None)
    with pytest.raises(Violation, match="escape AssertionError"):
        check(CASE)


def test_a_verdict_that_believes_everything_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("relax_plugin.goal.BoundGoal.met", lambda self, answer: np.ones(len(answer), dtype=bool))
    with pytest.raises(Violation):
        check(CASE)
