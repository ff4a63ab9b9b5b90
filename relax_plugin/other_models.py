"""Other models: an answer shall hold for each of them too, such as for the same model fitted again."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from relax_plugin.answers import Answer
from relax_plugin.arrays import Booleans, Values
from relax_plugin.blackbox import BlackBox
from relax_plugin.bound_goal import BoundGoal
from relax_plugin.errors import GoalError, InputError
from relax_plugin.features import FeatureSpace, Rows

ASKED_ONCE = 64  # training rows by which a further model tells its classes


@dataclass(frozen=True)
class FurtherModel:
    """One of them, whose answers are given in the classes of the model that is explained."""

    blackbox: BlackBox
    model: BlackBox  # the one that is explained

    def ask(self, values: Values) -> Answer:
        return self._translated(self.blackbox.ask(values, mark_refused=True))

    def confirm(self, rows: Rows) -> Answer:
        return self._translated(self.blackbox.confirm(rows, mark_refused=True))

    def met(self, goal: BoundGoal, answer: Answer) -> Booleans:
        """Whether its answers meet the goals that were bound to the answers of the explained model."""
        if goal.needs_scores and not self.blackbox.has_probabilities:
            name = type(self.blackbox.model).__name__
            raise GoalError(f"the goal needs probabilities, and the further model {name} gives none.")
        return goal.met(answer)

    @property
    def comparable(self) -> bool:
        """Whether its scores are of the kind of the explained model's."""
        kinds = {(one.has_scores, one.reader.score_kind) for one in (self.blackbox, self.model)}
        return len(kinds) == 1

    def _translated(self, answer: Answer) -> Answer:
        if self.model.task == "regression":
            return answer
        own, theirs = self.model.classes, self.blackbox.classes
        assert own is not None and theirs is not None
        places = self.model.positions(theirs.tolist())
        codes = np.where(answer.output >= 0, places[np.maximum(answer.output, 0).astype(int)], -1.0)
        scores = None
        if answer.scores is not None:
            scores = np.empty_like(answer.scores)
            scores[:, places] = answer.scores
        return Answer(codes.astype(np.float64), scores, answer.refused)


def check_models(models: Any) -> None:
    """Refuse what is no list of models, by a sentence."""
    # One can go through the trees of a forest, and only once through what a generator gives.
    alone = isinstance(models, str | Iterator) or hasattr(models, "predict")
    if alone or not isinstance(models, Iterable) or not all(map(_is_model, models)):
        raise InputError(f"also is {models!r}; a list of models is needed.")


def further_models(models: Any, model: BlackBox, space: FeatureSpace, known: Values) -> tuple[FurtherModel, ...]:
    """The models of `also=[...]`, each asked a few training rows, refused if they answer to another question."""
    check_models(models)
    made = []
    for number, one in enumerate(models):
        blackbox = one.bound_to(space) if isinstance(one, BlackBox) else BlackBox(one, space, task=_task(one, model))
        blackbox.learn_answered(known[:ASKED_ONCE])
        if blackbox.task != model.task:
            raise InputError(f"model {number} of also is for {blackbox.task}, and the explained one for {model.task}.")
        if not blackbox.has_scores and blackbox.task == "classification":
            blackbox.learn_more_classes(known)
        if blackbox.task == "regression":
            made.append(FurtherModel(blackbox, model))
            continue
        classes = [] if blackbox.classes is None else blackbox.classes.tolist()
        strange = [label for label, place in zip(classes, model.positions(classes), strict=True) if place < 0]
        if strange or (blackbox.has_scores and model.classes is not None and len(classes) != len(model.classes)):
            own = None if model.classes is None else model.classes.tolist()
            raise InputError(f"model {number} of also has the classes {classes}; accepted are {own}.")
        made.append(FurtherModel(blackbox, model))
    return tuple(made)


def _is_model(one: Any) -> bool:
    return isinstance(one, BlackBox) or callable(one) or hasattr(one, "predict")


def _task(one: Any, model: BlackBox) -> Any:
    return "auto" if hasattr(one, "__sklearn_tags__") or hasattr(one, "_estimator_type") else model.task
