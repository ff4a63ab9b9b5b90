"""The command line: what it prints, what it writes, and the exit codes that say how it went."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from relax_plugin.cli import main
from relax_plugin.commands.bench import with_budgets
from relax_plugin.evaluation.runner import Store, load_rows
from relax_plugin.evaluation.tasks import available_tasks
from relax_plugin.registry import list_explainers

QUICK = ["--tasks", "breast_cancer/mlp", "--methods", "nearest-ct", "greedy:quantiles=3", "--seeds", "1", "--rows", "6"]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a small benchmark, run once."""
    folder = tmp_path_factory.mktemp("bench")
    assert main(["bench", *QUICK, "--output", str(folder)]) == 0
    return folder


def files(folder: Path) -> dict[str, int]:
    """When each unit of a folder was written."""
    return {path.name: path.stat().st_mtime_ns for path in (folder / "units").iterdir()}


def test_every_command_explains_itself_with_examples(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("demo", "explain", "list", "bench", "report", "reproduce", "fetch", "figures", "play"):
        with pytest.raises(SystemExit) as end:
            main([command, "--help"])
        assert end.value.code == 0
        assert f"  relax-plugin {command}" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["--help"])
    assert "exit codes:" in capsys.readouterr().out


def test_help_comes_without_importing_torch() -> None:
    code = (
        "import sys; from relax_plugin.cli import main\ntry: main(['--help'])\nfinally: print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False"


@pytest.mark.slow
def test_list_names_every_method_and_task_with_what_it_supports(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [row["method"] for row in listed["methods"]] == list_explainers()
    assert {row["task"] for row in listed["tasks"]} <= set(available_tasks())
    methods = {row["method"]: row for row in listed["methods"]}
    assert methods["greedy"]["labels only"] is False
    assert methods["greedy"]["options"]["quantiles"] == 20
    assert methods["relax-global"]["tasks"] == ["classification", "regression"]
    tasks = {row["task"]: row for row in listed["tasks"]}
    assert tasks["german/rf"]["categorical"] == 13
    assert tasks["boston/mlp-0.4"]["kind"] == "regression"
    assert main(["list"]) == 0
    text = capsys.readouterr().out
    assert all(name in text for name in (*list_explainers(), "sonar/mlp"))
    assert "[dice]" in text and "[nan]" not in text


@pytest.mark.slow
def test_bench_prints_the_table_it_stores(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = files(results)
    assert main(["bench", *QUICK, "--output", str(results), "--json"]) == 0
    table = {row["method"]: row for row in json.loads(capsys.readouterr().out)}
    assert files(results) == before, "what is stored is not run again"
    rows = load_rows(results)
    assert set(table) == set(rows["method"]) == {"nearest-ct", "greedy:quantiles=3"}
    for method, mine in rows.groupby("method"):
        assert len(mine) == table[str(method)]["instances"] == 6
        assert table[str(method)]["validity"] == pytest.approx(mine["valid"].mean())
        assert table[str(method)]["rows"] == pytest.approx(mine["rows"].mean())
    assert main(["bench", *QUICK, "--output", str(results)]) == 0
    text = capsys.readouterr().out
    assert "validity" in text
    assert f"relax-plugin report {results}" in text


@pytest.mark.slow
def test_bench_remembers_commands_and_versions(results: Path) -> None:
    first = Store(results).notes()[0]
    assert first["command"].startswith("relax-plugin ")
    assert {"python", "torch", "numpy", "scikit-learn", "relax-plugin"} <= set(first["versions"])


@pytest.mark.slow
def test_bench_says_by_its_exit_code_that_a_method_was_ended(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["bench", "--tasks", "breast_cancer/mlp", "--methods", "greedy", "--seeds", "1", "--limit", "0.001"]
    assert main([*arguments, "--output", str(tmp_path)]) == 1
    assert "took longer than 0.001 s and was ended" in capsys.readouterr().out
    assert load_rows(tmp_path)["state"].tolist() == ["timed out"]
    again = ["bench", "--tasks", "breast_cancer/mlp", "--methods", "greedy", "--seeds", "1", "--output", str(tmp_path)]
    assert main(again) == 1, "a failed unit is not run again unless asked for"
    assert main([*again, "--retry"]) == 0
    assert set(load_rows(tmp_path)["state"]) == {"ok"}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--tasks", "sonar/mpl"], "did you mean 'sonar/mlp'"),
        (["--methods", "greddy"], "did you mean 'greedy'"),
        (["--methods", "greedy:quantile=3"], "did you mean 'quantiles'"),
        (["--methods", "greedy:quantiles"], "write name:option=value"),
        (["--methods", "greedy", "greedy"], "given twice"),
        (["--seeds", "0"], "no seed to run"),
        (["--rows", "0"], "rows is 0"),
        (["--jobs", "0"], "jobs is 0"),
        (["--limit", "-1"], "limit is -1"),
        (["--method-rows", "lore"], "METHOD=N"),
        (["--method-rows", "lore=5"], "which is not run"),
        (["--backend", "dask"], "needs the address of a scheduler"),
        (["--scheduler", "tcp://127.0.0.1:1"], "is for backend 'dask'"),
        (["--tasks", "boston/mlp", "boston/mlp-0.4"], "given twice"),
    ],
)
def test_bench_refuses_what_it_cannot_run(
    arguments: list[str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "--output", str(tmp_path / "new"), *arguments]) == 2
    assert sentence in capsys.readouterr().err
    assert not (tmp_path / "new" / "units").exists() or not any((tmp_path / "new" / "units").iterdir())


@pytest.mark.slow
def test_bench_refuses_a_folder_of_other_settings(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = files(results)
    other = [argument if argument != "6" else "5" for argument in QUICK]
    assert main(["bench", *other, "--output", str(results)]) == 2
    assert "give another output folder" in capsys.readouterr().err
    assert files(results) == before


def test_budgets_vary_the_methods_that_have_one() -> None:
    varied = with_budgets(["greedy", "move-table", "relax-global:effort=search"], [10, 40])
    assert varied == [
        "greedy",
        "move-table:max_queries=10",
        "move-table:max_queries=40",
        "relax-global:effort=search,max_queries=10",
        "relax-global:effort=search,max_queries=40",
    ]


@pytest.mark.slow
def test_an_interrupted_bench_stops_at_once_and_leaves_no_process(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "relax_plugin.cli", "bench", "--tasks", "sonar/mlp", "--seeds", "1"]
    arguments = [*command, "--methods", "nearest-ct", "relax-local", "--output", str(tmp_path)]
    # A shell that runs the tests in the background ignores Ctrl-C for them: not for this one.
    bench = subprocess.Popen(arguments, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    wait_until(lambda: (tmp_path / "units").exists() and len(list((tmp_path / "units").glob("*.csv.gz"))) == 1)
    children = children_of(bench.pid)
    assert children
    bench.send_signal(signal.SIGINT)
    assert bench.wait(timeout=120) == 130
    wait_until(lambda: not any(Path(f"/proc/{child}").exists() for child in children))
    assert load_rows(tmp_path)["method"].unique().tolist() == ["nearest-ct"]


@pytest.mark.slow
def test_report_writes_a_page_of_the_stored_rows(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.html"
    assert main(["report", str(results), "--output", str(page), "--title", "Two methods", "--json"]) == 0
    assert {row["method"] for row in json.loads(capsys.readouterr().out)} == {"nearest-ct", "greedy:quantiles=3"}
    text = page.read_text()
    assert "<title>Two methods" in text
    assert "relax-plugin" in text
    assert main(["report", str(results)]) == 0
    assert (results / "report.html").exists()
    assert main(["report", str(tmp_path / "nowhere")]) == 2
    assert "holds no results" in capsys.readouterr().err


@pytest.mark.slow
def test_report_prints_any_table(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for table, column in (("validity-at-k", "k"), ("anytime", "rows"), ("by-class", "class"), ("failures", None)):
        assert main(["report", str(results), "--table", table, "--json"]) == 0
        lines = json.loads(capsys.readouterr().out)
        assert (
            lines == [] if column is None else {line["method"] for line in lines} == set(load_rows(results)["method"])
        )
        assert all(column in line for line in lines)


@pytest.mark.slow
def test_what_cannot_be_written_is_refused(results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "file"
    file.write_text("")
    assert main(["bench", *QUICK, "--output", str(file / "folder")]) == 2
    assert main(["report", str(results), "--output", str(file / "page.html")]) == 2
    assert main(["demo", "--report", str(tmp_path / "nowhere" / "page.html")]) == 2
    assert "in a folder that exists" in capsys.readouterr().err


def test_a_wrong_command_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["banch"])
    assert end.value.code == 2
    assert main(["figures", "cores"]) == 2
    assert "did you mean 'core'" in capsys.readouterr().err


def wait_until(fact: Any, seconds: float = 300.0) -> None:
    end = time.monotonic() + seconds
    while not fact():
        assert time.monotonic() < end
        time.sleep(0.1)


def children_of(pid: int) -> list[int]:
    """The processes that a process has started and that still run."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1]) if entry.name.isdecimal() else -1
        except (FileNotFoundError, ProcessLookupError):  # it ended while we looked
            continue
        if parent == pid and entry.name != str(os.getpid()):
            found.append(int(entry.name))
    return found
