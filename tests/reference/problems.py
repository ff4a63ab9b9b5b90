"""Problems small enough to follow by hand: queries of a regressor that is to reach 1."""

from collections.abc import Callable
from typing import Any

import numpy as np

from relax_plugin import BlackBox, FeatureSpace, Goal
from relax_plugin.problem import Problem

TRAINING = np.array([[0.001234567, 0.0012345, 0.0012345], [10.0012345, 10.0012345, 10.0012345]])
ORIGIN = [[0.0, 0.0, 0.0]]


def problem_of(
    function: Callable[[Any], Any],
    start: Any,
    rows: Any = TRAINING,
    goal: Goal | None = None,
    max_changes: int = 3,
    **space_options: Any,
) -> Problem:
    """The queries `start` of a regressor that is to reach 1, or another goal."""
    space = FeatureSpace.infer(rows, **space_options)
    box = BlackBox(lambda rows: function(np.asarray(rows, dtype=float)), space, task="regression")
    start = np.array(start, dtype=float)
    before = box.ask(start)
    bound = (goal or Goal.between(1, np.inf)).bind(box, before)
    return Problem(space, box, start, before, bound, space.limits(), max_changes, np.zeros(len(start), dtype=np.int64))
