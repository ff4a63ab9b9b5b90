"""Facts about brute force: it finds the fewest changes that a model by hand needs, under rules."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.figures import brute_force
from benchmarks.figures.brute_force import fewest_changes, stored_fewest
from relax_plugin import FeatureSpace
from relax_plugin.evaluation.tasks import Task


class AtLeast:
    """Class 1 where so many of the first columns are above 5."""

    _estimator_type = "classifier"
    classes_ = np.array([0, 1])

    def __init__(self, needed: int) -> None:
        self.needed = needed

    def predict_proba(self, rows: Any) -> Any:
        share = np.clip((np.asarray(rows, dtype=float)[:, :3] > 5).sum(axis=1) / self.needed, 0.0, 1.0)
        chance = np.where(share == 1.0, 0.9, 0.4 * share)
        return np.column_stack([1 - chance, chance])

    def predict(self, rows: Any) -> Any:
        return self.predict_proba(rows).argmax(axis=1)


def task(needed: int, **said: Any) -> Task:
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(rng.integers(0, 11, size=(60, 4)).astype(float), columns=list("abcd"))
    rows["d"] = 30.0 - rows[["a", "b", "c"]].sum(axis=1)
    queries = pd.DataFrame([[1.0, 2.0, 3.0, 24.0], [1.0, 2.0, 9.0, 18.0]], columns=list("abcd"))
    nothing = pd.Series(dtype=float)
    return Task("by/hand", AtLeast(needed), FeatureSpace.infer(rows, **said), None, rows, queries, nothing, nothing)


def test_the_fewest_changes_are_found() -> None:
    assert fewest_changes(task(2), 2).tolist() == [2, 1]
    assert fewest_changes(task(3), 2).tolist() == [3, 2]


def test_more_changes_than_are_looked_at_are_none() -> None:
    assert fewest_changes(task(3), 2, most=2).tolist() == [-1, 2]


def test_a_sum_that_must_be_kept_costs_a_change_more() -> None:
    assert fewest_changes(task(2, rules=["a + b + c + d == 30"]), 2).tolist() == [3, 2]


def test_what_breaks_a_rule_or_may_not_change_is_no_answer() -> None:
    assert fewest_changes(task(2, rules=["a <= 5", "b <= was(b)"]), 2).tolist() == [-1, -1]
    assert fewest_changes(task(2, immutable=["a"]), 2).tolist() == [2, 1]


def test_what_is_stored_is_not_computed_again(tmp_path: Path, monkeypatch: Any) -> None:
    first = stored_fewest(task(2), 0, 2, tmp_path)
    monkeypatch.setattr(brute_force, "fewest_changes", None)
    assert stored_fewest(task(2), 0, 2, tmp_path).tolist() == first.tolist() == [2, 1]
