"""The reproduction: the plan holds every method, the tables say what was measured, verdicts follow from intervals."""

import html
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from reference.made_up_results import made_up

from benchmarks.reproduction import models as models_module
from benchmarks.reproduction import plan as plan_module
from benchmarks.reproduction import run as run_module
from benchmarks.reproduction.claims import paper
from benchmarks.reproduction.claims.claims import all_claims
from benchmarks.reproduction.claims.intervals import Interval, by_seed
from benchmarks.reproduction.claims.targets import all_targets
from benchmarks.reproduction.models import GRIDS, tune, tuned_task
from benchmarks.reproduction.plan import ALONE, PARTS, PEERS, SEEDS, Case, cases, task_of
from benchmarks.reproduction.report import pictures, tables
from benchmarks.reproduction.report.files import changed, verdict
from benchmarks.reproduction.report.page import render
from benchmarks.reproduction.results import COLUMNS, at_cap, results
from benchmarks.reproduction.run import STUDY, TUNING, Folder, expected_minutes, reproduce
from relax_plugin.cli import main
from relax_plugin.errors import InputError
from relax_plugin.evaluation.judge import COLUMNS as ROW_COLUMNS
from relax_plugin.evaluation.tasks import load_task, split_task
from relax_plugin.pages.palette import OTHERS, STYLES
from relax_plugin.registry import BUILT_IN, check_options

# The plan


# Methods that came to the registry after the last full run, and are no part of the paper.
LATER = {"search", "nice", "growing-spheres", "wachter", "face", "treecf", "cfrl", "fastar"}


def test_every_method_of_the_registry_but_the_control_and_later_ones_is_in_figure_3() -> None:
    assert set(PEERS) == set(BUILT_IN) - {"random-order"} - LATER
    assert {case.explainer for case in cases(quick=False) if case.part == "sparsity"} == set(PEERS)


@pytest.mark.parametrize("quick", [False, True])
def test_no_two_cases_are_the_same_and_all_options_are_known(quick: bool) -> None:
    wanted = cases(quick)
    assert len({(case.task, case.label, case.seed) for case in wanted}) == len(wanted)
    for case in {(case.part, case.method, case.setting): case for case in wanted}.values():
        check_options(case.explainer, {"max_changes": case.cap, **case.options})


def test_the_full_plan_has_the_papers_experiments() -> None:
    wanted = cases(quick=False)
    assert {case.part for case in wanted} == set(PARTS)
    for part in PARTS:
        assert {case.seed for case in wanted if case.part == part} == set(SEEDS)
    assert {case.setting for case in wanted if case.part == "lambda"} == {"0.001", "0.01", "0.1", "1.0", "10.0"}
    shifts = {case.task for case in wanted if case.part == "regression"}
    assert {f"boston/mlp {shift} range" for shift in (0.2, 0.4, 0.6)} <= shifts
    assert {case.task for case in wanted if case.part == "architecture"} == set(paper.ARCHITECTURES)
    settings = {case.setting for case in wanted if case.part == "ablation"}
    assert {
        "default",
        "no demonstrations",
        "with curiosity",
        "uniform replay",
        "1-step returns",
        "untrained",
    } <= settings
    assert {"letter of the paper", *(f"letter, {part} curiosity" for part in ("no", "state", "action"))} <= settings
    assert {plan_module.base_of(name) for name in settings} == {"default", "letter, no curiosity"}


def test_the_quick_plan_has_two_seeds_and_is_much_shorter() -> None:
    assert {case.seed for case in cases(quick=True)} == {0, 1}
    assert expected_minutes(quick=True, jobs=2) < 20
    assert expected_minutes(quick=True, jobs=2) < expected_minutes(quick=False, jobs=2) / 3
    with pytest.raises(InputError, match="jobs is 0"):
        expected_minutes(quick=True, jobs=0)


# Models


