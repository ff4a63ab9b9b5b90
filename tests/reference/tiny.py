"""Tiny models and rows on which everything can be trained in a fraction of a second."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from relax_plugin import FeatureSpace, ReLAXConfig

QUICK = ReLAXConfig(
    steps=24,
    episodes=48,
    updates_per_step=3,
    batch=48,
    start_pool=256,
    hidden=24,
    validate_every=8,
    validation_rows=32,
    demonstrations=40,
    first_updates=10,
    imitate_every=8,
    local_steps=10,
    local_episodes=8,
    local_batch=8,
    local_updates=1,
)


class Counting:
    """A model as a plain callable that remembers how often and with how many rows it was called."""

    def __init__(self, answer: Callable[[Any], Any]) -> None:
        self.answer = answer
        self.calls = 0
        self.rows = 0
        self.seen: list[np.ndarray] = []

    def __call__(self, rows: Any) -> Any:
        self.calls += 1
        self.rows += len(rows)
        self.seen.append(np.asarray(rows))
        return self.answer(rows)

    def forget(self) -> None:
        self.calls, self.rows, self.seen = 0, 0, []


def gaussian_rows(n: int = 200, d: int = 4, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, d))


def two_class_probabilities(rows: Any) -> np.ndarray:
    """Class 1 where a smooth, not quite linear function of all columns is positive."""
    x = np.asarray(rows, dtype=np.float64)
    slope = np.where(np.arange(x.shape[1]) % 2, -1.0, 1.5)
    positive = 1.0 / (1.0 + np.exp(-(x @ slope + 0.5 * x[:, 0] * x[:, 1])))
    return np.column_stack([1.0 - positive, positive])


def two_class_labels(rows: Any) -> np.ndarray:
    return two_class_probabilities(rows).argmax(axis=1)


def three_class_probabilities(rows: Any) -> np.ndarray:
    x = np.asarray(rows, dtype=np.float64)
    logits = np.column_stack([1.5 * x[:, 0] + x[:, 1], -1.5 * x[:, 0] + x[:, 2], 1.2 * x[:, 3] - x[:, 1]])
    exponents = np.exp(logits - logits.max(axis=1, keepdims=True))
    return exponents / exponents.sum(axis=1, keepdims=True)


def numbers(rows: Any) -> np.ndarray:
    x = np.asarray(rows, dtype=np.float64)
    return np.asarray(2.0 * x[:, 0] - x[:, 1] + x[:, 2] * x[:, 3])


def mixed_rows(n: int = 120, seed: int = 0) -> pd.DataFrame:
    """Every kind of feature at once."""
    rng = np.random.default_rng(seed)
    grade = pd.CategoricalDtype(["low", "middle", "high", "top"], ordered=True)
    return pd.DataFrame(
        {
            "smooth": rng.standard_normal(n) * 3.0 + 1.0,
            "tenths": np.round(rng.uniform(-2.0, 5.0, n), 1),
            "single": rng.standard_normal(n).astype(np.float32),
            "count": rng.integers(0, 9, n),
            "colour": rng.choice(["red", "green", "blue"], n),
            "grade": pd.Categorical.from_codes(rng.integers(0, 4, n), dtype=grade),
            "member": rng.random(n) < 0.4,
            "birthplace": rng.choice(["here", "there"], n),
            "years": rng.integers(18, 80, n),
        }
    )


def mixed_space(rows: pd.DataFrame) -> FeatureSpace:
    """Steps off zero, bounds narrower than the data, directions on numbers and on an ordered category."""
    return FeatureSpace.infer(
        rows,
        immutable=["birthplace"],
        increase_only=["grade", "years"],
        decrease_only=["single"],
        bounds={"smooth": (-3.0, 5.0), "colour": ["red", "green"]},
        steps={"tenths": 0.25, "count": 2},
    )


def mixed_signal(rows: pd.DataFrame) -> np.ndarray:
    signal = 0.5 * rows["smooth"] - 0.4 * rows["tenths"] + 0.6 * rows["single"].astype(float) + 0.2 * rows["count"]
    signal += rows["colour"].map({"red": -0.8, "green": 0.0, "blue": 0.9}).astype(float)
    signal += 0.4 * rows["grade"].cat.codes + 0.5 * rows["member"] - 0.03 * rows["years"]
    return signal.to_numpy(dtype=np.float64)


def mixed_probabilities(rows: pd.DataFrame) -> np.ndarray:
    signal = mixed_signal(rows)
    logits = np.column_stack([signal, -signal, 0.3 * rows["tenths"].to_numpy() - 0.5])
    exponents = np.exp(logits - logits.max(axis=1, keepdims=True))
    return exponents / exponents.sum(axis=1, keepdims=True)


def mixed_labels(rows: pd.DataFrame) -> np.ndarray:
    return np.array(["no", "yes"])[(mixed_signal(rows) > 0).astype(int)]
