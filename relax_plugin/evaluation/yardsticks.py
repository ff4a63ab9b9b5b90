"""What the judge holds counterfactuals of a task against, made once a task and process and used for every method.

The model's answers to the training rows, the nearest of these, detectors of outliers, models fitted again; and beside
each what real test rows have of it, since no number of plausibility says anything alone.
"""

from functools import lru_cache

import numpy as np

from relax_plugin.arrays import Floats, Values
from relax_plugin.blackbox import BlackBox
from relax_plugin.cached import cached_property
from relax_plugin.evaluation import realism, robustness
from relax_plugin.evaluation.detectors import Detector, detector_of
from relax_plugin.evaluation.schema import Row
from relax_plugin.evaluation.tasks import Task
from relax_plugin.goal import Goal
from relax_plugin.other_models import FurtherModel

NEIGHBOURS = 5  # training rows that plausibility is measured by
REAL_ROWS = 500  # test rows at most that stand for all real ones, the first
LEAST_ROWS = 3  # distinct training rows, below which nobody tells outliers


class Yardsticks:
    """The judge's own view of a task."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.space, self.training = task.space.taking_in(task.X_train)
        self.blackbox = BlackBox(task.model, self.space)
        answered, answer = self.blackbox.learn_answered(self.training)
        self.training, self.known = self.training[answered], answer.output

    @property
    def classifies(self) -> bool:
        return self.blackbox.task == "classification"

    @cached_property
    def neighbours(self) -> realism.Neighbours:
        return realism.Neighbours(self.space, self.training)

    @cached_property
    def detectors(self) -> dict[str, Detector]:
        """Who tells outliers, by the name of the column of the rows; nobody where there are too few rows."""
        if len(self.task.X_train.drop_duplicates()) < LEAST_ROWS:
            return {}
        return {name: detector_of(self.task, "training", kind) for name, kind in DETECTORS.items()}

    @cached_property
    def refits(self) -> tuple[FurtherModel, ...]:
        """Models fitted again, none of which any method has seen."""
        return robustness.refits(self.task, self.blackbox, self.training)

    @cached_property
    def real(self) -> Row:
        """What the first test rows have of the same numbers."""
        rows = self.task.X_test.iloc[:REAL_ROWS]
        if len(rows) == 0:
            return {}
        told = {f"real_{name}": float(detector(rows).mean()) for name, detector in self.detectors.items()}
        if self.classifies:
            space, values = self.space.taking_in(rows)
            answer = self.blackbox.over(space).ask(values, mark_refused=True)
            told["real_ynn"] = float(self.ynn(values, answer.output)[answer.answered].mean())
        return told

    @cached_property
    def real_lasting(self) -> float:
        """Share of the test rows' answers that models fitted again keep; of a regressor NaN, whose answers all move."""
        rows = self.task.X_test.iloc[:REAL_ROWS]
        if not self.refits or not self.classifies or len(rows) == 0:
            return float("nan")
        space, _ = self.space.taking_in(rows)
        own = self.blackbox.over(space).confirm(rows, mark_refused=True)
        other = Goal.flip().bind(self.blackbox, own)
        return float(1.0 - robustness.met_by(self.refits, space, rows, other)[:, own.answered].mean())

    def ynn(self, values: Values, reached: Floats) -> Floats:
        """yNN of rows with these answers; of a regressor, whose answers are no classes, NaN."""
        if not self.classifies:
            return np.full(len(values), np.nan)
        return realism.ynn(self.neighbours.nearest(values, NEIGHBOURS), self.known, reached)


DETECTORS = {"local_outlier": "lof", "isolated": "forest"}  # column of the rows -> kind of detector


@lru_cache(maxsize=4)
def yardsticks_of(task: Task) -> Yardsticks:
    """Those of a task, made once."""
    return Yardsticks(task)
