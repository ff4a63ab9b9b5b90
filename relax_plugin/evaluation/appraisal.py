"""What the judge tells of counterfactuals beside their validity: how real they look, and whether they last."""

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from relax_plugin.arrays import Floats, Integers, Values
from relax_plugin.base import CounterfactualExplainer
from relax_plugin.blackbox import Answer, BlackBox
from relax_plugin.evaluation import metrics, realism, robustness
from relax_plugin.evaluation.tasks import Task
from relax_plugin.evaluation.yardsticks import Yardsticks
from relax_plugin.features import FeatureSpace
from relax_plugin.goal import BoundGoal, Goal
from relax_plugin.results import Counterfactuals


def realism_columns(
    yardsticks: Yardsticks,
    space: FeatureSpace,
    rows: pd.DataFrame,
    pair: tuple[Values, Values],
    answer: Answer,
    prices: Mapping[Hashable, float],
) -> dict[str, Floats]:
    """How real some counterfactuals look, and what they cost: a number a row, by the name of its column.

    The space knows all cells of the rows, which are counterfactuals in the user's dtypes; `pair` are the values of the
    queries, and of the counterfactuals; the prices are of the unit, those of other features the space's own.
    """
    start, values = pair
    own = {feature.name: feature.cost for feature in space.features}
    told = {name: np.asarray(detector(rows), dtype=np.float64) for name, detector in yardsticks.detectors.items()}
    return told | {
        "ynn": yardsticks.ynn(values, answer.output),
        "cost": metrics.cost(space, own | dict(prices), start, values),
        "percentile_shift": realism.percentile_shift(space, start, values, yardsticks.training),
        "edge_cells": realism.edge_cells(space, start, values, yardsticks.training),
        "unseen_cells": realism.unseen_cells(start, values, yardsticks.training),
    }


def lasting(yardsticks: Yardsticks, space: FeatureSpace, rows: pd.DataFrame, goal: BoundGoal) -> Floats:
    """Future validity of counterfactuals with these goals (n,)."""
    return robustness.future_validity(robustness.met_by(yardsticks.refits, space, rows, goal))


class AgainWithNoise:
    """The counterfactuals of the same queries a little otherwise, with the same noise for every method."""

    def __init__(self, task: Task, queries: pd.DataFrame, seed: int) -> None:
        self.task, self.queries = task, queries.iloc[: robustness.NOISY_ROWS]
        self.rows, self.other = robustness.noisy(task.space, self.queries, seed)

    def explained(self, explainer: CounterfactualExplainer, vary: Any) -> Counterfactuals:
        """What the method answers to them."""
        return explainer.explain(self.rows.copy(), goal=self.task.goal_of(len(self.rows)), vary=vary)

    def distance(self, blackbox: BlackBox, first: Counterfactuals, again: Counterfactuals) -> tuple[Integers, Floats]:
        """Positions of queries, and how far their counterfactuals lie from those of the same with noise.

        Only of queries that both times have an answer that the model confirms, and to which it gave the same answer
        with noise as without; a regressor's answers move with any noise, and may.
        """
        before = [blackbox.confirm(rows, mark_refused=True) for rows in (self.queries, self.rows)]
        goal = self.task.goal_of(len(self.rows)) or Goal.flip()
        same = self.other & before[0].answered & before[1].answered
        if blackbox.task == "classification":
            same &= before[0].output == before[1].output
        values = np.full((2, len(self.rows), len(self.task.space)), np.nan)
        for at, result in enumerate((first, again)):
            frame = result.frame[(result.frame["cf_id"] == 0) & (result.frame["query_id"] < len(self.rows))]
            met = np.zeros(len(self.rows), dtype=bool)
            if len(frame):
                query = frame["query_id"].to_numpy()
                delivered = frame[self.task.space.columns]
                answer = blackbox.confirm(delivered, mark_refused=True)
                met[query] = goal.bind(blackbox, before[at]).take(query).met(answer)
                values[at, query] = self.task.space.taking_in(delivered)[1]
            same &= met
        ids = np.flatnonzero(same)
        return ids, metrics.proximity(self.task.space, values[0, ids], values[1, ids])
