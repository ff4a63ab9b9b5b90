"""The tables of the figures: made of stored lines alone, narrow, and complete though a measurement is not."""

import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from benchmarks.figures import figures
from benchmarks.figures import measurements as measured
from benchmarks.figures.figures import TABLES, stored
from benchmarks.figures.outlier_table import COLUMNS as OUTLIER_COLUMNS
from benchmarks.figures.whole_table import BROKEN, BRUTE_COLUMNS, SHARE_BREAKING
from benchmarks.stored import write_table
from relax_plugin.cli import main
from relax_plugin.errors import SavedFileError
from relax_plugin.evaluation.floor_table import COLUMNS as FLOOR_COLUMNS
from relax_plugin.evaluation.plan import Plan


def line(task: str, method: str, seed: int = 0, **numbers: float) -> dict[str, Any]:
    usual = dict.fromkeys([*measured.KEPT, *measured.RATIOS], 1.0)
    return {"task": task, "method": method, "seed": seed, "state": "ok", **usual, **numbers}


def made_up(what: str) -> pd.DataFrame:
    """Lines of every unit of a measurement, no two with the same numbers."""
    plans = measured.MEASUREMENTS[what]((), [0, 1])
    units = [unit for plan in plans for unit in plan.units()]
    extra = [*measured.ALSO_KEPT.get(what, []), *(FLOOR_COLUMNS if what == "inside" else [])]
    extra += [measured.LEAD] if what == "rivals" else []
    extra += OUTLIER_COLUMNS if what == "plausible" else []
    extra += [*BROKEN, SHARE_BREAKING] if what in ("rules", "missing") else []
    extra += BRUTE_COLUMNS if what == "rules" else []
    extra += [measured.OF_UNTOLD] if what == "costs" else []
    return pd.DataFrame(
        [
            line(*unit.key, **dict.fromkeys(extra, 1.0 + i / 7), validity=0.5 + i / 5000, rows=40.0 + i)
            for i, unit in enumerate(units)
        ]
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("figures")
    for what in measured.MEASUREMENTS:
        write_table(folder / f"{what}.csv", made_up(what))
    return folder


@pytest.fixture(scope="module")
def lines(folder: Path) -> pd.DataFrame:
    return stored(folder)


def cells_of(table: str) -> list[list[str]]:
    return [[cell.strip() for cell in text.strip("|\n").split("|")] for text in table.splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLES)
def test_every_table_is_narrow_and_leaves_nothing_out(name: str, lines: pd.DataFrame) -> None:
    heading, rule, *body = cells_of(TABLES[name](lines))
    assert len(heading) <= 6 and set(rule) == {"---"} and body
    assert all(len(cells) == len(heading) and all(cells) for cells in body)
    assert not any("nan" in cell or cell == "-" for cells in body for cell in cells)
    assert TABLES[name].about


def test_every_measurement_has_a_table() -> None:
    assert {table.measurement for table in TABLES.values()} == set(measured.MEASUREMENTS)


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLES)
def test_of_what_was_not_run_a_table_shows_dashes(name: str, lines: pd.DataFrame) -> None:
    assert len(cells_of(TABLES[name](lines[lines["measurement"] == "none of them"]))) == 2
    one = lines[(lines["measurement"] == TABLES[name].measurement) & (lines["method"] == lines["method"].iloc[0])]
    assert "nan" not in TABLES[name](one)


def test_a_target_says_which_tasks_miss_it_and_by_how_much() -> None:
    lines = pd.DataFrame(
        [
            line("wave2/xgb", measured.SEARCH, 0, **{"L1 ratio": 1.12, "rows": 11.0, measured.LEAD: 0.0}),
            line("wave2/xgb", measured.SEARCH, 1, **{"L1 ratio": 1.20, "rows": 13.5, measured.LEAD: -0.02}),
            line("sonar/mlp", measured.SEARCH, 0, **{"L1 ratio": 1.05, "rows": 15.0, measured.LEAD: 0.1}),
            line("rare/xgb", measured.SEARCH, 0, **{"L1 ratio": 1.0501, "rows": 2.0, measured.LEAD: 0.0}),
        ]
    ).assign(measurement="rivals")
    told = {cells[0]: cells[1:] for cells in cells_of(TABLES["rivals_targets"](lines))}
    assert told["L1 ratio"] == [
        *(
            "at most 1.05, 1.15 on wave2/xgb",
            "1.050",
            "1 of 3",
            "1.160 (wave2/xgb)",
            "wave2/xgb 0.0100, rare/xgb 0.000100",
        )
    ]
    assert told["model rows a query"] == [
        *("at most 12, 16 on sonar/mlp", "12.2", "2 of 3", "12.2 (wave2/xgb)", "wave2/xgb 0.250")
    ]
    assert told["validity beyond that of the better rival: ReLAX"] == [
        *("at least 0", "0.000", "2 of 3", "-0.010 (wave2/xgb)", "wave2/xgb 0.0100")
    ]
    assert told["L0 ratio"][-1] == "none"
    assert "L1 ratio with 40 rows a query" not in told, "no task was measured with as many"