@pytest.mark.slow
def test_cross_validation_chooses_the_candidate_with_the_best_mean(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models_module, "FOLDS", 2)
    frame = tune("diabetes/ada", 0)
    assert len(frame) == 3 and frame["chosen"].sum() == 1
    chosen = frame[frame["chosen"]].iloc[0]
    assert chosen["cv"] == frame["cv"].max()
    assert frame["test"].notna().tolist() == frame["chosen"].tolist()
    task = tuned_task(frame, "diabetes/ada", 0)
    accuracy = float((task.model.predict(task.X_test) == task.y_test).mean())
    assert accuracy == pytest.approx(chosen["test"])
    assert chosen["training_rows"] == len(task.X_train)


@pytest.mark.slow
def test_hyper_parameters_reach_the_model_and_the_rows_stay_the_same() -> None:
    usual, other = load_task("diabetes/ada", 1), load_task("diabetes/ada", 1, {"learning_rate": 0.1})
    assert (usual.model.learning_rate, other.model.learning_rate) == (0.5, 0.1)
    pd.testing.assert_frame_equal(usual.X_test, other.X_test)
    model, (X_train, _, _, y_test) = split_task("diabetes/ada", 1)
    pd.testing.assert_frame_equal(X_train, usual.X_train)
    pd.testing.assert_series_equal(y_test, usual.y_test)
    assert not hasattr(model, "estimators_")


def test_every_grid_holds_parameters_of_its_model() -> None:
    for name, grid in GRIDS.items():
        assert set(grid) <= set(split_task(name, 0)[0].get_params()), name


@pytest.mark.slow
def test_the_unit_of_delta_scales_the_goal() -> None:
    tuned = pd.DataFrame({"task": ["boston/mlp"], "seed": [0], "chosen": [True], "parameters": ["{}"]})
    goals = {}
    for unit in plan_module.UNITS:
        case = Case("regression", f"boston/mlp 0.4 {unit}", "relax-global", 0, "relax-global")
        task = task_of(case, tuned)
        assert task.name == case.task
        assert task.goal is not None and task.goal.delta is not None
        goals[unit] = task.goal.delta
    targets = load_task("boston/mlp", 0).y_train
    assert goals["thousand"] == pytest.approx(0.4)
    assert goals["deviation"] == pytest.approx(0.4 * targets.std())
    assert goals["range"] == pytest.approx(0.4 * (targets.max() - targets.min()))


# Intervals


def test_intervals_part_only_if_they_do_not_touch() -> None:
    low, high = Interval.of([0.1, 0.12, 0.11]), Interval.of([0.5, 0.52, 0.51])
    assert (high.against(low), low.against(high)) == ("higher", "lower")
    wide = Interval.of([0.0, 0.9, 0.3])
    assert wide.against(high) == "overlap"
    assert Interval.of([1.0, 1.0]).against(Interval.of([1.0, 1.0])) == "overlap"
    assert Interval.of([0.9]).against(Interval.of([0.1])) == "overlap", "one seed decides nothing"


def test_the_interval_is_students() -> None:
    values = [0.8, 0.9, 1.0, 0.85, 0.95]
    interval = Interval.of([*values, float("nan")])
    half = 2.776 * np.std(values, ddof=1) / np.sqrt(5)  # the table of Student's t, 4 degrees of freedom
    assert interval.high - interval.mean == pytest.approx(half, rel=1e-3)
    assert interval.count == 5


def test_a_crash_has_solved_nothing_and_a_skip_counts_nowhere() -> None:
    frame = pd.DataFrame({"state": ["ok", "crashed", "skipped"], "validity": [1.0, np.nan, np.nan]})
    assert by_seed(frame, "validity").mean == 0.5


# Results


def unit_rows(label: str, seed: int, sparsity: list[float], task: str = "wave2/xgb") -> pd.DataFrame:
    """Rows as the judge gives them: NaN changes are an unsolved instance."""
    known: dict[str, Any] = {"task": task, "method": label, "seed": seed, "state": "ok", "reason": "", "before": "0"}
    known |= {"kind": "classification", "violations": 0, "fit_seconds": 1.0, "explain_seconds": 2.0, "fit_rows": 7}
    changed = np.array(sparsity)
    rows = pd.DataFrame({"instance": range(len(changed)), "sparsity": changed, "valid": np.isfinite(changed)})
    rows = rows.assign(proximity=2 * changed, instances=len(changed), rows=10.0, **known)
    return rows.reindex(columns=list(ROW_COLUMNS))


