"""Facts about the lines of `rules` and `missing`: sums over units, and how far each is from brute force."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from benchmarks.figures import whole_table
from benchmarks.figures.whole_table import broken_by_seed, brute_by_seed
from relax_plugin.evaluation.whole_rows import KINDS


def rows(**changed: Any) -> pd.DataFrame:
    known: dict[str, Any] = {"task": "simplex/rf", "method": "greedy", "seed": 0, "state": "ok", "instances": 3}
    known |= {"instance": [0, 1, 2], "claimed": [True, True, False], "sparsity": [2.0, 3.0, np.nan]}
    return pd.DataFrame(known | dict.fromkeys(KINDS, 0) | changed)


def test_what_is_broken_is_summed_and_counted_as_a_share_of_what_is_delivered() -> None:
    (line,) = broken_by_seed(rows(broken_rules=[2, 0, 0], torn_groups=[1, 0, 0])).to_dict("records")
    assert (line["broken rules"], line["torn groups"], line["changed gaps"]) == (2, 1, 0)
    assert line["share breaking"] == 0.5


def test_a_unit_that_did_not_run_has_no_line() -> None:
    assert broken_by_seed(rows(state="crashed")).empty


def test_the_changes_above_brute_force_are_a_mean_over_what_both_solved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(whole_table, "stored_fewest", lambda *_: np.array([2, 2, 3]))
    (line,) = brute_by_seed(rows(), tmp_path, lambda *_: None).to_dict("records")  # type: ignore[arg-type, return-value]
    assert (line["brute validity"], line["brute L0"], line["L0 above brute"]) == (1.0, 2.0, 0.5)


def test_tasks_that_are_too_wide_have_no_brute_force(tmp_path: Path) -> None:
    assert brute_by_seed(rows(task="german/dummies"), tmp_path).empty
