"""Facts about the table of distances from the optimum, and `relax-plugin bench --floor`."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from relax_plugin.cli import main
from relax_plugin.evaluation import floor_table
from relax_plugin.evaluation.floor_table import above_floor, stored_floor
from relax_plugin.evaluation.judge import COLUMNS, Method, Unit
from relax_plugin.evaluation.runner import load_rows
from relax_plugin.evaluation.tasks import load_task
from relax_plugin.trees.floor import Floor

UNSOLVED = float("nan")
BEST = Floor(
    changes=np.array([1, 2, 2, -1]),
    distance=np.array([0.5, 1.0, 2.0, np.nan]),
    values=np.zeros((4, 1)),
    proved=np.array([1, 2, 2, 4]),
    possible=np.ones(4, dtype=bool),
)


def solved(method: str, seed: int, sparsity: list[float], proximity: list[float]) -> list[dict[str, Any]]:
    """The rows of a unit: NaN where an instance was not solved."""
    rows = []
    for instance, (changes, distance) in enumerate(zip(sparsity, proximity, strict=True)):
        row = Unit("t", Method.parse(method), seed).failure("ok", "")
        row |= {"instance": instance, "instances": len(sparsity), "valid": not np.isnan(changes)}
        rows.append(row | {"sparsity": changes, "proximity": distance})
    return rows


def table_of(monkeypatch: pytest.MonkeyPatch, *units: list[dict[str, Any]]) -> pd.DataFrame:
    rows = pd.DataFrame([row for unit in units for row in unit], columns=list(COLUMNS))
    monkeypatch.setattr(floor_table, "stored_floor", lambda *_: BEST)
    table, reasons = above_floor(rows, Path("nowhere"), load=lambda name, seed: None)  # type: ignore[arg-type,return-value]
    assert reasons == []
    return table.droplevel("task")


def test_every_number_is_that_computed_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    table = table_of(
        monkeypatch,
        solved("greedy", 0, [1, 3, 2, 4], [0.5, 0.9, 2.5, 7.0]),
        solved("nearest-ct", 0, [UNSOLVED, 2, UNSOLVED, 5], [UNSOLVED, 1.0, UNSOLVED, 3.0]),
    )
    greedy, nearest = table.loc["greedy"], table.loc["nearest-ct"]
    assert greedy["floor known"] == nearest["floor known"] == 3
    assert greedy["floor L0"] == nearest["floor L0"] == pytest.approx(5 / 3)
    assert greedy["L0 above floor"] == pytest.approx(1 / 3)
    assert greedy["at floor L0"] == pytest.approx(2 / 3)
    assert greedy["floor L1"] == pytest.approx(1.25)
    assert greedy["L1 above floor"] == pytest.approx(0.25)
    assert greedy["optimal"] == pytest.approx(1 / 3)
    assert nearest["L0 above floor"] == 0
    assert nearest["at floor L0"] == nearest["optimal"] == pytest.approx(1 / 3), "unsolved ones are not there"
    assert nearest["L1 above floor"] == 0


def test_a_seed_that_failed_is_not_at_the_floor(monkeypatch: pytest.MonkeyPatch) -> None:
    table = table_of(
        monkeypatch,
        solved("greedy", 0, [1, 2, 2, 2], [0.5, 1.0, 2.0, 1.0]),
        solved("greedy", 1, [1, 2, 2, 2], [0.5, 1.0, 2.0, 1.0]),
        solved("lore", 0, [1, 2, 2, 2], [0.5, 1.0, 2.0, 1.0]),
        [Unit("t", Method.parse("lore"), 1).failure("timed out", "why")],
        [Unit("t", Method.parse("deepfool"), 0).failure("skipped", "why")],
    )
    assert table.loc["greedy", "optimal"] == 1
    assert table.loc["lore", "at floor L0"] == table.loc["lore", "optimal"] == 0.5
    assert np.isnan(table.loc["lore", "L0 above floor"])
    assert list(table.index) == ["greedy", "lore"]


@pytest.mark.slow
def test_a_floor_is_computed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task = load_task("diabetes/ada")
    first = stored_floor(task, 0, 12, tmp_path, 1)
    assert -1 in first.changes
    monkeypatch.setattr(floor_table, "floor", lambda *_, **__: pytest.fail("it is stored"))
    again = stored_floor(task, 0, 12, tmp_path, 1)
    for name in ("changes", "distance", "values", "proved", "possible"):
        before, after = getattr(first, name), getattr(again, name)
        assert before.dtype == after.dtype
        assert np.array_equal(before, after, equal_nan=before.dtype.kind == "f")
    assert [path.suffix for path in (tmp_path / "floors").iterdir()] == [".gz"]


@pytest.mark.slow
def test_bench_prints_the_floor_beside_every_method(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chosen = ["--tasks", "diabetes/ada", "breast_cancer/mlp", "--methods", "nearest-ct", "greedy", "--seeds", "1"]
    command = ["bench", *chosen, "--rows", "8", "--output", str(tmp_path), "--floor", "2"]
    assert main(command) == 0
    text = capsys.readouterr().out
    assert "How far from the optimum, where that changes up to 2 features" in text
    reason = "skipped because it needs a tree ensemble, and the model is a MLPClassifier."
    assert f"breast_cancer/mlp has no floor: {reason}" in text
    assert main([*command, "--json"]) == 0
    table = {(row["task"], row["method"]): row for row in json.loads(capsys.readouterr().out)}
    assert len(table) == 4
    assert table["breast_cancer/mlp", "greedy"]["floor L0"] is None
    rows = load_rows(tmp_path)
    for method in ("nearest-ct", "greedy"):
        row = table["diabetes/ada", method]
        mine = rows[(rows["task"] == "diabetes/ada") & (rows["method"] == method)]
        assert row["floor known"] == 8
        assert row["L0 above floor"] == pytest.approx(mine["sparsity"].mean() - row["floor L0"])
    assert table["diabetes/ada", "greedy"]["at floor L0"] > table["diabetes/ada", "nearest-ct"]["at floor L0"]


def test_a_floor_of_no_changes_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--floor", "0", "--output", str(tmp_path / "new")]) == 2
    assert "--floor is 0" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()
