"""Whether answers last: the same model fitted again, and the same query a little otherwise.

*Future validity* (Upadhyay, Joshi and Lakkaraju 2021; Pawelczyk and others): a counterfactual is worth less if it holds
only until the model is trained again. *Stability*: two people who hardly differ should not be told different things
(Artelt and others 2021; Slack and others 2021).
"""

from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone, is_classifier

from relax_plugin.arrays import Array, Booleans, Floats, Integers, Values
from relax_plugin.blackbox import BlackBox
from relax_plugin.bound_goal import BoundGoal
from relax_plugin.errors import InputError, UnsupportedError
from relax_plugin.evaluation.tasks import Task
from relax_plugin.evaluation.whole_rows import WholeRows
from relax_plugin.features import FeatureSpace
from relax_plugin.other_models import FurtherModel, further_models

REFITS = 5  # models fitted again that judge answers
FIRST_SEED = 1000  # of these, beyond those that tasks are made with
FIRST_TOLD = 2000  # of models that a method is told of: never those that judge it
NOISE = 0.05  # standard deviations of each number, by which a query is made a little otherwise
NOISY_ROWS = 20  # queries at most that are explained again so
DRAWS = 10  # of noise, for rows that a rule refuses


def future_validity(met: Booleans) -> Floats:
    """Share of the models fitted again for which each counterfactual still meets its goal (n,); NaN without models.

    `met` says so of each model and counterfactual (models, n).
    """
    return np.asarray(met.mean(axis=0)) if len(met) else np.full(met.shape[1], np.nan)


def can_be_refitted(task: Task) -> bool:
    """Whether a task's model can be trained again: it has the manners of scikit-learn, and its targets are known."""
    manners = all(hasattr(task.model, name) for name in ("get_params", "set_params", "fit"))
    return manners and len(task.y_train) == len(task.X_train)


def refit(task: Task, seed: int) -> Any:
    """The task's model on a bootstrap sample of its training rows, with another seed."""
    labels = np.asarray(task.y_train)
    rows = bootstrap(labels, seed, every_class=is_classifier(task.model))
    model = clone(task.model)
    random = {name: seed for name in model.get_params() if name.endswith("random_state")}
    return model.set_params(**random).fit(task.X_train.iloc[rows], labels[rows])


def bootstrap(labels: Array, seed: int, *, every_class: bool) -> Integers:
    """Positions drawn with replacement, as many as there are; drawn again as long as a class that must be in is not."""
    rng = np.random.default_rng(seed)
    classes = set(labels.tolist()) if every_class else set()
    while True:
        rows = rng.integers(0, len(labels), len(labels))
        if not classes or set(labels[rows].tolist()) == classes:
            return rows


def refits(task: Task, blackbox: BlackBox, training: Values, count: int = REFITS) -> tuple[FurtherModel, ...]:
    """The models that judge answers; none if the task's cannot be trained again.

    The BlackBox of its model has learned the classes, and `training` are the values of its training rows.
    """
    if not can_be_refitted(task):
        return ()
    assert blackbox.space is not None
    models = [refit(task, FIRST_SEED + number) for number in range(count)]
    return further_models(models, blackbox, blackbox.space, training)


def told_models(task: Task, count: int) -> list[Any]:
    """Models fitted again that a method may look at (`relax-global:also=2`); none of them judges it.

    This is what ROAR asks for (Upadhyay, Joshi and Lakkaraju 2021), an answer that outlasts a shift of the model, with
    models in the place of a ball of weights, so that any kind of model will do.
    """
    if count < 1:
        raise InputError(f"also is {count}; a benchmark takes a number of models fitted again, such as also=2.")
    if not can_be_refitted(task):
        raise UnsupportedError(f"the model of {task.name} cannot be fitted again, which also={count} asks for.")
    return [refit(task, FIRST_TOLD + number) for number in range(count)]


def met_by(models: tuple[FurtherModel, ...], space: FeatureSpace, rows: pd.DataFrame, goal: BoundGoal) -> Booleans:
    """Whether each of the models gives each row an answer that meets its goal (models, n)."""
    if len(rows) == 0:
        return np.zeros((len(models), 0), dtype=bool)
    over = [FurtherModel(model.blackbox.over(space), model.model) for model in models]
    answers = [model.met(goal, model.confirm(rows)) for model in over]
    return np.array(answers, dtype=bool).reshape(len(models), len(rows))


def noisy(space: FeatureSpace, queries: pd.DataFrame, seed: int, size: float = NOISE) -> tuple[pd.DataFrame, Booleans]:
    """The queries a little otherwise, and which of them are: each number moved by normal noise, then rounded.

    The deviation of the noise, `size` standard deviations of each number, is at least half a step of the number's grid,
    or nothing would move where it is coarse. Categories and missing cells stay, numbers stay within their bounds,
    derived columns are computed anew. Noise that breaks a rule or moves nothing is drawn again some times; a row
    that it never suits stays as it is.
    """
    rng = np.random.default_rng([seed, *b"noise"])
    space, start = space.taking_in(queries)
    queries = space.frame(queries)
    values, other = start.copy(), np.zeros(len(start), dtype=bool)
    for _ in range(DRAWS):
        drawn = _moved(space, start, rng.standard_normal(start.shape), size)
        frame = space.frame(space.restore(drawn, queries, start))
        suits = (WholeRows(space, queries, frame).broken_rules() == 0) & (drawn != start).any(axis=1) & ~other
        values[suits] = drawn[suits]
        other |= suits
        if other.all():
            break
    return space.frame(space.restore(values, queries, start)), other


def _moved(space: FeatureSpace, start: Values, noise: Floats, size: float) -> Values:
    deviation = np.maximum(size * space.scale, 0.5 * space.grid.step)
    moved = space.limits().inside(start + noise * deviation)
    carried = np.array([feature.carried for feature in space.features], dtype=bool)
    return np.where(space.is_categorical | carried | space.is_missing(start), start, moved)