def test_a_rival_is_compared_on_the_rows_it_was_given() -> None:
    ours = Case("sparsity", "wave2/xgb", "relax-global", 0, "relax-global", 5)
    theirs = Case("sparsity", "wave2/xgb", "dice-random", 0, "dice-random", 5)
    nothing = float("nan")
    rows = pd.concat(
        [unit_rows(ours.label, 0, [1, 2, nothing, 3, 1]), unit_rows(theirs.label, 0, [2, nothing, 4])],
        ignore_index=True,
    )
    frame = results([ours, theirs], rows)["sparsity"].set_index("method")
    rival = frame.loc["dice-random"]
    assert rival["validity"] == pytest.approx(2 / 3)
    assert rival["same_validity@5"] == pytest.approx(2 / 3), "the first three rows only"
    assert (rival["common_L0"], rival["common_L0_ours"]) == (2.0, 1.0), "the first row is the only common one"
    assert rival["same_validity@1"] == pytest.approx(1 / 3)
    assert rival["common"] == 1 and np.isnan(rival["alone_validity@5"])
    assert frame.loc["relax-global", "validity"] == 0.8
    assert list(results([ours], rows)["sparsity"].columns) == COLUMNS


def test_cases_that_were_not_run_are_left_out() -> None:
    ran = Case("lambda", "sonar/mlp", "policy", 0, "relax-global", setting="0.1")
    frame = results(
        [ran, Case("lambda", "sonar/mlp", "policy", 1, "relax-global", setting="0.1")],
        unit_rows(ran.label, 0, [1.0], task="sonar/mlp"),
    )
    assert len(frame["lambda"]) == 1 and set(frame) == {"lambda"}


def test_what_is_not_run_again_keeps_its_line_beside_relax_of_now() -> None:
    nothing = float("nan")
    ours = Case("sparsity", "wave2/xgb", "relax-global", 0, "relax-global", 5)
    theirs = Case("sparsity", "wave2/xgb", "lore", 0, "lore", None)
    both = [unit_rows(ours.label, 0, [1, 2, nothing]), unit_rows(theirs.label, 0, [2, nothing])]
    before = results([ours, theirs], pd.concat(both, ignore_index=True))
    after = results([ours, theirs], unit_rows(ours.label, 0, [nothing, 1, 1]), before)["sparsity"].set_index("method")
    then = before["sparsity"].set_index("method")
    assert after.loc["lore", "validity"] == then.loc["lore", "validity"] == 0.5
    assert (then.loc["lore", "same_validity@5"], after.loc["lore", "same_validity@5"]) == (1.0, 0.5)
    assert then.loc["lore", "common_L0_ours"] == 1.0 and after.loc["lore"].filter(like="common").isna().all()
    assert after.loc["relax-global", "validity"] == pytest.approx(2 / 3)
    untouched = results([ours, theirs], unit_rows("another", 0, [1.0]), before)["sparsity"]
    pd.testing.assert_frame_equal(untouched, before["sparsity"], check_dtype=False)
    assert results([ours], unit_rows(ours.label, 0, [1.0]), before)["sparsity"]["method"].tolist() == ["relax-global"]


def test_a_cap_that_was_not_run_is_read_off_the_next_larger_one() -> None:
    lines = pd.DataFrame({"cap": [1.0, 3.0, 5.0, np.nan], "seed": 0})
    for k in range(1, 6):
        lines[f"validity@{k}"] = [0.2, 0.0 if k < 3 else 0.6, 0.0 if k < 5 else 0.9, 1.0]
        lines[f"same_validity@{k}"] = lines[f"alone_validity@{k}"] = 0.5
    read = [at_cap(lines, k) for k in (1, 2, 3, 4, 5)]
    assert [part["cap"].tolist() for part in read] == [[1.0], [3.0], [3.0], [5.0], [5.0]]
    # One who uses up whatever is allowed is not the worse for being allowed more.
    assert [part[f"validity@{k}"].item() for k, part in enumerate(read, start=1)] == [0.2, 0.2, 0.6, 0.6, 0.9]
    assert at_cap(lines.iloc[:1], 2).empty


