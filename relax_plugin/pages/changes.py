"""Which features the counterfactuals of tidy rows change: how often, and upwards or downwards."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

MOST_ANSWERS = 4  # with more classes reached than that, all are taken together
ONE_WAY = 1 / 3  # mean sign from which on changes are called upward or downward


def change_shares(rows: pd.DataFrame, methods: Sequence[str]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Two tables of features × methods: the share of valid counterfactuals that change it, and the mean sign.

    The sign is NaN for categories. Features that are changed most often come first; methods without a valid
    counterfactual are left out.
    """
    valid = rows[rows["valid"].astype(bool)]
    kept = [method for method in methods if (valid["method"] == method).any()]
    found = [
        (method, str(name), sign(old, new))
        for method, changes in zip(valid["method"], valid["changes"], strict=True)
        for name, old, new in json.loads(changes)
    ]
    cells = pd.DataFrame(found, columns=["method", "feature", "sign"]).groupby(["feature", "method"])["sign"]
    shares = cells.size().unstack(fill_value=0).reindex(columns=kept, fill_value=0)
    shares = shares / valid["method"].value_counts().reindex(kept)
    shares = shares.loc[shares.sum(axis=1).sort_values(ascending=False, kind="stable").index]
    return shares, cells.mean().unstack().reindex(index=shares.index, columns=kept)


def by_answer(task: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """The valid rows of a task by the answer reached; of a regressor, by whether it is higher or lower."""
    valid = task[task["valid"].astype(bool)]
    answers = valid["after"].astype(str)
    before, after = (pd.to_numeric(valid[name], errors="coerce") for name in ("before", "after"))
    if answers.nunique() > MOST_ANSWERS and not (before - after).isna().any():
        answers = (after > before).map({True: "higher", False: "lower"})
    if not 1 <= answers.nunique() <= MOST_ANSWERS:
        return [("", valid)]
    return [(f" → {answer}", part) for answer, part in valid.groupby(answers)]


def sign(old: Any, new: Any) -> float:
    """Whether a number grew or shrank; NaN for categories, truth values among them."""
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in (old, new))
    return float(np.sign(new - old)) if numbers else float("nan")


def arrow(mean_sign: float) -> str:
    """▲ mostly upwards, ▼ mostly downwards, ↕ both; ◆ a category."""
    if np.isnan(mean_sign):
        return "◆"
    return "▲" if mean_sign > ONE_WAY else "▼" if mean_sign < -ONE_WAY else "↕"