def test_seconds_are_those_of_the_fit_and_of_so_many_mean_queries() -> None:
    numbers = {"instances": 20, "fit CPU s": 1.0, "explain CPU s": 2.0, "fit s": 3.0, "ms each": 50.0}
    costs = {"training rows": 1000, "rows": 10.0}
    greedy = {"instances": 10, "fit CPU s": 0.0, "explain CPU s": 5.0, "fit s": 0.0, "ms each": 400.0}
    lines = [
        line("slow/sonar/mlp", measured.SEARCH, 0, **numbers, **costs),
        line("slow/sonar/mlp", measured.YARDSTICK, 0, **greedy, **(costs | {"rows": 100.0})),
    ]
    cells = cells_of(TABLES["slow"](pd.DataFrame(lines).assign(measurement="slow")))[2]
    assert cells[1].startswith("8.0 / ") and cells[2].startswith("40 / ")
    # Reckoned: 1 + 1 s of rows and 1 + 10 s of CPU; 1 + 10 s and 50 s.
    assert cells[3] == f"5.0 / {61 / 13:.1f}"
    cells = cells_of(TABLES["rivals_cpu"](pd.DataFrame(lines).assign(measurement="rivals")))[2]
    assert cells[-1] == f"{11 / 50:.2f} / {21 / 100:.2f}"


def test_the_spread_is_that_over_seeds() -> None:
    lines = [line("sonar/mlp", measured.POLICY, seed, validity=v) for seed, v in enumerate((0.9, 1.0))]
    assert "0.950 ± 0.071" in TABLES["local"](pd.DataFrame(lines).assign(measurement="local"))


@pytest.mark.slow
def test_the_command_prints_stored_tables_and_runs_nothing(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measured, "measure", lambda *_, **__: pytest.fail("nothing is to be run"))
    before = sorted(folder.rglob("*"))
    assert main(["figures", "--tables", str(folder)]) == 0
    printed = capsys.readouterr().out
    assert re.findall(r"^## (\w+): ", printed, re.MULTILINE) == list(TABLES)
    assert main(["figures", "core", "--tables", str(folder)]) == 0
    of_core = re.findall(r"^## (\w+): ", capsys.readouterr().out, re.MULTILINE)
    assert of_core == ["efforts", "efforts_cost", "controls", "efforts_targets"]
    assert sorted(folder.rglob("*")) == before


def test_a_folder_without_figures_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["figures", "--tables", str(tmp_path)]) == 2
    assert "holds no figures" in capsys.readouterr().err


@pytest.mark.slow
def test_the_command_keeps_lines_and_says_how_they_came_about(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = Plan(["diabetes/ada"], ["greedy", "nearest-ct"], [0], rows=5)
    monkeypatch.setitem(measured.MEASUREMENTS, "judged", lambda *_: [plan])
    command = ["figures", "judged", "--output", str(tmp_path), "--jobs", "1"]
    assert main(command) == 0
    first, (note,) = capsys.readouterr(), figures.notes(tmp_path).read()
    assert "[2/2]" in first.err and "\ndiabetes/ada\n" in first.out and "\n  nearest-ct " in first.out
    assert note["command"].startswith("relax-plugin figures judged") and note["commit"]
    assert main(command) == 0
    again = capsys.readouterr()
    assert "[" not in again.err and again.out == first.out
    assert main([*command, "--wide"]) == 0
    assert "| diabetes/ada | `nearest-ct` |" in capsys.readouterr().out
    assert sum(path.stat().st_size for path in tmp_path.glob("*.csv")) < 1000


def test_a_damaged_table_is_refused(folder: Path, tmp_path: Path) -> None:
    text = (folder / "local.csv").read_text()
    for damage, told in (
        (text.replace("validity", "validly"), "no column 'validity'"),
        (text.replace("0.5", "x"), "x"),
    ):
        (tmp_path / "local.csv").write_text(damage)
        with pytest.raises(SavedFileError, match=told):
            stored(tmp_path)


def test_a_table_says_first_which_controls_are_as_good_as_the_agent() -> None:
    shares = {measured.REFINED: 0.99, measured.TABLE: 1.0, measured.NEVER_TRAINED: 0.9, measured.RANDOM_ORDER: 0.99}
    lines = pd.DataFrame([line("lock3/rule", method, validity=share) for method, share in shares.items()])
    told = TABLES["controls"].told(lines.assign(measurement="core"))
    assert told.endswith("As good as the trained agent, or better: table of moves, random order.")
    worse = lines.assign(**{"L0 ratio": [1.0, 1.1, 1.0, 1.1]})
    assert TABLES["controls"].told(worse.assign(measurement="core")).endswith("or better: none of them.")
    assert TABLES["efforts"].told(lines.assign(measurement="core")) == TABLES["efforts"].about