def test_a_crash_of_relax_counts_against_it() -> None:
    ours = Case("sparsity", "wave2/xgb", "relax-global", 0, "relax-global", 5)
    theirs = Case("sparsity", "wave2/xgb", "greedy", 0, "greedy", 5, rows=2)
    crashed = unit_rows(ours.label, 0, [1.0]).assign(state="crashed", valid=False)
    frame = results([ours, theirs], pd.concat([crashed, unit_rows(theirs.label, 0, [1.0, 2.0])], ignore_index=True))
    assert frame["sparsity"].set_index("method").loc["greedy", "same_validity@5"] == 0.0
    broken = unit_rows(theirs.label, 0, [1.0]).assign(state="timed out", valid=False)
    nothing = float("nan")
    rows = pd.concat([unit_rows(ours.label, 0, [1.0, nothing, 2.0]), broken], ignore_index=True)
    assert results([ours, theirs], rows)["sparsity"].set_index("method").loc["greedy", "same_validity@5"] == 0.5


# The report


@pytest.fixture(scope="module")
def small_tables() -> dict[str, pd.DataFrame]:
    """Every part with a few made-up lines."""
    sparsity = made_up({"relax-global": 0.95, "relax-local": 0.95, "lore": 0.7, "greedy": 0.95, "mace": 0.9})
    models = pd.DataFrame(
        [
            {"task": name, "seed": seed, "parameters": "{}", "cv": 0.9, "chosen": True, "measure": "accuracy",
             "test": 0.9 + 0.01 * seed, "training_rows": 100, "± cv": 0.01, "seconds": 1.0}
            for name in GRIDS
            for seed in SEEDS
        ]
    )  # fmt: skip
    frames: dict[str, pd.DataFrame] = {"models": models, "sparsity": sparsity}
    template = sparsity.iloc[0].to_dict()
    generator = np.random.default_rng(1)
    for part in ("regression", "lambda", "architecture", "pretraining", "ablation"):
        lines = []
        for case in cases(quick=False):
            if case.part == part:
                line = {name: getattr(case, name) for name in ("task", "method", "cap", "setting", "seed")}
                lines.append(template | line | {"validity": generator.uniform(0.5, 1.0)})
        frames[part] = pd.DataFrame(lines)
    return frames


ENTRY = {"command": "relax-plugin reproduce", "started": "now", "machine": "m", "versions": {}}


@pytest.fixture(scope="module")
def report(small_tables: dict[str, pd.DataFrame]) -> str:
    return render(small_tables, [ENTRY], quick=False)


