"""The search for real tables on which changes must be coordinated: benchmarks/tables/real_tables.py."""

import numpy as np
import pandas as pd
import pytest

from benchmarks.tables import real_tables
from relax_plugin.datasets import load
from relax_plugin.evaluation.tasks import Task, load_task
from relax_plugin.features import FeatureSpace
from relax_plugin.goal import Goal


class BothOrColour:
    """Class 1 by two numbers together, or by a colour and a number."""

    def predict_proba(self, rows: pd.DataFrame) -> np.ndarray:
        positive = ((rows["a"] > 0.9) & (rows["b"] > 0.9)) | ((rows["colour"] == "red") & (rows["c"] > 0.9))
        return np.column_stack([1.0 - positive, positive])

    def predict(self, rows: pd.DataFrame) -> np.ndarray:
        return self.predict_proba(rows).argmax(axis=1)


@pytest.mark.parametrize(("immutable", "least"), [((), 2), (("colour",), 2), (("b",), 2), (("colour", "b"), np.inf)])
@pytest.mark.parametrize("goal", [None, Goal.flip(min_probability=0.9)])
def test_all_pairs_tell_whether_two_changes_would_do(
    immutable: tuple[str, ...], least: float, goal: Goal | None
) -> None:
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(rng.uniform(size=(60, 3)), columns=["a", "b", "c"])
    rows["colour"] = rng.choice(["red", "blue", "green"], size=60)
    space = FeatureSpace.infer(rows, immutable=immutable)
    answers = pd.Series(np.zeros(60))
    task = Task("made up", BothOrColour(), space, goal, rows, rows, answers, answers)
    query = rows.iloc[:1].assign(a=0.1, b=0.2, c=0.3, colour="blue")
    assert real_tables.least_by_pairs(task, query).tolist() == [least]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 2])
def test_test_rows_are_not_looked_at(seed: int) -> None:
    task = real_tables.task_of("breast_cancer", "rules, a tree of 8 leaves", "another class", seed)
    kept = load_task("breast_cancer/rf", seed).X_test.index
    seen = [*task.X_train.index, *task.X_test.index]
    assert len(seen) == len(set(seen)) == len(load("breast_cancer").X) - len(kept) and not set(seen) & set(kept)


def test_what_is_stored_is_every_combination() -> None:
    stored = pd.read_csv(real_tables.STORED)
    first = stored[stored["seed"] == 0]
    assert len(first) == len(real_tables.TABLES) * len(real_tables.MODELS) * len(real_tables.GOALS) - len(
        real_tables.GOALS
    )  # sonar is wide
    again = first[first[real_tables.MISSED] >= real_tables.MUCH]
    assert len(stored) == len(first) + (real_tables.SPLITS - 1) * len(again)
    tried = stored[[f"{name}: unsolved" for name in real_tables.THEN.values()]].notna()
    assert (tried.all(axis=1) == ((stored["seed"] > 0) | (stored[real_tables.MISSED] >= real_tables.MUCH))).all()
