"""What the commands print fits 80 columns and 120, with long names too; `--wide` and `--json` have the rest."""

import json
from pathlib import Path

import pandas as pd
import pytest
from rich.cells import cell_len as displayed

from relax_plugin.cli import main
from relax_plugin.commands.output import print_summary, print_table
from relax_plugin.commands.report import TABLES

ROOT = Path(__file__).parents[2]
LONG = "surrogate-search:max_queries=160,query_budget=1000,objective=sparse"
BENCH = ["--tasks", "breast_cancer/leaves8", "boston/mlp-0.4", "--methods", "greedy:quantiles=3", LONG, "deepfool"]
WIDTHS = (80, 120)
PAGES = ("The page:", "Rows:", "The report:")  # addresses stay whole, to be copied


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a small benchmark of two seeds, with a long name, a regression, and a method that is skipped."""
    folder = tmp_path_factory.mktemp("bench")
    assert main(["bench", *BENCH, "--seeds", "2", "--rows", "3", "--output", str(folder)]) == 0
    return folder


def printed(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> list[str]:
    """The lines of the tables that a command prints; sentences behind them may be longer."""
    capsys.readouterr()
    assert main(arguments) == 0
    return capsys.readouterr().out.splitlines()


def sentence(line: str) -> bool:
    return line.startswith((*PAGES, "The harness")) or ": skipped: " in line or "has no floor" in line


@pytest.mark.slow
@pytest.mark.parametrize("table", TABLES)
def test_tables_of_the_report_fit(
    results: Path, table: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("relax_plugin.pages.report.write_report", lambda *_, **__: results / "report.html")
    for width in WIDTHS:
        monkeypatch.setenv("COLUMNS", str(width))
        lines = printed(capsys, ["report", str(results), "--table", table])
        assert len(lines) > 5
        assert all(displayed(line) <= width for line in lines if not sentence(line))
    assert max(map(displayed, lines)) > 80 or table != "failures", "a wider terminal is used"


@pytest.mark.slow
def test_tables_of_bench_fit_with_the_floor(
    results: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    arguments = ["bench", *BENCH, "--seeds", "2", "--rows", "3", "--output", str(results), "--floor", "1"]
    lines = printed(capsys, arguments)
    assert all(displayed(line) <= 80 for line in lines if not sentence(line))
    assert sum("validity" in line and "model" not in line for line in lines if "More" not in line) == 1
    assert "Runs that were skipped, which count nowhere: 2." in " ".join(lines)
    wide = printed(capsys, [*arguments, "--wide"])
    assert "max changes" in wide[0] and "training rows" in wide[0] and max(map(len, wide)) > 120
    whole = json.loads("\n".join(printed(capsys, [*arguments, "--json"])))
    assert {"training rows", "± L1", "in model", "optimal"} <= set(whole[0])


@pytest.mark.slow
def test_tables_of_the_figures_fit_and_have_every_number_of_the_wide_ones(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    stored = ["figures", "rivals", "--tables", str(ROOT / "docs" / "results" / "figures")]
    lines = printed(capsys, stored)
    assert max(map(displayed, lines)) <= 80
    wide = printed(capsys, [*stored, "--wide"])
    assert max(map(len, wide)) > 150 and sum(line.startswith("|") for line in wide) > 30
    shown = set(" ".join(lines).split())
    assert {word for word in " ".join(wide).split() if word[0].isdigit()} <= shown


@pytest.mark.parametrize("width", WIDTHS)
def test_the_list_fits(width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    lines = printed(capsys, ["list"])
    assert max(map(displayed, lines)) <= width
    assert "--wide" in " ".join(lines)


def test_a_table_has_a_line_for_each_group_and_no_number_of_its_rows(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    table = pd.DataFrame({"task": ["a", "a", "b"], "method": ["x", "y", "x"], "L0": [1.0, None, 2.5], "n": [1, 2, 3]})
    print_table(table.set_index(["task", "method"]), as_json=False, decimals=1)
    assert capsys.readouterr().out.splitlines() == [
        "method   L0  n",
        "--------------",
        "a",
        "  x     1.0  1",
        "  y       -  2",
        "b",
        "  x     2.5  3",
    ]
    print_table(table, as_json=False)
    assert capsys.readouterr().out.splitlines()[2].split() == ["a", "x", "1.000", "1"]


def test_runs_that_failed_are_told_below_the_summary(capsys: pytest.CaptureFixture[str]) -> None:
    names = ["validity", "L0", "L1", "rows", "fit s", "explain s", "found", "instances", "max changes", "L0 common"]
    names += ["L1 common", "common", "violations", "training rows", "ms each", "± validity", "± L0", "± L1"]
    line = dict.fromkeys(names, 0.5) | {"failed": 2, "skipped": 0}
    print_summary(pd.DataFrame([line], index=pd.Index(["greedy"], name="method")), wide=False)
    told = " ".join(capsys.readouterr().out.split())
    assert told.endswith("Runs that failed, which count as validity 0: 2.")