@pytest.fixture(scope="module")
def two_parts(small_tables: dict[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """A report of less, for what does not depend on how much there is."""
    return {name: small_tables[name] for name in ("models", "regression", "lambda")}


@pytest.mark.slow
def test_the_report_has_every_section_and_the_papers_numbers(report: str) -> None:
    text = report
    for section in ("verdict", "targets", "models", "sparsity", "regression", "proximity", "lambda", "architecture"):
        assert f'id="{section}"' in text
    for printed in ("0.81 ± 0.09 (3.02 ± 0.17)", "0.76 (2.95)", "1,132", "2,280", "4.46", "3.36"):
        assert f'class="printed">{printed}' in text
    assert "http://" not in text.replace("http://www.w3.org", "") and "https://" not in text
    assert "A quick run" not in text


@pytest.mark.slow
def test_every_verdict_is_one_phrase_with_its_figures_folded_and_every_section_is_in_the_menu(
    small_tables: dict[str, pd.DataFrame], report: str
) -> None:
    text = report
    folded = re.findall(r'<details class="claim"><summary>(.*?)</summary><p class="small">(.*?)</p></details>', text)
    claims, targets = all_claims(small_tables), all_targets(small_tables)
    assert len(folded) == len(claims) + len(targets) > 10
    for (summary, figures), claim in zip(folded, claims, strict=False):
        summary, figures = html.unescape(summary), html.unescape(figures)
        assert claim.text in summary and claim.status in summary and claim.source in summary
        assert figures == claim.evidence and claim.evidence not in summary
    sections = re.findall(r'<section id="([\w-]+)"', text)
    nav = text.partition("<nav")[2].partition("</nav>")[0]
    spread, _, menu = nav.partition('<details class="menu">')
    assert len(sections) >= 9
    for links in (spread, menu):
        assert re.findall(r'href="#([\w-]+)"', links) == sections


@pytest.mark.slow
def test_figure_3_has_all_methods_in_small_panels_of_few_colours(small_tables: dict[str, pd.DataFrame]) -> None:
    assert {name for members in pictures.GROUPS.values() for name in members} | {"relax-global"} == {
        *PEERS, f"relax-global{ALONE}"
    }  # fmt: skip
    frame = small_tables["sparsity"]
    figure = pictures.validity_at_cap(frame)
    shown = set(frame["method"])
    assert len(figure.axes) == frame["task"].nunique() * len(pictures.GROUPS)
    for axes, (group, members) in zip(figure.axes, pictures.GROUPS.items(), strict=False):
        coloured = {line.get_label(): line for line in axes.lines if line.get_color() != OTHERS}
        assert set(coloured) == shown & {"relax-global", *members}, group
        assert len(axes.lines) == len(shown), "the others are grey"
        for name, line in coloured.items():
            assert (line.get_color(), line.get_marker()) == (STYLES[name].colour, STYLES[name].marker)
        lowest = min(coloured.values(), key=lambda line: line.get_zorder())
        assert lowest.get_label() == "relax-global", "what ties with it is seen on it"


@pytest.mark.slow
def test_the_report_of_a_quick_run_says_so(two_parts: dict[str, pd.DataFrame]) -> None:
    assert "A quick run" in render(two_parts, [], quick=True)


@pytest.mark.slow
def test_a_run_interrupted_at_any_place_has_a_report(small_tables: dict[str, pd.DataFrame]) -> None:
    for part in ("sparsity", "regression", "lambda", "architecture", "pretraining", "ablation"):
        text = render({"models": small_tables["models"], part: small_tables[part].head(1)}, [], quick=False)
        assert f'id="{part}"' in text


def test_every_number_of_a_table_is_the_mean_of_its_lines(small_tables: dict[str, pd.DataFrame]) -> None:
    table = tables.pretraining_table(small_tables["pretraining"])
    line = dict(zip(table.headings, table.lines[0], strict=True))
    frame = small_tables["pretraining"]
    mine = frame[(frame["method"] == "pretrained") & (frame["setting"] == line["steps of fine-tuning"])]
    assert line["validity"].startswith(f"{mine['validity'].mean():.3f}")
    assert line["paper: validity (sparsity)"] == "0.90 (3.19)"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("draw", "part"),
    [
        (pictures.trade_off, "sparsity"),
        (pictures.validity_at_cap, "sparsity"),
        (pictures.unit_effect, "regression"),
        (pictures.lambda_effect, "lambda"),
        (pictures.pretraining_effect, "pretraining"),
        (pictures.ablation_effect, "ablation"),
    ],
)
def test_every_picture_has_titles_and_named_axes(draw: Any, part: str, small_tables: dict[str, pd.DataFrame]) -> None:
    figure = draw(small_tables[part])
    for axes in figure.axes:
        assert axes.get_title() and axes.get_xlabel()
        assert axes.lines


# The run


@pytest.fixture
def small_plan(monkeypatch: pytest.MonkeyPatch) -> list[Case]:
    wanted = [Case("sparsity", "diabetes/ada", name, 0, name, 5, rows=3) for name in ("nearest-ct", "greedy", "grace")]
    monkeypatch.setattr(run_module, "cases", lambda quick: wanted)
    monkeypatch.setattr(run_module, "models_needed", lambda quick: [("diabetes/ada", 0)])
    monkeypatch.setattr(models_module, "FOLDS", 2)  # how well a model is chosen is the matter of another test
    monkeypatch.delenv("RELAX_DATA_HOME", raising=False)
    return wanted


class Watching:
    """A watcher that takes note of what it is told."""

    def __init__(self) -> None:
        self.left: float | None = None
        self.begun: list[str] = []
        self.ended_cases: list[str] = []
        self.running: set[str] = set()
        self.known = 0

    def begins(self, of: int, name: str) -> None:
        self.begun.append(name)
        self.running.add(name)
        self.known += self.left is not None

    def ends(self, done: int, of: int, name: str) -> None:
        self.running.discard(name)
        self.ended_cases += [name] * ("seed" in name)


@pytest.mark.slow
def test_a_run_is_continued_and_its_tables_are_small(tmp_path: Path, small_plan: list[Case]) -> None:
    folder, said = Folder(tmp_path / "paper"), []
    watcher = Watching()
    reproduce(folder, quick=False, jobs=1, command="relax-plugin reproduce", say=said.append, watcher=watcher)
    assert [name for name in watcher.begun if "seed" in name] == watcher.ended_cases and len(watcher.ended_cases) == 3
    assert watcher.begun[0] == TUNING and watcher.begun[-1] == STUDY and watcher.running == set()
    assert watcher.known == 3 and watcher.left is None, "the time that is left is told while cases run"
    first = folder.read("sparsity").set_index("method")
    assert first["state"].to_dict() == {"nearest-ct": "ok", "greedy": "ok", "grace": "skipped"}
    assert "skipped because" in first.loc["grace", "reason"]
    assert any("3 of 3 cases are still to be run" in line for line in said)

    (entry,) = folder.about()
    assert entry["command"] == "relax-plugin reproduce" and entry["seconds"] >= 0 and "torch" in entry["versions"]

    said.clear()
    reproduce(folder, quick=False, jobs=1, command="relax-plugin reproduce", say=said.append)
    assert any("0 of 3 cases are still to be run" in line for line in said)
    pd.testing.assert_frame_equal(folder.read("sparsity").set_index("method"), first)
    assert len(folder.about()) == 2


@pytest.mark.slow
def test_a_verdict_is_shown_beside_the_one_before(two_parts: dict[str, pd.DataFrame]) -> None:
    none = verdict(two_parts, {}, None)
    assert set(none["before"]) == {""} and changed(none, None) == []
    before = none.copy()
    before.loc[0, "verdict"], before.loc[1, "claim"] = "reversed", "Another claim."
    decided = verdict(two_parts, {}, before)
    assert decided["before"].tolist() == ["reversed", "new", *none["verdict"][2:]]
    other, new, dropped = changed(decided, before)
    assert other == f"{none['where'][0]}, reversed → {none['verdict'][0]}: {none['claim'][0]}"
    assert "new → " in new and dropped.endswith("no longer asked: Another claim.")
    assert html.escape(other, quote=False) in html.unescape(render(two_parts, [], quick=False, changes=[other]))


def test_tables_without_results_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "--report-only", "--output", str(tmp_path)]) == 2
    assert "holds no results" in capsys.readouterr().err
    with pytest.raises(InputError, match=r"holds no models\.csv"):
        Folder(tmp_path).read("models")


@pytest.mark.slow
def test_the_command_reports_what_is_stored(
    tmp_path: Path, two_parts: dict[str, pd.DataFrame], capsys: pytest.CaptureFixture[str]
) -> None:
    folder = Folder(tmp_path / "paper")
    for name, frame in two_parts.items():
        folder.write(name, frame)
    assert main(["reproduce", "--report-only", "--output", str(tmp_path)]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    claimed = all_claims(two_parts)[0]
    assert f"{claimed.status.upper()} {claimed.source}: {claimed.text} {claimed.evidence}" in printed
    assert main(["reproduce", "--report-only", "--json", "--output", str(tmp_path)]) == 0
    assert json.loads(capsys.readouterr().out)[0]["figures"] == claimed.evidence
    assert (tmp_path / "report.html").read_text().startswith("<!DOCTYPE html>")
    assert folder.read("verdicts")["figures"].iloc[0] == claimed.evidence


def test_methods_that_are_shown_together_look_different() -> None:
    for members in pictures.GROUPS.values():
        names = [name for name in members if name in STYLES]
        assert len({(STYLES[name].colour, STYLES[name].marker) for name in names}) == len(names)
