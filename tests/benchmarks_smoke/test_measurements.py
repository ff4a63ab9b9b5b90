"""The measurements behind the figures: Plans under the judge, resumable, a line for each task, method and seed."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from benchmarks.figures import measurements
from benchmarks.figures.measurements import APART, KEPT, MEASUREMENTS, RATIOS, Seeds, Tasks, measure
from relax_plugin import ReLAXConfig
from relax_plugin.evaluation.judge import Method, Unit, judge
from relax_plugin.evaluation.plan import Plan
from relax_plugin.evaluation.tasks import load_task
from relax_plugin.registry import make_explainer, read_method

pytestmark = pytest.mark.slow  # the judge runs

QUICK = ["nearest-ct", "greedy", "random-order:max_queries=40"]


def small(tasks: Tasks, seeds: Seeds) -> list[Plan]:
    return [Plan(tasks or ("diabetes/ada",), QUICK, seeds, rows=30)]


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(MEASUREMENTS, "small", small)
        return measure("small", tmp_path_factory.mktemp("units"), seeds=[0, 1], jobs=2)


@pytest.mark.parametrize("what", MEASUREMENTS)
def test_every_measurement_is_a_plan_that_can_run(what: str) -> None:
    for plan in MEASUREMENTS[what]((), range(5)):
        assert len(plan.units()) == len(plan.tasks) * len(plan.methods) * len(plan.seeds)
        assert len(plan.seeds) == 5


def test_units_of_one_name_are_the_same_unless_they_are_kept_apart() -> None:
    known: dict[tuple[str, str, int], Unit] = {}
    for what in MEASUREMENTS:
        for unit in (unit for plan in MEASUREMENTS[what]((), range(2)) for unit in plan.units()):
            assert what in APART or known.setdefault(unit.key, unit) == unit


def test_tasks_that_are_chosen_are_those_that_run() -> None:
    for what, plans in MEASUREMENTS.items():
        tasks = {str(task) for plan in plans(["sonar/mlp", "wave2/xgb"], [0]) for task in plan.tasks}
        plain = {task.removeprefix("slow/").removesuffix(":labels") for task in tasks}
        assert plain == {"sonar/mlp", "wave2/xgb"}, what


def test_a_line_says_what_the_judge_found_and_counted(lines: pd.DataFrame) -> None:
    assert lines.columns.tolist() == ["task", "method", "seed", "state", *KEPT, *RATIOS]
    assert sorted(zip(lines["method"], lines["seed"], strict=True)) == sorted((m, s) for m in QUICK for s in (0, 1))
    task = load_task("diabetes/ada", 1)
    rows = pd.DataFrame(judge(Unit(task, Method.parse("greedy"), 1, rows=30), task))
    line = lines[(lines["method"] == "greedy") & (lines["seed"] == 1)].iloc[0]
    assert line["validity"] == rows["valid"].mean()
    assert line["L0"] == rows["sparsity"].mean() and line["rows"] == rows["rows"].mean()
    assert line["training rows"] == rows["fit_rows"].iloc[0]


def test_ratios_are_against_the_yardstick_on_rows_that_both_solved(lines: pd.DataFrame) -> None:
    by = lines.set_index(["method", "seed"])
    assert (by.loc["greedy", RATIOS] == 1.0).all(axis=None)
    for seed in (0, 1):  # all of them solved all rows
        ours, theirs = by.loc["nearest-ct", :].loc[seed], by.loc["greedy", :].loc[seed]
        assert ours["validity"] == theirs["validity"] == 1.0
        assert ours["L0 ratio"] == pytest.approx(ours["L0"] / theirs["L0"])
        assert ours["L1 ratio"] == pytest.approx(ours["L1"] / theirs["L1"])


def test_the_lead_is_over_the_better_rival_on_rows_that_both_were_asked_about(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rivals = ("greedy", "greedy:quantiles=2")
    plan = Plan(["classes3/xgb"], [*rivals, "nearest-ct", "deepfool"], [0], rows=20, method_rows={rivals[1]: 5})
    monkeypatch.setitem(MEASUREMENTS, "rivals", lambda tasks, seeds: [plan])
    monkeypatch.setattr(measurements, "RIVALS", rivals)
    monkeypatch.setattr(measurements, "run", lambda plan, *_, **__: made_up_rows(plan))
    lead = measure("rivals", tmp_path).set_index("method")["lead"]
    # Of 20 rows "greedy" solves 15, and of 5 the other one solves 4: of these 5 "greedy" solves 3.
    assert lead["greedy"] == pytest.approx(3 / 5 - 4 / 5)
    assert lead["greedy:quantiles=2"] == 0.0, "beside itself; it is .2 ahead of greedy"
    assert lead["nearest-ct"] == pytest.approx(1 / 5), "all rows, so .25 ahead of the one and .2 of the other"
    assert lead["deepfool"] == pytest.approx(-4 / 5), "one that crashed solved nothing"


def made_up_rows(plan: Plan) -> pd.DataFrame:
    unsolved = {"greedy": [0, 1, 7, 8, 9], "greedy:quantiles=2": [2], "nearest-ct": []}
    rows = []
    for unit in plan.units():
        if unit.method.label not in unsolved:
            rows.append(unit.failure("crashed", "made up", {"instances": unit.rows}))
            continue
        for instance in range(unit.rows or 0):
            solved = instance not in unsolved[unit.method.label]
            known = {"instance": instance, "instances": unit.rows, "valid": solved, "sparsity": 1.0, "proximity": 1.0}
            rows.append(unit.failure("ok", "", known))
    return pd.DataFrame(rows)


# What units can say for them.


def test_the_judge_sees_a_change_of_a_frozen_feature(monkeypatch: pytest.MonkeyPatch) -> None:
    from relax_plugin.baselines.greedy import Greedy

    honest = Greedy.explain
    monkeypatch.setattr(Greedy, "explain", lambda self, X, **asked: honest(self, X, **(asked | {"vary": None})))
    task = load_task("diabetes/ada", 0)
    rows = pd.DataFrame(judge(Unit(task, Method.parse("greedy"), 0, rows=20, masks=1), task))
    assert rows["claimed"].all() and (rows["violations"] > 0).any()
    assert not rows.loc[rows["violations"] > 0, "valid"].any()


def test_each_row_is_judged_by_its_own_target() -> None:
    task = load_task("classes3/xgb", 0)
    rows = pd.DataFrame(judge(Unit(task, Method.parse("nearest-ct"), 0, rows=20), task))
    assert task.goal is not None and rows["valid"].all()
    assert rows["after"].tolist() == [str(label) for label in task.goal.label[:20]]


def test_a_task_of_labels_alone_has_the_same_rows_and_answers() -> None:
    scored, labels = load_task("diabetes/ada", 0), load_task("diabetes/ada:labels", 0)
    assert labels.name == "diabetes/ada:labels" and labels.X_test is scored.X_test
    assert (labels.model(scored.X_test) == scored.model.predict(scored.X_test)).all()


def made(method: str) -> Any:
    name, options = read_method(method)
    return make_explainer(name, len, **options)


def test_the_controls_learn_less_and_are_asked_for_nothing_else() -> None:
    engine, table, order, untrained = (made(method) for method in measurements.CONTROLS)
    assert [type(one).__name__ for one in (engine, table, order)] == [
        "CounterfactualSearch",
        "MoveTable",
        "RandomOrder",
    ]
    assert (untrained.effort, untrained.config) == ("refined", ReLAXConfig(learning_rate=0.0))


def test_the_efforts_are_those_of_their_names() -> None:
    assert [made(getattr(measurements, name)).effort for name in ("POLICY", "REFINED")] == ["policy", "refined"]
